//! Lateness of events: a histogram of fixed size, cheap enough for every packet.

use core::time::Duration;

use lab::LatenessMicros;

/// Buckets per factor of two: a value is known to within an eighth.
const PER_OCTAVE: usize = 8;
/// Octaves of nanoseconds, up to 2^40 ns = 18 minutes.
const OCTAVES: usize = 40;

/// Counts of lateness in buckets of rising width.
#[derive(Clone, Debug)]
pub(crate) struct Lateness {
    buckets: Box<[u64; PER_OCTAVE * OCTAVES]>,
    total: u64,
    max_nanos: u64,
}

impl Lateness {
    pub(crate) fn new() -> Self {
        Self {
            buckets: Box::new([0; PER_OCTAVE * OCTAVES]),
            total: 0,
            max_nanos: 0,
        }
    }

    /// Counts one delivery that was this late.
    pub(crate) fn record(&mut self, late: Duration) {
        let nanos = u64::try_from(late.as_nanos()).unwrap_or(u64::MAX);
        self.buckets[bucket(nanos)] += 1;
        self.total += 1;
        self.max_nanos = self.max_nanos.max(nanos);
    }

    /// Percentiles, rounded up to the end of their bucket; `None` where nothing was counted.
    pub(crate) fn micros(&self) -> Option<LatenessMicros> {
        (self.total > 0).then(|| LatenessMicros {
            p50: self.percentile_nanos(50) / 1000,
            p99: self.percentile_nanos(99) / 1000,
            max: self.max_nanos / 1000,
        })
    }

    fn percentile_nanos(&self, percent: u64) -> u64 {
        let rank = (self.total * percent).div_ceil(100);
        let mut seen = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return upper_end(index).min(self.max_nanos);
            }
        }
        self.max_nanos
    }
}

/// The octave is the position of the highest bit, the place in it the three bits below.
fn bucket(nanos: u64) -> usize {
    let nanos = nanos.max(PER_OCTAVE as u64);
    let octave = nanos.ilog2() as usize;
    let place = (nanos >> (octave - 3)) as usize % PER_OCTAVE;
    ((octave - 3) * PER_OCTAVE + place).min(PER_OCTAVE * OCTAVES - 1)
}

fn upper_end(bucket: usize) -> u64 {
    let (octave, place) = (bucket / PER_OCTAVE + 3, bucket % PER_OCTAVE);
    ((PER_OCTAVE + place + 1) as u64) << (octave - 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_below_the_end_of_its_bucket_and_within_an_eighth() {
        let mut nanos = 8_u64;
        while nanos < 1 << 41 {
            for value in [nanos, nanos + 1, nanos + nanos / 3] {
                let end = upper_end(bucket(value));
                assert!(
                    value < end && end <= value + value / 8 + 8,
                    "{value}: {end}"
                );
            }
            nanos = nanos * 5 / 4;
        }
    }

    #[test]
    fn percentiles_are_those_of_the_values() {
        let mut lateness = Lateness::new();
        assert_eq!(lateness.micros(), None);
        for micros in 1..=1000 {
            lateness.record(Duration::from_micros(micros));
        }
        lateness.record(Duration::MAX);
        let found = lateness.micros().expect("counted");
        assert!((500..=563).contains(&found.p50), "{found:?}");
        assert!((990..=1115).contains(&found.p99), "{found:?}");
        assert_eq!(found.max, u64::MAX / 1000);
    }
}
