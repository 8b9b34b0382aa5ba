//! Positions on an axis, and the values at which it is marked.

use lab::show::show_value;

/// Marks of an axis, about; and of one that has too few of them.
const TICKS: f64 = 5.0;
const TICKS_MAX: usize = 10;

/// Room beyond the ends of an axis of logarithms.
const LOG_MARGIN: f64 = 1.15;

/// Marks without which an axis of logarithms cannot be read.
const LOG_TICKS_MIN: usize = 3;

/// The least ratio of the ends of an axis of logarithms: what is nearly the same looks so.
const LOG_SPAN_MIN: f64 = 2.0;

/// Decades of an axis of which the powers of ten are marks enough.
const DECADES_MIN: f64 = 2.2;

/// From values to places.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    is_log: bool,
    /// Marks are powers of two.
    is_binary: bool,
    /// All values are whole numbers.
    is_whole: bool,
    /// Things are counted: no mark stands between whole numbers.
    is_count: bool,
    from: f64,
    to: f64,
}

impl Scale {
    /// Holds all these values, zero included, between two places; by their logarithms where that is
    /// asked for and they are above zero.
    pub(super) fn new(values: impl Iterator<Item = f64>, is_log: bool, places: (f64, f64)) -> Self {
        let mut is_whole = true;
        let finite = values.filter(|value| value.is_finite());
        let (low, high) = finite.fold((f64::MAX, f64::MIN), |(low, high), value| {
            is_whole &= value.fract() == 0.0;
            (low.min(value), high.max(value))
        });
        let is_log = is_log && low > 0.0 && high > low;
        let (low, high) = match is_log {
            true => {
                let wider = (LOG_SPAN_MIN / (high / low)).max(1.0).sqrt();
                (low / wider, high * wider)
            }
            false => (low.min(0.0), if high > low.min(0.0) { high } else { 1.0 }),
        };
        Self {
            low,
            high,
            is_log,
            is_binary: false,
            is_whole,
            is_count: false,
            from: places.0,
            to: places.1,
        }
    }

    /// With marks for this unit: bytes are read in powers of two, things are whole.
    pub(super) fn for_unit(self, unit: &str) -> Self {
        Self {
            is_binary: unit == "bytes" && self.high > 4.0,
            is_count: self.is_whole && matches!(unit, "" | "packets"),
            ..self
        }
    }

    /// Between marks of which there are about this many.
    fn step(&self, ticks: f64) -> f64 {
        let rough = (self.high - self.low) / ticks;
        match self.is_binary {
            true => 2_f64.powf(rough.log2().ceil()),
            false if self.is_count => step(rough).max(1.0),
            false => step(rough),
        }
    }

    /// Ends at a mark, so that nothing stands above the last one.
    pub(super) fn rounded(self) -> Self {
        if self.is_log {
            return Self {
                low: self.low / LOG_MARGIN,
                high: self.high * LOG_MARGIN,
                ..self
            };
        }
        let step = self.step(TICKS);
        Self {
            low: (self.low / step).floor() * step,
            high: (self.high / step - 1e-9).ceil() * step,
            ..self
        }
    }

    /// Whether places follow logarithms.
    pub(super) const fn is_log(&self) -> bool {
        self.is_log
    }

    /// The value at its upper end.
    pub(super) const fn high(&self) -> f64 {
        self.high
    }

    /// The place of a value.
    pub(super) fn at(&self, value: f64) -> f64 {
        let share = match self.is_log {
            true => (value / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        };
        self.from + share * (self.to - self.from)
    }

    /// Whether a value has a place.
    pub(super) fn holds(&self, value: f64) -> bool {
        value.is_finite() && value >= self.low * 0.999_999 && value <= self.high * 1.000_001
    }

    /// Values at which it is marked.
    pub(super) fn ticks(&self) -> Vec<f64> {
        match self.is_log {
            true => self.log_ticks(),
            false => self.even_ticks(TICKS),
        }
    }

    fn even_ticks(&self, ticks: f64) -> Vec<f64> {
        let step = self.step(ticks);
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step + 1e-9).floor() as i64;
        (first..=last).map(|index| index as f64 * step).collect()
    }

    /// The coarsest that are enough; within less than a decade none may be but those at even steps.
    fn log_ticks(&self) -> Vec<f64> {
        let by_powers = match self.is_binary {
            true => vec![self.powers_of_two()],
            false => vec![self.powers_of_ten(), self.in_decades(&[1.0, 2.0, 5.0])],
        };
        let evenly = (TICKS as usize..=TICKS_MAX).map(|ticks| self.even_ticks(ticks as f64));
        let mut coarsest_first = by_powers.into_iter().chain(evenly);
        coarsest_first
            .find(|ticks| ticks.len() >= LOG_TICKS_MIN)
            .unwrap_or_else(|| self.even_ticks(TICKS_MAX as f64))
    }

    fn powers_of_two(&self) -> Vec<f64> {
        let (first, last) = (self.low.log2().ceil(), self.high.log2().floor());
        let every = ((last - first) / TICKS).ceil().max(1.0) as usize;
        let powers = (first as i32..=last as i32).step_by(every);
        powers.map(|power| 2_f64.powi(power)).collect()
    }

    /// None where there are so few that others between them have room.
    fn powers_of_ten(&self) -> Vec<f64> {
        let span = (self.high / self.low).log10();
        let every = (span / TICKS).ceil().max(1.0) as usize;
        match span >= DECADES_MIN {
            true => self.in_decades(&[1.0]).into_iter().step_by(every).collect(),
            false => Vec::new(),
        }
    }

    fn in_decades(&self, digits: &[f64]) -> Vec<f64> {
        // The first decade may begin below the axis and have its 2 or 5 on it.
        let decades = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
        let values = decades.flat_map(|decade| digits.iter().map(move |d| d * 10_f64.powi(decade)));
        let has_place = |value: &f64| self.holds(*value) && (!self.is_count || *value >= 1.0);
        values.filter(has_place).collect()
    }
}

/// 1, 2 or 5 of some power of ten.
fn step(rough: f64) -> f64 {
    let power = 10_f64.powf(rough.log10().floor());
    let step = match rough / power {
        part if part <= 1.0 => power,
        part if part <= 2.0 => 2.0 * power,
        part if part <= 5.0 => 5.0 * power,
        _ => 10.0 * power,
    };
    // Values that differ by less are one: without this their axis would have marks without end.
    step.max(f64::MIN_POSITIVE)
}

/// A value beside an axis: no zeros behind the point.
pub(super) fn label(unit: &str, value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let text = match unit {
        // An MTU, say.
        "bytes" if value < 65536.0 && value % 1024.0 != 0.0 => format!("{value:.0} B"),
        "bytes" => base::human::bytes(value.max(0.0).round() as u64),
        _ => show_value(unit, value),
    };
    let (number, unit) = text.split_once(' ').unwrap_or((&text, ""));
    let number = match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    };
    [number, unit].join(" ").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round() {
        let check = |values: [f64; 2], is_log, expected: &[f64]| {
            let scale = Scale::new(values.into_iter(), is_log, (0.0, 100.0)).rounded();
            assert_eq!(scale.ticks(), expected, "{values:?}");
        };
        check([0.0, 9.4], false, &[0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        check([3.0, 50.0], false, &[0.0, 10.0, 20.0, 30.0, 40.0, 50.0]);
        check(
            [0.0, 0.0],
            false,
            &[0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0],
        );
        check(
            [1.0, 100.0],
            true,
            &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0],
        );
        check([1.0, 1e6], true, &[1.0, 1e2, 1e4, 1e6]);
        // Between two and three decades, with one power of ten or two within.
        check([2.0, 90.0], true, &[2.0, 5.0, 10.0, 20.0, 50.0, 100.0]);
        check(
            [150.0, 25e3],
            true,
            &[200.0, 500.0, 1e3, 2e3, 5e3, 1e4, 2e4],
        );
        // Less than a decade.
        check([1.0, 8.0], true, &[1.0, 2.0, 5.0]);
        check([30.0, 90.0], true, &[40.0, 60.0, 80.0, 100.0]);
        check([80.0, 130.0], true, &[80.0, 100.0, 120.0, 140.0, 160.0]);
    }

    #[test]
    fn each_axis_of_logarithms_can_be_read() {
        // Nothing stands between single bits and bytes.
        for (unit, least) in [("us", 0.3), ("bit/s", 64.0), ("bytes", 64.0), ("", 1.0)] {
            for low in [1.0, 3.0, 7.7, 64.0, 950.0, 1001.0, 20_000.0].map(|low| low * least) {
                for ratio in [1.000_1, 1.3, 2.5, 4.0, 8.0, 9.9, 30.0, 170.0, 2000.0, 1e7] {
                    let values = [low, low * ratio].into_iter();
                    let scale = Scale::new(values, true, (0.0, 100.0)).for_unit(unit);
                    for scale in [scale, scale.rounded()] {
                        let ticks = scale.ticks();
                        let mut labels: Vec<String> =
                            ticks.iter().map(|tick| label(unit, *tick)).collect();
                        labels.dedup();
                        let is_readable = (3..=12).contains(&labels.len());
                        assert!(is_readable, "{low} to {ratio} times: {labels:?} {unit}");
                        assert_eq!(labels.len(), ticks.len(), "{labels:?} {unit}");
                        assert!(ticks.iter().all(|tick| scale.holds(*tick)), "{ticks:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn things_are_counted_in_whole_numbers() {
        let check = |values: &[f64], unit, is_log, expected: &[f64]| {
            let scale = Scale::new(values.iter().copied(), is_log, (0.0, 100.0)).for_unit(unit);
            assert_eq!(scale.rounded().ticks(), expected, "{values:?} {unit}");
        };
        check(&[0.0, 1.0], "", false, &[0.0, 1.0]);
        check(&[0.0, 3.0, 2.0], "", false, &[0.0, 1.0, 2.0, 3.0]);
        check(&[0.0], "packets", false, &[0.0, 1.0]);
        check(&[2.0, 3.0], "", true, &[2.0, 3.0]);
        // What is not counted keeps its fractions: transfers per second, say.
        check(
            &[0.0, 0.5],
            "",
            false,
            &[0.0, 0.1, 0.2, 0.300_000_000_000_000_04, 0.4, 0.5],
        );
        check(
            &[0.0, 1.0],
            "share",
            false,
            &[0.0, 0.2, 0.4, 0.600_000_000_000_000_1, 0.8, 1.0],
        );
    }

    #[test]
    fn marks_of_bytes_are_powers_of_two() {
        let check = |values: [f64; 2], is_log, expected: &[f64]| {
            let scale = Scale::new(values.into_iter(), is_log, (0.0, 100.0))
                .for_unit("bytes")
                .rounded();
            assert_eq!(scale.ticks(), expected, "{values:?}");
        };
        check(
            [0.0, 100e3],
            false,
            &[0.0, 32768.0, 65536.0, 98304.0, 131_072.0],
        );
        check(
            [16e3, 300e3],
            true,
            &[16384.0, 32768.0, 65536.0, 131_072.0, 262_144.0],
        );
        check(
            [4096.0, 4_194_304.0],
            true,
            &[
                4096.0,
                16384.0,
                65536.0,
                262_144.0,
                1_048_576.0,
                4_194_304.0,
            ],
        );
    }

    #[test]
    fn places_follow_values() {
        let scale = Scale::new([1.0, 100.0].into_iter(), true, (0.0, 100.0));
        assert_eq!(scale.at(10.0), 50.0);
        let scale = Scale::new([5.0, 10.0].into_iter(), false, (100.0, 0.0));
        assert_eq!(scale.at(5.0), 50.0);
        assert!(!scale.holds(f64::NAN) && !scale.holds(11.0) && scale.holds(0.0));
        // What cannot be drawn by logarithms is drawn evenly.
        let scale = Scale::new([0.0, 10.0].into_iter(), true, (0.0, 1.0));
        assert_eq!(scale.at(5.0), 0.5);
    }

    #[test]
    fn labels_are_short() {
        assert_eq!(label("us", 2e6), "2 s");
        assert_eq!(label("bit/s", 2.5e6), "2.5 Mbit/s");
        assert_eq!(label("bytes", 65_536.0), "64 KiB");
        assert_eq!(label("bytes", 9000.0), "9000 B");
        assert_eq!(label("", 0.0), "0");
        assert_eq!(label("share", 0.2), "20 %");
    }
}
