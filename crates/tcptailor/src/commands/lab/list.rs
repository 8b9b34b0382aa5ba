//! The scenarios that are part of the program.

use lab::{BUILTIN_SCENARIOS, FAULTS};
use serde::Serialize;

use crate::exit::Exit;
use crate::output::{self, Output};

#[derive(Serialize)]
struct Row {
    scenario: String,
    about: String,
    variants: Vec<String>,
    /// Variants times the points of the sweep.
    cells: usize,
    runs: u32,
}

pub(crate) fn run(output: &Output) -> anyhow::Result<Exit> {
    let mut rows = Vec::new();
    for (name, _) in BUILTIN_SCENARIOS {
        let scenario = lab::find_scenario(name)?;
        let cells = scenario.trials();
        let mut variants: Vec<String> = cells.iter().filter_map(|c| c.variant.clone()).collect();
        variants.dedup();
        rows.push(Row {
            variants,
            cells: cells.len(),
            runs: scenario.runs,
            scenario: scenario.name,
            about: scenario.about,
        });
    }
    let faults: Vec<&str> = FAULTS.iter().map(|fault| fault.id).collect();
    let document = serde_json::json!({ "scenarios": rows, "faults": faults });
    output.report("lab-list", &document, || render(&rows, faults.len()))?;
    Ok(Exit::Done)
}

fn render(rows: &[Row], faults: usize) -> String {
    let mut table = output::table(&["SCENARIO", "WHAT", "VARIANTS"]);
    for row in rows {
        table.add_row([&row.scenario, &row.about, &row.variants.join(", ")]);
    }
    format!(
        "{}\n`tcptailor lab run SCENARIO` runs one; a file of your own works too.\n\
         There are also {faults} faults to provoke and cure: `tcptailor fit --lab list` lists them,\n\
         `tcptailor lab faults` tries them all.\n",
        output::render(&table)
    )
}
