//! A figure of a document as text: bars of throughput with the round-trip times beside them, or a
//! field of numbers.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, ColumnConstraint, Width};
use lab::EngineName;
use lab::show::show_value;
use papers::diagrams::PacketDiagram;
use papers::figures::{Drawing, DrawnSpot};

use crate::output;

/// Columns of the longest bar.
const BAR_COLUMNS: usize = 30;
/// Filled by eighths.
const EIGHTHS: [char; 9] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];
/// From low to high.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Mark of a published rate among the bars.
const MARK: char = '┊';

/// Adds the figure.
pub(super) fn push(text: &mut String, drawing: &Drawing) {
    let bold = output::Paint::BOLD;
    output::push_wrapped(text, &format!("{bold}{}{bold:#}", drawing.title), "  ", 0);
    let engines = EngineName::ALL.into_iter();
    for engine in engines {
        let spots = drawing.spots.iter();
        let spots: Vec<&DrawnSpot> = spots.filter(|spot| spot.engine == engine).collect();
        if spots.is_empty() {
            continue;
        }
        text.push_str(&match drawing.is_field {
            true => field(drawing, engine, &spots),
            false => bars(drawing, engine, &spots),
        });
    }
    if drawing.is_field {
        let words = "In each place the goodput, and the mean and the 99th percentile of the RTT.";
        output::push_wrapped(text, words, "  ", 0);
    }
    if !drawing.published.is_empty() {
        let published = drawing.published.iter();
        let published =
            published.map(|(value, of)| format!("{} {of}", show_value("bit/s", *value)));
        let published: Vec<String> = published.collect();
        let words = format!("{MARK} published: {}", published.join(", "));
        output::push_wrapped(text, &words, "  ", 0);
    }
}

/// Adds the first packets of a run.
pub(super) fn push_diagram(text: &mut String, diagram: &PacketDiagram) {
    let bold = output::Paint::BOLD;
    let title = format!("{bold}{}: {}{bold:#}", diagram.variant, diagram.title);
    output::push_wrapped(text, &title, "  ", 0);
    text.push_str(&diagram.text());
}

/// The largest rate of the picture, on any engine, published ones included.
fn top(drawing: &Drawing) -> f64 {
    let measured = drawing.spots.iter().filter_map(|spot| spot.goodput_bps);
    let published = drawing.published.iter().map(|(value, _)| *value);
    measured.chain(published).fold(1.0, f64::max)
}

fn number(unit: &str, value: Option<f64>) -> String {
    value.map_or_else(|| "–".into(), |value| show_value(unit, value))
}

/// A row for each place: a bar, its number, and both round-trip times.
fn bars(drawing: &Drawing, engine: EngineName, spots: &[&DrawnSpot]) -> String {
    let top = top(drawing);
    let marks: Vec<usize> = drawing
        .published
        .iter()
        .map(|(value, _)| (value / top * BAR_COLUMNS as f64) as usize)
        .collect();
    let has_lines = !drawing.line.is_empty();
    let engine = format!("{} GOODPUT", engine.name().to_uppercase());
    let (x, line) = (drawing.x.to_uppercase(), drawing.line.to_uppercase());
    let mut header = vec![x.as_str()];
    header.extend(has_lines.then_some(line.as_str()));
    header.extend([engine.as_str(), "", "RTT MEAN", "RTT P99"]);
    let mut table = output::table(&header);
    for spot in spots {
        let mut cells = vec![spot.x.clone()];
        cells.extend(has_lines.then(|| spot.line.clone()));
        cells.push(bar(spot.goodput_bps.unwrap_or(0.0) / top, &marks));
        cells.push(number("bit/s", spot.goodput_bps));
        cells.push(number("us", spot.rtt_mean_us));
        cells.push(number("us", spot.rtt_p99_us));
        table.add_row(cells);
    }
    let first = 1 + usize::from(has_lines);
    output::align_right(&mut table, &[first + 1, first + 2, first + 3]);
    if let Some(column) = table.column_mut(first) {
        let width = Width::Fixed(BAR_COLUMNS as u16 + 2);
        column.set_constraint(ColumnConstraint::Absolute(width));
    }
    output::render(&table)
}

/// A bar of a share of the whole width, with marks where nothing is drawn or half a place is.
fn bar(share: f64, marks: &[usize]) -> String {
    let eighths = (share.clamp(0.0, 1.0) * (BAR_COLUMNS * 8) as f64).round() as usize;
    let mut bar: Vec<char> = (0..BAR_COLUMNS)
        .map(|column| EIGHTHS[eighths.saturating_sub(column * 8).min(8)])
        .collect();
    for &mark in marks {
        if let Some(place) = bar.get_mut(mark)
            && *place == ' '
        {
            *place = MARK;
        }
    }
    let bar: String = bar.into_iter().collect();
    bar.trim_end().to_owned()
}

/// A row for each line, a column for each place.
fn field(drawing: &Drawing, engine: EngineName, spots: &[&DrawnSpot]) -> String {
    let top = top(drawing);
    let (columns, rows) = drawing.places_on(engine);
    let corner = format!("{} / {}", drawing.line, drawing.x).to_uppercase();
    let header: Vec<&str> = [corner.as_str()]
        .into_iter()
        .chain(columns.iter().copied())
        .collect();
    let mut table = output::table(&header);
    for line in rows {
        let places = columns.iter().map(|x| {
            let mut spots = spots.iter();
            let found = spots.find(|spot| spot.line == line && spot.x == *x);
            found.map_or_else(String::new, |spot| place(spot, top))
        });
        let cells = [line.to_owned()].into_iter().chain(places);
        table.add_row(cells.collect::<Vec<_>>());
    }
    for index in 1..header.len() {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut text = format!("{}\n", engine.name().to_uppercase());
    write!(text, "{}", output::render(&table)).expect("a String grows");
    text
}

/// `▇ 9.56 Gbit/s`, and below it both round-trip times.
fn place(spot: &DrawnSpot, top: f64) -> String {
    let Some(goodput) = spot.goodput_bps else {
        return "–".into();
    };
    let level = (goodput / top * LEVELS.len() as f64).ceil() as usize;
    let level = LEVELS[level.clamp(1, LEVELS.len()) - 1];
    let rtts = match spot.rtt_mean_us.zip(spot.rtt_p99_us) {
        Some((mean, p99)) => format!("\n{}", lab::show::show_range("us", mean, p99)),
        None => String::new(),
    };
    format!("{level} {}{rtts}", show_value("bit/s", goodput))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spot(line: &str, x: &str, mbit: f64) -> DrawnSpot {
        DrawnSpot {
            engine: EngineName::Virtual,
            line: line.into(),
            x: x.into(),
            runs: 1,
            goodput_bps: Some(mbit * 1e6),
            rtt_mean_us: Some(1_600.0),
            rtt_p99_us: (x != "1MiB").then_some(2_700.0),
        }
    }

    fn text(line: &str, is_field: bool, spots: Vec<DrawnSpot>) -> String {
        let mut text = String::new();
        let drawing = Drawing {
            id: "FIG1".into(),
            title: "Figure 1".into(),
            x: if is_field { "MTU" } else { "buffer" }.into(),
            line: line.into(),
            is_field,
            published: vec![(501e6, "with default buffers".into())],
            spots,
        };
        push(&mut text, &drawing);
        anstream::adapter::strip_str(&text).to_string()
    }

    #[test]
    fn bars_have_the_published_rate_among_them() {
        let spots = vec![
            spot("", "64KiB", 200.0),
            spot("", "1MiB", 956.0),
            DrawnSpot {
                goodput_bps: None,
                ..spot("", "2MiB", 0.0)
            },
        ];
        insta::assert_snapshot!(text("", false, spots));
    }

    #[test]
    fn a_field_has_a_row_for_each_line() {
        let spots = vec![
            spot("256KiB", "1500", 810.0),
            spot("256KiB", "9000", 710.0),
            spot("4MiB", "1500", 9_560.0),
        ];
        insta::assert_snapshot!(text("buffer", true, spots));
    }
}
