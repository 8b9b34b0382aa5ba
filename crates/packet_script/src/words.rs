//! Words of a line, with their columns, and the values in them.

use std::time::Duration;

/// A word and where it begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word<'a> {
    pub(super) text: &'a str,
    /// In characters, from 1.
    pub(super) column: u32,
}

/// Error at a column.
#[derive(Clone, Debug)]
pub(super) struct Mistake {
    pub(super) column: u32,
    pub(super) message: String,
}

pub(super) type Parsed<T> = Result<T, Mistake>;

impl Word<'_> {
    pub(super) fn wrong<T>(&self, message: impl Into<String>) -> Parsed<T> {
        Err(Mistake {
            column: self.column,
            message: message.into(),
        })
    }
}

/// The words of a line, taken from the front.
#[derive(Clone, Debug)]
pub(super) struct Words<'a> {
    words: Vec<Word<'a>>,
    next: usize,
    end_column: u32,
}

impl<'a> Words<'a> {
    /// Cuts a line at white space; what follows `#` is a comment.
    pub(super) fn of(line: &'a str) -> Self {
        let code = line.split('#').next().unwrap_or_default();
        let mut words = Vec::new();
        let mut start = None;
        let end = (code.len(), ' ');
        for (column, (at, c)) in code.char_indices().chain([end]).enumerate() {
            match (c.is_whitespace(), start) {
                (false, None) => start = Some((at, column)),
                (true, Some((from, first))) => {
                    words.push(Word {
                        text: &code[from..at],
                        column: first as u32 + 1,
                    });
                    start = None;
                }
                _ => {}
            }
        }
        let end_column = code.trim_end().chars().count() as u32 + 1;
        Self {
            words,
            next: 0,
            end_column,
        }
    }

    pub(super) fn peek(&self) -> Option<Word<'a>> {
        self.words.get(self.next).copied()
    }

    pub(super) fn take(&mut self) -> Option<Word<'a>> {
        let word = self.peek()?;
        self.next += 1;
        Some(word)
    }

    /// The next word, or that `what` is missing.
    pub(super) fn expect(&mut self, what: &str) -> Parsed<Word<'a>> {
        self.take().ok_or_else(|| Mistake {
            column: self.end_column,
            message: format!("{what} is missing here"),
        })
    }

    /// Takes the next word where it is this one.
    pub(super) fn take_if(&mut self, text: &str) -> bool {
        let found = self.peek().is_some_and(|word| word.text == text);
        self.next += usize::from(found);
        found
    }

    /// The remaining words, joined by single spaces.
    pub(super) fn rest(&mut self) -> String {
        let rest: Vec<&str> = self.words[self.next..].iter().map(|w| w.text).collect();
        self.next = self.words.len();
        rest.join(" ")
    }

    /// Checks that no words remain.
    pub(super) fn finish(&self) -> Parsed<()> {
        match self.peek() {
            None => Ok(()),
            Some(word) => word.wrong(format!("`{}` means nothing here", word.text)),
        }
    }
}

/// A whole number, or a sum of products: `1+2*1448`.
pub(super) fn number(word: Word<'_>) -> Parsed<i64> {
    number_in(word, word.text)
}

fn number_in(word: Word<'_>, text: &str) -> Parsed<i64> {
    let wrong = || word.wrong(format!("`{text}` is not a number"));
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let mut sum: i64 = 0;
    for term in digits.split('+') {
        let mut product: i64 = 1;
        for factor in term.split('*') {
            let plain = !factor.is_empty() && factor.bytes().all(|b| b.is_ascii_digit());
            let Some(value) = plain.then(|| factor.parse::<i64>().ok()).flatten() else {
                return wrong();
            };
            product = match product.checked_mul(value) {
                Some(product) => product,
                None => return wrong(),
            };
        }
        sum = match sum.checked_add(product) {
            Some(sum) if sum <= 1 << 40 => sum,
            _ => return wrong(),
        };
    }
    Ok(if negative { -sum } else { sum })
}

/// A number that fits, such as a port or a window.
pub(super) fn small<T: TryFrom<i64>>(word: Word<'_>) -> Parsed<T> {
    let value = number(word)?;
    T::try_from(value).or_else(|_| word.wrong(format!("{value} is out of range here")))
}

/// `START..END`.
pub(super) fn range(word: Word<'_>) -> Parsed<(i64, i64)> {
    let Some((start, end)) = word.text.split_once("..") else {
        return word.wrong(format!("`{}` is not a range; write START..END", word.text));
    };
    let (start, end) = (number_in(word, start)?, number_in(word, end)?);
    if start > end {
        return word.wrong(format!("{start} is behind {end}"));
    }
    Ok((start, end))
}

/// `40ms`, `1.5s`, `0`.
pub(super) fn duration(word: Word<'_>, text: &str) -> Parsed<Duration> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let nanos_of_unit: u64 = match &text[digits.len()..] {
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "min" => 60_000_000_000,
        "" if digits == "0" => 1,
        _ => return word.wrong(format!("`{text}` is not a time; write 40ms, 1.5s or 0")),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let plain = |part: &str| part.len() <= 9 && part.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !plain(whole) || !plain(fraction) {
        return word.wrong(format!("`{text}` is not a time; write 40ms, 1.5s or 0"));
    }
    let mut nanos = whole
        .parse::<u64>()
        .unwrap_or(0)
        .saturating_mul(nanos_of_unit);
    let mut unit = nanos_of_unit;
    for digit in fraction.bytes() {
        unit /= 10;
        nanos += u64::from(digit - b'0') * unit;
    }
    Ok(Duration::from_nanos(nanos))
}

/// `A..BUNIT` or `AUNIT..BUNIT`.
pub(super) fn duration_range(word: Word<'_>, text: &str) -> Parsed<(Duration, Duration)> {
    let Some((first, last)) = text.split_once("..") else {
        let exact = duration(word, text)?;
        return Ok((exact, exact));
    };
    let unit = last.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let bare = first.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let first = if bare {
        format!("{first}{unit}")
    } else {
        first.to_owned()
    };
    let (first, last) = (duration(word, &first)?, duration(word, last)?);
    if first > last {
        return word.wrong(format!("`{text}` ends before it begins"));
    }
    Ok((first, last))
}
