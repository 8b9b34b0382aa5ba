//! Bars from zero: before and after, engine beside engine, with published numbers among them.

use maud::{Markup, html};

use super::frame::{self, LEFT, RIGHT, n};
use super::scale::{Scale, label};

const BAR: f64 = 19.0;
const GAP: f64 = 14.0;
const TOP: f64 = 6.0;
/// Behind the longest bar, for its number.
const NUMBER_WIDTH: f64 = 84.0;
/// Of the name above its bars.
const NAME_HEIGHT: f64 = 20.0;
/// Letters of a name that fit beside its bar.
const NAME_LETTERS: usize = 13;

/// A picture of bars.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bars {
    pub(crate) title: String,
    pub(crate) unit: &'static str,
    pub(crate) groups: Vec<BarGroup>,
}

/// Bars that belong together.
#[derive(Clone, Debug, Default)]
pub(crate) struct BarGroup {
    pub(crate) name: String,
    pub(crate) bars: Vec<Bar>,
    /// A published number and its text: a mark across the bars.
    pub(crate) published: Option<(f64, String)>,
}

/// One bar.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bar {
    pub(crate) name: String,
    pub(crate) value: f64,
    /// Where the true value may lie.
    pub(crate) range: Option<(f64, f64)>,
    /// Of its colour.
    pub(crate) colour: usize,
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
            tops.push(y);
            y += above + BAR * group.bars.len() as f64 + gap;
        }
        let inside = html! {
            @for (group, top) in self.groups.iter().zip(&tops) {
                (self.group(group, (*top, above), &x))
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
                text.muted.end x=(n(RIGHT)) y=(n(top + 14.0)) { "published " (text) }
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
                @let end = bar.range.map_or(bar.value, |(_, high)| high.max(bar.value));
                text x=(n(x.at(end) + 5.0)) y=(n(y + 13.5)) { (label(self.unit, bar.value)) }
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
