//! What `docs/scenarios.md` says of probes: its tables have all of them, with their figures. And
//! the figures of `docs/datacenter.md` are those of the results beside it.

#[path = "../../lab/tests/markdown/mod.rs"]
mod markdown;

use markdown::{table, words};
use papers::figures::Drawing;
use papers::probe::PROBES;

const DOCUMENT: &str = include_str!("../../../docs/scenarios.md");

#[test]
fn every_probe_is_there_with_its_sentence() {
    for probe in PROBES {
        let row = format!("| `{}` | {} |\n", probe.name, probe.about);
        assert!(DOCUMENT.contains(&row), "docs/scenarios.md lacks {row}");
    }
}

/// `{a,b}_c` stands for `a_c` and `b_c`.
fn unfolded(figure: &str) -> Vec<String> {
    let Some((before, rest)) = figure.split_once('{') else {
        return vec![figure.to_owned()];
    };
    let (names, after) = rest.split_once('}').expect("a brace that is closed");
    let each = names
        .split(',')
        .map(|name| format!("{before}{name}{after}"));
    each.flat_map(|figure| unfolded(&figure)).collect()
}

#[test]
fn every_figure_of_a_probe_is_there() {
    let rows = table(DOCUMENT, "| probe | engines | figures |");
    for probe in PROBES {
        let name = format!("| `{}`", probe.name);
        let row = rows.iter().find(|row| row[0] == name);
        let row = row.unwrap_or_else(|| panic!("docs/scenarios.md lacks {name}"));
        let mut told: Vec<String> = words(row[2])
            .iter()
            .flat_map(|word| unfolded(word))
            .collect();
        told.sort_unstable();
        let mut figures = probe.figures.to_vec();
        figures.sort_unstable();
        assert_eq!(told, figures, "{name}");
    }
}

/// Both are written by `lab reproduce --show DIR --markdown`, this one with `--json`.
#[test]
fn the_figures_of_the_datacenter_paper_are_those_of_the_results() {
    let results = include_str!("../../../docs/datacenter-figures.json");
    let results: serde_json::Value = serde_json::from_str(results).expect("JSON");
    let figures = results["figures"].clone();
    let figures: Vec<Drawing> = serde_json::from_value(figures).expect("figures");
    let ids: Vec<&str> = figures.iter().map(|figure| figure.id.as_str()).collect();
    assert_eq!(ids, ["FIG1", "FIG2", "FIG3", "FIG4"]);
    let document = include_str!("../../../docs/datacenter.md");
    for figure in &figures {
        let table = figure.markdown();
        assert!(document.contains(table.trim()), "it lacks\n{table}");
    }
}
