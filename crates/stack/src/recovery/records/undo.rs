//! Duplicates that undo a reduction of the window, and what undoing changes in the scoreboard.

use alloc::collections::VecDeque;

use super::flight::{Run, SentRange};
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

    /// A report of the duplicate `start..end` cuts what was SACKed at the segments that it lies in
    /// (Linux `tcp_match_skb_to_sack`).
    #[cold]
    pub(in crate::recovery) fn cut_runs(&mut self, start: u64, end: u64) {
        let Some(flight) = self.flight.as_mut() else {
            return;
        };
        let inside = flight.runs.range(..end).next_back();
        let Some((&first, run)) = inside.filter(|(_, run)| run.end > start) else {
            return;
        };
        let (run, segment) = (*run, u64::from(run.segment.max(1)));
        let is_whole = start <= first && end >= run.end;
        let upper = first < start;
        let bytes = match upper {
            true => (start - first).max(segment).div_ceil(segment) * segment,
            // It ends inside: whole segments are cut off at the front.
            false => (end.min(run.end) - first).div_ceil(segment) * segment,
        };
        let is_long = upper || end.min(run.end) - first >= segment;
        let at = first + bytes;
        if is_whole || !is_long || run.packets < 2 || at >= run.end {
            return;
        }
        let packets = u32::try_from(bytes / segment).unwrap_or(u32::MAX);
        let packets = packets.min(run.packets - 1);
        let rest = Run {
            packets: run.packets - packets,
            ..run
        };
        let front = Run {
            end: at,
            packets,
            ..run
        };
        flight.runs.insert(first, front);
        flight.runs.insert(at, rest);
        self.count_records();
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
