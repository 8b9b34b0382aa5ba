//! Lines over one quantity: sweeps.

use maud::{Markup, html};

use super::frame::{self, LEFT, RIGHT, n};
use super::scale::{Scale, label};

const HEIGHT: f64 = 280.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = HEIGHT - 46.0;
/// Spots of a line that are marked; more would hide it.
const MARKS_MAX: usize = 60;
/// Values that have marks on the axis; of more, round ones have.
const VALUES_MAX: usize = 12;
/// Half the size of a mark.
const MARK: f64 = 3.2;

/// A picture of lines.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    /// Above the picture.
    pub title: String,
    /// The horizontal one.
    pub x: Axis,
    /// The vertical one.
    pub y: Axis,
    /// In the order of their colours.
    pub lines: Vec<Line>,
    /// Published numbers, drawn through the picture.
    pub references: Vec<(f64, String)>,
}

/// Axis.
#[derive(Clone, Debug, Default)]
pub struct Axis {
    /// In words.
    pub name: String,
    /// As [`lab::show::show_value`] has it.
    pub unit: &'static str,
    /// Whether it is one of logarithms.
    pub is_log: bool,
}

/// One line.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// In words.
    pub name: String,
    /// In the order of `x`; a spot without a value parts the line.
    pub spots: Vec<Spot>,
}

/// One point of a line.
#[derive(Clone, Copy, Debug)]
pub struct Spot {
    /// Place on the horizontal axis.
    pub x: f64,
    /// `None` where nothing was measured.
    pub y: Option<f64>,
    /// Interval of the true value.
    pub range: Option<(f64, f64)>,
}

impl Lines {
    pub(super) fn render(&self) -> Markup {
        let spots = || self.lines.iter().flat_map(|line| &line.spots);
        let x = Scale::new(
            spots().map(|spot| spot.x),
            self.x.is_log,
            (LEFT + 6.0, RIGHT - 6.0),
        )
        .for_unit(self.x.unit);
        let measured = spots().filter_map(|spot| Some((spot.y?, spot.range)));
        let ends = measured.flat_map(|(y, range)| {
            let (low, high) = range.unwrap_or((y, y));
            [low, y, high]
        });
        let references = self.references.iter().map(|(value, _)| *value);
        let y = Scale::new(ends.chain(references), self.y.is_log, (BOTTOM, TOP))
            .for_unit(self.y.unit)
            .rounded();
        let inside = html! {
            (frame::vertical(&y, self.y.unit))
            (frame::horizontal_at(&self.marks(&x), &x, self.x.unit, BOTTOM))
            text.muted.mid x=(n((LEFT + RIGHT) / 2.0)) y=(n(HEIGHT - 6.0)) { (self.x.name) }
            @for (index, line) in self.lines.iter().enumerate() {
                (self.line(line, index, (&x, &y)))
            }
            (frame::reference_lines(&self.references, &y))
        };
        html! {
            (frame::picture(&self.title, &self.words(), HEIGHT, &inside))
            @if self.lines.len() > 1 {
                (legend(&self.lines))
            }
        }
    }

    /// Marks of the horizontal axis: at the measured values if these are few, else at round ones.
    fn marks(&self, x: &Scale) -> Vec<f64> {
        let mut values: Vec<f64> = self
            .lines
            .iter()
            .flat_map(|line| &line.spots)
            .map(|spot| spot.x)
            .collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        if values.len() > VALUES_MAX {
            x.ticks()
        } else {
            values
        }
    }

    fn line(&self, line: &Line, index: usize, (x, y): (&Scale, &Scale)) -> Markup {
        let drawn = |spot: &Spot| spot.y.filter(|value| y.holds(*value));
        let place = |spot: &Spot| Some((x.at(spot.x), y.at(drawn(spot)?)));
        let pieces = line.spots.split(|spot| drawn(spot).is_none());
        let pieces: Vec<Vec<(f64, f64)>> = pieces
            .map(|piece| piece.iter().filter_map(place).collect())
            .filter(|piece: &Vec<_>| piece.len() > 1)
            .collect();
        let has_marks = line.spots.len() <= MARKS_MAX;
        html! {
            g class=(format!("c{}", index % 6)) {
                @for spot in line.spots.iter().filter(|spot| drawn(spot).is_some()) {
                    @if let Some((low, high)) = spot.range.filter(|(low, high)| high > low) {
                        line.whisker x1=(n(x.at(spot.x))) x2=(n(x.at(spot.x)))
                            y1=(n(y.at(low))) y2=(n(y.at(high))) {}
                    }
                }
                @for piece in &pieces {
                    polyline class=(frame::curve_class(index)) points=(points(piece)) {}
                }
                @for spot in &line.spots {
                    @if let Some(at) = place(spot).filter(|_| has_marks || pieces.is_empty()) {
                        path class=(mark_class(index)) d=(mark(index, at)) {
                            title {
                                (line.name) " " (label(self.x.unit, spot.x)) ": "
                                (label(self.y.unit, spot.y.unwrap_or_default()))
                            }
                        }
                    }
                }
            }
        }
    }

    /// The same for who cannot see it.
    fn words(&self) -> String {
        let lines = self.lines.iter().map(|line| {
            let known = || line.spots.iter().filter_map(|spot| spot.y);
            let label = |value| label(self.y.unit, value);
            match known().next().zip(known().next_back()) {
                Some((first, last)) => {
                    format!("{}: from {} to {}", line.name, label(first), label(last))
                }
                None => format!("{}: nothing", line.name),
            }
        });
        format!(
            "{} over {}. {}",
            self.y.name,
            self.x.name,
            lines.collect::<Vec<_>>().join("; ")
        )
    }
}

fn points(places: &[(f64, f64)]) -> String {
    let points = places.iter().map(|(x, y)| format!("{},{}", n(*x), n(*y)));
    points.collect::<Vec<_>>().join(" ")
}

/// The first marks are filled, so that one shows through those that are not.
pub(super) fn mark_class(index: usize) -> String {
    let form = if index == 0 { "dot" } else { "ring" };
    format!("{form} k{}", index % 4)
}

/// A circle, a square, a diamond, a triangle, each larger than the one before.
pub(super) fn mark(index: usize, (x, y): (f64, f64)) -> String {
    let size = MARK + 1.2 * (index % 4) as f64;
    let corners: &[(f64, f64)] = match index % 4 {
        0 => {
            let (left, size) = (n(x - size), n(size));
            let around = format!("a{size},{size} 0 1 0");
            let back = n(2.0 * MARK);
            return format!("M{left},{} {around} {back},0 {around} -{back},0", n(y));
        }
        1 => &[(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)],
        2 => &[(0.0, -1.2), (1.2, 0.0), (0.0, 1.2), (-1.2, 0.0)],
        _ => &[(0.0, -1.2), (1.1, 0.8), (-1.1, 0.8)],
    };
    let corners = corners
        .iter()
        .map(|(right, down)| format!("{},{}", n(x + size * right), n(y + size * down)));
    format!("M{}Z", corners.collect::<Vec<_>>().join("L"))
}

/// A mark in the middle of the key of a legend.
fn key_mark(index: usize) -> Markup {
    html! { path class=(mark_class(index)) d=(mark(index, (18.0, 7.0))) {} }
}

/// Legend of the lines.
fn legend(lines: &[Line]) -> Markup {
    html! {
        ul.legend {
            @for (index, line) in lines.iter().enumerate() {
                li { (frame::key(index, &key_mark(index))) (line.name) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(values: &[&[Option<f64>]]) -> String {
        let line = |values: &&[Option<f64>]| Line {
            name: "a".into(),
            spots: values
                .iter()
                .enumerate()
                .map(|(index, y)| Spot {
                    x: index as f64,
                    y: *y,
                    range: None,
                })
                .collect(),
        };
        let lines = Lines {
            lines: values.iter().map(line).collect(),
            ..Lines::default()
        };
        lines.render().into_string()
    }

    #[test]
    fn what_was_not_measured_is_a_gap() {
        let check = |values: &[Option<f64>], pieces, marks| {
            let page = lines(&[values]);
            let found = (
                page.matches("<polyline").count(),
                page.matches("<path").count(),
            );
            assert_eq!(found, (pieces, marks), "{values:?}");
        };
        let (a, none) = (Some(5.0), None);
        check(&[a, a, a, a], 1, 4);
        check(&[a, a, none, a, a], 2, 4);
        check(&[a, none, a], 0, 2);
        check(&[none, none], 0, 0);
    }

    #[test]
    fn lines_that_coincide_are_drawn_differently() {
        let same: &[Option<f64>] = &[Some(1.0), Some(2.0)];
        let page = lines(&[same, same]);
        for class in ["curve d0", "curve d1", "dot k0", "ring k1"] {
            assert!(page.contains(class), "{class}: {page}");
        }
    }
}
