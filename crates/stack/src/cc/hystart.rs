//! The end of slow start before any loss.
//!
//! Two detectors, from the arrival times of ACKs and from round-trip times: the one of Linux
//! (`hystart_update`), which ends slow start at once, and HyStart++ (RFC 9406), which first slows
//! down, and resumes if the delay was accidental. Which one, and whether any, is a setting.

use alloc::boxed::Box;

use base::Instant;
use base::settings::HyStart;

use super::{AckSample, SSTHRESH_INFINITE, Window};

/// Below this window slow start is never left (Linux `hystart_low_window`).
const LOW_WINDOW: u32 = 16;
/// Samples of a round before its least delay counts (RFC 9406 `N_RTT_SAMPLE`).
const SAMPLES: u32 = 8;
/// Bounds of the delay above the least one that counts as a queue, in microseconds.
const DELAY_US_MIN: u64 = 4_000;
const DELAY_US_MAX: u64 = 16_000;
/// ACKs closer together than this belong to one train (Linux `hystart_ack_delta_us`).
const TRAIN_GAP_US: u64 = 2_000;
/// Most that the bursts of a sender add to the length of a train.
const BURST_US_MAX: u64 = 1_000;
/// Growth in conservative slow start (RFC 9406 `CSS_GROWTH_DIVISOR`).
const CSS_DIVISOR: u32 = 4;
/// Rounds of conservative slow start (RFC 9406 `CSS_ROUNDS`).
const CSS_ROUNDS: u32 = 5;
/// Most packets that one ACK of an unpaced flow counts for (RFC 9406 `L`).
const CREDIT_MAX: u32 = 8;

/// The detector in use.
#[derive(Clone, Debug)]
pub(super) enum Detector {
    Off,
    Classic(Classic),
    /// In a box: it has a round more to remember than Linux.
    PlusPlus(Box<PlusPlus>),
}

impl Detector {
    pub(super) fn new(kind: HyStart) -> Self {
        match kind {
            HyStart::Off => Self::Off,
            HyStart::Classic => Self::Classic(Classic {
                round: None,
                found: false,
            }),
            HyStart::PlusPlus => Self::PlusPlus(Box::new(PlusPlus {
                round: None,
                last_delay_min: None,
                css: None,
            })),
        }
    }

    pub(super) const fn kind(&self) -> HyStart {
        match self {
            Self::Off => HyStart::Off,
            Self::Classic(_) => HyStart::Classic,
            Self::PlusPlus(_) => HyStart::PlusPlus,
        }
    }

    /// An ACK in slow start gave the round-trip time `delay`; the least of all is `delay_min`; both
    /// in microseconds. Sets the threshold where slow start is to end.
    pub(super) fn on_delay(
        &mut self,
        window: &mut Window,
        ack: &AckSample,
        delay: u64,
        delay_min: u64,
    ) {
        let is_over = match self {
            Self::Off => false,
            Self::Classic(classic) => classic.on_delay(window.cwnd, ack, delay, delay_min),
            Self::PlusPlus(plus_plus) => {
                // Only before the first reduction (RFC 9406 section 4.2).
                window.ssthresh == SSTHRESH_INFINITE && plus_plus.on_delay(ack, delay)
            }
        };
        if is_over {
            window.ssthresh = window.cwnd;
        }
    }

    /// Packets by which the window may grow in slow start where `acked` were acknowledged.
    pub(super) fn slow_start_credit(&mut self, acked: u32, is_paced: bool) -> u32 {
        match self {
            Self::Off | Self::Classic(_) => acked,
            Self::PlusPlus(plus_plus) => plus_plus.credit(acked, is_paced),
        }
    }
}

/// One window's worth of data, from its first transmission on.
#[derive(Clone, Debug)]
struct Round {
    start: Instant,
    last_ack: Instant,
    /// End of the round: the data sent when it began.
    end: u64,
    delay_min: u64,
    samples: u32,
}

impl Round {
    const fn new(ack: &AckSample) -> Self {
        Self {
            start: ack.now,
            last_ack: ack.now,
            end: ack.next,
            delay_min: u64::MAX,
            samples: 0,
        }
    }
}

/// ACK train and delay, as Linux has them.
#[derive(Clone, Debug)]
pub(super) struct Classic {
    round: Option<Round>,
    /// Slow start was left once; only a timeout makes it look again.
    found: bool,
}

impl Classic {
    /// Whether slow start is to end.
    fn on_delay(&mut self, cwnd: u32, ack: &AckSample, delay: u64, delay_min: u64) -> bool {
        if self.found {
            return false;
        }
        if self.round.as_ref().is_some_and(|round| ack.una > round.end) {
            self.round = None;
        }
        // Rounds are counted from the first ACK on, so that each begins with a flight: one that
        // began in the middle of a flight would mistake the flight's own queue for delay.
        let round = self.round.get_or_insert_with(|| Round::new(ack));
        if cwnd < LOW_WINDOW {
            return false;
        }
        if ack.now.since(round.last_ack).as_micros() <= u128::from(TRAIN_GAP_US) {
            round.last_ack = ack.now;
            let length = ack.now.since(round.start).as_micros();
            self.found = length > u128::from(train_threshold(ack, delay_min));
        }
        round.delay_min = round.delay_min.min(delay);
        if round.samples < SAMPLES {
            round.samples += 1;
        } else if round.delay_min > delay_min + delay_margin(delay_min) {
            self.found = true;
        }
        self.found
    }
}

/// How long an ACK train may be, in microseconds: as long as the path, or half of that where
/// packets leave in bursts, because the ACKs of a full path are spread over the other half too.
fn train_threshold(ack: &AckSample, delay_min: u64) -> u64 {
    let bytes_per_second = ack.pacing_rate.bits_per_second() / 8;
    let bursts = (u64::from(ack.gso_max) * 4 * 1_000_000)
        .checked_div(bytes_per_second)
        .map_or(0, |time| time.min(BURST_US_MAX));
    let threshold = delay_min + bursts;
    if ack.is_paced {
        threshold
    } else {
        threshold / 2
    }
}

/// How much the delay of a round may exceed `delay_min`, in microseconds.
fn delay_margin(delay_min: u64) -> u64 {
    (delay_min / 8).clamp(DELAY_US_MIN, DELAY_US_MAX)
}

/// RFC 9406: the delay of a round against the round before.
#[derive(Clone, Debug)]
pub(super) struct PlusPlus {
    round: Option<Round>,
    /// Least delay of the round before; `None`: it had no sample.
    last_delay_min: Option<u64>,
    css: Option<ConservativeSlowStart>,
}

/// Slow start with a quarter of the growth, while it is not sure whether there is a queue.
#[derive(Clone, Debug)]
struct ConservativeSlowStart {
    /// The delay that started it; below it there was no queue.
    baseline: u64,
    /// Rounds that began in it, the one in which it began included.
    rounds: u32,
    /// Packets acknowledged towards the next one of the window.
    credit: u32,
}

impl PlusPlus {
    /// Whether slow start is to end.
    fn on_delay(&mut self, ack: &AckSample, delay: u64) -> bool {
        if self
            .round
            .as_ref()
            .is_some_and(|round| ack.una >= round.end)
        {
            let ended = self.round.take().map(|round| round.delay_min);
            self.last_delay_min = ended.filter(|&delay| delay != u64::MAX);
            if let Some(css) = &mut self.css {
                if css.rounds >= CSS_ROUNDS {
                    self.css = None;
                    return true;
                }
                css.rounds += 1;
            }
        }
        let round = self.round.get_or_insert_with(|| Round::new(ack));
        round.delay_min = round.delay_min.min(delay);
        round.samples += 1;
        if round.samples < SAMPLES {
            return false;
        }
        match (&self.css, self.last_delay_min) {
            (Some(css), _) if round.delay_min < css.baseline => self.css = None,
            (None, Some(last)) if round.delay_min >= last + delay_margin(last) => {
                self.css = Some(ConservativeSlowStart {
                    baseline: round.delay_min,
                    rounds: 1,
                    credit: 0,
                });
            }
            _ => {}
        }
        false
    }

    fn credit(&mut self, acked: u32, is_paced: bool) -> u32 {
        let acked = if is_paced {
            acked
        } else {
            acked.min(CREDIT_MAX)
        };
        let Some(css) = &mut self.css else {
            return acked;
        };
        css.credit += acked;
        let growth = css.credit / CSS_DIVISOR;
        css.credit %= CSS_DIVISOR;
        growth
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ack, limited};
    use super::*;
    use base::Rate;
    use core::time::Duration;

    #[test]
    fn c5_c6_train_threshold() {
        let mut sample = ack(1);
        sample.gso_max = 65_536;
        sample.pacing_rate = Rate::from_bytes_per_second(2_500_000_000);
        sample.is_paced = false;
        assert_eq!(train_threshold(&sample, 1580), 842);
        sample.is_paced = true;
        assert_eq!(train_threshold(&sample, 1580), 1684);
        sample.pacing_rate = Rate::from_bytes_per_second(1_000);
        assert_eq!(train_threshold(&sample, 1580), 2580);
        sample.pacing_rate = Rate::default();
        assert_eq!(train_threshold(&sample, 1580), 1580);
    }

    #[test]
    fn c7_delay_threshold() {
        for (delay_min, expected) in [(1_580, 5_580), (40_000, 45_000), (200_000, 216_000)] {
            assert_eq!(delay_min + delay_margin(delay_min), expected);
        }
    }

    /// Feeds one round of `count` ACKs, `gap` apart, with the delay `delay`, all in microseconds.
    /// Returns whether slow start was left.
    fn round(detector: &mut Detector, window: &mut Window, base: u64, case: [u64; 3]) -> bool {
        let [count, gap, delay] = case;
        for index in 0..count {
            let mut sample = ack(1);
            sample.now = Instant::from_nanos((base + index * gap) * 1_000);
            sample.una = base + index + 1;
            sample.next = base + 1_000_000;
            sample.rtt = Some(Duration::from_micros(delay));
            detector.on_delay(window, &sample, delay, 40_000);
        }
        window.ssthresh != SSTHRESH_INFINITE
    }

    #[test]
    fn classic_leaves_by_train_or_by_delay() {
        // Window, ACKs of the round, their distance and delay; least delay 40 ms, unpaced,
        // bursts of 1 ms: a train may have 20.5 ms.
        let check = |cwnd: u32, case: [u64; 3], expected: bool| {
            let mut window = limited(cwnd, SSTHRESH_INFINITE);
            let mut detector = Detector::new(HyStart::Classic);
            let left = round(&mut detector, &mut window, 1_000_000, case);
            assert_eq!(left, expected, "{cwnd} {case:?}");
            if left {
                assert_eq!(window.ssthresh, cwnd);
            }
        };
        check(100, [12, 2_000, 40_000], true);
        check(100, [11, 2_000, 40_000], false);
        check(15, [12, 2_000, 40_000], false);
        check(100, [30, 2_001, 45_000], false);
        check(100, [8, 3_000, 45_001], false);
        check(100, [9, 3_000, 45_001], true);
    }

    #[test]
    fn rounds_begin_with_flights_in_low_windows_too() {
        let mut detector = Detector::new(HyStart::Classic);
        let mut window = limited(10, SSTHRESH_INFINITE);
        // Flights of 10, 20 and 40, each of whose packets queue up behind each other; each ACK lets
        // two packets go.
        for (first, last) in [(1, 10), (11, 30), (31, 70)] {
            for una in first..=last {
                let delay = 40_000 + 500 * (una - first);
                let mut sample = ack(1);
                sample.now = Instant::from_nanos(una * 3_000_000);
                (sample.una, sample.next) = (una, 10 + 2 * (una - 1));
                detector.on_delay(&mut window, &sample, delay, 40_000);
                window.cwnd += 1;
            }
        }
        let never = SSTHRESH_INFINITE;
        assert_eq!(window.ssthresh, never, "the first packets met no queue");
    }

    #[test]
    fn classic_finds_once() {
        let mut window = limited(100, SSTHRESH_INFINITE);
        let mut detector = Detector::new(HyStart::Classic);
        assert!(round(
            &mut detector,
            &mut window,
            1_000_000,
            [20, 3_000, 50_000]
        ));
        window.ssthresh = SSTHRESH_INFINITE;
        assert!(!round(
            &mut detector,
            &mut window,
            9_000_000,
            [20, 3_000, 50_000]
        ));
    }

    #[test]
    fn plus_plus_goes_on_slowly_and_comes_back() {
        let mut window = limited(100, SSTHRESH_INFINITE);
        let mut detector = Detector::new(HyStart::PlusPlus);
        let mut run = |detector: &mut Detector, number: u64, delay: u64| {
            round(detector, &mut window, number * 2_000_000, [9, 3_000, delay])
        };
        run(&mut detector, 1, 40_000);
        run(&mut detector, 2, 44_999);
        assert_eq!(detector.slow_start_credit(4, true), 4, "below the margin");
        run(&mut detector, 3, 51_000);
        let credits: [u32; 5] = core::array::from_fn(|_| detector.slow_start_credit(3, true));
        assert_eq!(credits, [0, 1, 1, 1, 0], "a quarter, nothing lost");
        run(&mut detector, 4, 50_000);
        assert_eq!(detector.slow_start_credit(4, true), 4, "it was chance");
        assert_eq!(detector.slow_start_credit(40, true), 40);
        assert_eq!(detector.slow_start_credit(40, false), 8);
    }

    #[test]
    fn plus_plus_ends_after_five_rounds() {
        let mut window = limited(100, SSTHRESH_INFINITE);
        let mut detector = Detector::new(HyStart::PlusPlus);
        round(&mut detector, &mut window, 2_000_000, [9, 3_000, 40_000]);
        let ended = (2..20).find(|number| {
            let base = number * 2_000_000;
            round(&mut detector, &mut window, base, [9, 3_000, 60_000])
        });
        // It begins in round 2, which counts, and is over when round 6 has ended.
        assert_eq!(ended, Some(7));
    }
}
