//! The results as a page: what `--html` writes.

mod course;
#[cfg(test)]
mod tests;

use lab::stats::median;
use lab::{ResponseMicros, SenderOutcome};
use page::{Bar, BarGroup, Bars, Cell, Page, Part, Range, Ranges, Section, Table, Tile, Tone};

use super::report::{self, Comparison, Document, Metric, Run, Spread, Variant};
use crate::output;

/// Variants that have plots over time.
const PLOTS_MAX: usize = 16;
/// Plots over time that stand open; more are folded away.
const PLOTS_OPEN: usize = 2;

pub(super) fn render(document: &Document, command: &str) -> String {
    let mut sections = vec![results(document)];
    sections.extend(latency(document));
    sections.extend(over_time(document));
    let mut facts = vec![
        ("command".to_owned(), command.to_owned()),
        ("host".to_owned(), document.remote.clone()),
    ];
    facts.extend(output::provenance());
    let interruption = document.interruption();
    let mut parts = vec![Part::Tiles(tiles(document))];
    parts.extend(interruption.map(|what| Part::Note(Tone::Doubt, what)));
    page::render(&Page {
        title: format!("Bench against {}", document.remote),
        lead: format!("{}.", report::heading(document)),
        facts,
        parts,
        sections,
    })
}

const fn unit_of(metric: Metric) -> &'static str {
    match metric {
        Metric::GoodputBps => "bit/s",
        Metric::OperationsPerS => "",
        Metric::ResponseP50Us => "us",
    }
}

/// The most important numbers: those of the first variant, which is named where there are others.
fn tiles(document: &Document) -> Vec<Tile> {
    let of_first = match document.variants.as_slice() {
        [first, _, ..] => format!(", {}", first.name),
        _ => String::new(),
    };
    let tile = |name: &str, number: Option<String>| {
        number.map(|number| Tile {
            number,
            name: name.into(),
            tone: Tone::Plain,
        })
    };
    let micros = |times: Option<ResponseMicros>| times.map(|times| base::human::micros(times.p50));
    let first = document.variants.first();
    let spread =
        |of: fn(&Variant) -> Option<Spread>| first.and_then(of).map(|spread| spread.median);
    let goodput = spread(|variant| variant.goodput_bps);
    let operations = spread(|variant| variant.operations_per_s);
    let shown = [
        tile(
            &format!("goodput{of_first}"),
            goodput.map(|bps| lab::show::show_value("bit/s", bps)),
        ),
        tile(
            &format!("operations per second{of_first}"),
            operations.map(|rate| lab::show::show_value("", rate.round())),
        ),
        tile(
            &format!("response, median{of_first}"),
            micros(first.and_then(|variant| variant.response_us)),
        ),
        tile(
            "RTT between the programs, idle",
            micros(document.rtt_idle_us),
        ),
        tile(
            &format!("the same under load{of_first}"),
            micros(first.and_then(|variant| variant.rtt_loaded_us)),
        ),
    ];
    shown.into_iter().flatten().collect()
}

/// Numbers of all variants, and how they compare.
fn results(document: &Document) -> Section {
    let mut parts = vec![Part::Table(numbers(document))];
    if document.variants.len() > 1 {
        parts.push(Part::Bars(bars(document)));
    }
    if !document.comparisons.is_empty() {
        parts.push(Part::Table(comparisons(document)));
    }
    Section {
        title: "Results".into(),
        parts,
    }
}

/// A column of the table of variants: its name, its unit, and how it is read.
type Column = (&'static str, &'static str, fn(&Variant) -> Option<f64>);

const COLUMNS: [Column; 13] = [
    ("goodput", "bit/s", |v| Some(v.goodput_bps?.median)),
    ("95 % CI from", "bit/s", |v| Some(v.goodput_bps?.low)),
    ("to", "bit/s", |v| Some(v.goodput_bps?.high)),
    ("operations/s", "", |v| Some(v.operations_per_s?.median)),
    ("95 % CI from", "", |v| Some(v.operations_per_s?.low)),
    ("to", "", |v| Some(v.operations_per_s?.high)),
    ("response p50", "us", |v| Some(v.response_us?.p50 as f64)),
    ("p90", "us", |v| Some(v.response_us?.p90 as f64)),
    ("p99", "us", |v| Some(v.response_us?.p99 as f64)),
    ("worst", "us", |v| Some(v.response_us?.max as f64)),
    ("data segments", "", |v| sent(v, |sent| sent.data_segments)),
    ("retransmitted", "", |v| {
        sent(v, |sent| sent.retransmitted_segments)
    }),
    ("sent up", "bit/s", both_ways),
];

/// Sum of both ends; the median of the runs.
fn sent(variant: &Variant, of: fn(&SenderOutcome) -> u64) -> Option<f64> {
    let of_run = |run: &Run| {
        let ends = [run.client_sent.as_ref(), run.server_sent.as_ref()];
        // Another host may have said any number.
        let known = ends.into_iter().flatten().map(of);
        known.reduce(u64::saturating_add)
    };
    median_of(variant, of_run)
}

/// Rate at the server, for traffic in both directions.
fn both_ways(variant: &Variant) -> Option<f64> {
    median_of(variant, |run| run.up_bps.filter(|_| run.down_bps.is_some()))
}

fn median_of(variant: &Variant, of_run: impl Fn(&Run) -> Option<u64>) -> Option<f64> {
    let known = variant.runs.iter().filter_map(of_run);
    let values: Vec<f64> = known.map(|n| n as f64).collect();
    median(&values)
}

/// A row for each variant; a number that none of them has is left out, and so is the interval of
/// one run.
fn numbers(document: &Document) -> Table {
    let variants = &document.variants;
    let has_interval = variants.iter().any(|variant| variant.runs.len() > 1);
    let is_shown = |column: &&Column| {
        let is_interval = column.0 == "95 % CI from" || column.0 == "to";
        let is_known = variants.iter().any(|variant| (column.2)(variant).is_some());
        is_known && (has_interval || !is_interval)
    };
    let columns: Vec<&Column> = COLUMNS.iter().filter(is_shown).collect();
    let row = |variant: &Variant| {
        let mut cells = vec![
            Cell::text(variant.name.clone()),
            Cell::number("", Some(variant.runs.len() as f64)),
        ];
        let numbers = columns
            .iter()
            .map(|(_, unit, read)| Cell::number(unit, read(variant)));
        cells.extend(numbers);
        let first = variant.runs.first();
        cells.push(Cell::text(first.map_or_else(String::new, congestion)));
        cells
    };
    let names = columns.iter().map(|(name, _, _)| *name);
    let head = ["variant", "runs"]
        .into_iter()
        .chain(names)
        .chain(["congestion control"]);
    Table {
        caption: "Medians of the runs; response times are those of all operations.".into(),
        head: head.map(Into::into).collect(),
        rows: variants.iter().map(row).collect(),
    }
}

/// `cubic here, bbr there`, or one name for both.
fn congestion(run: &Run) -> String {
    let (here, there) = (&run.client_congestion, &run.server_congestion);
    match here == there {
        true => here.clone(),
        false => format!("{here} here, {there} there"),
    }
}

fn bars(document: &Document) -> Bars {
    let bars = document.variants.iter().filter_map(|variant| {
        let (value, range) = match document.metric {
            Metric::GoodputBps => spread(variant.goodput_bps?),
            Metric::OperationsPerS => spread(variant.operations_per_s?),
            Metric::ResponseP50Us => (variant.response_us?.p50 as f64, None),
        };
        Some(BarGroup {
            name: variant.name.clone(),
            bars: vec![Bar {
                value,
                range,
                ..Bar::default()
            }],
            published: None,
        })
    });
    Bars {
        title: format!(
            "{} by variant, with the interval of the median",
            document.metric.name()
        ),
        unit: unit_of(document.metric),
        groups: bars.collect(),
    }
}

const fn spread(spread: Spread) -> (f64, Option<(f64, f64)>) {
    (spread.median, Some((spread.low, spread.high)))
}

fn comparisons(document: &Document) -> Table {
    let row = |comparison: &Comparison| {
        vec![
            Cell::text(comparison.variant.clone()),
            Cell::number("ratio", Some(comparison.ratio)),
            Cell::number("ratio", Some(comparison.low)),
            Cell::number("ratio", Some(comparison.high)),
            Cell::number("ratio", Some(comparison.p_value)),
            Cell::text(report::verdict(comparison)),
        ]
    };
    let base = document.comparisons.first();
    let base = base.map_or("", |comparison| comparison.base.as_str());
    let head = [
        "variant",
        "ratio",
        "95 % CI from",
        "to",
        "p-value",
        "verdict",
    ];
    Table {
        caption: format!("Compared with {base}, by {}.", document.metric.name()),
        head: head.map(Into::into).into(),
        rows: document.comparisons.iter().map(row).collect(),
    }
}

/// Round trips between the programs, without the test and under its load.
fn latency(document: &Document) -> Option<Section> {
    let idle = document.rtt_idle_us?;
    let is_one = document.variants.len() == 1;
    let loaded = document.variants.iter().filter_map(|variant| {
        let name = match is_one {
            true => "under load".to_owned(),
            false => format!("under load, {}", variant.name),
        };
        Some((name, variant.rtt_loaded_us?))
    });
    let rows: Vec<(String, ResponseMicros)> = [("idle".to_owned(), idle)]
        .into_iter()
        .chain(loaded)
        .collect();
    let cells = |(name, times): &(String, ResponseMicros)| {
        let numbers = [times.p50, times.p90, times.p99, times.max];
        let numbers = numbers.map(|micros| Cell::number("us", Some(micros as f64)));
        [Cell::text(name.clone())]
            .into_iter()
            .chain(numbers)
            .collect()
    };
    let table = Table {
        caption: "Of pings on a second connection, from program to program: they also take the \
                  time until both programs wake up, which operations in quick succession do not."
            .into(),
        head: ["", "median", "p90", "p99", "worst"].map(Into::into).into(),
        rows: rows.iter().map(cells).collect(),
    };
    let ranges = rows.iter().map(|(name, times)| Range {
        name: name.clone(),
        quantiles: [times.p50, times.p90, times.p99, times.max].map(|micros| micros as f64),
    });
    let ranges = Ranges {
        title: "Round trips between the programs".into(),
        unit: "us",
        rows: ranges.collect(),
    };
    Some(Section {
        title: "Latency, idle and loaded".into(),
        parts: vec![Part::Ranges(ranges), Part::Table(table)],
    })
}

/// How the first run of each variant went.
fn over_time(document: &Document) -> Option<Section> {
    let runs = document.variants.iter().filter_map(|variant| {
        let run = variant.runs.first()?;
        Some((variant.name.clone(), course::parts(&variant.name, run)))
    });
    let plots: Vec<(String, Vec<Part>)> = runs
        .filter(|(_, parts)| !parts.is_empty())
        .take(PLOTS_MAX)
        .collect();
    let is_open = plots.len() <= PLOTS_OPEN;
    let parts = plots.into_iter().flat_map(|(name, parts)| match is_open {
        true => parts,
        false => vec![Part::Fold(name, parts)],
    });
    let parts: Vec<Part> = parts.collect();
    (!parts.is_empty()).then(|| Section {
        title: "First run over time".into(),
        parts,
    })
}
