//! Records that are joined before they are sent: what is collected, when it is due, what is left of
//! it to write.
//!
//! A record of 100 bytes in a segment of its own carries 40 bytes of headers (66 and more on
//! Ethernet), costs two system calls and two packets' work, and where the sender waits for an ACK,
//! it waits once per record. Joined to blocks of a little less than 8 KiB the same records need a
//! segment per 1460 bytes, and only the last segment of a block can meet a delayed ACK (Microsoft
//! KB 214397; seed: Winsock, suggestion 1). The price is latency: a record waits until its block is
//! full, but never longer than [`BatchSpec::delay_max`].
//!
//! This is the part that knows neither sockets nor clocks: `linux::RecordWriter` and
//! `tcptailor_tokio::RecordWriter` write such blocks.

use alloc::vec::Vec;
use core::time::Duration;

use crate::Instant;

/// Bytes of records in a block: 80 records of 100 bytes, five and a half full segments of 1460, and
/// less than the 8 KiB of early Winsock send buffers (seed: Winsock, case 1).
pub const BATCH_BYTES: usize = 8000;
/// Bytes of the header of a block that has one.
pub const COUNT_HEADER_BYTES: usize = 4;

/// How records are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSpec {
    /// Most bytes of records in a block, the header not counted. A longer record is a block of its
    /// own.
    pub bytes_max: usize,
    /// Longest time that a record waits for others. Zero: it does not wait at all.
    pub delay_max: Duration,
    /// Each block begins with the number of its records, as four bytes, the most significant first:
    /// the reader then knows how many to expect (seed: Winsock, case 1).
    pub count_header: bool,
}

impl BatchSpec {
    /// Blocks of [`BATCH_BYTES`] without a header, in which no record waits longer than
    /// `delay_max`.
    #[must_use]
    pub const fn new(delay_max: Duration) -> Self {
        Self {
            bytes_max: BATCH_BYTES,
            delay_max,
            count_header: false,
        }
    }

    /// With the number of records in front of each block.
    #[must_use]
    pub const fn with_count_header(self) -> Self {
        Self {
            count_header: true,
            ..self
        }
    }

    /// With blocks of at most this many bytes of records.
    #[must_use]
    pub const fn with_bytes_max(self, bytes_max: usize) -> Self {
        Self { bytes_max, ..self }
    }
}

/// One block of records: first it is filled, then it is written, then it is empty again.
///
/// ```
/// use tcptailor_base::Instant;
/// use tcptailor_base::records::{Batch, BatchSpec};
/// use core::time::Duration;
///
/// let mut batch = Batch::new(BatchSpec::new(Duration::from_millis(5)).with_count_header());
/// assert!(batch.push(Instant::ZERO, b"one"));
/// assert!(batch.push(Instant::from_nanos(9), b"two"));
/// assert_eq!(batch.due(), Some(Instant::from_nanos(5_000_000)));
/// assert_eq!(batch.unwritten(), b"\0\0\0\x02onetwo");
/// batch.on_written(10); // all of it
/// assert_eq!(batch.due(), None);
/// ```
#[derive(Clone, Debug)]
pub struct Batch {
    spec: BatchSpec,
    /// With the header; empty where there is no record.
    block: Vec<u8>,
    records: u32,
    /// From the front of the block.
    written: usize,
    /// When the first record came.
    since: Instant,
}

impl Batch {
    /// An empty one.
    #[must_use]
    pub const fn new(spec: BatchSpec) -> Self {
        Self {
            spec,
            block: Vec::new(),
            records: 0,
            written: 0,
            since: Instant::ZERO,
        }
    }

    /// Adds a record; `false` where the block has no room for it or is being written: it is to be
    /// written first. An empty block takes a record of any length. A record of no bytes leaves no
    /// trace but in a header.
    pub fn push(&mut self, now: Instant, record: &[u8]) -> bool {
        if record.is_empty() && !self.spec.count_header {
            return true;
        }
        if self.records == 0 {
            self.since = now;
            if self.spec.count_header {
                self.block.extend([0; COUNT_HEADER_BYTES]);
            }
        } else if !self.has_room(record.len()) {
            return false;
        }
        self.block.extend_from_slice(record);
        self.records += 1;
        if self.spec.count_header {
            self.block[..COUNT_HEADER_BYTES].copy_from_slice(&self.records.to_be_bytes());
        }
        true
    }

    /// Whether [`Batch::push`] takes a record of this many bytes.
    #[must_use]
    pub fn has_room(&self, bytes: usize) -> bool {
        let all = self.record_bytes().saturating_add(bytes);
        let fits = || self.written == 0 && all <= self.spec.bytes_max;
        self.records == 0 || (!self.is_full() && fits())
    }

    /// When the block is to be written, full or not: at once where it is full. `None` where there
    /// is nothing to write.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        let wait = if self.is_full() || self.written > 0 {
            Duration::ZERO
        } else {
            self.spec.delay_max
        };
        (self.records > 0).then(|| self.since + wait)
    }

    /// Whether the block is to be written by `now`.
    #[must_use]
    pub fn is_due(&self, now: Instant) -> bool {
        self.due().is_some_and(|due| due <= now)
    }

    /// Records that wait.
    #[must_use]
    pub const fn records(&self) -> u32 {
        self.records
    }

    /// The part of the block that is not written yet. Once some of it was written, no record can be
    /// added.
    #[must_use]
    pub fn unwritten(&self) -> &[u8] {
        &self.block[self.written..]
    }

    /// The first `bytes` of [`Batch::unwritten`] were written.
    ///
    /// # Panics
    /// Where that is more than there was.
    pub fn on_written(&mut self, bytes: usize) {
        assert!(
            bytes <= self.unwritten().len(),
            "{bytes} bytes written of {}",
            self.unwritten().len()
        );
        self.written += bytes;
        if self.written == self.block.len() {
            self.block.clear();
            (self.records, self.written) = (0, 0);
            // A long record must not keep its memory for ever.
            let kept = self.spec.bytes_max.saturating_add(COUNT_HEADER_BYTES);
            self.block.shrink_to(kept);
        }
    }

    /// Whether the next record finds no room, however short it is.
    fn is_full(&self) -> bool {
        self.records == u32::MAX || self.record_bytes() >= self.spec.bytes_max
    }

    const fn record_bytes(&self) -> usize {
        let header = if self.spec.count_header {
            COUNT_HEADER_BYTES
        } else {
            0
        };
        self.block.len().saturating_sub(header)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DELAY: Duration = Duration::from_millis(5);

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    /// Takes the whole block.
    fn write(batch: &mut Batch) -> Vec<u8> {
        let block = batch.unwritten().to_vec();
        batch.on_written(block.len());
        block
    }

    #[test]
    fn eighty_records_of_a_hundred_bytes_are_a_block_ws22() {
        let mut batch = Batch::new(BatchSpec::new(DELAY).with_count_header());
        for _ in 0..79 {
            assert!(batch.push(at(1), &[7; 100]));
            assert_eq!(batch.due(), Some(at(6)), "it waits for more");
        }
        assert!(batch.push(at(1), &[7; 100]));
        assert_eq!(batch.due(), Some(at(1)), "full: it waits for nothing");
        assert!(!batch.push(at(1), b"x"));
        let block = write(&mut batch);
        assert_eq!(block.len(), 8004);
        assert_eq!(block[..5], [0, 0, 0, 80, 7]);
        assert_eq!((batch.records(), batch.due()), (0, None));
    }

    #[test]
    fn a_block_without_a_limit_is_one_that_never_fills() {
        let mut batch = Batch::new(BatchSpec::new(DELAY).with_bytes_max(usize::MAX));
        assert!(batch.push(at(1), b"a") && batch.push(at(2), b"b"));
        assert_eq!(write(&mut batch), b"ab");
        assert!(batch.push(at(3), b"c"));
    }

    #[test]
    fn a_record_waits_from_its_own_time_on() {
        let mut batch = Batch::new(BatchSpec::new(DELAY));
        assert!(!batch.is_due(at(1000)), "nothing to write");
        assert!(batch.push(at(10), b"a"));
        assert!(batch.push(at(14), b"b"));
        assert!(!batch.is_due(at(14)));
        assert!(batch.is_due(at(15)), "the oldest one counts");
        assert_eq!(write(&mut batch), b"ab");
        assert!(batch.push(at(20), b"c"));
        assert_eq!(batch.due(), Some(at(25)));
        let mut batch = Batch::new(BatchSpec::new(Duration::ZERO));
        assert!(batch.push(at(3), b"d"));
        assert!(batch.is_due(at(3)), "nothing waits");
    }

    #[test]
    fn a_record_beyond_the_block_is_one_of_its_own() {
        let mut batch = Batch::new(BatchSpec::new(DELAY).with_bytes_max(10));
        assert!(batch.push(at(0), &[1; 4]));
        assert!(!batch.push(at(0), &[2; 7]), "it does not fit any more");
        assert_eq!(write(&mut batch), [1; 4]);
        assert!(batch.push(at(0), &[3; 100_000]));
        assert!(batch.is_due(at(0)));
        assert_eq!(write(&mut batch), [3; 100_000]);
        assert!(batch.block.capacity() <= 10 + COUNT_HEADER_BYTES);
    }

    #[test]
    fn nothing_joins_a_block_that_is_being_written() {
        let mut batch = Batch::new(BatchSpec::new(DELAY));
        assert!(batch.push(at(0), b"abc"));
        batch.on_written(1);
        assert!(!batch.push(at(0), b"d"));
        assert!(batch.is_due(at(0)), "the rest waits for nothing");
        assert_eq!(write(&mut batch), b"bc");
        assert!(batch.push(at(0), b"d"));
        assert!(batch.push(at(0), b""));
        assert_eq!(batch.records(), 1, "nobody could tell it from none");
    }

    proptest! {
        /// Whatever comes, in whatever parts it leaves: the blocks hold all records in order, each
        /// at most as long as it may be, and the headers count them.
        #[test]
        fn blocks_are_the_records(
            records in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..60),
            part in 1_usize..50,
            bytes_max in 1_usize..100,
            count_header: bool,
        ) {
            let spec = BatchSpec { bytes_max, delay_max: DELAY, count_header };
            let mut batch = Batch::new(spec);
            let mut blocks = Vec::new();
            let mut flush = |batch: &mut Batch| {
                let mut block = Vec::new();
                let records = batch.records();
                while !batch.unwritten().is_empty() {
                    let bytes = batch.unwritten().len().min(part);
                    block.extend_from_slice(&batch.unwritten()[..bytes]);
                    batch.on_written(bytes);
                }
                blocks.push((records, block));
            };
            for record in &records {
                if !batch.push(at(0), record) {
                    flush(&mut batch);
                    prop_assert!(batch.push(at(0), record));
                }
            }
            flush(&mut batch);
            let header = if count_header { COUNT_HEADER_BYTES } else { 0 };
            let mut all = Vec::new();
            for (count, block) in blocks {
                let body = block.get(header..).unwrap_or_default();
                prop_assert!(body.len() <= bytes_max || count == 1);
                if count_header && count > 0 {
                    prop_assert_eq!(&block[..header], &count.to_be_bytes()[..]);
                }
                all.extend_from_slice(body);
            }
            prop_assert_eq!(all, records.concat());
        }
    }
}
