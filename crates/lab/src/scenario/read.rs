//! The flat list of settings, and how values are read from it without stopping at a mistake.

use core::fmt::Display;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use base::knob::nearest;
use base::parse_duration;

use super::DIAGNOSTICS_MAX;

/// A place in a file, both counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LineColumn {
    pub(super) line: u32,
    pub(super) column: u32,
}

impl LineColumn {
    /// The beginning of the file.
    pub(super) const START: Self = Self { line: 1, column: 1 };
    /// On the command line.
    pub(super) const NONE: Self = Self { line: 0, column: 0 };
}

/// A mistake and its place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Problem {
    pub(super) place: LineColumn,
    pub(super) message: String,
    pub(super) kind: ProblemKind,
}

/// Decides which mistakes are told when some lines cannot be read at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ProblemKind {
    /// No TOML.
    Syntax,
    /// A key or a value means nothing.
    Wrong,
    /// Something is not there.
    Missing,
}

impl Problem {
    pub(super) fn new(place: LineColumn, message: impl Into<String>) -> Self {
        Self {
            place,
            message: message.into(),
            kind: ProblemKind::Wrong,
        }
    }
}

/// A value as it was written, without quotes.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) text: String,
    /// Position of the value.
    pub(super) place: LineColumn,
    /// Position of its key.
    pub(super) key_place: LineColumn,
}

impl Entry {
    pub(super) fn new(text: impl Into<String>, place: LineColumn, key_place: LineColumn) -> Self {
        Self {
            text: text.into(),
            place,
            key_place,
        }
    }
}

/// Settings by dotted key.
#[derive(Clone, Debug, Default)]
pub(super) struct Keys {
    entries: BTreeMap<String, Entry>,
    /// Position of each table, for errors about missing keys.
    tables: BTreeMap<String, LineColumn>,
}

/// Keys of which a later one replaces an earlier one.
const ALTERNATIVES: &[&[&str]] = &[
    &[
        "path.rtt",
        "path.delay",
        "path.forward.delay",
        "path.reverse.delay",
    ],
    &[
        "path.delay",
        "path.rtt",
        "path.forward.delay",
        "path.reverse.delay",
    ],
    &["workload.duration", "workload.bytes", "workload.operations"],
    &["workload.bytes", "workload.duration", "workload.operations"],
    &["workload.operations", "workload.duration", "workload.bytes"],
];

impl Keys {
    /// Adds a setting; false where it is there already.
    pub(super) fn insert(&mut self, key: &str, entry: Entry) -> bool {
        self.entries.insert(key.into(), entry).is_none()
    }

    /// Length of all text.
    pub(super) fn bytes(&self) -> usize {
        self.entries
            .iter()
            .map(|(key, entry)| key.len() + entry.text.len())
            .sum()
    }

    pub(super) fn begin_table(&mut self, table: &str, place: LineColumn) {
        self.tables.insert(table.into(), place);
    }

    /// Lets the settings of `later` win, also over those that they make meaningless.
    pub(super) fn override_with(&mut self, later: &Self) {
        for (key, entry) in &later.entries {
            self.forget_for(key, &entry.text);
        }
        for (key, entry) in &later.entries {
            self.entries.insert(key.clone(), entry.clone());
        }
    }

    fn forget_for(&mut self, key: &str, text: &str) {
        // Another kind of path or workload has other keys: that table begins anew.
        if let Some(table) = key.strip_suffix(".kind")
            && self
                .entries
                .get(key)
                .is_some_and(|entry| entry.text != text)
        {
            self.entries.retain(|other, _| !is_inside(other, table));
        }
        // `loss = "1%"` replaces `loss.good_to_bad` and the other way round.
        self.entries
            .retain(|other, _| !is_inside(other, key) && !is_inside(key, other));
        for group in ALTERNATIVES.iter().filter(|group| group[0] == key) {
            self.entries
                .retain(|other, _| !group[1..].contains(&other.as_str()));
        }
    }

    /// Whether there is this very key.
    pub(super) fn has_exactly(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }

    /// Whether there is this key or one inside it.
    pub(super) fn has(&self, key: &str) -> bool {
        self.entries
            .range(key.to_owned()..)
            .take_while(|(other, _)| other.starts_with(key))
            .any(|(other, _)| other == key || is_inside(other, key))
    }
}

fn is_inside(key: &str, table: &str) -> bool {
    key.strip_prefix(table)
        .is_some_and(|rest| rest.starts_with('.'))
}

/// Reads settings, collects mistakes, and knows at the end which keys were not used.
pub(super) struct Reader<'k> {
    keys: &'k Keys,
    asked: BTreeSet<String>,
    problems: Vec<Problem>,
}

impl<'k> Reader<'k> {
    pub(super) fn new(keys: &'k Keys) -> Self {
        Self {
            keys,
            asked: BTreeSet::new(),
            problems: Vec::new(),
        }
    }

    /// All mistakes, with the keys that mean nothing.
    pub(super) fn finish(mut self) -> Vec<Problem> {
        for (key, entry) in &self.keys.entries {
            if self.problems.len() <= DIAGNOSTICS_MAX && !self.asked.contains(key) {
                let message = self.unknown(key);
                self.problems.push(Problem::new(entry.key_place, message));
            }
        }
        self.problems
    }

    pub(super) fn complain(&mut self, place: LineColumn, message: String) {
        self.problems.push(Problem::new(place, message));
    }

    /// Complains about the value of `key`, or about its table where it has none.
    pub(super) fn complain_about(&mut self, key: &str, message: impl Display) {
        let place = self
            .keys
            .entries
            .get(key)
            .map_or_else(|| self.table_of(key), |e| e.place);
        self.complain(place, format!("{key}: {message}"));
    }

    /// Whether the key is there; it then has a meaning.
    pub(super) fn has(&mut self, key: &str) -> bool {
        self.asked.insert(key.into());
        self.keys.has(key)
    }

    /// All settings inside `table`, by the rest of their keys.
    pub(super) fn take_table(&mut self, table: &str) -> Vec<(String, &'k Entry)> {
        let keys = self.keys;
        let inside = keys.entries.iter().filter(|(key, _)| is_inside(key, table));
        let mut taken = Vec::new();
        for (key, entry) in inside {
            self.asked.insert(key.clone());
            taken.push((key[table.len() + 1..].to_owned(), entry));
        }
        taken
    }

    /// The value of `key` as `parse` reads it; `None` where it is missing or wrong.
    pub(super) fn parsed<T, E: Display>(
        &mut self,
        key: &str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        self.asked.insert(key.into());
        let entry = self.keys.entries.get(key)?;
        match parse(&entry.text) {
            Ok(value) => Some(value),
            Err(error) => {
                self.complain(entry.place, format!("{key}: {error}"));
                None
            }
        }
    }

    /// A value with a unit.
    pub(super) fn value<T>(&mut self, key: &str) -> Option<T>
    where
        T: core::str::FromStr<Err: Display>,
    {
        self.parsed(key, str::parse::<T>)
    }

    /// A time.
    pub(super) fn time(&mut self, key: &str) -> Option<Duration> {
        self.parsed(key, parse_duration)
    }

    /// A whole number from `min` to `max`; without a default it must be there.
    pub(super) fn count(&mut self, key: &str, min: u64, max: u64, default: Option<u64>) -> u64 {
        if default.is_none() {
            self.require(key, &min.max(1).to_string());
        }
        self.parsed(key, |text| number(text, min, max))
            .or(default)
            .unwrap_or(min)
    }

    /// On or off.
    pub(super) fn flag(&mut self, key: &str) -> bool {
        self.parsed(key, |text| match text {
            "on" | "true" | "yes" | "1" => Ok(true),
            "off" | "false" | "no" | "0" => Ok(false),
            _ => Err(format!("`{text}` is neither `on` nor `off`")),
        })
        .unwrap_or(false)
    }

    /// One of several words.
    pub(super) fn choice<T: Copy>(&mut self, key: &str, words: &[(&str, T)]) -> Option<T> {
        self.parsed(key, |text| one_of(text, words))
    }

    /// Complains where `key` is missing.
    pub(super) fn require(&mut self, key: &str, example: &str) {
        if !self.has(key) {
            let message = format!(
                "{key} is missing; write for example `{}`",
                assignment(key, example)
            );
            self.problems.push(Problem {
                place: self.table_of(key),
                message,
                kind: ProblemKind::Missing,
            });
        }
    }

    fn table_of(&self, key: &str) -> LineColumn {
        let table = key.split('.').next().unwrap_or_default();
        self.keys
            .tables
            .get(table)
            .copied()
            .unwrap_or(LineColumn::START)
    }

    fn unknown(&self, key: &str) -> String {
        let Some((table, name)) = key.split_once('.') else {
            return self.unknown_without_table(key);
        };
        let known = self
            .asked
            .iter()
            .filter_map(|asked| asked.strip_prefix(table)?.strip_prefix('.'));
        let kind = self.keys.entries.get(&format!("{table}.kind"));
        let kind = kind.map_or(String::new(), |kind| format!(" of kind `{}`", kind.text));
        if !TABLES.contains(&table) {
            return unknown("table", table, TABLES.iter().copied());
        }
        unknown(&format!("key in [{table}]{kind}:"), name, known)
    }

    /// A key without its table: those that end so are meant, or the nearest that there are.
    fn unknown_without_table(&self, key: &str) -> String {
        let mut known = self.asked.clone();
        if base::find_knob(key).is_ok() {
            known.extend(["client", "server"].map(|host| format!("{host}.{key}")));
        }
        let last = |full: &'_ str| full.rsplit_once('.').map(|(_, last)| last.to_owned());
        let ends: BTreeSet<String> = known.iter().filter_map(|full| last(full)).collect();
        let is_short = key.len() <= SHOWN_MAX;
        let near = || nearest(key, ends.iter().map(String::as_str)).map(str::to_owned);
        let meant = match ends.contains(key) {
            true => Some(key.to_owned()),
            false => Some(()).filter(|()| is_short).and_then(|()| near()),
        };
        let full = known.iter().filter(|full| last(full) == meant);
        let full: Vec<String> = full.map(|full| format!("`{full}`")).collect();
        match (&meant, full.is_empty()) {
            (Some(_), false) => {
                let shown: String = key.chars().take(SHOWN_MAX).collect();
                format!("unknown key `{shown}`; did you mean {}?", full.join(" or "))
            }
            _ => unknown("key", key, TABLES.iter().copied()),
        }
    }
}

/// Tables whose keys are settings.
pub(super) const TABLES: &[&str] = &["path", "client", "server", "workload"];

/// Characters of a mistaken word that are shown.
const SHOWN_MAX: usize = 60;

/// `unknown WHAT `name`; did you mean `…`?`
pub(super) fn unknown<'c>(what: &str, name: &str, known: impl Iterator<Item = &'c str>) -> String {
    let shown: String = name.chars().take(SHOWN_MAX).collect();
    // The distance of long words takes long, and none is meant by them.
    let meant = if shown.len() == name.len() {
        nearest(name, known)
    } else {
        None
    };
    match meant {
        Some(meant) => format!("unknown {what} `{shown}`; did you mean `{meant}`?"),
        None => format!("unknown {what} `{shown}`"),
    }
}

/// Finds the word, or says which there are.
pub(super) fn one_of<T: Copy>(text: &str, words: &[(&str, T)]) -> Result<T, String> {
    if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
        return Ok(*value);
    }
    let names = words.iter().map(|(word, _)| *word);
    let all = names.clone().collect::<Vec<_>>().join(", ");
    Err(match nearest(text.get(..60).unwrap_or(text), names) {
        Some(meant) => format!("unknown `{text}`; did you mean `{meant}`? There are {all}"),
        None => format!("unknown `{text}`; there are {all}"),
    })
}

/// A whole number in a range.
pub(super) fn number(text: &str, min: u64, max: u64) -> Result<u64, String> {
    match text.parse::<u64>() {
        Ok(number) if (min..=max).contains(&number) => Ok(number),
        Ok(_) => Err(format!(
            "{text} is out of range; the range is {min} to {max}"
        )),
        Err(_) => Err(format!(
            "`{text}` is not a whole number from {min} to {max}"
        )),
    }
}

fn assignment(key: &str, example: &str) -> String {
    let name = key.rsplit_once('.').map_or(key, |(_, name)| name);
    format!("{name} = \"{example}\"")
}
