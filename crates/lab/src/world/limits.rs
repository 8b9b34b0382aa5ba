//! Time for which each limit held a sender: the truth, asked of the stack whenever something
//! happened.

use core::time::Duration;
use std::collections::BTreeMap;

use base::{Instant, Limit};

/// Times by limit.
#[derive(Clone, Debug, Default)]
pub struct LimitTimes {
    times: BTreeMap<Limit, Duration>,
    /// In time that does not count.
    uncounted: BTreeMap<Limit, Duration>,
    /// The limit that holds now, since when, and whether it is time that counts.
    current: Option<(Instant, Limit, bool)>,
    /// When it was said last which limit holds.
    told: Instant,
}

impl LimitTimes {
    /// From `now` on this limit holds, in measured time or not; `None`: unknown.
    pub fn set(&mut self, now: Instant, limit: Option<(Limit, bool)>) {
        self.told = now;
        let before = self.current.map(|(_, limit, counts)| (limit, counts));
        if before == limit {
            return;
        }
        if let Some((since, limit, counts)) = self.current {
            let times = match counts {
                true => &mut self.times,
                false => &mut self.uncounted,
            };
            *times.entry(limit).or_default() += now.since(since);
        }
        self.current = limit.map(|(limit, counts)| (now, limit, counts));
    }

    /// Each limit with its time up to when it was said last which limit holds, longest first.
    #[must_use]
    pub fn times(&self) -> Vec<(Limit, Duration)> {
        let mut held = self.times.clone();
        if let Some((since, limit, true)) = self.current {
            *held.entry(limit).or_default() += self.told.since(since);
        }
        let held = held.into_iter().filter(|(_, time)| !time.is_zero());
        let mut times: Vec<(Limit, Duration)> = held.collect();
        times.sort_by_key(|(_, time)| core::cmp::Reverse(*time));
        times
    }

    /// Each limit with the time that it held up to `now`, whether that counts or not.
    #[must_use]
    pub fn held_until(&self, now: Instant) -> BTreeMap<Limit, Duration> {
        let mut times = self.times.clone();
        for (limit, time) in &self.uncounted {
            *times.entry(*limit).or_default() += *time;
        }
        if let Some((since, limit, _)) = self.current {
            *times.entry(limit).or_default() += now.since(since);
        }
        times
    }

    /// Each limit with its share of the time that counted, largest first.
    #[must_use]
    pub fn shares(&self) -> Vec<(Limit, f64)> {
        let times = self.times();
        let all: Duration = times.iter().map(|(_, time)| *time).sum();
        let share = |time: Duration| time.as_secs_f64() / all.as_secs_f64();
        times
            .into_iter()
            .map(|(limit, time)| (limit, share(time)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_time_that_counts_is_shared_out() {
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        let mut limits = LimitTimes::default();
        limits.set(at(0), None);
        limits.set(at(5), Some((Limit::Nagle, false)));
        limits.set(at(10), Some((Limit::Nagle, true)));
        limits.set(at(13), Some((Limit::Application, true)));
        limits.set(at(13), Some((Limit::Nagle, true)));
        limits.set(at(13), Some((Limit::PeerWindow, true)));
        let held = limits.held_until(at(14));
        assert_eq!(held[&Limit::Nagle], Duration::from_millis(8));
        assert_eq!(held[&Limit::PeerWindow], Duration::from_millis(1));
        limits.set(at(14), Some((Limit::PeerWindow, false)));
        limits.set(at(99), None);
        let expected = [(Limit::Nagle, 0.75), (Limit::PeerWindow, 0.25)];
        assert_eq!(limits.shares(), expected);
        assert_eq!(LimitTimes::default().shares(), []);
    }
}
