//! One definition per knob: name, unit, range, help, citation, its place in Linux and in our stack.
//!
//! Scenario keys, `--help`, the reference page, sweep axes, advice and the actuators all derive
//! from [`KNOBS`].

mod site;
mod table;
#[cfg(test)]
mod tests;
mod value;

use alloc::string::String;
use core::fmt;

use crate::settings::SocketSettings;
use crate::{Bytes, KnobValue, Rate, format_duration, parse_duration};
use core::time::Duration;

pub use site::StackSite;
pub use table::KNOBS;
pub use value::NONE;

/// Type of a knob's value.
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
    /// Bits per second.
    Rate,
    /// A name.
    Name,
    /// One of these names.
    Choice(&'static [&'static str]),
}

impl Kind {
    /// How a value of this kind is written in a plan.
    const fn wanted(self) -> &'static str {
        match self {
            Self::Flag => "true or false",
            Self::Count => "a number",
            Self::Bytes => "a number of bytes",
            Self::Packets => "a number of packets",
            Self::Micros => "a number of microseconds",
            Self::BytesTriple => "three numbers of bytes",
            Self::Rate => "a number of bits per second",
            Self::Name => "a name",
            Self::Choice(_) => "one of its names",
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
    /// All connections of a host, whatever their namespace.
    Host,
}

/// The place of a setting on Linux.
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
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Knob {
    /// The name that users write; for a sysctl its own.
    pub name: &'static str,
    /// Unit.
    pub kind: Kind,
    /// Smallest value (for a triple: of each part).
    pub min: u64,
    /// Largest value.
    pub max: u64,
    /// Our stack also takes and shows [`NONE`]; the help says what it means.
    pub or_none: bool,
    /// One sentence.
    pub help: &'static str,
    /// Source of the rule: RFC section, kernel function, or seed document.
    pub cite: &'static str,
    /// How far it reaches.
    pub scope: Scope,
    /// Place on Linux; `None` for settings of our own stack alone.
    pub linux: Option<LinuxSite>,
    /// Place in our stack; `None` where our connections have no such setting.
    pub stack: Option<StackSite>,
    /// Other names of the same thing, those of other stacks among them.
    pub aliases: &'static [&'static str],
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
    /// The text is not a value of this knob.
    Invalid {
        /// The knob.
        knob: &'static str,
        /// The problem, and what to write instead.
        reason: String,
    },
    /// Linux has no place for it.
    NotInLinux {
        /// The knob.
        knob: &'static str,
    },
    /// Our stack has no place for it in a connection's settings.
    NotInStack {
        /// The knob.
        knob: &'static str,
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
            Self::NotInLinux { knob } => write!(
                f,
                "{knob}: it is a setting of tcptailor's own stack; it cannot be set in Linux"
            ),
            Self::NotInStack { knob } => write!(
                f,
                "{knob}: it is a setting of Linux; a connection of tcptailor's own stack has none"
            ),
        }
    }
}

impl core::error::Error for KnobError {}

/// Finds a knob by its name or by one of its aliases.
///
/// # Errors
/// [`KnobError::Unknown`] with the nearest name.
pub fn find_knob(name: &str) -> Result<&'static Knob, KnobError> {
    KNOBS
        .iter()
        .find(|knob| knob.names().any(|known| known == name))
        .ok_or_else(|| KnobError::Unknown {
            name: name.into(),
            nearest: nearest(name, KNOBS.iter().flat_map(Knob::names)),
        })
}

/// The candidate nearest to `word`, where one is near enough to be what was meant: a few letters
/// off, a part of it, or with the same beginning or a whole word in common. All of it as a part
/// counts for more than a word in common, and that for more than letters: who writes `rmem_size`
/// means something with `rmem`, not `rto_min`.
#[must_use]
pub fn nearest<'c>(word: &str, candidates: impl Iterator<Item = &'c str>) -> Option<&'c str> {
    let common_prefix = |candidate: &str| {
        word.bytes()
            .zip(candidate.bytes())
            .take_while(|(left, right)| left == right)
            .count()
    };
    let parts = |text: &'_ str| -> alloc::vec::Vec<String> {
        let parts = text
            .split(['.', '_', '-', ' '])
            .filter(|part| part.len() >= 4);
        parts.map(String::from).collect()
    };
    let own = parts(word);
    let has_part = |candidate: &str| parts(candidate).iter().any(|part| own.contains(part));
    candidates
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(distance, candidate)| {
            *distance <= (word.len().max(2) + 1) / 3
                || word.len() >= 3 && candidate.contains(word)
                || common_prefix(candidate) >= 5
                || has_part(candidate)
        })
        .min_by_key(|(distance, candidate)| {
            let is_far = *distance > 2 && !has_part(candidate);
            (!candidate.contains(word), is_far, *distance)
        })
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
    /// Its name, then its aliases.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        core::iter::once(self.name).chain(self.aliases.iter().copied())
    }

    /// Whether Linux has it as an option of a socket. (The [`Scope`] alone does not say so: a
    /// setting of our own stack has the scope of a socket too.)
    #[must_use]
    pub const fn is_socket_option(&self) -> bool {
        matches!(self.linux, Some(LinuxSite::SocketOption { .. }))
    }

    /// Sets it in the settings of a connection of our stack; a failure changes nothing.
    ///
    /// # Errors
    /// [`KnobError::NotInStack`], and [`KnobError::Invalid`] where the value is none of this knob
    /// or not one that these settings allow.
    pub fn set(&self, settings: &mut SocketSettings, value: &KnobValue) -> Result<(), KnobError> {
        let site = self.stack_site()?;
        self.check(value)?;
        (site.set)(settings, value).map_err(|reason| self.invalid(reason))
    }

    /// Its value in the settings of a connection of our stack; [`NONE`] where they have none.
    ///
    /// # Errors
    /// [`KnobError::NotInStack`].
    pub fn get(&self, settings: &SocketSettings) -> Result<KnobValue, KnobError> {
        Ok((self.stack_site()?.get)(settings))
    }

    const fn stack_site(&self) -> Result<StackSite, KnobError> {
        match self.stack {
            Some(site) => Ok(site),
            None => Err(KnobError::NotInStack { knob: self.name }),
        }
    }

    /// As [`Knob::check`], and that Linux has a place for it and for the value.
    ///
    /// # Errors
    /// [`KnobError::NotInLinux`], [`KnobError::Invalid`].
    pub fn check_for_linux(&self, value: &KnobValue) -> Result<(), KnobError> {
        if self.linux.is_none() {
            return Err(KnobError::NotInLinux { knob: self.name });
        }
        if self.or_none && value::is_none(value) {
            return Err(self.invalid("Linux has no `none` for it; give a value".into()));
        }
        self.check(value)
    }

    const fn invalid(&self, reason: String) -> KnobError {
        KnobError::Invalid {
            knob: self.name,
            reason,
        }
    }

    /// Reads a value as a user writes it: `on`, `64KiB`, `40ms`, `4096 131072 6291456`, `bbr`.
    ///
    /// # Errors
    /// [`KnobError::Invalid`], saying what to write instead.
    pub fn parse(&self, text: &str) -> Result<KnobValue, KnobError> {
        let invalid = |reason: String| self.invalid(reason);
        let text = text.trim();
        let value = match self.kind {
            _ if self.or_none && text == NONE => KnobValue::Name(NONE.into()),
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
            Kind::Rate => KnobValue::Number(
                text.parse::<Rate>()
                    .map_err(|e| invalid(alloc::format!("{e}")))?
                    .bits_per_second(),
            ),
            Kind::BytesTriple => self.parse_triple(text)?,
            Kind::Name | Kind::Choice(_) => KnobValue::Name(text.into()),
        };
        self.check(&value)?;
        Ok(value)
    }

    fn parse_triple(&self, text: &str) -> Result<KnobValue, KnobError> {
        let words: alloc::vec::Vec<&str> = text
            .split([' ', '\t', ','])
            .filter(|word| !word.is_empty())
            .collect();
        if words.len() != 3 {
            return Err(self.invalid("write three sizes: minimum, default and maximum".into()));
        }
        let mut parts = [0_u64; 3];
        for (part, word) in parts.iter_mut().zip(words) {
            *part = word
                .parse::<Bytes>()
                .map_err(|e| self.invalid(alloc::format!("{e}")))?
                .0;
        }
        Ok(KnobValue::Triple(parts))
    }

    /// Whether `value` is of this knob's kind and within its range.
    ///
    /// # Errors
    /// [`KnobError::Invalid`], saying what the range is.
    pub fn check(&self, value: &KnobValue) -> Result<(), KnobError> {
        let invalid = |reason: String| Err(self.invalid(reason));
        let in_range = |number: u64| (self.min..=self.max).contains(&number);
        let range = || {
            alloc::format!(
                "{} is out of range; the range is {}",
                self.format(value),
                self.range()
            )
        };
        match (self.kind, value) {
            (_, value) if self.or_none && value::is_none(value) => Ok(()),
            (Kind::Flag, KnobValue::Flag(_)) => Ok(()),
            (Kind::Choice(names), KnobValue::Name(name)) => {
                if names.contains(&name.as_str()) {
                    Ok(())
                } else {
                    invalid(value::unknown_name(name, names))
                }
            }
            (
                Kind::Count | Kind::Bytes | Kind::Packets | Kind::Micros | Kind::Rate,
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
                        "`{name}` is not a name that the kernel accepts"
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

    /// The range with its unit, such as `2ms to 200ms`.
    #[must_use]
    pub fn range(&self) -> String {
        let part = |number| match self.kind {
            Kind::BytesTriple => alloc::format!("{}", Bytes(number)),
            _ => self.format(&KnobValue::Number(number)),
        };
        alloc::format!("{} to {}", part(self.min), part(self.max))
    }

    /// Prints a value with this knob's unit, so that [`Knob::parse`] reads it back.
    #[must_use]
    pub fn format(&self, value: &KnobValue) -> String {
        match (self.kind, value) {
            (Kind::Bytes, KnobValue::Number(bytes)) => alloc::format!("{}", Bytes(*bytes)),
            (Kind::Rate, KnobValue::Number(bits)) => {
                alloc::format!("{}", Rate::from_bits_per_second(*bits))
            }
            (Kind::Packets, KnobValue::Number(packets)) => alloc::format!("{packets}p"),
            (Kind::Micros, KnobValue::Number(micros)) => {
                format_duration(Duration::from_micros(*micros))
            }
            _ => alloc::format!("{value}"),
        }
    }
}
