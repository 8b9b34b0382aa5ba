//! Quantities with units: how they are written, read and computed with.
//!
//! The grammar is a decimal number followed by a unit without a space in between: rates `25mbit`,
//! `12.5mbyte`; sizes `64KiB`, `64kB`, `1500B`, `1500`; times `40ms`, `1.58ms`, `250us`; queues
//! `1000p` or a size; fractions `0.1%`. What is printed parses back to the same value, and what
//! [`crate::human`] prints for people is read too: `94.1 Mbit/s`, `1.25 MiB`, `1 h 52 min`.

use alloc::string::String;
use core::fmt;
use core::str::FromStr;
use core::time::Duration;

/// Why a quantity could not be read. [`fmt::Display`] says what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnitError {
    /// No number at the start.
    NoNumber {
        /// The rejected text.
        text: String,
        /// An example of what is accepted.
        example: &'static str,
    },
    /// The number has no unit, and without one it would be ambiguous.
    NoUnit {
        /// The rejected text.
        text: String,
        /// An example of what is accepted.
        example: &'static str,
    },
    /// The unit is not one of this quantity.
    UnknownUnit {
        /// The unit that was given.
        unit: String,
        /// The units that are accepted.
        accepted: &'static str,
    },
    /// The unit means different things in different tools.
    AmbiguousUnit {
        /// The unit that was given.
        unit: String,
        /// Why it is refused and what to write.
        reason: &'static str,
    },
    /// The value does not fit.
    OutOfRange {
        /// The rejected text.
        text: String,
        /// The range.
        range: &'static str,
    },
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoNumber { text, example } => {
                write!(
                    f,
                    "`{text}` does not begin with a number; write for example `{example}`"
                )
            }
            Self::NoUnit { text, example } => {
                write!(f, "`{text}` has no unit; write for example `{example}`")
            }
            Self::UnknownUnit { unit, accepted } => {
                write!(f, "unknown unit `{unit}`; known are {accepted}")
            }
            Self::AmbiguousUnit { unit, reason } => write!(f, "`{unit}` is ambiguous: {reason}"),
            Self::OutOfRange { text, range } => {
                write!(f, "`{text}` is out of range; the range is {range}")
            }
        }
    }
}

impl core::error::Error for UnitError {}

/// A number with up to nine decimal places, exactly.
#[derive(Clone, Copy)]
struct Decimal {
    /// The value times 10^9.
    nano: u128,
}

impl Decimal {
    /// The value in units of `scale`, rounded to the nearest; `None` where it exceeds 64 bits.
    fn times(self, scale: u128) -> Option<u64> {
        let product = self.nano.checked_mul(scale)?.checked_add(500_000_000)?;
        u64::try_from(product / 1_000_000_000).ok()
    }
}

/// Splits `25.5mbit` into its number and its unit.
fn split<'t>(text: &'t str, example: &'static str) -> Result<(Decimal, &'t str), UnitError> {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let no_number = || UnitError::NoNumber {
        text: text.into(),
        example,
    };
    let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || decimals.len() > 9 || decimals.contains('.') {
        return Err(no_number());
    }
    let mut nano = whole.parse::<u64>().map_err(|_| no_number())? as u128 * 1_000_000_000;
    if !decimals.is_empty() {
        let scale = 10_u128.pow(9 - decimals.len() as u32);
        nano += decimals.parse::<u64>().map_err(|_| no_number())? as u128 * scale;
    }
    Ok((Decimal { nano }, unit.trim_start()))
}

fn scaled(value: Decimal, scale: u128, text: &str, range: &'static str) -> Result<u64, UnitError> {
    value.times(scale).ok_or_else(|| UnitError::OutOfRange {
        text: text.into(),
        range,
    })
}

/// Prints `value` in the largest of `units` that needs at most `decimals` exact decimal places.
fn write_scaled(
    f: &mut fmt::Formatter<'_>,
    value: u64,
    units: &[(u64, &str)],
    decimals: u32,
) -> fmt::Result {
    let unit_of = |&(scale, _): &(u64, &str)| {
        let step = scale / 10_u64.pow(decimals).min(scale);
        scale <= value && value.is_multiple_of(step.max(1))
    };
    let &(scale, name) = units
        .iter()
        .find(|unit| unit_of(unit))
        .unwrap_or(&units[units.len() - 1]);
    let (whole, rest) = (value / scale, value % scale);
    if rest == 0 {
        return f.pad(&alloc::format!("{whole}{name}"));
    }
    // Exact: the step test above admits only values whose decimals end.
    let mut digits = alloc::format!(
        "{:09}",
        u128::from(rest) * 1_000_000_000 / u128::from(scale)
    );
    digits.truncate(digits.trim_end_matches('0').len());
    f.pad(&alloc::format!("{whole}.{digits}{name}"))
}

/// A rate in bit/s; `1mbit` is 10^6 bit/s, `1mbyte` 8 times as much.
///
/// A bare `mbps` is refused: `tc` reads it as megabytes, people mean megabits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

impl Rate {
    const RANGE: &'static str = "1bit to 18446744073gbit";

    /// `bits` bit/s.
    #[must_use]
    pub const fn from_bits_per_second(bits: u64) -> Self {
        Self(bits)
    }

    /// `bytes` byte/s, as the kernel counts rates; saturates.
    #[must_use]
    pub const fn from_bytes_per_second(bytes: u64) -> Self {
        Self(bytes.saturating_mul(8))
    }

    /// The rate of `bytes` in `time`; zero where `time` is zero.
    #[must_use]
    pub fn of(bytes: u64, time: Duration) -> Self {
        if time.is_zero() {
            return Self(0);
        }
        let bits = u128::from(bytes) * 8 * 1_000_000_000 / time.as_nanos();
        Self(u64::try_from(bits).unwrap_or(u64::MAX))
    }

    /// bit/s.
    #[must_use]
    pub const fn bits_per_second(self) -> u64 {
        self.0
    }

    /// The bandwidth-delay product: bytes that are in flight when this rate is full for `rtt`.
    #[must_use]
    pub fn bdp_bytes(self, rtt: Duration) -> u64 {
        let bytes = u128::from(self.0).saturating_mul(rtt.as_nanos()) / 8 / 1_000_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// How long `bytes` occupy a wire of this rate, and the remainder (in units of one nanosecond
    /// divided by the rate) to be passed as `carry` with the next packet, so that no rate drifts.
    ///
    /// # Panics
    /// Where the rate is zero: a link that never sends has no serialization time.
    #[must_use]
    pub fn serialize(self, bytes: u64, carry: u64) -> (Duration, u64) {
        let (nanos, carry) = self.serialize_nanos(bytes, carry);
        (Duration::from_nanos(nanos), carry)
    }

    /// The same in nanoseconds, which is cheaper.
    ///
    /// # Panics
    /// Where the rate is zero.
    #[must_use]
    #[inline]
    pub fn serialize_nanos(self, bytes: u64, carry: u64) -> (u64, u64) {
        assert!(self.0 > 0, "a link of rate 0 never sends");
        // Dividing 128 bits takes ten times as long, and hardly anything is so large.
        let time = bytes.checked_mul(8 * 1_000_000_000);
        if let Some(time) = time.and_then(|time| time.checked_add(carry)) {
            return (time / self.0, time % self.0);
        }
        let time = u128::from(bytes) * 8 * 1_000_000_000 + u128::from(carry);
        let rate = u128::from(self.0);
        ((time / rate) as u64, (time % rate) as u64)
    }
}

impl FromStr for Rate {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (value, unit) = split(text, "25mbit")?;
        let lower = unit.to_ascii_lowercase();
        let scale: u128 = match lower.strip_suffix("/s").unwrap_or(&lower) {
            "bit" => 1,
            "kbit" => 1_000,
            "mbit" => 1_000_000,
            "gbit" => 1_000_000_000,
            "tbit" => 1_000_000_000_000,
            "kibit" => 1 << 10,
            "mibit" => 1 << 20,
            "gibit" => 1 << 30,
            "byte" => 8,
            "kbyte" => 8_000,
            "mbyte" => 8_000_000,
            "gbyte" => 8_000_000_000,
            "" => {
                return Err(UnitError::NoUnit {
                    text: text.into(),
                    example: "25mbit",
                });
            }
            "bps" | "kbps" | "mbps" | "gbps" => {
                return Err(UnitError::AmbiguousUnit {
                    unit: unit.into(),
                    reason: "tc reads it as bytes per second, most people as bits; \
                             write `mbit` or `mbyte`",
                });
            }
            _ => {
                return Err(UnitError::UnknownUnit {
                    unit: unit.into(),
                    accepted: "bit, kbit, mbit, gbit, kibit, mibit, gibit, byte, kbyte, mbyte, \
                               gbyte (all per second)",
                });
            }
        };
        let bits = scaled(value, scale, text, Self::RANGE)?;
        if bits == 0 {
            return Err(UnitError::OutOfRange {
                text: text.into(),
                range: Self::RANGE,
            });
        }
        Ok(Self(bits))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: &[(u64, &str)] = &[
            (1_000_000_000, "gbit"),
            (1_000_000, "mbit"),
            (1_000, "kbit"),
            (1, "bit"),
        ];
        write_scaled(f, self.0, UNITS, 3)
    }
}

/// A number of bytes; `64KiB` is 65536, `64kB` is 64000, a plain number is bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

impl FromStr for Bytes {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (value, unit) = split(text, "64KiB")?;
        let scale: u128 = match unit {
            "" | "B" | "b" | "byte" | "bytes" => 1,
            "kB" | "KB" => 1_000,
            "MB" => 1_000_000,
            "GB" => 1_000_000_000,
            "TB" => 1_000_000_000_000,
            "KiB" | "kib" => 1 << 10,
            "MiB" | "mib" => 1 << 20,
            "GiB" | "gib" => 1 << 30,
            "TiB" | "tib" => 1 << 40,
            "k" | "K" | "m" | "M" | "g" | "G" => {
                return Err(UnitError::AmbiguousUnit {
                    unit: unit.into(),
                    reason: "tools differ whether it is a power of 1000 or of 1024; \
                             write `KiB` or `kB`",
                });
            }
            _ => {
                return Err(UnitError::UnknownUnit {
                    unit: unit.into(),
                    accepted: "B, kB, MB, GB, TB, KiB, MiB, GiB, TiB",
                });
            }
        };
        scaled(value, scale, text, "0 to 17179869183GiB").map(Self)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: &[(u64, &str)] = &[
            (1 << 30, "GiB"),
            (1 << 20, "MiB"),
            (1 << 10, "KiB"),
            (1, "B"),
        ];
        write_scaled(f, self.0, UNITS, 0)
    }
}

/// Reads a time such as `40ms`, `1.58ms`, `250us`, `10s`, `5m`, `2h`, `1h 30m`. A bare number is
/// refused: of a delay, some would mean seconds and some milliseconds.
///
/// # Errors
/// [`UnitError`], saying what to write instead.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    let mut rest = text.trim();
    let mut sum = Duration::ZERO;
    loop {
        // `1h 30m`: a part ends where the next number begins.
        let unit = rest.find(|c: char| c.is_alphabetic()).unwrap_or(rest.len());
        let next = rest[unit..].find(|c: char| c.is_ascii_digit());
        let (part, after) = rest.split_at(next.map_or(rest.len(), |at| unit + at));
        sum = sum
            .checked_add(parse_one_duration(part)?)
            .filter(|sum| sum.as_nanos() <= u64::MAX.into())
            .ok_or_else(|| UnitError::OutOfRange {
                text: text.into(),
                range: DURATION_RANGE,
            })?;
        if after.is_empty() {
            return Ok(sum);
        }
        rest = after;
    }
}

/// Reads the length of a measurement or of a wait: as [`parse_duration`], and a bare number is
/// seconds, as `sleep`, `timeout`, `ping -w` and iperf3 have it.
///
/// # Errors
/// [`UnitError`], saying what to write instead.
pub fn parse_time(text: &str) -> Result<Duration, UnitError> {
    let is_bare = text.trim().chars().all(|c| c.is_ascii_digit() || c == '.');
    match is_bare {
        true => parse_duration(&alloc::format!("{}s", text.trim())),
        false => parse_duration(text),
    }
}

const DURATION_RANGE: &str = "0 to 5124095h";

fn parse_one_duration(text: &str) -> Result<Duration, UnitError> {
    let (value, unit) = split(text, "40ms")?;
    let scale: u128 = match unit {
        "ns" => 1,
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" | "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "" if value.nano == 0 => 1,
        "" => {
            return Err(UnitError::NoUnit {
                text: text.into(),
                example: "40ms",
            });
        }
        _ => {
            return Err(UnitError::UnknownUnit {
                unit: unit.into(),
                accepted: "ns, us, ms, s, m, h",
            });
        }
    };
    scaled(value, scale, text, DURATION_RANGE).map(Duration::from_nanos)
}

/// Prints a time so that [`parse_duration`] reads back the same value: `1.58ms`.
#[must_use]
pub fn format_duration(time: Duration) -> String {
    struct Shown(u64);
    impl fmt::Display for Shown {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            const UNITS: &[(u64, &str)] = &[
                (1_000_000_000, "s"),
                (1_000_000, "ms"),
                (1_000, "us"),
                (1, "ns"),
            ];
            if self.0 == 0 {
                f.write_str("0s")
            } else {
                write_scaled(f, self.0, UNITS, 3)
            }
        }
    }
    alloc::format!(
        "{}",
        Shown(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
    )
}

/// How much a queue holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueLimit {
    /// Wire packets: `1000p`.
    Packets(u64),
    /// Bytes on the wire: `64KiB`.
    Bytes(Bytes),
}

impl FromStr for QueueLimit {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        if let Some(number) = text.trim().strip_suffix('p') {
            let out_of_range = || UnitError::OutOfRange {
                text: text.into(),
                range: "1p to 4294967295p",
            };
            let packets: u32 = number.parse().map_err(|_| out_of_range())?;
            return if packets == 0 {
                Err(out_of_range())
            } else {
                Ok(Self::Packets(packets.into()))
            };
        }
        let (_, unit) = split(text, "1000p` or `64KiB")?;
        if unit.is_empty() {
            return Err(UnitError::NoUnit {
                text: text.into(),
                example: "1000p` or `64KiB",
            });
        }
        text.parse().map(Self::Bytes)
    }
}

impl fmt::Display for QueueLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packets(packets) => f.pad(&alloc::format!("{packets}p")),
            Self::Bytes(bytes) => bytes.fmt(f),
        }
    }
}

/// A probability or share between 0 and 1, in parts of a billion so that it is exact: `0.1%`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fraction(u32);

impl Fraction {
    /// Never.
    pub const ZERO: Self = Self(0);
    /// Always.
    pub const ONE: Self = Self(1_000_000_000);

    /// Parts of a billion.
    #[must_use]
    pub const fn parts(self) -> u64 {
        self.0 as u64
    }

    /// `parts` of a billion; more than a billion is one.
    #[must_use]
    pub const fn from_parts(parts: u32) -> Self {
        if parts > Self::ONE.0 {
            Self::ONE
        } else {
            Self(parts)
        }
    }

    /// For statistics and reports only: what decides what is sent never uses it.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / 1e9
    }
}

impl FromStr for Fraction {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (value, unit) = split(text, "0.1%")?;
        let scale: u128 = match unit {
            "%" => 10_000_000,
            "" if value.nano == 0 => 1,
            "" => {
                return Err(UnitError::NoUnit {
                    text: text.into(),
                    example: "0.1%",
                });
            }
            _ => {
                return Err(UnitError::UnknownUnit {
                    unit: unit.into(),
                    accepted: "%",
                });
            }
        };
        let parts = scaled(value, scale, text, "0% to 100%")?;
        if parts > Self::ONE.parts() {
            return Err(UnitError::OutOfRange {
                text: text.into(),
                range: "0% to 100%",
            });
        }
        Ok(Self(parts as u32))
    }
}

impl fmt::Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / 10_000_000, self.0 % 10_000_000);
        let mut text = alloc::format!("{whole}.{rest:07}");
        text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
        text.push('%');
        f.pad(&text)
    }
}

#[cfg(feature = "serde")]
mod as_text {
    //! Quantities are written to files as the text that people write.
    use super::{Bytes, Fraction, QueueLimit, Rate};
    use alloc::string::{String, ToString};
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    macro_rules! as_text {
        ($($name:ty),*) => {$(
            impl Serialize for $name {
                fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    serializer.serialize_str(&self.to_string())
                }
            }
            impl<'de> Deserialize<'de> for $name {
                fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
                }
            }
        )*};
    }
    as_text!(Rate, Bytes, QueueLimit, Fraction);
}

#[cfg(test)]
mod tests;
