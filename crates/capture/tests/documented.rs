//! The page for operators says of each diagnosis what a capture shows of it.

use doctor::{Confidence, DIAGNOSES, InPackets};

#[test]
fn the_page_says_what_packets_show_of_each_diagnosis() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/captures.md");
    let page = std::fs::read_to_string(path).expect("the page");
    let row = |begins: &str| {
        let found = page.lines().find(|line| line.starts_with(begins));
        found.unwrap_or_else(|| panic!("no row `{begins}`"))
    };
    let rows = [
        (InPackets::Shown, row("| as much as sockets |")),
        (
            InPackets::Consistent(Confidence::Medium),
            row("| what is *consistent with* them, *medium* at most |"),
        ),
        (
            InPackets::Consistent(Confidence::Low),
            row("| what is *consistent with* it, *low* |"),
        ),
    ];
    for diagnosis in DIAGNOSES {
        let name = format!("`{}`", diagnosis.id);
        for (shown, row) in &rows {
            let expected = diagnosis.in_packets == *shown;
            assert_eq!(row.contains(&name), expected, "{name} in {row}");
        }
    }
}
