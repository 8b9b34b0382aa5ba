//! Tables of a Markdown document, for tests that compare them with the code.

/// The rows of the table of `document` with this header, by cell.
pub(crate) fn table(document: &'static str, header: &str) -> Vec<Vec<&'static str>> {
    let (_, rest) = document.split_once(header).expect(header);
    let rows = rest
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    rows.map(|row| row.split(" | ").collect()).collect()
}

/// The words in backquotes of a cell, but for those in brackets.
pub(crate) fn words(cell: &str) -> Vec<&str> {
    let mut depth = 0;
    let mut words = Vec::new();
    for (index, part) in cell.split('`').enumerate() {
        if index % 2 == 1 {
            words.extend((depth == 0).then_some(part));
        } else {
            depth += part.matches('(').count();
            depth -= part.matches(')').count();
        }
    }
    words
}
