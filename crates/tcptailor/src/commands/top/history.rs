//! The last minutes of a connection or of a service: what held it, and how fast it was, second by
//! second.

use std::collections::VecDeque;

use doctor::Held;

/// Seconds that are kept.
pub(super) const SECONDS: usize = 240;
/// Seconds that one character of a bar stands for.
pub(super) const SECONDS_EACH: usize = 10;

/// A second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Second {
    pub(super) held: Held,
    pub(super) rate_bps: u64,
}

/// The seconds from the one in which it was seen first, at most [`SECONDS`] of them.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    seconds: VecDeque<Option<Second>>,
    /// The number of the newest.
    newest: u64,
}

impl History {
    /// Takes in the second with this number; those between are unknown.
    pub(super) fn push(&mut self, number: u64, second: Second) {
        if !self.seconds.is_empty() {
            let missed = number.saturating_sub(self.newest + 1).min(SECONDS as u64);
            self.seconds.extend((0..missed).map(|_| None));
        }
        self.seconds.push_back(Some(second));
        self.newest = number;
        let surplus = self.seconds.len().saturating_sub(SECONDS);
        self.seconds.drain(..surplus);
    }

    /// Whether nothing of it is recent enough to be shown.
    pub(super) fn is_over(&self, now: u64) -> bool {
        now.saturating_sub(self.newest) >= SECONDS as u64
    }

    /// The seconds up to `now`, the newest first.
    fn newest_first(&self, now: u64) -> impl Iterator<Item = Option<Second>> {
        let since = usize::try_from(now.saturating_sub(self.newest)).unwrap_or(SECONDS);
        std::iter::repeat_n(None, since.min(SECONDS)).chain(self.seconds.iter().rev().copied())
    }

    /// The limit in each period of [`SECONDS_EACH`] seconds, oldest first; `None` without samples.
    pub(super) fn held(&self, now: u64, cells: usize) -> Vec<Option<Held>> {
        let mut seconds = self.newest_first(now);
        let mut found: Vec<Option<Held>> = (0..cells)
            .map(|_| most_of(seconds.by_ref().take(SECONDS_EACH).flatten()))
            .collect();
        found.reverse();
        found
    }

    /// The rates, a value for each of this many columns, the oldest first; 0 where nothing was
    /// seen.
    pub(super) fn rates_bps(&self, now: u64, columns: usize) -> Vec<u64> {
        let mut seconds = self.newest_first(now);
        let mut rates: Vec<u64> = (0..columns)
            .map(|_| seconds.next().flatten().map_or(0, |second| second.rate_bps))
            .collect();
        rates.reverse();
        rates
    }
}

/// The limit in most of the active seconds; idle if there are none.
fn most_of(seconds: impl Iterator<Item = Second>) -> Option<Held> {
    let mut counts: Vec<(Held, u32)> = Vec::new();
    for Second { held, .. } in seconds {
        match counts.iter_mut().find(|(known, _)| *known == held) {
            Some((_, count)) => *count += 1,
            None => counts.push((held, 1)),
        }
    }
    let active = |(held, count): &(Held, u32)| if *held == Held::Idle { 0 } else { *count };
    // Of equals the first, which is the newest.
    counts.reverse();
    counts.into_iter().max_by_key(active).map(|(held, _)| held)
}

#[cfg(test)]
mod tests {
    use base::Limit;

    use super::*;

    const NAGLE: Held = Held::Limit(Limit::Nagle);

    fn second(held: Held) -> Second {
        Second { held, rate_bps: 8 }
    }

    #[test]
    fn a_bar_ends_with_the_newest_seconds() {
        let mut history = History::default();
        for number in 100..110 {
            history.push(number, second(Held::Idle));
        }
        history.push(115, second(NAGLE));
        assert_eq!(history.held(115, 3), [None, Some(Held::Idle), Some(NAGLE)]);
        // What came after it was not seen.
        assert_eq!(history.held(125, 2), [Some(NAGLE), None]);
        assert_eq!(history.rates_bps(117, 4), [0, 8, 0, 0]);
    }

    #[test]
    fn what_was_done_counts_more_than_pauses() {
        let check = |seconds: &[Held], expected: Held| {
            let seconds = seconds.iter().map(|held| second(*held));
            assert_eq!(most_of(seconds), Some(expected));
        };
        check(&[Held::Idle, Held::Idle, NAGLE], NAGLE);
        check(&[Held::Idle], Held::Idle);
        check(&[Held::Unclear, NAGLE, NAGLE], NAGLE);
        check(&[NAGLE, Held::Unclear], NAGLE);
    }

    #[test]
    fn it_is_bounded_and_ends() {
        let mut history = History::default();
        for number in 0..10_000 {
            history.push(number, second(NAGLE));
        }
        history.push(1_000_000, second(NAGLE));
        assert_eq!(history.seconds.len(), SECONDS);
        assert!(!history.is_over(1_000_001));
        assert!(history.is_over(1_000_000 + SECONDS as u64));
    }
}
