//! The keys, and the letters of the bars.

use base::Limit;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::super::history::SECONDS_EACH;
use super::super::model::keys::KEYS;
use super::theme::{self, Theme};
use doctor::Held;

/// Columns of the keys.
const KEY_WIDTH: usize = 15;

pub(super) fn lines(columns: usize, theme: &Theme) -> Vec<Line<'static>> {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let mut lines: Vec<Line<'static>> = Vec::new();
    for (key, what) in KEYS {
        let label = Span::styled(format!(" {key:<KEY_WIDTH$}"), theme.key());
        theme::push_labelled(&mut lines, label, what, columns);
    }
    lines.push(Line::raw(""));
    lines.push(Line::styled(
        format!(
            " What limited the sender most, for each {SECONDS_EACH} s, the newest at the right:"
        ),
        bold,
    ));
    lines.extend(letters(columns, theme));
    lines.push(Line::raw(""));
    let finding = "is a finding, something to change; docs/diagnoses.md explains each.";
    theme::push_labelled(
        &mut lines,
        Span::styled(" ! ", theme.finding()),
        finding,
        columns,
    );
    lines
}

/// All letters with their names, as many in a line as there is room for.
fn letters(columns: usize, theme: &Theme) -> Vec<Line<'static>> {
    const EACH: usize = 19;
    let limits = Limit::ALL.into_iter().map(Held::Limit);
    let all: Vec<Held> = limits
        .chain([Held::Receiving, Held::Unclear, Held::Idle])
        .collect();
    let in_line = ((columns.max(EACH) - 1) / EACH).max(1);
    let line = |some: &[Held]| {
        let mut spans = vec![Span::raw(" ")];
        for held in some {
            spans.push(theme.cell(Some(*held)));
            spans.push(Span::raw(format!(" {:<17}", theme::name(*held))));
        }
        Line::from(spans)
    };
    all.chunks(in_line).map(line).collect()
}
