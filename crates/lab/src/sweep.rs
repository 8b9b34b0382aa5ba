//! Axes and shards as a command line writes them: `path.rtt=1ms..200ms:log8`, `3/16`.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use base::{Bytes, Fraction, Rate, format_duration, parse_duration};

/// Most values of one axis.
pub const AXIS_VALUES_MAX: usize = 10_000;
/// Most shards: one for each cell of the largest sweep.
const SHARDS_MAX: u64 = 100_000;

/// One axis of a sweep: a key of a scenario and its values, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vary {
    /// Such as `path.rtt` or `client.nodelay`.
    pub key: String,
    /// In this order, each once.
    pub values: Vec<String>,
}

impl FromStr for Vary {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((key, values)) = text.split_once('=') else {
            return Err(format!(
                "`{text}` is not an axis; write for example `path.rtt=1ms..200ms:log8`"
            ));
        };
        let (key, values) = (key.trim(), values.trim());
        if key.is_empty() {
            return Err(format!(
                "`{text}` names no key; write for example `path.rtt`"
            ));
        }
        let values = match values.split_once("..") {
            Some((from, rest)) => range(from.trim(), rest.trim()),
            None => list(values),
        };
        let values = values.map_err(|why| format!("{key}: {why}"))?;
        let mut sorted = values.clone();
        sorted.sort_unstable();
        if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!(
                "{key}: {} is there twice; name fewer values",
                twice[0]
            ));
        }
        Ok(Self {
            key: key.into(),
            values,
        })
    }
}

/// As [`FromStr`] reads it, whatever was written before.
impl fmt::Display for Vary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = if self.values.iter().any(|value| value.contains(',')) {
            ";"
        } else {
            ","
        };
        write!(f, "{}={}", self.key, self.values.join(separator))?;
        // One value with a comma in it is not two.
        match (self.values.len(), separator) {
            (1, ";") => f.write_str(";"),
            _ => Ok(()),
        }
    }
}

/// Values between commas, or between semicolons where values have commas in them.
fn list(text: &str) -> Result<Vec<String>, String> {
    let (separator, text) = match text.strip_suffix(';') {
        Some(rest) => (';', rest),
        None if text.contains(';') => (';', text),
        None => (',', text),
    };
    let count = text.split(separator).count();
    if count > AXIS_VALUES_MAX {
        return Err(too_many(count));
    }
    text.split(separator)
        .map(|value| match value.trim() {
            "" => Err("a value is missing; write for example `64KiB,256KiB`".into()),
            value => Ok(value.to_owned()),
        })
        .collect()
}

fn too_many(count: usize) -> String {
    format!("{count} values; an axis has at most {AXIS_VALUES_MAX}")
}

/// `200ms:log8` after `1ms..`.
fn range(from: &str, rest: &str) -> Result<Vec<String>, String> {
    let wanted = "write for example `1ms..200ms:log8` or `1ms..200ms:lin5`";
    let (to, steps) = rest
        .rsplit_once(':')
        .ok_or_else(|| format!("how many values? {wanted}"))?;
    let (is_log, count) = match (steps.strip_prefix("log"), steps.strip_prefix("lin")) {
        (Some(count), _) => (true, count),
        (None, Some(count)) => (false, count),
        (None, None) => {
            return Err(format!(
                "`{steps}` is not a way to divide a range; {wanted}"
            ));
        }
    };
    let count: usize = count
        .parse()
        .map_err(|_| format!("`{steps}` has no number of values; {wanted}"))?;
    if count > AXIS_VALUES_MAX {
        return Err(too_many(count));
    }
    if count < 2 {
        return Err(format!(
            "a range has two ends, so at least 2 values; {wanted}"
        ));
    }
    let (low, kind) = Kind::read(from)?;
    let (high, other) = Kind::read(to)?;
    if kind != other && !(kind.is_plain() && other.is_plain()) {
        return Err(format!("{from} and {to} are not of one kind"));
    }
    if is_log && (low <= 0.0 || high <= 0.0) {
        return Err("a logarithmic range begins above 0; use `lin`, or another first value".into());
    }
    let kind = if kind == other { kind } else { Kind::Decimal };
    let between = |index: usize| {
        let share = index as f64 / (count - 1) as f64;
        match is_log {
            true => low * (high / low).powf(share),
            false => low + (high - low) * share,
        }
    };
    let with = |digits: usize| {
        let inner = (1..count - 1).map(|index| kind.show(between(index), digits));
        let ends = (from.to_owned(), to.to_owned());
        let values: Vec<String> = [ends.0].into_iter().chain(inner).chain([ends.1]).collect();
        values
    };
    let apart = (DIGITS_MIN..DIGITS_MAX)
        .map(with)
        .find(|values| is_in_order(values, low < high));
    Ok(apart.unwrap_or_else(|| with(DIGITS_MAX)))
}

/// A value between two others needs no more, unless they are closer together.
const DIGITS_MIN: usize = 3;
/// About as many as a computed value has.
const DIGITS_MAX: usize = 15;

/// Whether each value, as it is written, lies beyond the one before.
fn is_in_order(values: &[String], is_rising: bool) -> bool {
    let read = |text: &String| Kind::read(text).map_or(f64::NAN, |(value, _)| value);
    values.windows(2).all(|pair| {
        let (one, next) = (read(&pair[0]), read(&pair[1]));
        if is_rising { one < next } else { one > next }
    })
}

/// Unit of an axis's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Whole,
    Decimal,
    /// In nanoseconds.
    Time,
    /// In bit/s.
    Rate,
    Bytes,
    /// In parts of a billion.
    Share,
    Packets,
    /// Multiples of the bandwidth-delay product.
    Bdp,
}

impl Kind {
    const fn is_plain(self) -> bool {
        matches!(self, Self::Whole | Self::Decimal)
    }

    /// In the unit of the kind.
    fn read(text: &str) -> Result<(f64, Self), String> {
        let plain = |text: &str| text.parse::<f64>().ok().filter(|value| value.is_finite());
        if let Some(value) = plain(text) {
            let is_whole = text.bytes().all(|byte| byte.is_ascii_digit());
            return Ok((value, if is_whole { Self::Whole } else { Self::Decimal }));
        }
        if let Some(value) = text.strip_suffix("bdp").and_then(plain) {
            return Ok((value, Self::Bdp));
        }
        if let Some(value) = text.strip_suffix('p').and_then(plain) {
            return Ok((value, Self::Packets));
        }
        if let Ok(time) = parse_duration(text) {
            return Ok((time.as_nanos() as f64, Self::Time));
        }
        if let Ok(share) = text.parse::<Fraction>() {
            return Ok((share.parts() as f64, Self::Share));
        }
        if let Ok(rate) = text.parse::<Rate>() {
            return Ok((rate.bits_per_second() as f64, Self::Rate));
        }
        match text.parse::<Bytes>() {
            Ok(bytes) => Ok((bytes.0 as f64, Self::Bytes)),
            Err(_) => Err(format!(
                "`{text}` is not a number with a unit; write for example `1ms..200ms:log8`, \
                 `1mbit..1gbit:log4` or a list"
            )),
        }
    }

    /// As a scenario writes it, in this many digits; whole numbers in all of theirs.
    fn show(self, value: f64, digits: usize) -> String {
        let short = rounded(value, digits);
        match self {
            Self::Whole => format!("{}", value.round()),
            Self::Decimal => format!("{short}"),
            Self::Time => format_duration(Duration::from_nanos(short as u64)),
            Self::Rate => Rate::from_bits_per_second(short as u64).to_string(),
            Self::Bytes => Bytes(whole_bytes(value, digits)).to_string(),
            Self::Share => {
                let parts = short.clamp(0.0, u32::MAX.into()) as u32;
                Fraction::from_parts(parts).to_string()
            }
            Self::Packets => format!("{}p", value.round()),
            Self::Bdp => format!("{short}bdp"),
        }
    }
}

/// The value of an axis as a number, and its unit: `us`, `bit/s`, `bytes`, `share`, `packets`,
/// `bdp`, or empty where it has none. `None` for names.
#[must_use]
pub fn axis_number(text: &str) -> Option<(f64, &'static str)> {
    let (value, kind) = Kind::read(text).ok()?;
    Some(match kind {
        Kind::Whole | Kind::Decimal => (value, ""),
        Kind::Time => (value / 1e3, "us"),
        Kind::Rate => (value, "bit/s"),
        Kind::Bytes => (value, "bytes"),
        Kind::Share => (value / 1e9, "share"),
        Kind::Packets => (value, "packets"),
        Kind::Bdp => (value, "bdp"),
    })
}

fn rounded(value: f64, digits: usize) -> f64 {
    // The shortest text that reads as the rounded number, without the noise of a multiplication.
    let text = format!("{value:.*e}", digits - 1);
    text.parse().unwrap_or(value)
}

/// Whole MiB or KiB where these have this many digits.
fn whole_bytes(value: f64, digits: usize) -> u64 {
    let least = (1..digits).fold(1.0, |power, _| power * 10.0);
    let unit = [(1 << 20) as f64, 1024.0]
        .into_iter()
        .find(|unit| value >= unit * least)
        .unwrap_or(1.0);
    ((value / unit).round() * unit) as u64
}

/// One part of a sweep that is run in several processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    index: u64,
    of: u64,
}

impl Shard {
    /// A sweep in one process.
    pub const WHOLE: Self = Self { index: 1, of: 1 };

    /// Which one, from 1.
    #[must_use]
    pub const fn index(self) -> u64 {
        self.index
    }

    /// How many there are.
    #[must_use]
    pub const fn of(self) -> u64 {
        self.of
    }

    /// Its positions among the first `len`, in order. Of this many neighbours as there are shards
    /// each gets one, and not always the same: the last axis, which changes fastest, may be what
    /// decides how long a run takes.
    pub fn positions(self, len: u64) -> impl Iterator<Item = u64> + use<> {
        let blocks = 0..len.div_ceil(self.of);
        let positions = blocks.map(move |block| self.position_in(block));
        positions.filter(move |position| *position < len)
    }

    /// How many [`Shard::positions`] are, without walking them.
    #[must_use]
    pub const fn count(self, len: u64) -> u64 {
        // Whole blocks have one each; the last may end before it.
        let whole = len / self.of;
        whole + (!len.is_multiple_of(self.of) && self.position_in(whole) < len) as u64
    }

    /// Whether a position is one of its [`Shard::positions`].
    #[must_use]
    pub const fn has(self, position: u64) -> bool {
        self.position_in(position / self.of) == position
    }

    /// In the block of neighbours with this number.
    const fn position_in(self, block: u64) -> u64 {
        block * self.of + (self.index - 1 + self.of - block % self.of) % self.of
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.of)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/').and_then(|(index, of)| {
            let number = |text: &str| text.trim().parse::<u64>().ok();
            Some((number(index)?, number(of)?))
        });
        match numbers {
            Some((index, of)) if (1..=of).contains(&index) && of <= SHARDS_MAX => {
                Ok(Self { index, of })
            }
            Some((_, of)) if of > SHARDS_MAX => Err(format!("at most {SHARDS_MAX} shards")),
            Some((0, of @ 1..)) => Err(format!(
                "shards are counted from 1: `1/{of}` to `{of}/{of}`"
            )),
            Some((index, of @ 1..)) => Err(format!(
                "there is no shard {index} of {of}; they are `1/{of}` to `{of}/{of}`"
            )),
            _ => Err(format!("`{text}` is not a shard; write for example `3/16`")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_axis_is_a_range_or_a_list() {
        let check = |text: &str, expected: &str| {
            let shown = match text.parse::<Vary>() {
                Ok(vary) => vary.values.join(" | "),
                Err(error) => error,
            };
            assert_eq!(shown, expected, "{text}");
        };
        check(
            "path.rtt=1ms..200ms:log8",
            "1ms | 2.13ms | 4.54ms | 9.69ms | 20.6ms | 44ms | 93.8ms | 200ms",
        );
        check("path.rtt = 0s..40ms:lin5", "0s | 10ms | 20ms | 30ms | 40ms");
        check("a=500us..2s:log3", "500us | 31.6ms | 2s");
        check(
            "a=64KiB..4MiB:log7",
            "64KiB | 128KiB | 256KiB | 512KiB | 1MiB | 2MiB | 4MiB",
        );
        check("a=64KiB..1MiB:lin3", "64KiB | 544KiB | 1MiB");
        check("a=1mbit..1gbit:log4", "1mbit | 10mbit | 100mbit | 1gbit");
        check("a=0.01%..1%:log3", "0.01% | 0.1% | 1%");
        check("a=1..10:lin4", "1 | 4 | 7 | 10");
        check("a=0.5..2:log3", "0.5 | 1 | 2");
        check("a=10p..1000p:log3", "10p | 100p | 1000p");
        check(
            "a=0.25bdp..4bdp:log5",
            "0.25bdp | 0.5bdp | 1bdp | 2bdp | 4bdp",
        );
        check("a=200ms..50ms:log3", "200ms | 100ms | 50ms");
        check(
            "a=100ms..101ms:lin5",
            "100ms | 100.2ms | 100.5ms | 100.8ms | 101ms",
        );
        check("a=1.2345ms..1.3ms:lin3", "1.2345ms | 1.27ms | 1.3ms");
        check("a=1MiB..1025KiB:lin3", "1MiB | 1049088B | 1025KiB");
        check("a=64KiB, 256KiB,4MiB", "64KiB | 256KiB | 4MiB");
        check("a=on", "on");
        check(
            "a=4096 65536 65536,4096 131072 6291456",
            "4096 65536 65536 | 4096 131072 6291456",
        );
        check(
            "a=1s 50mbit, 500ms 5mbit;1s 20mbit",
            "1s 50mbit, 500ms 5mbit | 1s 20mbit",
        );
    }

    #[test]
    fn many_values_have_the_digits_that_keep_them_apart() {
        let vary: Vary = "path.rtt=1ms..200ms:log1000".parse().expect("an axis");
        assert_eq!(vary.values.len(), 1000);
        assert_eq!(vary.values[1], "1.005ms");
        let vary: Vary = "a=64KiB..4MiB:log10000".parse().expect("an axis");
        assert_eq!(vary.values.len(), 10_000);
    }

    #[test]
    fn a_malformed_axis_is_refused_with_an_example() {
        let check = |text: &str, part: &str| {
            let error = text.parse::<Vary>().expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        };
        check("path.rtt", "path.rtt=1ms..200ms:log8");
        check("=1ms,2ms", "names no key");
        check("a=", "a value is missing");
        check("a=1ms,,2ms", "a value is missing");
        check("a=1ms,2ms,1ms", "1ms is there twice");
        check("a=1ms..200ms", "how many values?");
        check("a=1ms..200ms:cube3", "`cube3` is not a way");
        check("a=1ms..200ms:log", "no number of values");
        check("a=1ms..200ms:log-3", "no number of values");
        check("a=1ms..200ms:log1", "at least 2");
        check("a=1ms..200ms:log10001", "at most 10000");
        check("a=0s..200ms:log3", "begins above 0");
        check("a=1ms..200kB:log3", "not of one kind");
        check("a=1..200ms:log3", "not of one kind");
        check("a=fast..slow:log3", "`fast` is not a number");
        check("a=1..3:lin8", "is there twice; name fewer");
        check("a=inf..3:lin8", "`inf` is not a number");
    }

    #[test]
    fn a_shard_is_one_of_several() {
        let check = |text: &str, expected: &str| {
            let shown = match text.parse::<Shard>() {
                Ok(shard) => shard.to_string(),
                Err(error) => error,
            };
            assert!(shown.contains(expected), "{text}: {shown}");
        };
        check("3/16", "3/16");
        check("1/1", "1/1");
        check("0/4", "counted from 1: `1/4` to `4/4`");
        check("5/4", "no shard 5 of 4");
        check("0/0", "write for example `3/16`");
        check("1/0", "write for example `3/16`");
        check("3", "write for example `3/16`");
        check("-1/4", "write for example `3/16`");
        check("1/1000000", "at most 100000 shards");
    }

    #[test]
    fn each_run_has_one_shard_and_an_axis_is_spread_over_all() {
        for of in [1, 2, 3, 4, 7, 16] {
            let shards: Vec<Shard> = (1..=of).map(|index| Shard { index, of }).collect();
            for len in 0..300 {
                let mut all = Vec::new();
                for shard in &shards {
                    let own: Vec<u64> = shard.positions(len).collect();
                    assert!(own.is_sorted(), "{shard} of {len}");
                    assert_eq!(shard.count(len), own.len() as u64, "{shard} of {len}");
                    let found = (0..len).filter(|position| shard.has(*position));
                    assert!(found.eq(own.iter().copied()), "{shard} of {len}");
                    all.extend(own);
                }
                all.sort_unstable();
                assert_eq!(all, (0..len).collect::<Vec<u64>>(), "{of} shards");
            }
        }
        // Pinned: shards of one sweep may be made by different versions of the program.
        let third: Vec<u64> = Shard { index: 3, of: 4 }.positions(22).collect();
        assert_eq!(third, [2, 5, 8, 15, 18, 21]);
        // The slowest value of a last axis with four values, in four shards.
        let slowest: Vec<u64> = (0..4).map(|row| row * 4 + 3).collect();
        let has = |index, position| Shard { index, of: 4 }.positions(16).any(|p| p == position);
        let of = |position| (1..=4).find(|&index| has(index, position));
        let owners: std::collections::BTreeSet<_> = slowest.into_iter().map(of).collect();
        assert_eq!(owners.len(), 4);
    }

    proptest! {
        /// What is shown is read as the same axis, and nothing makes the reader panic.
        #[test]
        fn an_axis_reads_as_it_is_shown(text in "[a-z.]{0,8}=?[0-9a-z%.,;: ]{0,30}") {
            if let Ok(vary) = text.parse::<Vary>() {
                prop_assert_eq!(vary.to_string().parse::<Vary>(), Ok(vary));
            }
        }

        /// Values of a range are in order and within its ends.
        #[test]
        fn a_range_is_in_order(
            low in 1_u64..1_000_000,
            times in 2_u64..1_000,
            count in 2_usize..50,
        ) {
            let text = format!("a={low}us..{}us:log{count}", low * times);
            if let Ok(vary) = text.parse::<Vary>() {
                let read = |text: &String| parse_duration(text).expect("a time");
                let times: Vec<Duration> = vary.values.iter().map(read).collect();
                prop_assert_eq!(times.len(), count);
                prop_assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", times);
            }
        }
    }

    #[test]
    fn values_of_axes_are_numbers_with_units() {
        let check = |text: &str, expected| assert_eq!(axis_number(text), expected, "{text}");
        check("20ms", Some((20_000.0, "us")));
        check("25mbit", Some((25e6, "bit/s")));
        check("64KiB", Some((65_536.0, "bytes")));
        check("100p", Some((100.0, "packets")));
        check("0.5%", Some((0.005, "share")));
        check("0.2bdp", Some((0.2, "bdp")));
        check("7300", Some((7_300.0, "")));
        check("cubic", None);
        check("on", None);
    }
}
