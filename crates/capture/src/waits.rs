//! What a sender waited for between two packets: the next one tells it. What leaves as soon as an
//! ACK comes had been waiting for that ACK, and the windows of that time say why.

use core::time::Duration;

use base::Instant;

use crate::rtt::Rtt;
use crate::sender::{Ack, Data};

/// A sender answers an ACK within this: it does so in the same interrupt, but looks of a capture
/// and queues in front of it blur that.
const PROMPT: (Duration, Duration) = (Duration::from_micros(100), Duration::from_micros(500));
/// ... or within this share of a round trip.
const PROMPT_SHARE: u32 = 16;
/// Nagle's algorithm holds a piece behind so few segments; more are a full window.
const NAGLE_PKTS: u32 = 4;
/// ... for at least this share of the shortest round trip, three parts of four.
const NAGLE_SHARE: (u32, u32) = (3, 4);
/// A corked segment leaves by a timer of 200 ms (Linux probes so late).
const CORK_TIMER: (Duration, Duration) = (Duration::from_millis(195), Duration::from_millis(215));
/// So many waits of that length, and all but one in so many, are no chance.
const CORKED: (u32, u32) = (2, 4);
/// So many small segments that Nagle's algorithm would have held show that it is off.
const HASTY: u32 = 3;

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
    pub(crate) fn time(&self) -> Duration {
        self.to.since(self.from)
    }
}

/// Of the segment that leaves.
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
    /// Room in the other end's window behind it.
    room: Option<u64>,
}

/// An ACK after which more may be sent.
#[derive(Clone, Copy, Debug)]
struct Trigger {
    at: Instant,
    carries_data: bool,
    acked_all: bool,
    /// In flight before it came.
    flight_pkts: u32,
}

/// The waits of one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waits {
    last: Option<Sent>,
    trigger: Option<Trigger>,
    /// The congestion window, where the sender used it up last.
    pub(crate) cwnd: Option<u32>,
    /// Offset behind the last small segment.
    small_end: u64,
    hasty: u32,
    /// Small segments behind a pause as long as the timer of a cork, and behind others.
    corked: (u32, u32),
    /// How late ACKs may be by what is known of the way to the sender.
    pub(crate) blur: Duration,
    /// Time for which the sender waited with nothing in flight, and not for its program.
    pub(crate) busy: Duration,
    times: [Duration; CAUSES],
    counts: [u64; CAUSES],
}

impl Waits {
    /// Time and number of the waits for it.
    pub(crate) fn of(&self, cause: Cause) -> (Duration, u64) {
        let place = cause as usize;
        (self.times[place], self.counts[place])
    }

    /// Small segments left although earlier ones were not acknowledged: Nagle's algorithm is off.
    pub(crate) const fn shows_nodelay(&self) -> bool {
        self.hasty >= HASTY
    }

    /// Data has left, up to the offset `end`.
    pub(crate) fn sent(&mut self, data: &Data, end: u64, mss: u32, room: Option<u64>) {
        self.last = Some(Sent {
            at: data.at,
            bytes: data.bytes,
            is_pushed: data.is_pushed || data.ends,
            room,
        });
        if !data.bytes.is_multiple_of(mss) {
            self.small_end = end;
        }
    }

    /// An ACK has come; so many segments were out before.
    pub(crate) fn acked(&mut self, ack: &Ack, flight_pkts: u32, acked_all: bool) {
        // An answer may follow its ACK at once.
        let just_before = |old: &Trigger| ack.at.since(old.at) <= PROMPT.1;
        let carries_data = |old: &Trigger| old.carries_data && just_before(old) && acked_all;
        let earlier = self.trigger;
        self.trigger = Some(Trigger {
            at: ack.at,
            carries_data: ack.carries_data || earlier.as_ref().is_some_and(carries_data),
            acked_all,
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
        let prompt = rtt.srtt().unwrap_or_default() / PROMPT_SHARE;
        let prompt = prompt.clamp(PROMPT.0, PROMPT.1) + self.blur;
        let fresh = self
            .trigger
            .filter(|trigger| trigger.at >= last.at && data.at.since(trigger.at) <= prompt);
        if fresh.is_none() && is_small && flight.0 > 0 && self.small_end > una {
            self.hasty = self.hasty.saturating_add(1);
        }
        if data.at <= last.at {
            return None;
        }
        let waited = data.at.since(last.at);
        let size = Size {
            wanted: data.bytes.min(mss),
            is_small,
            // An ACK of what left last takes a round trip.
            is_late: waited * NAGLE_SHARE.1 >= rtt.min().unwrap_or_default() * NAGLE_SHARE.0,
        };
        let cause = match fresh {
            Some(trigger) => self.of_trigger(&last, &trigger, size, flight.1),
            None if is_small && flight.0 == 0 => self.of_pause(data.at, last.at),
            // More of the same write was there: something paces it, or its host is busy.
            None if !last.is_pushed && last.bytes >= mss => Cause::Congestion,
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

    fn of_trigger(&self, last: &Sent, trigger: &Trigger, size: Size, flight_pkts: u32) -> Cause {
        if last.room.is_some_and(|room| room < u64::from(size.wanted)) {
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
    /// the timer of a cork let it go.
    fn of_pause(&mut self, now: Instant, last: Instant) -> Cause {
        let since = self.trigger.map_or(last, |trigger| trigger.at.max(last));
        let waited = now.since(since);
        let (corked, others) = &mut self.corked;
        match (CORK_TIMER.0..=CORK_TIMER.1).contains(&waited) {
            true => *corked = corked.saturating_add(1),
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
        let place = held.cause as usize;
        self.times[place] += held.time();
        self.counts[place] += 1;
    }

    /// What it waits for as far as can be told before more is sent: `room` is that of the other
    /// end's window.
    pub(crate) fn so_far(&self, mss: u32, room: Option<u64>) -> Cause {
        match self.last {
            Some(last) if !last.is_pushed && room.is_some_and(|room| room < u64::from(mss)) => {
                Cause::PeerWindow
            }
            Some(last) if !last.is_pushed => Cause::Congestion,
            _ if room == Some(0) => Cause::PeerWindow,
            _ => Cause::Application,
        }
    }

    /// When the present wait began.
    pub(crate) fn since(&self) -> Option<Instant> {
        self.last.map(|last| last.at)
    }
}
