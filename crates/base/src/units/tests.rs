use super::*;
use alloc::string::ToString;
use proptest::prelude::*;

fn check<T: FromStr<Err = UnitError> + fmt::Display>(cases: &[(&str, &str)]) {
    for (text, printed) in cases {
        match text.parse::<T>() {
            Ok(value) => assert_eq!(&value.to_string(), printed, "`{text}`"),
            Err(error) => assert!(
                error.to_string().contains(printed),
                "`{text}` gave: {error}; expected: {printed}"
            ),
        }
    }
}

#[test]
fn rates() {
    check::<Rate>(&[
        ("25mbit", "25mbit"),
        ("12.5mbyte", "100mbit"),
        ("0.5gbit", "500mbit"),
        ("2.5gbit", "2.5gbit"),
        ("1mibit", "1048.576kbit"),
        ("10Gbit", "10gbit"),
        ("25mbps", "write `mbit` or `mbyte`"),
        ("25", "has no unit"),
        ("mbit", "does not begin with a number"),
        ("0mbit", "out of range"),
        ("99999999999999gbit", "out of range"),
        ("1.2.3mbit", "does not begin with a number"),
        ("5furlongs", "unknown unit `furlongs`"),
        ("10Mbit/s", "10mbit"),
        ("94.1 Mbit/s", "94.1mbit"),
        ("2.33 Tbit/s", "2330gbit"),
        ("5Mb/s", "unknown unit `Mb/s`"),
    ]);
}

#[test]
fn sizes_queues_and_fractions() {
    check::<Bytes>(&[
        ("64KiB", "64KiB"),
        ("64kB", "64000B"),
        ("1500", "1500B"),
        ("4MiB", "4MiB"),
        ("64K", "KiB` or `kB"),
        ("100 MB", "100000000B"),
        ("1.25 MiB", "1280KiB"),
        ("2TiB", "2048GiB"),
        ("65536 bytes", "64KiB"),
    ]);
    check::<QueueLimit>(&[
        ("1000p", "1000p"),
        ("64KiB", "64KiB"),
        ("1000", "has no unit"),
        ("0p", "out of range"),
    ]);
    check::<Fraction>(&[
        ("0.1%", "0.1%"),
        ("100%", "100%"),
        ("0", "0%"),
        ("0.0000001%", "0.0000001%"),
        ("101%", "out of range"),
        ("0.5", "has no unit"),
    ]);
}

#[test]
fn durations() {
    let print = |text| {
        parse_duration(text)
            .map(format_duration)
            .map_err(|e| e.to_string())
    };
    assert_eq!(print("1.58ms").as_deref(), Ok("1.58ms"));
    assert_eq!(print("0.25ms").as_deref(), Ok("250us"));
    assert_eq!(print("90s").as_deref(), Ok("90s"));
    assert_eq!(print("2m").as_deref(), Ok("120s"));
    assert!(print("40").is_err_and(|e| e.contains("no unit")));
    assert_eq!(print("1 h 52 min").as_deref(), Ok("6720s"));
    assert_eq!(print("1h30m5s").as_deref(), Ok("5405s"));
    assert!(print("1h30").is_err_and(|e| e.contains("no unit")));
    assert!(print("5124095h 5124095h").is_err_and(|e| e.contains("out of range")));
}

#[test]
fn the_length_of_a_measurement_may_be_bare_seconds() {
    let print = |text| parse_time(text).map(format_duration);
    assert_eq!(print("5").as_deref(), Ok("5s"));
    assert_eq!(print("0.5").as_deref(), Ok("500ms"));
    assert_eq!(print("5s").as_deref(), Ok("5s"));
    assert_eq!(print("500ms").as_deref(), Ok("500ms"));
    for bad in ["", ".", "5x", "-5", "five"] {
        print(bad).expect_err(bad);
    }
}

proptest! {
    /// What people are shown, to three digits, they may type.
    #[test]
    fn what_is_shown_is_read(value in 0_u64..1 << 50) {
        let near = |read: u64| read.abs_diff(value) <= value / 100 + 1;
        prop_assert!(near(crate::human::bytes(value).parse::<Bytes>().expect("bytes").0));
        prop_assert!(near(crate::human::count(value, "byte").parse::<Bytes>().expect("bytes").0));
        let shown = crate::human::bps(value.max(1));
        let rate = shown.parse::<Rate>().expect("a rate").bits_per_second();
        prop_assert!(near(rate), "{}", shown);
        let time = Duration::from_micros(value);
        let micros = |text: &str| parse_duration(text).expect("a time").as_micros() as u64;
        prop_assert!(near(micros(&crate::human::time(time))));
        let long = micros(&crate::human::long_time(time));
        prop_assert!(long.abs_diff(value) <= value / 100 + 30_000_001);
    }
}

#[test]
fn serialisation_never_drifts() {
    let rate: Rate = "3mbit".parse().expect("a rate");
    let (mut total, mut carry) = (Duration::ZERO, 0);
    for _ in 0..3_000 {
        let (time, rest) = rate.serialize(1_000, carry);
        total += time;
        carry = rest;
    }
    assert_eq!(total, Duration::from_secs(8));
}

proptest! {
    #[test]
    fn print_and_parse_round_trip(bits in 1..=u64::MAX, parts in 0..=1_000_000_000_u32) {
        let rate = Rate::from_bits_per_second(bits);
        prop_assert_eq!(rate.to_string().parse::<Rate>(), Ok(rate));
        prop_assert_eq!(Bytes(bits).to_string().parse::<Bytes>(), Ok(Bytes(bits)));
        let time = Duration::from_nanos(bits);
        prop_assert_eq!(parse_duration(&format_duration(time)), Ok(time));
        let fraction = Fraction::from_parts(parts);
        prop_assert_eq!(fraction.to_string().parse::<Fraction>(), Ok(fraction));
    }

    #[test]
    fn hostile_text_is_an_error_and_not_a_panic(text in "\\PC{0,40}") {
        let _ = text.parse::<Rate>();
        let _ = text.parse::<Bytes>();
        let _ = text.parse::<QueueLimit>();
        let _ = text.parse::<Fraction>();
        let _ = parse_duration(&text);
    }
}
