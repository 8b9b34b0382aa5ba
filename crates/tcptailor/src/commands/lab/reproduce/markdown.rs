//! The answer as a page of Markdown, for the documentation: what the screen shows, whole.

use std::fmt::Write as _;

use base::human;
use papers::evaluation::{ExperimentResult, Reproduction};
use papers::figures::{Drawing, push_table};

use super::cells::{Cells, counts, remarks};
use super::duration;

/// `origin` tells where and when it was made.
pub(super) fn render(document: &Reproduction, origin: &[(String, String)]) -> String {
    let summary = &document.summary;
    let runs = human::count(summary.runs as u64, "run");
    // How long runs of an earlier time took is not known.
    let elapsed = match summary.runs_found {
        0 => format!(" in {}", human::long_time(duration(summary.elapsed_s))),
        _ => String::new(),
    };
    let origin: Vec<String> = origin
        .iter()
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    let mut text = format!(
        "# What came out\n\nWritten by `tcptailor lab reproduce --show DIR --markdown`; \
         [reproduce.md](reproduce.md) says how to read it.\n\n{}; {runs}{elapsed}.\n\n{}: {}.\n",
        origin.join(", "),
        human::count(document.experiments.len() as u64, "experiment"),
        counts(summary),
    );
    let mut last = None;
    for experiment in &document.experiments {
        if last != Some(experiment.document) {
            write!(text, "\n## {}\n", experiment.document.title()).expect("a String grows");
        }
        last = Some(experiment.document);
        push_experiment(&mut text, experiment, document);
    }
    text
}

fn push_experiment(text: &mut String, experiment: &ExperimentResult, document: &Reproduction) {
    write!(
        text,
        "\n### {}\n\n{} Claim: {}\n",
        experiment.ids.join(", "),
        experiment.about,
        experiment.claim
    )
    .expect("a String grows");
    if !experiment.rows.is_empty() {
        let cells = Cells::of(experiment, true);
        let header = cells.header.iter().map(|name| name.to_lowercase());
        let rows = cells.rows.into_iter().map(|row| {
            let places = row
                .into_iter()
                .map(|place| place.replace('|', "\\|").replace('\n', "<br>"));
            places.collect()
        });
        push_table(text, header.collect(), rows.collect());
    }
    for drawing in experiment.drawings.iter().map(Drawing::markdown) {
        write!(text, "\n{drawing}").expect("a String grows");
    }
    for diagram in &experiment.diagrams {
        let (title, packets) = (&diagram.title, diagram.text());
        write!(text, "\n{title}:\n\n```text\n{packets}```\n").expect("a String grows");
    }
    write!(
        text,
        "\n**{}** ({}): {}\n",
        experiment.verdict.words(),
        experiment.class.name(),
        experiment.why
    )
    .expect("a String grows");
    for (at, remark) in remarks(experiment, &document.summary.missing)
        .iter()
        .enumerate()
    {
        let gap = if at == 0 { "\n" } else { "" };
        writeln!(text, "{gap}- {remark}").expect("a String grows");
    }
}
