//! The scoreboard against a naive model that keeps every segment by itself.

use core::time::Duration;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::recovery::rate::RateSampler;

const SEGMENT: u32 = 100;

fn state() -> SentState {
    RateSampler::default().on_sent(Instant::ZERO, true)
}

fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

fn again(now: Instant, segment: u32) -> Retransmission {
    Retransmission {
        now,
        segment,
        timestamp: 0,
        state: state(),
        is_in_flight: true,
    }
}

impl Scoreboard {
    /// Everything that must hold whatever came.
    fn assert_sound(&self) {
        let none = Flight::default();
        let flight = self.flight.as_ref().unwrap_or(&none);
        let sum = |of: fn(&Record) -> bool| -> u32 {
            flight
                .outstanding
                .iter()
                .filter(|(_, r)| of(r))
                .map(|(_, r)| r.packets)
                .sum()
        };
        assert_eq!(self.lost, sum(|r| r.is_lost));
        assert!(self.retransmitted >= sum(|r| r.is_retransmitted));
        let in_runs: u32 = flight.runs.values().map(|run| run.packets).sum();
        if !flight.runs.is_empty() {
            assert_eq!(self.sacked, in_runs);
        }
        assert_eq!(self.packets_out, sum(|_| true) + in_runs);
        let waiting: Vec<u64> = flight
            .outstanding
            .iter()
            .filter(|(_, r)| r.waits())
            .map(|(s, _)| s)
            .collect();
        assert!(flight.to_retransmit.iter().copied().eq(waiting));
        // Records and runs together are exactly what is out.
        let mut pieces: Vec<(u64, u64)> = flight
            .outstanding
            .iter()
            .map(|(s, r)| (s, r.end))
            .chain(flight.runs.iter().map(|(&s, run)| (s, run.end)))
            .collect();
        pieces.sort_unstable();
        let mut reached = self.una();
        for (start, end) in pieces {
            assert_eq!(start, reached);
            assert!(end > start);
            reached = end;
        }
        assert_eq!(reached, self.next());
        let count = flight.outstanding.len() + flight.runs.len();
        assert!(count <= self.packets_out as usize, "{count} records");
        assert!(flight.by_time.iter().map(|r| (r.sent, r.start)).is_sorted());
        // RACK can find every record that is neither lost nor delivered, nor was found by it before
        // an undo.
        let is_sought = |record: &Record| !record.is_lost && !record.is_overdue;
        for (start, record) in flight.outstanding.iter().filter(|(_, r)| is_sought(r)) {
            assert!(
                flight
                    .by_time
                    .iter()
                    .any(|r| { r.sent == record.sent && r.start <= start && record.end <= r.end }),
                "{start} is forgotten"
            );
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    start: u64,
    end: u64,
    sent: Instant,
    is_sacked: bool,
    is_lost: bool,
    is_retransmitted: bool,
    /// Its time is not over yet since it left last.
    is_timed: bool,
}

impl Segment {
    fn waits(&self) -> bool {
        self.is_lost && !self.is_retransmitted && !self.is_sacked
    }
}

/// One segment after the other.
#[derive(Debug, Default)]
struct Model {
    segments: Vec<Segment>,
    /// Retransmissions of segments that were released to be retransmitted once more.
    counted_twice: u32,
    next: u64,
}

impl Model {
    fn transmit(&mut self, now: Instant, end: u64) {
        while self.next < end {
            let stop = (self.next + u64::from(SEGMENT)).min(end);
            self.segments.push(Segment {
                start: self.next,
                end: stop,
                sent: now,
                is_sacked: false,
                is_lost: false,
                is_retransmitted: false,
                is_timed: true,
            });
            self.next = stop;
        }
    }

    fn mark_lost(segment: &mut Segment) {
        segment.is_retransmitted &= !segment.is_lost;
        segment.is_lost = true;
    }

    fn count(&self, of: impl Fn(&Segment) -> bool) -> u32 {
        self.segments.iter().filter(|segment| of(segment)).count() as u32
    }
}

#[derive(Clone, Debug)]
enum Step {
    Transmit { segments: u64, rest: u64 },
    Ack { share: u64 },
    Sack { from: u64, length: u64 },
    ByCount { threshold: u32 },
    Expire { latest: u64, patience: u64 },
    Retransmit { packets: u32 },
    Timeout { spare_after: u64 },
    Undo,
    Head,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..8_u64, 1..=100_u64).prop_map(|(segments, rest)| Step::Transmit { segments, rest }),
        3 => (0..100_u64).prop_map(|share| Step::Ack { share }),
        6 => (0..3000_u64, 1..900_u64).prop_map(|(from, length)| Step::Sack { from, length }),
        2 => (1..5_u32).prop_map(|threshold| Step::ByCount { threshold }),
        3 => (0..200_u64, 0..40_u64)
            .prop_map(|(latest, patience)| Step::Expire { latest, patience }),
        5 => (1..6_u32).prop_map(|packets| Step::Retransmit { packets }),
        1 => (0..200_u64).prop_map(|spare_after| Step::Timeout { spare_after }),
        1 => Just(Step::Undo),
        1 => Just(Step::Head),
    ];
    prop::collection::vec(step, 1..80)
}

impl Model {
    /// One step of both.
    fn take(&mut self, board: &mut Scoreboard, now: Instant, step: &Step) {
        match *step {
            Step::Transmit { segments, rest } => self.transmit_both(board, now, segments, rest),
            Step::Ack { share } => self.ack(board, share),
            Step::Sack { from, length } => self.sack(board, from, length),
            Step::ByCount { threshold } => self.lose_by_count(board, threshold),
            Step::Expire { latest, patience } => self.expire(board, now, latest, patience),
            Step::Retransmit { packets } => self.retransmit(board, now, packets),
            Step::Timeout { spare_after } => self.time_out(board, spare_after),
            Step::Undo => self.undo(board),
            Step::Head => self.lose_head(board),
        }
    }

    fn transmit_both(&mut self, board: &mut Scoreboard, now: Instant, segments: u64, rest: u64) {
        let end = self.next + segments * u64::from(SEGMENT) + rest;
        board.transmit(now, end, SEGMENT, false, state());
        self.transmit(now, end);
    }

    fn ack(&mut self, board: &mut Scoreboard, share: u64) {
        let mut upto = self.segments.len() as u64 * share / 100;
        // A peer acknowledges all that it holds in a row.
        while self
            .segments
            .get(upto as usize)
            .is_some_and(|s| s.is_sacked)
        {
            upto += 1;
        }
        let Some(last) = self.segments[..upto as usize].last().copied() else {
            return;
        };
        let acked = board.acknowledge(last.end, |_| {}).packets;
        assert_eq!(u64::from(acked), upto);
        self.segments.drain(..upto as usize);
        if self.segments.is_empty() {
            self.counted_twice = 0;
        }
    }

    fn sack(&mut self, board: &mut Scoreboard, from: u64, length: u64) {
        let start = board.una() + from;
        let end = start + length;
        let mut seen = Vec::new();
        let packets = board.sack((start, end), |piece| seen.push((piece.start, piece.end)));
        assert!(seen.is_sorted());
        let mut newly = 0;
        for segment in &mut self.segments {
            if segment.start >= start && segment.end <= end && !segment.is_sacked {
                segment.is_sacked = true;
                newly += 1;
                assert!(
                    seen.iter()
                        .any(|s| s.0 <= segment.start && segment.end <= s.1)
                );
            }
        }
        assert_eq!(packets, newly);
    }

    fn lose_by_count(&mut self, board: &mut Scoreboard, threshold: u32) {
        board.mark_by_count(threshold);
        let mut above = 0;
        for segment in self.segments.iter_mut().rev() {
            above += u32::from(segment.is_sacked);
            if !segment.is_sacked && above >= threshold && !segment.is_lost {
                Model::mark_lost(segment);
            }
        }
    }

    fn expire(&mut self, board: &mut Scoreboard, now: Instant, latest: u64, patience: u64) {
        // What was delivered last ended where a segment ends.
        let ends = self.segments.iter().map(|s| s.end);
        let end = ends
            .filter(|&end| end >= self.next / 2)
            .min()
            .unwrap_or(self.next);
        board.cut(end);
        let rack = (at(latest).min(now), end);
        let patience = Duration::from_millis(patience);
        let found = board.expire(now, rack, patience);
        let mut waiting = false;
        for segment in self
            .segments
            .iter_mut()
            .filter(|s| !s.is_sacked && !s.waits() && s.is_timed)
        {
            if (segment.sent, segment.start) < rack {
                match segment.sent + patience <= now {
                    true => {
                        Model::mark_lost(segment);
                        segment.is_timed = false;
                    }
                    false => waiting = true,
                }
            }
        }
        assert_eq!(found.waiting.is_some(), waiting);
    }

    fn retransmit(&mut self, board: &mut Scoreboard, now: Instant, packets: u32) {
        let first = self.segments.iter().position(Segment::waits);
        let range = board.first_to_retransmit(packets, u32::MAX, SEGMENT);
        assert_eq!(range.is_some(), first.is_some());
        let (Some((start, end)), Some(first)) = (range, first) else {
            return;
        };
        assert_eq!(start, self.segments[first].start);
        let retransmitted = board.retransmit((start, end), &again(now, SEGMENT));
        assert!(retransmitted <= packets);
        let mut count = 0;
        for segment in self
            .segments
            .iter_mut()
            .filter(|s| start <= s.start && s.end <= end)
        {
            assert!(segment.waits());
            segment.is_retransmitted = true;
            segment.is_timed = true;
            segment.sent = now;
            count += 1;
        }
        assert_eq!(retransmitted, count);
    }

    fn time_out(&mut self, board: &mut Scoreboard, spare_after: u64) {
        // The first record is never spared, nor here what left together with it.
        let Some(head) = self.segments.iter().find(|s| !s.is_sacked) else {
            return;
        };
        let (head_start, head_sent) = (head.start, head.sent);
        let spare = |sent| sent > at(spare_after) && sent != head_sent;
        board.mark_all_lost(spare);
        for segment in self.segments.iter_mut().filter(|s| !s.is_sacked) {
            if !spare(segment.sent) {
                Model::mark_lost(segment);
            }
            if segment.start == head_start && segment.is_retransmitted {
                segment.is_retransmitted = false;
                self.counted_twice += 1;
            }
        }
    }

    fn undo(&mut self, board: &mut Scoreboard) {
        board.unmark_lost(true);
        for segment in &mut self.segments {
            segment.is_lost = false;
        }
    }

    fn lose_head(&mut self, board: &mut Scoreboard) {
        board.mark_head_lost();
        if let Some(segment) = self.segments.iter_mut().find(|s| !s.is_sacked)
            && !segment.is_lost
        {
            Model::mark_lost(segment);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_scoreboard_counts_as_the_naive_one(steps in steps()) {
        let mut board = Scoreboard::default();
                let mut model = Model { next: 1, ..Model::default() };
        for (time, step) in steps.iter().enumerate() {
            model.take(&mut board, at(2 * time as u64), step);
            board.assert_sound();
            prop_assert_eq!(board.packets_out(), model.segments.len() as u32);
            prop_assert_eq!(board.sacked(), model.count(|s| s.is_sacked));
            prop_assert_eq!(board.lost(), model.count(|s| s.is_lost && !s.is_sacked));
            let in_flight = model.count(|s| s.is_retransmitted && !s.is_sacked);
            prop_assert_eq!(board.retransmitted(), in_flight + model.counted_twice);
        }
    }

    #[test]
    fn nothing_that_a_peer_says_breaks_the_scoreboard(
        acks in prop::collection::vec((0..5000_u64, 0..5000_u64, 0..5000_u64, 1..4_u32), 1..60),
    ) {
        let mut board = Scoreboard::default();
                for (time, (ack, start, end, packets)) in acks.into_iter().enumerate() {
            let now = at(time as u64);
            if board.packets_out() < 60 {
                let fin = time % 7 == 6;
                let end = board.next() + 2 * u64::from(SEGMENT) + 33;
                board.transmit(now, end, SEGMENT, fin, state());
            }
            if ack > board.una() && ack <= board.next() {
                board.acknowledge(ack, |_| {});
            }
            board.sack((start, end), |_| {});
            board.mark_by_count(packets);
            if let Some(range) = board.first_to_retransmit(packets, u32::MAX, SEGMENT - 7) {
                board.retransmit(range, &again(now, SEGMENT - 7));
            }
            board.assert_sound();
            if time % 11 == 10 {
                if board.is_reneged() {
                    board.forget_sacks(now, SEGMENT, state());
                }
                board.mark_all_lost(|_| false);
                prop_assert_eq!(board.in_flight(), 0);
            }
            if time % 13 == 12 {
                board.mark_larger(SEGMENT - time as u32);
            }
            if !(time % 11 == 10 || time % 13 == 12) {
                board.assert_sound();
            }
        }
    }
}

/// A board with `segments` segments that left as one chain.
fn chain(segments: u64) -> Scoreboard {
    let mut board = Scoreboard::default();
    board.transmit(
        at(0),
        1 + segments * u64::from(SEGMENT),
        SEGMENT,
        false,
        state(),
    );
    board
}

#[test]
fn a_flight_that_ended_gives_its_memory_to_the_next_one() {
    let mut spare = SpareFlight::default();
    let mut one = chain(20);
    one.sack((201, 301), |_| {});
    one.give_memory(&mut spare);
    assert!(spare.0.as_ref().is_none(), "something is out");
    one.acknowledge(one.next(), |_| {});
    one.give_memory(&mut spare);
    assert!(one.flight.as_ref().is_none());
    let mut other = Scoreboard::default();
    other.take_memory(&mut spare);
    let flight = other.flight.as_ref().expect("memory that was given");
    assert_eq!((flight.highest_sack, flight.by_time.len()), (0, 0));
    assert!(flight.by_time.capacity() > 0);
    other.transmit(at(1), 101, SEGMENT, false, state());
    other.assert_sound();
    assert!(spare.0.as_ref().is_none());
}

#[test]
fn sack_takes_whole_segments_only() {
    let mut board = chain(10);
    assert_eq!(board.sack((150, 450), |_| {}), 2);
    assert_eq!(
        board.flight.make().runs.keys().copied().collect::<Vec<_>>(),
        [201]
    );
    assert_eq!(board.sack((401, 501), |_| {}), 1);
    assert_eq!(board.flight.make().runs.len(), 1, "neighbours are one run");
    assert_eq!(board.in_flight(), 7);
}

/// Without SACK no more duplicates count than packets are in flight beside the lost ones, also when
/// these are retransmitted in fewer, larger segments.
#[test]
fn duplicates_of_packets_that_grew_together_count_no_more() {
    let mut board = Scoreboard::default();
    board.transmit(at(0), 401, SEGMENT, false, state());
    board.set_duplicates(3);
    board.mark_head_lost();
    let how = Retransmission {
        now: at(1),
        segment: 2 * SEGMENT,
        timestamp: 0,
        state: state(),
        is_in_flight: true,
    };
    board.mark_all_in(101, 401);
    board.retransmit((101, 401), &how);
    assert_eq!((board.packets_out(), board.sacked()), (3, 2));
}

#[test]
fn a_fin_takes_no_packet_of_its_own() {
    let mut board = Scoreboard::default();
    board.transmit(at(0), 302, SEGMENT, true, state());
    assert_eq!(board.packets_out(), 3);
    assert_eq!(board.last_segment(SEGMENT), Some((201, 302)));
    board.mark_all_lost(|_| false);
    assert_eq!(
        board.first_to_retransmit(3, u32::MAX, SEGMENT),
        Some((1, 302))
    );
    assert_eq!(
        board.first_to_retransmit(2, u32::MAX, SEGMENT),
        Some((1, 201))
    );
    board.acknowledge(301, |_| {});
    assert_eq!(
        (board.packets_out(), board.last_segment(SEGMENT)),
        (1, Some((301, 302)))
    );
}

#[test]
fn larger_segments_are_lost_and_counted_anew_when_they_leave_again() {
    let mut board = chain(4);
    assert!(board.mark_larger(50));
    assert_eq!((board.packets_out(), board.lost()), (4, 4));
    assert_eq!(board.first_to_retransmit(1, u32::MAX, 50), Some((1, 51)));
    board.retransmit((1, 51), &again(Instant::from_nanos(2), 50));
    assert_eq!((board.packets_out(), board.lost()), (8, 8));
    assert!(!chain(1).mark_larger(100));
}

#[test]
fn a_long_history_of_retransmissions_is_forgotten() {
    let mut board = chain(1);
    for time in 1..10_000 {
        board.mark_all_lost(|_| false);
        let range = board.first_to_retransmit(1, u32::MAX, SEGMENT).unwrap();
        board.retransmit(range, &again(at(time), SEGMENT));
        assert!(
            board.flight.make().by_time.len() <= 70,
            "{}",
            board.flight.make().by_time.len()
        );
    }
}
