//! Bars from zero: before and after, engine beside engine, with published numbers among them.

use maud::{Markup, html};

use super::frame::{self, LEFT, LETTER, NAME_HEIGHT, NAME_LETTERS, RIGHT, n};
use super::scale::{Scale, label};

const BAR: f64 = 19.0;
const GAP: f64 = 14.0;
const TOP: f64 = 6.0;
/// Behind the longest bar, for its number.
const NUMBER_WIDTH: f64 = 84.0;
/// Letters that fit into the line above bars.
const LINE_LETTERS: usize = 36;
/// Around the mark of a published number.
const MARK_MARGIN: f64 = 4.0;

/// A picture of bars.
#[derive(Clone, Debug, Default)]
pub struct Bars {
    /// Above the picture.
    pub title: String,
    /// Unit of all values; see [`lab::show::show_value`].
    pub unit: &'static str,
    /// From top to bottom.
    pub groups: Vec<BarGroup>,
}

/// Bars that belong together.
#[derive(Clone, Debug, Default)]
pub struct BarGroup {
    /// In front of it.
    pub name: String,
    /// From top to bottom.
    pub bars: Vec<Bar>,
    /// A published number and its text: a mark across the bars.
    pub published: Option<(f64, String)>,
}

/// One bar.
#[derive(Clone, Debug, Default)]
pub struct Bar {
    /// In front of it.
    pub name: String,
    /// In the unit of the picture.
    pub value: f64,
    /// Interval of the true value.
    pub range: Option<(f64, f64)>,
    /// Index of its colour.
    pub colour: usize,
}

impl Bars {
    pub(super) fn render(&self) -> Markup {
        let values = self.groups.iter().flat_map(|group| {
            let bars = group.bars.iter();
            let tops = bars.map(|bar| bar.range.map_or(bar.value, |(_, high)| high.max(bar.value)));
            tops.chain(group.published.iter().map(|(value, _)| *value))
        });
        let x = Scale::new(values, false, (LEFT, RIGHT - NUMBER_WIDTH));
        // A single bar has its name beside it.
        let is_plain = self.groups.iter().all(|group| {
            group.bars.len() < 2 && group.name.len() <= NAME_LETTERS && group.published.is_none()
        });
        let (above, gap) = if is_plain {
            (0.0, 8.0)
        } else {
            (NAME_HEIGHT, GAP)
        };
        let mut y = TOP;
        let mut tops = Vec::new();
        for group in &self.groups {
            let above = above + if is_crowded(group) { NAME_HEIGHT } else { 0.0 };
            tops.push((y, above));
            y += above + BAR * group.bars.len() as f64 + gap;
        }
        let inside = html! {
            @for (group, top) in self.groups.iter().zip(&tops) {
                (self.group(group, *top, &x))
            }
            line.axis x1=(n(LEFT)) x2=(n(LEFT)) y1=(n(TOP)) y2=(n(y - gap)) {}
        };
        frame::picture(&self.title, &self.words(), y, &inside)
    }

    fn group(&self, group: &BarGroup, (top, above): (f64, f64), x: &Scale) -> Markup {
        let first = top + above;
        let is_plain = above == 0.0;
        let last = first + BAR * group.bars.len() as f64;
        html! {
            @if !is_plain { text x=(n(LEFT + 2.0)) y=(n(top + 14.0)) { (group.name) } }
            @if let Some((_, text)) = &group.published {
                text.muted.end x=(n(RIGHT)) y=(n(first - NAME_HEIGHT + 14.0)) { "published " (text) }
            }
            @for (index, bar) in group.bars.iter().enumerate() {
                @let y = first + BAR * index as f64;
                g class=(format!("c{}", bar.colour % 6)) {
                    rect.bar x=(n(LEFT)) y=(n(y + 1.0)) width=(n((x.at(bar.value) - LEFT).max(1.0)))
                        height=(n(BAR - 3.0)) rx="2" {}
                    @if let Some((low, high)) = bar.range.filter(|(low, high)| high > low) {
                        line.mark x1=(n(x.at(low))) x2=(n(x.at(high)))
                            y1=(n(y + BAR / 2.0)) y2=(n(y + BAR / 2.0)) {}
                    }
                }
                text.muted.end x=(n(LEFT - 6.0)) y=(n(y + 13.5)) {
                    (if is_plain { &group.name } else { &bar.name })
                }
                @let text = label(self.unit, bar.value);
                @let mark = group.published.as_ref().map(|(value, _)| x.at(*value));
                @let end = bar.range.map_or(bar.value, |(_, high)| high.max(bar.value));
                text x=(n(beside(x.at(end), &text, mark))) y=(n(y + 13.5)) { (text) }
            }
            @if let Some((value, _)) = &group.published {
                @let (x, top, bottom) = (n(x.at(*value)), n(first - 3.0), n(last + 1.0));
                line.halo x1=(x) x2=(x) y1=(top) y2=(bottom) {}
                line.published x1=(x) x2=(x) y1=(top) y2=(bottom) {}
            }
        }
    }

    /// The same for who cannot see it.
    fn words(&self) -> String {
        let groups = self.groups.iter().map(|group| {
            let bars = group.bars.iter();
            let bars = bars.map(|bar| format!("{} {}", bar.name, label(self.unit, bar.value)));
            let published = group.published.iter();
            let published = published.map(|(_, text)| format!("published {text}"));
            let all: Vec<String> = bars.chain(published).collect();
            format!("{}: {}", group.name, all.join(", "))
        });
        groups.collect::<Vec<_>>().join("; ")
    }
}

/// Whether its name and what was published need a line each.
fn is_crowded(group: &BarGroup) -> bool {
    let letters = |text: &str| text.chars().count();
    let published = group.published.as_ref();
    published.is_some_and(|(_, text)| {
        !group.name.is_empty() && letters(&group.name) + letters(text) > LINE_LETTERS
    })
}

/// Position of a bar's number: at the end of the bar, but behind a mark that it would overlap.
fn beside(end: f64, text: &str, mark: Option<f64>) -> f64 {
    let begin = end + MARK_MARGIN + 1.0;
    let width = text.chars().count() as f64 * LETTER;
    match mark {
        Some(mark) if (end - MARK_MARGIN..=begin + width + MARK_MARGIN).contains(&mark) => {
            begin.max(mark + MARK_MARGIN + 1.0)
        }
        _ => begin,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_does_not_stand_in_a_number() {
        let check = |mark, expected: f64| assert_eq!(beside(100.0, "5.66 s", mark), expected);
        check(None, 105.0);
        check(Some(60.0), 105.0);
        check(Some(98.0), 105.0);
        check(Some(130.0), 135.0);
        check(Some(200.0), 105.0);
    }
}
