//! The tables of a scenario that are not settings: claims, published numbers, what makes it an
//! experiment, and overrides.

use toml::de::{DeTable, DeValue};

use super::document::{Key, ParseState, Value};
use super::expect::CostsOf;
use super::experiment::{Class, Experiment, Published};
use super::metric::{Metric, parse_number};
use super::read::{Entry, LineColumn, TABLES, number, one_of, unknown};
use super::{Expectation, Keys, OverrideCondition, Overrides, ProbeSpec, RUNS_MAX, Vocabulary};
use crate::engine::EngineName;

const CLAIM: [&str; 8] = [
    "metric", "variant", "min", "max", "reason", "over", "engines", "costs",
];
/// A list, read apart from these.
const HISTORY: &str = "history";
const PUBLISHED: [&str; 6] = ["metric", "variant", "value", "text", "over", "fitted"];
const EXPERIMENT: [&str; 8] = [
    "ids",
    "document",
    "class",
    "claim",
    "engines",
    "corrections",
    "not_promised",
    "tolerance",
];

const ON_OFF: &[(&str, bool)] = &[("on", true), ("off", false)];

impl ParseState<'_> {
    /// The values of a table whose keys are all known; complains about the others.
    fn entries<const N: usize>(
        &mut self,
        what: &str,
        names: [&str; N],
        table: &DeTable<'_>,
    ) -> [Option<Entry>; N] {
        for (key, _) in table {
            let name = key.get_ref().as_ref();
            let is_known = names.contains(&name) || what == "[[expect]]" && name == HISTORY;
            if !is_known {
                let what = format!("key in {what}:");
                let message = unknown(&what, name, names.iter().copied());
                self.complain(self.lines.of(key), message);
            }
        }
        names.map(|name| {
            let (key, value) = table.get_key_value(name)?;
            self.scalar(name, key, value)
        })
    }

    /// `[probe]`: the probe that stands in place of a path and a workload.
    pub(super) fn probe(&mut self, table: &DeTable<'_>) -> Option<ProbeSpec> {
        let [kind] = self.entries("[probe]", ["kind"], table);
        let Some(kind) = kind else {
            self.complain(LineColumn::START, "probe: write `kind = \"…\"`");
            return None;
        };
        let known = self.vocabulary.probes.iter();
        let known: Vec<(&str, ProbeSpec)> = known.map(|probe| (probe.name, *probe)).collect();
        self.read(&kind, "probe.kind", |text| one_of(text, &known))
    }

    /// The metric of a claim or of a published number; `None` if it is wrong, or if its probe is
    /// unknown.
    fn metric(&mut self, entry: &Entry, probe: Option<ProbeSpec>) -> Option<Metric> {
        if self.probe_is_unknown {
            return None;
        }
        self.read(entry, "metric", |text| Metric::named(text, probe))
    }

    /// One `[[expect]]`.
    pub(super) fn claim(
        &mut self,
        value: &Value<'_>,
        probe: Option<ProbeSpec>,
    ) -> Option<Expectation> {
        let DeValue::Table(table) = value.get_ref() else {
            self.complain(
                self.lines.at(value),
                "expect: write tables headed `[[expect]]`",
            );
            return None;
        };
        let before = self.problems.len();
        let [metric, variant, min, max, reason, over, engines, costs] =
            self.entries("[[expect]]", CLAIM, table);
        let Some(metric) = metric else {
            let message = "expect: write `metric = \"goodput_bps\"` or another one";
            self.complain(self.lines.at(value), message);
            return None;
        };
        let metric = self.metric(&metric, probe)?;
        let is_ratio = over.is_some();
        if is_ratio && variant.is_none() {
            let message = "expect: `over` divides by another variant; write `variant` too";
            self.complain(self.lines.at(value), message);
        }
        let parse = |text: &str| match is_ratio {
            true => parse_number(text),
            false => metric.parse(text),
        };
        let mut bound = |name: &str, entry: &Option<Entry>| {
            entry
                .as_ref()
                .and_then(|entry| self.read(entry, name, parse))
        };
        let (min_value, max_value) = (bound("min", &min), bound("max", &max));
        if min.is_none() && max.is_none() {
            self.complain(self.lines.at(value), "expect: write `min`, `max` or both");
        } else if let (Some(min), Some(max)) = (min_value, max_value)
            && min > max
        {
            self.complain(self.lines.at(value), "expect: `min` is above `max`");
        }
        let engines = self.engines(engines.as_ref());
        if let Some(costs) = costs.as_ref().filter(|_| engines != [EngineName::Virtual]) {
            let message =
                "costs: hosts in virtual time alone have any; write `engines = \"virtual\"`";
            self.complain(costs.key_place, message);
        }
        let costs =
            costs.and_then(|costs| self.read(&costs, "costs", |text| one_of(text, CostsOf::ALL)));
        let history = self.history(table);
        (self.problems.len() == before).then(|| Expectation {
            metric,
            variant: variant.map(|entry| entry.text),
            over: over.map(|entry| entry.text),
            engines,
            costs,
            min: min_value,
            max: max_value,
            reason: reason.map_or(String::new(), |entry| entry.text),
            history,
        })
    }

    /// How the bounds of a claim were changed: a list of sentences that begin with a date.
    fn history(&mut self, table: &DeTable<'_>) -> Vec<String> {
        let Some((key, value)) = table.get_key_value(HISTORY) else {
            return Vec::new();
        };
        let list = match value.get_ref() {
            DeValue::Array(list) => list.iter().map(|one| one.get_ref().as_str()).collect(),
            _ => Vec::new(),
        };
        let is_dated = |text: &&str| text.split_once(": ").is_some_and(|(date, _)| is_date(date));
        let dated: Vec<String> = list
            .iter()
            .filter_map(|text| text.filter(is_dated).map(ToOwned::to_owned))
            .collect();
        if dated.is_empty() || dated.len() < list.len() {
            let message = "expect: write `history = [\"2026-11-22: at most 1.05 before; why\"]`";
            self.complain(self.lines.of(key), message);
        }
        dated
    }

    /// One `[[published]]`.
    pub(super) fn published(
        &mut self,
        value: &Value<'_>,
        probe: Option<ProbeSpec>,
    ) -> Option<Published> {
        let DeValue::Table(table) = value.get_ref() else {
            let message = "published: write tables headed `[[published]]`";
            self.complain(self.lines.at(value), message);
            return None;
        };
        let [metric, variant, number, text, over, fitted] =
            self.entries("[[published]]", PUBLISHED, table);
        let (Some(metric), Some(number), Some(text)) = (metric, number, text) else {
            let message = "published: write `metric`, `value`, and `text` as it is printed";
            self.complain(self.lines.at(value), message);
            return None;
        };
        let metric = self.metric(&metric, probe)?;
        let is_ratio = over.is_some();
        let value = self.read(&number, "value", |text| match is_ratio {
            true => parse_number(text),
            false => metric.parse(text),
        })?;
        Some(Published {
            variant: variant.map(|entry| entry.text),
            over: over.map(|entry| entry.text),
            metric,
            value,
            text: text.text,
            fitted: match fitted {
                Some(fitted) => self.read(&fitted, "fitted", |text| one_of(text, ON_OFF))?,
                None => false,
            },
        })
    }

    /// `[experiment]`, without what was published.
    pub(super) fn experiment(&mut self, key: &Key<'_>, table: &DeTable<'_>) -> Option<Experiment> {
        let entries = self.entries("[experiment]", EXPERIMENT, table);
        for (name, entry) in EXPERIMENT.iter().zip(&entries).take(5) {
            if entry.is_none() {
                let choices = choices(name, self.vocabulary);
                let message = format!("experiment: write `{name} = \"…\"`{choices}");
                self.complain(self.lines.of(key), message);
            }
        }
        let [
            ids,
            document,
            class,
            claim,
            engines,
            corrections,
            not_promised,
            tolerance,
        ] = entries;
        let engines = self.engines(engines.as_ref());
        let (ids, document, class) = (ids?, document?, class?);
        let known = self.vocabulary.documents;
        let known: Vec<(&str, &str)> = known.iter().map(|name| (*name, *name)).collect();
        let document = self.read(&document, "document", |text| match known.is_empty() {
            true => Ok(text.to_owned()),
            false => one_of(text, &known).map(ToOwned::to_owned),
        });
        let class = self.read(&class, "class", |text| one_of(text, Class::ALL));
        Some(Experiment {
            ids: words(&ids.text),
            document: document?,
            class: class?,
            tolerance: tolerance.and_then(|entry| self.read(&entry, "tolerance", parse_share)),
            claim: claim?.text,
            engines,
            corrections: corrections.map_or(Vec::new(), |entry| words(&entry.text)),
            not_promised: not_promised.map(|entry| entry.text),
            published: Vec::new(),
        })
    }

    /// Names of engines, apart by commas or spaces.
    pub(super) fn engines(&mut self, entry: Option<&Entry>) -> Vec<EngineName> {
        let Some(entry) = entry else {
            return Vec::new();
        };
        let read: Vec<Option<EngineName>> = words(&entry.text)
            .iter()
            .map(|word| {
                let parse = |_: &str| word.parse::<EngineName>().map_err(|e| e.to_string());
                self.read(entry, "engines", parse)
            })
            .collect();
        read.into_iter().flatten().collect()
    }

    /// `[on]`: a table for each engine.
    pub(super) fn on(&mut self, value: &Value<'_>, of_variant: bool) -> Vec<Overrides> {
        let DeValue::Table(table) = value.get_ref() else {
            let message = "on: write tables headed `[on.kernel.workload]` and the like";
            self.complain(self.lines.at(value), message);
            return Vec::new();
        };
        let mut all = Vec::new();
        for (key, value) in table {
            match key.get_ref().parse::<EngineName>() {
                Ok(engine) => {
                    all.push(self.overrides(OverrideCondition::On(engine), value, of_variant));
                }
                Err(error) => self.complain(self.lines.of(key), format!("on: {error}")),
            }
        }
        all
    }

    /// Settings that apply to one engine or to quick runs: knobs and, at the top level, the number
    /// of runs, the sweep, and in `[quick]` the engines.
    pub(super) fn overrides(
        &mut self,
        when: OverrideCondition,
        value: &Value<'_>,
        of_variant: bool,
    ) -> Overrides {
        let mut overrides = Overrides {
            when,
            keys: Keys::default(),
            axes: Vec::new(),
            runs: None,
            engines: Vec::new(),
        };
        let DeValue::Table(table) = value.get_ref() else {
            self.complain(self.lines.at(value), "write a table of settings");
            return overrides;
        };
        for (key, value) in table {
            match (key.get_ref().as_ref(), value.get_ref()) {
                (word, _) if TABLES.contains(&word) || word == "seed" => {
                    self.flatten(&mut overrides.keys, word, key, value);
                }
                ("runs", _) if !of_variant => {
                    let runs = self.scalar("runs", key, value);
                    overrides.runs = runs
                        .and_then(|runs| self.read(&runs, "runs", |t| number(t, 1, RUNS_MAX)))
                        .and_then(|runs| u32::try_from(runs).ok());
                }
                ("engines", _) if !of_variant && when == OverrideCondition::Quick => {
                    let engines = self.scalar("engines", key, value);
                    overrides.engines = self.engines(engines.as_ref());
                }
                ("sweep", DeValue::Table(sweep)) if !of_variant => {
                    overrides.axes = self.axes("", sweep);
                    self.check_axes(&overrides.axes);
                }
                (word, _) => {
                    let known = TABLES.iter().copied();
                    let known = known.chain(["seed", "runs", "sweep", "engines"]);
                    let message = unknown("key in [on] or [quick]:", word, known);
                    self.complain(self.lines.of(key), message);
                }
            }
        }
        overrides
    }
}

/// `2026-11-22`
fn is_date(text: &str) -> bool {
    let form = "0000-00-00";
    text.len() == form.len()
        && text.chars().zip(form.chars()).all(|(c, of)| match of {
            '0' => c.is_ascii_digit(),
            _ => c == of,
        })
}

/// Parses a percentage between zero and all, such as `3%`.
fn parse_share(text: &str) -> Result<f64, String> {
    let share = Metric::StalledShare.parse(text)?;
    match share > 0.0 && share < 1.0 {
        true => Ok(share),
        false => Err(format!("`{text}` is not between 0 % and 100 %")),
    }
}

/// Splits at commas and spaces.
fn words(text: &str) -> Vec<String> {
    text.split([',', ' '])
        .filter(|word| !word.is_empty())
        .map(ToOwned::to_owned)
        .collect()
}

/// `: one of A, B`, where a key of `[experiment]` has few values.
fn choices(key: &str, vocabulary: &Vocabulary) -> String {
    let names: Vec<&str> = match key {
        "document" if !vocabulary.documents.is_empty() => vocabulary.documents.to_vec(),
        "class" => Class::ALL.iter().map(|(name, _)| *name).collect(),
        "engines" => {
            let engines = EngineName::ALL.map(EngineName::name);
            return format!(": some of {}", engines.join(", "));
        }
        _ => return String::new(),
    };
    format!(": one of {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use crate::app::HostCosts;
    use crate::scenario::{CostsOf, ProbeSpec, Scenario, Vocabulary};

    fn vocabulary() -> Vocabulary {
        let memory = ProbeSpec {
            name: "memory",
            about: "What connections cost.",
            figures: &["used_bytes"],
        };
        Vocabulary {
            probes: vec![memory],
            documents: &["manual", "paper"],
        }
    }

    #[test]
    fn what_follows_from_an_unknown_probe_is_not_told() {
        let check = |probe: &str, expected: &[&str]| {
            let text = format!(
                "name = \"a\"\nabout = \"b\"\n{probe}\n[[expect]]\nmetric = \"steps\"\nmin = 9\n"
            );
            let told = Scenario::parse_with("a.toml", &text, &vocabulary());
            let told = told.expect_err("a mistake");
            let told: Vec<&str> = told.iter().map(|told| told.message.as_str()).collect();
            assert_eq!(told.len(), expected.len(), "{told:?}");
            for (told, expected) in told.iter().zip(expected) {
                assert!(told.contains(expected), "{told}");
            }
        };
        let meant = "did you mean `memory`?";
        check("[probe]\nkind = \"memori\"", &[meant]);
        check("[probe]", &["probe: write `kind"]);
        check("probe = 1", &["probe: write a table"]);
    }

    #[test]
    fn a_document_is_one_of_those_that_are_known_where_any_are() {
        let text = "name = \"a\"\nabout = \"b\"\n[path]\nkind = \"loopback\"\n[workload]\n\
                    kind = \"bulk\"\nduration = \"1s\"\n[experiment]\nids = \"X1\"\n\
                    document = \"papre\"\nclass = \"shape\"\nclaim = \"c\"\nengines = \"virtual\"\n";
        let told = Scenario::parse_with("a.toml", text, &vocabulary()).expect_err("a mistake");
        assert!(
            told[0].message.contains("did you mean `paper`?"),
            "{told:?}"
        );
        let read = Scenario::parse("a.toml", text).expect("whatever it names");
        assert_eq!(read.experiment.expect("it is one").document, "papre");
    }

    #[test]
    fn a_changed_bound_carries_its_history() {
        let check = |history: &str, expected: Result<&[&str], &str>| {
            let text = format!(
                "name = \"a\"\nabout = \"b\"\n[path]\nkind = \"loopback\"\n[workload]\n\
                 kind = \"bulk\"\nduration = \"1s\"\n[[expect]]\nmetric = \"goodput_bps\"\n\
                 min = \"1mbit\"\n{history}\n"
            );
            let read = Scenario::parse_with("a.toml", &text, &vocabulary());
            match (read, expected) {
                (Ok(scenario), Ok(expected)) => {
                    assert_eq!(scenario.expectations[0].history, expected);
                }
                (Err(told), Err(expected)) => {
                    assert!(told[0].message.contains(expected), "{told:?}");
                }
                (read, _) => panic!("{history}: {:?}", read.map(|_| ())),
            }
        };
        let written = "expect: write `history = [";
        check("", Ok(&[]));
        check(
            "history = ['2026-11-22: 2 before; r']",
            Ok(&["2026-11-22: 2 before; r"]),
        );
        check("history = '2026-11-22: 2 before; r'", Err(written));
        check("history = ['last week: 2 before']", Err(written));
        check("history = ['2026-11-22: a', 5]", Err(written));
        check("history = []", Err(written));
        check("histroy = []", Err("unknown key in [[expect]]"));
    }

    #[test]
    fn costs_are_of_hosts_in_virtual_time() {
        let read = |engines: &str, costs: &str| {
            let text = format!(
                "name = \"a\"\nabout = \"b\"\n[path]\nkind = \"loopback\"\n[workload]\n\
                 kind = \"bulk\"\nduration = \"1s\"\n[[expect]]\nmetric = \"goodput_bps\"\n\
                 min = \"1mbit\"\nengines = \"{engines}\"\ncosts = \"{costs}\"\n"
            );
            let read = Scenario::parse_with("a.toml", &text, &vocabulary());
            read.map(|scenario| scenario.expectations[0].clone())
        };
        let claim = read("virtual", "measured").expect("it has costs");
        assert!(claim.applies_with(CostsOf::Measured) && !claim.applies_with(CostsOf::Usual));
        let measured = HostCosts {
            system_call: core::time::Duration::from_nanos(273),
            ..HostCosts::linux()
        };
        assert_eq!(CostsOf::of(&measured), CostsOf::Measured);
        assert_eq!(CostsOf::of(&HostCosts::linux()), CostsOf::Usual);
        for (engines, costs) in [
            ("kernel", "usual"),
            ("virtual, tun", "usual"),
            ("virtual", "own"),
        ] {
            assert!(read(engines, costs).is_err(), "{engines} {costs}");
        }
    }

    #[test]
    fn what_is_missing_in_an_experiment_is_told_with_its_choices() {
        let text = "name = \"a\"\nabout = \"b\"\n[experiment]\nids = \"X1\"\nclaim = \"c\"\n";
        let told = Scenario::parse_with("a.toml", text, &vocabulary()).expect_err("a mistake");
        let told: Vec<String> = told.iter().map(ToString::to_string).collect();
        let told = told.join("\n");
        for part in [
            "write `document = \"…\"`: one of manual, paper",
            "write `class = \"…\"`: one of exact, value, calibrated, shape, deviates",
            "write `engines = \"…\"`: some of virtual, kernel, tun, tun-receiver",
        ] {
            assert!(told.contains(part), "{told}");
        }
    }
}
