//! One table that fits 100 columns: a line for each row, with what it does beside the roofline or
//! the kernel.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::results::Results;
use crate::rows::{REFERENCE, ROOFLINE};

const LABEL_COLUMNS: usize = 20;

/// What a column shows of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Show {
    Median,
    Best,
    /// The median, as a multiple of that of this row at the same MTU.
    RatioTo(&'static str),
}

/// One column.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    /// What stands above it and its neighbours.
    pub(crate) group: String,
    pub(crate) head: &'static str,
    pub(crate) width: usize,
    /// What was measured, the figure, and what of it.
    pub(crate) cell: (String, &'static str, Show),
    pub(crate) scale: f64,
}

fn column(
    group: &str,
    what: &str,
    (head, name, show): (&'static str, &'static str, Show),
) -> Column {
    Column {
        group: group.into(),
        head,
        width: 8,
        cell: (what.into(), name, show),
        scale: 1.0,
    }
}

/// Throughput in both directions and round trips over the bare device.
pub(crate) fn device_columns() -> Vec<Column> {
    let throughput = [
        ("Gbit/s", "gbit_s", Show::Median),
        ("best", "gbit_s", Show::Best),
        ("/core", "gbit_s_per_core", Show::Median),
        ("ratio", "gbit_s_per_core", Show::RatioTo(ROOFLINE)),
    ];
    let ping = [
        ("p50", "p50_us", Show::Median),
        ("p99", "p99_us", Show::Median),
    ];
    let to_stack = throughput.map(|cell| column("kernel -> stack", "kernel_to_stack", cell));
    let from_stack = throughput.map(|cell| column("stack -> kernel", "stack_to_kernel", cell));
    let ping = ping.map(|cell| column("1 byte, us", "ping", cell));
    to_stack.into_iter().chain(from_stack).chain(ping).collect()
}

/// Throughput over the emulated path, for each of what is measured there.
pub(crate) fn path_columns(measured: impl Iterator<Item = (String, String)>) -> Vec<Column> {
    let cells = |(group, what): (String, String)| {
        let median = column(&group, &what, ("Mbit/s", "gbit_s", Show::Median));
        let ratio = column(&group, &what, ("ratio", "gbit_s", Show::RatioTo(REFERENCE)));
        let median = Column {
            width: 7,
            scale: 1e3,
            ..median
        };
        [median, Column { width: 6, ..ratio }]
    };
    measured.flat_map(cells).collect()
}

/// Many connections at once; memory is that of one.
pub(crate) fn crowd_columns() -> Vec<Column> {
    let idle = [
        ("KiB", "memory_kib", Show::Median),
        ("open/s", "opened_per_s", Show::Median),
    ];
    let active = [
        ("Gbit/s", "gbit_s", Show::Median),
        ("/core", "gbit_s_per_core", Show::Median),
        ("fair", "fairness", Show::Median),
        ("KiB", "memory_kib", Show::Median),
    ];
    let idle = idle.map(|cell| column("idle, each", "idle", cell));
    let to_stack = active.map(|cell| column("kernel -> stack", "kernel_to_stack", cell));
    let from_stack = active.map(|cell| column("stack -> kernel", "stack_to_kernel", cell));
    idle.into_iter().chain(to_stack).chain(from_stack).collect()
}

/// The table, and below it what failed, what is missing and what to doubt.
pub(crate) fn render(results: &Results, columns: &[Column]) -> String {
    let mut text = String::new();
    let mut mtu = 0;
    for row in &results.rows {
        if row.mtu != mtu {
            mtu = row.mtu;
            text += &heads(mtu, columns);
        }
        let mut line = format!("{:LABEL_COLUMNS$}", row.label);
        for column in columns {
            let cell = cell(results, (&row.label, row.mtu), column);
            let _ = write!(line, "{cell:>width$}", width = column.width);
        }
        text += line.trim_end();
        text.push('\n');
    }
    text + &notes(results)
}

fn heads(mtu: u32, columns: &[Column]) -> String {
    let mut groups = format!("\n{:LABEL_COLUMNS$}", "");
    for group in columns.chunk_by(|one, next| one.group == next.group) {
        let width = group.iter().map(|column| column.width).sum();
        let _ = write!(groups, "{:>width$}", group[0].group);
    }
    let mut heads = format!("{:LABEL_COLUMNS$}", format!("MTU {mtu}"));
    for Column { head, width, .. } in columns {
        let _ = write!(heads, "{head:>width$}");
    }
    format!("{}\n{}\n", groups.trim_end(), heads.trim_end())
}

fn cell(results: &Results, row: (&str, u32), column: &Column) -> String {
    let (what, name, show) = &column.cell;
    let failures = results.measurements.iter().any(|one| {
        (one.label.as_str(), one.mtu) == row && one.what == *what && one.error.is_some()
    });
    let Some(found) = results.find(row, (what, name)) else {
        return if failures { "FAIL".into() } else { "-".into() };
    };
    let value = match show {
        Show::Median => found.median * column.scale,
        Show::Best => found.best * column.scale,
        Show::RatioTo(label) => match results.find((label, row.1), (what, name)) {
            Some(base) => found.median / base.median,
            None => return "-".into(),
        },
    };
    let mark = if failures && *show == Show::Median {
        "!"
    } else {
        ""
    };
    number(value) + mark
}

/// Three or four digits say all there is to say.
fn number(value: f64) -> String {
    match value {
        1000.0.. => format!("{value:.0}"),
        100.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn notes(results: &Results) -> String {
    let mut text = String::from("\n");
    let [before, after] = &results.load_averages;
    let _ = writeln!(text, "load average {before} before, {after} after");
    for why in &results.skipped {
        let _ = writeln!(text, "skipped: {why}");
    }
    let mut doubts: BTreeMap<(&str, String), usize> = BTreeMap::new();
    for one in &results.measurements {
        let reasons = one.error.iter().map(|why| ("FAIL", why));
        for (kind, why) in reasons.chain(one.caveats.iter().map(|why| ("doubt", why))) {
            let text = format!("{} MTU {}, {}: {why}", one.label, one.mtu, one.what);
            *doubts.entry((kind, text)).or_default() += 1;
        }
    }
    for ((kind, what), times) in doubts {
        let _ = writeln!(text, "{kind}: {what} ({times}x)");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan;
    use crate::results::Measurement;
    use crate::rows::{CROWD, DEVICE, MTUS, PATH, rows};

    fn results(race: u8, whats: &[String]) -> Results {
        let rows = rows(race, &MTUS, "tcptailor");
        let mut results = Results {
            schema: "",
            kernel: String::new(),
            processors: 2,
            load_averages: ["0.10".into(), "0.20".into()],
            settings: BTreeMap::new(),
            skipped: vec!["gvisor: go is not installed".into()],
            rows: Vec::new(),
            measurements: Vec::new(),
        };
        for (index, row) in rows.iter().enumerate() {
            results.measurements.extend(whats.iter().map(|what| {
                Measurement {
                    label: row.label.clone(),
                    mtu: row.mtu,
                    what: what.clone(),
                    repetition: 1,
                    figures: [
                        "gbit_s",
                        "gbit_s_per_core",
                        "p50_us",
                        "p99_us",
                        "memory_kib",
                    ]
                    .map(|name| (name, 123.456 * (index + 1) as f64))
                    .into(),
                    error: None,
                    caveats: Vec::new(),
                }
            }));
        }
        results.summarize(&rows);
        results
    }

    #[test]
    fn every_table_fits_100_columns() {
        let losses = ["0%", "0.1%", "1%"].map(|loss| loss.parse().expect("a fraction"));
        let path = plan::path(&losses);
        let heads = path
            .iter()
            .map(|cell| (cell.head.clone(), cell.what.clone()));
        for (race, cells, columns) in [
            (DEVICE, plan::device(), device_columns()),
            (CROWD, plan::crowd(10_000), crowd_columns()),
            (PATH, plan::path(&losses), path_columns(heads)),
        ] {
            let whats: Vec<String> = cells.into_iter().map(|cell| cell.what).collect();
            let text = render(&results(race, &whats), &columns);
            for line in text.lines() {
                assert!(line.chars().count() <= 100, "{line}");
            }
            // What stands above columns begins with a blank, or it runs into its neighbour.
            for columns in columns.chunk_by(|one, next| one.group == next.group) {
                let width: usize = columns.iter().map(|column| column.width).sum();
                assert!(columns[0].group.len() < width, "{}", columns[0].group);
            }
            let ours = text.lines().find(|line| line.starts_with("tcptailor"));
            assert!(ours.is_some_and(|line| !line.contains("FAIL")), "{text}");
            assert!(
                text.contains("skipped: gvisor: go is not installed"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_failure_is_told_once_with_its_reason_and_marks_what_it_touches() {
        let mut results = results(DEVICE, &["ping".into()]);
        let rows = rows(DEVICE, &MTUS, "tcptailor");
        for repetition in 2..4 {
            results.measurements.push(Measurement {
                label: ROOFLINE.into(),
                mtu: 1500,
                what: "ping".into(),
                repetition,
                figures: BTreeMap::new(),
                error: Some("no echo".into()),
                caveats: Vec::new(),
            });
        }
        results.summarize(&rows);
        let text = render(&results, &device_columns());
        assert!(
            text.contains("FAIL: oracle TSO MTU 1500, ping: no echo (2x)"),
            "{text}"
        );
        let line = text
            .lines()
            .find(|line| line.starts_with(ROOFLINE))
            .expect("its row");
        assert!(line.ends_with('!'), "{line}");
        assert!(line.contains(" - "), "nothing else was measured: {line}");
    }
}
