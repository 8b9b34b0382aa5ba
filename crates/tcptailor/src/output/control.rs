//! Control characters of text that came from elsewhere.

use std::borrow::Cow;

/// Stands for a control character; as wide as comfy-table and a count of characters take it for.
const SHOWN: char = '\u{fffd}';

/// The text as a terminal may have it: control characters are shown as U+FFFD. Ends of lines, tabs
/// and the colours in which this program writes stay.
///
/// Names and messages may come from files of other people, and a terminal obeys what it is sent: it
/// clears the screen, takes another title, or types an answer.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let style = style(rest);
        let (taken, left) = rest.split_at(style.map_or(character.len_utf8(), str::len));
        let is_end_of_line = character == '\r' && left.starts_with('\n');
        if is_obeyed(character) && style.is_none() && !is_end_of_line {
            shown.push(SHOWN);
        } else {
            shown.push_str(taken);
        }
        rest = left;
    }
    Cow::Owned(shown)
}

/// C0, DEL or C1.
fn is_obeyed(character: char) -> bool {
    character.is_control() && !matches!(character, '\n' | '\t')
}

/// The sequence at the beginning of the text, if it sets nothing but a colour or a weight.
fn style(text: &str) -> Option<&str> {
    let parameters = text.strip_prefix("\x1b[")?;
    let end = parameters.find(|c: char| !c.is_ascii_digit() && c != ';')?;
    let parameters = parameters[end..]
        .starts_with('m')
        .then(|| &parameters[..end])?;
    let mut numbers = parameters.split(';');
    let is_colour = match numbers.next()? {
        // comfy-table writes colours as numbers of the palette.
        "38" => {
            numbers.next() == Some("5") && numbers.next().is_some_and(|n| n.parse::<u8>().is_ok())
        }
        number => is_plain_style(number),
    };
    (is_colour && numbers.all(is_plain_style)).then(|| &text[.."\x1b[".len() + end + 1])
}

/// Nothing that blinks, is reversed, hidden, or has another background.
fn is_plain_style(number: &str) -> bool {
    let number = match number {
        "" => Ok(0),
        number => number.parse::<u8>(),
    };
    matches!(number, Ok(0..=4 | 22..=24 | 30..=37 | 39 | 90..=97))
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
        check("ü\x1b\x1b[1mü", "ü\u{fffd}\x1b[1mü");
    }

    #[test]
    fn colours_stay_and_what_hides_text_does_not() {
        let check = |parameters: &str, stays: bool| {
            let text = format!("\x1b[{parameters}mx\x1b[0m");
            assert_eq!(visible(&text) == text, stays, "{parameters}");
        };
        for ours in ["1", "", "0", "31", "1;31", "38;5;9", "39", "22", "4", "91"] {
            check(ours, true);
        }
        for other in [
            "8",
            "1;8",
            "5",
            "7",
            "41",
            "48;5;1",
            "38;5",
            "38;5;999",
            "38;2;1;2;3",
            "1:3",
            "?1",
            "4000000000",
        ] {
            check(other, false);
        }
    }

    #[test]
    fn all_styles_of_this_program_stay() {
        let bold = anstyle::AnsiColor::Red.on_default().bold();
        let mut table = super::super::table(&["A", "B"]);
        let cell = comfy_table::Cell::new("a").fg(comfy_table::Color::Red);
        let bold_cell = comfy_table::Cell::new("b").add_attribute(comfy_table::Attribute::Bold);
        table.add_row([cell, bold_cell]);
        let text = format!("{bold}x{bold:#}\n{}", super::super::render(&table));
        assert!(text.contains("38;5;") && text.matches('\x1b').count() > 6);
        assert_eq!(visible(&text), text);
    }
}
