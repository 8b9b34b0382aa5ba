//! A rate that changes with time, exactly: a packet that is on the wire while the rate changes
//! goes on at the new rate.

use core::time::Duration;

use base::{Instant, Rate};

/// One bit is this much work; a wire of rate r does r units of work per nanosecond.
const WORK_PER_BIT: u128 = 1_000_000_000;

/// Rates one after the other, repeated.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    /// End of each step in nanoseconds after the beginning of the period, and its rate.
    steps: Vec<(u64, Rate)>,
    /// Capacity of one period.
    period_work: u128,
    /// When the first period began: with the first packet.
    began: Option<Instant>,
}

impl Trace {
    /// `None` where there is no trace. The steps were checked to be neither empty nor too long.
    pub(crate) fn new(trace: &[(Duration, Rate)]) -> Option<Self> {
        let (mut end, mut period_work) = (0_u64, 0_u128);
        let mut steps = Vec::with_capacity(trace.len());
        for (time, rate) in trace {
            period_work += time.as_nanos() * u128::from(rate.bits_per_second());
            end = end.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
            steps.push((end, *rate));
        }
        (!steps.is_empty()).then_some(Self {
            steps,
            period_work,
            began: None,
        })
    }

    /// When a packet of `bytes` that starts at `start` has left the wire, and the work that
    /// remains below one nanosecond, to be passed as `carry` with the next packet.
    pub(crate) fn serialize(&mut self, start: Instant, bytes: u64, carry: u64) -> (Instant, u64) {
        let began = *self.began.get_or_insert(start);
        let mut work = u128::from(bytes) * 8 * WORK_PER_BIT + u128::from(carry);
        let mut at = start;
        // Whole periods at once, so that a slow trace of short steps costs no more than one round.
        let period = self.steps[self.steps.len() - 1].0;
        let periods = u64::try_from(work / self.period_work).unwrap_or(u64::MAX);
        work %= self.period_work;
        at += Duration::from_nanos(periods.saturating_mul(period));
        let mut place = start.since(began).as_nanos() as u64 % period;
        let mut step = self.steps.partition_point(|(end, _)| *end <= place);
        loop {
            let (end, rate) = self.steps[step];
            let rate = u128::from(rate.bits_per_second());
            let capacity = u128::from(end - place) * rate;
            if work < capacity {
                // Below the capacity of a step of at most an hour, so it fits 64 bits.
                at += Duration::from_nanos((work / rate) as u64);
                return (at, (work % rate) as u64);
            }
            work -= capacity;
            at += Duration::from_nanos(end - place);
            (step, place) = if end == period {
                (0, 0)
            } else {
                (step + 1, end)
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_goes_on_at_the_new_rate() {
        // 1 Mbit/s for 10 ms, then 10 Mbit/s for 5 ms: 10 kbit and 50 kbit per period.
        let ms = Duration::from_millis;
        let rate = |text: &str| text.parse::<Rate>().unwrap();
        let steps = [(ms(10), rate("1mbit")), (ms(5), rate("10mbit"))];
        let check = |start_ms: u64, bytes: u64, end_us: u64| {
            let mut trace = Trace::new(&steps).unwrap();
            trace.began = Some(Instant::ZERO);
            let (end, carry) = trace.serialize(Instant::ZERO + ms(start_ms), bytes, 0);
            assert_eq!(
                (end.as_nanos(), carry),
                (end_us * 1000, 0),
                "{bytes} B at {start_ms} ms"
            );
        };
        check(0, 1_000, 8_000); // 8 kbit within the slow step
        check(0, 1_250, 10_000); // exactly to its end
        check(0, 2_500, 11_000); // 10 kbit slow, 10 kbit fast
        check(12, 1_250, 13_000);
        check(14, 2_500, 25_000); // 10 kbit fast, 10 kbit in the next slow step
        check(0, 7_500_000, 15_000_000); // 1000 periods
        check(30, 1_250, 40_000); // the third period
    }

    #[test]
    fn no_trace_is_none() {
        assert!(Trace::new(&[]).is_none());
    }
}
