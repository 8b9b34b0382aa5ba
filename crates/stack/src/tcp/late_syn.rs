//! A SYN of ours that is still not acknowledged when the application has closed the connection: two
//! SYNs have crossed, and the FIN has left behind ours.
//!
//! Linux keeps such a SYN in the queue of what is in flight, in front of the FIN, and knows no
//! round-trip time yet (`tcp_close_state`, `tcp_retransmit_timer`). Here it has a timer of its own,
//! and loss recovery begins once it is acknowledged.

use base::Instant;
use base::tcp::TcpFlags;

use super::state::{FinWait1, LateSyn};
use super::{Connection, State, SynReceived, Timer};
use crate::host::Shared;
use crate::packet::Segment;
use crate::recovery::Probe;

/// Retransmissions after which Linux gives up what no application waits for
/// (`tcp_orphan_retries`).
const RETRIES: u32 = 8;

impl Connection {
    /// The application closes the connection while two SYNs cross: Linux does not wait with its FIN
    /// until the SYN is acknowledged (`tcp_close_state`).
    #[cold]
    pub(super) fn close_crossed(&mut self, now: Instant, shared: &mut Shared, state: SynReceived) {
        let due = self.timers.due(Timer::Handshake);
        let stall = self.stall;
        // The FIN of a side that was shut down before leaves now, too.
        self.state = State::SynReceived(SynReceived {
            closing: false,
            ..state
        });
        self.establish(now, shared, None, 0);
        self.shutdown(now, shared);
        if !matches!(self.state, State::FinWait1(_)) {
            return;
        }
        self.timers.stop(Timer::Recovery);
        self.timers.stop(Timer::Probe);
        self.recovery.stop_timer();
        self.timers.stop(Timer::User);
        self.stall = stall;
        let SynReceived {
            since,
            retransmits,
            timeouts,
            ..
        } = state;
        let is_probe_due = retransmits == 0 && self.recovery.packets_out() > 0;
        let syn = LateSyn {
            sent: since,
            retransmits,
            doublings: timeouts.min(16) as u8,
            is_probe_due,
        };
        self.state = State::FinWait1(FinWait1 { syn: Some(syn) });
        let due = match is_probe_due {
            true => {
                let wait = (since + self.settings.recovery.rto_initial).since(now);
                Some(shared.tick.expiry(now, wait))
            }
            false => due,
        };
        self.timers.set(Timer::Handshake, due);
    }

    /// Neither SYN nor FIN was answered.
    pub(super) fn on_late_syn_timeout(&mut self, now: Instant, shared: &mut Shared) {
        let user_timeout = self.settings.life.user_timeout;
        let stalled = self.stall.lasts(now);
        let State::FinWait1(FinWait1 { syn: Some(syn) }) = &mut self.state else {
            if matches!(self.state, State::Closing(_)) {
                // The peer's FIN came without an ACK of our SYN: from now on only our FIN counts.
                self.recovery.on_late_syn_acked(now, None, 0);
                self.arm_timers(now, shared);
            }
            return;
        };
        let mut doublings = 0;
        if core::mem::take(&mut syn.is_probe_due) {
            let segment = self.retransmit_mss();
            if let Probe::NewOr { start, end } = self.recovery.on_probe_timeout(now, segment) {
                self.retransmit(now, shared, (start, end), now);
            }
            self.recovery.stop_timer();
        } else if syn.retransmits >= RETRIES
            || syn.retransmits > 0 && user_timeout.is_some_and(|longest| stalled >= longest)
        {
            self.give_up(now, shared);
            return;
        } else {
            syn.retransmits += 1;
            syn.doublings = syn.doublings.saturating_add(1);
            doublings = syn.doublings;
            self.send_syn_ack(now, shared);
        }
        let recovery = &self.settings.recovery;
        let mut wait = recovery.rto_initial.saturating_mul(1 << doublings.min(16));
        wait = wait.min(recovery.rto_max);
        if let Some(longest) = user_timeout.filter(|_| doublings > 0) {
            // Linux `tcp_clamp_rto_to_user_timeout`.
            let left = longest.saturating_sub(stalled);
            wait = wait.min(left.max(shared.tick.tick()));
        }
        let due = shared.tick.expiry(now, wait);
        self.timers.set(Timer::Handshake, Some(due));
    }

    /// A segment of the peer came: it may acknowledge the SYN.
    #[cold]
    pub(super) fn look_at_late_syn(&mut self, now: Instant, segment: &Segment, syn: LateSyn) {
        let is_acked = self.iss.offset(segment.ack, self.recovery.next()) >= 1;
        if !segment.flags.contains(TcpFlags::ACK) || !is_acked {
            return;
        }
        self.state = State::FinWait1(FinWait1::default());
        self.timers.stop(Timer::Handshake);
        self.stall.end();
        let echo = segment.options.timestamps.map_or(0, |it| it.echo);
        let rtt = match syn.retransmits {
            0 => Some(now.since(syn.sent)),
            _ => self.echoed_rtt(now, echo),
        };
        self.recovery.on_late_syn_acked(now, rtt, syn.retransmits);
    }
}
