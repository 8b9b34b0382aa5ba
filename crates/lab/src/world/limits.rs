//! How long each limit held a sender: the truth, asked of the stack whenever something happened.

use core::time::Duration;
use std::collections::BTreeMap;

use base::{Instant, Limit};

/// Times by limit.
#[derive(Clone, Debug, Default)]
pub struct LimitTimes {
    times: BTreeMap<Limit, Duration>,
    /// The limit that holds now, and since when; `None` in time that does not count.
    current: Option<(Instant, Limit)>,
}

impl LimitTimes {
    /// From `now` on this limit holds; `None`: the time that follows does not count.
    pub fn set(&mut self, now: Instant, limit: Option<Limit>) {
        if let Some((since, limit)) = self.current {
            *self.times.entry(limit).or_default() += now.since(since);
        }
        self.current = limit.map(|limit| (now, limit));
    }

    /// Each limit with its time, longest first.
    #[must_use]
    pub fn times(&self) -> Vec<(Limit, Duration)> {
        let held = self.times.iter().filter(|(_, time)| !time.is_zero());
        let mut times: Vec<(Limit, Duration)> = held.map(|(limit, time)| (*limit, *time)).collect();
        times.sort_by_key(|(_, time)| core::cmp::Reverse(*time));
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
        limits.set(at(10), Some(Limit::Nagle));
        limits.set(at(13), Some(Limit::Application));
        limits.set(at(13), Some(Limit::Nagle));
        limits.set(at(13), Some(Limit::PeerWindow));
        limits.set(at(14), None);
        limits.set(at(99), None);
        let expected = [(Limit::Nagle, 0.75), (Limit::PeerWindow, 0.25)];
        assert_eq!(limits.shares(), expected);
        assert_eq!(LimitTimes::default().shares(), []);
    }
}
