//! Pages: what was measured as one file that opens anywhere, without a network.
//!
//! A [`Page`] is made from the same data as a text or a JSON document and knows nothing of it. All
//! pictures are SVG that stands in the file, readable without a script and in print; where scripts
//! run, time series are drawn once more so that they can be read to the point. The page may load
//! nothing and run nothing but what stands in it.

mod bars;
mod frame;
mod heat;
mod lines;
mod ranges;
pub(crate) mod remarks;
pub(crate) mod reproduction;
mod scale;
mod series;
pub(crate) mod sweep;
pub(crate) mod words;

use std::fs;
use std::path::Path;

use anyhow::Context;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

pub(crate) use bars::{Bar, BarGroup, Bars};
pub(crate) use heat::Heat;
pub(crate) use lines::{Axis, Line, Lines, Spot};
pub(crate) use ranges::{Range, Ranges};
pub(crate) use series::Series;

/// uPlot 1.6.32 (MIT), as its package has it.
const UPLOT: &str = include_str!("../assets/uplot/uPlot.iife.min.js");
const UPLOT_STYLE: &str = include_str!("../assets/uplot/uPlot.min.css");
const UPLOT_LICENCE: &str = include_str!("../assets/uplot/LICENSE");
const SCRIPT: &str = include_str!("../assets/report.js");
const STYLE: &str = include_str!("../assets/report.css");

/// Letters of a cell that stay in one line.
const SHORT: usize = 24;

/// One file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Page {
    pub(crate) title: String,
    /// What it is, in a sentence.
    pub(crate) lead: String,
    /// How it was made: names and values.
    pub(crate) facts: Vec<(String, String)>,
    pub(crate) parts: Vec<Part>,
    /// With links to them at the top, where there are several.
    pub(crate) sections: Vec<Section>,
}

/// A chapter of a page.
#[derive(Clone, Debug, Default)]
pub(crate) struct Section {
    pub(crate) title: String,
    pub(crate) parts: Vec<Part>,
}

/// What a page consists of.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    Text(String),
    Note(Tone, String),
    Tiles(Vec<Tile>),
    Table(Table),
    Series(Box<Series>),
    Lines(Lines),
    Heat(Heat),
    Bars(Bars),
    Ranges(Ranges),
    /// What belongs together, with a head.
    Block(Head, Vec<Part>),
    /// What is shown on request.
    Fold(String, Vec<Part>),
}

/// What a colour says; the words say it too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tone {
    #[default]
    Plain,
    Good,
    Bad,
    Doubt,
    Muted,
}

/// A number that is to be seen first.
#[derive(Clone, Debug)]
pub(crate) struct Tile {
    pub(crate) number: String,
    pub(crate) name: String,
    pub(crate) tone: Tone,
}

/// The head of a block.
#[derive(Clone, Debug, Default)]
pub(crate) struct Head {
    pub(crate) title: String,
    /// In small letters behind it.
    pub(crate) tags: Vec<String>,
    pub(crate) badge: Option<(Tone, String)>,
}

/// Rows and columns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    pub(crate) caption: String,
    pub(crate) head: Vec<String>,
    pub(crate) rows: Vec<Vec<Cell>>,
}

/// A place in a table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    pub(crate) text: String,
    /// The number behind the text, as JSON has it.
    pub(crate) value: Option<f64>,
    pub(crate) tone: Tone,
}

impl Cell {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }

    /// A number in a unit of [`lab::show::show_value`].
    pub(crate) fn number(unit: &str, value: Option<f64>) -> Self {
        Self {
            text: value.map_or_else(|| "–".into(), |value| lab::show::show_value(unit, value)),
            value,
            ..Self::default()
        }
    }

    pub(crate) fn toned(self, tone: Tone) -> Self {
        Self { tone, ..self }
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
pub(crate) const MARK: &str = "<meta name=\"generator\" content=\"tcptailor\"";

/// Writes a page; where that fails it says which file.
pub(crate) fn write(path: &Path, page: &str) -> anyhow::Result<()> {
    fs::write(path, page).with_context(|| format!("writing {}", path.display()))
}

/// The page as the text of a file.
pub(crate) fn render(page: &Page) -> String {
    let mut book = series::Book::default();
    let body = body(page, &mut book);
    let data = json_for_script(&book.data());
    let style = [UPLOT_STYLE, STYLE].concat();
    let script = [UPLOT, SCRIPT].concat();
    let policy = format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; base-uri 'none'; form-action 'none'",
        source_hash(&script),
        source_hash(&style)
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
                style { (PreEscaped(style)) }
            }
            body {
                (body)
                footer {
                    p {
                        "Made by tcptailor " (env!("CARGO_PKG_VERSION")) "; all of it stands in \
                         this file. "
                        span #status { "Interactive plots need a script." }
                    }
                    details {
                        summary { "Licence of uPlot, which draws the interactive plots" }
                        p { (UPLOT_LICENCE) }
                    }
                }
                script type="application/json" id="data" { (PreEscaped(data)) }
                script { (PreEscaped(script)) }
            }
        }
    };
    markup.into_string()
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
            @if page.sections.len() > 3 {
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
        Part::Tiles(tiles) => html! {
            ul.tiles {
                @for tile in tiles {
                    li { b class=(tile.tone.class()) { (tile.number) } span { (tile.name) } }
                }
            }
        },
        Part::Table(table) => self::table(table),
        Part::Series(series) => series.render(book),
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
                                td class=(class(column, cell)) {
                                    @match cell.value {
                                        Some(value) => data value=(value) { (cell.text) },
                                        None => (cell.text),
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// What a policy calls the text of a script or a style (CSP level 3, section 2.3.1).
fn source_hash(text: &str) -> String {
    format!("sha256-{}", BASE64.encode(Sha256::digest(text)))
}

/// JSON that cannot end the element it stands in: `</script` and `<!--` need a `<`.
fn json_for_script(value: &serde_json::Value) -> String {
    value.to_string().replace('<', "\\u003c")
}

#[cfg(test)]
mod tests;
