//! Sizes, banned words, and files that are not compiled.

use crate::manifests::{FIRMWARE, PURE, UNSAFE, crate_of};
use crate::source::{Source, is_name, is_test_path};
use crate::tree::{Complaint, File, Tree};

const FILE_LINES_MAX: usize = 800;
const INLINE_TEST_LINES_MAX: usize = 300;
const FUNCTION_LINES_MAX: usize = 70;
const LINE_COLUMNS_MAX: usize = 100;
const PARAMETERS_MAX: usize = 5;
/// Written inside a function, or above it, with the reason.
const LONG_BECAUSE: &str = "// tidy: long because";

/// In which code a word is banned.
#[derive(Clone, Copy)]
enum Where {
    /// Everywhere, tests included.
    Everywhere,
    /// Outside of tests.
    NotTests,
    /// Outside of tests, and outside of `linux`.
    NotLinux,
    /// Also in tests, but not in `linux`, in the library that is preloaded, and in firmware.
    NeverButUnsafe,
    /// In the crates without clocks and hash order.
    Pure,
    /// In the emulator of `linux`.
    Emulator,
}

/// A word of code (comments and strings do not count), where it is banned, and what to do instead.
/// A word that ends with a letter is a whole name; at its end `(`, `!` and `::` are part of it.
const BANNED: &[(&str, Where, &str)] = &[
    (
        "Instant::now",
        Where::NotLinux,
        "take `now` as an argument, or ask `linux::Clock`",
    ),
    (
        "SystemTime::now",
        Where::NotLinux,
        "take the time as an argument, or ask `linux::Clock`",
    ),
    (
        "println!",
        Where::NotTests,
        "libraries never print; the program prints through `Output`",
    ),
    (
        "print!",
        Where::NotTests,
        "libraries never print; the program prints through `Output`",
    ),
    (
        "eprintln!",
        Where::NotTests,
        "return an error; the program reports it",
    ),
    (
        "eprint!",
        Where::NotTests,
        "return an error; the program reports it",
    ),
    ("dbg!", Where::Everywhere, "delete it"),
    (
        "unsafe",
        Where::NeverButUnsafe,
        "only `linux` may hold unsafe code; move it there",
    ),
    (
        "libc::",
        Where::NeverButUnsafe,
        "only `linux` makes system calls; move it there",
    ),
    (
        "rustix::",
        Where::NeverButUnsafe,
        "only `linux` makes system calls; move it there",
    ),
    (
        ".unwrap()",
        Where::NotTests,
        "return an error, or `expect(\"why it cannot fail\")`",
    ),
    ("todo!", Where::Everywhere, "build it, or leave it out"),
    (
        "unimplemented!",
        Where::Everywhere,
        "build it, or leave it out",
    ),
    (
        "fn get_",
        Where::Everywhere,
        "name it after what it returns, without `get_`",
    ),
    (
        "#[ignore",
        Where::Everywhere,
        "decide at run time, print `skipped: …`",
    ),
    (
        "#[allow(",
        Where::Everywhere,
        "`#[expect(lint, reason = \"…\")]`",
    ),
    (
        "#![allow(",
        Where::Everywhere,
        "`#[expect(lint, reason = \"…\")]` where it is needed",
    ),
    (
        "HashMap",
        Where::Pure,
        "`BTreeMap`: its order is the same in each run",
    ),
    (
        "HashSet",
        Where::Pure,
        "`BTreeSet`: its order is the same in each run",
    ),
    (
        "stack",
        Where::Emulator,
        "the emulator carries packets of any TCP and names none",
    ),
    (
        "mod util",
        Where::Everywhere,
        "name the module after what it does",
    ),
    (
        "mod utils",
        Where::Everywhere,
        "name the module after what it does",
    ),
    (
        "mod helpers",
        Where::Everywhere,
        "name the module after what it does",
    ),
];

/// Banned in comments as well.
const BANNED_MARKS: &[&str] = &["FIXME", "TODO", "XXX"];

pub(crate) fn check(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for file in tree.under("", ".rs") {
        let source = Source::new(&file.path, &file.text);
        check_sizes(file, &source, &mut complaints);
        check_functions(file, &source, &mut complaints);
        check_words(file, &source, &mut complaints);
        check_type_names(file, &source, &mut complaints);
        check_marks(file, &mut complaints);
    }
    check_dead_files(tree, &mut complaints);
    complaints
}

fn check_sizes(file: &File, source: &Source, complaints: &mut Vec<Complaint>) {
    let mut complain = |line: usize, what: String| {
        complaints.push(Complaint::new(&file.path, line, what));
    };
    let length = source.length_before_tests();
    if length > FILE_LINES_MAX {
        complain(
            1,
            format!("{length} lines before its tests; {FILE_LINES_MAX} at most: split it"),
        );
    }
    let tests = source.length_of_tests();
    if !is_test_path(&file.path) && tests > INLINE_TEST_LINES_MAX {
        complain(
            1,
            format!("{tests} lines of tests; move them to a file of their own, tests.rs"),
        );
    }
    for (index, line) in source.lines.iter().enumerate() {
        let columns = line.chars().count();
        let exempt = source.has_string(index) || line.contains("://");
        if columns > LINE_COLUMNS_MAX && !exempt {
            complain(
                index + 1,
                format!("{columns} columns; {LINE_COLUMNS_MAX} at most"),
            );
        }
    }
}

fn check_functions(file: &File, source: &Source, complaints: &mut Vec<Complaint>) {
    for function in &source.functions {
        let (first, last) = (*function.lines.start(), *function.lines.end());
        let name = &function.name;
        let length = last - first + 1;
        let excused = source.lines[first.saturating_sub(6)..last]
            .iter()
            .any(|line| line.trim_start().starts_with(LONG_BECAUSE));
        if length > FUNCTION_LINES_MAX && !excused {
            let what = format!(
                "`{name}` has {length} lines; {FUNCTION_LINES_MAX} at most: split it, or write \
                 `{LONG_BECAUSE} …`"
            );
            complaints.push(Complaint::new(&file.path, first, what));
        }
        let parameters = function.parameters;
        if parameters > PARAMETERS_MAX {
            let what = format!("`{name}` has {parameters} parameters; make a struct of them");
            complaints.push(Complaint::new(&file.path, first, what));
        }
    }
}

fn check_words(file: &File, source: &Source, complaints: &mut Vec<Complaint>) {
    let krate = crate_of(&file.path);
    let in_emulator = file.path.starts_with("crates/linux/src/") && file.path.contains("emulat");
    for &(word, place, instead) in BANNED {
        for (index, code) in source.code.iter().enumerate() {
            let banned_here = match place {
                Where::Everywhere => true,
                Where::NotTests => !source.is_test(index),
                Where::NotLinux => krate != "linux" && !source.is_test(index),
                Where::NeverButUnsafe => {
                    !UNSAFE.contains(&krate) && !file.path.starts_with(FIRMWARE)
                }
                Where::Pure => PURE.contains(&krate),
                Where::Emulator => in_emulator,
            };
            if banned_here && has_word(code, word) {
                let what = format!("`{word}`: {instead}");
                complaints.push(Complaint::new(&file.path, index + 1, what));
            }
        }
    }
}

/// Whether `code` holds `word`, not as a part of a longer name.
fn has_word(code: &str, word: &str) -> bool {
    code.match_indices(word).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        let begins = !(word.starts_with(is_name) && before.is_some_and(is_name));
        let open_end = word.ends_with('_') || !word.ends_with(is_name);
        begins && (open_end || !after.is_some_and(is_name))
    })
}

fn check_type_names(file: &File, source: &Source, complaints: &mut Vec<Complaint>) {
    for (index, code) in source.code.iter().enumerate() {
        for keyword in ["struct ", "enum ", "trait "] {
            let Some((_, rest)) = code.split_once(keyword) else {
                continue;
            };
            let name: String = rest.chars().take_while(|&c| is_name(c)).collect();
            if ["Manager", "Helper", "Util", "Utils"]
                .iter()
                .any(|end| name.ends_with(end))
            {
                let what = format!("`{name}`: name the type after what it is");
                complaints.push(Complaint::new(&file.path, index + 1, what));
            }
        }
    }
}

fn check_marks(file: &File, complaints: &mut Vec<Complaint>) {
    // These files write the marks down in order to find them.
    if file.path.starts_with("crates/tcptailor/tests/tidy/") {
        return;
    }
    for (index, line) in file.text.lines().enumerate() {
        for mark in BANNED_MARKS {
            if has_word(line, mark) {
                let what = format!("`{mark}`: do it now, or open an issue");
                complaints.push(Complaint::new(&file.path, index + 1, what));
            }
        }
    }
}

/// Files below `src` without a `mod` that leads to them.
fn check_dead_files(tree: &Tree, complaints: &mut Vec<Complaint>) {
    for file in tree.under("crates/", ".rs") {
        let Some((root, module)) = file.path.split_once("/src/") else {
            continue;
        };
        let module = module.trim_end_matches(".rs");
        let module = module.strip_suffix("/mod").unwrap_or(module);
        if matches!(module, "lib" | "main") || module.starts_with("bin/") {
            continue;
        }
        let (parents, name) = match module.rsplit_once('/') {
            Some((dir, name)) => (
                vec![
                    format!("{root}/src/{dir}.rs"),
                    format!("{root}/src/{dir}/mod.rs"),
                ],
                name,
            ),
            None => (
                vec![format!("{root}/src/lib.rs"), format!("{root}/src/main.rs")],
                module,
            ),
        };
        let declares = |text: &str| has_word(text, &format!("mod {name};"));
        if !parents
            .iter()
            .filter_map(|parent| tree.text(parent))
            .any(declares)
        {
            let what = format!("no `mod {name};` leads here; declare it or delete the file");
            complaints.push(Complaint::new(&file.path, 1, what));
        }
    }
}
