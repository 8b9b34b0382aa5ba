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
