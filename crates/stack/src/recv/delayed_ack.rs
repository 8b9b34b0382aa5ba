//! Delayed ACKs.
//!
//! One state machine for all stacks, with the differences as data ([`Acks`]): how much data is
//! acknowledged at once, quick ACKs at the start, request-and-response mode, a timer that follows
//! the sender's pace or is fixed, and the merging of duplicate ACKs. It decides from the data that
//! arrived and the time; whether the window opens is told by the caller.

use core::time::Duration;

use base::Instant;
use base::settings::{AckEvery, Acks, SackCompression, SocketSettings};

use super::{AckStats, AckWanted, Env};
use crate::Arc;
use crate::rare::Rare;
use crate::tick::{TickClock, nanos_of};

/// Duplicate ACKs that are never merged, as the sender counts them (Linux
/// `TCP_FASTRETRANS_THRESH`).
const DUPLICATES_UNMERGED: u32 = 3;

/// A running timer of a delayed ACK.
#[derive(Clone, Copy, Debug)]
struct Timer {
    /// When it was meant to end, in whole ticks.
    nominal: Instant,
    /// When it fires.
    fires: Instant,
}

/// Merging of duplicate ACKs (SACK compression; rule 8.3.3; Linux `__tcp_ack_snd_check`).
#[derive(Clone, Copy, Debug, Default)]
struct Compression {
    until: Option<Instant>,
    /// Duplicate ACKs that were not sent since the last one.
    merged: u32,
    /// Duplicate ACKs sent for the byte at `hole`.
    sent: u32,
    hole: u64,
}

/// Input to the decision about one segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Situation {
    /// More than the allowed data is unacknowledged, and the ACK would move the window.
    pub(super) is_due: bool,
    /// Something is kept out of order.
    pub(super) has_gap: bool,
    /// SACK was agreed.
    pub(super) has_sack: bool,
    /// The next missing byte.
    pub(super) next: u64,
    /// The receiver's own estimate of the round-trip time; 0: unknown.
    pub(super) rtt_nanos: u64,
}

/// State of the acknowledgments of one connection.
#[derive(Clone, Debug)]
pub(super) struct DelayedAck {
    /// Shared with the rest of the connection until they change.
    settings: Arc<SocketSettings>,
    tick: TickClock,
    /// Longest delay in nanoseconds: the settings', and below the least retransmission timeout.
    delay_max_nanos: u64,
    /// Something is unacknowledged.
    is_scheduled: bool,
    /// An ACK is to be sent at once.
    is_now: bool,
    /// The next decision is to acknowledge (a hole was filled, memory ran out).
    is_urgent: bool,
    is_pushed: bool,
    is_pushed_twice: bool,
    timer: Option<Timer>,
    quick: u32,
    pingpong: u32,
    /// The delay that follows the pace of data, in nanoseconds (Linux `ato`).
    delay_nanos: u64,
    /// When data arrived last.
    last_data: Option<Instant>,
    /// Data segments since the last ACK.
    packets: u32,
    compression: Rare<Compression>,
}

impl DelayedAck {
    pub(super) fn new(settings: &Arc<SocketSettings>, tick: TickClock) -> Self {
        let mut acks = Self {
            settings: Arc::clone(settings),
            tick,
            delay_max_nanos: 0,
            is_scheduled: false,
            is_now: false,
            is_urgent: false,
            is_pushed: false,
            is_pushed_twice: false,
            timer: None,
            quick: 0,
            pingpong: 0,
            delay_nanos: 0,
            last_data: None,
            packets: 0,
            compression: Rare::NONE,
        };
        acks.configure(settings);
        acks
    }

    /// Takes new settings; they act from the next segment on.
    pub(super) fn configure(&mut self, settings: &Arc<SocketSettings>) {
        self.settings = Arc::clone(settings);
        let delay_max = if self.is_fixed() {
            self.settings.acks.delay_max
        } else {
            // An ACK that waits as long as the peer's least timeout would cause it (rule 8.1).
            let below = self.tick.round_up(settings.recovery.rto_min);
            self.settings
                .acks
                .delay_max
                .min(below.saturating_sub(self.tick.tick()))
        };
        self.delay_max_nanos = nanos_of(delay_max);
        if self.is_fixed() {
            self.delay_nanos = nanos_of(self.settings.acks.delay);
        }
    }

    /// The present delay of an ACK, within its bounds (Linux `tcpi_ato`).
    pub(super) fn delay(&self) -> Duration {
        Duration::from_nanos(self.delay_nanos.min(self.delay_max_nanos))
    }

    fn is_fixed(&self) -> bool {
        !self.settings.acks.follows_pace
    }

    /// Data arrived in order (rule 8.2; Linux `tcp_event_data_recv`). `first_quick`: how many full
    /// segments half the window holds.
    pub(super) fn on_data(
        &mut self,
        now: Instant,
        segments: u32,
        first_quick: impl FnOnce() -> u32,
        env: Env,
    ) {
        self.is_scheduled = true;
        self.packets = self.packets.saturating_add(segments);
        match self.last_data.replace(now) {
            // In Linux an ACK of out-of-order data may have set the delay before.
            Some(before) if self.delay_nanos > 0 => {
                self.follow_pace(now, before, first_quick, env);
            }
            _ => {
                self.refill_quick(first_quick(), self.settings.acks.quick_max);
                self.delay_nanos = nanos_of(self.settings.acks.delay);
            }
        }
    }

    /// The pace of data counts from the handshake on, where the delay follows it.
    pub(super) fn on_established(&mut self, now: Instant) {
        if !self.is_fixed() {
            self.last_data = Some(now);
        }
    }

    /// No data has arrived from which on its pace would count.
    pub(super) const fn forget_pace(&mut self) {
        self.last_data = None;
    }

    fn follow_pace(
        &mut self,
        now: Instant,
        before: Instant,
        first_quick: impl FnOnce() -> u32,
        env: Env,
    ) {
        let delay_min = nanos_of(self.settings.acks.delay_min);
        let half = delay_min / 2;
        // The common case: closely spaced data, which no longer changes the delay.
        let spent = now
            .nanos_since(before)
            .saturating_add(self.tick.tick_nanos());
        if spent <= half && self.delay_nanos == delay_min {
            return;
        }
        let (gap, rto) = (
            self.edge(now).nanos_since(self.edge(before)),
            nanos_of(env.rto),
        );
        if gap > rto {
            self.refill_quick(first_quick(), self.settings.acks.quick_max);
        } else if self.is_fixed() {
            // A fixed timer does not follow.
        } else if gap <= half {
            self.delay_nanos = self.whole_ticks(self.delay_nanos / 2) + self.whole_ticks(half);
        } else if gap < self.delay_nanos {
            let delay = self.whole_ticks(self.delay_nanos / 2) + gap;
            self.delay_nanos = delay.min(rto).min(self.pace_max());
        }
    }

    /// Bound of the delay while it follows the pace; the timer has its own.
    fn pace_max(&self) -> u64 {
        let acks = &self.settings.acks;
        nanos_of(acks.delay_max.max(acks.delay))
    }

    /// Handles a segment whose length suggests that it ends a write (rule 8.1).
    pub(super) fn on_pushed(&mut self, is_short: bool) {
        self.is_pushed_twice |= is_short && self.is_pushed;
        self.is_pushed = true;
    }

    /// An ACK is owed for something other than data in order.
    pub(super) fn schedule(&mut self) {
        self.is_scheduled = true;
    }

    /// The next decision is to acknowledge.
    pub(super) fn set_urgent(&mut self) {
        self.is_scheduled = true;
        self.is_urgent = true;
    }

    /// An ACK is sent whatever the rules say.
    pub(super) fn force(&mut self) {
        self.is_now = true;
    }

    /// The peer sends no more, and does not wait for an ACK: it is delayed as in
    /// request-and-response mode, where the stack has that.
    pub(super) fn on_fin(&mut self) {
        if self.settings.acks.pingpong_threshold > 0 {
            self.is_scheduled = true;
            self.pingpong = self.settings.acks.pingpong_threshold;
        } else {
            self.set_urgent();
        }
    }

    /// Whether this much unacknowledged data is acknowledged at once.
    pub(super) fn is_much(&self, unacknowledged: u64, segment: u32) -> bool {
        match self.settings.acks.every {
            AckEvery::MoreThanSegments(count) => {
                unacknowledged > u64::from(count) * u64::from(segment)
            }
            AckEvery::Packets(count) => self.packets >= count.max(1),
        }
    }

    /// Whether [`DelayedAck::is_much`] also needs an opening window: Linux does not acknowledge
    /// unread data at once if that does not open it.
    pub(super) fn needs_moving_window(&self) -> bool {
        matches!(self.settings.acks.every, AckEvery::MoreThanSegments(_))
    }

    /// Decides about an ACK after a segment (rule 8.3; Linux `__tcp_ack_snd_check`).
    pub(super) fn decide(&mut self, now: Instant, situation: &Situation, env: Env) {
        if !self.is_scheduled {
            return;
        }
        let is_quick = self.quick > 0 && !self.is_pingpong();
        if situation.is_due
            || is_quick
            || self.is_urgent
            || self.settings.acks.always_quick
            || self.settings.acks.delay.is_zero()
        {
            self.is_now = true;
        } else if !situation.has_gap {
            self.start_timer(now, env);
        } else {
            match self.settings.acks.compress {
                Some(rule) if situation.has_sack => self.compress(now, rule, situation, env),
                _ => self.is_now = true,
            }
        }
    }

    fn compress(&mut self, now: Instant, rule: SackCompression, at: &Situation, env: Env) {
        let compression = self.compression.make();
        if compression.hole != at.next {
            compression.hole = at.next;
            compression.sent = 0;
        }
        if compression.merged >= rule.count_max {
            self.is_now = true;
        } else if compression.sent < DUPLICATES_UNMERGED {
            compression.sent += 1;
            self.is_now = true;
        } else {
            compression.merged += 1;
            if compression.until.is_none() {
                let own = Duration::from_nanos(at.rtt_nanos);
                let rtt = own.min(env.srtt().unwrap_or(Duration::MAX));
                let delay = rule.delay_max.min(rtt * rule.rtt_percent / 100);
                compression.until = Some(now + delay);
            }
        }
    }

    /// Whether a duplicate ACK waits to be merged with others.
    pub(super) fn is_merging(&self) -> bool {
        self.compression.as_ref().is_some_and(|it| it.merged > 0)
    }

    /// Starts or keeps the timer (rule 8.4; Linux `tcp_send_delayed_ack`).
    fn start_timer(&mut self, now: Instant, env: Env) {
        if !self.settings.acks.timer_tick.is_zero() {
            if self.timer.is_none() {
                let fires = self.coarse_expiry(now);
                self.timer = Some(Timer {
                    nominal: fires,
                    fires,
                });
            }
            return;
        }
        let delay_min = nanos_of(self.settings.acks.delay_min);
        let mut delay = self.delay_nanos;
        if delay > delay_min
            && let Some(srtt) = env.srtt()
        {
            delay = delay.min(self.tick.round_up_nanos(nanos_of(srtt)).max(delay_min));
        }
        let delay = self.tick.round_up_nanos(delay.min(self.delay_max_nanos));
        let edge = self.edge(now);
        if let Some(timer) = self.timer {
            // It would end soon anyway; and it is never moved to a later time.
            let ahead = timer.nominal.nanos_since(edge);
            if !self.is_fixed() && ahead <= self.whole_ticks(delay / 4) {
                self.is_now = true;
                return;
            }
            if ahead <= delay {
                return;
            }
        }
        self.set_timer(now, edge, delay);
    }

    /// The ACK of the handshake waits as long as any may for data to carry it.
    pub(super) fn delay_first(&mut self, now: Instant) {
        self.is_scheduled = true;
        self.set_timer(now, self.edge(now), self.delay_max_nanos);
    }

    /// Sets the timer at `now`; `edge` is the next tick.
    fn set_timer(&mut self, now: Instant, edge: Instant, delay_nanos: u64) {
        self.timer = Some(Timer {
            nominal: edge.after_nanos(delay_nanos),
            fires: self.tick.expiry_behind(now, edge, delay_nanos),
        });
    }

    /// A timer that counts ticks of its own: it fires at the n-th tick from now (BSD's fast
    /// timer, Microsoft's `TcpDelAckTicks`).
    fn coarse_expiry(&self, now: Instant) -> Instant {
        let tick = (self.settings.acks.timer_tick.as_nanos() as u64).max(1);
        let count = (self.settings.acks.delay.as_nanos() as u64)
            .div_ceil(tick)
            .max(1);
        let passed = now.as_nanos() / tick;
        Instant::from_nanos((passed.saturating_add(count)).saturating_mul(tick))
    }

    /// When the next ACK is sent by itself.
    pub(super) fn wanted(&self) -> AckWanted {
        if self.is_now {
            return AckWanted::Now;
        }
        match (self.timer.map(|timer| timer.fires), self.merges_until()) {
            (Some(timer), Some(merged)) => AckWanted::At(timer.min(merged)),
            (Some(at), None) | (None, Some(at)) => AckWanted::At(at),
            (None, None) => AckWanted::No,
        }
    }

    /// When the duplicate ACKs that wait to be merged are sent as one.
    fn merges_until(&self) -> Option<Instant> {
        self.compression.as_ref()?.until
    }

    /// The time of [`DelayedAck::wanted`] has come (rule 8.4; Linux `tcp_delack_timer_handler`).
    pub(super) fn on_timeout(&mut self, now: Instant, env: Env, counts: &mut AckStats) {
        if self.merges_until().is_some_and(|until| until <= now) {
            self.is_now = true;
        }
        if self.timer.is_some_and(|timer| timer.fires <= now) {
            self.timer = None;
            self.is_now = true;
            counts.delayed += 1;
            if self.is_pingpong() {
                self.pingpong = 0;
                self.delay_nanos = nanos_of(self.settings.acks.delay);
            } else if !self.is_fixed() {
                let doubled = self.delay_nanos.saturating_mul(2);
                self.delay_nanos = doubled.min(nanos_of(env.rto)).min(self.pace_max());
            }
        }
    }

    /// A segment was sent, and with it the ACK (rule 8.6; Linux `tcp_event_ack_sent`,
    /// `tcp_event_data_sent`).
    pub(super) fn on_segment_sent(&mut self, now: Instant, has_data: bool, counts: &mut AckStats) {
        if let Some(compression) = self.compression.as_mut() {
            let merged = core::mem::take(&mut compression.merged);
            compression.until = None;
            // The ACK that was sent is not counted as merged.
            counts.compressed += u64::from(merged.saturating_sub(1));
        }
        if self.is_scheduled && self.quick > 0 {
            self.quick -= 1;
            counts.quick += 1;
            if self.quick == 0 {
                self.delay_nanos = nanos_of(self.settings.acks.delay);
            }
        }
        if has_data
            && self.settings.acks.pingpong_threshold > 0
            && let Some(last) = self.last_data
            && self.is_within_delay(last, now)
        {
            self.pingpong = self.pingpong.saturating_add(1);
        }
        self.is_scheduled = false;
        self.is_now = false;
        self.is_urgent = false;
        self.is_pushed = false;
        self.is_pushed_twice = false;
        self.timer = None;
        self.packets = 0;
    }

    /// Whether the delay has not passed between two times, as kernels count it.
    #[inline]
    fn is_within_delay(&self, earlier: Instant, later: Instant) -> bool {
        // Rounding to ticks shortens the distance by less than a tick.
        let may_be =
            later.nanos_since(earlier) < self.delay_nanos.saturating_add(self.tick.tick_nanos());
        may_be && self.edge(later).nanos_since(self.edge(earlier)) < self.delay_nanos
    }

    /// A read left the buffer empty or not (rule 8.5); whether that alone is reason for an ACK.
    pub(super) fn is_due_at_read(&self, is_much: bool, is_empty: bool) -> bool {
        self.settings.acks.on_read
            && self.is_scheduled
            && (is_much
                || (is_empty && (self.is_pushed_twice || (self.is_pushed && !self.is_pingpong()))))
    }

    /// Quick ACKs again (rule 8.7; Linux `tcp_enter_quickack_mode`).
    pub(super) fn enter_quick(&mut self, first_quick: u32, max: u32) {
        self.refill_quick(first_quick, max.min(self.settings.acks.quick_max));
        self.pingpong = 0;
        self.delay_nanos = nanos_of(self.settings.acks.delay);
    }

    fn refill_quick(&mut self, first_quick: u32, max: u32) {
        self.quick = self.quick.max(first_quick.min(max));
    }

    /// The window opened: at least one ACK announces it at once (rule 3.3).
    pub(super) fn on_window_grown(&mut self) {
        if self.settings.acks.quick_max > 0 {
            self.quick |= 1;
        }
    }

    /// Memory is short: no more quick ACKs.
    pub(super) const fn clear_quick(&mut self) {
        self.quick = 0;
    }

    /// Enters or leaves request-and-response mode (rule 8.7).
    pub(super) fn set_pingpong(&mut self, is_on: bool) {
        self.pingpong = if is_on {
            self.settings.acks.pingpong_threshold
        } else {
            0
        };
    }

    pub(super) fn is_pingpong(&self) -> bool {
        self.settings.acks.pingpong_threshold > 0
            && self.pingpong >= self.settings.acks.pingpong_threshold
    }

    pub(super) const fn is_scheduled(&self) -> bool {
        self.is_scheduled
    }

    pub(super) fn rules(&self) -> &Acks {
        &self.settings.acks
    }

    /// The tick that follows, by which kernels count time.
    fn edge(&self, at: Instant) -> Instant {
        self.tick.edge(at)
    }

    /// `nanos` in whole ticks, rounded down.
    fn whole_ticks(&self, nanos: u64) -> u64 {
        nanos - nanos.checked_rem(self.tick.tick_nanos()).unwrap_or(0)
    }

    #[cfg(test)]
    pub(super) const fn quick(&self) -> u32 {
        self.quick
    }
}
