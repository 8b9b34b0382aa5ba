//! Finds experiments by name.

use core::fmt;

use base::knob::nearest;
use lab::Scenario;

use crate::experiments::{SeedDocument, experiment_scenarios, experiment_texts};

/// Longest name for which a similar one is looked for.
const NAME_CHARS_MAX: usize = 60;

/// An experiment with the text of its file.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// The parsed scenario.
    pub scenario: Scenario,
    /// Text of the file.
    pub text: String,
}

/// No document and no experiment has this name. [`fmt::Display`] says which one may be meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownExperiment {
    name: String,
    meant: Option<String>,
    ids: Vec<String>,
}

impl UnknownExperiment {
    /// Hint that lists valid names.
    #[must_use]
    pub fn hint(&self) -> String {
        let documents: Vec<&str> = SeedDocument::ALL.iter().map(|(name, _)| *name).collect();
        format!(
            "name a document ({}), `all`, or some of {}",
            documents.join(", "),
            self.ids.join(" ")
        )
    }
}

impl fmt::Display for UnknownExperiment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown experiment `{}`", self.name)?;
        let Some(meant) = &self.meant else {
            return Ok(());
        };
        write!(f, "; did you mean `{meant}`?")
    }
}

impl core::error::Error for UnknownExperiment {}

/// The experiments that are named, each once, in the order of the documents: by `all`, by a
/// document (`netburner`), a scenario (`n6-lossy`) or a short name (`W2a`, in any case).
///
/// # Errors
/// [`UnknownExperiment`] for the first name that means none.
pub fn chosen<'n>(
    names: impl IntoIterator<Item = &'n str>,
) -> Result<Vec<Chosen>, UnknownExperiment> {
    let all = experiment_scenarios();
    let names: Vec<&str> = names.into_iter().collect();
    let means_none = |name: &&&str| !all.iter().any(|scenario| is_meant(name, scenario));
    if let Some(unknown) = names.iter().find(means_none) {
        return Err(unknown_name(&all, unknown));
    }
    let texts = experiment_texts().iter();
    let texts = texts.map(|(_, text)| (*text).to_owned());
    let pairs = all.into_iter().zip(texts);
    Ok(pairs
        .filter(|(scenario, _)| names.iter().any(|name| is_meant(name, scenario)))
        .map(|(scenario, text)| Chosen { scenario, text })
        .collect())
}

fn is_meant(name: &str, scenario: &Scenario) -> bool {
    let Some(experiment) = &scenario.experiment else {
        return false;
    };
    let is = |known: &str| known.eq_ignore_ascii_case(name);
    is("all")
        || is(&experiment.document)
        || is(&scenario.name)
        || experiment.ids.iter().any(|id| is(id))
}

fn unknown_name(all: &[Scenario], name: &str) -> UnknownExperiment {
    let experiments = all
        .iter()
        .filter_map(|scenario| scenario.experiment.as_ref());
    let ids = experiments
        .flat_map(|experiment| &experiment.ids)
        .map(String::as_str);
    let documents = SeedDocument::ALL.iter().map(|(name, _)| *name);
    let scenarios = all.iter().map(|scenario| scenario.name.as_str());
    let known: Vec<&str> = documents
        .chain(["all"])
        .chain(scenarios)
        .chain(ids.clone())
        .collect();
    let short: String = name.chars().take(NAME_CHARS_MAX).collect();
    let near = nearest(&short, known.into_iter());
    let near = near.or_else(|| nearest(&short.to_ascii_uppercase(), ids.clone()));
    let mut told: Vec<String> = Vec::new();
    for id in ids {
        // Several scenarios may reproduce one.
        if !told.iter().any(|known| known == id) {
            told.push(id.to_owned());
        }
    }
    UnknownExperiment {
        meant: near.map(str::to_owned),
        name: short,
        ids: told,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experiments_have_several_names() {
        let check = |names: &[&str], expected: &[&str]| {
            let found = chosen(names.iter().copied()).expect("they are known");
            let found: Vec<&str> = found.iter().map(|one| one.scenario.name.as_str()).collect();
            assert_eq!(found, expected, "{names:?}");
        };
        check(&["n1"], &["n1"]);
        check(&["W2A", "w2"], &["w2"]);
        check(&["n5", "n1", "N1"], &["n1", "n5"]);
        assert_eq!(
            chosen(["all"]).expect("all").len(),
            experiment_texts().len()
        );
        let cork = chosen(["cork"]).expect("a document");
        let is_cork = |one: &Chosen| {
            let experiment = one.scenario.experiment.as_ref();
            experiment.is_some_and(|experiment| experiment.document == "cork")
        };
        assert!(!cork.is_empty() && cork.iter().all(is_cork));
    }

    #[test]
    fn a_misspelt_name_is_recognised() {
        let check = |name: &str, expected: &str| {
            let error = chosen(["n1", name]).expect_err(name);
            assert_eq!(error.to_string(), expected);
            assert!(error.hint().contains("netburner, datacenter"), "{error:?}");
        };
        check(
            "netburnr",
            "unknown experiment `netburnr`; did you mean `netburner`?",
        );
        check("zzzzzzzz", "unknown experiment `zzzzzzzz`");
        let long = "x".repeat(100_000);
        check(&long, &format!("unknown experiment `{}`", "x".repeat(60)));
        let UnknownExperiment { ids, .. } = chosen(["x"]).expect_err("none");
        let mut once = ids.clone();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), ids.len(), "each is named once: {ids:?}");
    }
}
