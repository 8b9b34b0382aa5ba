//! Classifies the wait of a sender between two packets, once the next one is seen. What is sent as
//! soon as an ACK arrives had been waiting for that ACK, and the windows at that time show why.

use core::time::Duration;

use base::Instant;

use crate::rtt::Rtt;
use crate::sender::{Ack, Data};

/// A sender answers an ACK within this: it does so in the same interrupt, but looks of a capture
/// and queues in front of it blur that.
const PROMPT_NANOS: (u64, u64) = (100_000, 500_000);
/// ... or within this share of a round trip.
const PROMPT_SHARE: u64 = 16;
/// Nagle's algorithm holds a piece behind so few segments; more are a full window.
const NAGLE_PKTS: u32 = 4;
/// ... for at least this share of the shortest round trip, three parts of four.
const NAGLE_SHARE: (u128, u128) = (3, 4);
/// A program that waits leaves a part of a segment within so many round trips.
const PARTIAL_RTTS: u64 = 3;
/// A corked segment leaves by a timer of 200 ms, or of the retransmission timeout (Linux probes so
/// late, `tcp_probe0_base`), earlier by this and later by that.
const CORK_TIMER: Duration = Duration::from_millis(200);
const CORK_BLUR: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(10));
/// This many waits of that length, and all but one in this many, are no chance.
const CORKED: (u16, u16) = (3, 4);
/// Step of the times between releases by a kernel's timer, which fires at ticks of 4, 8 or 10 ms
/// (250, 1000 or 100 of them a second; timers this far ahead go by 8 ms there), and the tolerance.
/// A program that sleeps wakes between ticks (`hrtimer`).
const TICK_STEP: Duration = Duration::from_millis(2);
const TICK_BLUR: Duration = Duration::from_micros(300);
/// Pauses over which times are compared: the clocks of a sender and of a capture drift.
const TICK_PAUSES: u8 = 16;
/// A stack without ticks fires within this time, which no program does.
const EXACT: Duration = Duration::from_micros(20);
/// So many small segments that Nagle's algorithm would have held show that it is off.
const HASTY: u16 = 3;

/// Why it waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    Application,
    Nagle,
    PeerWindow,
    Congestion,
    Cork,
}

/// How many there are.
const CAUSES: usize = 5;

/// A wait that is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) cause: Cause,
    pub(crate) from: Instant,
    pub(crate) to: Instant,
    /// Payload of the segment that left then.
    pub(crate) bytes: u32,
    /// From when on nothing was in flight, where that was so and its program was not the reason.
    pub(crate) idle_from: Option<Instant>,
}

impl Held {
    pub(crate) const fn nanos(&self) -> u64 {
        self.to.nanos_since(self.from)
    }
}

/// Size of the segment being sent.
#[derive(Clone, Copy, Debug)]
struct Size {
    /// Room that it needs, at most that of a full one.
    wanted: u32,
    is_small: bool,
    is_late: bool,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Instant,
    bytes: u32,
    is_pushed: bool,
    is_partial: bool,
    /// Room in the other end's window behind it, which is below 2^30 (RFC 7323 section 2.3).
    room: Option<u32>,
}

impl Sent {
    fn is_full(&self, mss: u32) -> bool {
        !self.is_partial && self.bytes >= mss
    }
}

/// An ACK after which more may be sent.
#[derive(Clone, Copy, Debug)]
struct Trigger {
    at: Instant,
    carries_data: bool,
    acked_all: bool,
    /// Opens a window that was closed.
    opens: bool,
    /// In flight before it came.
    flight_pkts: u32,
}

/// The waits of one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waits {
    last: Option<Sent>,
    trigger: Option<Trigger>,
    /// When the other end's window last let a full segment out again.
    opened: Instant,
    /// The congestion window, where the sender used it up last.
    pub(crate) cwnd: Option<u32>,
    /// Offset behind the last small segment.
    small_end: u64,
    /// When payload last left that ended in a part of a segment.
    partial_at: Option<Instant>,
    hasty: u16,
    /// Small segments behind a pause as long as the timer of a cork, and behind others.
    corked: (u16, u16),
    /// When such a segment left, which the next ones are compared with, and how many were.
    tick: Instant,
    tick_pauses: u8,
    /// How late ACKs may be by what is known of the way to the sender.
    pub(crate) blur_nanos: u64,
    /// The sender is not where the capture is: when it has an ACK, and with it more window, is
    /// estimated.
    pub(crate) is_far: bool,
    /// Time for which the sender waited with nothing in flight, and not for its program.
    pub(crate) busy_nanos: u64,
    times_nanos: [u64; CAUSES],
}

impl Waits {
    /// Time of the waits for it.
    pub(crate) const fn of(&self, cause: Cause) -> Duration {
        Duration::from_nanos(self.times_nanos[cause as usize])
    }

    /// Small segments left although earlier ones were not acknowledged: Nagle's algorithm is off.
    pub(crate) const fn shows_nodelay(&self) -> bool {
        self.hasty >= HASTY
    }

    /// Data has left, up to the offset `end`.
    pub(crate) fn sent(&mut self, data: &Data, end: u64, mss: u32, room: Option<u64>) {
        let is_partial = !data.bytes.is_multiple_of(mss);
        self.last = Some(Sent {
            at: data.at,
            bytes: data.bytes,
            is_pushed: data.is_pushed || data.ends,
            is_partial,
            room: room.map(|room| u32::try_from(room).unwrap_or(u32::MAX)),
        });
        if is_partial {
            self.small_end = end;
            self.partial_at = Some(data.at);
        }
    }

    /// An ACK has come, after which the other end's window has this `room` for a segment of `mss`
    /// bytes.
    pub(crate) fn has_room(&mut self, at: Instant, room: Option<u64>, mss: u32) {
        let is_first = |last: &Sent| self.opened <= last.at;
        let was_shut = |last: &Sent| last.room.is_some_and(|room| room < mss);
        let waits = self
            .last
            .as_ref()
            .is_some_and(|last| is_first(last) && was_shut(last));
        if waits && room.is_some_and(|room| room >= u64::from(mss)) {
            self.opened = at;
        }
    }

    /// An ACK has come; this many segments were out before. `opens`: the window was closed.
    pub(crate) fn acked(&mut self, ack: &Ack, flight_pkts: u32, acked_all: bool, opens: bool) {
        // An answer may follow its ACK at once.
        let just_before = |old: &Trigger| ack.at.nanos_since(old.at) <= PROMPT_NANOS.1;
        let carries_data = |old: &Trigger| old.carries_data && just_before(old) && acked_all;
        let earlier = self.trigger;
        self.trigger = Some(Trigger {
            at: ack.at,
            carries_data: ack.carries_data || earlier.as_ref().is_some_and(carries_data),
            acked_all,
            opens,
            flight_pkts,
        });
        // What follows one ACK at once had waited for both.
        if let (Some(now), Some(old)) = (&mut self.trigger, earlier)
            && just_before(&old)
            && old.at >= self.last.map_or(old.at, |last| last.at)
        {
            now.flight_pkts = now.flight_pkts.max(old.flight_pkts);
        }
    }

    /// New data leaves: what it had waited for. `flight` is what is out, in bytes and packets.
    pub(crate) fn resolve(
        &mut self,
        data: &Data,
        (mss, rtt): (u32, &Rtt),
        flight: (u64, u32),
        una: u64,
    ) -> Option<Held> {
        let last = self.last?;
        let is_small = !data.bytes.is_multiple_of(mss) && data.bytes < mss;
        let prompt = rtt.srtt_nanos().unwrap_or(0) / PROMPT_SHARE;
        let prompt = prompt.clamp(PROMPT_NANOS.0, PROMPT_NANOS.1) + self.blur_nanos;
        let fresh = self
            .trigger
            .filter(|trigger| trigger.at >= last.at && data.at.nanos_since(trigger.at) <= prompt);
        if fresh.is_none() && is_small && flight.0 > 0 && self.small_end > una {
            self.hasty = self.hasty.saturating_add(1);
        }
        if data.at <= last.at {
            return None;
        }
        let waited = u128::from(data.at.nanos_since(last.at));
        let min_rtt = u128::from(rtt.min_nanos().unwrap_or(0));
        let size = Size {
            wanted: data.bytes.min(mss),
            is_small,
            // An ACK of what left last takes a round trip.
            is_late: waited * NAGLE_SHARE.1 >= min_rtt * NAGLE_SHARE.0,
        };
        let cause = match fresh {
            Some(trigger) => self.of_trigger(&last, &trigger, size, flight.1),
            // The ACK that opened the window is not the last one, or took longer than others do.
            None if self.was_shut_most(last.at, data.at) => Cause::PeerWindow,
            None if is_small && flight.0 == 0 => self.of_pause(data.at, last.at, rtt),
            None if self.had_more(data.at, mss, flight.0, rtt) => Cause::Congestion,
            None => Cause::Application,
        };
        if let (Cause::Congestion, Some(trigger)) = (cause, fresh) {
            self.cwnd = Some(trigger.flight_pkts.max(1));
        }
        let held = Held {
            cause,
            from: last.at,
            to: data.at,
            bytes: data.bytes,
            idle_from: None,
        };
        self.count(&held);
        Some(held)
    }

    /// Whether more than a full segment had been written when data left last, so that pacing, a
    /// shaper in front of the capture, or a busy host holds it: without PSH, it is not the end of a
    /// write; where all has arrived, the part that Nagle's algorithm held would have left; and a
    /// program that waits in between leaves such a part in each round trip (Linux holds one only
    /// behind another, `tcp_minshall_check`).
    fn had_more(&self, now: Instant, mss: u32, flight: u64, rtt: &Rtt) -> bool {
        let srtt = rtt.srtt_nanos().unwrap_or(CORK_TIMER.as_nanos() as u64);
        let lately = srtt.saturating_mul(PARTIAL_RTTS);
        let has_parts = || {
            self.partial_at
                .is_some_and(|at| now.nanos_since(at) <= lately)
        };
        self.last.is_some_and(|last| {
            last.is_full(mss) && (!last.is_pushed || flight == 0 || !has_parts())
        })
    }

    /// Whether the other end's window permitted nothing for most of the time between two segments.
    fn was_shut_most(&self, last: Instant, now: Instant) -> bool {
        self.opened > last && self.opened.nanos_since(last) >= now.nanos_since(self.opened)
    }

    fn of_trigger(&self, last: &Sent, trigger: &Trigger, size: Size, flight_pkts: u32) -> Cause {
        if trigger.opens || last.room.is_some_and(|room| room < size.wanted) {
            return Cause::PeerWindow;
        }
        // What came may be an answer, and this the next question.
        if trigger.carries_data && (trigger.acked_all || flight_pkts < 2) {
            return Cause::Application;
        }
        if !size.is_small {
            return Cause::Congestion;
        }
        let is_held = size.is_late && trigger.flight_pkts <= NAGLE_PKTS && !self.shows_nodelay();
        match (is_held, self.cwnd) {
            (true, _) => Cause::Nagle,
            (false, Some(cwnd)) if trigger.flight_pkts >= cwnd => Cause::Congestion,
            _ => Cause::Application,
        }
    }

    /// A small segment leaves, nothing was in flight, and nothing came: a program wrote it then, or
    /// the timer of a cork let it go. A program that waits for answers writes when it has one; of
    /// another that writes five times a second, nothing tells whether a timer holds it.
    fn of_pause(&mut self, now: Instant, last: Instant, rtt: &Rtt) -> Cause {
        let answer = self
            .trigger
            .filter(|trigger| trigger.carries_data && trigger.at >= last);
        let (corked, others) = &mut self.corked;
        let Some(answer) = answer else {
            *others = others.saturating_add(1);
            return Cause::Application;
        };
        let waited = now.since(answer.at);
        // The sender knows its round trips, and so its timeout, before a capture may do: what is
        // not known here makes no other pause a cork's.
        let timeout = rtt.srtt().map_or(CORK_TIMER, |_| rtt.rto());
        let timeout = timeout.clamp(CORK_TIMER, CORK_TIMER * 2);
        let is_long = (timeout - CORK_BLUR.0..=timeout + CORK_BLUR.1).contains(&waited)
            && waited + TICK_BLUR + Duration::from_nanos(self.blur_nanos) >= CORK_TIMER;
        let is_exact = waited.abs_diff(CORK_TIMER) <= EXACT || waited.abs_diff(timeout) <= EXACT;
        // The first one has none before it.
        let is_first = self.tick_pauses == 0;
        let is_tick = is_first || is_whole_ticks(now.since(self.tick)) || is_exact;
        (self.tick, self.tick_pauses) =
            match is_tick && (1..TICK_PAUSES).contains(&self.tick_pauses) {
                true => (self.tick, self.tick_pauses + 1),
                false => (now, 1),
            };
        match is_long && is_tick {
            true => *corked = corked.saturating_add(u16::from(!is_first || is_exact)),
            false => {
                *others = others.saturating_add(1);
                return Cause::Application;
            }
        }
        match *corked >= CORKED.0 && *corked >= others.saturating_mul(CORKED.1) {
            true => Cause::Cork,
            false => Cause::Application,
        }
    }

    fn count(&mut self, held: &Held) {
        self.times_nanos[held.cause as usize] += held.nanos();
    }

    /// The limit that shows before more is sent, with `flight` bytes in flight; `usable` is what
    /// the receive window still allows (RFC 9293 section 3.8.6.2.1).
    pub(crate) fn so_far(
        &self,
        now: Instant,
        (mss, rtt): (u32, &Rtt),
        flight: u64,
        usable: Option<u64>,
    ) -> Cause {
        let lacks = |bytes: u32| usable.is_some_and(|usable| usable < u64::from(bytes));
        match self.last {
            Some(last) if !last.is_pushed && lacks(mss) => Cause::PeerWindow,
            _ if lacks(1) => Cause::PeerWindow,
            _ if self.had_more(now, mss, flight, rtt) => Cause::Congestion,
            _ if flight == 0 => Cause::Application,
            Some(last) if !last.is_pushed => Cause::Congestion,
            _ => Cause::Application,
        }
    }

    /// Whether more may have been written when data left last. Linux marks full segments in the
    /// middle of a stream with PSH too (`forced_push`).
    pub(crate) fn has_more(&self) -> bool {
        let may_have = |last: Sent| !last.is_partial || !last.is_pushed;
        self.last.is_some_and(may_have)
    }

    /// When the present wait began.
    pub(crate) fn since(&self) -> Option<Instant> {
        self.last.map(|last| last.at)
    }
}

fn is_whole_ticks(time: Duration) -> bool {
    let beyond = time.as_nanos() % TICK_STEP.as_nanos();
    beyond.min(TICK_STEP.as_nanos() - beyond) <= TICK_BLUR.as_nanos()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sender::Sacked;

    /// Cause of the wait before the last of several small segments, each sent this long after the
    /// answer to the previous one, or, without `answers`, after the previous one.
    fn cause_where(answers: bool, pause: Duration, rtt: &Rtt) -> Option<Cause> {
        let mut waits = Waits::default();
        let mut cause = None;
        for number in 0..6_u32 {
            let data = Data {
                at: Instant::ZERO + pause * number,
                seq: 200 * number,
                bytes: 200,
                is_pushed: true,
                ends: false,
                stamp: None,
            };
            let held = waits.resolve(&data, (1448, rtt), (0, 0), 0);
            cause = held.map(|held| held.cause);
            waits.sent(&data, (200 * (number + 1)).into(), 1448, None);
            let ack = Ack {
                at: data.at,
                seen: data.at,
                una: (200 * (number + 1)).into(),
                window: Some(65_535),
                unscaled: 65_535,
                carries_data: answers,
                sacked: Sacked::default(),
                is_dsack: false,
                echoes_mark: false,
            };
            waits.acked(&ack, 1, true, false);
        }
        cause
    }

    fn cause(pause: Duration, rtt: &Rtt) -> Option<Cause> {
        cause_where(true, pause, rtt)
    }

    #[test]
    fn a_program_that_waits_for_nobody_writes_when_it_likes() {
        let timer = Duration::from_millis(204);
        assert_eq!(cause_where(true, timer, &Rtt::default()), Some(Cause::Cork));
        assert_eq!(
            cause_where(false, timer, &Rtt::default()),
            Some(Cause::Application)
        );
    }

    #[test]
    fn a_pause_is_that_of_a_cork_where_it_is_as_long_as_its_timer() {
        let millis = Duration::from_millis;
        let mut far = Rtt::default();
        for _ in 0..30 {
            far.sample(40_000_000);
        }
        let near = Rtt::default();
        assert_eq!(cause(millis(204), &near), Some(Cause::Cork));
        // The timeout of a path of 40 ms, if it is known to be that.
        assert_eq!(cause(millis(244), &far), Some(Cause::Cork));
        let others = [
            (244, &near),
            // Between the ticks of a kernel.
            (201, &near),
            (300, &near),
            (204, &far),
            (232, &far),
            (252, &far),
        ];
        for (pause, rtt) in others {
            assert_eq!(
                cause(millis(pause), rtt),
                Some(Cause::Application),
                "{pause}"
            );
        }
    }

    #[test]
    fn a_window_that_was_shut_for_most_of_a_wait_is_what_held_the_data() {
        let millis = |count| Instant::ZERO + Duration::from_millis(count);
        let held = |opened: u64| {
            let data = |at: Instant, seq| Data {
                at,
                seq,
                bytes: 1200,
                is_pushed: true,
                ends: false,
                stamp: None,
            };
            let mut waits = Waits::default();
            waits.sent(&data(millis(0), 0), 1200, 1448, Some(1000));
            waits.has_room(millis(opened), Some(99_000), 1448);
            waits.has_room(millis(opened + 1), Some(400_000), 1448);
            let next = data(millis(240), 1200);
            let held = waits.resolve(&next, (1448, &Rtt::default()), (0, 0), 1200);
            held.map(|held| held.cause)
        };
        assert_eq!(held(200), Some(Cause::PeerWindow));
        assert_eq!(held(20), Some(Cause::Application));
    }

    #[test]
    fn a_pause_behind_a_full_segment_is_not_the_programs() {
        let after = |bytes: u32, is_pushed: bool| {
            let data = |millis: u64, seq| Data {
                at: Instant::ZERO + Duration::from_millis(millis),
                seq,
                bytes,
                is_pushed,
                ends: false,
                stamp: None,
            };
            let mut waits = Waits::default();
            waits.sent(&data(0, 0), bytes.into(), 1448, None);
            let next = data(20, bytes);
            let held = waits.resolve(&next, (1448, &Rtt::default()), (0, 0), bytes.into());
            held.map(|held| held.cause)
        };
        assert_eq!(after(14_480, false), Some(Cause::Congestion));
        assert_eq!(after(14_480, true), Some(Cause::Congestion));
        assert_eq!(after(15_000, true), Some(Cause::Application));
    }
}
