//! From TOML to settings, variants, axes and claims, with the place of each.

use std::collections::BTreeSet;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::expect::{Expectation, Metric};
use super::read::{Entry, Keys, Place, Problem, ProblemKind, TABLES, number, one_of, unknown};
use super::{Axis, CELLS_MAX, Scenario, Variant};

/// More runs belong into several files.
pub(super) const RUNS_MAX: u64 = 1_000;
/// Most variants, and most claims.
const TABLES_MAX: usize = 100;
/// A name is part of file names and of tables of 100 columns.
const NAME_CHARS_MAX: usize = 40;

/// Reads what can be read, and tells all that is wrong with the form.
pub(super) fn read(file: &str, text: &str) -> (Scenario, Vec<Problem>) {
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut document = Document {
        lines: Lines::new(text),
        problems: Vec::new(),
    };
    let mut last_line = 0;
    for error in errors {
        let place = document
            .lines
            .place(error.span().map_or(0, |span| span.start));
        // What follows in the same line follows from the same mistake.
        if place.line != last_line {
            let kind = ProblemKind::Syntax;
            let message = error.message().into();
            document.problems.push(Problem {
                place,
                message,
                kind,
            });
        }
        last_line = place.line;
    }
    let mut scenario = Scenario {
        name: String::new(),
        about: String::new(),
        runs: 1,
        expectations: Vec::new(),
        file: file.into(),
        keys: Keys::default(),
        variants: Vec::new(),
        axes: Vec::new(),
        set: Keys::default(),
    };
    for (key, value) in table.get_ref() {
        document.read_top(&mut scenario, key, value);
    }
    for (name, example) in [("name", "wan-bulk"), ("about", "One sentence.")] {
        if !table.get_ref().contains_key(name) {
            document.complain(Place::START, format!("write `{name} = \"{example}\"`"));
        }
    }
    document.check_variants(&scenario);
    (scenario, document.problems)
}

type Key<'t> = Spanned<toml::de::DeString<'t>>;
type Value<'t> = Spanned<DeValue<'t>>;

struct Document {
    lines: Lines,
    problems: Vec<Problem>,
}

impl Document {
    fn complain(&mut self, place: Place, message: impl Into<String>) {
        self.problems.push(Problem::new(place, message));
    }

    fn read_top(&mut self, scenario: &mut Scenario, key: &Key<'_>, value: &Value<'_>) {
        match (key.get_ref().as_ref(), value.get_ref()) {
            ("name", _) => scenario.name = self.name(value),
            ("about", DeValue::String(about)) => scenario.about = about.to_string(),
            ("seed", _) => self.flatten(&mut scenario.keys, "seed", key, value),
            ("runs", _) => {
                let runs = self.scalar("runs", key, value);
                let runs = runs
                    .and_then(|entry| self.read(&entry, "runs", |text| number(text, 1, RUNS_MAX)));
                scenario.runs = runs.and_then(|runs| u32::try_from(runs).ok()).unwrap_or(1);
            }
            (table, DeValue::Table(_)) if TABLES.contains(&table) => {
                scenario.keys.begin_table(table, self.lines.of(key));
                self.flatten(&mut scenario.keys, table, key, value);
            }
            ("sweep", DeValue::Table(sweep)) => {
                scenario.axes = self.axes("", sweep);
                scenario
                    .axes
                    .sort_by_key(|axis| axis.values.first().map(|v| v.key_place));
                self.check_axes(&scenario.axes);
            }
            ("variant", DeValue::Array(variants)) => {
                self.check_count("variant", key, variants.len());
                for value in variants.iter().take(TABLES_MAX) {
                    scenario.variants.extend(self.variant(value));
                }
            }
            ("expect", DeValue::Array(claims)) => {
                self.check_count("expect", key, claims.len());
                for value in claims.iter().take(TABLES_MAX) {
                    scenario.expectations.extend(self.claim(value));
                }
            }
            (word, _) => {
                let place = self.lines.of(key);
                let message = match word {
                    "about" => "about: write a sentence in quotes".into(),
                    "variant" | "expect" => format!("{word}: write tables headed `[[{word}]]`"),
                    _ if TABLES.contains(&word) || word == "sweep" => {
                        format!("{word}: write a table headed `[{word}]`")
                    }
                    _ => unknown("key", word, TOP.iter().copied()),
                };
                self.complain(place, message);
            }
        }
    }

    fn check_count(&mut self, word: &str, key: &Key<'_>, count: usize) {
        if count > TABLES_MAX {
            let message = format!("more than {TABLES_MAX} tables `[[{word}]]`; split the scenario");
            self.complain(self.lines.of(key), message);
        }
    }

    /// Puts a value, or all values of a table, into `keys`.
    fn flatten(&mut self, keys: &mut Keys, path: &str, key: &Key<'_>, value: &Value<'_>) {
        let DeValue::Table(table) = value.get_ref() else {
            if let Some(entry) = self.scalar(path, key, value) {
                let place = entry.key_place;
                if !keys.insert(path, entry) {
                    self.complain(place, format!("{path} is given twice"));
                }
            }
            return;
        };
        for (key, value) in table {
            self.flatten(keys, &format!("{path}.{}", key.get_ref()), key, value);
        }
    }

    /// A value that is no table and no list, as text.
    fn scalar(&mut self, path: &str, key: &Key<'_>, value: &Value<'_>) -> Option<Entry> {
        let (place, key_place) = (self.lines.at(value), self.lines.of(key));
        let text = match value.get_ref() {
            DeValue::String(text) => text.trim().to_owned(),
            DeValue::Boolean(on) => if *on { "on" } else { "off" }.to_owned(),
            DeValue::Integer(number) if number.radix() == 10 => number.as_str().to_owned(),
            DeValue::Float(number) => number.as_str().to_owned(),
            DeValue::Array(_) => {
                let message = format!("{path}: a list stands only in [sweep]; write one value");
                self.complain(place, message);
                return None;
            }
            _ => {
                self.complain(place, format!("{path}: write the value in quotes"));
                return None;
            }
        };
        Some(Entry {
            text,
            place,
            key_place,
        })
    }

    fn read<T>(
        &mut self,
        entry: &Entry,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        parse(&entry.text)
            .map_err(|message| self.complain(entry.place, format!("{name}: {message}")))
            .ok()
    }

    fn name(&mut self, value: &Value<'_>) -> String {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        match value.get_ref() {
            DeValue::String(name)
                if !name.is_empty() && name.len() <= NAME_CHARS_MAX && name.chars().all(plain) =>
            {
                name.to_string()
            }
            _ => {
                let message = format!(
                    "name: write 1 to {NAME_CHARS_MAX} letters, digits, `-`, `_` or `.` in quotes"
                );
                self.complain(self.lines.at(value), message);
                String::new()
            }
        }
    }

    fn variant(&mut self, value: &Value<'_>) -> Option<Variant> {
        let DeValue::Table(table) = value.get_ref() else {
            self.complain(
                self.lines.at(value),
                "variant: write tables headed `[[variant]]`",
            );
            return None;
        };
        let mut variant = Variant {
            name: String::new(),
            keys: Keys::default(),
        };
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "name" => variant.name = self.name(value),
                word if TABLES.contains(&word) || word == "seed" => {
                    self.flatten(&mut variant.keys, word, key, value);
                }
                word => {
                    let known = TABLES.iter().copied().chain(["name", "seed"]);
                    let message = unknown("key in [[variant]]:", word, known);
                    self.complain(self.lines.of(key), message);
                }
            }
        }
        if !table.contains_key("name") {
            self.complain(self.lines.at(value), "variant: write `name = \"…\"`");
        }
        Some(variant)
    }

    /// Names are unique, and claims are about variants that exist.
    fn check_variants(&mut self, scenario: &Scenario) {
        let names: Vec<&str> = scenario.variants.iter().map(|v| v.name.as_str()).collect();
        let mut sorted = names.clone();
        sorted.sort_unstable();
        for pair in sorted
            .windows(2)
            .filter(|pair| pair[0] == pair[1] && !pair[0].is_empty())
        {
            self.complain(
                Place::START,
                format!("two variants are named `{}`", pair[0]),
            );
        }
        for claim in &scenario.expectations {
            let Some(variant) = &claim.variant else {
                continue;
            };
            if !names.contains(&variant.as_str()) {
                let message = unknown("variant in [[expect]]:", variant, names.iter().copied());
                self.complain(Place::START, message);
            }
        }
    }

    /// Each key has one axis.
    fn check_axes(&mut self, axes: &[Axis]) {
        let mut seen = BTreeSet::new();
        for axis in axes {
            if !seen.insert(&axis.key) {
                let place = axis
                    .values
                    .first()
                    .map_or(Place::START, |value| value.key_place);
                self.complain(place, format!("sweep: {} is given twice", axis.key));
            }
        }
    }

    /// Axes of a sweep; keys may be quoted (`"path.rtt"`) or not.
    fn axes(&mut self, path: &str, sweep: &DeTable<'_>) -> Vec<Axis> {
        let mut axes = Vec::new();
        for (key, value) in sweep {
            let name = if path.is_empty() {
                key.get_ref().to_string()
            } else {
                format!("{path}.{}", key.get_ref())
            };
            match value.get_ref() {
                DeValue::Table(table) => axes.extend(self.axes(&name, table)),
                DeValue::Array(list) if !list.is_empty() => {
                    let values = list.iter().take(CELLS_MAX + 1);
                    let values: Vec<Entry> = values
                        .filter_map(|value| self.scalar(&name, key, value))
                        .collect();
                    if !values.is_empty() {
                        axes.push(Axis { key: name, values });
                    }
                }
                _ => {
                    let message = format!("{name}: write a list such as `[\"1ms\", \"10ms\"]`");
                    self.complain(self.lines.at(value), message);
                }
            }
        }
        axes
    }

    fn claim(&mut self, value: &Value<'_>) -> Option<Expectation> {
        let DeValue::Table(table) = value.get_ref() else {
            self.complain(
                self.lines.at(value),
                "expect: write tables headed `[[expect]]`",
            );
            return None;
        };
        let before = self.problems.len();
        let mut entry = |name: &str| {
            let (key, value) = table.get_key_value(name)?;
            self.scalar(name, key, value)
        };
        let [metric, variant, min, max, reason] = CLAIM.map(&mut entry);
        for (key, _) in table {
            if !CLAIM.contains(&key.get_ref().as_ref()) {
                let known = CLAIM.iter().copied();
                let message = unknown("key in [[expect]]:", key.get_ref(), known);
                self.complain(self.lines.of(key), message);
            }
        }
        let Some(metric) = metric else {
            let message = "expect: write `metric = \"goodput_bps\"` or another one";
            self.complain(self.lines.at(value), message);
            return None;
        };
        let metric = self.read(&metric, "metric", |text| one_of(text, Metric::ALL))?;
        let min_value = min
            .as_ref()
            .and_then(|e| self.read(e, "min", |text| metric.parse(text)));
        let max_value = max
            .as_ref()
            .and_then(|e| self.read(e, "max", |text| metric.parse(text)));
        if min.is_none() && max.is_none() {
            self.complain(self.lines.at(value), "expect: write `min`, `max` or both");
        } else if let (Some(min), Some(max)) = (min_value, max_value)
            && min > max
        {
            self.complain(self.lines.at(value), "expect: `min` is above `max`");
        }
        (self.problems.len() == before).then(|| Expectation {
            metric,
            variant: variant.map(|entry| entry.text),
            min: min_value,
            max: max_value,
            reason: reason.map_or(String::new(), |entry| entry.text),
        })
    }
}

const TOP: &[&str] = &[
    "name", "about", "seed", "runs", "path", "client", "server", "workload", "variant", "sweep",
    "expect",
];

const CLAIM: [&str; 5] = ["metric", "variant", "min", "max", "reason"];

/// Where each line begins.
struct Lines {
    text: String,
    starts: Vec<usize>,
}

impl Lines {
    fn new(text: &str) -> Self {
        let starts = text.match_indices('\n').map(|(at, _)| at + 1);
        Self {
            text: text.into(),
            starts: [0].into_iter().chain(starts).collect(),
        }
    }

    fn place(&self, offset: usize) -> Place {
        let line = self.starts.partition_point(|start| *start <= offset);
        let start = self.starts[line - 1];
        let before = self
            .text
            .get(start..offset.min(self.text.len()))
            .unwrap_or_default();
        // Counting is for people; no person looks for a place in a line of a million characters.
        let column = if before.len() > 2_000 {
            before.len()
        } else {
            before.chars().count()
        } + 1;
        Place {
            line: u32::try_from(line).unwrap_or(u32::MAX),
            column: u32::try_from(column).unwrap_or(u32::MAX),
        }
    }

    fn of(&self, key: &Key<'_>) -> Place {
        self.place(key.span().start)
    }

    fn at(&self, value: &Value<'_>) -> Place {
        self.place(value.span().start)
    }
}
