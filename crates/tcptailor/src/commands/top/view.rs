//! The state as characters on a screen: the same state gives the same screen.

mod details;
mod help;
mod list;
mod theme;

use base::human;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

pub(super) use self::theme::Theme;
use self::theme::fitted;
use super::model::{Look, Model, Page};
use crate::commands::diagnose::document::Direction;
use crate::commands::diagnose::screen;

/// Title, totals, notes.
const HEAD_LINES: u16 = 3;
/// Lines above and below the list: title, totals, notes, the header of the list, and the keys.
pub(super) const CHROME_LINES: usize = 5;

/// Draws the whole screen.
pub(super) fn draw(frame: &mut Frame<'_>, model: &Model, theme: &Theme) {
    let [head, body, foot] = Layout::vertical([
        Constraint::Length(HEAD_LINES),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(header(model, theme, head.width)), head);
    match model.page {
        Page::List => list::draw(frame, body, model, theme),
        Page::Details => details::draw(frame, body, model, theme),
        Page::Help => {
            let lines = help::lines(body.width.into(), theme);
            draw_text(frame, body, &lines, model.scrolled);
        }
        Page::Command => {
            let lines = output(model, theme);
            // Its end is in sight; it is scrolled from there.
            let above = hidden_lines(&lines, body).saturating_sub(model.scrolled);
            draw_text(frame, body, &lines, above);
        }
    }
    frame.render_widget(Paragraph::new(footer(model, theme, foot.width)), foot);
}

/// Program and number of connections; their rates, and the cost of watching; missing permissions.
fn header(model: &Model, theme: &Theme, columns: u16) -> Vec<Line<'static>> {
    let columns = usize::from(columns);
    [
        title(model, theme, columns),
        totals(model, theme),
        notes(model, theme),
    ]
    .map(|parts| joined(parts, columns, theme))
    .into()
}

type Parts = Vec<(String, Style)>;

/// As many parts as there is room for; the first one in any case.
fn joined(parts: Parts, columns: usize, theme: &Theme) -> Line<'static> {
    let mut spans: Vec<Span<'static>> = Vec::new();
    let mut left = columns;
    for (text, style) in parts {
        let span = Span::styled(theme::clean(&text), style);
        if span.width() > left && !spans.is_empty() {
            break;
        }
        let text = fitted(&text, left.min(span.width()), theme);
        left = left.saturating_sub(span.width() + 2);
        spans.extend([Span::styled(text, style), Span::raw("  ")]);
    }
    Line::from(spans)
}

fn title(model: &Model, theme: &Theme, columns: usize) -> Parts {
    const ROOMY: usize = 60;
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let counts = &model.answers.document().counts;
    let sockets = model.look.connections.len();
    let connections = match model.has_answers {
        // Of which both ends may be here.
        true => counts.connections,
        false => sockets,
    };
    let mut parts: Parts = Vec::new();
    if columns >= ROOMY {
        parts.push(("tcptailor top".into(), bold));
    }
    parts.push((human::count(connections as u64, "connection"), Style::new()));
    let said = [
        (counts.with_finding, "with a finding", theme.finding()),
        (
            counts.peer_window,
            "limited by the other end's window",
            Style::new(),
        ),
        (counts.healthy - counts.peer_window, "healthy", Style::new()),
        (counts.unclear, "unclear", Style::new()),
        (counts.idle, "idle", theme.faint()),
    ];
    let said = said.into_iter().filter(|(number, ..)| *number > 0);
    parts.extend(said.map(|(number, what, style)| (format!("{number} {what}"), style)));
    if !model.has_answers {
        parts.push(("diagnosing".into(), theme.faint()));
    }
    parts
}

fn totals(model: &Model, theme: &Theme) -> Parts {
    let rate = |wanted: Direction| -> u64 {
        let all = model.look.connections.iter();
        let those = all.filter(|connection| connection.now.direction == wanted);
        those.map(|connection| connection.now.rate_bps).sum()
    };
    let mut parts: Parts = Vec::new();
    if model.is_paused {
        parts.push((" PAUSED ".into(), theme.alert()));
    }
    if model.is_running() {
        parts.push((" RUNNING FIT, o shows it ".into(), theme.alert()));
    }
    let Look {
        looks_per_s, cpu, ..
    } = &model.look;
    parts.extend([
        (
            format!("out {}", human::bps(rate(Direction::Out))),
            Style::new(),
        ),
        (
            format!("in {}", human::bps(rate(Direction::In))),
            Style::new(),
        ),
        (format!("{looks_per_s:.0} polls/s"), theme.faint()),
        (format!("{:.1} % CPU", cpu * 100.0), theme.faint()),
    ]);
    parts
}

/// An error in the input; or findings on the host, the filter, and missing permissions.
fn notes(model: &Model, theme: &Theme) -> Parts {
    let error = model
        .prompt
        .as_ref()
        .and_then(|prompt| prompt.error.clone());
    if let Some(error) = error {
        return vec![(error, theme.finding())];
    }
    let document = model.answers.document();
    let hosts = document.host.iter();
    let mut parts: Parts = hosts
        .map(|row| {
            let text = format!("! {}: {}", screen::whose(row), row.verdict.id);
            (text, theme.finding())
        })
        .collect();
    let filters = [model.scope.as_str(), model.filter_text.as_str()];
    let filters: Vec<&str> = filters
        .into_iter()
        .filter(|text| !text.is_empty())
        .collect();
    if !filters.is_empty() {
        parts.push((format!("filter: {}", filters.join(" and ")), theme.key()));
    }
    if document.unseen_processes > 0 {
        let processes = human::count(document.unseen_processes as u64, "process");
        let text = format!("no permission to inspect {processes}: run as root");
        parts.push((text, theme.faint()));
    }
    if let Some(text) = document.netns_left_out() {
        parts.push((text, theme.faint()));
    }
    if document.flows_left_out > 0 {
        let left_out = document.flows_left_out;
        let text = format!("{left_out} connections left out: use a filter");
        parts.push((text, theme.finding()));
    }
    parts
}

/// The keys that matter here; in their place what is asked, or was told.
fn footer(model: &Model, theme: &Theme, columns: u16) -> Line<'static> {
    let columns = usize::from(columns);
    if let Some(prompt) = &model.prompt {
        let label = prompt.label();
        // The end of what is typed is what one looks at.
        let room = columns.saturating_sub(label.len() + 1);
        let typed = theme::tail(&prompt.text, room);
        return Line::from(vec![
            Span::styled(theme::clean(&label), theme.key()),
            Span::raw(typed),
            Span::styled(" ", Style::new().add_modifier(Modifier::REVERSED)),
        ]);
    }
    if let Some(note) = &model.note {
        return Line::styled(fitted(note, columns, theme), theme.key());
    }
    let mut spans = Vec::new();
    let mut left = columns;
    for (key, what) in keys(model) {
        let width = key.len() + what.len() + 3;
        if width > left + 2 {
            break;
        }
        left = left.saturating_sub(width);
        spans.push(Span::styled(*key, theme.key()));
        spans.push(Span::raw(format!(" {what}  ")));
    }
    Line::from(spans)
}

const fn keys(model: &Model) -> &'static [(&'static str, &'static str)] {
    match model.page {
        Page::List => &[
            ("q", "quit"),
            ("?", "keys"),
            ("Enter", "details"),
            ("/", "filter"),
            ("s", "sort"),
            ("Tab", "connections"),
            ("Space", "pause"),
            ("w", "save"),
            ("f", "fit"),
        ],
        Page::Details => &[
            ("q", "back"),
            ("f", "fit"),
            ("u", "roll back"),
            ("j k", "scroll"),
            ("Space", "pause"),
            ("w", "save"),
            ("?", "keys"),
        ],
        Page::Help => &[("q", "back to the list"), ("j k", "scroll")],
        Page::Command => &[
            ("q", "back"),
            ("x", "stop"),
            ("u", "roll back"),
            ("j k", "scroll"),
        ],
    }
}

/// How far the page can be scrolled.
pub(super) fn scroll_max(model: &Model) -> usize {
    let (columns, lines) = model.size;
    let theme = Theme {
        color: false,
        unicode: false,
    };
    let body = Rect::new(0, 0, columns, lines.saturating_sub(HEAD_LINES + 1));
    let (text, area) = match model.page {
        Page::List => return 0,
        Page::Details => {
            let [area, _] = details::areas(body);
            (details::lines(model, columns.into(), &theme), area)
        }
        Page::Help => (help::lines(columns.into(), &theme), body),
        Page::Command => (output(model, &theme), body),
    };
    hidden_lines(&text, area)
}

/// Lines of a text that do not fit.
fn hidden_lines(lines: &[Line<'_>], area: Rect) -> usize {
    let height = |line: &Line<'_>| theme::broken(line, area.width.into()).len();
    let height: usize = lines.iter().map(height).sum();
    height.saturating_sub(usize::from(area.height))
}

/// Draws a text without its first lines.
fn draw_text(frame: &mut Frame<'_>, area: Rect, lines: &[Line<'_>], above: usize) {
    let above = above.min(hidden_lines(lines, area));
    let broken = lines.iter();
    let broken = broken.flat_map(|line| theme::broken(line, area.width.into()));
    let shown: Vec<Line<'_>> = broken.skip(above).collect();
    frame.render_widget(Paragraph::new(shown), area);
}

/// Output of a command so far.
fn output(model: &Model, theme: &Theme) -> Vec<Line<'static>> {
    let Some(command) = &model.command else {
        return Vec::new();
    };
    let mut lines = vec![Line::styled(
        theme::clean(&format!("$ tcptailor {}", command.words.join(" "))),
        Style::new().add_modifier(Modifier::BOLD),
    )];
    let said = command.lines.iter();
    lines.extend(said.map(|line| Line::raw(theme::clean(line))));
    if command.ended.is_none() {
        lines.push(Line::styled("running; x stops it", theme.faint()));
    }
    lines
}
