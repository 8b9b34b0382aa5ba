//! Course of a run, interval by interval: rate, round-trip time, window, retransmissions, limit.

use base::Limit;
use lab::Point;
use linux::workload::{Phase, Sending};
use page::{Cell, Curve, Part, Series, Table, Tone};

use crate::commands::bench::live::Row;
use crate::commands::bench::report::Run;

/// Points of a plot; above, neighbours are one.
const POINTS_MAX: usize = 400;
/// Intervals that are listed.
const LISTED_MAX: usize = 200;

/// One way of the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Up,
    Down,
}

impl Way {
    const fn rate(self, row: &Row) -> Option<u64> {
        match self {
            Self::Up => row.up_bps,
            Self::Down => row.down_bps,
        }
    }

    const fn sending(self, row: &Row) -> Option<Sending> {
        match self {
            Self::Up => row.up,
            Self::Down => row.down,
        }
    }
}

/// The plots of a run, and its intervals as numbers.
pub(super) fn parts(name: &str, run: &Run) -> Vec<Part> {
    let rows: Vec<&Row> = run
        .intervals
        .iter()
        .filter(|row| row.phase != Phase::After)
        .collect();
    let has_operations = rows.iter().any(|row| row.operations_per_s.is_some());
    let goes = |way: Way| rows.iter().any(|row| way.rate(row).is_some());
    let mut parts = Vec::new();
    for (way, title) in [(Way::Up, "to the server"), (Way::Down, "from the server")] {
        // Of operations, one plot: what goes back is as much as the server answers.
        if !goes(way) || (has_operations && way == Way::Down) {
            continue;
        }
        parts.push(Part::Series(Box::new(Series {
            title: format!("{name}: {title}"),
            ..series(way, &rows, has_operations)
        })));
    }
    if rows.iter().any(|row| row.phase == Phase::Warmup) {
        let text = "The warm-up is drawn too; the numbers of the tables leave it out.";
        parts.push(Part::Note(Tone::Muted, text.into()));
    }
    if !parts.is_empty() {
        let title = match rows.len() > LISTED_MAX {
            true => format!("The first {LISTED_MAX} intervals as numbers"),
            false => "Intervals as numbers".into(),
        };
        parts.push(Part::Fold(title, vec![Part::Table(table(&rows))]));
    }
    parts
}

/// Neighbours that are one point.
type Group<'g, 'r> = &'g [&'r Row];

fn series(way: Way, rows: &[&Row], has_operations: bool) -> Series {
    let groups: Vec<Group<'_, '_>> = rows
        .chunks(rows.len().div_ceil(POINTS_MAX).max(1))
        .collect();
    let mut began = 0.0;
    let mut points = Vec::new();
    for group in &groups {
        points.push(point(way, group, began));
        began = group.last().map_or(began, |row| row.end_s);
    }
    let sum = |group: &Group<'_, '_>| {
        let known = group.iter().filter_map(|row| way.sending(row));
        known
            .map(|sending| sending.retransmitted_segments as f64)
            .reduce(|a, b| a + b)
    };
    let curve = |panel, unit, name, values: Vec<Option<f64>>| Curve {
        panel,
        unit,
        name,
        values,
    };
    let mut curves = vec![curve(
        "retransmitted segments",
        "",
        "retransmitted",
        groups.iter().map(sum).collect(),
    )];
    if has_operations {
        let last = |read: fn(&Row) -> Option<f64>| -> Vec<Option<f64>> {
            groups
                .iter()
                .map(|group| group.iter().rev().find_map(|row| read(row)))
                .collect()
        };
        curves.insert(
            0,
            curve(
                "operations per second",
                "",
                "operations/s",
                last(|row| row.operations_per_s),
            ),
        );
        let p50 = last(|row| row.response_p50_us.map(|micros| micros as f64));
        let p99 = last(|row| row.response_p99_us.map(|micros| micros as f64));
        curves.insert(1, curve("response time", "us", "median", p50));
        curves.insert(2, curve("response time", "us", "p99", p99));
    }
    Series {
        points,
        curves,
        ..Series::default()
    }
}

fn point(way: Way, group: Group<'_, '_>, began: f64) -> Point {
    let (mut bits, mut time, mut before) = (0.0, 0.0, began);
    let mut limits = [0.0; Limit::ALL.len()];
    for row in group {
        let length = (row.end_s - before).max(0.0);
        before = row.end_s;
        if let Some(rate) = way.rate(row) {
            bits += rate as f64 * length;
            time += length;
        }
        if let Some(limit) = way.sending(row).and_then(|sending| sending.limit) {
            let place = Limit::ALL.iter().position(|known| *known == limit);
            place.into_iter().for_each(|place| limits[place] += length);
        }
    }
    let longest = limits.iter().enumerate().filter(|(_, time)| **time > 0.0);
    let longest = longest.max_by(|a, b| a.1.total_cmp(b.1));
    let last = group.iter().rev().find_map(|row| way.sending(row));
    Point {
        at_us: (before * 1e6).round() as u64,
        goodput_bps: if time > 0.0 {
            (bits / time).round() as u64
        } else {
            0
        },
        rtt_us: last.and_then(|sending| sending.rtt_us),
        cwnd_bytes: last.and_then(|sending| sending.cwnd_bytes),
        in_flight_bytes: None,
        queue_bytes: None,
        limit: longest.map(|(place, _)| Limit::ALL[place]),
    }
}

fn table(rows: &[&Row]) -> Table {
    let number = |unit, value: Option<u64>| Cell::number(unit, value.map(|value| value as f64));
    let listed = rows.iter().take(LISTED_MAX);
    let row = |row: &&Row| {
        let sending = [row.up, row.down];
        let mut cells = vec![
            Cell::number("", Some(row.end_s)),
            number("bit/s", row.up_bps),
            number("bit/s", row.down_bps),
            Cell::number("", row.operations_per_s),
        ];
        for of_end in sending {
            cells.push(number(
                "",
                of_end.map(|sending| sending.retransmitted_segments),
            ));
            cells.push(number("us", of_end.and_then(|sending| sending.rtt_us)));
            cells.push(number(
                "bytes",
                of_end.and_then(|sending| sending.cwnd_bytes),
            ));
            let limit = of_end.and_then(|sending| sending.limit);
            cells.push(Cell::text(limit.map_or("–", Limit::name)));
        }
        cells
    };
    let head = [
        "until (s)",
        "up",
        "down",
        "operations/s",
        "retransmitted up",
        "RTT up",
        "cwnd up",
        "limit up",
        "retransmitted down",
        "RTT down",
        "cwnd down",
        "limit down",
    ];
    Table {
        caption: "Each interval as both ends reported it.".into(),
        head: head.map(Into::into).into(),
        rows: listed.map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(end_s: f64, up_bps: u64, limit: Limit) -> Row {
        Row {
            end_s,
            phase: Phase::Measured,
            up_bps: Some(up_bps),
            down_bps: None,
            operations_per_s: None,
            response_p50_us: None,
            response_p99_us: None,
            up: Some(Sending {
                retransmitted_segments: 3,
                rtt_us: Some(41_200),
                cwnd_bytes: Some(1 << 20),
                limit: Some(limit),
            }),
            down: None,
        }
    }

    #[test]
    fn a_point_is_an_interval() {
        let rows = [
            row(1.0, 8_000_000, Limit::Congestion),
            row(2.0, 4_000_000, Limit::PeerWindow),
        ];
        let rows: Vec<&Row> = rows.iter().collect();
        let series = series(Way::Up, &rows, false);
        let told: Vec<_> = series
            .points
            .iter()
            .map(|point| (point.at_us, point.goodput_bps, point.limit))
            .collect();
        let expected = [
            (1_000_000, 8_000_000, Some(Limit::Congestion)),
            (2_000_000, 4_000_000, Some(Limit::PeerWindow)),
        ];
        assert_eq!(told, expected);
        assert_eq!(series.curves[0].values, [Some(3.0), Some(3.0)]);
    }

    #[test]
    fn a_day_has_few_points_and_all_bits() {
        let rows: Vec<Row> = (1..=86_400)
            .map(|second| row(f64::from(second), 8_000, Limit::Congestion))
            .collect();
        let rows: Vec<&Row> = rows.iter().collect();
        let series = series(Way::Up, &rows, false);
        assert!(series.points.len() <= POINTS_MAX);
        assert!(series.points.iter().all(|point| point.goodput_bps == 8_000));
        let again: f64 = series.curves[0].values.iter().flatten().sum();
        assert_eq!(again, 3.0 * 86_400.0);
    }
}
