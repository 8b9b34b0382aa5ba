mod pipe;

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use base::settings::HyStart;
use proptest::prelude::{Strategy, any, prop, prop_assert, proptest};

use super::testing::limited;
use super::*;
use crate::profile;
use pipe::{Path, Pipe, Row};

/// Windows at the ends of round trips, ten in a line.
fn table(rows: &[Row]) -> String {
    let line = |rows: &[Row]| {
        rows.iter()
            .map(|row| format!("{:5}", row.window.cwnd))
            .collect::<String>()
    };
    rows.chunks(10).map(|rows| line(rows) + "\n").collect()
}

#[track_caller]
fn check_table(actual: &str, expected: &str) {
    let lines = |text: &str| -> Vec<String> {
        let lines = text.lines().map(|line| line.trim().into());
        lines.filter(|line: &String| !line.is_empty()).collect()
    };
    assert_eq!(lines(actual), lines(expected), "\n{actual}");
}

fn curve(path: Path, controller: impl CongestionControl + 'static, rounds: usize) -> String {
    table(&Pipe::new(path, Box::new(controller)).rounds(rounds))
}

#[test]
fn c4_slow_start_grows_only_where_the_window_is_used() {
    for (out, expected) in [(6, true), (5, false)] {
        let mut window = Window::new(10);
        window.max_packets_out = out;
        assert_eq!(window.may_grow(), expected, "{out} packets out");
        window.ssthresh = 10;
        assert!(!window.may_grow(), "congestion avoidance needs all of it");
    }
    assert!(limited(10, 10).may_grow());
}

#[test]
fn newreno_curve() {
    // 100 packets fill the pipe, 100 more the queue.
    check_table(
        &curve(Path::thousand(100), NewReno::new(true), 60),
        "
           11   21   41   81  161  321  201  201  101  101
          102  103  104  105  106  107  108  109  110  111
          112  113  114  115  116  117  118  119  120  121
          122  123  124  125  126  127  128  129  130  131
          132  133  134  135  136  137  138  139  140  141
          142  143  144  145  146  147  148  149  150  151
        ",
    );
}

#[test]
fn cubic_curve() {
    let cubic = Cubic::new(HyStart::Off, true);
    check_table(
        &curve(Path::thousand(100), cubic, 60),
        "
           11   21   41   81  161  321  282  283  201  202
          144  144  147  150  153  155  158  160  162  164
          166  167  169  170  171  172  173  174  174  175
          175  175  175  175  175  175  175  175  175  175
          175  175  175  175  176  176  177  177  178  179
          180  181  182  184  186  188  190  193  196  199
        ",
    );
}

#[test]
fn cubic_curve_on_a_long_path() {
    // 10 000 packets per second, 200 ms: 2000 packets fill it, and the cubic part rules.
    let mut path = Path::thousand(1_000);
    path.packet_time = Duration::from_micros(100);
    path.rtt = Duration::from_millis(200);
    check_table(
        &curve(path, Cubic::new(HyStart::Off, true), 120),
        "
           11   21   41   81  161  321  641 1281 2561 3193
         3193 3229 2277 2292 2320 2348 2376 2403 2429 2454
         2478 2501 2523 2543 2563 2582 2599 2616 2631 2646
         2659 2672 2683 2694 2703 2712 2720 2728 2734 2739
         2744 2748 2752 2755 2758 2760 2761 2762 2763 2764
         2764 2764 2764 2764 2764 2764 2764 2764 2765 2766
         2767 2768 2770 2772 2774 2777 2781 2785 2790 2796
         2803 2811 2819 2829 2839 2851 2863 2878 2893 2910
         2929 2949 2971 2995 3020 2120 2144 2186 2227 2268
         2308 2348 2387 2424 2461 2497 2532 2566 2598 2630
         2660 2689 2717 2743 2768 2792 2815 2836 2856 2875
         2892 2908 2923 2937 2949 2960 2971 2980 2988 2996
        ",
    );
}

#[test]
fn hystart_curves() {
    // Off, as Linux has it, and RFC 9406, which is sure only when the queue stands.
    let kinds = [HyStart::Off, HyStart::Classic, HyStart::PlusPlus];
    let tables = kinds.map(|hystart| curve(Path::thousand(200), Cubic::new(hystart, true), 20));
    check_table(
        &tables.join("\n"),
        "
           11   21   41   81  161  321  422  422  428  301
          305  216  216  221  226  231  236  240  244  248

           11   21   41   81  133  140  147  154  162  170
          178  187  197  206  217  227  239  251  263  276

           11   21   41   81  155  295  368  263  268  278
          289  300  311  218  221  226  231  236  241  245
        ",
    );
}

#[test]
fn c8_slow_start_is_left_by_the_ack_train() {
    // 1 Gbit/s, 40 ms, queue of 4000. Linux left at 3904 and 4210.
    let path = Path {
        packet_time: Duration::from_nanos(12_112),
        rtt: Duration::from_millis(40),
        queue_packets_max: 4_000,
        lost_one_of: 0,
        policer: None,
    };
    let cubic = Cubic::new(HyStart::Classic, true);
    let rows = Pipe::new(path, Box::new(cubic)).rounds(14);
    let threshold = rows.last().expect("rows").window.ssthresh;
    assert!((3_700..4_400).contains(&threshold), "left at {threshold}");
}

fn bbr(path: Path) -> Pipe {
    Pipe::new(path, Box::new(Bbr::new(Rng::new(1, "test"))))
}

/// Gains, window and bandwidth (packets per second) at the ends of round trips; lines that follow
/// each other and are the same appear once.
fn bbr_table(rows: &[Row]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for row in rows {
        let state = row.controller.expect("BBR tells its state");
        let line = format!(
            "{:4} {:4} {:5} {:5} {:4}ms\n",
            state.pacing_gain,
            state.cwnd_gain,
            row.window.cwnd,
            state.bandwidth.bits_per_second() / u64::from(pipe::MSS * 8),
            state.min_rtt.as_millis(),
        );
        lines.push(line);
    }
    lines.dedup();
    lines.concat()
}

#[test]
fn bbr_curve() {
    check_table(
        &bbr_table(&bbr(Path::thousand(1_000)).rounds(30)),
        "
         739  739    11     9  101ms
         739  739    21    99  101ms
         739  739    41   198  101ms
         739  739    72   304  101ms
         739  739   132   591  101ms
         739  739   261   990  101ms
         739  739   298   999  101ms
          88  739   299   999  101ms
         256  512   220   999  101ms
         320  512   222   999  101ms
         192  512   220   999  101ms
         256  512   220   999  101ms
         256  512   210   999  101ms
         320  512   212   999  101ms
         192  512   210   999  101ms
         256  512   210   999  101ms
         320  512   212   999  101ms
         192  512   210   999  101ms
         256  512   210   999  101ms
        ",
    );
}

/// Times of the round trips that satisfy `is_so`, from first to last of each run of them, in
/// milliseconds since the start.
fn spans(rows: &[Row], is_so: impl Fn(&Row) -> bool) -> String {
    let runs = rows.chunk_by(|one, next| is_so(one) == is_so(next));
    let millis = |row: &Row| row.now.as_nanos() / 1_000_000 - 1_000;
    runs.filter(|run| is_so(&run[0]))
        .map(|run| format!("{:6} {:6}\n", millis(&run[0]), millis(&run[run.len() - 1])))
        .collect()
}

#[test]
fn bbr_probes_the_round_trip_every_ten_seconds() {
    let rows = bbr(Path::thousand(1_000)).run_for(Duration::from_secs(35));
    check_table(
        &spans(&rows, |row| row.window.cwnd == 4),
        "
         10180  10303
         20412  20606
         30715  30909
        ",
    );
}

/// Packets per second that arrived and that were lost between the two rows.
fn rates(from: &Row, to: &Row) -> (u64, u64) {
    let millis = to.now.since(from.now).as_millis() as u64;
    let per_second = |packets: u64| packets * 1_000 / millis;
    (
        per_second(to.delivered - from.delivered),
        per_second(to.lost - from.lost),
    )
}

#[test]
fn bbr_does_not_yield_to_random_loss() {
    let mut path = Path::thousand(100);
    path.lost_one_of = 100;
    let check = |pipe: &mut Pipe, expected: (u64, u64)| {
        let rows = pipe.run_for(Duration::from_secs(60));
        assert_eq!(rates(&rows[20], &rows[rows.len() - 1]), expected);
    };
    check(&mut bbr(path.clone()), (959, 9));
    let cubic = Cubic::new(HyStart::Classic, true);
    check(&mut Pipe::new(path, Box::new(cubic)), (101, 1));
}

#[test]
fn bbr_follows_a_change_of_bandwidth() {
    let mut pipe = bbr(Path::thousand(1_000));
    pipe.rounds(30);
    pipe.path.packet_time = Duration::from_millis(2);
    let slower = pipe.rounds(14);
    pipe.path.packet_time = Duration::from_micros(500);
    let faster = pipe.rounds(40);
    let tables = [bbr_table(&slower), bbr_table(&faster)];
    check_table(
        &tables.join("\n"),
        "
         256  512   210   999  101ms
         256  512   110   499  101ms
         320  512   112   499  101ms

         256  512   110   503  101ms
         256  512   160   553  100ms
         320  512   162   553  100ms
         320  512   185   667  100ms
         320  512   200   743  100ms
         320  512   224   865  100ms
         320  512   246  1001  100ms
         320  512   274  1146  100ms
         320  512   310  1326  100ms
         320  512   352  1529  100ms
         320  512   398  1760  100ms
         320  512   412  1978  100ms
         192  512   414  1999  100ms
         256  512   414  1999  100ms
         256  512   410  1999  100ms
         320  512   412  1999  100ms
         256  512   410  1999  100ms
         320  512   412  1999  100ms
         192  512   410  1999  100ms
         256  512   410  1999  100ms
         320  512   412  1999  100ms
         192  512   410  1999  100ms
        ",
    );
}

#[test]
fn bbr_finds_a_policer() {
    // A wire of 1000 packets per second behind a policer of 200 with a burst of 40.
    let mut path = Path::thousand(1_000);
    path.policer = Some((Duration::from_millis(5), 40));
    let rows = bbr(path).run_for(Duration::from_secs(20));
    check_table(
        &bbr_table(&rows[..80]),
        "
         739  739    11     9  101ms
         739  739    21    99  101ms
         739  739    41   198  101ms
         739  739    72   304  101ms
         739  739    97   514  101ms
         739  739   121   514  101ms
         739  739   110   514  101ms
         739  739   142   514  101ms
          88  739   120   514  101ms
         256  512   122   514  101ms
         256  512    46   514  101ms
         320  512    23   514  101ms
         256  512    49   199  101ms
         256  512    50   199  101ms
         256  512    52   199  101ms
         256  512    48   199  101ms
         256  512    50   199  101ms
         256  512    48   199  101ms
         256  512    50   199  101ms
         256  512    48   199  101ms
         256  512    50   199  101ms
         256  512    48   199  101ms
         256  512    50   199  101ms
         256  512    48   199  101ms
         256  512    50   199  101ms
         256  512    48   197  101ms
         320  512    50   197  101ms
         320  512    52   201  101ms
         320  512    62   244  101ms
         320  512    68   277  101ms
         256  512    22   277  101ms
         256  512    23   277  101ms
         256  512    66   277  101ms
         320  512    23   277  101ms
         256  512    22   277  101ms
         256  512    21   277  101ms
         256  512    22   277  101ms
         256  512    26   277  101ms
         256  512    23   277  101ms
         256  512    52   210  101ms
         320  512    21   210  101ms
         256  512    26   210  101ms
        ",
    );
    let (arrived, lost) = rates(&rows[rows.len() / 2], &rows[rows.len() - 1]);
    // Without the sampling of policers half of what is sent would be lost.
    assert_eq!((arrived, lost), (199, 11));
}

#[test]
fn bbr_keeps_its_bandwidth_while_the_application_is_slow() {
    let mut pipe = bbr(Path::thousand(1_000));
    let before = pipe.rounds(20);
    pipe.application = Some(50);
    let slow = pipe.run_for(Duration::from_secs(8));
    let bandwidth = |row: &Row| row.controller.map(|state| state.bandwidth);
    assert_eq!(bandwidth(&before[19]), bandwidth(&slow[slow.len() - 1]));
}

#[test]
fn bbr_startup_ends_also_in_a_short_queue() {
    check_table(
        &bbr_table(&bbr(Path::thousand(20)).rounds(30)),
        "
         739  739    11     9  101ms
         739  739    21    99  101ms
         739  739    41   198  101ms
         739  739    72   304  101ms
         739  739   132   591  101ms
         739  739   233   990  101ms
         739  739   123   999  101ms
          88  739   121   999  101ms
         256  512   220   999  101ms
         320  512   222   999  101ms
         256  512   103   999  101ms
         256  512   220   999  101ms
         256  512   210   999  101ms
         320  512   212   999  101ms
         192  512   210   999  101ms
         256  512   102   999  101ms
         256  512   210   999  101ms
         320  512   212   999  101ms
         192  512   210   999  101ms
         256  512   102   999  101ms
        ",
    );
}

#[test]
fn bbr_restarts_at_the_bandwidth() {
    let mut pipe = bbr(Path::thousand(1_000));
    let gain = |pipe: &Pipe| pipe.controller.bbr().expect("BBR").pacing_gain;
    while gain(&pipe) != 320 {
        pipe.rounds(1);
    }
    let before = pipe.controller.pacing_rate().expect("after ACKs");
    let now = pipe.now + Duration::from_secs(1);
    let idle = Duration::from_secs(1);
    pipe.controller.on_restart(&mut pipe.window, now, idle);
    let after = pipe.controller.pacing_rate().expect("after ACKs");
    let percent = after.bits_per_second() * 100 / before.bits_per_second();
    assert_eq!(percent, 79, "1 / 1.25, rounded down");
}

#[test]
fn bbr_returns_to_its_window_after_a_timeout() {
    let mut pipe = bbr(Path::thousand(1_000));
    pipe.rounds(30);
    let cwnd = pipe.window.cwnd;
    let mut bbr = pipe.controller;
    let mut window = pipe.window;
    let threshold = bbr.on_congestion(&window, pipe.now);
    assert_eq!(threshold, window.ssthresh, "it stays");
    window.cwnd = 1;
    bbr.on_timeout(&mut window, pipe.now);
    let mut sample = super::testing::ack(1);
    (sample.now, sample.rtt, sample.mss) = (pipe.now, None, pipe::MSS);
    sample.delivered_total = 1 << 20;
    sample.state = CongestionState::Loss;
    bbr.on_ack(&mut window, &sample);
    assert_eq!(window.cwnd, 4, "the least window");
    sample.delivered_total += 1;
    sample.state = CongestionState::Open;
    bbr.on_ack(&mut window, &sample);
    assert_eq!(window.cwnd, cwnd);
}

fn settings(name: CongestionName, hystart: HyStart) -> Congestion {
    Congestion {
        name,
        hystart,
        ..profile::linux_6_18().settings.congestion
    }
}

fn controllers() -> Vec<Box<dyn CongestionControl>> {
    let names = [
        (CongestionName::NewReno, HyStart::Off),
        (CongestionName::Cubic, HyStart::Classic),
        (CongestionName::Cubic, HyStart::PlusPlus),
        (CongestionName::Bbr, HyStart::Off),
        (CongestionName::None, HyStart::Off),
    ];
    let make = |(name, hystart)| make(&settings(name, hystart), &mut Rng::new(1, "test"));
    names.map(make).into()
}

#[test]
fn controllers_have_their_names_and_their_way() {
    // Name, in charge, validated, windows of the send buffer.
    let expected = [
        ("newreno", false, true, 2),
        ("cubic", false, true, 2),
        ("cubic", false, true, 2),
        ("bbr", true, false, 3),
        ("none", true, false, 2),
    ];
    for (controller, expected) in controllers().iter().zip(expected) {
        let seen = (
            controller.name(),
            controller.is_in_charge(),
            controller.wants_validation(),
            controller.send_buffer_windows(),
        );
        assert_eq!(seen, expected);
    }
}

const STATES: [CongestionState; 5] = [
    CongestionState::Open,
    CongestionState::Disorder,
    CongestionState::Cwr,
    CongestionState::Recovery,
    CongestionState::Loss,
];

/// An ACK with sizes of all magnitudes.
fn any_ack() -> impl Strategy<Value = AckSample> {
    let packets = || (0_u32..31, any::<u32>()).prop_map(|(bits, value)| value & ((1 << bits) - 1));
    let time = || (0_u32..36, any::<u64>()).prop_map(|(bits, value)| value & ((1 << bits) - 1));
    let rate = proptest::option::of((packets(), time(), time(), any::<bool>()));
    let counts = (packets(), packets(), packets(), packets(), packets());
    let times = (time(), proptest::option::of(time()), time());
    let rest = (0_usize..5, any::<u64>(), 1_u32..70_000, any::<bool>());
    (counts, times, rate, rest).prop_map(|(counts, times, rate, rest)| {
        let (acked, delivered, lost, prior_in_flight, in_flight) = counts;
        let (state, bits_per_second, mss, is_paced) = rest;
        let rtt = times.1.map(Duration::from_nanos);
        AckSample {
            now: Instant::from_nanos(times.0),
            acked,
            delivered,
            delivered_total: 0,
            lost,
            is_reordered: false,
            prior_in_flight,
            in_flight,
            rtt,
            srtt: rtt,
            min_rtt: rtt,
            rate: rate.map(
                |(delivered, interval, prior_delivered, is_app_limited)| RateSample {
                    delivered,
                    interval: Duration::from_nanos(interval),
                    prior_delivered,
                    is_app_limited,
                    losses: lost,
                },
            ),
            una: times.2,
            next: times.2 + u64::from(in_flight),
            state: STATES[state],
            ece: false,
            mss,
            gso_max: 65_536,
            pacing_rate: Rate::from_bits_per_second(bits_per_second),
            is_paced,
        }
    })
}

proptest! {
    /// Whatever a peer acknowledges: no overflow, no division by zero, and a window of at least
    /// one packet, within its clamp.
    #[test]
    fn no_ack_breaks_a_controller(
        acks in prop::collection::vec((any_ack(), 0_u8..12), 1..60),
        clamp in 10_u32..,
    ) {
        for mut controller in controllers() {
            let mut window = limited(10, u32::MAX);
            window.clamp = clamp;
            let (mut now, mut delivered) = (Instant::ZERO, 0);
            for (ack, event) in &acks {
                let mut ack = ack.clone();
                now += Duration::from_nanos(ack.now.as_nanos());
                delivered += u64::from(ack.delivered);
                (ack.now, ack.delivered_total) = (now, delivered);
                match event {
                    0 => {
                        window.prior_cwnd = window.cwnd;
                        window.ssthresh = controller.on_congestion(&window, now);
                        prop_assert!(window.ssthresh >= 2);
                    }
                    1 => {
                        window.ssthresh = controller.on_congestion(&window, now);
                        window.cwnd = 1;
                        controller.on_timeout(&mut window, now);
                    }
                    2 => controller.on_restart(&mut window, now, Duration::from_secs(3)),
                    3 => window.cwnd = controller.undo(&window).min(clamp),
                    _ => controller.on_ack(&mut window, &ack),
                }
                let cwnd = window.cwnd;
                prop_assert!((1..=clamp).contains(&cwnd), "{} {cwnd}", controller.name());
            }
        }
    }
}
