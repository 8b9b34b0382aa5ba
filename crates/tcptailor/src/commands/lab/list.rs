//! The scenarios that are part of the program.

use lab::{BUILTIN_SCENARIOS, Class, FAULTS};
use papers::experiments::SeedDocument;
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

/// One of the experiments of the published documents.
#[derive(Serialize)]
struct ExperimentRow {
    scenario: String,
    ids: Vec<String>,
    document: SeedDocument,
    class: Class,
    about: String,
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
    let experiments: Vec<ExperimentRow> = papers::experiments::experiment_scenarios()
        .into_iter()
        .filter_map(|scenario| {
            let experiment = scenario.experiment?;
            let document = SeedDocument::of(&experiment)?;
            Some(ExperimentRow {
                scenario: scenario.name,
                ids: experiment.ids,
                document,
                class: experiment.class,
                about: scenario.about,
            })
        })
        .collect();
    let document = serde_json::json!({
        "scenarios": rows,
        "experiments": experiments,
        "faults": faults,
    });
    output.report("lab-list", &document, || {
        render(&rows, &experiments, faults.len())
    })?;
    Ok(Exit::Done)
}

fn render(rows: &[Row], experiments: &[ExperimentRow], faults: usize) -> String {
    let mut table = output::table(&["SCENARIO", "WHAT", "VARIANTS"]);
    for row in rows {
        table.add_row([&row.scenario, &row.about, &row.variants.join(", ")]);
    }
    let mut published = output::table(&["EXPERIMENT", "IDS", "WHAT", "DOCUMENT", "CLASS"]);
    for row in experiments {
        published.add_row([
            row.scenario.as_str(),
            &row.ids.join(" "),
            &row.about,
            row.document.name(),
            row.class.name(),
        ]);
    }
    format!(
        "{}\n{}\n`tcptailor lab run SCENARIO` runs one; a file of your own works too.\n\
         `tcptailor lab reproduce EXPERIMENT` runs one beside what was published, `tcptailor lab\n\
         reproduce` all of them.\n\
         There are also {faults} faults to provoke and fix: `tcptailor fit --lab list` lists \
         them,\n\
         `tcptailor lab faults` tries them all.\n",
        output::render(&table),
        output::render(&published)
    )
}
