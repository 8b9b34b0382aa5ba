//! Pages: what was measured, as one file that opens in any browser, without a network.
//!
//! A [`Page`] is made from the same data as a text or a JSON document and knows nothing of it. All
//! pictures are SVG that stands in the file, readable without a script and in print; where scripts
//! run, the numbers of time series can be read out to the point. The page may load nothing and run
//! nothing but what stands in it.

#![forbid(unsafe_code)]

mod bars;
mod frame;
mod heat;
mod ladder;
mod limits;
mod lines;
mod ranges;
mod scale;
mod sequence;
mod series;
pub mod sweep;
mod words;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

pub use bars::{Bar, BarGroup, Bars};
pub use heat::Heat;
pub use ladder::{Ladder, Rung};
pub use limits::LimitShares;
pub use lines::{Axis, Line, Lines, Spot};
pub use ranges::{Range, Ranges};
pub use sequence::{AckedTo, Retransmitted, Sequence, Span};
pub use series::{Curve, Series, TimeUnit};
pub use words::number_name;

const SCRIPT: &str = include_str!("../assets/report.js");
const STYLE: &str = include_str!("../assets/report.css");

/// Letters of a cell that stay in one line.
const SHORT: usize = 24;

/// One file.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// Heading, and the name of the file in the browser.
    pub title: String,
    /// Introduction, in a sentence.
    pub lead: String,
    /// Circumstances: names and values.
    pub facts: Vec<(String, String)>,
    /// Parts in front of the sections.
    pub parts: Vec<Part>,
    /// With links to them at the top, where there are several.
    pub sections: Vec<Section>,
}

/// A chapter of a page.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// Heading.
    pub title: String,
    /// Parts of the section.
    pub parts: Vec<Part>,
}

/// Part of a page.
#[derive(Clone, Debug)]
pub enum Part {
    /// A paragraph.
    Text(String),
    /// A sentence that is to be noticed.
    Note(Tone, String),
    /// Lines to type.
    Code(String),
    /// Numbers that are to be seen first.
    Tiles(Vec<Tile>),
    /// Rows and columns.
    Table(Table),
    /// How a run or a connection went.
    Series(Box<Series>),
    /// Which bytes were sent, acknowledged and retransmitted when.
    Sequence(Box<Sequence>),
    /// Which packets passed between two hosts.
    Ladder(Ladder),
    /// Numbers over one axis.
    Lines(Lines),
    /// Numbers over two axes.
    Heat(Heat),
    /// Numbers of few cells.
    Bars(Bars),
    /// Spreads of few cells.
    Ranges(Ranges),
    /// A group with a heading.
    Block(Head, Vec<Part>),
    /// Content shown on request.
    Fold(String, Vec<Part>),
}

/// Meaning of a colour; the text says it too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    #[default]
    /// Nothing more than it is.
    Plain,
    /// Good.
    Good,
    /// Not as it should be.
    Bad,
    /// To be read with care.
    Doubt,
    /// Less important.
    Muted,
}

/// A number that is to be seen first.
#[derive(Clone, Debug)]
pub struct Tile {
    /// With its unit.
    pub number: String,
    /// Name of the number.
    pub name: String,
    /// Tone of the number.
    pub tone: Tone,
}

/// The head of a block.
#[derive(Clone, Debug, Default)]
pub struct Head {
    /// Subject.
    pub title: String,
    /// In small letters behind it.
    pub tags: Vec<String>,
    /// A word beside the title, with its tone.
    pub badge: Option<(Tone, String)>,
}

/// Rows and columns.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Above it; may be empty.
    pub caption: String,
    /// Names of the columns.
    pub head: Vec<String>,
    /// Cells, in the order of the columns.
    pub rows: Vec<Vec<Cell>>,
}

/// A place in a table.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    /// Text.
    pub text: String,
    /// The number behind the text, as JSON has it.
    pub value: Option<f64>,
    /// Tone of the text.
    pub tone: Tone,
    /// The section that the text leads to, by its place among those of the page.
    pub section: Option<usize>,
}

impl Cell {
    /// One without a number.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }

    /// A number in a unit of [`lab::show::show_value`].
    pub fn number(unit: &str, value: Option<f64>) -> Self {
        Self {
            text: value.map_or_else(|| "–".into(), |value| lab::show::show_value(unit, value)),
            value,
            ..Self::default()
        }
    }

    /// The same with a tone.
    #[must_use]
    pub fn toned(self, tone: Tone) -> Self {
        Self { tone, ..self }
    }

    /// The same as a link to a section.
    #[must_use]
    pub fn leading_to(self, section: usize) -> Self {
        Self {
            section: Some(section),
            ..self
        }
    }

    fn render(&self) -> Markup {
        let text = match self.section {
            Some(section) => html! { a href=(format!("#part-{section}")) { (self.text) } },
            None => html! { (self.text) },
        };
        match self.value {
            Some(value) => html! { data value=(value) { (text) } },
            None => text,
        }
    }
}

impl Tone {
    const fn class(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Good => "good",
            Self::Bad => "bad",
            Self::Doubt => "doubt",
            Self::Muted => "muted",
        }
    }
}

/// Stands near the beginning of a page of ours.
pub const MARK: &str = "<meta name=\"generator\" content=\"tcptailor\"";

/// The page as the text of a file.
pub fn render(page: &Page) -> String {
    let mut book = series::Book::default();
    let body = body(page, &mut book);
    let data = json_for_script(&book.data());
    let policy = format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; base-uri 'none'; form-action 'none'",
        source_hash(SCRIPT),
        source_hash(STYLE)
    );
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="generator" content="tcptailor";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="referrer" content="no-referrer";
                title { (page.title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                @if !book.is_empty() { (limits::patterns()) }
                (body)
                footer {
                    p {
                        "Made by tcptailor " (env!("CARGO_PKG_VERSION"))
                        ". This file is self-contained. "
                        span #status {
                            @if !book.is_empty() { "Exploring plots needs JavaScript." }
                        }
                    }
                }
                script type="application/json" id="data" { (PreEscaped(data)) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    // Names in it may be of other people.
    let is_obeyed = |c: char| base::is_obeyed(c) && !matches!(c, '\n' | '\t');
    markup.into_string().replace(is_obeyed, "\u{fffd}")
}

fn body(page: &Page, book: &mut series::Book) -> Markup {
    html! {
        header {
            h1 { (page.title) }
            p.lead { (page.lead) }
            @if !page.facts.is_empty() {
                dl.facts {
                    @for (name, value) in &page.facts { div { dt { (name) } dd { (value) } } }
                }
            }
        }
        main {
            @for part in &page.parts { (self::part(part, book)) }
            @if page.sections.len() > 2 {
                nav aria-label="Sections" {
                    ul {
                        @for (index, section) in page.sections.iter().enumerate() {
                            li { a href=(format!("#part-{index}")) { (section.title) } }
                        }
                    }
                }
            }
            @for (index, section) in page.sections.iter().enumerate() {
                section id=(format!("part-{index}")) {
                    h2 { (section.title) }
                    @for part in &section.parts { (self::part(part, book)) }
                }
            }
        }
    }
}

fn part(part: &Part, book: &mut series::Book) -> Markup {
    match part {
        Part::Text(text) => html! { p { (text) } },
        Part::Note(tone, text) => html! { p class={ "note " (tone.class()) } { (text) } },
        Part::Code(text) => html! { pre.code tabindex="0" { code { (text) } } },
        Part::Tiles(tiles) => html! {
            ul.tiles {
                @for tile in tiles {
                    li { b class=(tile.tone.class()) { (tile.number) } span { (tile.name) } }
                }
            }
        },
        Part::Table(table) => self::table(table),
        Part::Series(series) => series.render(book),
        Part::Sequence(sequence) => figure(&sequence.title, &sequence.render()),
        Part::Ladder(ladder) => figure(&ladder.title, &ladder.render()),
        Part::Lines(lines) => figure(&lines.title, &lines.render()),
        Part::Heat(heat) => figure(&heat.title, &heat.render()),
        Part::Bars(bars) => figure(&bars.title, &bars.render()),
        Part::Ranges(ranges) => figure(&ranges.title, &ranges.render()),
        Part::Block(head, parts) => html! {
            article.block {
                h3 {
                    (head.title)
                    @if let Some((tone, word)) = &head.badge {
                        span class={ "badge " (tone.class()) } { (word) }
                    }
                    @for tag in &head.tags { span.tag { (tag) } }
                }
                @for part in parts { (self::part(part, book)) }
            }
        },
        Part::Fold(title, parts) => html! {
            details {
                summary { (title) }
                @for part in parts { (self::part(part, book)) }
            }
        },
    }
}

fn figure(title: &str, picture: &Markup) -> Markup {
    html! { figure { figcaption { (title) } (picture) } }
}

/// A column with a number, in which every other cell has a sign for none, is one of numbers. A
/// short text is not broken.
fn table(table: &Table) -> Markup {
    let columns = table.rows.iter().map(Vec::len).max().unwrap_or(0);
    // Once for each column: every cell asks for it.
    let numbers: Vec<bool> = (0..columns.max(table.head.len()))
        .map(|column| {
            let cells = || table.rows.iter().filter_map(|row| row.get(column));
            cells().any(|cell| cell.value.is_some())
                && cells().all(|cell| cell.value.is_some() || cell.text.chars().count() <= 1)
        })
        .collect();
    let class = |column: usize, cell: &Cell| {
        let kind = match (numbers[column], cell.text.chars().count() <= SHORT) {
            (true, true) => "number",
            (true, false) => "number long",
            (false, true) => "short",
            (false, false) => "long",
        };
        [kind, cell.tone.class()].join(" ").trim().to_owned()
    };
    html! {
        div.scroll tabindex="0" role="group" aria-label=(table.caption) {
            table {
                @if !table.caption.is_empty() { caption { (table.caption) } }
                thead {
                    tr {
                        @for (column, name) in table.head.iter().enumerate() {
                            th scope="col" class=[numbers[column].then_some("number")] { (name) }
                        }
                    }
                }
                tbody {
                    @for row in &table.rows {
                        tr {
                            @for (column, cell) in row.iter().enumerate() {
                                td class=(class(column, cell)) { (cell.render()) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Hash of a script or style in a content security policy (CSP level 3, section 2.3.1).
fn source_hash(text: &str) -> String {
    format!("sha256-{}", BASE64.encode(Sha256::digest(text)))
}

/// JSON that cannot end the element it stands in: `</script` and `<!--` need a `<`.
fn json_for_script(value: &serde_json::Value) -> String {
    value.to_string().replace('<', "\\u003c")
}

#[cfg(test)]
mod tests;
