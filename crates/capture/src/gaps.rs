//! Round trips of the packets behind gaps, compared with those of others: what finds a queue full
//! is dropped, and what comes next waits behind that queue, while random losses come at any time
//! (J. Liu and M. Crovella, "Using loss pairs to discover network properties", 2001).

use core::time::Duration;

use base::Instant;

/// So many round trips are kept, at most one of each.
const KEPT: usize = 64;
/// Fewer are none to compare with.
const ENOUGH: usize = 8;
/// Gaps within this many round trips belong to one loss.
const TOGETHER_RTTS: u32 = 4;
/// A shorter wait is not a queue.
const WAIT_MIN: Duration = Duration::from_micros(500);

/// Round trips of one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gaps {
    /// The newest ones, in microseconds, in a ring.
    kept: Vec<u32>,
    oldest: usize,
    kept_at: Option<Instant>,
    found_at: Option<Instant>,
    /// Gaps whose packet behind was timed.
    pub(crate) count: u64,
    /// Sum of the shares of others that were shorter, in thousandths.
    pub(crate) ranks: u64,
}

impl Gaps {
    /// Forgets all of them, but keeps their memory.
    pub(crate) fn clear(&mut self) {
        let mut kept = core::mem::take(&mut self.kept);
        kept.clear();
        *self = Self {
            kept,
            ..Self::default()
        };
    }

    /// A packet took this `time` until its ACK; round trips take `rtt` in the mean.
    pub(crate) fn note(&mut self, now: Instant, time: Duration, rtt: Duration) {
        if self.kept_at.is_some_and(|last| now.since(last) < rtt) {
            return;
        }
        self.kept_at = Some(now);
        let micros = micros(time);
        if self.kept.len() < KEPT {
            self.kept.push(micros);
        } else {
            self.kept[self.oldest] = micros;
            self.oldest = (self.oldest + 1) % KEPT;
        }
    }

    /// The same of a packet behind a gap.
    pub(crate) fn find(&mut self, now: Instant, time: Duration, rtt: Duration) {
        let is_same = |last: Instant| now.since(last) < rtt * TOGETHER_RTTS;
        if self.found_at.is_some_and(is_same) || self.kept.len() < ENOUGH {
            return;
        }
        self.found_at = Some(now);
        self.count += 1;
        let time = micros(time);
        let least = self.kept.iter().copied().min().unwrap_or(time);
        if time.saturating_sub(least) >= micros(WAIT_MIN) {
            let shorter = self.kept.iter().filter(|kept| **kept < time).count();
            self.ranks += (shorter * 1000 / self.kept.len()) as u64;
        }
    }
}

fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(20);

    /// Mean share after five losses, each behind twenty round trips that become longer and longer.
    fn mean_where(lost: impl Fn(u64) -> Duration) -> f64 {
        let mut gaps = Gaps::default();
        for number in 0..100_u64 {
            let now = Instant::ZERO + RTT * (2 * number as u32);
            let grown = Duration::from_micros(200) * (number % 20) as u32;
            gaps.note(now, RTT + grown, RTT);
            if number % 20 == 19 {
                gaps.find(now, lost(number / 20), RTT);
            }
        }
        assert_eq!(gaps.count, 5);
        gaps.ranks as f64 / 1000.0 / gaps.count as f64
    }

    #[test]
    fn what_comes_behind_a_drop_waits_longest() {
        let queued = mean_where(|_| RTT + Duration::from_millis(4));
        assert!(queued > 0.95, "{queued}");
        let at_any_time = mean_where(|loss| RTT + Duration::from_micros(600) * loss as u32);
        assert!(at_any_time < 0.6, "{at_any_time}");
        let without_queue = mean_where(|_| RTT + Duration::from_micros(100));
        assert!(without_queue < 0.01, "{without_queue}");
    }
}
