//! Interval of rounds: as often as was asked for, rarer where that would cost more than it may.

use std::time::Duration;

/// A longer pause is not made: a finding would be told of an hour late. Where one round takes more
/// than 72 s of CPU time, the bound of 2 % is exceeded, and the metrics say so.
const INTERVAL_MAX: Duration = Duration::from_secs(3600);
/// An interval is told when it is this many times longer, or shorter, than the one last told.
const TOLD_FACTOR: u32 = 2;

/// The distance of rounds.
#[derive(Debug)]
pub(crate) struct Pace {
    /// The least distance from the beginning of a round to the beginning of the next.
    pub(crate) every: Duration,
    /// The largest share of one core that may be used over that distance, above 0.
    pub(crate) budget: f64,
    /// The last distance that was told.
    told: Duration,
}

impl Pace {
    pub(crate) const fn new(every: Duration, budget: f64) -> Self {
        Self {
            every,
            budget,
            told: every,
        }
    }

    /// The distance where requests were answered meanwhile. Answers count no more than rounds do: a
    /// flood of requests, which is answered slowly beyond half of the budget, does not end the
    /// rounds.
    pub(crate) fn interval_beside(&self, rounds: Duration, answers: Duration) -> Duration {
        self.interval(rounds + answers.min(rounds))
    }

    /// The distance that this much CPU time since the beginning of the round asks for.
    pub(crate) fn interval(&self, cpu: Duration) -> Duration {
        let afforded = (cpu.as_secs_f64() / self.budget).min(INTERVAL_MAX.as_secs_f64());
        self.every.max(Duration::from_secs_f64(afforded))
    }

    /// Whether people should know that rounds are at this distance now.
    pub(crate) fn is_news(&mut self, interval: Duration) -> bool {
        let is_news = interval >= self.told * TOLD_FACTOR || interval * TOLD_FACTOR <= self.told;
        if is_news {
            self.told = interval;
        }
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_costs_more_is_done_less_often() {
        let pace = Pace::new(Duration::from_secs(15), 0.02);
        let check = |cpu_millis: u64, expected_s: u64| {
            let interval = pace.interval(Duration::from_millis(cpu_millis));
            assert_eq!(interval.as_secs_f64().round() as u64, expected_s);
        };
        check(0, 15);
        check(300, 15);
        check(400, 20);
        check(4000, 200);
        check(10_000_000, 3600);
    }

    #[test]
    fn a_flood_of_requests_does_not_end_the_rounds() {
        let pace = Pace::new(Duration::from_secs(15), 0.02);
        let millis = Duration::from_millis;
        let interval = pace.interval_beside(millis(400), millis(100));
        assert_eq!(interval, Duration::from_secs(25));
        let interval = pace.interval_beside(millis(400), millis(60_000));
        assert_eq!(interval, Duration::from_secs(40));
    }

    #[test]
    fn a_change_of_pace_is_told_once() {
        let seconds = Duration::from_secs;
        let mut pace = Pace::new(seconds(15), 0.02);
        assert!(!pace.is_news(seconds(15)));
        assert!(!pace.is_news(seconds(29)));
        assert!(pace.is_news(seconds(40)));
        assert!(!pace.is_news(seconds(50)));
        assert!(pace.is_news(seconds(20)));
        assert!(!pace.is_news(seconds(15)));
    }
}
