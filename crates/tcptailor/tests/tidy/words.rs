//! The words that users meet are those of the field: of `ss`, the RFCs and the kernel's
//! documentation. [`WORDS`] lists what is not, and what to write in its place.
//!
//! Checked are the documents, the texts of scenarios, every string of the program that no test
//! owns, and the help of every command; and, for most words, comments, whose readers know the same
//! words.

use std::process::Command;

use crate::source::Source;
use crate::tree::{Complaint, Tree};

/// What the field does not say, and what it says.
pub(crate) struct Word {
    /// Lower case, words one blank apart.
    not: &'static str,
    write: &'static str,
    /// Longer texts in which it may stand.
    but: &'static [&'static str],
    /// Comments of the code may have it, where it means something else.
    is_in_comments: bool,
}

/// Not to be written anywhere.
const fn word(not: &'static str, write: &'static str) -> Word {
    Word {
        not,
        write,
        but: &[],
        is_in_comments: false,
    }
}

/// Not to be written where users read it.
const fn text(not: &'static str, write: &'static str) -> Word {
    Word {
        is_in_comments: true,
        ..word(not, write)
    }
}

pub(crate) const WORDS: &[Word] = &[
    word("sent again", "retransmitted"),
    word("goes again", "is retransmitted"),
    word("go again", "are retransmitted"),
    word("superpacket", "GSO packet"),
    word("under way", "in flight; of a run: in progress"),
    text("with packets out", "with data in flight"),
    word("nothing out", "nothing in flight"),
    word("shut window", "zero window"),
    word("small piece", "small segment, small write"),
    word("small pieces", "small segments, small writes"),
    word("overtake", "reorder"),
    word("overtake each other", "are reordered"),
    word("the path's rate", "the bottleneck rate"),
    word("speed of the path", "bottleneck rate"),
    text("windows that cannot grow", "fixed windows"),
    text("that do not count", "of warm-up; invalid"),
    text("looks each", "runs each"),
    word("from look to look", "sampling interval"),
    text("99 % within", "p99"),
    text("cannot be told", "no significant difference"),
    text("claims that hold", "expectations passed"),
    text("first run went", "first run over time"),
    text("occasion", "override"),
    text("occasions", "overrides"),
    word("half done", "interrupted"),
    text("say hello", "open the control connection"),
    text("letters are", "short options follow"),
    text("may not be looked into", "no permission to inspect"),
    text("is not allowed", "permission denied; requires"),
    text("send a client away", "disconnect"),
    word("cure", "fix"),
    word("cures", "fixes"),
    word("cured", "fixed"),
    word("lastingly", "permanently"),
    text("again and again", "repeatedly"),
    word("everybody", "anyone; all users"),
    word("somebody", "another process; or the passive"),
    word("somebody's", "another one's"),
    word("nobody", "no one; or the passive"),
    Word {
        but: &["there is no", "is no longer"],
        ..word("is no", "is not a")
    },
];

/// Documents, scenarios, and strings and comments of the code.
pub(crate) fn check(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for file in tree.under("", ".md") {
        check_text(&file.path, &document(&file.text), &mut complaints);
    }
    for file in tree.under("scenarios/", ".toml") {
        check_text(&file.path, &without_comments(&file.text), &mut complaints);
    }
    for file in tree.under("crates/", ".rs") {
        let source = Source::new(&file.path, &file.text);
        check_text(&file.path, &strings(&source), &mut complaints);
        let words = WORDS.iter().filter(|word| !word.is_in_comments);
        check_words(&file.path, &comments(&source), words, &mut complaints);
    }
    complaints
}

/// The help of every command, and of those below it.
pub(crate) fn check_help() -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let mut commands = vec![String::new()];
    while let Some(command) = commands.pop() {
        let help = Command::new(env!("CARGO_BIN_EXE_tcptailor"))
            .args(command.split_whitespace())
            .arg("--help")
            .output()
            .expect("the program runs");
        let help = String::from_utf8_lossy(&help.stdout).into_owned();
        let place = format!("tcptailor {command} --help");
        check_text(&place, &document(&help), &mut complaints);
        if command.is_empty() || help.contains("\nCommands:\n") {
            commands.extend(names(&help).map(|name| format!("{command} {name}")));
        }
    }
    complaints
}

/// The commands that a help lists, two blanks before each.
fn names(help: &str) -> impl Iterator<Item = &str> {
    help.lines()
        .take_while(|line| *line != "Options:")
        .filter_map(|line| line.strip_prefix("  "))
        .filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()))
        .filter_map(|line| line.split_whitespace().next())
}

/// What a reader sees, with the line (from 0) of each character. Words are one blank apart, and a
/// NUL divides what does not belong together.
pub(crate) type Shown = Vec<(usize, char)>;

const DIVIDER: char = '\0';

fn push(shown: &mut Shown, line: usize, c: char) {
    let c = if c.is_whitespace() { ' ' } else { c };
    let last = shown.last().map(|&(_, last)| last);
    if c != ' ' || last.is_some_and(|last| last != ' ') {
        shown.push((line, c));
    }
}

/// Paragraphs are read across line ends.
fn document(text: &str) -> Shown {
    let mut shown = Shown::new();
    for (index, line) in text.lines().enumerate() {
        let end = if line.is_empty() { DIVIDER } else { ' ' };
        for c in line.chars().chain([end]) {
            push(&mut shown, index, c);
        }
    }
    shown
}

fn without_comments(text: &str) -> Shown {
    let kept = text.lines().map(|line| {
        let end = line.find('#').unwrap_or(line.len());
        &line[..end]
    });
    document(&kept.collect::<Vec<_>>().join("\n"))
}

/// The insides of strings that are no test's, escapes taken out; a string that goes on in the next
/// line is one.
fn strings(source: &Source) -> Shown {
    let mut shown = Shown::new();
    for (index, line) in source.lines.iter().enumerate() {
        if source.is_test(index) || !source.has_string(index) {
            push(&mut shown, index, DIVIDER);
            continue;
        }
        let mut escapes = false;
        for (c, masked) in line.chars().zip(source.code[index].chars()) {
            let seen = if masked != ' ' {
                DIVIDER
            } else if escapes || c == '\\' {
                ' '
            } else {
                c
            };
            escapes = c == '\\' && !escapes;
            push(&mut shown, index, seen);
        }
        push(&mut shown, index, ' ');
    }
    shown
}

/// The comments that are not a test's and have lines of their own; those of successive lines are
/// one text.
fn comments(source: &Source) -> Shown {
    let mut shown = Shown::new();
    for (index, line) in source.lines.iter().enumerate() {
        let comment = line.trim_start().strip_prefix("//");
        match comment.filter(|_| !source.is_test(index) && !source.has_string(index)) {
            Some(comment) => {
                let marks = ['/', '!'];
                for c in comment.trim_start_matches(marks).chars().chain([' ']) {
                    push(&mut shown, index, c);
                }
            }
            None => push(&mut shown, index, DIVIDER),
        }
    }
    shown
}

/// Complains of each word of the list, at the line where it begins.
fn check_text(place: &str, shown: &Shown, complaints: &mut Vec<Complaint>) {
    check_words(place, shown, WORDS.iter(), complaints);
}

fn check_words<'a>(
    place: &str,
    shown: &Shown,
    words: impl Iterator<Item = &'a Word>,
    complaints: &mut Vec<Complaint>,
) {
    let text: String = shown.iter().map(|&(_, c)| c.to_ascii_lowercase()).collect();
    let lines: Vec<usize> = shown
        .iter()
        .flat_map(|&(line, c)| std::iter::repeat_n(line, c.len_utf8()))
        .collect();
    for word in words {
        for (at, _) in text.match_indices(word.not) {
            let after = &text[at + word.not.len()..];
            let is_whole = !text[..at].ends_with(is_letter) && !after.starts_with(is_letter);
            if is_whole && !stands_in(&text, at, word.but) {
                let what = format!("`{}`: write {}", word.not, word.write);
                complaints.push(Complaint::new(place, lines[at] + 1, what));
            }
        }
    }
}

fn is_letter(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '-'
}

/// Whether one of `longer` covers the place `at`.
fn stands_in(text: &str, at: usize, longer: &[&str]) -> bool {
    longer.iter().any(|longer| {
        text.match_indices(longer)
            .any(|(from, _)| (from..from + longer.len()).contains(&at))
    })
}
