//! Text that came from elsewhere: names of processes and interfaces, messages of peers, files.

use alloc::string::String;

/// Whether a terminal, a page or a log obeys a character instead of showing it: control characters
/// (C0, DEL, C1), and those by which the text around them takes another order (Unicode Standard
/// Annex 9, section 2) or another line. With them a name may look like another one.
#[must_use]
pub fn is_obeyed(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
        )
}

/// The text on one line, with U+FFFD for each character that would be obeyed.
#[must_use]
pub fn harmless(text: &str) -> String {
    text.replace(is_obeyed, "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_obeyed_is_replaced() {
        let check = |text: &str, expected: &str| assert_eq!(harmless(text), expected, "{text:?}");
        check("nginx: worker", "nginx: worker");
        check(
            "Äpfel \u{5e9}\u{5dc}\u{5d5}\u{5dd}",
            "Äpfel \u{5e9}\u{5dc}\u{5d5}\u{5dd}",
        );
        check(
            "a\nb\x1b[2J\x7f\u{9b}",
            "a\u{fffd}b\u{fffd}[2J\u{fffd}\u{fffd}",
        );
        check("dhss\u{202e}x", "dhss\u{fffd}x");
        check("\u{2066}\u{2028}\u{200f}", "\u{fffd}\u{fffd}\u{fffd}");
    }
}
