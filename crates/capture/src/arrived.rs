//! Data that has arrived behind a gap, by the SACK blocks of all ACKs: one ACK names three or four
//! ranges (RFC 2018 section 3), however many there are.

/// Above this many ranges, those with the smallest gap between them count as one.
const RANGES_MAX: usize = 64;

/// Ranges of offsets, none of which touches another, in their order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arrived {
    ranges: Vec<(u64, u64)>,
    bytes: u64,
}

impl Arrived {
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Behind the last of it; 0 where there is none.
    pub(crate) fn end(&self) -> u64 {
        self.ranges.last().map_or(0, |range| range.1)
    }

    pub(crate) fn clear(&mut self) {
        self.ranges.clear();
        self.bytes = 0;
    }

    pub(crate) fn insert(&mut self, (from, to): (u64, u64)) {
        if from >= to {
            return;
        }
        let first = self.ranges.partition_point(|range| range.1 < from);
        let behind = self.ranges.partition_point(|range| range.0 <= to);
        let touched = &self.ranges[first..behind];
        let whole = match (touched.first(), touched.last()) {
            (Some(first), Some(last)) => (from.min(first.0), to.max(last.1)),
            _ => (from, to),
        };
        self.bytes -= touched.iter().map(|range| range.1 - range.0).sum::<u64>();
        self.bytes += whole.1 - whole.0;
        self.ranges.splice(first..behind, [whole]);
        if self.ranges.len() > RANGES_MAX {
            self.close_smallest_gap();
        }
    }

    fn close_smallest_gap(&mut self) {
        let gaps = self.ranges.windows(2).map(|pair| pair[1].0 - pair[0].1);
        if let Some((index, gap)) = gaps.enumerate().min_by_key(|(_, gap)| *gap) {
            let (_, end) = self.ranges.remove(index + 1);
            self.ranges[index].1 = end;
            self.bytes += gap;
        }
    }

    /// Everything up to `una` has arrived in order.
    pub(crate) fn pass(&mut self, una: u64) {
        if self.ranges.is_empty() {
            return;
        }
        let whole = self.ranges.partition_point(|range| range.1 <= una);
        for (from, to) in self.ranges.drain(..whole) {
            self.bytes -= to - from;
        }
        if let Some(range) = self.ranges.first_mut().filter(|range| range.0 < una) {
            self.bytes -= una - range.0;
            range.0 = una;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ranges_join_where_they_touch_and_leave_with_what_is_acknowledged() {
        let mut arrived = Arrived::default();
        for range in [(10, 20), (30, 40), (50, 60), (20, 25), (26, 55), (70, 70)] {
            arrived.insert(range);
        }
        assert_eq!((arrived.bytes(), arrived.end()), (15 + 34, 60));
        arrived.pass(15);
        assert_eq!((arrived.bytes(), arrived.end()), (10 + 34, 60));
        arrived.pass(25);
        assert_eq!((arrived.bytes(), arrived.end()), (34, 60));
        arrived.pass(100);
        assert_eq!((arrived.bytes(), arrived.end()), (0, 0));
    }

    #[test]
    fn counts_are_those_of_a_set_of_bytes() {
        let (mut arrived, mut set) = (Arrived::default(), BTreeSet::new());
        let mut drawn = 1_u64;
        for step in 0..2000 {
            drawn = drawn
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let (from, length) = (step + (drawn >> 33) % 100, (drawn >> 50) % 12);
            arrived.insert((from, from + length));
            set.extend(from..from + length);
            arrived.pass(step);
            set.retain(|byte| *byte >= step);
            assert_eq!(arrived.bytes(), set.len() as u64, "step {step}");
            assert_eq!(arrived.end(), set.last().map_or(0, |last| last + 1));
        }
    }

    #[test]
    fn of_many_ranges_the_nearest_count_as_one() {
        let mut arrived = Arrived::default();
        for number in 0..1000_u64 {
            arrived.insert((number * 100, number * 100 + 10 + number % 50));
            assert!(arrived.ranges.len() <= RANGES_MAX);
        }
        let inside = arrived.ranges.iter().map(|range| range.1 - range.0);
        assert_eq!(arrived.bytes(), inside.sum::<u64>());
        assert_eq!(arrived.end(), 99_900 + 10 + 49);
    }
}
