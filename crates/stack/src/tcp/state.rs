//! The states of RFC 9293 section 3.3.2, a type each, and how events lead from one to the next.
//!
//! Transitions are pure: they decide from the state and the event alone. LISTEN is a
//! [`Listener`](crate::host), and TIME-WAIT leaves the connection behind and lives on as a few
//! words ([`time_wait`](crate::host::time_wait)); here they are only the last step.

use base::{Instant, TcpState};

/// We sent a SYN and wait for the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SynSent {
    /// When the first SYN left.
    pub(crate) since: Instant,
    /// Times that it was retransmitted.
    pub(crate) retransmits: u32,
}

/// A SYN came, ours has left, and its acknowledgment is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SynReceived {
    /// When our first SYN-ACK left.
    pub(crate) since: Instant,
    /// Times that it was retransmitted after a timeout.
    pub(crate) retransmits: u32,
    /// Timeouts, those among them that retransmitted nothing; where SYNs crossed, without those of
    /// ours in constant intervals.
    pub(crate) timeouts: u32,
    /// The application closed already: a FIN follows as soon as the connection is established.
    pub(crate) closing: bool,
    /// Acknowledged; data must arrive before the application is told of the connection.
    pub(crate) is_acked: bool,
    /// What our timestamp clock said when the last SYN-ACK left; one unit before `since` where only
    /// a cookie remembers it.
    pub(crate) answered: u32,
}

/// Data flows both ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Established;

/// Our FIN was sent; it is not acknowledged, and the peer has not closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FinWait1 {
    /// Our SYN in front of it, if that is not acknowledged either.
    pub(crate) syn: Option<LateSyn>,
}

/// A SYN that is not acknowledged although the application has closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LateSyn {
    /// When it left with the ACK of the peer's.
    pub(crate) sent: Instant,
    pub(crate) retransmits: u32,
    /// How often its timeout was doubled.
    pub(crate) doublings: u8,
    /// A tail-loss probe of the FIN comes before the next retransmission.
    pub(crate) is_probe_due: bool,
}

/// Our FIN is acknowledged, the peer may go on sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FinWait2;

/// Both have closed, our FIN is not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Closing;

/// The peer has closed, we may go on sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CloseWait;

/// The peer has closed, and so have we; our FIN is not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastAck;

/// State of a connection. Each segment asks for it several times, which is quick with a tag of its
/// own; the compiler would fold that into [`LateSyn::is_probe_due`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    SynSent(SynSent),
    SynReceived(SynReceived),
    Established(Established),
    FinWait1(FinWait1),
    FinWait2(FinWait2),
    Closing(Closing),
    CloseWait(CloseWait),
    LastAck(LastAck),
    /// Both have closed, and both FINs are acknowledged: old segments are awaited.
    TimeWait,
    /// Ended.
    Closed,
}

impl State {
    /// Our side sends no more data than it has (the application's CLOSE call, section 3.10.4).
    #[must_use]
    pub(crate) fn on_close(self) -> Self {
        match self {
            Self::SynSent(_) => Self::Closed,
            Self::SynReceived(state) => Self::SynReceived(SynReceived {
                closing: true,
                ..state
            }),
            Self::Established(Established) => Self::FinWait1(FinWait1::default()),
            Self::CloseWait(CloseWait) => Self::LastAck(LastAck),
            Self::FinWait1(_)
            | Self::FinWait2(_)
            | Self::Closing(_)
            | Self::LastAck(_)
            | Self::TimeWait
            | Self::Closed => self,
        }
    }

    /// The acknowledgment of our SYN arrived (section 3.10.7.4).
    #[must_use]
    pub(crate) fn on_syn_acked(self) -> Self {
        match self {
            Self::SynReceived(SynReceived { closing: true, .. }) => {
                Self::FinWait1(FinWait1::default())
            }
            Self::SynSent(_) | Self::SynReceived(_) => Self::Established(Established),
            _ => self,
        }
    }

    /// All data of the peer and its FIN have arrived.
    #[must_use]
    pub(crate) const fn on_fin(self) -> Self {
        match self {
            Self::Established(Established) => Self::CloseWait(CloseWait),
            Self::FinWait1(_) => Self::Closing(Closing),
            Self::FinWait2(FinWait2) => Self::TimeWait,
            _ => self,
        }
    }

    /// All our data and our FIN are acknowledged.
    #[must_use]
    pub(crate) const fn on_fin_acked(self) -> Self {
        match self {
            Self::FinWait1(_) => Self::FinWait2(FinWait2),
            Self::Closing(Closing) => Self::TimeWait,
            Self::LastAck(LastAck) => Self::Closed,
            _ => self,
        }
    }

    /// Whether both have sent and acknowledged a SYN.
    #[must_use]
    pub(crate) const fn is_synchronized(self) -> bool {
        !matches!(self, Self::SynSent(_) | Self::SynReceived(_) | Self::Closed)
    }

    /// Whether the application may still write.
    #[must_use]
    pub(crate) const fn may_write(self) -> bool {
        matches!(self, Self::Established(_) | Self::CloseWait(_))
    }

    /// Whether data of the peer is still welcome.
    #[must_use]
    pub(crate) const fn may_receive(self) -> bool {
        matches!(
            self,
            Self::Established(_) | Self::FinWait1(_) | Self::FinWait2(_)
        )
    }

    /// The name in flow records.
    #[must_use]
    pub(crate) const fn name(self) -> TcpState {
        match self {
            Self::SynSent(_) => TcpState::SynSent,
            Self::SynReceived(_) => TcpState::SynReceived,
            Self::Established(_) => TcpState::Established,
            Self::FinWait1(_) => TcpState::FinWait1,
            Self::FinWait2(_) => TcpState::FinWait2,
            Self::Closing(_) => TcpState::Closing,
            Self::CloseWait(_) => TcpState::CloseWait,
            Self::LastAck(_) => TcpState::LastAck,
            Self::TimeWait => TcpState::TimeWait,
            Self::Closed => TcpState::Closed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYN_SENT: State = State::SynSent(SynSent {
        since: Instant::ZERO,
        retransmits: 0,
    });

    fn syn_received(closing: bool) -> State {
        State::SynReceived(SynReceived {
            since: Instant::ZERO,
            retransmits: 0,
            timeouts: 0,
            closing,
            is_acked: false,
            answered: 0,
        })
    }

    /// The diagram of RFC 9293 section 3.3.2, from ESTABLISHED on, as a table.
    #[test]
    fn closing_follows_the_diagram() {
        use State as S;
        let established = S::Established(Established);
        let check = |state: State, close: State, fin: State, fin_acked: State| {
            assert_eq!(state.on_close(), close, "{state:?}, close");
            assert_eq!(state.on_fin(), fin, "{state:?}, FIN");
            assert_eq!(
                state.on_fin_acked(),
                fin_acked,
                "{state:?}, FIN acknowledged"
            );
        };
        let (fin_wait_1, fin_wait_2) = (S::FinWait1(FinWait1::default()), S::FinWait2(FinWait2));
        let (close_wait, last_ack) = (S::CloseWait(CloseWait), S::LastAck(LastAck));
        let closing = S::Closing(Closing);
        check(established, fin_wait_1, close_wait, established);
        check(fin_wait_1, fin_wait_1, closing, fin_wait_2);
        check(fin_wait_2, fin_wait_2, S::TimeWait, fin_wait_2);
        check(closing, closing, closing, S::TimeWait);
        check(close_wait, last_ack, close_wait, close_wait);
        check(last_ack, last_ack, last_ack, S::Closed);
        check(S::TimeWait, S::TimeWait, S::TimeWait, S::TimeWait);
        check(S::Closed, S::Closed, S::Closed, S::Closed);
    }

    #[test]
    fn opening_follows_the_diagram() {
        assert_eq!(SYN_SENT.on_syn_acked(), State::Established(Established));
        assert_eq!(SYN_SENT.on_close(), State::Closed);
        assert_eq!(
            syn_received(false).on_syn_acked(),
            State::Established(Established)
        );
        assert_eq!(syn_received(false).on_close(), syn_received(true));
        assert_eq!(
            syn_received(true).on_syn_acked(),
            State::FinWait1(FinWait1::default())
        );
    }
}
