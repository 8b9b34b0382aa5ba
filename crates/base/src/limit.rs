//! Limits: why a sender is not sending faster at this instant.

use core::fmt;
use core::str::FromStr;

/// The reason why a TCP sender does not send (more) right now. Every wait has exactly one.
///
/// Our own stack knows it, the doctor infers it from samples, and both speak this type: that is
/// what makes simulated flows labelled data for the doctor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Limit {
    /// Everything the application wrote has been sent: the program is the limit.
    Application,
    /// A partial segment is held until earlier small data is acknowledged (RFC 896, Minshall).
    Nagle,
    /// A partial segment is held because the program corked the socket (`TCP_CORK`, `MSG_MORE`).
    Cork,
    /// The window that the peer offers is used up (RFC 9293 section 3.8.6).
    PeerWindow,
    /// The congestion window is used up (RFC 5681).
    Congestion,
    /// Loss recovery or a retransmission timeout decides what may be sent (RFC 6675, RFC 8985).
    Recovery,
    /// The program has more, and its send buffer is full of unacknowledged data.
    SendBuffer,
    /// A budget on unacknowledged data, apart from the send buffer, is used up (seed: `NetBurner`).
    UnackedBudget,
    /// The next packet has its time, and that time has not come.
    Pacing,
    /// The pool of packet buffers that the host shares is empty (seed: `NetBurner`).
    BufferPool,
    /// The local interface or its queue does not take more.
    Interface,
    /// The connection is not established yet.
    Handshake,
}

impl Limit {
    /// All values, in the order in which tables list them.
    pub const ALL: [Self; 12] = [
        Self::Application,
        Self::Nagle,
        Self::Cork,
        Self::PeerWindow,
        Self::Congestion,
        Self::Recovery,
        Self::SendBuffer,
        Self::UnackedBudget,
        Self::Pacing,
        Self::BufferPool,
        Self::Interface,
        Self::Handshake,
    ];

    /// The name in reports and JSON, such as `peer-window`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Application => "application",
            Self::Nagle => "nagle",
            Self::Cork => "cork",
            Self::PeerWindow => "peer-window",
            Self::Congestion => "congestion",
            Self::Recovery => "recovery",
            Self::SendBuffer => "send-buffer",
            Self::UnackedBudget => "unacked-budget",
            Self::Pacing => "pacing",
            Self::BufferPool => "buffer-pool",
            Self::Interface => "interface",
            Self::Handshake => "handshake",
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// No limit has this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownLimit;

impl fmt::Display for UnknownLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown limit")
    }
}

impl FromStr for Limit {
    type Err = UnknownLimit;

    fn from_str(text: &str) -> Result<Self, UnknownLimit> {
        Self::ALL
            .into_iter()
            .find(|limit| limit.name() == text)
            .ok_or(UnknownLimit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn every_limit_is_parsed_from_its_name() {
        for limit in Limit::ALL {
            assert_eq!(limit.to_string().parse(), Ok(limit));
        }
        assert_eq!("nagel".parse::<Limit>(), Err(UnknownLimit));
    }
}
