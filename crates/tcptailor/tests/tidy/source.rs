//! A Rust file as the checks see it: comments and strings told apart from code, tests from the
//! rest, functions with their lengths.

use std::ops::RangeInclusive;

/// One function with a body. Lines count from 1.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) lines: RangeInclusive<usize>,
    /// Without `self`.
    pub(crate) parameters: usize,
}

/// A Rust file, taken apart.
pub(crate) struct Source {
    /// The lines as they are.
    pub(crate) lines: Vec<String>,
    /// The same lines with comments and the insides of strings blanked.
    pub(crate) code: Vec<String>,
    /// Lines that hold a part of a string.
    has_string: Vec<bool>,
    /// Lines that belong to tests.
    is_test: Vec<bool>,
    pub(crate) functions: Vec<Function>,
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let masked = mask(text);
        let lines: Vec<String> = text.lines().map(String::from).collect();
        let code: Vec<String> = masked.code.lines().map(String::from).collect();
        let mut has_string = vec![false; lines.len() + 1];
        for line in masked.string_lines {
            has_string[line] = true;
        }
        let whole = is_test_path(path);
        let mut is_test = vec![whole; lines.len() + 1];
        for region in test_regions(&masked.code) {
            is_test[region].fill(true);
        }
        let functions = functions(&masked.code);
        Self {
            lines,
            code,
            has_string,
            is_test,
            functions,
        }
    }

    /// Whether line `index` (from 0) belongs to tests.
    pub(crate) fn is_test(&self, index: usize) -> bool {
        self.is_test[index]
    }

    /// Whether line `index` (from 0) holds a part of a string.
    pub(crate) fn has_string(&self, index: usize) -> bool {
        self.has_string[index]
    }

    /// Lines that are no tests.
    pub(crate) fn length_before_tests(&self) -> usize {
        (0..self.lines.len()).filter(|&i| !self.is_test(i)).count()
    }

    /// Lines of tests within the file.
    pub(crate) fn length_of_tests(&self) -> usize {
        (0..self.lines.len()).filter(|&i| self.is_test(i)).count()
    }
}

/// Whether a whole file is a test or a benchmark.
pub(crate) fn is_test_path(path: &str) -> bool {
    let is_dir = |name: &str| path.contains(&format!("/{name}/"));
    is_dir("tests") || is_dir("benches") || is_dir("examples") || path.ends_with("/tests.rs")
}

struct Masked {
    code: String,
    string_lines: Vec<usize>,
}

/// Blanks comments and the insides of strings; lines stay where they are.
fn mask(text: &str) -> Masked {
    let chars: Vec<char> = text.chars().collect();
    let mut out = Masked {
        code: String::with_capacity(text.len()),
        string_lines: Vec::new(),
    };
    let mut line = 0;
    let mut at = 0;
    while at < chars.len() {
        let (end, is_string) = match token_end(&chars, at) {
            Some(found) => found,
            None => {
                line += usize::from(chars[at] == '\n');
                out.code.push(chars[at]);
                at += 1;
                continue;
            }
        };
        for (i, &c) in chars[at..end].iter().enumerate() {
            let keep = c == '\n' || is_string && (i == 0 || at + i + 1 == end);
            out.code.push(if keep { c } else { ' ' });
            if is_string && out.string_lines.last() != Some(&line) {
                out.string_lines.push(line);
            }
            line += usize::from(c == '\n');
        }
        at = end;
    }
    out
}

/// Where the comment, string or character that begins at `at` ends, and whether it is a string.
fn token_end(chars: &[char], at: usize) -> Option<(usize, bool)> {
    let rest = &chars[at..];
    let after_name = at > 0 && is_name(chars[at - 1]);
    match rest {
        ['/', '/', ..] => {
            let end = rest.iter().position(|&c| c == '\n').unwrap_or(rest.len());
            Some((at + end, false))
        }
        ['/', '*', ..] => Some((at + block_comment(rest), false)),
        ['"', ..] => Some((at + quoted(rest, '"'), true)),
        ['r', '#' | '"', ..] if !after_name => raw(rest).map(|end| (at + end, true)),
        ['b' | 'c', 'r', '#' | '"', ..] if !after_name => {
            raw(&rest[1..]).map(|end| (at + 1 + end, true))
        }
        ['\'', '\\', ..] | ['\'', _, '\'', ..] => Some((at + quoted(rest, '\''), true)),
        _ => None,
    }
}

fn block_comment(rest: &[char]) -> usize {
    let mut depth = 0_usize;
    let mut i = 0;
    while i + 1 < rest.len() {
        match (rest[i], rest[i + 1]) {
            ('/', '*') => depth += 1,
            ('*', '/') => depth -= 1,
            _ => {
                i += 1;
                continue;
            }
        }
        i += 2;
        if depth == 0 {
            return i;
        }
    }
    rest.len()
}

fn quoted(rest: &[char], quote: char) -> usize {
    let mut i = 1;
    while i < rest.len() {
        match rest[i] {
            '\\' => i += 1,
            c if c == quote => return i + 1,
            _ => {}
        }
        i += 1;
    }
    rest.len()
}

/// `rest` begins with `r`; `None` if it is not a raw string but a name like `r#type`.
fn raw(rest: &[char]) -> Option<usize> {
    let hashes = rest[1..].iter().take_while(|&&c| c == '#').count();
    if rest.get(1 + hashes) != Some(&'"') {
        return None;
    }
    let mut i = 2 + hashes;
    while i < rest.len() {
        let closing = &rest[i + 1..rest.len().min(i + 1 + hashes)];
        if rest[i] == '"' && closing.len() == hashes && closing.iter().all(|&c| c == '#') {
            return Some(i + 1 + hashes);
        }
        i += 1;
    }
    Some(rest.len())
}

pub(crate) fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Line ranges (from 0) of the items that are only compiled for tests.
fn test_regions(code: &str) -> Vec<RangeInclusive<usize>> {
    let mut regions = Vec::new();
    for (start, marker) in code.match_indices("#[cfg(test)]") {
        let body = start + marker.len();
        let end = item_end(&code[body..]).map_or(code.len(), |end| body + end);
        regions.push(line_of(code, start)..=line_of(code, end));
    }
    regions
}

fn line_of(code: &str, at: usize) -> usize {
    code[..at].matches('\n').count()
}

/// Where an item ends: at a `;` outside of brackets, or at the brace that closes its body.
fn item_end(code: &str) -> Option<usize> {
    let mut depth = 0_i32;
    for (i, c) in code.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 && matches!(c, ';' | '}') {
            return Some(i);
        }
    }
    None
}

fn functions(code: &str) -> Vec<Function> {
    let mut found = Vec::new();
    for (start, _) in code.match_indices("fn ") {
        if code[..start].chars().next_back().is_some_and(is_name) {
            continue;
        }
        let head = &code[start + 3..];
        let name: String = head.chars().take_while(|&c| is_name(c)).collect();
        let (Some(end), false) = (item_end(head), name.is_empty()) else {
            continue;
        };
        if head[..=end].ends_with('}') {
            let lines = line_of(code, start) + 1..=line_of(code, start + 3 + end) + 1;
            found.push(Function {
                parameters: parameters(head),
                name,
                lines,
            });
        }
    }
    found
}

/// Counts the parameters of `name<…>(…)`, without `self`.
fn parameters(head: &str) -> usize {
    let mut depth = 0_i32;
    let mut list = String::new();
    let mut inside = false;
    let mut previous = ' ';
    for c in head.chars() {
        let arrow = c == '>' && matches!(previous, '-' | '=');
        previous = c;
        match c {
            ')' if inside && depth == 0 => break,
            '(' if !inside && depth == 0 => inside = true,
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            '>' if !arrow => depth -= 1,
            ',' if inside && depth == 0 => list.push(','),
            _ if inside && depth == 0 => list.push(c),
            _ => {}
        }
    }
    list.split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty() && !is_self(part))
        .count()
}

fn is_self(parameter: &str) -> bool {
    let name = parameter.split(':').next().unwrap_or_default();
    name.split([' ', '&']).any(|word| word == "self")
}
