//! Decides what to send, and writes headers: first what was lost, then new data, then a bare ACK if
//! no other segment carried it.

use base::settings::Path;
use base::tcp::{SackBlocks, TcpFlags};
use base::{Instant, Limit, SeqNum};

use super::size::MSS_MIN;
use super::{Connection, State, Timer};
use crate::host::{Shared, Writer};
use crate::packet::{Body, EcnMark, Payload, Segment, SegmentOptions, Timestamps};
use crate::recv::AckWanted;
use crate::send::{NewProbe, Outgoing, Pause, SendEnv, burst_segments};
use crate::trace::TraceEvent;

/// Linux: the first segments of a connection are never paced (rule 6.8).
pub(super) const UNPACED_SEGMENTS: u64 = 10;

/// Header fields that change with time and with received segments, not with the data sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    ack: SeqNum,
    window: u16,
    timestamps: Option<Timestamps>,
}

impl Connection {
    /// Sends everything that may be sent now. Called after every event that could have changed
    /// that: a segment, a timer, a write, a read that is worth an ACK, a change of settings, room
    /// in the local queue.
    pub(super) fn output(&mut self, now: Instant, shared: &mut Shared) {
        self.local_queue.begin_round();
        if self.state.is_synchronized() && self.state != State::TimeWait {
            let limit = match self.send_lost(now, shared) {
                Ok(()) => {
                    let limit = self.send_new(now, shared);
                    // F-RTO may have waited for new data, and there was none.
                    let _ = self.send_lost(now, shared);
                    limit
                }
                Err(limit) => limit,
            };
            if limit == Limit::Interface {
                self.local_queue.block();
            }
            self.hold(now, limit);
            self.report_sent(shared);
            self.offer_room(shared);
            self.hold_with_room(now);
            if self.recv.ack_wanted() == AckWanted::Now {
                self.send_ack(now, shared);
            }
            self.tell_changes(now, shared);
        } else {
            self.hold(now, self.held.limit());
        }
        if !matches!(self.state, State::TimeWait | State::Closed) {
            self.arm_timers(now, shared);
        }
    }

    /// As [`Self::output`], without new data (Linux `tcp_rack_reo_timeout`).
    pub(super) fn output_lost(&mut self, now: Instant, shared: &mut Shared) {
        self.output_lost_dated(now, shared, now);
    }

    /// The same, with `dated` as the time of sending in timestamps and loss recovery.
    pub(super) fn output_lost_dated(&mut self, now: Instant, shared: &mut Shared, dated: Instant) {
        self.local_queue.begin_round();
        if self.recovery.lost() > 0 && self.send_some_lost(now, shared, dated).is_err() {
            // Notes why the rest waits, and sets its timer.
            self.output(now, shared);
            return;
        }
        self.tell_changes(now, shared);
        self.arm_timers(now, shared);
    }

    /// As [`Self::output`], after a segment that did not change the sending half: if that is at
    /// rest, only an ACK can be due, and no timers but two can have changed. A trace may need more.
    #[inline]
    pub(super) fn output_after_data(&mut self, now: Instant, shared: &mut Shared) {
        if !self.is_sending_at_rest() || shared.trace.is_some() || shared.pool.is_limited() {
            self.output(now, shared);
            return;
        }
        debug_assert_eq!(self.timers.due(Timer::User), None, "there was progress");
        self.local_queue.begin_round();
        if self.recv.ack_wanted() == AckWanted::Now {
            self.send_ack(now, shared);
        }
        self.arm_ack();
        self.timers.set(Timer::Mtu, self.size.next_search());
    }

    /// As [`Self::output`], where Linux does not look at unsent data: after predicted data with an
    /// ACK of nothing new (`tcp_rcv_established`), and for a delayed ACK.
    pub(super) fn output_ack(&mut self, now: Instant, shared: &mut Shared) {
        self.local_queue.begin_round();
        if self.recv.ack_wanted() == AckWanted::Now {
            self.send_ack(now, shared);
        }
        self.tell_changes(now, shared);
        self.arm_timers(now, shared);
    }

    /// Whether all that was written was sent and acknowledged when [`Self::output`] looked last,
    /// and nothing else is due. Every change of that calls it again.
    fn is_sending_at_rest(&self) -> bool {
        matches!(self.state, State::Established(_))
            && self.held.is_at_rest()
            && self.recovery.packets_out() == 0
            && self.recovery.is_settled_by_use()
            && self.socket.writer() == Writer::Free
    }

    /// Retransmits lost data; `Err`: what holds the rest back.
    #[inline]
    fn send_lost(&mut self, now: Instant, shared: &mut Shared) -> Result<(), Limit> {
        if self.recovery.lost() == 0 {
            Ok(())
        } else {
            self.send_some_lost(now, shared, now)
        }
    }

    #[inline(never)]
    fn send_some_lost(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        dated: Instant,
    ) -> Result<(), Limit> {
        loop {
            if self.retransmits_enough() {
                return Ok(());
            }
            let segment = self.retransmit_mss();
            let range = self
                .recovery
                .poll_retransmit(self.retransmit_bytes(), segment);
            let Some((start, end)) = range else {
                return Ok(());
            };
            if !self.may_retransmit(start) {
                return Err(Limit::PeerWindow);
            }
            self.gate(now, shared, true)?;
            if !self.on_mtu_loss(now, start) {
                self.retransmit(now, shared, (start, end), dated);
            }
        }
    }

    /// Linux retransmits no more packets than are lost. After a timeout that was undone,
    /// retransmissions count although nothing is lost any more (`tcp_xmit_retransmit_queue`). The
    /// next timeout still retransmits its first segment (`tcp_retransmit_timer`).
    fn retransmits_enough(&self) -> bool {
        self.linux().is_some()
            && !self.recovery.owes_timed_out()
            && self.recovery.retransmitted() >= self.recovery.lost()
    }

    /// Retransmits what an ACK found lost before the data that came with it is taken (Linux
    /// `tcp_xmit_recovery`, called by `tcp_ack`).
    pub(super) fn retransmit_lost(&mut self, now: Instant, shared: &mut Shared) {
        if self.recovery.lost() > 0 && self.linux().is_some() {
            // What holds the rest is determined again after the data.
            let _ = self.send_lost(now, shared);
        }
    }

    /// A shrunk window is respected, except for the first segment, which serves as a window probe
    /// (RFC 9293 section 3.8.6; Linux `tcp_retransmit_skb`).
    pub(super) fn may_retransmit(&self, start: u64) -> bool {
        start < self.window.end() || start == self.recovery.una()
    }

    /// Retransmits `start..end`, a FIN after the data included, as far as the window permits.
    /// `dated`: the time of sending for timestamps and loss recovery.
    pub(super) fn retransmit(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        (start, end): (u64, u64),
        dated: Instant,
    ) {
        let mss = self.retransmit_mss();
        let end = self.end_in_window(start, end, mss);
        let end = self.join(start, end);
        let outgoing = self.retransmission(start, end, mss);
        shared.tell(now, Some(self.socket.id()), || TraceEvent::Retransmitted {
            start,
            end,
        });
        let mut stamp = self.stamp(now);
        if dated < now {
            stamp.timestamps = stamp.timestamps.map(|_| self.clocks.option(dated));
        }
        self.send_data(now, shared, &outgoing, stamp, true);
        self.on_retransmitted(now, &outgoing, mss, dated);
        // Any retransmission makes an MTU probe in flight inconclusive (`__tcp_retransmit_skb`).
        if self.linux().is_some() {
            self.size.forget_probe();
        }
    }

    /// End of a retransmission of `start..end`: as many whole segments as fit into the rest of the
    /// window, or a part of one (Linux `__tcp_retransmit_skb`). A FIN needs no window.
    fn end_in_window(&self, start: u64, end: u64, mss: u32) -> u64 {
        let mss = u64::from(mss);
        let most = match self.window.end().saturating_sub(start) {
            // The first segment serves as a window probe.
            0 => mss,
            room if room < mss => room,
            room => room / mss * mss,
        };
        let is_too_long = end.min(self.send.end()) > start + most;
        if is_too_long { start + most } else { end }
    }

    /// End of a retransmission of `start..end` that includes the small segments behind it: Linux
    /// fills it up to a full segment, or to the end of the window (`tcp_retrans_try_collapse`).
    fn join(&mut self, start: u64, end: u64) -> u64 {
        if self.linux().is_none() {
            return end;
        }
        let mss = self.retransmit_mss();
        let room = match self.window.end().saturating_sub(start) {
            0 => mss,
            room => room.min(mss.into()) as u32,
        };
        self.recovery.join((start, end), room, self.window.end())
    }

    /// Sends new data, and returns why it stopped.
    #[inline]
    fn send_new(&mut self, now: Instant, shared: &mut Shared) -> Limit {
        if self.send.is_drained(self.recovery.progress()) {
            self.recovery.after_nothing_to_send(now);
            Limit::Application
        } else {
            self.send_some_new(now, shared)
        }
    }

    #[inline(never)]
    fn send_some_new(&mut self, now: Instant, shared: &mut Shared) -> Limit {
        let next = self.recovery.next();
        // What cannot change while sending is computed once.
        let mut env = self.send_env(now);
        let mut stamp = None;
        let limit = loop {
            let probe = self.mtu_probe_size(now);
            self.renew(&mut env);
            let env = match probe {
                Some(mtu) => &self.probe_env(&env, mtu),
                None => &env,
            };
            if let Err(limit) = self.send_next(now, shared, env, probe, &mut stamp) {
                break limit;
            }
        };
        self.end_send(now, limit, next);
        limit
    }

    /// Sends the next segment or GSO packet of new data, or returns why not. `probe`: the MTU that
    /// it tries. `known`: the stamp of the one before, if nothing has been received since.
    fn send_next(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        env: &SendEnv,
        probe: Option<u16>,
        known: &mut Option<Stamp>,
    ) -> Result<(), Limit> {
        let outgoing = self.send.poll_segment(env).map_err(|hold| hold.limit)?;
        self.gate(now, shared, false)?;
        // Packet boundaries set by writes, or half the peer's window, may have made it too short
        // for a probe.
        let probe = probe.filter(|_| outgoing.end - outgoing.start >= env.sizes.mss.into());
        self.note_full_segment(&outgoing, probe);
        let stamp = match *known {
            Some(stamp) => stamp,
            None => self.stamp(now),
        };
        debug_assert!(known.is_none() || stamp == self.stamp(now), "{stamp:?}");
        // A stamp with a zero window is used only once: it shrinks the window.
        *known = (stamp.window > 0).then_some(stamp);
        self.send_data(now, shared, &outgoing, stamp, false);
        self.on_new_sent(now, shared, &outgoing);
        if let Some(mtu) = probe {
            self.on_mtu_probe_sent(mtu, &outgoing);
        }
        self.grow_send_buffer(shared);
        Ok(())
    }

    /// Sends what a write permits before its end. `env`: what the previous call for the same write
    /// returned.
    pub(super) fn send_within_write(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        pause: Pause,
        env: Option<SendEnv>,
    ) -> Option<SendEnv> {
        // What holds the rest is determined at the end of the write.
        if pause == Pause::All {
            let _ = self.send_new(now, shared);
            return None;
        }
        let mut env = env.unwrap_or_else(|| SendEnv {
            is_within_write: true,
            ..self.send_env(now)
        });
        self.renew(&mut env);
        // The first packet after an idle time may change the window and the rate.
        let is_first = self.recovery.packets_out() == 0;
        let next = self.recovery.next();
        let sent = self.send_next(now, shared, &env, None, &mut None);
        let round = self.send_round(sent.err().unwrap_or(Limit::Application), next);
        self.recovery.note_use(now, &round);
        (!is_first).then_some(env)
    }

    /// Sends a probe of new data, whatever the congestion window.
    pub(super) fn send_new_probe(&mut self, now: Instant, shared: &mut Shared, probe: NewProbe) {
        let sizes = self.segment_sizes();
        let outgoing =
            self.send
                .poll_probe(self.recovery.progress(), self.window.end(), &sizes, probe);
        if let Some(outgoing) = outgoing {
            let stamp = self.stamp(now);
            self.send_data(now, shared, &outgoing, stamp, false);
            let small_end = self.send.small_end();
            self.on_new_sent(now, shared, &outgoing);
            if probe == NewProbe::OfWindow && self.linux().is_some() {
                // A window probe does not make Nagle's algorithm wait (`tcp_write_wakeup`).
                self.send.restore_small_end(small_end);
            }
            self.grow_send_buffer(shared);
        }
    }

    /// Whether pacing and the local queue permit another packet; `Err`: which of them does not. The
    /// connection's share of the local queue is checked by the sending half for new data.
    fn gate(
        &mut self,
        now: Instant,
        shared: &Shared,
        is_retransmission: bool,
    ) -> Result<(), Limit> {
        let has_room = if is_retransmission {
            self.local_queue_takes_retransmission(shared)
        } else {
            self.local_queue.bytes() == 0 || shared.has_room()
        };
        if !has_room {
            self.local_queue.block();
            return Err(Limit::Interface);
        }
        let is_ahead = self.pacer.is_ahead(now, shared.system.pacing_horizon);
        if is_ahead && self.recovery.is_paced() {
            Err(Limit::Pacing)
        } else {
            Ok(())
        }
    }

    /// Linux `tcp_small_queue_check` (rule 6.7): about a millisecond of data may wait locally.
    /// Twice as much for retransmissions.
    fn local_queue_takes_retransmission(&self, shared: &Shared) -> bool {
        if self.local_queue.bytes() == 0 {
            return true;
        }
        if !shared.has_room() {
            return false;
        }
        let packet_bytes = self.retransmit_bytes();
        let rate_bytes = self.recovery.pacing_rate().bits_per_second() / 8 / 1024;
        let mut limit = u64::from(packet_bytes.saturating_mul(2)).max(rate_bytes);
        if !self.recovery.is_paced() {
            limit = limit.min(self.settings.path.local_queue_max.into());
        }
        u64::from(self.local_queue.bytes()) < 2 * limit
    }

    /// Segments of one burst (rule 6.5).
    fn burst_segments(&self) -> u32 {
        let path = &self.settings.path;
        let (rate, rtt) = (self.recovery.pacing_rate(), self.recovery.rtt().min_rtt());
        let segments = burst_segments(path, rate, rtt, self.mss());
        match self.recovery.cc().burst_segments_min() {
            Some(least) if segments > 0 && path.tso_min_segments > 0 => {
                let by_rate = burst_segments(
                    &Path {
                        tso_min_segments: 1,
                        ..path.clone()
                    },
                    rate,
                    rtt,
                    self.mss(),
                );
                by_rate.max(least)
            }
            _ => segments,
        }
    }

    /// Segments that the congestion window permits in one burst: at most half of it (Linux
    /// `tcp_cwnd_test`).
    pub(super) fn burst_allowance(&self) -> u32 {
        let half = (self.recovery.window().cwnd / 2).max(1);
        let burst = self.retransmit_bytes() / self.retransmit_mss();
        self.recovery.allowance().min(half).min(burst)
    }

    /// Bytes of the largest chain that is retransmitted at once.
    fn retransmit_bytes(&self) -> u32 {
        let mss = self.retransmit_mss();
        let most = (self.gso_payload_max() / mss).max(1);
        let segments = match self.burst_segments() {
            0 => most,
            segments => segments.min(most),
        };
        segments * mss
    }

    fn send_env(&self, now: Instant) -> SendEnv {
        SendEnv {
            now,
            progress: *self.recovery.progress(),
            window_end: self.window.end(),
            sizes: self.segment_sizes(),
            allowance: self.recovery.allowance(),
            burst_segments: self.burst_segments(),
            cwnd: self.recovery.window().cwnd,
            in_recovery: self.is_recovering(),
            local_queue_bytes: self.local_queue.bytes(),
            pacing_rate: self.recovery.pacing_rate(),
            is_paced: self.recovery.is_paced(),
            srtt: self.recovery.rtt().srtt(),
            sent_between: self.sent_between(),
            is_within_write: false,
        }
    }

    /// When the first packet in flight left, and when a segment did last, be it a bare ACK.
    fn sent_between(&self) -> Option<(Instant, Instant)> {
        Some((self.recovery.head_sent()?, self.traffic.last_sent()?))
    }

    /// Updates what changes while sending.
    fn renew(&self, env: &mut SendEnv) {
        env.progress = *self.recovery.progress();
        env.allowance = self.recovery.allowance();
        env.sent_between = self.sent_between();
        env.local_queue_bytes = self.local_queue.bytes();
    }

    /// One segment that fills a packet of `mtu` bytes.
    fn probe_env(&mut self, env: &SendEnv, mtu: u16) -> SendEnv {
        let sizes = self.probe_sizes(&env.sizes, mtu);
        if self.linux().is_some() {
            self.before_mtu_probe(sizes.mss);
        }
        SendEnv {
            sizes,
            burst_segments: 1,
            ..*env
        }
    }

    /// Sends one chain of segments with data, or a bare FIN.
    fn send_data(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        outgoing: &Outgoing,
        stamp: Stamp,
        is_retransmission: bool,
    ) {
        let &Outgoing {
            start,
            end,
            gso_size,
            push,
            fin,
        } = outgoing;
        let mut segment = self.segment(start, TcpFlags::ACK, stamp);
        segment.payload = self.send.payload(start, end);
        segment.gso_size = gso_size;
        if push {
            segment.flags |= TcpFlags::PSH;
        }
        if fin {
            segment.flags |= TcpFlags::FIN;
        }
        // A retransmission is not ECN-capable (RFC 3168 section 6.1.5), nor is a bare FIN in Linux.
        let is_new_data = !is_retransmission && end > start;
        if is_new_data && self.recovery.take_cwr() && self.ecn.is_agreed() {
            segment.flags |= TcpFlags::CWR;
        }
        let mark = if self.ecn.is_agreed() && is_new_data {
            EcnMark::Ect0
        } else {
            EcnMark::NotEct
        };
        self.ecn.on_data_sent(fin && mark == EcnMark::Ect0);
        let segments = u64::from(segment.segments());
        let bytes = segment.payload.len();
        if bytes > 0 {
            shared.counters.data_segments_out += segments;
            shared.counters.segments_retransmitted += segments * u64::from(is_retransmission);
        }
        self.traffic.on_data_sent(segments, bytes);
        let not_before = self.pace(now, &segment);
        self.emit(now, shared, segment, mark, not_before);
    }

    /// Sends a segment without data that acknowledges everything. One batch of received packets
    /// gets one ACK, as in Linux after GRO: an older ACK that the driver has not taken is replaced.
    pub(super) fn send_ack(&mut self, now: Instant, shared: &mut Shared) {
        let start = self.acceptable_offset();
        let is_replaceable = self.is_ack_replaceable(start);
        if is_replaceable
            && let Some(waiting) = self.local_queue.waiting_ack()
            && shared.waits_still(waiting)
        {
            let stamp = self.stamp(now);
            shared.renew(now, waiting, |ack| self.mark(start, stamp, ack));
            self.on_segment_sent(now, false);
            return;
        }
        let stamp = self.stamp(now);
        let segment = self.segment(start, TcpFlags::ACK, stamp);
        let is_queued = self.emit(now, shared, segment, EcnMark::NotEct, Instant::ZERO);
        if is_replaceable && is_queued {
            self.local_queue.on_ack_queued(shared.last_place());
        }
    }

    /// An ACK that is ECN-capable.
    pub(super) fn send_capable_ack(&mut self, now: Instant, shared: &mut Shared) {
        let stamp = self.stamp(now);
        let segment = self.segment(self.acceptable_offset(), TcpFlags::ACK, stamp);
        self.emit(now, shared, segment, EcnMark::Ect0, Instant::ZERO);
    }

    /// The offset of a segment without data: that of the next byte, or the edge of a shrunk window,
    /// beyond which the peer would not accept it (Linux `tcp_acceptable_seq`).
    fn acceptable_offset(&self) -> u64 {
        let (_, next) = self.sent_range();
        let beyond = next.saturating_sub(self.window.end());
        // The peer may have rounded its window down.
        let is_near = beyond < 1 << self.recv_scale();
        if is_near || self.linux().is_none() {
            next
        } else {
            self.window.end()
        }
    }

    /// Sends an empty segment with a number that the peer has seen, which it must answer: probes of
    /// a zero window and of an idle connection (RFC 9293 section 3.8.4; Linux
    /// `tcp_xmit_probe_skb`).
    pub(super) fn send_probe(&mut self, now: Instant, shared: &mut Shared) {
        let una = self.recovery.una();
        let stamp = self.stamp(now);
        let mut segment = self.segment(una, TcpFlags::ACK, stamp);
        segment.seq = self.iss.number(una) - 1;
        if segment.flags.contains(TcpFlags::URG) {
            segment.urgent = segment.urgent.saturating_add(1);
        }
        self.emit(now, shared, segment, EcnMark::NotEct, Instant::ZERO);
    }

    /// Announces urgent data that a zero window holds back: the pointer counts only in a segment
    /// that is not old (Linux `tcp_write_wakeup`).
    pub(super) fn send_urgent_probe(&mut self, now: Instant, shared: &mut Shared) {
        let una = self.recovery.una();
        if self.linux().is_some() && self.send.urgent_pointer(una, una).is_some() {
            let stamp = self.stamp(now);
            let segment = self.segment(una, TcpFlags::ACK, stamp);
            self.emit(now, shared, segment, EcnMark::NotEct, Instant::ZERO);
        }
    }

    /// Resets the connection (RFC 9293 section 3.10.5). `blocks` report out-of-order data.
    pub(super) fn send_reset(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        blocks: Option<SackBlocks>,
    ) {
        shared.counters.resets_sent += 1;
        let offset = self.acceptable_offset();
        let stamp = self.stamp(now);
        let mut segment = self.segment(offset, TcpFlags::RST | TcpFlags::ACK, stamp);
        segment.options.sack = blocks;
        self.emit(now, shared, segment, EcnMark::NotEct, Instant::ZERO);
    }

    /// A header with everything that each segment of a synchronized connection carries.
    fn segment(&self, start: u64, mut flags: TcpFlags, stamp: Stamp) -> Segment {
        if self.ecn.echoes() {
            flags |= TcpFlags::ECE;
        }
        let urgent = self.urgent_pointer(start);
        if urgent.is_some() {
            flags |= TcpFlags::URG;
        }
        // Built in place: it is large.
        Segment {
            source_port: self.local.port(),
            destination_port: self.remote.port(),
            seq: self.iss.number(start),
            ack: stamp.ack,
            flags,
            window: stamp.window,
            urgent: urgent.unwrap_or(0),
            options: SegmentOptions {
                timestamps: stamp.timestamps,
                sack: self.sack_option(),
                ..SegmentOptions::default()
            },
            payload: Payload::default(),
            gso_size: 0,
        }
    }

    fn urgent_pointer(&self, start: u64) -> Option<u16> {
        self.send.urgent_pointer(start, self.recovery.next())
    }

    /// The stamp of a segment that is sent now. Its window counts as offered from here on.
    #[inline]
    fn stamp(&mut self, now: Instant) -> Stamp {
        let scale = self.recv_scale();
        let offered = match self.state {
            // The window of the SYN-ACK; it grows once the connection is established.
            State::SynReceived(_) if self.socket.is_passive() || self.linux().is_none() => {
                self.recv.current_window()
            }
            State::SynReceived(_) => self.recv.offer_left(1 << scale),
            _ => self.recv.offer_window(now),
        };
        Stamp {
            ack: self.irs.number(self.recv.next()),
            window: (offered >> scale).min(u32::from(u16::MAX)) as u16,
            timestamps: self.agreed.timestamps.then(|| self.clocks.option(now)),
        }
    }

    /// Writes the stamp and the sequence number of `start` into a header.
    #[inline]
    fn mark(&self, start: u64, stamp: Stamp, segment: &mut Segment) {
        segment.seq = self.iss.number(start);
        segment.ack = stamp.ack;
        segment.window = stamp.window;
        segment.options.timestamps = stamp.timestamps;
        if let Some(pointer) = self.urgent_pointer(start) {
            segment.flags |= TcpFlags::URG;
            segment.urgent = pointer;
        }
    }

    /// SACK blocks of out-of-order data and duplicates.
    #[inline]
    pub(super) fn sack_option(&self) -> Option<SackBlocks> {
        if !self.recv.has_sack_blocks() {
            return None;
        }
        self.make_sack_option()
    }

    #[inline(never)]
    fn make_sack_option(&self) -> Option<SackBlocks> {
        // An orphan in FIN-WAIT-2 keeps no out-of-order data.
        if self.is_orphan_fin_wait2() {
            return None;
        }
        let blocks = self.recv.sack_blocks(self.sack_blocks_max());
        let numbers: smallvec::SmallVec<[(SeqNum, SeqNum); 4]> = blocks
            .iter()
            .map(|&(start, end)| (self.irs.number(start), self.irs.number(end)))
            .collect();
        (!numbers.is_empty()).then(|| SackBlocks::new(&numbers))
    }

    /// Shift of the windows that we offer.
    pub(super) const fn recv_scale(&self) -> u8 {
        if self.agreed.window_scaling {
            self.recv.window_scale()
        } else {
            0
        }
    }

    /// Hands a segment to the local queue, and updates everything that depends on it; false if it
    /// is dropped there.
    pub(super) fn emit(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        segment: Segment,
        ecn: EcnMark,
        not_before: Instant,
    ) -> bool {
        self.assert_fits(&segment);
        self.traffic.on_sent(now, segment.segments().into());
        self.on_segment_sent(now, !segment.payload.is_empty());
        let mut packet = shared.packet_memory();
        packet.source = self.local.ip();
        packet.destination = self.remote.ip();
        packet.ecn = ecn;
        packet.dont_fragment = self.size.dont_fragment();
        packet.hop_limit = self.settings.path.hop_limit;
        packet.not_before = not_before;
        packet.body = Body::Tcp(segment);
        let queued_bytes = shared.transmit(now, Some(self.socket.id()), packet);
        let counts = !shared.system.completes_at_once;
        self.local_queue
            .on_queued(if counts { queued_bytes } else { 0 });
        queued_bytes > 0
    }

    /// The receiving half's pending information was sent.
    #[inline]
    fn on_segment_sent(&mut self, now: Instant, has_data: bool) {
        if self.state.is_synchronized() {
            self.last_ack_sent = self.recv.next();
            self.recv.on_segment_sent(now, has_data);
        }
    }

    /// No packet with data is larger than the path MTU, or than the probe that tries another,
    /// unless that leaves next to no room.
    fn assert_fits(&self, segment: &Segment) {
        let payload = match segment.gso_size {
            0 => segment.payload.len(),
            size => size.into(),
        };
        let ip_header = if self.local.is_ipv4() { 20 } else { 40 };
        let bytes = ip_header + segment.header_bytes() + payload;
        debug_assert!(
            payload <= MSS_MIN || bytes <= u32::from(self.size.largest()),
            "{bytes} bytes exceed the path MTU"
        );
    }

    /// Whether a newer ACK may replace a bare ACK with number `start`: one that advances, without
    /// SACK blocks or ECE. Never a duplicate ACK, since the peer counts those (RFC 5681 section
    /// 3.2).
    fn is_ack_replaceable(&self, start: u64) -> bool {
        self.recv.next() > self.last_ack_sent
            && start == self.recovery.next()
            && !self.ecn.echoes()
            && !self.recv.has_sack_blocks()
    }

    /// A packet of this connection left the local queue.
    pub(crate) const fn on_dequeued(&mut self, bytes: u32) {
        self.local_queue.on_dequeued(bytes);
    }

    #[inline]
    fn arm_ack(&mut self) {
        let due = match self.recv.ack_wanted() {
            AckWanted::At(at) => Some(at),
            AckWanted::No | AckWanted::Now => None,
        };
        self.timers.set(Timer::Ack, due);
    }

    /// Sets the timers that follow from data held and in flight.
    pub(super) fn arm_timers(&mut self, now: Instant, shared: &Shared) {
        self.timers
            .set(Timer::Recovery, self.recovery.deadline().map(|(at, _)| at));
        self.arm_ack();
        let pacing = self.held.limit() == Limit::Pacing;
        self.timers.set(
            Timer::Pacing,
            pacing.then(|| self.pacer.due(shared.system.pacing_horizon)),
        );
        self.timers.set(Timer::Mtu, self.size.next_search());
        self.arm_probe(now, shared);
        self.arm_user(now, shared);
    }
}
