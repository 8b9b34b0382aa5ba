//! One definition per knob: name, unit, range, help, citation, and its places in Linux.
//!
//! Scenario keys, `--help`, the reference page, sweep axes, advice and the actuators all derive
//! from [`KNOBS`]. The setting of our own stack joins each row when there is one.

mod table;

use alloc::string::String;
use core::fmt;

use crate::{Bytes, KnobValue, format_duration, parse_duration};
use core::time::Duration;

pub use table::KNOBS;

/// What a knob's value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// On or off.
    Flag,
    /// A plain count.
    Count,
    /// Bytes.
    Bytes,
    /// Packets.
    Packets,
    /// Microseconds.
    Micros,
    /// Minimum, default and maximum in bytes.
    BytesTriple,
    /// A name.
    Name,
}

impl Kind {
    /// What a value of this kind looks like in a plan.
    const fn wanted(self) -> &'static str {
        match self {
            Self::Flag => "true or false",
            Self::Count => "a number",
            Self::Bytes => "a number of bytes",
            Self::Packets => "a number of packets",
            Self::Micros => "a number of microseconds",
            Self::BytesTriple => "three numbers of bytes",
            Self::Name => "a name",
        }
    }
}

/// How far a knob reaches, smallest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Scope {
    /// One connection.
    Socket,
    /// All connections to one destination.
    Route,
    /// All traffic of one interface.
    Link,
    /// All traffic of one queue.
    Qdisc,
    /// All connections of a network namespace.
    Namespace,
}

/// Where Linux keeps the setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinuxSite {
    /// `setsockopt(level, option)`.
    SocketOption {
        /// `SOL_SOCKET` (1) or `IPPROTO_TCP` (6).
        level: i32,
        /// Number of the option.
        option: i32,
        /// Its name in C.
        symbol: &'static str,
    },
    /// An attribute of a route's metrics, by the name that `ip route` uses.
    RouteMetric {
        /// Number of the metric (`RTAX_*`).
        metric: u16,
        /// Name in `ip route`.
        name: &'static str,
    },
    /// The MTU of an interface.
    LinkMtu,
    /// The transmit queue length of an interface.
    LinkTxqueuelen,
    /// The limit of the root queueing discipline.
    QdiscLimit,
    /// A sysctl, by its dotted name.
    Sysctl {
        /// Name such as `net.ipv4.tcp_rmem`.
        name: &'static str,
    },
}

/// One setting of TCP, of a link or of a host.
#[derive(Debug)]
pub struct Knob {
    /// The name that users write; for a sysctl its own.
    pub name: &'static str,
    /// Unit.
    pub kind: Kind,
    /// Smallest value (for a triple: of each part).
    pub min: u64,
    /// Largest value.
    pub max: u64,
    /// One sentence.
    pub help: &'static str,
    /// Where the rule is written down: RFC section, kernel function, seed.
    pub cite: &'static str,
    /// How far it reaches.
    pub scope: Scope,
    /// Where Linux keeps it.
    pub linux: LinuxSite,
}

/// Why a value does not fit a knob.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KnobError {
    /// No knob has this name.
    Unknown {
        /// The name that was given.
        name: String,
        /// The nearest name that exists.
        nearest: Option<&'static str>,
    },
    /// The text is no value of this knob.
    Invalid {
        /// The knob.
        knob: &'static str,
        /// What is wrong and what to write.
        reason: String,
    },
}

impl fmt::Display for KnobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown {
                name,
                nearest: Some(nearest),
            } => {
                write!(f, "unknown knob `{name}`; did you mean `{nearest}`?")
            }
            Self::Unknown {
                name,
                nearest: None,
            } => write!(f, "unknown knob `{name}`"),
            Self::Invalid { knob, reason } => write!(f, "{knob}: {reason}"),
        }
    }
}

impl core::error::Error for KnobError {}

/// Finds a knob by its name.
///
/// # Errors
/// [`KnobError::Unknown`] with the nearest name.
pub fn find_knob(name: &str) -> Result<&'static Knob, KnobError> {
    KNOBS
        .iter()
        .find(|knob| knob.name == name)
        .ok_or_else(|| KnobError::Unknown {
            name: name.into(),
            nearest: nearest(name, KNOBS.iter().map(|knob| knob.name)),
        })
}

/// The candidate nearest to `word`, where one is near enough to be what was meant: a few letters
/// off, a part of it, or with the same beginning.
#[must_use]
pub fn nearest<'c>(word: &str, candidates: impl Iterator<Item = &'c str>) -> Option<&'c str> {
    let common_prefix = |candidate: &str| {
        word.bytes()
            .zip(candidate.bytes())
            .take_while(|(left, right)| left == right)
            .count()
    };
    candidates
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(distance, candidate)| {
            *distance <= (word.len().max(2) + 1) / 3
                || word.len() >= 3 && candidate.contains(word)
                || common_prefix(candidate) >= 5
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance in bytes: single insertions, deletions and substitutions.
fn distance(a: &str, b: &str) -> usize {
    let mut row: alloc::vec::Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, right) in b.bytes().enumerate() {
            let substitution = diagonal + usize::from(left != right);
            diagonal = row[j + 1];
            row[j + 1] = substitution.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

impl Knob {
    /// Reads a value as a user writes it: `on`, `64KiB`, `40ms`, `4096 131072 6291456`, `bbr`.
    ///
    /// # Errors
    /// [`KnobError::Invalid`], saying what to write instead.
    pub fn parse(&self, text: &str) -> Result<KnobValue, KnobError> {
        let invalid = |reason: String| KnobError::Invalid {
            knob: self.name,
            reason,
        };
        let text = text.trim();
        let value = match self.kind {
            Kind::Flag => match text {
                "on" | "1" | "true" | "yes" => KnobValue::Flag(true),
                "off" | "0" | "false" | "no" => KnobValue::Flag(false),
                _ => {
                    return Err(invalid(alloc::format!(
                        "`{text}` is neither `on` nor `off`"
                    )));
                }
            },
            Kind::Count | Kind::Packets => {
                let digits = text.strip_suffix('p').unwrap_or(text);
                KnobValue::Number(
                    digits
                        .parse()
                        .map_err(|_| invalid(alloc::format!("`{text}` is not a whole number")))?,
                )
            }
            Kind::Bytes => KnobValue::Number(
                text.parse::<Bytes>()
                    .map_err(|e| invalid(alloc::format!("{e}")))?
                    .0,
            ),
            Kind::Micros => KnobValue::Number(
                parse_duration(text)
                    .map_err(|e| invalid(alloc::format!("{e}")))?
                    .as_micros() as u64,
            ),
            Kind::BytesTriple => {
                let mut parts = [0_u64; 3];
                let words: alloc::vec::Vec<&str> = text
                    .split([' ', '\t', ','])
                    .filter(|word| !word.is_empty())
                    .collect();
                if words.len() != 3 {
                    return Err(invalid(
                        "write three sizes: minimum, default and maximum".into(),
                    ));
                }
                for (part, word) in parts.iter_mut().zip(words) {
                    *part = word
                        .parse::<Bytes>()
                        .map_err(|e| invalid(alloc::format!("{e}")))?
                        .0;
                }
                KnobValue::Triple(parts)
            }
            Kind::Name => KnobValue::Name(text.into()),
        };
        self.check(&value)?;
        Ok(value)
    }

    /// Whether `value` is of this knob's kind and within its range.
    ///
    /// # Errors
    /// [`KnobError::Invalid`], saying what the range is.
    pub fn check(&self, value: &KnobValue) -> Result<(), KnobError> {
        let invalid = |reason: String| {
            Err(KnobError::Invalid {
                knob: self.name,
                reason,
            })
        };
        let in_range = |number: u64| (self.min..=self.max).contains(&number);
        let range = || {
            alloc::format!(
                "{value} is out of range; the range is {} to {}",
                self.min,
                self.max
            )
        };
        match (self.kind, value) {
            (Kind::Flag, KnobValue::Flag(_)) => Ok(()),
            (
                Kind::Count | Kind::Bytes | Kind::Packets | Kind::Micros,
                KnobValue::Number(number),
            ) => {
                if in_range(*number) {
                    Ok(())
                } else {
                    invalid(range())
                }
            }
            (Kind::BytesTriple, KnobValue::Triple(parts)) => {
                if !parts.iter().all(|part| in_range(*part)) {
                    invalid(range())
                } else if !parts.is_sorted() {
                    invalid(alloc::format!(
                        "{value}: minimum, default and maximum must rise"
                    ))
                } else {
                    Ok(())
                }
            }
            (Kind::Name, KnobValue::Name(name)) => {
                let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
                if name.is_empty() || name.len() > 15 || !name.chars().all(plain) {
                    invalid(alloc::format!(
                        "`{name}` is no name that the kernel accepts"
                    ))
                } else {
                    Ok(())
                }
            }
            (kind, _) => invalid(alloc::format!(
                "`{value}` does not fit; give {}",
                kind.wanted()
            )),
        }
    }

    /// Prints a value with this knob's unit, so that [`Knob::parse`] reads it back.
    #[must_use]
    pub fn format(&self, value: &KnobValue) -> String {
        match (self.kind, value) {
            (Kind::Bytes, KnobValue::Number(bytes)) => alloc::format!("{}", Bytes(*bytes)),
            (Kind::Packets, KnobValue::Number(packets)) => alloc::format!("{packets}p"),
            (Kind::Micros, KnobValue::Number(micros)) => {
                format_duration(Duration::from_micros(*micros))
            }
            _ => alloc::format!("{value}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_documented() {
        for (i, knob) in KNOBS.iter().enumerate() {
            assert!(
                KNOBS[..i].iter().all(|other| other.name != knob.name),
                "{}",
                knob.name
            );
            assert!(
                knob.help.ends_with('.'),
                "{}: help is a sentence",
                knob.name
            );
            assert!(!knob.cite.is_empty(), "{}: a citation", knob.name);
            assert!(knob.min <= knob.max, "{}: range", knob.name);
        }
    }

    #[test]
    fn values_are_read_checked_and_printed() {
        let check = |name: &str, text: &str, expected: &str| {
            let knob = find_knob(name).expect("a knob");
            match knob.parse(text) {
                Ok(value) => assert_eq!(knob.format(&value), expected),
                Err(error) => {
                    let shown = alloc::format!("{error}");
                    assert!(shown.contains(expected), "{name} = {text}: {shown}");
                }
            }
        };
        check("nodelay", "on", "on");
        check("nodelay", "perhaps", "neither `on` nor `off`");
        check("sndbuf", "64KiB", "64KiB");
        check("sndbuf", "64K", "KiB` or `kB");
        check("delack_max", "8ms", "8ms");
        check(
            "net.ipv4.tcp_rmem",
            "4096 131072 6291456",
            "4096 131072 6291456",
        );
        check("net.ipv4.tcp_rmem", "4096 131072", "write three sizes");
        check("net.ipv4.tcp_rmem", "4096 1000 500000", "must rise");
        check("route.initcwnd", "100000000", "out of range");
        check("congestion", "bbr", "bbr");
        check("congestion", "../etc", "no name that the kernel accepts");
    }

    #[test]
    fn a_misspelt_knob_is_recognised() {
        let message = |name| alloc::format!("{}", find_knob(name).expect_err("unknown"));
        assert_eq!(
            message("nodlay"),
            "unknown knob `nodlay`; did you mean `nodelay`?"
        );
        assert_eq!(
            message("tcp_rmem"),
            "unknown knob `tcp_rmem`; did you mean `net.ipv4.tcp_rmem`?"
        );
        assert_eq!(message("xyzzy"), "unknown knob `xyzzy`");
    }
}
