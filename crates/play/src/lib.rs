//! The lab in a browser: a scenario goes in as text, and what our TCP did goes out as JSON, with
//! the packets of the wire and what the doctor says.
//!
//! It runs the same trials as `tcptailor lab run --engine virtual`, with the same seeds, and so
//! gives the same numbers. Two calls are all that a page needs; see [`answer`] and `browser.rs`.

mod findings;
mod packets;

#[cfg(target_arch = "wasm32")]
mod browser;

use core::sync::atomic::{AtomicBool, Ordering};

use lab::{Cell, EngineName, Outcome, Scenario, Trial, Virtual};
use serde::Serialize;

use self::findings::Finding;
use self::packets::{PacketLog, Packets};

/// Reports of progress after which a run is ended: some millions of steps, which take a browser ten
/// seconds.
const REPORTS_MAX: u32 = 400;
/// Variants that a page shows side by side.
const VARIANTS_MAX: usize = 4;

/// Answer to the page.
#[derive(Debug, Serialize)]
struct Answer {
    schema: &'static str,
    /// Errors in the scenario, one per line; nothing was run if there are any.
    mistakes: Vec<Mistake>,
    variants: Vec<Variant>,
}

/// An error and its position.
#[derive(Debug, Serialize)]
struct Mistake {
    /// The same text as on the command line.
    text: String,
}

/// One variant of the scenario.
#[derive(Debug, Serialize)]
struct Variant {
    /// Empty where the scenario has none.
    name: String,
    seed: u64,
    outcome: Outcome,
    packets: Packets,
    /// The doctor's findings on the same trial, as seen from outside; most important first.
    findings: Vec<Finding>,
    /// Why there are none.
    not_diagnosed: Option<String>,
}

/// Runs every variant of a scenario once and tells what came out, as JSON: the text of a scenario
/// file, as docs/scenarios.md describes it.
#[must_use]
pub fn answer(scenario: &str) -> String {
    let answer = match Scenario::parse("scenario", scenario) {
        Ok(scenario) => run(&scenario),
        Err(diagnostics) => Answer::mistaken(diagnostics.iter().map(ToString::to_string)),
    };
    serde_json::to_string(&answer).expect("plain data")
}

impl Answer {
    fn mistaken(texts: impl IntoIterator<Item = String>) -> Self {
        let mistakes = texts.into_iter().map(|text| Mistake { text });
        Self {
            schema: "tcptailor/play/1",
            mistakes: mistakes.collect(),
            variants: Vec::new(),
        }
    }
}

fn run(scenario: &Scenario) -> Answer {
    let scenario = scenario.on(EngineName::Virtual);
    let cells = scenario.trials();
    if cells.len() > VARIANTS_MAX {
        let text = format!(
            "{} variants are too many: a page shows {VARIANTS_MAX} side by side",
            cells.len()
        );
        return Answer::mistaken([text]);
    }
    Answer {
        variants: cells.iter().map(variant).collect(),
        ..Answer::mistaken([])
    }
}

fn variant(cell: &Cell) -> Variant {
    let trial = cell.run(0);
    let (outcome, packets) = watched(&trial);
    let (findings, not_diagnosed) = match findings::of(&trial) {
        Ok(findings) => (findings, None),
        Err(why) => (Vec::new(), Some(why)),
    };
    Variant {
        name: cell.variant.clone().unwrap_or_default(),
        seed: trial.seed,
        outcome,
        packets,
        findings,
        not_diagnosed,
    }
}

/// The run of `lab run`, and the packets of its wire.
fn watched(trial: &Trial) -> (Outcome, Packets) {
    let stop = AtomicBool::new(false);
    let mut run = Virtual::default().prepare(trial);
    let log = PacketLog::default();
    run.add_taps(|end| log.tap(end));
    let mut reports = 0;
    run.run(&stop, &mut |_| {
        reports += 1;
        if reports == REPORTS_MAX {
            stop.store(true, Ordering::Relaxed);
        }
    });
    (run.finish(&stop), log.packets(&trial.path))
}

#[cfg(test)]
mod tests;
