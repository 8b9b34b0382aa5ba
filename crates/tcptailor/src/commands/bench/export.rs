//! The results of a benchmark as tables for other programs: CSV (RFC 4180) and Markdown.

use std::path::Path;

use base::human;

use super::report::{Document, Run};
use crate::output;

/// Columns of the CSV file; a line per run.
const CSV: &str = "variant,run,goodput_bps,up_bps,down_bps,duration_s,operations_per_s,\
                   response_p50_us,response_p90_us,response_p99_us,response_max_us,\
                   retransmitted_segments,rtt_idle_p50_us,rtt_loaded_p50_us,rtt_loaded_p99_us";

pub(super) fn write_csv(path: &Path, document: &Document) -> anyhow::Result<()> {
    output::write_result(path, &csv(document), CSV)
}

pub(super) fn write_markdown(path: &Path, document: &Document) -> anyhow::Result<()> {
    output::write_result(path, &markdown(document), MARKDOWN)
}

fn csv(document: &Document) -> String {
    let mut text = format!("{CSV}\r\n");
    let idle = document.rtt_idle_us.map(|times| times.p50);
    for variant in &document.variants {
        for (index, run) in variant.runs.iter().enumerate() {
            let times = run.response_us;
            let loaded = run.rtt_loaded_us;
            let cells = [
                Some(quoted(&variant.name)),
                Some((index + 1).to_string()),
                Some(run.goodput_bps.to_string()),
                shown(run.up_bps),
                shown(run.down_bps),
                Some(run.duration_s.to_string()),
                shown(run.operations_per_s),
                shown(times.map(|times| times.p50)),
                shown(times.map(|times| times.p90)),
                shown(times.map(|times| times.p99)),
                shown(times.map(|times| times.max)),
                shown(run.retransmitted_segments()),
                shown(idle),
                shown(loaded.map(|times| times.p50)),
                shown(loaded.map(|times| times.p99)),
            ];
            // What is unknown is empty, never 0.
            let cells: Vec<String> = cells.into_iter().map(Option::unwrap_or_default).collect();
            text.push_str(&cells.join(","));
            text.push_str("\r\n");
        }
    }
    text
}

fn shown<T: ToString>(value: Option<T>) -> Option<String> {
    value.map(|value| value.to_string())
}

/// A name has commas where several values are compared, and may have quotes.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

const MARKDOWN: &str = "| Variant | Runs | Goodput |";

fn markdown(document: &Document) -> String {
    let mut text = format!(
        "{MARKDOWN} Operations/s | p50 | p99 | Retransmitted | RTT idle | RTT loaded p50 | p99 |\n\
         |:--|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n"
    );
    let dash = || "-".to_owned();
    let micros = |us: Option<u64>| us.map_or_else(dash, human::micros);
    for variant in &document.variants {
        let loaded = variant.rtt_loaded_us;
        let retransmitted: Option<u64> = variant.runs.iter().map(Run::retransmitted_segments).sum();
        let cells = [
            format!("`{}`", variant.name.replace('|', "\\|")),
            variant.runs.len().to_string(),
            variant
                .goodput_bps
                .map_or_else(dash, |spread| human::bps(spread.median as u64)),
            variant
                .operations_per_s
                .map_or_else(dash, |spread| format!("{:.1}", spread.median)),
            micros(variant.response_us.map(|times| times.p50)),
            micros(variant.response_us.map(|times| times.p99)),
            retransmitted.map_or_else(dash, |segments| segments.to_string()),
            micros(document.rtt_idle_us.map(|times| times.p50)),
            micros(loaded.map(|times| times.p50)),
            micros(loaded.map(|times| times.p99)),
        ];
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    text
}
