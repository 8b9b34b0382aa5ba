//! Control characters of text that came from elsewhere.

use std::borrow::Cow;
use std::fmt;
use std::sync::LazyLock;

/// Stands for a control character; as wide as comfy-table and a count of characters take it for.
const SHOWN: char = '\u{fffd}';

/// A style of this program's own, to be written around text: `{bold}text{bold:#}`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint(anstyle::Style);

impl Paint {
    pub(crate) const PLAIN: Self = Self(anstyle::Style::new());
    pub(crate) const BOLD: Self = Self(anstyle::Style::new().bold());

    pub(crate) const fn color(color: anstyle::AnsiColor) -> Self {
        Self(color.on_default())
    }
}

impl fmt::Display for Paint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sequence = match f.alternate() {
            true => format!("{:#}", self.0),
            false => self.0.to_string(),
        };
        f.write_str(&signed(&sequence))
    }
}

/// Marks the styles in a text as this program's own. What else is in it must be without control
/// characters.
pub(crate) fn signed(text: &str) -> String {
    text.replace("\x1b[", &format!("\x1b[{};", signature()))
}

/// Secret of this process: a name from a file may hold a colour, but not this.
fn signature() -> &'static str {
    static SIGNATURE: LazyLock<String> =
        LazyLock::new(|| linux::random_seed().unwrap_or_default().to_string());
    &SIGNATURE
}

/// The text as a terminal may have it: control characters are shown as U+FFFD. Ends of lines, tabs
/// and the styles that this program signed stay.
///
/// Names and messages may come from files of other people, and a terminal obeys what it is sent: it
/// clears the screen, takes another title, types an answer, or hides what is written.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let own = format!("\x1b[{};", signature());
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        if let Some(left) = rest.strip_prefix(own.as_str()) {
            shown.push_str("\x1b[");
            rest = left;
            continue;
        }
        let left = &rest[character.len_utf8()..];
        let is_end_of_line = character == '\r' && left.starts_with('\n');
        if is_obeyed(character) && !is_end_of_line {
            shown.push(SHOWN);
        } else {
            shown.push(character);
        }
        rest = left;
    }
    Cow::Owned(shown)
}

/// All but ends of lines and tabs.
fn is_obeyed(character: char) -> bool {
    base::is_obeyed(character) && !matches!(character, '\n' | '\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_shown() {
        let check = |text: &str, expected: &str| assert_eq!(visible(text), expected, "{text:?}");
        check("a name", "a name");
        check("two\nlines\tand\r\nüß", "two\nlines\tand\r\nüß");
        check(
            "A \x1b[2J\x1b]0;pwned\x07",
            "A \u{fffd}[2J\u{fffd}]0;pwned\u{fffd}",
        );
        check("\r\x08\x7f\0", "\u{fffd}\u{fffd}\u{fffd}\u{fffd}");
        check("\u{9b}2J \u{9d}0;x\u{9c}", "\u{fffd}2J \u{fffd}0;x\u{fffd}");
        check("cut \x1b", "cut \u{fffd}");
        check("cut \x1b[1", "cut \u{fffd}[1");
        check("ü\x1b\x1b[1mü", "ü\u{fffd}\u{fffd}[1mü");
        check("\x1b[31mred", "\u{fffd}[31mred");
        check("\x1b[7;1mred", "\u{fffd}[7;1mred");
        check("a\u{202e}b\u{2029}", "a\u{fffd}b\u{fffd}");
    }

    #[test]
    fn all_styles_of_this_program_stay() {
        let (bold, red) = (Paint::BOLD, Paint::color(anstyle::AnsiColor::Red));
        let mut table = super::super::table(&["A", "B"]);
        let cell = comfy_table::Cell::new("a").fg(comfy_table::Color::Red);
        let bold_cell = comfy_table::Cell::new("b").add_attribute(comfy_table::Attribute::Bold);
        table.add_row([cell, bold_cell]);
        table.add_row(["a \x1b[8mhidden", "c"]);
        let rendered = super::super::render(&table);
        let text = format!("{bold}x{bold:#} {red}\x1b[41my{red:#}\n{rendered}");
        let shown = visible(&text);
        assert!(
            shown.starts_with("\x1b[1mx\x1b[0m \x1b[31m\u{fffd}[41my\x1b[0m\n"),
            "{shown:?}"
        );
        assert!(shown.contains("a \u{fffd}[8mhidden"), "{shown:?}");
        assert!(shown.contains("38;5;") && shown.matches('\x1b').count() > 6);
        assert!(!shown.contains(signature()));
    }
}
