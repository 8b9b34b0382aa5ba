//! Reports sent and acknowledged data to the sending half and to loss recovery: first loss
//! recovery, which keeps how far the stream has come, then the sending half, which is shown it.

use base::Instant;

use super::{Connection, State};
use crate::host::Shared;
use crate::send::Outgoing;

/// Data released by an acknowledgment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Released {
    /// Sends of Winsock that became complete.
    pub(super) completed: u32,
    /// Our FIN was acknowledged with it.
    pub(super) fin: bool,
}

impl Connection {
    /// Offsets of what is sent and not acknowledged; before the connection is established that is
    /// our SYN.
    pub(super) fn sent_range(&self) -> (u64, u64) {
        match self.state {
            State::SynSent(_) | State::SynReceived(_) => (0, 1),
            _ => (self.recovery.una(), self.recovery.next()),
        }
    }

    /// `outgoing` left for the first time.
    pub(super) fn on_new_sent(&mut self, now: Instant, shared: &mut Shared, outgoing: &Outgoing) {
        self.recovery.take_memory(&mut shared.spare_flight);
        self.recovery.on_transmit(
            now,
            (outgoing.start, outgoing.sequence_end()),
            outgoing.gso_size.into(),
            outgoing.fin,
        );
        self.send.on_sent(outgoing);
    }

    /// `start..end` as it is retransmitted in segments of `mss` bytes: the FIN that may be its last
    /// offset, and whether the data is pushed.
    pub(super) fn retransmission(&self, start: u64, end: u64, mss: u32) -> Outgoing {
        let data_end = end.min(self.send.end());
        Outgoing {
            start,
            end: data_end,
            gso_size: if data_end - start > u64::from(mss) {
                mss as u16
            } else {
                0
            },
            push: self.send.retransmits_push(start, data_end, mss),
            fin: end > data_end,
        }
    }

    /// `outgoing`, of segments of `mss` bytes, was retransmitted.
    pub(super) fn on_retransmitted(
        &mut self,
        now: Instant,
        outgoing: &Outgoing,
        mss: u32,
        dated: Instant,
    ) {
        if outgoing.start == self.recovery.una() {
            self.send.trim_head();
            let taken = self.charged_behind_probe();
            self.send.keep(taken);
        }
        let timestamp = self.timestamp(dated);
        let range = (outgoing.start, outgoing.sequence_end());
        self.recovery
            .on_retransmit(now, range, mss, (dated, timestamp));
        if outgoing.fin && outgoing.push {
            self.send.note_pushed_fin();
        }
    }

    /// Loss recovery has found `bytes` more offsets acknowledged: the sending half releases what it
    /// kept of them.
    /// `is_tight`: the host is short of memory.
    pub(super) fn release_acked(&mut self, bytes: u64, is_tight: bool) -> Released {
        let env = self.send_memory_env(is_tight);
        let progress = self.recovery.progress();
        let fin = progress.fin_end() == Some(progress.una());
        let data_bytes = bytes - u64::from(fin);
        let kept = self.recovery.kept_bytes() + self.charged_behind_probe();
        let progress = self.recovery.progress();
        let completed = self.send.on_ack((data_bytes, kept), progress, &env);
        Released { completed, fin }
    }
}
