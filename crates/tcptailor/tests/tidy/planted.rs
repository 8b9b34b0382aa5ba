//! Planted violations: each check catches what it should, and nothing else.

use crate::documents;
use crate::manifests;
use crate::rules;
use crate::rust;
use crate::tree::{Complaint, Tree};
use crate::words;

/// What all checks of code say about one file, each complaint on a line of its own.
fn complaints_about(path: &str, text: &str) -> String {
    let tree = Tree::of(&[
        (path, text),
        ("crates/doctor/src/lib.rs", "mod x;\npub mod emulator;"),
    ]);
    let mut complaints = manifests::check(&tree);
    complaints.extend(rust::check(&tree));
    shown(&complaints)
}

fn shown(complaints: &[Complaint]) -> String {
    complaints
        .iter()
        .map(|complaint| format!("{complaint}\n"))
        .collect()
}

/// `expected` is a part of the one complaint, or empty for none.
fn check(path: &str, text: &str, expected: &str) {
    let found = complaints_about(path, text);
    if expected.is_empty() {
        assert_eq!(found, "", "about {text}");
    } else {
        assert!(
            found.contains(expected),
            "about {text}: `{found}` lacks `{expected}`"
        );
        assert_eq!(found.lines().count(), 1, "about {text}: {found}");
    }
}

const FLOW: &str = "crates/doctor/src/x.rs";

#[test]
fn edges() {
    let flow = "crates/doctor/Cargo.toml";
    check(
        flow,
        "[dependencies]\nbase.workspace = true\nserde = \"1\"",
        "",
    );
    check(
        flow,
        "[dependencies]\nlink.workspace = true",
        "Cargo.toml:2: `doctor` may not know `link`",
    );
    check(
        flow,
        "[dev-dependencies]\nlinux = { workspace = true }",
        "may not know `linux`",
    );
    check(
        flow,
        "[target.'cfg(unix)'.dependencies]\nstack = \"1\"",
        "may not know `stack`",
    );
    check(
        flow,
        "[dependencies.tcptailor-lab]\npath = \"../lab\"",
        "may not know `lab`",
    );
    check(flow, "[features]\nlink = []", "");
    let runtime = "[dependencies]\ntokio = \"1\"";
    check(flow, runtime, "may not know `tokio`");
    check("crates/tokio/Cargo.toml", runtime, "");
    check(
        "crates/daemon/Cargo.toml",
        "[package]",
        "crate `daemon` has no place",
    );
}

#[test]
fn lint_files() {
    let differing = Tree::of(&[
        ("crates/base/clippy.toml", "a"),
        ("crates/doctor/clippy.toml", "b"),
        ("crates/doctor/Cargo.toml", ""),
    ]);
    assert!(shown(&manifests::check(&differing)).contains("copy crates/base/clippy.toml"));
}

#[test]
fn words() {
    let cases = [
        (
            "fn f() { let t = Instant::now(); }",
            "x.rs:1: `Instant::now`: take `now`",
        ),
        (
            "use std::time::SystemTime;\nfn f() { SystemTime::now(); }",
            "x.rs:2",
        ),
        ("fn f() { println!(\"x\"); }", "libraries never print"),
        ("fn f() { eprintln!(\"x\"); }", "the program reports it"),
        (
            "fn f() { unsafe { g() } }",
            "only `linux` may hold unsafe code",
        ),
        ("#![forbid(unsafe_code)]", ""),
        (
            "fn f() { libc::getpid(); }",
            "only `linux` makes system calls",
        ),
        ("fn f() { x.unwrap(); }", "why it cannot fail"),
        ("fn f() { x.unwrap_or(1); }", ""),
        (
            "#[cfg(test)]\nmod tests {\n    fn f() { x.unwrap(); }\n}",
            "",
        ),
        (
            "#[cfg(test)]\nmod tests {}\nfn f() { x.unwrap(); }",
            "x.rs:3",
        ),
        ("fn f() { todo!() }", "build it, or leave it out"),
        ("/// Says `x.unwrap()`.\nfn f() {}", ""),
        (
            "fn f() { g(\"x.unwrap()\", r#\"todo!() \" \"#, 'a', '\\''); }",
            "",
        ),
        ("fn f<'a>(x: &'a str) { x.unwrap(); }", "why it cannot fail"),
        ("/* a /* nested */ todo!() */ fn f() {}", ""),
        ("fn get_rate() {}", "without `get_`"),
        ("fn f() { map.get_mut(1); }", ""),
        ("#[ignore = \"slow\"]", "decide at run time"),
        ("#[allow(dead_code)]", "#[expect(lint"),
        ("use std::collections::HashMap;", "BTreeMap"),
        ("mod util;", "after what it does"),
        ("mod utility_rate;", ""),
        ("struct FlowManager;", "`FlowManager`: name the type"),
        ("// FIXME: later", "open an issue"),
        ("fn f() { dbg!(1); }", "delete it"),
    ];
    for (text, expected) in cases {
        check(FLOW, text, expected);
    }
}

#[test]
fn words_of_some_places_only() {
    let linux = |text: &str, expected: &str| {
        let tree = Tree::of(&[
            ("crates/linux/src/lib.rs", "mod emulator;\nmod netns;"),
            ("crates/linux/src/emulator.rs", text),
            ("crates/linux/src/netns.rs", text),
        ]);
        assert_eq!(shown(&rust::check(&tree)), expected);
    };
    linux("fn f() { unsafe { Instant::now() } }", "");
    linux(
        "use stack::Host;",
        "crates/linux/src/emulator.rs:1: `stack`: the emulator carries packets of any TCP and \
         names none\n",
    );
    check(
        "crates/doctor/tests/x.rs",
        "fn f() { x.unwrap(); println!(\"skipped: x\"); }",
        "",
    );
    let code = "fn f() { unsafe { g() } }";
    check("examples/cortex-m/src/x.rs", code, "");
    check("examples/other/src/x.rs", code, "only `linux` may hold");
    check(
        "crates/doctor/tests/x.rs",
        "#[ignore]\nfn f() {}",
        "decide at run time",
    );
}

#[test]
fn sizes() {
    let lines = |n: usize| "    g();\n".repeat(n);
    let function = |n: usize| format!("fn f() {{\n{}}}\n", lines(n));
    check(FLOW, &function(68), "");
    check(FLOW, &function(69), "x.rs:1: `f` has 71 lines");
    check(
        FLOW,
        &format!("// tidy: long because it is a table.\n{}", function(90)),
        "",
    );
    check(FLOW, &"// line\n".repeat(800), "");
    check(FLOW, &"// line\n".repeat(801), "801 lines before its tests");
    let tests = |n: usize| format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "// line\n".repeat(n));
    check(
        FLOW,
        &format!("{}{}", "// line\n".repeat(800), tests(290)),
        "",
    );
    check(FLOW, &tests(300), "303 lines of tests");
    check(FLOW, &format!("// {}", "x".repeat(97)), "");
    check(FLOW, &format!("// {}", "x".repeat(98)), "101 columns");
    check(
        FLOW,
        &format!("const X: &str = \"{}\";", "x".repeat(100)),
        "",
    );
    check(FLOW, &format!("// https://{}", "x".repeat(100)), "");
}

#[test]
fn parameters() {
    check(
        FLOW,
        "fn f(&mut self, a: A, b: B<C, D>, c: (E, F), d: impl Fn(G, H) -> I, e: J) {}",
        "",
    );
    check(
        FLOW,
        "fn f<T: Into<U>>(a: T, b: B, c: C, d: D, e: E, f: F) {}",
        "`f` has 6 parameters",
    );
    check(FLOW, "fn f(\n    a: A,\n    b: B,\n) {}", "");
}

#[test]
fn dead_files() {
    let tree = |files: &[(&str, &str)]| shown(&rust::check(&Tree::of(files)));
    assert!(
        tree(&[("crates/doctor/src/lib.rs", ""), (FLOW, "")]).contains("no `mod x;` leads here")
    );
    let nested = [
        ("crates/doctor/src/lib.rs", "mod rules;"),
        ("crates/doctor/src/rules/mod.rs", "mod nagle;"),
        (
            "crates/doctor/src/rules/nagle.rs",
            "#[cfg(test)]\nmod tests;",
        ),
        ("crates/doctor/src/rules/nagle/tests.rs", ""),
    ];
    assert_eq!(tree(&nested), "");
}

#[test]
fn documented_and_tried() {
    let tree = Tree::of(&[
        ("page.md", "### `nodelay`\n### `gone`\n"),
        (
            "crates/lab/src/faults.rs",
            "fault(\"nodelay\", (\"nodelay\", \"on\"))",
        ),
        ("crates/lab/src/lib.rs", "(\"cork\", \"on\")"),
    ]);
    let mut complaints = Vec::new();
    documents::check_documented(&tree, "page.md", &["nodelay", "cork"], &mut complaints);
    documents::check_knobs_tried(&tree, &["nodelay", "cork"], &mut complaints);
    documents::check_diagnoses_provoked(&tree, &["nodelay", "cork"], &mut complaints);
    assert_eq!(
        shown(&complaints),
        "page.md:1: `cork` has no heading `### `\n\
         page.md:2: `gone` does not exist (any more); delete its paragraph\n\
         docs/knobs.md:1: no scenario, fault or test sets \"cork\"\n\
         docs/diagnoses.md:1: no row of lab::FAULTS and no situation provokes \"cork\"\n"
    );
}

#[test]
fn a_knob_is_set_by_what_gives_it_a_value() {
    let check = |text: &str, is_set: bool| {
        let tree = Tree::of(&[("crates/lab/tests/x.rs", text)]);
        let mut complaints = Vec::new();
        documents::check_knobs_tried(&tree, &["cork", "tcp.mss"], &mut complaints);
        // The other one is never set.
        assert_eq!(complaints.len(), 2 - usize::from(is_set), "{text}");
    };
    check("(\"cork\", \"on\")", true);
    check("check(\n    \"cork\",\n    \"on\",\n)", true);
    check("\"client.cork=on\"", true);
    check("\"client.tcp.mss\" = \"1000B\"", true);
    check("client.\"tcp.mss\" = \"1000B\"", true);
    check("[\"cork\", \"tcp.mss\"]", false);
    check("[\"cork\"]", false);
    check("(\"uncork\", \"on\")", false);
    check("let cork = on;", false);
    check("cork == true", false);
    check("\"cork\" => true", false);
}

#[test]
fn documents_hold_together() {
    let machine = ["/ro", "ot/x"].concat();
    let tree = Tree::of(&[
        (
            "README.md",
            "[a](docs/ci.md) [b](docs/none.md) [c](https://x.example)",
        ),
        ("docs/ci.md", "[up](../README.md#install)"),
        ("ARCHITECTURE.md", &"line\n".repeat(201)),
        (".ci/run", "cargo test --workspace"),
        ("scenarios/lonely.toml", &machine),
        ("crates/lab/tests/snapshots/lab__gone.snap", ""),
    ]);
    let found = shown(&documents::check(&tree));
    for expected in [
        "README.md:1: the link to `docs/none.md` leads nowhere",
        "README.md:1: does not name the test command",
        "ARCHITECTURE.md:1: 201 lines; 200 at most",
        "scenarios/lonely.toml:1: no code and no test names this scenario",
        "means something on one machine only",
        "no test `gone` makes this snapshot",
    ] {
        assert!(found.contains(expected), "{found} lacks {expected}");
    }
    assert!(!found.contains("docs/ci.md:"), "{found}");
    assert!(!found.contains(".ci/run:"), "{found}");
}

#[test]
fn rules_are_in_the_document_that_citations_lead_to() {
    let page = "\
### 2.1 One
### 2.2 Two
### 2.3 Three
1. First.
2. Second.
### 2.4 Four
10. Tenth.
### Windows
1. No rule.
| W1 | a SYN |
";
    let code = "\
//! Rules 2.1 to 2.3 and 2.3.2, the last of which (rule
//! 9.9) does not exist; rule 2.3.3 has no item.
// The rule 7 of a list, overrule 8.8, version 6.6.
";
    let tree = Tree::of(&[
        ("docs/linux-tcp.md", page),
        ("crates/stack/src/lib.rs", code),
        ("crates/stack/scripts/a/b.script", "vectors W1 W2\n"),
        ("crates/tcptailor/tests/tidy/x.rs", "// rule 9.9"),
        ("Cargo.toml", "# rule 9.9"),
    ]);
    assert_eq!(
        shown(&rules::check(&tree)),
        "crates/stack/src/lib.rs:1: rule 9.9 is not in docs/linux-tcp.md: add it, or cite what is\n\
         crates/stack/src/lib.rs:2: rule 2.3.3 is not in docs/linux-tcp.md: add it, or cite what \
         is\n\
         crates/stack/scripts/a/b.script:1: vector W2 is not in docs/linux-tcp.md: add it, or name \
         what is\n\
         docs/linux-tcp.md:6: nothing cites rule 2.4: cite it where it is obeyed, or delete it\n"
    );
}

#[test]
fn words_that_the_field_does_not_use() {
    let code = "\
const LONG: &str = \"Data is sent \\
    again\";
/// It cannot be told, again and again, that data is sent
/// again.
fn one() { say(\"\\nNobody listens: it is no socket.\"); }
#[cfg(test)]
mod tests { const ONE: &str = \"nobody\"; }
";
    let tree = Tree::of(&[
        (
            "docs/a.md",
            "One BDP is under\nway.\n\nWindow and sent\n\nagain.",
        ),
        (
            "docs/b.md",
            "There is no gain. It is no longer set. Procured.",
        ),
        ("scenarios/a.toml", "# nobody\nabout = \"It is cured.\""),
        ("crates/lab/src/lib.rs", code),
        ("crates/lab/tests/one.rs", "const ONE: &str = \"nobody\";"),
    ]);
    assert_eq!(
        shown(&words::check(&tree)),
        "docs/a.md:1: `under way`: write in flight; of a run: in progress\n\
         scenarios/a.toml:2: `cured`: write fixed\n\
         crates/lab/src/lib.rs:1: `sent again`: write retransmitted\n\
         crates/lab/src/lib.rs:5: `nobody`: write no one; or the passive\n\
         crates/lab/src/lib.rs:5: `is no`: write is not a\n\
         crates/lab/src/lib.rs:3: `sent again`: write retransmitted\n"
    );
}
