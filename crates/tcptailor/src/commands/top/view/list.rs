//! The list: a line for each service or connection, in as many columns as there is room for.

use base::human;
use doctor::Side;
use linux::NetnsPlace;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::super::history::SECONDS_EACH;
use super::super::model::Model;
use super::super::rows::{Grouping, Row};
use super::theme::{self, Theme, fitted, right};
use crate::commands::diagnose::document::VerdictRow;
use crate::commands::diagnose::screen;

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    /// The network namespace.
    Where,
    Count,
    Rate,
    Rtt,
    /// Present limit.
    Now,
    /// The last minutes.
    Bar,
    /// The finding, or else what limits it.
    Finding,
}

/// Columns by the width of the screen that they need, the widest first.
const LAYOUTS: &[(usize, &[(Column, usize)])] = &[
    (
        158,
        &[
            (Column::Count, 6),
            (Column::Rate, 12),
            (Column::Rtt, 8),
            (Column::Now, 14),
            (Column::Bar, 24),
            (Column::Finding, 48),
        ],
    ),
    (
        110,
        &[
            (Column::Count, 6),
            (Column::Rate, 12),
            (Column::Rtt, 8),
            (Column::Now, 12),
            (Column::Bar, 12),
            (Column::Finding, 29),
        ],
    ),
    (
        78,
        &[
            (Column::Rate, 11),
            (Column::Rtt, 7),
            (Column::Finding, 21),
            (Column::Bar, 10),
        ],
    ),
    (
        60,
        &[(Column::Rate, 11), (Column::Finding, 20), (Column::Bar, 6)],
    ),
    (0, &[(Column::Rate, 6), (Column::Finding, 15)]),
];

/// The network namespace of a line, where there are several, takes this much of screens of at least
/// this width; the rest is laid out as a screen that is so much narrower.
const WHERE: &[(usize, usize)] = &[(100, 20), (60, 14)];

/// A name has no more room than this: two IPv6 addresses are cut.
const NAME_MAX: usize = 52;

/// Columns for a screen of this width.
fn columns(width: usize, are_apart: bool) -> Vec<(Column, usize)> {
    fn widest<T>(from: &[(usize, T)], width: usize) -> Option<&T> {
        let found = from.iter().find(|(least, _)| width >= *least);
        found.map(|(_, found)| found)
    }
    let place = widest(WHERE, width).filter(|_| are_apart);
    let taken = place.map_or(0, |place| place + 1);
    let place = place.map(|place| (Column::Where, *place));
    let rest = widest(LAYOUTS, width - taken);
    let rest = rest.into_iter().flat_map(|columns| columns.iter().copied());
    place.into_iter().chain(rest).collect()
}

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model, theme: &Theme) {
    let width = usize::from(area.width);
    let columns = columns(width, model.are_apart);
    let taken: usize = columns.iter().map(|(_, width)| width + 1).sum();
    // The first character marks what is selected. What a name does not need, the last column has.
    let left = width.saturating_sub(taken + 1);
    let name_width = left.min(NAME_MAX);
    let columns: Vec<(Column, usize)> = columns
        .into_iter()
        .map(|(column, width)| match column {
            Column::Finding => (column, width + left - name_width),
            _ => (column, width),
        })
        .collect();
    let columns = &columns[..];
    let mut lines = vec![header(model, columns, name_width, theme)];
    let shown = model.rows.iter().enumerate().skip(model.first);
    for (at, row) in shown.take(usize::from(area.height.saturating_sub(1))) {
        lines.push(line(
            model,
            row,
            (columns, name_width),
            theme,
            at == model.selected,
        ));
    }
    if model.rows.is_empty() {
        let text = match (model.second, model.filter_text.is_empty()) {
            (0, _) => "looking at connections",
            (_, true) => "no connections",
            (_, false) => "no connection matches the filter; Esc clears it",
        };
        lines.push(Line::styled(format!(" {text}"), theme.faint()));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

fn header(
    model: &Model,
    columns: &[(Column, usize)],
    name_width: usize,
    theme: &Theme,
) -> Line<'static> {
    let first = match model.grouping {
        Grouping::Services => "SERVICE",
        Grouping::Connections => "CONNECTION",
    };
    let first = with_place(first, model, name_width);
    let mut text = format!(" {}", fitted(&first, name_width, theme));
    let has_now = columns.iter().any(|(column, _)| *column == Column::Now);
    for (column, width) in columns {
        let title = match column {
            Column::Where => fitted("WHERE", *width, theme),
            Column::Count => right("CONNS", *width, theme),
            Column::Rate if *width < RATE_WIDTH => right("BIT/S", *width, theme),
            Column::Rate => right("RATE", *width, theme),
            Column::Rtt => right("RTT", *width, theme),
            Column::Now => fitted("LIMIT NOW", *width, theme),
            Column::Bar => fitted(&bar_title(*width), *width, theme),
            Column::Finding if has_now => fitted("FINDING", *width, theme),
            Column::Finding => fitted("LIMITED BY", *width, theme),
        };
        text.push(' ');
        text.push_str(&title);
    }
    Line::styled(text, theme.header())
}

/// The title of the names, with the lines that are in sight where others are not.
fn with_place(title: &str, model: &Model, width: usize) -> String {
    let (all, lines) = (model.rows.len(), model.page_lines());
    if all <= lines {
        return title.into();
    }
    let place = format!("{}-{}/{all}", model.first + 1, model.first + lines);
    let long = format!("{title} {place}");
    if long.len() <= width { long } else { place }
}

/// How far a bar reaches back.
fn bar_title(cells: usize) -> String {
    let seconds = cells * SECONDS_EACH;
    let reach = match seconds % 60 {
        0 => format!("{} MIN", seconds / 60),
        _ => format!("{seconds} S"),
    };
    let long = format!("LAST {reach}");
    if long.len() <= cells { long } else { reach }
}

fn line(
    model: &Model,
    row: &Row,
    (columns, name_width): (&[(Column, usize)], usize),
    theme: &Theme,
    is_selected: bool,
) -> Line<'static> {
    let has_count = columns.iter().any(|(column, _)| *column == Column::Count);
    let name = match (&row.short_name, row.count()) {
        (Some(short), _) if row.name.len() > name_width => short.clone(),
        (_, count) if count > 1 && !has_count => format!("{} x{count}", row.name),
        _ => row.name.clone(),
    };
    let base = if is_selected {
        Style::new().add_modifier(Modifier::REVERSED)
    } else {
        Style::new()
    };
    let mark = if is_selected { ">" } else { " " };
    let mut spans = vec![Span::raw(mark), Span::raw(fitted(&name, name_width, theme))];
    for (column, width) in columns {
        spans.push(Span::raw(" "));
        match column {
            Column::Where => {
                let NetnsPlace { netns, container } = &*row.place;
                let place = screen::place_name(netns, container.as_deref());
                spans.push(Span::raw(fitted(&place, *width, theme)));
            }
            Column::Count => spans.push(Span::raw(right(&row.count().to_string(), *width, theme))),
            Column::Rate => spans.push(Span::raw(right(&rate(row, *width), *width, theme))),
            Column::Rtt => {
                let srtt = row.srtt.map_or_else(|| "?".into(), human::time);
                spans.push(Span::raw(right(&srtt, *width, theme)));
            }
            Column::Now => spans.push(Span::raw(fitted(theme::name(row.held), *width, theme))),
            Column::Bar => spans.extend(bar(model, row, *width, theme)),
            Column::Finding => spans.push(finding(model, row, *width, theme, has_count)),
        }
    }
    Line::from(spans).style(base)
}

/// Width of a rate with its unit.
const RATE_WIDTH: usize = 11;

/// `12.3 Mbit/s`, or `12.3M` where there is little room; `-` where nothing moves.
fn rate(row: &Row, width: usize) -> String {
    match row.rate_bps {
        0 => "-".into(),
        rate if width >= RATE_WIDTH => human::bps(rate),
        rate => human::bps(rate).replace(' ', "").replace("bit/s", ""),
    }
}

fn bar(model: &Model, row: &Row, cells: usize, theme: &Theme) -> Vec<Span<'static>> {
    let held = match model.history(row) {
        Some(history) => history.held(model.second, cells),
        None => vec![None; cells],
    };
    held.into_iter().map(|held| theme.cell(held)).collect()
}

/// The finding, with how many have it; where there is none, what limits it.
fn finding(model: &Model, row: &Row, width: usize, theme: &Theme, is_wide: bool) -> Span<'static> {
    let judged = row.judged.and_then(|at| model.answers.finding(at));
    if let Some(verdict) = judged {
        let style = if verdict.act {
            theme.finding()
        } else {
            theme.doubtful()
        };
        let mut text = format!("! {}", verdict.id);
        if is_wide && row.with_finding < row.count() {
            text.push_str(&format!(" {}/{}", row.with_finding, row.count()));
        }
        if width >= CHANGE_FROM {
            text.push_str(&fix(verdict));
        }
        return Span::styled(fitted(&text, width, theme), style);
    }
    let said = model.flow(row).and_then(|flow| flow.main());
    let text = match said {
        Some(main) => main.id,
        None if is_wide => "",
        None => theme::name(row.held),
    };
    Span::styled(fitted(&format!("  {text}"), width, theme), theme.faint())
}

/// A column of this width has room for what to change, too.
const CHANGE_FROM: usize = 45;

/// The change, and its place if that is elsewhere.
fn fix(verdict: &VerdictRow) -> String {
    let Some(change) = &verdict.change else {
        return String::new();
    };
    let place = match change.side {
        Side::Local => "",
        Side::Remote => ", at the other end",
    };
    format!("; fix: {} = {}{place}", change.knob, change.to_text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_room_on_every_screen() {
        for width in 30..300 {
            for are_apart in [false, true] {
                let columns = columns(width, are_apart);
                let taken: usize = columns.iter().map(|(_, width)| width + 1).sum();
                let least = if width < 60 { 6 } else { 16 };
                assert!(taken + 1 + least <= width, "{width} {are_apart}");
            }
        }
    }
}
