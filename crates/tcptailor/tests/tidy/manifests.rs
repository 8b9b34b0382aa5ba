//! Who may depend on whom, and the lint files.

use crate::tree::{Complaint, Tree};

/// Crate, and the crates of ours that it may name in any dependency section. ARCHITECTURE.md draws
/// it.
const EDGES: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("link", &["base"]),
    ("stack", &["base"]),
    ("packet_script", &["base", "stack"]),
    ("doctor", &["base"]),
    ("capture", &["base", "doctor"]),
    ("lab", &["base", "link", "stack", "doctor"]),
    ("tailor", &["base", "doctor", "lab"]),
    ("linux", &["base", "link", "stack", "doctor", "lab"]),
    ("page", &["base", "lab"]),
    ("papers", &["base", "link", "stack", "lab", "linux", "page"]),
    ("tokio", &["base", "stack", "linux"]),
    ("autocork", &[]),
    ("play", &["base", "doctor", "lab", "stack", "tailor"]),
    (
        "tcptailor",
        &[
            "base", "link", "stack", "doctor", "capture", "lab", "tailor", "linux", "page",
            "papers",
        ],
    ),
];

/// What tests, benches and examples may name beside that: the transfers by which `stack` is tried
/// go over links, packet scripts are played on it and on the kernel, captures are made in `lab`,
/// where the truth about them is known, and tests of the program preload `autocork`, which must be
/// built for them.
const DEV_EDGES: &[(&str, &[&str])] = &[
    ("stack", &["link", "packet_script"]),
    ("linux", &["packet_script"]),
    ("capture", &["lab"]),
    ("tcptailor", &["autocork"]),
];

/// Crates that make system calls, or are called from another language, and may hold unsafe code.
pub(crate) const UNSAFE: &[&str] = &["linux", "autocork", "play"];

/// Where a board is, whose registers only unsafe code can reach.
pub(crate) const FIRMWARE: &str = "examples/cortex-m/";

/// Crates without clocks, file descriptors and hash order.
pub(crate) const PURE: &[&str] = &[
    "base",
    "link",
    "stack",
    "packet_script",
    "doctor",
    "capture",
    "lab",
    "tailor",
    "page",
];

pub(crate) fn check(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for file in tree.under("crates/", "/Cargo.toml") {
        check_edges(&file.path, &file.text, &mut complaints);
    }
    check_lint_files(tree, &mut complaints);
    complaints
}

fn check_edges(path: &str, text: &str, complaints: &mut Vec<Complaint>) {
    let name = crate_of(path);
    let Some((_, allowed)) = EDGES.iter().find(|(known, _)| *known == name) else {
        let what = format!("crate `{name}` has no place in the layers; add it to EDGES");
        complaints.push(Complaint::new(path, 1, what));
        return;
    };
    let dev_edges = DEV_EDGES.iter().find(|(known, _)| *known == name);
    let in_tests = [*allowed, dev_edges.map_or(&[], |(_, more)| *more)].concat();
    let mut in_dependencies = false;
    let mut allowed: &[&str] = allowed;
    let everywhere = allowed;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_end_matches(']');
            // `[dependencies]`, `[target.….dev-dependencies]`, and `[dependencies.base]`.
            in_dependencies = section.ends_with("dependencies");
            allowed = if section.contains("dev-dependencies") {
                &in_tests
            } else {
                everywhere
            };
            if let Some((_, dependency)) = section.split_once("dependencies.") {
                check_edge(path, index, dependency, allowed, complaints);
            }
        } else if in_dependencies {
            let dependency = line.split(['.', ' ', '=']).next().unwrap_or_default();
            check_edge(path, index, dependency, allowed, complaints);
        }
    }
}

fn check_edge(
    path: &str,
    index: usize,
    dependency: &str,
    allowed: &[&str],
    complaints: &mut Vec<Complaint>,
) {
    let dependency = dependency.trim_matches('"');
    let dependency = dependency.strip_prefix("tcptailor-").unwrap_or(dependency);
    let name = crate_of(path);
    // No crate depends on itself: `tokio` in `tokio` is the runtime.
    let ours = dependency != name && EDGES.iter().any(|(known, _)| *known == dependency);
    if ours && !allowed.contains(&dependency) {
        let what = format!("`{name}` may not know `{dependency}`; move what both need downwards");
        complaints.push(Complaint::new(path, index + 1, what));
    }
}

/// The nearest clippy.toml replaces all others, so the pure crates carry equal copies.
fn check_lint_files(tree: &Tree, complaints: &mut Vec<Complaint>) {
    let model = tree.text("crates/base/clippy.toml");
    for name in PURE {
        let path = format!("crates/{name}/clippy.toml");
        let exists = tree.text(&format!("crates/{name}/Cargo.toml")).is_some();
        if exists && tree.text(&path) != model {
            complaints.push(Complaint::new(
                &path,
                1,
                "differs; copy crates/base/clippy.toml",
            ));
        }
    }
}

/// `linux` for `crates/linux/src/tun.rs`.
pub(crate) fn crate_of(path: &str) -> &str {
    let inside = path.strip_prefix("crates/").unwrap_or_default();
    inside.split('/').next().unwrap_or_default()
}
