//! Checks the source tree as a whole: what neither rustc nor clippy knows of our rules.
//!
//! STYLE.md says what the rules are for. Each complaint names file and line, what is wrong, and
//! what to do instead. [`planted`] proves that each check catches what it should.

mod documents;
mod manifests;
mod planted;
mod rules;
mod rust;
mod source;
mod tree;
mod words;

use std::process::Command;

use tree::Tree;

#[test]
fn the_tree_is_tidy() {
    let tree = Tree::read();
    let mut complaints = manifests::check(&tree);
    complaints.extend(rust::check(&tree));
    complaints.extend(documents::check(&tree));
    complaints.extend(rules::check(&tree));
    complaints.extend(words::check(&tree));
    complaints.extend(words::check_help());
    complaints.sort();
    let listed: Vec<String> = complaints.iter().map(ToString::to_string).collect();
    assert!(
        listed.is_empty(),
        "{} complaints:\n{}",
        listed.len(),
        listed.join("\n")
    );
}

#[test]
fn generated_documents_are_what_the_code_generates() {
    let generated = Command::new(env!("CARGO_BIN_EXE_tcptailor"))
        .args(["knobs", "--markdown"])
        .output()
        .expect("the program runs");
    assert!(generated.status.success());
    let written = Tree::read()
        .text("docs/knobs.md")
        .unwrap_or_default()
        .to_owned();
    assert!(
        written == String::from_utf8_lossy(&generated.stdout),
        "docs/knobs.md is stale: cargo run -- knobs --markdown > docs/knobs.md"
    );
}
