//! Axes from the command line, and sweeps that are too large to make all their trials at once.

use base::Diagnostic;

use super::read::{Entry, LineColumn, Problem};
use super::{Axis, CELLS_MAX, Cell, Scenario, diagnostics};

/// Most cells of a sweep with axes from the command line, which are made one by one.
pub const SWEEP_CELLS_MAX: u64 = 100_000_000;

impl Scenario {
    /// Adds an axis, or replaces the one that the file has for this key; the last added changes
    /// fastest. Up to [`CELLS_MAX`] cells are checked now; of more, each value of each axis with
    /// the first values of the others, and the rest in [`Scenario::cell_at`].
    ///
    /// # Errors
    /// What is wrong with the key or with what comes out of its values; that it is set to one value
    /// already; that it makes no difference. The scenario stays as it was.
    pub fn vary(&mut self, key: &str, values: &[String]) -> Result<(), Vec<Diagnostic>> {
        let refuse = |message: String| {
            vec![Diagnostic {
                file: "--vary".into(),
                line: 0,
                column: 0,
                message,
            }]
        };
        if self.set.has_exactly(key) {
            // The seed alone has an option of its own.
            let options = if key == "seed" {
                "--seed or --set"
            } else {
                "--set"
            };
            let message = format!("{key} is set to one value with {options}; name it once");
            return Err(refuse(message));
        }
        let entry = |text: &String| Entry::new(text.as_str(), LineColumn::NONE, LineColumn::NONE);
        let mut changed = self.clone();
        changed.axes.retain(|axis| axis.key != key);
        changed.axes.push(Axis {
            key: key.into(),
            values: values.iter().map(entry).collect(),
        });
        if changed.cell_count() > SWEEP_CELLS_MAX {
            let message = format!(
                "{key}: the sweep has more than {SWEEP_CELLS_MAX} cells; name fewer values"
            );
            return Err(refuse(message));
        }
        let problems = changed.check_views(Self::check_sweep);
        if !problems.is_empty() {
            let mut told = diagnostics(&self.file, problems);
            for diagnostic in told.iter_mut().filter(|told| told.file == "--set") {
                diagnostic.file = "--vary".into();
            }
            return Err(told);
        }
        if !changed.is_felt(values.len()) {
            let message =
                format!("{key} makes no difference: another setting of this scenario wins over it");
            return Err(refuse(message));
        }
        *self = changed;
        Ok(())
    }

    /// Variants times the values of all axes; also where these are more than fit into memory.
    #[must_use]
    pub fn cell_count(&self) -> u64 {
        let variants = self.variants_here().len() as u64;
        self.axes.iter().fold(variants, |cells, axis| {
            cells.saturating_mul(axis.values.len() as u64)
        })
    }

    /// Keys and values of the axes, in the order in which they change, the fastest last.
    #[must_use]
    pub fn axes(&self) -> Vec<(&str, Vec<&str>)> {
        self.axes
            .iter()
            .map(|axis| {
                let values = axis.values.iter().map(|value| value.text.as_str());
                (axis.key.as_str(), values.collect())
            })
            .collect()
    }

    /// The cell with this number, from 0 and below [`Scenario::cell_count`], in the order of
    /// [`Scenario::trials`], and what is wrong with it: of a very large sweep not every combination
    /// was checked before.
    #[must_use]
    pub fn cell_at(&self, index: u64) -> (Cell, Vec<Diagnostic>) {
        let per_variant: u64 = self
            .axes
            .iter()
            .map(|axis| axis.values.len() as u64)
            .product();
        let variant = usize::try_from(index / per_variant).unwrap_or(usize::MAX);
        let point = usize::try_from(index % per_variant).unwrap_or(0);
        let here = self.variants_here();
        let (cell, problems) = self.cell(here.get(variant).copied().flatten(), point);
        (cell, diagnostics(&self.file, problems))
    }

    /// Problems with any value of any axis; with any cell where these are few.
    fn check_sweep(&self) -> Vec<Problem> {
        if self.cell_count() <= CELLS_MAX as u64 {
            return self.check_cells();
        }
        let mut problems = Vec::new();
        let mut beside = self.clone();
        for axis in &mut beside.axes {
            axis.values.truncate(1);
        }
        for (index, axis) in self.axes.iter().enumerate() {
            let mut one = beside.clone();
            one.axes[index] = axis.clone();
            problems.extend(one.check_cells());
        }
        problems
    }

    /// Whether the last axis changes any trial, where the others have their first values.
    fn is_felt(&self, values: usize) -> bool {
        values < 2
            || self.variants_here().into_iter().any(|variant| {
                let trial = |point| self.cell(variant, point).0.trial;
                (1..values).any(|point| trial(point) != trial(0))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
name = \"base\"
about = \"A download.\"
[path]
kind = \"emulated\"
rate = \"20mbit\"
rtt = \"40ms\"
[workload]
kind = \"bulk\"
direction = \"down\"
duration = \"1s\"
[sweep]
\"path.loss\" = [\"0%\", \"1%\"]
";

    fn scenario() -> Scenario {
        Scenario::parse("base.toml", TEXT).expect("a valid file")
    }

    fn values(text: &str) -> Vec<String> {
        text.split(',').map(str::to_owned).collect()
    }

    #[test]
    fn an_axis_is_added_or_replaced() {
        let mut scenario = scenario();
        scenario
            .vary("path.rtt", &values("1ms,2ms,3ms"))
            .expect("a key");
        assert_eq!(scenario.cell_count(), 6);
        let ids: Vec<String> = scenario.trials().into_iter().map(|cell| cell.id).collect();
        assert_eq!(ids[1], "base/path.loss=0%/path.rtt=2ms");
        for (index, id) in (0..).zip(&ids) {
            assert_eq!(scenario.cell_at(index).0.id, *id);
        }
        scenario.vary("path.loss", &values("3%")).expect("a key");
        assert_eq!(scenario.cell_count(), 3, "it takes the place of the file's");
        assert_eq!(
            scenario.axes().last().map(|(key, _)| *key),
            Some("path.loss")
        );
    }

    #[test]
    fn a_wrong_axis_is_refused() {
        let check = |set: &str, key: &str, list: &str, part: &str| {
            let mut scenario = scenario();
            if let Some((key, value)) = set.split_once('=') {
                scenario.set(key, value).expect("a setting");
            }
            let told = scenario.vary(key, &values(list)).expect_err(key);
            let text: Vec<String> = told.iter().map(ToString::to_string).collect();
            assert!(text.join("\n").contains(part), "{key}: {text:?}");
            assert!(text[0].starts_with("--vary: "), "{text:?}");
            assert_eq!(scenario.cell_count(), 2, "it stays as it was");
        };
        check("", "path.rt", "1ms,2ms", "did you mean `rtt`?");
        check("", "pth.rtt", "1ms,2ms", "did you mean `path`?");
        check("", "client.nodlay", "on,off", "did you mean `nodelay`?");
        check("", "path.rtt", "1ms,5", "path.rtt: `5` has no unit");
        check(
            "path.rtt=5ms",
            "path.rtt",
            "1ms,2ms",
            "path.rtt is set to one value with --set; name it once",
        );
        check(
            "seed=5",
            "seed",
            "1,2",
            "seed is set to one value with --seed or --set; name it once",
        );
        check(
            "path.rtt=5ms",
            "path.delay",
            "1ms,2ms",
            "makes no difference",
        );
    }

    #[test]
    fn a_large_sweep_is_made_cell_by_cell() {
        let mut scenario = scenario();
        let hundred: Vec<String> = (1..=100).map(|n| format!("{n}ms")).collect();
        let many: Vec<String> = (1..=10_000).map(|n| format!("{n}kbit")).collect();
        scenario.vary("path.rtt", &hundred).expect("a key");
        scenario.vary("path.rate", &many).expect("a key");
        assert_eq!(scenario.cell_count(), 2_000_000);
        let (last, told) = scenario.cell_at(1_999_999);
        assert_eq!(told, []);
        assert_eq!(
            last.id,
            "base/path.loss=1%/path.rtt=100ms/path.rate=10mbit".replace("10mbit", "10000kbit")
        );
        let hundred: Vec<String> = (1..=100).map(|n| n.to_string()).collect();
        let told = scenario.vary("seed", &hundred).expect_err("too many");
        assert!(told[0].message.contains("100000000 cells"), "{told:?}");
        let bad = values("1ms,x");
        assert!(
            scenario.vary("path.jitter", &bad).is_err(),
            "each value is looked at"
        );
    }

    #[test]
    fn a_long_axis_is_as_good_as_two_short_ones() {
        let variants = "[[variant]]\nname = 'a'\n[[variant]]\nname = 'b'\n";
        let text = format!("{TEXT}{variants}");
        let mut scenario = Scenario::parse("base.toml", &text).expect("a valid file");
        let many: Vec<String> = (1..=5_001).map(|n| format!("{n}kbit")).collect();
        scenario.vary("path.rate", &many).expect("a key");
        assert_eq!(scenario.cell_count(), 20_004);
        let bad = [&many[..], &values("fast")].concat();
        let told = scenario.vary("path.rate", &bad).expect_err("no rate");
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].message.contains("`fast`"), "{told:?}");
    }
}
