//! Profiles: what a named stack sets, as data.
//!
//! A profile decides the values that a host and its connections start with. It holds no behaviour:
//! everything that differs between stacks is a value of [`SocketSettings`] or [`HostSettings`].
//! Where no source gives a value, the comment says "recalled" (from general knowledge) or "ours".

mod freebsd;
mod linux;
mod netburner;
pub mod preset;
#[cfg(test)]
mod tests;
mod textbook;
mod winsock;

use alloc::string::String;
use core::fmt;
use core::time::Duration;

use base::knob::nearest;
use base::settings::{
    AckEvery, Acks, BufferSize, Detection, MtuProbing, Path, Recovery, RtoRule, SizeRule,
    SocketSettings,
};

use crate::HostSettings;

pub use freebsd::{freebsd_14, freebsd_2006};
pub use linux::{
    linux, linux_6_12, linux_6_16, linux_6_18, linux_6_18_hz1000, linux_6_19, linux_2019,
};
pub use netburner::{netburner, netburner_2009};
pub use textbook::textbook;
pub use winsock::winsock;

/// A stack by name: everything that its hosts and connections start with.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Profile {
    /// The name that users write.
    pub name: &'static str,
    /// Which stack it is, in a sentence.
    pub about: &'static str,
    /// Initial settings of each connection.
    pub settings: SocketSettings,
    /// Settings shared by all connections of a host.
    pub system: HostSettings,
    /// Connections that may wait at a listener to be accepted.
    pub backlog: u32,
    /// Whether listeners answer statelessly when the backlog is full (RFC 4987).
    pub syn_cookies: bool,
}

/// Makes a profile.
pub type MakeProfile = fn() -> Profile;

/// Every profile, by name.
pub const PROFILES: &[(&str, MakeProfile)] = &[
    ("linux_6_18", linux_6_18),
    ("linux_6_12", linux_6_12),
    ("linux_6_16", linux_6_16),
    ("linux_6_19", linux_6_19),
    ("linux_2019", linux_2019),
    ("freebsd_14", freebsd_14),
    ("freebsd_2006", freebsd_2006),
    ("winsock", winsock),
    ("netburner", netburner),
    ("netburner_2009", netburner_2009),
    ("textbook", textbook),
];

/// The same stacks on systems built with other options, by name. Settings of connections are those
/// of the profile without the suffix.
pub const BUILDS: &[(&str, MakeProfile)] = &[("linux_6_18_hz1000", linux_6_18_hz1000)];

/// No profile has that name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownProfile {
    /// The name that was given.
    pub name: String,
    /// The nearest name that exists.
    pub nearest: Option<&'static str>,
}

impl fmt::Display for UnknownProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown profile `{}`", self.name)?;
        match self.nearest {
            Some(nearest) => write!(f, "; did you mean `{nearest}`?"),
            None => {
                f.write_str("; there are ")?;
                for (index, (name, _)) in PROFILES.iter().enumerate() {
                    let comma = if index == 0 { "" } else { ", " };
                    write!(f, "{comma}{name}")?;
                }
                Ok(())
            }
        }
    }
}

impl core::error::Error for UnknownProfile {}

/// The profile of that name.
///
/// # Errors
/// [`UnknownProfile`] with the nearest name.
pub fn find(name: &str) -> Result<Profile, UnknownProfile> {
    let mut all = PROFILES.iter().chain(BUILDS);
    match all.find(|(known, _)| *known == name) {
        Some((_, profile)) => Ok(profile()),
        None => Err(UnknownProfile {
            name: name.into(),
            nearest: nearest(name, PROFILES.iter().map(|(known, _)| *known)),
        }),
    }
}

/// A buffer that stays as it begins.
const fn fixed_size(min: u32, initial: u32, request_max: u32) -> BufferSize {
    BufferSize {
        min,
        initial,
        max: initial,
        request_max,
        fixed: None,
        rule: SizeRule::Fixed,
    }
}

/// Delayed ACKs as in most stacks: every second packet, or after `delay`; independent of the
/// application, and never merged.
const fn acks_after(delay: Duration) -> Acks {
    Acks {
        every: AckEvery::Packets(2), // RFC 1122 section 4.2.3.2
        delay,
        follows_pace: false,
        delay_min: delay,
        delay_max: delay,
        timer_tick: Duration::ZERO,
        quick_max: 0,
        pingpong_threshold: 0,
        on_read: false,
        always_quick: false,
        compress: None,
        window_update_segments: Some(2), // as BSD does it
        challenge_per_second: 200,
    }
}

/// Recovery without anything that came after fast retransmit.
const fn plain_recovery(detection: Detection) -> Recovery {
    Recovery {
        detection,
        dupack_threshold: 3, // RFC 5681 section 3.2
        tail_loss_probe: false,
        prr: false,
        frto: false,
        undo: false,
        limited_transmit: false,
        rto_initial: secs(3),
        rto_min: secs(1),
        rto_max: secs(64),
        rto_rule: RtoRule::Rfc6298,
    }
}

/// A stack that hands single segments to its driver, as many as it likes.
const fn single_segments() -> Path {
    Path {
        pmtu_discovery: true, // RFC 1191, RFC 8201
        pmtu_confirm: true,   // RFC 5927 section 7.2
        mtu_probing: MtuProbing::Off,
        mtu_base: 576,
        gso_max: 0,
        tso_min_segments: 0,
        tso_rtt_log: 0,
        tso_win_divisor: 0,
        local_queue_max: u32::MAX,
        hop_limit: 64, // RFC 1700
    }
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const fn millis(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}
