//! Parses TOML into settings, variants, axes and expectations, each with its position.

use std::collections::BTreeSet;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::read::{Entry, Keys, LineColumn, Problem, ProblemKind, TABLES, number, unknown};
use super::{
    Axis, CELLS_MAX, DIAGNOSTICS_MAX, OverrideCondition, ProbeSpec, RUNS_MAX, Scenario, Variant,
    Vocabulary,
};

/// Most variants, and most claims.
const TABLES_MAX: usize = 100;
/// A name is part of file names and of tables of 100 columns.
const NAME_CHARS_MAX: usize = 40;

/// Reads what can be read, and tells all that is wrong with the form.
pub(super) fn read(file: &str, text: &str, vocabulary: &Vocabulary) -> (Scenario, Vec<Problem>) {
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut document = ParseState {
        lines: Lines::new(text),
        problems: Vec::new(),
        probe_is_unknown: false,
        vocabulary,
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
        overrides: Vec::new(),
        set: Keys::default(),
        experiment: None,
        probe: None,
        engine: None,
        is_quick: false,
    };
    match table.get_ref().get("probe").map(Spanned::get_ref) {
        Some(DeValue::Table(probe)) => {
            scenario.probe = document.probe(probe);
            document.probe_is_unknown = scenario.probe.is_none();
        }
        Some(_) => document.probe_is_unknown = true,
        None => (),
    }
    for (key, value) in table.get_ref() {
        document.read_top(&mut scenario, key, value);
    }
    for (name, example) in [("name", "wan-bulk"), ("about", "One sentence.")] {
        if !table.get_ref().contains_key(name) {
            document.complain(LineColumn::START, format!("write `{name} = \"{example}\"`"));
        }
    }
    document.read_published(&mut scenario, table.get_ref());
    document.check_probe(&scenario);
    document.check_variants(&scenario);
    if document.probe_is_unknown {
        // Whatever it is, it needs no path and no workload: only the other mistakes are told.
        scenario.probe = Some(ProbeSpec::UNKNOWN);
    }
    (scenario, document.problems)
}

pub(super) type Key<'t> = Spanned<toml::de::DeString<'t>>;
pub(super) type Value<'t> = Spanned<DeValue<'t>>;

/// State of the parser.
pub(super) struct ParseState<'v> {
    pub(super) lines: Lines,
    pub(super) problems: Vec<Problem>,
    /// The file has a probe that there is not.
    pub(super) probe_is_unknown: bool,
    pub(super) vocabulary: &'v Vocabulary,
}

impl ParseState<'_> {
    pub(super) fn complain(&mut self, place: LineColumn, message: impl Into<String>) {
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
                    let claim = self.claim(value, scenario.probe);
                    scenario.expectations.extend(claim);
                }
            }
            ("experiment", DeValue::Table(table)) => {
                scenario.experiment = self.experiment(key, table);
            }
            // Read before all others, since the claims are about its figures.
            ("probe", DeValue::Table(_)) => (),
            // Read after all others, since it is part of the experiment.
            ("published", DeValue::Array(_)) => (),
            ("on", _) => scenario.overrides.extend(self.on(value, false)),
            ("quick", _) => {
                let overrides = self.overrides(OverrideCondition::Quick, value, false);
                scenario.overrides.push(overrides);
            }
            (word, _) => {
                let place = self.lines.of(key);
                let message = match word {
                    "about" => "about: write a sentence in quotes".into(),
                    "variant" | "expect" | "published" => {
                        format!("{word}: write tables headed `[[{word}]]`")
                    }
                    "sweep" | "experiment" | "probe" => {
                        format!("{word}: write a table headed `[{word}]`")
                    }
                    _ if TABLES.contains(&word) => {
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
    pub(super) fn flatten(
        &mut self,
        keys: &mut Keys,
        path: &str,
        key: &Key<'_>,
        value: &Value<'_>,
    ) {
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

    /// A value that is neither a table nor a list, as text.
    pub(super) fn scalar(&mut self, path: &str, key: &Key<'_>, value: &Value<'_>) -> Option<Entry> {
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

    pub(super) fn read<T>(
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
            overrides: Vec::new(),
            engines: Vec::new(),
        };
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "name" => variant.name = self.name(value),
                "engines" => {
                    let engines = self.scalar("engines", key, value);
                    variant.engines = self.engines(engines.as_ref());
                }
                "on" => variant.overrides.extend(self.on(value, true)),
                "quick" => {
                    let overrides = self.overrides(OverrideCondition::Quick, value, true);
                    variant.overrides.push(overrides);
                }
                word if TABLES.contains(&word) || word == "seed" => {
                    self.flatten(&mut variant.keys, word, key, value);
                }
                word => {
                    let known = TABLES.iter().copied().chain(VARIANT.iter().copied());
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
                LineColumn::START,
                format!("two variants are named `{}`", pair[0]),
            );
        }
        let claims = scenario.expectations.iter();
        let claimed = claims.flat_map(|claim| [&claim.variant, &claim.over]);
        let claimed = claimed.map(|variant| ("[[expect]]", variant));
        let facts = scenario.experiment.iter();
        let published = facts.flat_map(|experiment| &experiment.published);
        let published = published.flat_map(|number| [&number.variant, &number.over]);
        let published = published.map(|variant| ("[[published]]", variant));
        for (table, variant) in claimed.chain(published) {
            let Some(variant) = variant else {
                continue;
            };
            if !names.contains(&variant.as_str()) {
                let what = format!("variant in {table}:");
                let message = unknown(&what, variant, names.iter().copied());
                self.complain(LineColumn::START, message);
            }
        }
    }

    /// `[[published]]`, which only an experiment has.
    fn read_published(&mut self, scenario: &mut Scenario, table: &DeTable<'_>) {
        let Some((key, value)) = table.get_key_value("published") else {
            return;
        };
        let DeValue::Array(numbers) = value.get_ref() else {
            return;
        };
        self.check_count("published", key, numbers.len());
        let read: Vec<_> = numbers
            .iter()
            .take(TABLES_MAX)
            .filter_map(|value| self.published(value, scenario.probe))
            .collect();
        match &mut scenario.experiment {
            Some(experiment) => experiment.published = read,
            None if table.contains_key("experiment") => (),
            None => {
                let message = "published: only an experiment has published numbers; write a \
                               table headed `[experiment]`";
                self.complain(self.lines.of(key), message);
            }
        }
    }

    /// A probe brings its own path and traffic.
    fn check_probe(&mut self, scenario: &Scenario) {
        let Some(ProbeSpec { name, .. }) = scenario.probe else {
            return;
        };
        let has_settings = TABLES.iter().any(|table| scenario.keys.has(table));
        if has_settings || !scenario.variants.is_empty() || !scenario.axes.is_empty() {
            let message = format!(
                "the probe `{name}` brings its own path and traffic; remove the other tables of \
                 settings, the variants and the sweep"
            );
            self.complain(LineColumn::START, message);
        }
    }

    /// Each key has one axis, and each value of it is there once: the name of a cell is made of
    /// them as they are written.
    pub(super) fn check_axes(&mut self, axes: &[Axis]) {
        let mut seen = BTreeSet::new();
        for axis in axes {
            if !seen.insert(&axis.key) {
                let place = axis
                    .values
                    .first()
                    .map_or(LineColumn::START, |value| value.key_place);
                self.complain(place, format!("sweep: {} is given twice", axis.key));
            }
            let mut values = BTreeSet::new();
            let twice = axis
                .values
                .iter()
                .filter(|value| !values.insert(&value.text));
            for value in twice.take(DIAGNOSTICS_MAX) {
                let message = format!("{}: {} is there twice; name it once", axis.key, value.text);
                self.complain(value.place, message);
            }
        }
    }

    /// Axes of a sweep; keys may be quoted (`"path.rtt"`) or not.
    pub(super) fn axes(&mut self, path: &str, sweep: &DeTable<'_>) -> Vec<Axis> {
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
}

const TOP: &[&str] = &[
    "name",
    "about",
    "seed",
    "runs",
    "path",
    "client",
    "server",
    "workload",
    "variant",
    "sweep",
    "expect",
    "experiment",
    "published",
    "probe",
    "on",
    "quick",
];

/// Beside the tables of settings.
const VARIANT: &[&str] = &["name", "seed", "on", "quick", "engines"];

/// Offsets of line starts.
pub(super) struct Lines {
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

    fn place(&self, offset: usize) -> LineColumn {
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
        LineColumn {
            line: u32::try_from(line).unwrap_or(u32::MAX),
            column: u32::try_from(column).unwrap_or(u32::MAX),
        }
    }

    pub(super) fn of(&self, key: &Key<'_>) -> LineColumn {
        self.place(key.span().start)
    }

    pub(super) fn at(&self, value: &Value<'_>) -> LineColumn {
        self.place(value.span().start)
    }
}
