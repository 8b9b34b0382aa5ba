//! Duplicates that undo a reduction of the window, and what undoing changes in the scoreboard.

use alloc::collections::VecDeque;

use super::flight::SentRange;
use super::{Duplicate, Scoreboard};

impl Scoreboard {
    /// What is known of `start..end`, of which the peer reports a duplicate.
    pub(in crate::recovery) fn duplicate(&mut self, start: u64, end: u64) -> Duplicate {
        if end <= self.una() {
            return Duplicate::Forgotten;
        }
        let Some(flight) = self.flight.as_mut() else {
            return Duplicate::OfTheNetwork;
        };
        let mut at = start;
        while let Some((_, run)) = flight.runs.range(..=at).next_back()
            && at < run.end
        {
            if run.was_retransmitted {
                return Duplicate::Sacked;
            }
            at = run.end;
            if end <= at {
                return Duplicate::OfTheNetwork;
            }
        }
        let at = flight.record_start(start);
        match flight.first_in(at, end) {
            Some((_, record)) if record.was_retransmitted => Duplicate::Out,
            _ => Duplicate::OfTheNetwork,
        }
    }

    /// No loss after all: nothing counts as lost any more. In Linux what was retransmitted still
    /// counts as in flight twice, and RACK ignores what it found lost until that is retransmitted.
    pub(in crate::recovery) fn unmark_lost(&mut self, is_linux: bool) {
        self.lost = 0;
        if !is_linux {
            self.retransmitted = 0;
        }
        let una = self.una();
        let Some(flight) = self.flight.as_mut() else {
            return;
        };
        let mut ranges = VecDeque::new();
        for (&start, record) in flight.outstanding.all() {
            record.is_lost = false;
            record.is_retransmitted &= is_linux;
            if is_linux && record.is_overdue {
                continue;
            }
            ranges.push_back(SentRange {
                sent: record.sent,
                start,
                end: record.end,
            });
        }
        ranges
            .make_contiguous()
            .sort_unstable_by_key(|range| (range.sent, range.start));
        flight.by_time = ranges;
        flight.to_retransmit.clear();
        flight.counted_below = una;
    }
}
