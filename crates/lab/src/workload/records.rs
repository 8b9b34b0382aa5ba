//! The traffic of Microsoft KB 214397 (seed: Winsock): records one way, and stock quotes.

use core::time::Duration;

use base::{Bytes, Rng};
use serde::{Deserialize, Serialize};

use super::{Amount, Completion};
use crate::text::duration;

/// Sizes from one to another, both included; each as likely as any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeRange {
    /// The smallest.
    pub min: Bytes,
    /// The largest.
    pub max: Bytes,
}

impl SizeRange {
    /// Always the same size.
    #[must_use]
    pub const fn exactly(size: Bytes) -> Self {
        Self {
            min: size,
            max: size,
        }
    }
}

/// Records one way, without replies (case 1 of the seed).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Records {
    /// Bytes of a record.
    pub record: SizeRange,
    /// Seed of the sizes; the same seed gives the same sizes on every engine.
    #[serde(default)]
    pub seed: u64,
    /// Records that are handed over with one write.
    #[serde(default = "one")]
    pub joined: u32,
    /// Bytes in front of each write that are no record, such as the number of records that follow.
    #[serde(default)]
    pub header: Bytes,
    /// Writes per second; `None` for as fast as they complete.
    #[serde(default)]
    pub per_second: Option<u32>,
    /// Writes per second that replace `per_second`, each for its time, one after the other and
    /// repeated from the beginning: a load that comes in bursts, or drifts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rates: Vec<(Duration, u32)>,
    /// When a record is done.
    pub completion: Completion,
    /// The writer does not block: a write that finds the buffer full is tried again when there is
    /// room. With Winsock's rules that is another wait than that of a writer that blocks.
    #[serde(default)]
    pub non_blocking: bool,
    /// Writes that may be incomplete at once, where a write completes later than it is taken
    /// (Winsock): 1 blocks in each, more are overlapped I/O, whose writes are done when the one so
    /// many in front of them is complete.
    #[serde(default = "one")]
    pub outstanding: u32,
    /// Most bytes per read of the server; `None` for as many as there are.
    #[serde(default)]
    pub read_size: Option<Bytes>,
    /// How long the server sleeps before each read.
    #[serde(default, with = "duration")]
    pub read_pause: Duration,
    /// The end.
    pub amount: Amount,
}

impl Records {
    /// Records of one size, each written by itself and done when it is written.
    #[must_use]
    pub const fn new(record: Bytes, amount: Amount) -> Self {
        Self {
            record: SizeRange::exactly(record),
            seed: 0,
            joined: 1,
            header: Bytes(0),
            per_second: None,
            rates: Vec::new(),
            completion: Completion::Written,
            non_blocking: false,
            outstanding: 1,
            read_size: None,
            read_pause: Duration::ZERO,
            amount,
        }
    }

    /// The bytes of the writes, in their order.
    #[must_use]
    pub fn writes(&self) -> RecordWrites {
        RecordWrites {
            rng: Rng::new(self.seed, "records"),
            record: self.record,
            joined: self.joined.max(1),
            header: self.header.0,
        }
    }

    /// Most bytes of one write.
    #[must_use]
    pub const fn write_bytes_max(&self) -> u64 {
        self.header.0 + self.record.max.0 * self.joined as u64
    }

    /// When it writes.
    #[must_use]
    pub fn pace(&self) -> Pace {
        Pace {
            per_second: self.per_second,
            rates: self.rates.clone(),
            period: self.rates.iter().map(|(time, _)| *time).sum(),
        }
    }
}

/// How far apart the writes of [`Records`] are.
#[derive(Clone, Debug)]
pub struct Pace {
    per_second: Option<u32>,
    rates: Vec<(Duration, u32)>,
    period: Duration,
}

impl Pace {
    /// From one write to the next, this long after the first one; `None` where each follows as soon
    /// as the one before is done.
    #[must_use]
    pub fn gap(&self, elapsed: Duration) -> Option<Duration> {
        let gap = |rate: u32| Duration::from_secs(1) / rate.max(1);
        if self.period.is_zero() {
            return self.per_second.map(gap);
        }
        let period = self.period.as_nanos();
        let mut place = elapsed.as_nanos() % period;
        let mut rates = self.rates.iter();
        let now = rates.find(|(time, _)| {
            let is_now = place < time.as_nanos();
            place = place.saturating_sub(time.as_nanos());
            is_now
        });
        now.map(|(_, rate)| gap(*rate))
    }
}

const fn one() -> u32 {
    1
}

/// Draws the sizes of [`Records`].
#[derive(Clone, Debug)]
pub struct RecordWrites {
    rng: Rng,
    record: SizeRange,
    joined: u32,
    header: u64,
}

impl RecordWrites {
    /// Bytes of the next write.
    pub fn next_bytes(&mut self) -> u64 {
        let SizeRange { min, max } = self.record;
        let span = max.0.saturating_sub(min.0) + 1;
        let record = |rng: &mut Rng| match span {
            1 => min.0,
            span => min.0 + rng.below(span),
        };
        let records: u64 = (0..self.joined).map(|_| record(&mut self.rng)).sum();
        self.header + records
    }
}

/// Stock quotes (case 2 of the seed): requests on one connection, answers on another, or both on
/// one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quotes {
    /// Pieces per request, each a `write` of its own.
    pub writes: u32,
    /// Bytes of a piece.
    pub write_size: Bytes,
    /// Bytes of an answer, written with the same number of calls.
    pub reply: Bytes,
    /// Both readers switch quick ACKs off before each read, as stacks without them behave.
    #[serde(default)]
    pub delayed_acks: bool,
    /// Requests that are sent and answered at once, with one write each way.
    #[serde(default = "one")]
    pub joined: u32,
    /// Both directions on one connection.
    #[serde(default)]
    pub one_connection: bool,
    /// The end.
    pub amount: Amount,
}

impl Quotes {
    /// Requests of one piece, one at a time, over two connections.
    #[must_use]
    pub const fn new(write_size: Bytes, reply: Bytes, amount: Amount) -> Self {
        Self {
            writes: 1,
            write_size,
            reply,
            delayed_acks: false,
            joined: 1,
            one_connection: false,
            amount,
        }
    }

    /// Pieces that are written at once, and the bytes of each.
    #[must_use]
    pub const fn pieces(&self) -> (u32, u64) {
        (self.writes, self.write_size.0 * self.joined as u64)
    }

    /// Bytes of the answers to all requests that were written at once.
    #[must_use]
    pub const fn answer_bytes(&self) -> u64 {
        self.reply.0 * self.joined as u64
    }

    /// Connections between the two programs.
    #[must_use]
    pub const fn connections(&self) -> u32 {
        if self.one_connection { 1 } else { 2 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_drawn_from_the_whole_range_and_by_the_seed() {
        let mut records = Records {
            record: SizeRange {
                min: Bytes(20),
                max: Bytes(100),
            },
            ..Records::new(Bytes(1), Amount::Operations(1))
        };
        let draw = |records: &Records| -> Vec<u64> {
            let mut writes = records.writes();
            (0..10_000).map(|_| writes.next_bytes()).collect()
        };
        let one = draw(&records);
        assert_eq!(one, draw(&records));
        let bounds = (one.iter().min().copied(), one.iter().max().copied());
        assert_eq!(bounds, (Some(20), Some(100)));
        let mean = one.iter().sum::<u64>() as f64 / 1e4;
        assert!((58.0..62.0).contains(&mean), "{mean}");
        records.seed = 2;
        assert_ne!(one, draw(&records));
    }

    #[test]
    fn joined_records_are_one_write_with_a_header_ws22() {
        let records = Records {
            joined: 80,
            header: Bytes(4),
            ..Records::new(Bytes(100), Amount::Operations(1))
        };
        assert_eq!(records.writes().next_bytes(), 8004);
        assert_eq!(records.write_bytes_max(), 8004);
    }

    #[test]
    fn a_load_varies_over_time() {
        let second = Duration::from_secs(1);
        let pace = Records {
            per_second: Some(5),
            rates: vec![(second, 10), (second * 2, 100)],
            ..Records::new(Bytes(100), Amount::Time(second))
        }
        .pace();
        let millis = |elapsed: f64| {
            let gap = pace.gap(Duration::from_secs_f64(elapsed));
            gap.expect("it waits").as_millis()
        };
        let gaps = [0.0, 0.9, 1.0, 2.9, 3.1, 4.5].map(millis);
        assert_eq!(gaps, [100, 100, 10, 10, 100, 10]);
    }
}
