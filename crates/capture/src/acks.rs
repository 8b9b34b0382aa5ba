//! Estimates when an end received what the capture saw on its way to it.
//!
//! A capture that is not at the sender sees an ACK before the sender has it, and what the sender
//! sends next later still. How long that takes (from the capture to an end and back) shows in the
//! handshake and, packet by packet, in the timestamps that an end echoes.

use core::time::Duration;
use std::collections::VecDeque;

use base::Instant;

use crate::sender::Ack;

/// ACKs on their way to an end, at most; more are handed over early.
pub(crate) const WAITING_MAX: usize = 512;
/// ... if the sender is not observed meanwhile.
pub(crate) const WAITING_UNSEEN: usize = 32;
/// This many measurements make a window of which the smallest counts.
const WINDOW: u32 = 8;
/// An end that is nearer is where the capture is.
const HERE_NANOS: u64 = 50_000;

/// A queue makes the way to an end this many times longer, at most.
const QUEUED_MAX: u64 = 256;
/// One that takes longer than this, and so many times longer than the way without it, is looked for
/// in each round trip: it may grow faster than the smallest of [`WINDOW`].
const QUEUED_NANOS: u64 = 13_000_000;
const QUEUED_TIMES: u64 = 3;

/// For this long Linux holds an ACK back for its program to answer with (`TCP_DELACK_MIN`).
const DELAYED_ACK_NANOS: u64 = 40_000_000;

/// Kind of segment that echoes a timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// An ACK alone.
    Kernel,
    /// Payload after all that its program had written before.
    Program,
    /// Payload of which there was more, so that it did not wait for its program.
    Stream,
}

/// How far an end is from the capture. In nanoseconds: each packet asks for it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Near {
    min: Option<u64>,
    /// The smallest of the present window and of the one before.
    recent: [Option<u64>; 2],
    count: u32,
    measured: Instant,
    /// The newest of a stream, which had not waited for its program.
    latest: Option<u64>,
    /// The newest timestamp that was sent to it.
    newest: Option<u32>,
    /// For how long, at least, the newest of a stream took as packets show that left the end before
    /// it had the timestamp, and passed the capture after it.
    shown: u64,
    /// ... and so far for the present one.
    shown_so_far: u64,
    /// A timestamp that was sent to it, and when; whether with payload, which is answered.
    probe: Option<(u32, Instant)>,
    asks: bool,
    echoes: bool,
}

impl Near {
    pub(crate) fn min(&self) -> Option<Duration> {
        self.min.map(Duration::from_nanos)
    }

    pub(crate) const fn min_nanos(&self) -> Option<u64> {
        self.min
    }

    /// From the capture to the end and back, as things are at `now`.
    pub(crate) fn delay_nanos(&self, now: Instant) -> u64 {
        let Some(min) = self.min else { return 0 };
        let is_fresh = |nanos: u64| now.nanos_since(self.measured) < nanos.saturating_mul(4);
        if let Some(queued) = self.queued().filter(|queued| is_fresh(*queued)) {
            return queued;
        }
        if min < HERE_NANOS {
            return 0;
        }
        let recent = match self.recent {
            [Some(present), Some(before)] => Some(present.min(before)),
            [present, before] => present.or(before),
        };
        let recent = recent.filter(|recent| is_fresh(*recent));
        recent.unwrap_or(min).min(min.saturating_mul(QUEUED_MAX))
    }

    /// How long it took last, where that is known and the capture is not at the end.
    pub(crate) fn latest(&self) -> Option<Duration> {
        let latest = self
            .latest
            .filter(|_| self.min >= Some(HERE_NANOS) || self.queued().is_some());
        latest.map(Duration::from_nanos)
    }

    /// How long it took last, where that is a long queue between the end and the capture: what left
    /// before, and came after, shows that no window held it back.
    fn queued(&self) -> Option<u64> {
        let latest = self.latest?;
        if self.shown < latest / 2 {
            return None;
        }
        let most = self.min?.saturating_mul(QUEUED_TIMES).max(QUEUED_NANOS);
        (latest > most).then_some(latest)
    }

    /// Whether its packets say which ones of the other end it has.
    pub(crate) const fn echoes(&self) -> bool {
        self.echoes
    }

    /// An answer that came at once.
    pub(crate) fn sample(&mut self, sample: u64) {
        self.min = Some(self.min.map_or(sample, |min| min.min(sample)));
    }

    /// A packet with this timestamp goes to it. Of several with the same, only the first tells how
    /// long the echo took; whether the first that was captured was that, does not show. An ACK is
    /// not answered: what comes after it may answer the payload that follows.
    pub(crate) fn sent_to(&mut self, at: Instant, stamp: u32, has_payload: bool) {
        let Some(newest) = self.newest else {
            self.newest = Some(stamp);
            return;
        };
        if is_before(newest, stamp) {
            self.newest = Some(stamp);
            if self.probe.is_none() || (has_payload && !self.asks) {
                (self.probe, self.asks) = (Some((stamp, at)), has_payload);
            }
        }
    }

    /// A packet of it echoes this timestamp. What its program wrote after a pause tells nothing of
    /// the way, unless it came as soon as a kernel's own answer would have.
    pub(crate) fn heard(&mut self, at: Instant, echo: u32, answer: Answer) {
        let Some((stamp, sent)) = self.probe else {
            return;
        };
        if is_before(echo, stamp) {
            if answer != Answer::Kernel {
                self.shown_so_far = at.nanos_since(sent);
            }
            return;
        }
        let shown = core::mem::take(&mut self.shown_so_far);
        self.echoes = true;
        self.probe = None;
        let sample = at.nanos_since(sent);
        let may_be_late = answer == Answer::Program && sample >= DELAYED_ACK_NANOS;
        if !may_be_late || self.min.is_some() {
            self.sample(sample);
        }
        if answer == Answer::Stream {
            if self.count == WINDOW {
                self.recent = [None, self.recent[0]];
                self.count = 0;
            }
            self.recent[0] = Some(self.recent[0].map_or(sample, |known| known.min(sample)));
            self.count += 1;
            self.measured = at;
            (self.latest, self.shown) = (Some(sample), shown);
        }
    }
}

/// On the circle of timestamps.
const fn is_before(stamp: u32, other: u32) -> bool {
    (stamp.wrapping_sub(other) as i32) < 0
}

/// ACKs on their way to an end.
#[derive(Clone, Debug, Default)]
pub(crate) struct AcksInTransit {
    acks: VecDeque<(Option<u32>, Ack)>,
}

impl AcksInTransit {
    /// One more, with its timestamp; gives the oldest where they are more than `most`.
    pub(crate) fn push(&mut self, stamp: Option<u32>, ack: Ack, most: usize) -> Option<Ack> {
        let first = if self.acks.len() >= most {
            self.acks.pop_front()
        } else {
            None
        };
        self.acks.push_back((stamp, ack));
        first.map(|(_, ack)| ack)
    }

    /// Gives `take` those that have arrived by `now`, `delay_nanos` after the capture saw them.
    pub(crate) fn arrive(&mut self, now: Instant, delay_nanos: u64, take: impl FnMut(&Ack)) {
        let arrival = |_: Option<u32>, ack: &Ack| {
            let at = ack.at.after_nanos(delay_nanos);
            (at <= now).then_some(at)
        };
        self.hand_over(arrival, take);
    }

    /// ... those that have arrived because the end says so at `now`. Several have one timestamp:
    /// what the capture saw less than `least_nanos` ago cannot be there yet.
    pub(crate) fn prove(
        &mut self,
        now: Instant,
        echo: u32,
        least_nanos: u64,
        take: impl FnMut(&Ack),
    ) {
        let arrival = |stamp: Option<u32>, ack: &Ack| {
            let is_echoed = stamp.is_some_and(|stamp| !is_before(echo, stamp));
            (is_echoed && now.nanos_since(ack.at) >= least_nanos).then_some(now)
        };
        self.hand_over(arrival, take);
    }

    /// Takes out the oldest as long as `arrival` says when they came, and hands them over in their
    /// place. The next one comes to the same place in memory as often as can be, so that it is in a
    /// cache.
    fn hand_over(
        &mut self,
        arrival: impl Fn(Option<u32>, &Ack) -> Option<Instant>,
        mut take: impl FnMut(&Ack),
    ) {
        while let Some((stamp, ack)) = self.acks.front_mut() {
            let Some(at) = arrival(*stamp, ack) else {
                return;
            };
            ack.at = at;
            take(ack);
            self.acks.pop_front();
            if self.acks.is_empty() {
                self.acks.clear();
            }
        }
    }

    pub(crate) fn clear(&mut self) {
        self.acks.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.acks.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: Duration = Duration::from_millis(1);

    /// An end 20 us away, whose packets pass the capture each 10 ms; each echoes what had come to
    /// the end this long before.
    fn near(queue: Duration) -> Near {
        let mut near = Near::default();
        near.sample(20_000);
        for time in 0..200_u32 {
            let now = Instant::ZERO + MILLI * 10 * time;
            let echo = (MILLI * 10 * time).saturating_sub(queue).as_millis() as u32;
            near.heard(now, echo, Answer::Stream);
            near.sent_to(now, MILLI.as_millis() as u32 * 10 * time, false);
        }
        near
    }

    #[test]
    fn a_queue_between_the_end_and_the_capture_counts() {
        let now = Instant::ZERO + MILLI * 2000;
        let delay = Duration::from_nanos(near(MILLI * 300).delay_nanos(now));
        assert!((MILLI * 290..MILLI * 320).contains(&delay), "{delay:?}");
        assert_eq!(near(Duration::ZERO).delay_nanos(now), 0);
    }

    /// An end 30 ms away, and a queue that grows by a tenth of the time that passes.
    #[test]
    fn a_queue_that_grows_is_followed() {
        let mut near = Near::default();
        near.sample(30_000_000);
        let way = |now: u64| 30 + now / 10;
        for now in (0..4000).step_by(10) {
            let at = Instant::ZERO + MILLI * now as u32;
            near.heard(at, (now - way(now).min(now)) as u32, Answer::Stream);
            near.sent_to(at, now as u32, false);
        }
        let delay = near.delay_nanos(Instant::ZERO + MILLI * 4000) / 1_000_000;
        // The last echo was of a round trip ago, and the smallest of sixteen has 30 ms.
        assert!((350..=430).contains(&delay), "{delay} ms");
    }

    /// An end that sends nothing for a while, and then echoes the newest, was held back.
    #[test]
    fn an_end_that_sends_nothing_is_no_queue() {
        let mut near = Near::default();
        near.sample(20_000);
        for time in 0..50_u32 {
            let now = Instant::ZERO + MILLI * 300 * time;
            near.heard(now, time * 300, Answer::Stream);
            for ack in 1..30 {
                near.sent_to(now + MILLI * ack, time * 300 + ack, false);
            }
        }
        let now = Instant::ZERO + MILLI * 300 * 50;
        assert_eq!(near.delay_nanos(now), 0);
        assert_eq!(near.latest(), None);
    }
}
