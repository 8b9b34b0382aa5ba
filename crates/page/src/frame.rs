//! The frame of a picture: its size, its accessible name, and its axes.

use maud::{Markup, html};

use super::scale::{Scale, label};

/// Units of all pictures; a page gives them the room it has.
pub(super) const WIDTH: f64 = 520.0;
/// Between the left edge and the plot: the labels of the vertical axis.
pub(super) const LEFT: f64 = 104.0;
/// The right end of the plot.
pub(super) const RIGHT: f64 = WIDTH - 12.0;
/// Height of a line of words on a phone.
const WORDS_HEIGHT: f64 = 28.0;
/// Pixels of a letter, about, at the size of a phone.
pub(super) const LETTER: f64 = 9.5;

/// Letters of a name that fit at the left of the plot; longer ones stand above what they name, and
/// take this height.
pub(super) const NAME_LETTERS: usize = 13;
pub(super) const NAME_HEIGHT: f64 = 20.0;

/// A picture with its name and what it shows in words.
pub(super) fn picture(title: &str, words: &str, height: f64, inside: &Markup) -> Markup {
    html! {
        svg.chart viewBox=(format!("0 0 {WIDTH} {height:.0}")) role="img"
            xmlns="http://www.w3.org/2000/svg" {
            title { (title) }
            desc { (words) }
            (inside)
        }
    }
}

/// A number of SVG.
pub(super) fn n(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// Lines across the plot with labels at the left.
pub(super) fn vertical(scale: &Scale, unit: &str) -> Markup {
    html! {
        @for tick in scale.ticks() {
            @let y = scale.at(tick);
            line.grid x1=(n(LEFT)) x2=(n(RIGHT)) y1=(n(y)) y2=(n(y)) {}
            text.muted.end x=(n(LEFT - 6.0)) y=(n(y + 4.0)) { (label(unit, tick)) }
        }
    }
}

/// Marks below the plot at round values.
pub(super) fn horizontal(scale: &Scale, unit: &str, y: f64) -> Markup {
    horizontal_at(&scale.ticks(), scale, unit, y)
}

/// Marks below the plot at these values; those that would stand in each other are left out.
pub(super) fn horizontal_at(ticks: &[f64], scale: &Scale, unit: &str, y: f64) -> Markup {
    let mut free = 0.0;
    let labels: Vec<(f64, f64, String)> = ticks
        .iter()
        .copied()
        .filter_map(|tick| {
            let (x, text) = (scale.at(tick), label(unit, tick));
            let half = text.chars().count() as f64 * LETTER / 2.0;
            // The last one stays within the picture.
            let middle = x.min(WIDTH - half);
            let fits = middle - half >= free;
            fits.then(|| {
                free = middle + half + 8.0;
                (x, middle, text)
            })
        })
        .collect();
    html! {
        line.axis x1=(n(LEFT)) x2=(n(RIGHT)) y1=(n(y)) y2=(n(y)) {}
        @for (x, middle, text) in labels {
            line.axis x1=(n(x)) x2=(n(x)) y1=(n(y)) y2=(n(y + 4.0)) {}
            text.muted.mid x=(n(middle)) y=(n(y + 18.0)) { (text) }
        }
    }
}

/// Published numbers, drawn through the plot. Their words stand above the line, or below it where
/// those of another would be in the way.
pub(super) fn reference_lines(references: &[(f64, String)], y: &Scale) -> Markup {
    let places = || references.iter().map(|(value, _)| y.at(*value));
    let is_close_above = |y: f64| places().any(|other| other < y && y - other < WORDS_HEIGHT);
    html! {
        @for (y, (_, text)) in places().zip(references) {
            line.reference x1=(n(LEFT)) x2=(n(RIGHT)) y1=(n(y)) y2=(n(y)) {}
            @let words = if is_close_above(y) { y + WORDS_HEIGHT - 4.0 } else { y - 4.0 };
            text.end.on-line x=(n(RIGHT)) y=(n(words)) { (text) }
        }
    }
}

/// A line as it is drawn: lines that coincide stay apart by their dashes, the gaps of one show the
/// other.
pub(super) fn curve_class(index: usize) -> String {
    format!("curve d{}", index % 4)
}

/// Legend of the lines.
pub(super) fn legend<'n>(names: impl Iterator<Item = &'n str>) -> Markup {
    html! {
        ul.legend {
            @for (index, name) in names.enumerate() {
                li { (key(index, &html! {})) (name) }
            }
        }
    }
}

/// The piece of a line that stands in a legend, with what is marked on it.
pub(super) fn key(index: usize, mark: &Markup) -> Markup {
    html! {
        svg.key viewBox="0 0 36 14" aria-hidden="true" {
            g class=(format!("c{}", index % 6)) {
                line class=(curve_class(index)) x1="0" x2="36" y1="7" y2="7" {}
                (mark)
            }
        }
    }
}
