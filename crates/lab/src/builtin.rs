//! Scenarios that are part of the program.

use core::fmt;

use base::knob::nearest;

use crate::agreement::AGREEMENT_SCENARIOS;
use crate::scenario::Scenario;

/// Longest name for which a similar one is looked for.
const NAME_BYTES_MAX: usize = 60;

/// A name with the file of that name.
macro_rules! scenarios {
    ($($name:literal,)*) => {
        &[$((
            $name,
            include_str!(concat!("../scenarios/", $name, ".toml")),
        )),*]
    };
}

/// Every built-in scenario of everyday: its name and its file.
pub const BUILTIN_SCENARIOS: &[(&str, &str)] = scenarios![
    "bursts",
    "database-records",
    "datacenter-10g",
    "datacenter-1g",
    "datacenter-25g",
    "dc-10g",
    "dc-10g-jumbo",
    "dsl-bloat",
    "embedded-lossy",
    "home-25m",
    "home-dsl",
    "lan-request",
    "lan-wwr",
    "lossy-100m",
    "lossy-wan",
    "lte-down",
    "mid-small-writes",
    "quotes",
    "records",
    "rpc-lan",
    "satellite",
    "telnet-keys",
    "transatlantic",
    "transatlantic-10g",
    "video-segments",
    "vpn-backup",
    "wan-bulk",
    "wifi-bursts",
];

/// No built-in scenario has this name. [`fmt::Display`] says which one may be meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownScenario {
    /// The requested name.
    pub name: String,
    /// The nearest name that exists.
    pub nearest: Option<&'static str>,
}

impl fmt::Display for UnknownScenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown scenario `{}`; ", self.name)?;
        match self.nearest {
            Some(nearest) => write!(f, "did you mean `{nearest}`?"),
            None => {
                f.write_str("there are ")?;
                for (index, (name, _)) in BUILTIN_SCENARIOS.iter().enumerate() {
                    write!(f, "{}{name}", if index == 0 { "" } else { ", " })?;
                }
                Ok(())
            }
        }
    }
}

impl core::error::Error for UnknownScenario {}

/// The built-in scenario of this name, one of those for agreement among them.
///
/// # Errors
/// [`UnknownScenario`] with the nearest name.
pub fn find_scenario(name: &str) -> Result<Scenario, UnknownScenario> {
    let (builtin, text) = find_scenario_text(name)?;
    Ok(parse_builtin(builtin, text))
}

/// The name and the text of the built-in scenario of this name.
///
/// # Errors
/// As for [`find_scenario`].
pub fn find_scenario_text(name: &str) -> Result<(&'static str, &'static str), UnknownScenario> {
    find_scenario_text_in(name, &[])
}

/// As [`find_scenario_text`], also among `more`.
///
/// # Errors
/// As for [`find_scenario`].
pub fn find_scenario_text_in(
    name: &str,
    more: &'static [(&'static str, &'static str)],
) -> Result<(&'static str, &'static str), UnknownScenario> {
    let named = || BUILTIN_SCENARIOS.iter().chain(more);
    let found = named()
        .chain(AGREEMENT_SCENARIOS)
        .find(|(known, _)| *known == name);
    if let Some(found) = found {
        return Ok(*found);
    }
    // No name is as long, and to compare it with each would take its time.
    let is_short = name.len() <= NAME_BYTES_MAX;
    let names = named().map(|(known, _)| *known);
    Err(UnknownScenario {
        name: name.into(),
        nearest: is_short.then(|| nearest(name, names)).flatten(),
    })
}

/// A scenario that is part of the program.
pub(crate) fn parse_builtin(name: &str, text: &str) -> Scenario {
    Scenario::parse(&format!("{name}.toml"), text).expect("a test reads every built-in scenario")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_builtin_scenario_is_valid_and_described() {
        for (name, text) in BUILTIN_SCENARIOS {
            let scenario = match Scenario::parse(&format!("scenarios/{name}.toml"), text) {
                Ok(scenario) => scenario,
                Err(diagnostics) => {
                    let lines: Vec<String> = diagnostics.iter().map(|d| d.to_string()).collect();
                    panic!("{}", lines.join("\n"));
                }
            };
            assert_eq!(scenario.name, *name);
            assert!(scenario.about.ends_with('.'), "{name}: about is a sentence");
            assert!(scenario.about.len() <= 80, "{name}: about fits a table");
            assert!(!scenario.trials().is_empty());
        }
        assert!(BUILTIN_SCENARIOS.is_sorted(), "in order, so that lists are");
    }

    #[test]
    fn a_misspelt_scenario_is_recognised() {
        let check = |name: &str, expected: &str| match find_scenario(name) {
            Ok(scenario) => assert_eq!(scenario.name, expected),
            Err(error) => assert!(error.to_string().contains(expected), "{error}"),
        };
        check("wan-bulk", "wan-bulk");
        check("wan-blk", "did you mean `wan-bulk`?");
        check(
            "zzzzzzzzz",
            "there are bursts, database-records, datacenter-10g, ",
        );
        check(&"x".repeat(1_000_000), "there are bursts");
    }
}
