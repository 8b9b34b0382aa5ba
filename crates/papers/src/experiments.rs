//! The five documents and the experiments that stand for what each of them states: a scenario file
//! each, with what was published and what must come out.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::LazyLock;

use base::Diagnostic;
use flate2::read::GzDecoder;
use lab::{Experiment, Scenario, UnknownScenario, Vocabulary};
use serde::{Deserialize, Serialize};

use crate::probe::{PROBES, Probe};

/// A document that describes experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SeedDocument {
    /// `NetBurner`, "Optimizing TCP Configurations: Throughput vs Response Speeds".
    Netburner,
    /// Khalil and Khan 2019, "Exploration of TCP Parameters for Enhanced Performance in a
    /// Datacenter Environment", arXiv 1905.01194.
    Datacenter,
    /// Microsoft KB 214397, "Design issues - Sending small data segments over TCP with Winsock".
    Winsock,
    /// Oppermann 2006, "Automatic TCP Send and Receive Socket Buffer Sizing".
    Freebsd,
    /// Red Hat Enterprise Linux for Real Time 7, Reference Guide, chapter 8: `TCP_NODELAY` and
    /// `TCP_CORK`.
    Cork,
}

impl SeedDocument {
    /// All, by the names that scenario files and the command line use.
    pub const ALL: &[(&'static str, Self)] = &[
        ("netburner", Self::Netburner),
        ("datacenter", Self::Datacenter),
        ("winsock", Self::Winsock),
        ("freebsd", Self::Freebsd),
        ("cork", Self::Cork),
    ];

    /// Document of an experiment; `None` if its file was read without [`vocabulary`] and names an
    /// unknown one.
    #[must_use]
    pub fn of(experiment: &Experiment) -> Option<Self> {
        let mut all = Self::ALL.iter();
        let found = all.find(|(name, _)| *name == experiment.document);
        found.map(|(_, document)| *document)
    }

    /// Name used in scenario files.
    #[must_use]
    pub fn name(self) -> &'static str {
        let named = Self::ALL.iter().find(|(_, document)| *document == self);
        named.map_or("", |(name, _)| name)
    }

    /// Title, for people.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Netburner => {
                "NetBurner: Optimizing TCP Configurations, Throughput vs Response Speeds"
            }
            Self::Datacenter => {
                "Khalil and Khan 2019: Exploration of TCP Parameters for Enhanced Performance in \
                 a Datacenter Environment"
            }
            Self::Winsock => {
                "Microsoft KB 214397: Design issues, Sending small data segments over TCP with \
                 Winsock"
            }
            Self::Freebsd => {
                "Oppermann 2006: Automatic TCP Send and Receive Socket Buffer Sizing (FreeBSD)"
            }
            Self::Cork => {
                "Red Hat Enterprise Linux for Real Time 7, Reference Guide: TCP_NODELAY and \
                 TCP_CORK"
            }
        }
    }
}

/// The scenarios that are experiments, as `build.rs` packs them: name and text of each, and a zero
/// behind either.
const PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/experiments.gz"));

/// The experiments, in the order of the documents.
const NAMES: &[&str] = &[
    "n1",
    "n2",
    "n3x",
    "n4",
    "n4k",
    "n5",
    "n6",
    "n6-lossy",
    "n7a",
    "n7a-records",
    "n7b",
    "n8",
    "n9",
    "n10",
    "n10-stress",
    "n10-traffic",
    "dc21",
    "p1",
    "p1b",
    "p2",
    "p2b",
    "p3",
    "p3b",
    "fig1",
    "p4",
    "p5",
    "fig3",
    "fig3-mtu",
    "p6",
    "p6b",
    "p6c",
    "p7",
    "p8",
    "p9",
    "p10",
    "p11",
    "w1",
    "w2",
    "w3",
    "w4",
    "w5",
    "w6",
    "w7",
    "w8",
    "w9",
    "ws36",
    "f1",
    "f2",
    "f3",
    "f4",
    "f5",
    "f6",
    "f7",
    "f7s",
    "f8",
    "f9",
    "f10",
    "f11",
    "r1",
    "r2",
    "r4",
    "r7",
    "r8",
    "r9",
    "r10",
    "r11",
    "r12",
    "r13",
    "r14",
];

/// The names of the documents, for scenario files.
const DOCUMENTS: &[&str] = &["netburner", "datacenter", "winsock", "freebsd", "cork"];

static TEXTS: LazyLock<String> = LazyLock::new(|| {
    let mut texts = String::new();
    let unpacked = GzDecoder::new(PACKED).read_to_string(&mut texts);
    unpacked.expect("packed by `build.rs`");
    texts
});

static NAMED_TEXTS: LazyLock<Vec<(&'static str, &'static str)>> = LazyLock::new(|| {
    let mut parts = TEXTS.split_terminator('\0');
    let pairs: BTreeMap<_, _> = core::iter::from_fn(|| parts.next().zip(parts.next())).collect();
    let text = |name| *pairs.get(name).expect("a test looks for each");
    NAMES.iter().map(|name| (*name, text(name))).collect()
});

/// The experiments of the seed documents: the name and the text of each.
///
/// # Panics
/// Never: a test reads every one.
#[must_use]
pub fn experiment_texts() -> &'static [(&'static str, &'static str)] {
    &NAMED_TEXTS
}

/// Names that scenario files may use: the probes and the documents.
#[must_use]
pub fn vocabulary() -> Vocabulary {
    Vocabulary {
        probes: PROBES.iter().map(Probe::spec).collect(),
        documents: DOCUMENTS,
    }
}

/// Reads a scenario file that may be an experiment, and may have a probe; `file` is its name in
/// messages.
///
/// # Errors
/// All mistakes, in the order of the file; at least one.
pub fn read_scenario(file: &str, text: &str) -> Result<Scenario, Vec<Diagnostic>> {
    Scenario::parse_with(file, text, &vocabulary())
}

/// The experiments, in the order of the documents.
///
/// # Panics
/// Never: a test reads every one.
#[must_use]
pub fn experiment_scenarios() -> Vec<Scenario> {
    let all = experiment_texts().iter();
    all.map(|(name, text)| built_in(name, text)).collect()
}

/// The built-in scenario of this name: an experiment, or one of [`lab::BUILTIN_SCENARIOS`].
///
/// # Errors
/// [`UnknownScenario`] with the nearest name.
pub fn find_scenario(name: &str) -> Result<Scenario, UnknownScenario> {
    let (name, text) = find_scenario_text(name)?;
    Ok(built_in(name, text))
}

/// The name and the text of the built-in scenario of this name.
///
/// # Errors
/// As for [`find_scenario`].
pub fn find_scenario_text(name: &str) -> Result<(&'static str, &'static str), UnknownScenario> {
    lab::find_scenario_text_in(name, experiment_texts())
}

fn built_in(name: &str, text: &str) -> Scenario {
    read_scenario(&format!("{name}.toml"), text).expect("a test reads every built-in scenario")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_experiment_is_valid_and_described() {
        let names = SeedDocument::ALL.iter().map(|(name, _)| *name);
        assert!(names.eq(DOCUMENTS.iter().copied()));
        assert_eq!(
            TEXTS.matches('\0').count(),
            2 * NAMES.len(),
            "each file is named"
        );
        for (name, text) in experiment_texts() {
            let file = format!("scenarios/{name}.toml");
            let scenario = read_scenario(&file, text).unwrap_or_else(|told| {
                let lines: Vec<String> = told.iter().map(ToString::to_string).collect();
                panic!("{}", lines.join("\n"))
            });
            assert_eq!(scenario.name, *name);
            assert!(scenario.about.ends_with('.'), "{name}: about is a sentence");
            assert!(scenario.about.len() <= 80, "{name}: about fits a table");
            assert!(scenario.probe.is_some() || !scenario.trials().is_empty());
            let experiment = scenario.experiment.expect("it is one");
            assert!(SeedDocument::of(&experiment).is_some(), "{name}");
        }
    }

    #[test]
    fn a_misspelt_experiment_is_recognised() {
        let error = find_scenario("n6-losy").expect_err("there is none");
        assert_eq!(error.nearest, Some("n6-lossy"));
        let file = "name = \"a\"\nabout = \"b.\"\n[probe]\nkind = \"freebsd-memori\"\n";
        let told = read_scenario("a.toml", file).expect_err("a mistake");
        assert!(
            told[0].message.contains("did you mean `freebsd-memory`?"),
            "{told:?}"
        );
    }
}
