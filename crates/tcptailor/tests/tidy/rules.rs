//! The rules of Linux that code cites by number stand in one document, and no others do.
//!
//! A heading `### 8.3 ...` is a rule, and a line `1. ...` below it is 8.3.1. "Rule 8.3.1", "rules
//! 7.1 and 7.2" and "rules 2.1 to 2.3" are citations, also across the lines of a comment. Packet
//! scripts name test vectors, which have a row in the same document.

use std::collections::BTreeSet;

use crate::tree::{Complaint, File, Tree};

const PAGE: &str = "docs/linux-tcp.md";
/// Planted texts cite what does not exist.
const OWN_FOLDER: &str = "crates/tcptailor/tests/tidy/";
const ENDINGS: &[&str] = &[".rs", ".md", ".py", ".script"];
/// What stands between two numbers of one citation.
const JOINTS: &[&str] = &[", and ", ", ", " and ", " or ", " to "];

pub(crate) fn check(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let page = tree.text(PAGE).unwrap_or_default();
    let (rules, vectors) = (rules(page), vectors(page));
    let mut cited = BTreeSet::new();
    for file in tree.files.iter().filter(|file| may_cite(file)) {
        for (line, number) in citations(&file.text) {
            if !rules.iter().any(|(_, rule)| *rule == number) {
                let what = format!("rule {number} is not in {PAGE}: add it, or cite what is");
                complaints.push(Complaint::new(&file.path, line, what));
            }
            cited.insert(number);
        }
        for (line, vector) in named_vectors(file) {
            if !vectors.contains(vector) {
                let what = format!("vector {vector} is not in {PAGE}: add it, or name what is");
                complaints.push(Complaint::new(&file.path, line, what));
            }
        }
    }
    for (line, rule) in rules.iter().filter(|(_, rule)| is_heading(rule)) {
        let below = format!("{rule}.");
        let is_cited = |number: &String| number == rule || number.starts_with(&below);
        if !cited.iter().any(is_cited) {
            let what =
                format!("nothing cites rule {rule}: cite it where it is obeyed, or delete it");
            complaints.push(Complaint::new(PAGE, *line, what));
        }
    }
    complaints
}

fn may_cite(file: &File) -> bool {
    file.path != PAGE
        && !file.path.starts_with(OWN_FOLDER)
        && ENDINGS.iter().any(|ending| file.path.ends_with(ending))
}

/// A rule by itself, not an item of one.
fn is_heading(rule: &str) -> bool {
    rule.matches('.').count() == 1
}

/// The rules of the document, with their lines.
fn rules(page: &str) -> Vec<(usize, String)> {
    let (mut rules, mut heading) = (Vec::new(), None);
    for (index, line) in page.lines().enumerate() {
        if line.starts_with('#') {
            let title = line.strip_prefix("### ").and_then(|title| number(title));
            heading = title.filter(|rule| is_heading(rule));
            rules.extend(heading.map(|rule| (index + 1, rule.to_owned())));
        } else if let Some(rule) = heading
            && let Some((item, _)) = line.split_once(". ")
            && !item.is_empty()
            && item.bytes().all(|byte| byte.is_ascii_digit())
        {
            rules.push((index + 1, format!("{rule}.{item}")));
        }
    }
    rules
}

/// The vectors of the document: what begins a row of a table, such as `| S8a |`.
fn vectors(page: &str) -> BTreeSet<&str> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| "));
    rows.filter_map(|row| row.split_once(" |"))
        .map(|(first, _)| first)
        .collect()
}

/// The vectors that a packet script says it is.
fn named_vectors(file: &File) -> impl Iterator<Item = (usize, &str)> {
    let is_script = file.path.ends_with(".script");
    let lines = file.text.lines().enumerate().filter(move |_| is_script);
    lines
        .filter_map(|(index, line)| Some((index + 1, line.strip_prefix("vectors ")?)))
        .flat_map(|(line, names)| names.split_whitespace().map(move |name| (line, name)))
}

/// What a text cites, each with its line.
fn citations(text: &str) -> Vec<(usize, String)> {
    let (joined, lines) = without_comment_marks(text);
    let mut found = Vec::new();
    for word in ["rule ", "rules ", "Rule ", "Rules "] {
        for (at, _) in joined.match_indices(word) {
            if !joined[..at].ends_with(char::is_alphanumeric) {
                let line = lines.partition_point(|&begin| begin <= at);
                let numbers = numbers(&joined[at + word.len()..]);
                found.extend(numbers.into_iter().map(|number| (line, number)));
            }
        }
    }
    found
}

/// A text as one line, and where in it each line begins.
fn without_comment_marks(text: &str) -> (String, Vec<usize>) {
    let (mut joined, mut lines) = (String::new(), Vec::new());
    for line in text.lines() {
        lines.push(joined.len());
        let line = line.trim();
        let mark = ["//! ", "/// ", "// ", "# "];
        let bare = mark.iter().find_map(|mark| line.strip_prefix(mark));
        joined.push_str(bare.unwrap_or(line));
        joined.push(' ');
    }
    (joined, lines)
}

/// The numbers that `text` begins with; from `2.1 to 2.3` all three.
fn numbers(text: &str) -> Vec<String> {
    let mut numbers: Vec<String> = Vec::new();
    let (mut rest, mut is_range) = (text, false);
    while let Some(next) = number(rest) {
        if is_range && let Some(last) = numbers.last() {
            numbers.extend(between(&last.clone(), next));
        }
        numbers.push(next.to_owned());
        rest = &rest[next.len()..];
        let Some(joint) = JOINTS.iter().find(|joint| rest.starts_with(*joint)) else {
            break;
        };
        is_range = *joint == " to ";
        rest = &rest[joint.len()..];
    }
    numbers
}

/// What lies between the ends of a range whose last parts differ.
fn between(first: &str, last: &str) -> Vec<String> {
    let parts = |number: &str| {
        let (section, item) = number.rsplit_once('.')?;
        Some((section.to_owned(), item.parse::<u32>().ok()?))
    };
    match (parts(first), parts(last)) {
        (Some((section, from)), Some((other, to))) if section == other => {
            let items = from + 1..to;
            items.map(|item| format!("{section}.{item}")).collect()
        }
        _ => Vec::new(),
    }
}

/// The number that `text` begins with, of two parts or more.
fn number(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let number = text[..end.unwrap_or(text.len())].trim_end_matches('.');
    let is_whole = number.split('.').all(|part| !part.is_empty());
    (is_whole && number.contains('.')).then_some(number)
}
