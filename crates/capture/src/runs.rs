//! Segments in flight: sent and not yet acknowledged, in bounded memory.

use std::collections::VecDeque;

use base::Instant;

/// Above this many, neighbours become one ...
const RUNS_MAX: usize = 64;
/// ... and none of many is more than about this part of what is in flight.
const PARTS: u64 = 32;

/// Segments that were sent one after the other.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// Offset behind the last byte.
    end: u64,
    /// When the first was sent.
    at: Instant,
    pkts: u32,
    /// Some of it was retransmitted.
    again: bool,
}

/// Data removed by an ACK.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Acked {
    pub(crate) pkts: u32,
    /// When the oldest of it was sent, where none of that was retransmitted.
    pub(crate) sent_at: Option<Instant>,
    /// When the newest of it was sent, unless that was retransmitted.
    pub(crate) newest_at: Option<Instant>,
}

/// All of them, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs {
    runs: VecDeque<Run>,
    pkts: u32,
}

impl Runs {
    /// Segments in flight.
    pub(crate) const fn pkts(&self) -> u32 {
        self.pkts
    }

    /// This many new segments up to the offset `end`.
    pub(crate) fn push(&mut self, at: Instant, end: u64, pkts: u32) {
        self.pkts = self.pkts.saturating_add(pkts);
        let whole = self.pkts;
        let is_many = self.runs.len() >= RUNS_MAX / 2;
        if let Some(last) = self.runs.back_mut()
            && is_many
            && !last.again
            && u64::from(last.pkts) * PARTS < u64::from(whole)
        {
            last.end = end;
            last.pkts = last.pkts.saturating_add(pkts);
            return;
        }
        if self.runs.len() == RUNS_MAX {
            self.join_neighbours();
        }
        self.runs.push_back(Run {
            end,
            at,
            pkts,
            again: false,
        });
    }

    fn join_neighbours(&mut self) {
        for index in 0..RUNS_MAX / 2 {
            let (first, second) = (self.runs[2 * index], self.runs[2 * index + 1]);
            self.runs[index] = Run {
                end: second.end,
                at: first.at,
                pkts: first.pkts.saturating_add(second.pkts),
                again: first.again || second.again,
            };
        }
        self.runs.truncate(RUNS_MAX / 2);
    }

    /// Marks data that ends behind `from` and begins before `to` as retransmitted.
    pub(crate) fn repeat(&mut self, from: u64, to: u64) {
        let mut begin = 0;
        for run in &mut self.runs {
            run.again |= run.end > from && begin < to;
            begin = run.end;
            if begin >= to {
                return;
            }
        }
    }

    /// Everything up to `una` has arrived; what is in flight then begins there, at `begin` before.
    pub(crate) fn acknowledge(&mut self, mut begin: u64, una: u64) -> Acked {
        let mut acked = Acked::default();
        while let Some(run) = self.runs.front_mut() {
            if una <= begin {
                break;
            }
            if acked.pkts == 0 && !run.again {
                acked.sent_at = Some(run.at);
            }
            acked.newest_at = (!run.again).then_some(run.at);
            let all = run.end.saturating_sub(begin).max(1);
            if run.end <= una {
                acked.pkts = acked.pkts.saturating_add(run.pkts);
                begin = run.end;
                self.runs.pop_front();
                continue;
            }
            // At least one is left of a run that is acknowledged in part.
            let part = u64::from(run.pkts).saturating_mul(una - begin) / all;
            let part = (part as u32).min(run.pkts.saturating_sub(1));
            run.pkts -= part;
            acked.pkts = acked.pkts.saturating_add(part);
            break;
        }
        self.pkts = self.pkts.saturating_sub(acked.pkts);
        acked
    }

    /// When what ends at this offset was sent, unless it was retransmitted.
    pub(crate) fn sent_at(&self, end: u64) -> Option<Instant> {
        let run = self.runs.iter().find(|run| run.end >= end)?;
        (!run.again).then_some(run.at)
    }

    /// Nothing is in flight any more.
    pub(crate) fn clear(&mut self) {
        self.runs.clear();
        self.pkts = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn acknowledgements_take_whole_and_parts_of_runs() {
        let mut runs = Runs::default();
        runs.push(at(1), 100, 1);
        runs.push(at(2), 4100, 4);
        assert_eq!(runs.pkts(), 5);
        let acked = runs.acknowledge(0, 1100);
        assert_eq!((acked.pkts, acked.sent_at), (2, Some(at(1))));
        runs.repeat(1100, 2100);
        let acked = runs.acknowledge(1100, 4100);
        assert_eq!((acked.pkts, acked.sent_at), (3, None), "retransmitted");
        assert_eq!(runs.pkts(), 0);
    }

    #[test]
    fn memory_is_bounded_and_counts_stay_right() {
        let mut runs = Runs::default();
        for number in 1..=100_000_u64 {
            runs.push(at(number), number * 10, 1);
            assert!(runs.runs.len() <= RUNS_MAX);
        }
        assert_eq!(runs.pkts(), 100_000);
        let acked = runs.acknowledge(0, 500_000);
        assert!(acked.pkts.abs_diff(50_000) < 2, "{acked:?}");
        let rest = runs.acknowledge(500_000, 1_000_000);
        assert_eq!((rest.pkts, runs.pkts()), (100_000 - acked.pkts, 0));
    }
}
