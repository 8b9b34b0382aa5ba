//! Reads headers: what is acceptable, what is an attack, and which half is told of it.
//!
//! The order of the checks is that of RFC 9293 section 3.10.7.4, with the answers of RFC 5961.

use base::tcp::TcpFlags;
use base::{Instant, Limit, SeqNum};
use smallvec::SmallVec;

use super::ledger::Released;
use super::peer_window::WindowUpdate;
use super::predict::DataHints;
use super::state::FinWait1;
use super::{Connection, State, Timer};
use crate::host::{Event, Failure, Shared};
use crate::packet::{EcnMark, Segment};
use crate::recovery::{AckInput, AckOutcome};
use crate::recv::{DataInput, DataOutcome};
use crate::trace::TraceEvent;

/// A segment with its numbers as offsets.
#[derive(Debug)]
pub(super) struct Placed<'a> {
    pub(super) segment: &'a Segment,
    /// Offset of its first byte; negative where it lies before the peer's SYN.
    pub(super) start: i64,
    /// Offset after its last byte, FIN counted.
    pub(super) end: i64,
}

impl<'a> Placed<'a> {
    fn new(segment: &'a Segment, start: i64) -> Self {
        Self {
            start,
            end: start + i64::from(segment.sequence_bytes()),
            segment,
        }
    }
}

/// Result of the checks of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Process it.
    Acceptable,
    /// Drop it silently.
    Drop,
    /// Drop it, and send a challenge ACK, rate-limited (RFC 5961).
    Challenge,
    /// Old: answer with an ACK, with D-SACK if it carried data.
    Duplicate,
    /// The connection is reset by the peer.
    Reset,
    /// The peer acknowledges a SYN that we did not send: reset its connection.
    Foreign,
    /// The peer opens another connection while this one is half open: both are reset (RFC 9293
    /// section 3.10.7.4, fourth step; Linux `tcp_check_req`).
    Replaced,
}

impl Connection {
    /// Handles a segment for this connection, in any state. Takes its payload out if it is
    /// accepted.
    pub(crate) fn handle_segment(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        segment: &mut Segment,
        mark: EcnMark,
    ) {
        self.traffic.on_segment_received(segment);
        if let State::SynSent(state) = self.state {
            self.handle_in_syn_sent(now, shared, state, segment);
            return;
        }
        let start = self.irs.offset(segment.seq, self.recv.next());
        if self.is_expected(segment, start) {
            debug_assert_eq!(
                self.judge(now, shared, &Placed::new(segment, start)),
                Verdict::Acceptable
            );
        } else if !self.passes_checks(now, shared, segment, mark, start) {
            return;
        }
        self.accept_segment(now, shared, segment, mark, start);
    }

    /// The checks before everything else; whether the segment is to be processed. Otherwise it has
    /// been answered, if it is to be.
    #[inline(never)]
    fn passes_checks(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        segment: &mut Segment,
        mark: EcnMark,
        start: i64,
    ) -> bool {
        let placed = Placed::new(segment, start);
        match self.judge(now, shared, &placed) {
            Verdict::Acceptable => return true,
            Verdict::Drop => {}
            Verdict::Challenge => {
                if self.takes_despite_ack(segment, start) {
                    self.take_despite_ack(now, shared, segment, mark, start);
                } else {
                    self.challenge(now, shared);
                }
            }
            Verdict::Duplicate => self.answer_duplicate(now, shared, &placed),
            Verdict::Reset => self.on_reset(now, shared),
            Verdict::Foreign => shared.reset_in_reply(now, self.local(), self.remote(), segment),
            Verdict::Replaced => {
                shared.reset_in_reply(now, self.local(), self.remote(), segment);
                self.fail(now, shared, Failure::Refused);
            }
        }
        false
    }

    /// The checks themselves, one by one.
    fn judge(&mut self, now: Instant, shared: &mut Shared, placed: &Placed<'_>) -> Verdict {
        let flags = placed.segment.flags;
        let is_reset = flags.contains(TcpFlags::RST);
        if matches!(self.state, State::SynReceived(_))
            && let Some(verdict) = self.judge_request(shared, placed)
        {
            return verdict;
        }
        // Dropped without an answer (Linux `tcp_rcv_established`).
        if !is_reset && !flags.contains(TcpFlags::ACK) && !flags.contains(TcpFlags::SYN) {
            shared.counters.without_ack += 1;
            return Verdict::Drop;
        }
        if let Some(verdict) = self.judge_clock(now, shared, placed) {
            return verdict;
        }
        if !self.is_in_window(placed) {
            shared.counters.out_of_window += 1;
            return match (is_reset, flags.contains(TcpFlags::SYN)) {
                (true, _) if self.has_number_of_fin(placed) => Verdict::Reset,
                // Linux `tcp_timewait_state_process` checks sequence numbers first.
                (true, _) if self.is_orphan_fin_wait2() => Verdict::Duplicate,
                (true, _) => Verdict::Drop,
                (false, true) => self.judge_syn(shared, placed),
                (false, false) => Verdict::Duplicate,
            };
        }
        if is_reset {
            //= https://www.rfc-editor.org/rfc/rfc5961#section-3.2
            //# If the RST bit is set and the sequence number exactly matches the
            //# next expected sequence number (RCV.NXT), then TCP MUST reset the
            //# connection.
            // Linux tcp_validate_incoming: with a hole, the peer's last number is the end of what
            // we SACKed.
            let edge = self.recv.sack_edge().map(|edge| edge as i64);
            let is_exact = placed.start == self.recv.next() as i64
                || Some(placed.start) == edge
                || self.has_number_of_fin(placed);
            return if is_exact || self.ends_orphan(placed) {
                Verdict::Reset
            } else {
                Verdict::Challenge
            };
        }
        if flags.contains(TcpFlags::SYN) {
            return if self.is_half_open() && placed.start != 0 || self.ends_orphan(placed) {
                Verdict::Replaced
            } else {
                self.judge_syn(shared, placed)
            };
        }
        match self.judge_ack(shared, placed.segment) {
            Verdict::Challenge if self.is_orphan_fin_wait2() => self.judge_forgotten(placed),
            verdict => verdict,
        }
    }

    /// An orphan in FIN-WAIT-2 only waits for the peer's FIN: ACKs do not matter, and data is reset
    /// (Linux `tcp_timewait_state_process`).
    fn judge_forgotten(&self, placed: &Placed<'_>) -> Verdict {
        let next = self.recv.next() as i64;
        if placed.segment.sequence_bytes() == 0 || placed.end <= next {
            Verdict::Drop
        } else if placed.segment.payload.is_empty() && placed.end == next + 1 {
            Verdict::Challenge
        } else {
            Verdict::Replaced
        }
    }

    /// Whether this is the common case, which would pass all checks: the next segment of an
    /// established connection, within the window, with no other flag, a clock that did not go
    /// back, and an ACK of data in flight (debug builds compare).
    #[inline]
    fn is_expected(&self, segment: &Segment, start: i64) -> bool {
        let next = self.recovery.next();
        let ack = self.iss.offset(segment.ack, next);
        matches!(self.state, State::Established(_))
            && segment.flags.without(TcpFlags::PSH) == TcpFlags::ACK
            && start == self.recv.next() as i64
            && start + i64::from(segment.payload.len()) <= self.recv.window_end() as i64
            && self.recovery.una() as i64 <= ack
            && ack <= next as i64
            && segment
                .options
                .timestamps
                .is_none_or(|timestamps| self.clocks.goes_on(timestamps.value))
    }

    /// A SYN on a connection that has one already (RFC 5961 section 4). In SYN-RECEIVED the peer
    /// retransmits its own: the answer is ours again.
    pub(super) fn judge_syn(&self, shared: &mut Shared, placed: &Placed<'_>) -> Verdict {
        if matches!(self.state, State::SynReceived(_)) && placed.start == 0 {
            if !self.is_half_open() && self.linux().is_some() {
                // Simultaneous open: the peer's SYN-ACK counts, and nothing else with a SYN (Linux
                // `tcp_validate_incoming`).
                let is_answer = placed.segment.flags.contains(TcpFlags::ACK) && placed.end == 1;
                return match self.judge_ack(shared, placed.segment) {
                    Verdict::Acceptable if is_answer => Verdict::Acceptable,
                    _ => Verdict::Challenge,
                };
            }
            if !placed.segment.flags.contains(TcpFlags::ACK) {
                return Verdict::Duplicate;
            }
            // A SYN-ACK of a simultaneous open also carries the ACK that we wait for. On a passive
            // open it is an old segment (Linux `tcp_check_req`).
            let verdict = self.judge_ack(shared, placed.segment);
            return match verdict {
                Verdict::Acceptable if self.is_half_open() && self.linux().is_some() => {
                    Verdict::Challenge
                }
                other => other,
            };
        }
        shared.counters.syn_challenges += 1;
        Verdict::Challenge
    }

    /// RFC 5961 section 5: an ACK is acceptable from the largest window below what is acknowledged
    /// up to what was sent. In SYN-RECEIVED it acknowledges our SYN or is not for this connection.
    pub(super) fn judge_ack(&self, shared: &mut Shared, segment: &Segment) -> Verdict {
        let (una, next) = self.sent_range();
        let ack = self.iss.offset(segment.ack, next);
        if matches!(self.state, State::SynReceived(_)) && ack != next as i64 {
            shared.counters.ack_of_unsent += 1;
            return Verdict::Foreign;
        }
        if ack > next as i64 {
            shared.counters.ack_of_unsent += 1;
            return Verdict::Challenge;
        }
        // On a passive open nothing before our first byte can be acknowledged but the SYN, whose
        // ACK opened the connection (Linux `tcp_ack`, since 6.7).
        let oldest = una as i64 - i64::from(self.window.max());
        if ack < oldest.max(i64::from(self.socket.is_passive())) {
            shared.counters.ack_too_old += 1;
            return Verdict::Challenge;
        }
        Verdict::Acceptable
    }

    /// Whether it has the sequence number of the peer's FIN: some peers send a reset right after
    /// their FIN, and do not answer challenges (Linux `tcp_reset_check`).
    fn has_number_of_fin(&self, placed: &Placed<'_>) -> bool {
        let has_fin = matches!(
            self.state,
            State::CloseWait(_) | State::Closing(_) | State::LastAck(_)
        );
        has_fin && placed.start + 1 == self.recv.next() as i64
    }

    /// Whether a reset or SYN ends an orphan in FIN-WAIT-2, being at or above the next expected
    /// byte.
    fn ends_orphan(&self, placed: &Placed<'_>) -> bool {
        self.is_orphan_fin_wait2() && placed.start >= self.recv.next() as i64
    }

    /// RFC 9293 section 3.4: part of it lies in the window, or it is empty and at its edge.
    fn is_in_window(&self, placed: &Placed<'_>) -> bool {
        let left = match self.state {
            // The SYN was received, whatever was sent since.
            State::SynReceived(_) => self.recv.next() as i64,
            _ => self.last_ack_sent as i64,
        };
        let right = (self.recv.window_end() as i64).max(self.recv.next() as i64);
        // A FIN takes no buffer space.
        let end = placed.end - i64::from(placed.segment.flags.contains(TcpFlags::FIN));
        let is_taken = end <= right || self.recv.takes_beyond_window();
        placed.end >= left && placed.start <= right && is_taken
    }

    /// Processes an acceptable segment in both halves.
    fn accept_segment(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        segment: &mut Segment,
        mark: EcnMark,
        start: i64,
    ) {
        let mut is_closing = false;
        if let State::SynReceived(state) = self.state {
            if self.defers_accept(segment) {
                return;
            }
            is_closing = state.closing && self.linux().is_some();
            self.finish_passive(now, shared, state, segment);
        } else if let State::FinWait1(FinWait1 { syn: Some(syn) }) = self.state {
            self.look_at_late_syn(now, segment, syn);
        }
        self.note_timestamp(now, segment, start);
        let answers_probe = matches!(self.held.limit(), Limit::Cork | Limit::PeerWindow)
            && !self.is_plain(segment, start)
            && self.look_at_held(segment);
        let data_end = start + i64::from(segment.payload.len());
        let has_new_data = !segment.payload.is_empty() && data_end > self.recv.next() as i64;
        let wants_quick_acks = self.ecn.on_segment(segment, mark, has_new_data);
        let is_predicted = self.recv.asks_for_prediction() && self.is_predicted(segment, start);
        // Linux takes predicted data before it processes the ACK.
        let was_predicted = (self.recovery.packets_out() > 0 || self.probes.unanswered() > 0)
            && !segment.payload.is_empty()
            && self.is_predicted_beside_flight(segment, start);
        // Where it acknowledges nothing, only its data is processed.
        let is_data_alone =
            was_predicted && self.linux().is_some() && self.acknowledges_nothing(segment);
        let is_heard = !is_data_alone && self.handle_ack(now, shared, segment, start);
        if is_closing {
            // Linux sends the FIN before it processes the segment (`tcp_rcv_state_process`).
            self.output(now, shared);
        }
        if answers_probe {
            self.on_probe_answer(now, shared);
        }
        if self.state == State::Closed {
            return;
        }
        if self.recovery.lost() > 0 && segment.sequence_bytes() > 0 && !was_predicted {
            self.retransmit_lost(now, shared);
        }
        if segment.flags.contains(TcpFlags::CWR) {
            self.hurry_after_cwr(segment);
        }
        let hints = DataHints {
            is_predicted,
            wants_quick_acks,
        };
        self.handle_data(now, shared, segment, start, hints);
        if self.state == State::Closed {
            return;
        }
        if is_heard {
            self.output(now, shared);
        } else if is_data_alone {
            self.output_ack(now, shared);
        } else {
            self.output_after_data(now, shared);
        }
    }

    /// Processes a segment off the fast path while data is held back (Linux `tcp_ack`,
    /// `tcp_data_snd_check`). Returns whether it answers a probe; in Linux any does while nothing
    /// is in flight, whose ACK is not an old one.
    #[inline(never)]
    fn look_at_held(&mut self, segment: &Segment) -> bool {
        // Data held by `MSG_MORE` is ordinary data from now on.
        self.send.end_more();
        let una = self.recovery.una();
        let is_old = self.iss.offset(segment.ack, una) < una as i64;
        if self.recovery.packets_out() == 0 && !(is_old && self.linux().is_some()) {
            // The probe interval and the cork timer restart with each answer (`tcp_ack_probe`).
            let is_probing = self.timers.due(Timer::Probe).is_some();
            self.timers.stop(Timer::Probe);
            self.send.restart_hold();
            return self.linux().is_some() || is_probing && self.held.limit() == Limit::PeerWindow;
        }
        false
    }

    /// Passes the acknowledgment and the window to the sending half. Returns whether that can have
    /// changed it.
    fn handle_ack(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        segment: &Segment,
        start: i64,
    ) -> bool {
        let una = self.recovery.una();
        let ack = self.iss.offset(segment.ack, self.recovery.next());
        self.traffic.on_ack_received(now);
        let is_window_update = self.update_window(now, segment, ack, start);
        if ack == una as i64 && segment.options.sack.is_none() && self.is_ack_of_nothing() {
            self.on_ack_of_nothing();
            return false;
        }
        let blocks = self.sack_offsets(segment);
        if ack < una as i64 && blocks.is_empty() {
            return false;
        }
        let is_nothing = blocks.is_empty() && self.is_ack_of_nothing();
        let outcome = if is_nothing {
            self.recovery.on_ack_of_nothing();
            AckOutcome::default()
        } else {
            if self.size.is_probing() && ack > una as i64 {
                // The congestion window is converted to the larger segments before it grows (Linux
                // `tcp_clean_rtx_queue`).
                self.on_mtu_acked(ack as u64);
            }
            let samples = self.recovery.rtt().samples();
            let blocks = self.without_dubious(&blocks);
            let outcome = self.tell_recovery(now, segment, ack, blocks, is_window_update);
            if self.recovery.rtt().samples() != samples {
                self.probes.on_sample();
            }
            self.recovery.give_memory(&mut shared.spare_flight);
            outcome
        };
        if self.recovery.wants_new_data() {
            // Nagle's algorithm does not hold it (Linux `tcp_xmit_recovery`).
            self.send.push_once();
        }
        if outcome.lost > 0 {
            shared.tell(now, Some(self.socket.id()), || TraceEvent::Lost {
                packets: outcome.lost,
            });
        }
        if ack < una as i64 {
            return true;
        }
        self.probes.on_answer();
        if self.window.bytes() > 0 && self.recovery.packets_out() == 0 {
            self.stall.end();
        }
        // The peer is reachable: earlier ICMP errors are obsolete (Linux `tcp_ack`).
        self.failures.on_answer();
        if outcome.acked_bytes > 0 {
            self.stall.end();
            self.forget_probe_backoff();
            self.on_acked(now, shared, outcome.acked_bytes);
        }
        let is_full = |bytes| bytes > 0 && bytes >= u64::from(self.mss());
        if self.size.is_probing() || is_full(outcome.acked_bytes) {
            self.on_mtu_acked(self.recovery.una());
        }
        !is_nothing
    }

    /// Whether an ACK without SACK blocks has nothing to acknowledge, as at an end that only
    /// receives.
    #[inline]
    fn is_ack_of_nothing(&self) -> bool {
        self.recovery.packets_out() == 0
            && !self.size.is_probing()
            && !self.recovery.awaits_probe_ack()
    }

    /// All that an ACK does that acknowledges nothing new, with nothing in flight.
    #[inline]
    fn on_ack_of_nothing(&mut self) {
        self.recovery.on_ack_of_nothing();
        self.probes.on_answer();
        if self.window.bytes() > 0 {
            self.stall.end();
        }
        self.failures.on_answer();
    }

    /// Passes an acknowledgment to loss recovery.
    #[inline(never)]
    fn tell_recovery(
        &mut self,
        now: Instant,
        segment: &Segment,
        ack: i64,
        blocks: &[(u64, u64)],
        is_window_update: bool,
    ) -> AckOutcome {
        let echo = segment.options.timestamps.map(|t| t.echo);
        self.recovery.on_ack(&AckInput {
            now,
            ack: ack.max(0) as u64,
            sack: blocks,
            timestamp_rtt: echo.and_then(|echo| self.echoed_rtt(now, echo)),
            timestamp_echo: echo.filter(|_| self.agreed.timestamps),
            has_data: segment.sequence_bytes() > 0,
            is_window_update,
            ece: self.ecn.is_agreed() && segment.flags.contains(TcpFlags::ECE),
            has_new_data: (self.unsent_bytes() > 0 || self.owes_fin())
                && self.window.end() > self.recovery.next(),
        })
    }

    /// Data was acknowledged: memory is free, and perhaps our FIN has arrived.
    fn on_acked(&mut self, now: Instant, shared: &mut Shared, bytes: u64) {
        let Released { completed, fin } = self.release_acked(bytes, shared.memory.is_tight());
        self.report_buffers(shared);
        if completed > 0 {
            self.socket.report(shared, Event::Completed(completed));
        }
        if fin {
            self.enter(now, shared, self.state.on_fin_acked());
        }
    }

    /// RFC 9293 section 3.10.7.4: the window of the newest segment counts. Returns whether that is
    /// this one, be it another window or not.
    fn update_window(&mut self, now: Instant, segment: &Segment, ack: i64, start: i64) -> bool {
        let una = self.recovery.una();
        if ack < una as i64 || !self.window.is_news(segment, start, ack, una) {
            return false;
        }
        let WindowUpdate {
            has_changed,
            is_largest,
        } = self.window.update(segment, start, ack as u64);
        if is_largest {
            self.on_window_max();
        }
        if has_changed {
            self.recv.predict_anew();
        }
        if has_changed && self.unsent_bytes() > 0 {
            // The wait for the window was idle time (Linux `tcp_ack_update_window`).
            self.recovery.before_transmit(now);
        }
        true
    }

    fn sack_offsets(&self, segment: &Segment) -> SmallVec<[(u64, u64); 4]> {
        let blocks = match &segment.options.sack {
            Some(blocks) if self.recovery.uses_sack() => blocks,
            _ => return SmallVec::new(),
        };
        let next = self.recovery.next();
        let offset = |number: SeqNum| u64::try_from(self.iss.offset(number, next)).ok();
        blocks
            .iter()
            .filter_map(|(start, end)| Some((offset(start)?, offset(end)?)))
            .filter(|(start, end)| start < end)
            .collect()
    }

    /// Passes data and FIN to the receiving half.
    pub(super) fn handle_data(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        segment: &mut Segment,
        start: i64,
        hints: DataHints,
    ) {
        // Data follows a SYN.
        let data_start = start + i64::from(segment.flags.contains(TcpFlags::SYN));
        if !self.wants_data(now, shared, segment, (start, data_start)) {
            return;
        }
        let start = data_start;
        let bytes = segment.payload.len();
        if !self.admits(shared, start, segment) {
            return;
        }
        self.traffic.on_data_received(now);
        let segment_bytes = match segment.gso_size {
            0 => bytes,
            size => size.into(),
        };
        if !segment.flags.contains(TcpFlags::FIN) && start + i64::from(bytes) <= 1 {
            // All of it lies before the first byte: a keepalive probe with a byte, or the SYN-ACK
            // of a simultaneous open, whose SYN had arrived.
            if start == 0 || segment.flags.contains(TcpFlags::SYN) {
                self.recv.on_duplicate(0, 1);
            }
            self.recv.force_ack();
            return;
        }
        let push = segment.flags.contains(TcpFlags::PSH);
        let (start, fin) = cut_old(start, segment);
        let end = start + u64::from(segment.payload.len());
        let pushes_acks = self.recv.pushes_merged_acks(start, end);
        if pushes_acks {
            self.send_ack(now, shared);
        }
        let env = self.recv_env(shared.memory.is_tight());
        self.recv.take_memory(&mut shared.spare_queue);
        let echo = segment.options.timestamps.map(|t| t.echo);
        let echo = echo.filter(|echo| self.recv.measures_echo(*echo));
        let outcome = self.recv.handle_data(
            now,
            DataInput {
                start,
                payload: &mut segment.payload,
                segment_bytes,
                option_bytes: match segment_bytes < self.recv.rcv_mss() {
                    true => segment.options.bytes(),
                    false => 0,
                },
                push,
                urgent: segment.flags.contains(TcpFlags::URG),
                fin,
                is_predicted: hints.is_predicted,
                wants_quick_acks: hints.wants_quick_acks,
                pushes_acks,
                echo: echo.and_then(|echo| Some((echo, self.echoed_rtt(now, echo)?))),
            },
            env,
        );
        self.on_data(now, shared, outcome);
    }

    /// Whether data and FIN of a segment are still accepted; otherwise answers the peer.
    fn wants_data(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        segment: &Segment,
        (start, data_start): (i64, i64),
    ) -> bool {
        let sequence_bytes = i64::from(segment.sequence_bytes());
        if sequence_bytes == 0 {
            return false;
        }
        if matches!(self.state, State::Established(_)) && !self.socket.is_orphan() {
            return true;
        }
        let (next, end) = (
            self.recv.next() as i64,
            data_start + i64::from(segment.payload.len()),
        );
        if !self.state.may_receive() {
            if start < next && end > next && self.linux().is_some() {
                // Linux tcp_rcv_state_process: data beyond the peer's FIN is not from the peer.
                shared.counters.data_after_close += 1;
                shared.reset_in_reply(now, self.local(), self.remote(), segment);
                self.fail(now, shared, self.failure_by_reset());
                return false;
            }
            // Nothing is accepted after the peer's FIN. What lies before it may be a
            // retransmission, because our ACK was lost.
            let (from, to) = (start.max(1), start + sequence_bytes);
            if to <= next {
                if from < to {
                    self.recv.on_duplicate(from as u64, to as u64);
                }
                self.recv.force_ack();
            }
            return false;
        }
        if self.is_orphan_fin_wait2() && end <= next {
            self.recv.force_ack();
            return segment.flags.contains(TcpFlags::FIN) && end == next;
        }
        if (self.socket.is_orphan() || self.has_shut_both()) && end > next {
            //= https://www.rfc-editor.org/rfc/rfc9293#section-3.10.7.4
            // Linux tcp_rcv_state_process: data that will not be read resets the connection, and so
            // does a FIN after such data.
            shared.counters.data_after_close += 1;
            shared.reset_in_reply(now, self.local(), self.remote(), segment);
            let failure = match self.socket.is_orphan() {
                true => Failure::Aborted,
                false => Failure::Reset,
            };
            self.fail(now, shared, failure);
            return false;
        }
        true
    }

    /// Whether the application neither sends nor reads any more, though it has not closed the
    /// connection.
    fn has_shut_both(&self) -> bool {
        self.recv.is_shut() && matches!(self.state, State::FinWait1(_) | State::FinWait2(_))
    }

    /// The receiving half has taken or refused data.
    fn on_data(&mut self, now: Instant, shared: &mut Shared, outcome: DataOutcome) {
        if let Some(reason) = outcome.dropped {
            shared.tell(now, Some(self.socket.id()), || TraceEvent::Dropped {
                reason: reason.name(),
            });
        }
        if outcome.fin {
            self.on_fin(now, shared);
        }
        if outcome.readable && self.recv.is_readable() {
            self.socket.report_readable(shared);
        }
        self.report_memory(shared);
    }

    /// The peer's data is complete (RFC 9293 section 3.10.7.4, eighth step).
    #[inline(never)]
    fn on_fin(&mut self, now: Instant, shared: &mut Shared) {
        if matches!(self.state, State::FinWait1(_)) {
            // Linux tcp_fin: the application sends no answer that could carry the ACK.
            self.recv.force_ack();
        }
        if self.is_orphan_fin_wait2() {
            self.recv.drop_behind_fin();
        }
        self.enter(now, shared, self.state.on_fin());
        // The ACK sent on entering the state still reported blocks beyond the FIN.
        self.recv.drop_behind_fin();
        self.socket.report_readable(shared);
    }

    /// Whether the rate limit permits another answer to a segment that may be an attacker's; counts
    /// it if so.
    fn may_challenge(&mut self, now: Instant) -> bool {
        let per_second = self.settings.acks.challenge_per_second;
        self.challenges.take(now, per_second, 1)
    }

    /// Sends a challenge ACK (RFC 5961 section 7: rate-limited).
    #[inline(never)]
    pub(super) fn challenge(&mut self, now: Instant, shared: &mut Shared) {
        if !self.may_challenge(now) {
            shared.counters.answers_suppressed += 1;
            return;
        }
        // The limit is per connection: a shared one would tell an attacker what other connections
        // use of it (CVE-2016-5696).
        shared.counters.challenge_acks += 1;
        self.send_ack(now, shared);
        if self.state.is_synchronized() {
            self.arm_timers(now, shared);
        }
    }

    /// Answers an old segment: the peer may have missed our ACK.
    #[inline(never)]
    fn answer_duplicate(&mut self, now: Instant, shared: &mut Shared, placed: &Placed<'_>) {
        if let State::SynReceived(_) = self.state {
            if !placed.segment.flags.contains(TcpFlags::SYN) {
                if self.linux().is_some() && placed.segment.sequence_bytes() > 0 {
                    // Segments with data are not rate-limited (`tcp_oow_rate_limited`).
                    self.send_ack(now, shared);
                } else {
                    self.challenge(now, shared);
                }
            } else if self.may_challenge(now) {
                self.answer_duplicate_syn(now, shared);
            }
            return;
        }
        if placed.segment.sequence_bytes() == 0 {
            // The answer to a bare ACK out of window is rate-limited as challenges are, against ACK
            // loops (Linux `tcp_send_dupack`).
            self.challenge(now, shared);
            return;
        }
        // Reports the part received before by D-SACK, and takes nothing of the rest (Linux
        // `tcp_send_dupack`).
        let end = self.recv.next().min(placed.end.max(0) as u64);
        let start = placed.start.max(0) as u64;
        if start < end && !self.is_orphan_fin_wait2() {
            self.recv.on_duplicate(start, end);
        }
        self.recv.force_ack();
        if self.linux().is_some() {
            // Nothing but the ACK is sent.
            self.send_ack(now, shared);
            self.arm_timers(now, shared);
        } else {
            self.output(now, shared);
        }
    }
}

/// Cuts off what lies before the peer's first byte, which no offset can name. Returns where the
/// data begins then, and whether a FIN follows it.
fn cut_old(start: i64, segment: &mut Segment) -> (u64, bool) {
    let fin = segment.flags.contains(TcpFlags::FIN);
    if start >= 1 {
        return (start as u64, fin);
    }
    let payload = &mut segment.payload;
    let end = start + i64::from(payload.len());
    let came = payload.len();
    payload.advance((1 - start).min(came.into()) as u32);
    payload.release_rest(came);
    (1, fin && end >= 1)
}
