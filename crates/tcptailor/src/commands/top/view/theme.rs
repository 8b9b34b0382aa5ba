//! Colours and characters, of which a terminal may have few; and text that fits.

use base::Limit;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use crate::output::visible;
use doctor::Held;

/// Capabilities of the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::commands::top) struct Theme {
    pub(in crate::commands::top) color: bool,
    pub(in crate::commands::top) unicode: bool,
}

impl Theme {
    fn colored(self, color: Color) -> Style {
        if self.color {
            Style::new().fg(color)
        } else {
            Style::new()
        }
    }

    /// Style of findings.
    pub(super) fn finding(self) -> Style {
        self.colored(Color::Red).add_modifier(Modifier::BOLD)
    }

    /// Style of doubtful findings.
    pub(super) fn doubtful(self) -> Style {
        self.colored(Color::Yellow)
    }

    /// Style of less important text.
    pub(super) fn faint(self) -> Style {
        self.colored(Color::DarkGray)
    }

    pub(super) fn key(self) -> Style {
        self.colored(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    pub(super) fn header(self) -> Style {
        let style = Style::new().add_modifier(Modifier::BOLD);
        style.add_modifier(Modifier::UNDERLINED)
    }

    pub(super) fn alert(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    pub(super) fn change(self) -> Style {
        self.colored(Color::Green)
    }

    /// A second, or some, of a bar: readable without colours too.
    pub(super) fn cell(self, held: Option<Held>) -> Span<'static> {
        let Some(held) = held else {
            return Span::raw(" ");
        };
        let (letter, color) = mark(held);
        let text = match held {
            Held::Idle if self.unicode => "·".into(),
            _ => letter.to_string(),
        };
        let style = match (self.color, held) {
            (false, _) => Style::new(),
            (true, Held::Idle) => self.faint(),
            (true, _) => Style::new().fg(Color::Black).bg(color),
        };
        Span::styled(text, style)
    }

    pub(super) const fn cut(self) -> char {
        if self.unicode { '…' } else { '~' }
    }

    /// Characters of a graph, from nothing to all.
    pub(super) const fn bars(self) -> ratatui::symbols::bar::Set<'static> {
        if self.unicode {
            return ratatui::symbols::bar::NINE_LEVELS;
        }
        ratatui::symbols::bar::Set {
            full: "#",
            seven_eighths: "#",
            three_quarters: "#",
            five_eighths: "|",
            half: "|",
            three_eighths: ":",
            one_quarter: ":",
            one_eighth: ".",
            empty: " ",
        }
    }
}

/// The name of what held a connection.
pub(super) const fn name(held: Held) -> &'static str {
    match held {
        Held::Limit(limit) => limit.name(),
        Held::Receiving => "receiving",
        Held::Unclear => "unclear",
        Held::Idle => "idle",
    }
}

/// Its letter and its colour: warm ones for what a change may help.
pub(super) const fn mark(held: Held) -> (char, Color) {
    match held {
        Held::Limit(Limit::Application) => ('a', Color::Blue),
        Held::Limit(Limit::Nagle) => ('N', Color::Red),
        Held::Limit(Limit::Cork) => ('K', Color::LightRed),
        Held::Limit(Limit::PeerWindow) => ('W', Color::Yellow),
        Held::Limit(Limit::Congestion) => ('c', Color::Green),
        Held::Limit(Limit::Recovery) => ('R', Color::Magenta),
        Held::Limit(Limit::SendBuffer) => ('B', Color::LightYellow),
        Held::Limit(Limit::UnackedBudget) => ('U', Color::LightYellow),
        Held::Limit(Limit::Pacing) => ('p', Color::LightGreen),
        Held::Limit(Limit::BufferPool) => ('P', Color::LightMagenta),
        Held::Limit(Limit::Interface) => ('I', Color::LightMagenta),
        Held::Limit(Limit::Handshake) => ('H', Color::LightMagenta),
        Held::Receiving => ('<', Color::Cyan),
        Held::Unclear => ('?', Color::Gray),
        Held::Idle => ('.', Color::DarkGray),
    }
}

/// The text as a terminal may have it, in one line.
pub(super) fn clean(text: &str) -> String {
    visible(text).replace(['\n', '\t'], " ")
}

/// The text in exactly this many columns: cut with a mark, or filled with blanks.
pub(super) fn fitted(text: &str, columns: usize, theme: &Theme) -> String {
    let text = clean(text);
    let width = Span::raw(text.as_str()).width();
    if width <= columns {
        return text + &" ".repeat(columns - width);
    }
    let mut shown = String::new();
    let mut used = 0;
    for character in text.chars() {
        let wide = width_of(character);
        if used + wide + 1 > columns {
            break;
        }
        shown.push(character);
        used += wide;
    }
    if used < columns {
        shown.push(theme.cut());
        used += 1;
    }
    shown + &" ".repeat(columns.saturating_sub(used))
}

/// The text in lines of this many columns, broken between words. Of the first line `used` columns
/// are taken; the others begin with `indent` blanks.
pub(super) fn wrapped(text: &str, columns: usize, indent: usize, used: usize) -> Vec<String> {
    let text = clean(text);
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut width = used;
    for word in text.split_whitespace() {
        let wide = Span::raw(word).width();
        let is_empty = line.trim_start().is_empty();
        if !is_empty && width + 1 + wide > columns {
            lines.push(std::mem::replace(&mut line, " ".repeat(indent)));
            width = indent + wide;
        } else {
            let blank = usize::from(!is_empty);
            line.push_str(&" ".repeat(blank));
            width += blank + wide;
        }
        line.push_str(word);
    }
    lines.push(line);
    lines
}

/// A line in as many as it takes in this many columns: broken between words, or within one that is
/// longer.
pub(super) fn broken(line: &Line<'_>, columns: usize) -> Vec<Line<'static>> {
    let spans = line.spans.iter();
    let letters = spans.flat_map(|span| span.content.chars().map(|letter| (letter, span.style)));
    let letters: Vec<(char, Style)> = letters.collect();
    let mut rest = &letters[..];
    let mut lines = Vec::new();
    loop {
        let mut used = 0;
        let fits = rest.iter().take_while(|(letter, _)| {
            used += width_of(*letter);
            used <= columns
        });
        let fits = fits.count().max(1);
        if fits >= rest.len() {
            lines.push(line_of(rest, line.style));
            return lines;
        }
        let indent = rest.iter().take_while(|(letter, _)| *letter == ' ').count();
        let blank = (indent + 1..=fits).rev().find(|at| rest[*at].0 == ' ');
        lines.push(line_of(&rest[..blank.unwrap_or(fits)], line.style));
        rest = &rest[blank.map_or(fits, |at| at + 1)..];
    }
}

fn line_of(letters: &[(char, Style)], style: Style) -> Line<'static> {
    let alike = letters.chunk_by(|(_, one), (_, other)| one == other);
    let span = |some: &[(char, Style)]| {
        let text: String = some.iter().map(|(letter, _)| *letter).collect();
        Span::styled(text, some.first().map_or(Style::new(), |(_, style)| *style))
    };
    Line::from(alike.map(span).collect::<Vec<_>>()).style(style)
}

/// Adds a label and a text beside it, in as many lines as it takes.
pub(super) fn push_labelled(
    lines: &mut Vec<Line<'static>>,
    label: Span<'static>,
    text: &str,
    columns: usize,
) {
    let indent = label.width();
    let mut parts = wrapped(text, columns, indent, indent).into_iter();
    let first = parts.next().unwrap_or_default();
    lines.push(Line::from(vec![label, Span::raw(first)]));
    lines.extend(parts.map(Line::raw));
}

/// As [`fitted`], aligned to the right.
pub(super) fn right(text: &str, columns: usize, theme: &Theme) -> String {
    let fitted = fitted(text, columns, theme);
    let text = fitted.trim_end();
    let width = Span::raw(text).width();
    " ".repeat(columns.saturating_sub(width)) + text
}

/// The end of a text that is too long.
pub(super) fn tail(text: &str, columns: usize) -> String {
    let text = clean(text);
    let mut used = 0;
    let fits = |character: &char| {
        used += width_of(*character);
        used <= columns
    };
    let mut shown: Vec<char> = text.chars().rev().take_while(fits).collect();
    shown.reverse();
    shown.into_iter().collect()
}

fn width_of(character: char) -> usize {
    Span::raw(character.to_string()).width()
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNICODE: Theme = Theme {
        color: false,
        unicode: true,
    };
    const ASCII: Theme = Theme {
        color: false,
        unicode: false,
    };

    #[test]
    fn text_takes_the_room_that_it_has() {
        let check = |text: &str, columns: usize, expected: &str| {
            assert_eq!(fitted(text, columns, &UNICODE), expected, "{text:?}");
        };
        check("name", 6, "name  ");
        check("name", 4, "name");
        check("a long name", 6, "a lon…");
        check("漢字漢字", 5, "漢字…");
        check("漢字漢字", 4, "漢… ");
        check("x", 0, "");
        check("a\x1b[2Jb\nc", 9, "a\u{fffd}[2Jb c ");
        assert_eq!(fitted("a long name", 6, &ASCII), "a lon~");
        assert_eq!(right("7 us", 6, &ASCII), "  7 us");
        assert_eq!(tail("sport = :443", 4), ":443");
    }

    #[test]
    fn lines_are_broken_between_words() {
        let check = |text: &str, used: usize, expected: &[&str]| {
            assert_eq!(wrapped(text, 12, 2, used), expected, "{text:?}");
        };
        check("one two three four", 4, &["one two", "  three four"]);
        check("one two three", 0, &["one two", "  three"]);
        check("averylongwordindeed x", 0, &["averylongwordindeed", "  x"]);
        check("", 0, &[""]);
    }

    #[test]
    fn a_line_that_is_too_long_goes_on_in_the_next() {
        let check = |columns: usize, expected: &[&str]| {
            let bold = Style::new().add_modifier(Modifier::BOLD);
            let spans = vec![Span::raw("  one two "), Span::styled("three", bold)];
            let lines = broken(&Line::from(spans), columns);
            let texts: Vec<String> = lines.iter().map(ToString::to_string).collect();
            assert_eq!(texts, expected, "{columns}");
            let last = lines.last().and_then(|line| line.spans.last());
            assert_eq!(last.map(|span| span.style), Some(bold), "{columns}");
        };
        check(15, &["  one two three"]);
        check(14, &["  one two", "three"]);
        check(5, &["  one", "two", "three"]);
        check(4, &["  on", "e", "two", "thre", "e"]);
        assert_eq!(broken(&Line::raw(""), 5).len(), 1);
        assert_eq!(broken(&Line::raw("漢字"), 1).len(), 2);
    }

    #[test]
    fn each_limit_has_a_letter_of_its_own() {
        let limits = Limit::ALL.into_iter().map(Held::Limit);
        let all = limits.chain([Held::Receiving, Held::Unclear, Held::Idle]);
        let mut letters: Vec<char> = all.map(|held| mark(held).0).collect();
        let count = letters.len();
        letters.sort_unstable();
        letters.dedup();
        assert_eq!(letters.len(), count);
    }
}
