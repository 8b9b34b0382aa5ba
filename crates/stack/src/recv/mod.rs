//! The receiving half of a connection: takes data, decides the window to offer, and when to send an
//! ACK.
//!
//! It decides from segments, reads and time; it sees no headers, arms no timers and sends nothing:
//! the connection asks [`Receiver::ack_wanted`], [`Receiver::offer_window`] and
//! [`Receiver::sack_blocks`] when it builds a segment. Positions are offsets: the peer's SYN is
//! offset 0, its first byte 1. Memory is bounded by the receive buffer, one packet more for each
//! of the two queues, and [`Buffer::packets_max`].

mod accounting;
mod assembler;
mod autotune;
mod blocks;
mod delayed_ack;
mod fin;
mod memory;
mod predict;
mod read;
mod sack;
#[cfg(test)]
mod tests;
mod types;
mod window;

use alloc::boxed::Box;
use core::time::Duration;

use base::Instant;
use base::settings::SocketSettings;

use crate::Arc;
use crate::packet::option_bytes;
use crate::progress::Mark;
use crate::rare::Rare;
use crate::tick::TickClock;
use accounting::Buffer;
pub(crate) use assembler::SpareQueue;
use assembler::{Assembler, Duplicate, QueuedPacket};
use autotune::{Autotune, Progress};
use delayed_ack::{DelayedAck, Situation};
use window::{GROWING_BYTES, Selected, Window};

pub use types::{AckStats, RecvQueueStats, RecvStats};
pub(crate) use types::{
    AckWanted, Agreed, DataInput, DataOutcome, DropReason, Env, RecvMemoryState,
};

/// Quick ACKs where the sender's window may be small (Linux `tcp_data_ecn_check`).
const QUICK_AFTER_MARK: u32 = 2;

/// The receiving half of a connection.
#[derive(Debug)]
pub(crate) struct Receiver {
    buffer: Buffer,
    window: Window,
    queue: Assembler,
    autotune: Autotune,
    acks: DelayedAck,
    sent_acks: AckStats,
    /// Counters of rare events: everything but delivery in order.
    trouble: Rare<RecvQueueStats>,
    is_established: bool,
    has_sack: bool,
    /// Offset of the peer's FIN, where it was seen.
    fin: Mark,
    is_fin_reached: bool,
    /// That FIN arrived after all data that waits out of order.
    is_fin_latest: bool,
    /// The application has shut down reading.
    is_shut: bool,
    /// The ACK of the peer's FIN reports blocks beyond it.
    tells_behind_fin: bool,
    /// A range that was received twice, to be reported once (RFC 2883).
    duplicate: Option<Box<(u64, u64)>>,
    /// Linux predicts that the next segment is the next in order (`pred_flags`).
    is_predicting: bool,
    /// Data was dropped for memory: the next ACK offers nothing.
    is_out_of_memory: bool,
    last_packet: Instant,
}

impl Receiver {
    /// A half that has received nothing.
    pub(crate) fn new(settings: &Arc<SocketSettings>, tick: TickClock) -> Self {
        Self {
            buffer: Buffer::new(settings),
            window: Window::new(&settings.options),
            queue: Assembler::new(),
            autotune: Autotune::new(settings.recv.buffer.rule),
            acks: DelayedAck::new(settings, tick),
            sent_acks: AckStats::default(),
            trouble: Rare::NONE,
            is_established: false,
            has_sack: false,
            fin: Mark::NONE,
            is_fin_reached: false,
            is_fin_latest: false,
            is_shut: false,
            tells_behind_fin: false,
            duplicate: None,
            is_predicting: false,
            is_out_of_memory: false,
            last_packet: Instant::ZERO,
        }
    }

    /// The window of the SYN or SYN-ACK in bytes, which is never scaled. `mss`: the payload that is
    /// announced, less 12 where timestamps are known to be used.
    pub(crate) fn first_window(&mut self, mss: u32) -> u32 {
        self.window
            .select_first(mss, &self.buffer, &self.buffer.settings().options)
    }

    /// The shift to offer, and after the handshake the one that is used.
    pub(crate) const fn window_scale(&self) -> u8 {
        self.window.scale()
    }

    /// The handshake is done.
    pub(crate) fn on_established(&mut self, now: Instant, agreed: &Agreed) {
        let Agreed {
            sack,
            timestamps,
            window_scaling,
            advmss,
            send_mss,
            headers,
        } = *agreed;
        self.has_sack = sack;
        self.is_established = true;
        self.is_predicting = true;
        self.buffer.set_segment(advmss, headers);
        self.window
            .establish(window_scaling, advmss, send_mss, &self.buffer);
        self.window.set_usual_options(option_bytes(timestamps));
        self.autotune.establish(now, &self.window);
        self.acks.on_established(now);
        self.last_packet = now;
    }

    /// Simultaneous open: the pace of data counts from the first data on (Linux does not call
    /// `tcp_finish_connect` then).
    pub(crate) const fn forget_pace(&mut self) {
        self.acks.forget_pace();
    }

    /// Whether a round-trip sample of this timestamp is of use: most timestamps come back more than
    /// once.
    #[inline]
    pub(crate) fn measures_echo(&self, echo: u32) -> bool {
        self.autotune.measures_echo(echo)
    }

    /// Takes memory for data that is about to come, where the host has some to spare.
    #[inline]
    pub(crate) fn take_memory(&mut self, spare: &mut SpareQueue) {
        self.queue.take_memory(spare);
    }

    /// Returns unused memory of the queue to the host.
    #[inline]
    pub(crate) fn give_memory(&mut self, spare: &mut SpareQueue) {
        self.queue.give_memory(spare);
    }

    /// Takes the data of a segment, and decides about an ACK. Segments without data or FIN have
    /// nothing to say here.
    pub(crate) fn handle_data(
        &mut self,
        now: Instant,
        mut data: DataInput<'_>,
        env: Env,
    ) -> DataOutcome {
        self.last_packet = now;
        self.buffer.set_tight(env.is_tight);
        let length = data.payload.len();
        if data.segment_bytes == 0 || data.segment_bytes > length {
            data.segment_bytes = length;
        }
        if length == 0 && !data.fin {
            return DataOutcome::default();
        }
        if !data.is_predicted && self.buffer.is_truesize() {
            // A duplicate is reported with the next packet, or not at all (Linux `tcp_data_queue`).
            self.duplicate = None;
        }
        let received = Received {
            bytes: length,
            segments: match data.segment_bytes < length {
                true => length.div_ceil(data.segment_bytes),
                false => u32::from(length > 0),
            },
            start: data.start,
        };
        let is_expected = self.is_expected(&data);
        let outcome = 'taken: {
            if !is_expected {
                // A copy is cut, or what is expected would be written to memory as well.
                match self.take_unexpected(DataInput { ..data }, received) {
                    Ok(cut) => data = cut,
                    Err(outcome) => break 'taken outcome,
                }
            }
            self.take_in_order(now, &mut data, received, env, is_expected)
        };
        self.decide_ack(now, env);
        outcome
    }

    /// Whether a segment is the next one, inside the window, and no FIN is known.
    #[inline]
    fn is_expected(&self, data: &DataInput<'_>) -> bool {
        let end = data.end();
        let is_in_order = data.start == self.next() && end <= self.window.edge();
        is_in_order && !data.fin && !self.fin.is_set()
    }

    /// Cuts a segment to what is new, and keeps or drops it, unless that is in order.
    #[inline(never)]
    fn take_unexpected<'a>(
        &mut self,
        data: DataInput<'a>,
        received: Received,
    ) -> Result<DataInput<'a>, DataOutcome> {
        let fin_at = data.fin.then(|| data.end());
        let mut data = self.cut(data)?;
        if data.start == self.queue.next() {
            return Ok(data);
        }
        let is_fin_inside = !data.fin && fin_at == Some(data.end());
        Err(self.take_out_of_order(&mut data, received, is_fin_inside))
    }

    /// Cuts a segment to what is new and inside the window; if nothing is left, an ACK is owed.
    fn cut<'a>(&mut self, mut data: DataInput<'a>) -> Result<DataInput<'a>, DataOutcome> {
        let next = self.next();
        let end = data.end();
        let end_of_stream = self.end_of_stream(data.start.max(next), end);
        if end + u64::from(data.fin) <= next {
            self.on_duplicate(data.start, end + u64::from(data.fin));
            self.answer_quickly();
            return Err(DataOutcome {
                duplicate: true,
                ..DataOutcome::default()
            });
        }
        if data.start > end_of_stream || self.is_fin_reached {
            return Err(self.refuse(DropReason::BehindFin));
        }
        // Data may have been taken beyond the window's edge.
        let edge = self.window.edge().max(next).min(end_of_stream);
        let is_bare_fin = data.payload.is_empty() && data.fin;
        if data.start >= edge && !(is_bare_fin && data.start == edge) {
            return Err(self.refuse(DropReason::OutOfWindow));
        }
        let edge = if self.buffer.is_truesize() && self.queue.unread() == 0 {
            end_of_stream
        } else {
            edge
        };
        let received_bytes = data.payload.len();
        if data.start < next {
            self.report_duplicate(data.start, next);
            data.payload.advance((next - data.start) as u32);
            data.start = next;
        }
        if end > edge {
            let _beyond = data.payload.split_off((edge - data.start) as u32);
            data.fin = false;
        }
        data.payload.release_rest(received_bytes);
        if data.payload.is_empty() && !data.fin {
            // One part was received before, the other lies beyond the window.
            return Err(self.refuse(DropReason::OutOfWindow));
        }
        // An out-of-order FIN in the middle of data received already is forged.
        data.fin &= data.start == next
            || match self.buffer.is_truesize() {
                false => self.fin.is_set() || end >= self.queue.next() + self.queue.span(),
                true => self.queue.range_around(end).is_none(),
            };
        if is_bare_fin && !data.fin {
            self.report_duplicate(end, end + 1);
        }
        Ok(data)
    }

    #[inline(never)]
    fn refuse(&mut self, reason: DropReason) -> DataOutcome {
        let trouble = self.trouble.make();
        match reason {
            DropReason::OutOfWindow | DropReason::BehindFin => trouble.out_of_window_drops += 1,
            DropReason::ZeroWindow => trouble.zero_window_drops += 1,
            DropReason::BufferFull => trouble.drops += 1,
            DropReason::OutOfOrderFull => trouble.out_of_order_drops += 1,
        }
        self.autotune.on_slow_path();
        if matches!(reason, DropReason::OutOfWindow | DropReason::ZeroWindow) {
            let quick = self.window.quick_count();
            self.acks.enter_quick(quick, u32::MAX);
            self.answer_quickly();
        } else if reason == DropReason::BufferFull || !self.buffer.is_truesize() {
            // Linux does not answer out-of-order data that it drops (`tcp_data_queue_ofo`).
            self.acks.set_urgent();
        }
        DataOutcome {
            dropped: Some(reason),
            ..DataOutcome::default()
        }
    }

    /// An ACK is owed at once; in Linux by way of the quick ACKs permitted just now, unless the
    /// window is tight.
    fn answer_quickly(&mut self) {
        if self.buffer.is_truesize() {
            self.acks.schedule();
        } else {
            self.acks.set_urgent();
        }
    }

    /// All of it is duplicate (RFC 9293 section 3.10.7.4; Linux `tcp_data_queue`).
    #[inline(never)]
    pub(crate) fn on_duplicate(&mut self, start: u64, end: u64) {
        self.trouble.make().duplicates += 1;
        self.report_duplicate(start, end);
        self.autotune.on_slow_path();
        let quick = self.window.quick_count();
        self.acks.enter_quick(quick, u32::MAX);
    }

    /// `is_expected`: no FIN came with the data or before.
    fn take_in_order(
        &mut self,
        now: Instant,
        data: &mut DataInput<'_>,
        received: Received,
        env: Env,
        is_expected: bool,
    ) -> DataOutcome {
        let may_end = !is_expected;
        let payload_bytes = data.payload.len();
        let fin_waits = may_end && self.early_fin().is_some();
        let blocks_before_fin = may_end.then(|| self.blocks_before_fin()).flatten();
        if fin_waits {
            self.cover_fin(data.start, data.start + u64::from(payload_bytes));
        }
        if may_end && data.fin {
            self.note_fin(data.start + u64::from(payload_bytes));
        }
        let blocks = self.buffer.blocks_of(received.bytes, received.segments);
        if payload_bytes > 0
            && let Err(reason) = self.make_room(data.start, data.is_predicted, blocks.charge)
        {
            return self.refuse(reason);
        }
        if may_end && payload_bytes == 0 {
            self.note_room_for_fin(data.start, blocks.charge);
        }
        let had_gap = self.queue.has_gap();
        if payload_bytes > 0 {
            let facts = Arrived::new(data, &received, blocks.charge);
            let packet = QueuedPacket::new(data, &received, blocks);
            self.queue.append(packet, data.start == received.start);
            self.buffer.set_in_order(self.queue.ready_charge());
            self.on_in_order(now, &facts, env);
            if data.wants_quick_acks {
                self.enter_quick(QUICK_AFTER_MARK);
            }
            if !had_gap {
                self.tune_by_arrival(now, &facts, env);
            }
        }
        if had_gap && self.fin != Mark::at(self.queue.next()) {
            self.close_gap();
        }
        let fin = may_end && self.reach_fin(blocks_before_fin);
        if fin {
            self.charge_fin();
        }
        if !self.is_predicting {
            self.is_predicting = self.may_predict();
        }
        if fin && fin_waits && !data.fin {
            self.acks.set_urgent();
        }
        DataOutcome {
            accepted: true,
            readable: payload_bytes > 0 || fin,
            fin,
            ..DataOutcome::default()
        }
    }

    /// Data in order moves the estimates, the delay of ACKs and the window (rule 8.2; Linux
    /// `tcp_event_data_recv`).
    fn on_in_order(&mut self, now: Instant, facts: &Arrived, env: Env) {
        let next = self.queue.next();
        self.measure(facts);
        if self.buffer.is_truesize() {
            self.autotune.on_in_order(now, next, self.window.offered());
            if let Some((echo, rtt)) = facts.echo
                && facts.segment_bytes >= self.window.segment()
            {
                let has_unread = self.queue.unread() > u64::from(facts.payload_bytes);
                self.autotune.on_echo(echo, rtt, has_unread);
            }
        }
        let window = &self.window;
        self.acks
            .on_data(now, facts.segments, || window.quick_count(), env);
        let (bytes, charge) = (facts.payload_bytes, facts.charge);
        if bytes >= GROWING_BYTES && self.window.grow(bytes, charge, &self.buffer) {
            self.acks.on_window_grown();
        }
    }

    /// Learns the size of the peer's segments (Linux `tcp_measure_rcv_mss`).
    #[inline]
    fn measure(&mut self, facts: &Arrived) {
        let measured = self.window.measure(facts);
        if measured.is_new_size && self.buffer.measure(facts.payload_bytes, facts.charge) {
            self.window.follow_ratio(&self.buffer);
            self.autotune.clamp_space(self.window.clamp());
        }
        if measured.is_pushed {
            self.acks.on_pushed(measured.is_short);
        }
    }

    fn tune_by_arrival(&mut self, now: Instant, facts: &Arrived, env: Env) {
        if !self.autotune.goes_by_arrival() {
            return;
        }
        let echoed_at = facts.echo.map(|(_, rtt)| now - rtt);
        self.autotune.on_fast_path(
            now,
            facts.payload_bytes,
            echoed_at,
            env.srtt(),
            &mut self.buffer,
        );
    }

    /// A gap is filled: joins the data after it (RFC 5681 section 4.2: such a segment is
    /// acknowledged at once).
    #[inline(never)]
    fn close_gap(&mut self) {
        let duplicate = self.queue.join_ranges();
        if let Some((start, end)) = duplicate {
            self.extend_duplicate(start, end);
        }
        self.buffer.set_in_order(self.queue.ready_charge());
        self.buffer.set_out_of_order(self.queue.range_charge());
        if !self.queue.has_gap() || self.acks.rules().compress.is_none() {
            self.acks.set_urgent();
        }
        self.autotune.on_slow_path();
    }

    /// `is_fin_inside`: a FIN came with it that lies in data received already.
    #[inline(never)]
    fn take_out_of_order(
        &mut self,
        data: &mut DataInput<'_>,
        received: Received,
        is_fin_inside: bool,
    ) -> DataOutcome {
        if data.wants_quick_acks {
            self.enter_quick(QUICK_AFTER_MARK);
        }
        let blocks = self.buffer.blocks_of(received.bytes, received.segments);
        if !data.payload.is_empty() && !self.make_room_out_of_order(data, blocks.charge) {
            return self.refuse(DropReason::OutOfOrderFull);
        }
        self.trouble.make().out_of_order += 1;
        if !data.pushes_acks {
            self.acks.schedule();
        }
        let end = data.end();
        let is_bare_fin = data.payload.is_empty();
        if !is_bare_fin {
            self.measure(&Arrived::new(data, &received, blocks.charge));
            self.is_predicting = false;
            self.is_fin_latest = false;
            let packet = QueuedPacket::new(data, &received, blocks);
            let duplicate = self.queue.insert(packet);
            // Linux charges the packet only after the window has grown, and not if it is duplicate.
            let is_kept = duplicate.is_none_or(|it| (it.start, it.end) != (data.start, end));
            let grows = self.has_sack && is_kept;
            if grows
                && self
                    .window
                    .grow(received.bytes, blocks.charge, &self.buffer)
            {
                self.acks.on_window_grown();
            }
            self.buffer.set_out_of_order(self.queue.range_charge());
            if let Some(duplicate) = duplicate {
                let is_fin_again = data.fin && self.fin == Mark::at(end) || is_fin_inside;
                let has_fin = is_fin_again && duplicate.end == end;
                self.report_overlap(duplicate, has_fin);
            }
            let progress = self.progress();
            self.autotune
                .on_out_of_order(progress, &mut self.buffer, &mut self.window);
            self.cover_fin(data.start, end);
        }
        if data.fin {
            let is_here = self.fin == Mark::at(end);
            if is_here {
                self.extend_duplicate(end, end + 1);
            } else if is_bare_fin
                && self.has_sack
                && self.window.grow(0, blocks.charge, &self.buffer)
            {
                self.acks.on_window_grown();
            }
            self.note_early_fin(end, is_bare_fin && is_here);
        }
        DataOutcome {
            accepted: true,
            out_of_order: true,
            ..DataOutcome::default()
        }
    }

    /// Data behind a gap was there before; `has_fin`: so was the FIN behind it.
    fn report_overlap(&mut self, duplicate: Duplicate, has_fin: bool) {
        let Duplicate {
            start,
            end,
            is_front,
        } = duplicate;
        let end = end + u64::from(has_fin);
        if is_front {
            self.report_duplicate(start, end);
        } else {
            self.extend_duplicate(start, end);
        }
    }

    fn decide_ack(&mut self, now: Instant, env: Env) {
        let unacknowledged = self.next() - self.window.acknowledged();
        let is_much = self.acks.is_much(unacknowledged, self.window.segment());
        let is_due = is_much
            && (!self.acks.needs_moving_window()
                || self.queue.unread() < self.buffer.lowat().into()
                || self.fitting_window() >= self.window.offered());
        let situation = Situation {
            is_due,
            has_gap: self.has_out_of_order(),
            has_sack: self.has_sack,
            next: self.queue.next(),
            rtt_nanos: self.autotune.rtt_nanos(),
        };
        self.acks.decide(now, &situation, env);
    }

    /// The window that would be offered now.
    fn select_window(&mut self) -> u32 {
        let selected = self.window.select(self.next(), &self.buffer);
        self.note_selected(selected)
    }

    /// The window that fits into memory now, whatever was offered before.
    fn fitting_window(&mut self) -> u32 {
        let selected = self.window.fitting(&self.buffer);
        self.note_selected(selected)
    }

    fn note_selected(&mut self, selected: Selected) -> u32 {
        if selected.is_tight {
            self.acks.clear_quick();
        }
        selected.bytes
    }

    /// The window in bytes for the segment that is built now; it counts as offered from here on.
    pub(crate) fn offer_window(&mut self, _now: Instant) -> u32 {
        let next = self.next();
        // Only Linux shrinks its window then (rule 3.4.7).
        let is_shut = core::mem::take(&mut self.is_out_of_memory) && self.buffer.is_truesize();
        if is_shut {
            self.is_predicting = false;
            self.window.take_back(next);
            return 0;
        }
        let bytes = self.select_window();
        self.is_predicting &= bytes > 0;
        self.window.on_offered(next, bytes);
        bytes
    }

    /// Offers what is left of the window once more, in whole units of `unit` bytes.
    pub(crate) fn offer_left(&mut self, unit: u32) -> u32 {
        let bytes = self.current_window().next_multiple_of(unit);
        self.window.on_offered(self.next(), bytes);
        bytes
    }

    /// Remaining part of the last offered window, in bytes.
    pub(crate) fn current_window(&self) -> u32 {
        self.window.left(self.next())
    }

    /// Estimated payload of the peer's full segments (Linux `rcv_mss`).
    pub(crate) const fn rcv_mss(&self) -> u32 {
        self.window.segment()
    }

    /// The window that was offered last, whatever has arrived since (Linux `rcv_wnd`).
    pub(crate) const fn offered_window(&self) -> u32 {
        self.window.offered()
    }

    /// The right edge of the windows offered so far; data beyond it is not taken.
    pub(crate) const fn window_end(&self) -> u64 {
        self.window.edge()
    }

    /// Whether a segment may end beyond the window: Linux takes all or nothing (`tcp_sequence`),
    /// others the part inside.
    pub(crate) fn takes_beyond_window(&self) -> bool {
        !self.buffer.is_truesize() || self.queue.unread() == 0
    }

    /// The next expected offset; the FIN counts once everything before it has arrived.
    pub(crate) const fn next(&self) -> u64 {
        self.queue.next() + self.is_fin_reached as u64
    }

    /// Whether something is kept out of order.
    pub(crate) fn has_out_of_order(&self) -> bool {
        self.queue.has_gap() || self.early_fin().is_some()
    }

    /// End of the highest SACKed block, if there is a gap.
    pub(crate) fn sack_edge(&self) -> Option<u64> {
        let has_blocks = self.has_sack && self.has_out_of_order();
        let end = self.queue.next() + self.queue.span();
        has_blocks.then(|| self.early_fin().map_or(end, |fin| end.max(fin + 1)))
    }

    /// When an ACK is to be sent by itself.
    pub(crate) fn ack_wanted(&self) -> AckWanted {
        self.acks.wanted()
    }

    /// The time of [`Receiver::ack_wanted`] has come.
    pub(crate) fn on_ack_timeout(&mut self, now: Instant, env: Env) {
        self.acks.on_timeout(now, env, &mut self.sent_acks);
    }

    /// A segment was sent; every one carries the ACK, the window and the blocks.
    pub(crate) fn on_segment_sent(&mut self, now: Instant, has_data: bool) {
        self.duplicate = None;
        self.autotune.on_segment_sent(now);
        self.acks
            .on_segment_sent(now, has_data, &mut self.sent_acks);
    }

    /// An ACK is to be sent at once (an unacceptable segment, a challenge).
    pub(crate) fn force_ack(&mut self) {
        self.acks.force();
    }

    /// The ACK of the handshake waits for data of ours (Linux `tcp_rcv_synsent_state_process`,
    /// where the application asked for `TCP_DEFER_ACCEPT`).
    pub(crate) fn delay_first_ack(&mut self, now: Instant) {
        self.enter_quick(u32::MAX);
        self.acks.delay_first(now);
    }

    /// Up to `max` ACKs are sent at once (rule 8.7).
    fn enter_quick(&mut self, max: u32) {
        let quick = self.window.quick_count();
        self.acks.enter_quick(quick, max);
    }

    /// What comes next is acknowledged at once.
    pub(crate) fn hurry(&mut self) {
        self.acks.set_urgent();
    }

    /// `TCP_QUICKACK` (rule 8.7; Linux `__tcp_sock_set_quickack`).
    pub(crate) fn set_quickack(&mut self, _now: Instant, value: u32) {
        self.acks.set_pingpong(value == 0);
        if value != 0 && self.is_established && self.acks.is_scheduled() {
            self.acks.on_pushed(false);
            self.after_read();
            self.acks.set_pingpong(value.is_multiple_of(2));
        }
    }

    /// Offers a zero window until [`Receiver::release_window`] (seed: `NetBurner`, "wait for
    /// accept").
    pub(crate) fn hold_window(&mut self) {
        self.window.set_held(true);
    }

    /// The application accepted the connection.
    pub(crate) fn release_window(&mut self) {
        if self.window.is_held() {
            self.window.set_held(false);
            self.acks.force();
        }
    }

    fn progress(&self) -> Progress {
        Progress {
            read: self.queue.read(),
            unread: self.queue.unread(),
            span: self.queue.span(),
        }
    }
}

/// A segment as received, before old data and data beyond the window is cut off: Linux keeps and
/// counts all of it.
#[derive(Clone, Copy, Debug)]
struct Received {
    start: u64,
    bytes: u32,
    segments: u32,
}

/// Properties of an accepted segment that the rules need.
#[derive(Clone, Copy, Debug)]
struct Arrived {
    payload_bytes: u32,
    segment_bytes: u32,
    option_bytes: u32,
    segments: u32,
    charge: u32,
    is_pushed: bool,
    /// Ends the stream, or something urgent.
    is_last: bool,
    echo: Option<(u32, Duration)>,
}

impl Arrived {
    /// A segment that takes `charge` of the buffer's memory.
    fn new(data: &DataInput<'_>, received: &Received, charge: u32) -> Self {
        Self {
            payload_bytes: received.bytes,
            segment_bytes: data.segment_bytes,
            option_bytes: data.option_bytes,
            segments: received.segments,
            charge,
            is_pushed: data.push,
            is_last: data.fin || data.urgent,
            echo: data.echo,
        }
    }
}
