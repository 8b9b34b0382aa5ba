//! Lines over one quantity: sweeps.

use maud::{Markup, html};

use super::frame::{self, LEFT, RIGHT, n};
use super::scale::Scale;

const HEIGHT: f64 = 280.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = HEIGHT - 46.0;

/// A picture of lines.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lines {
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) lines: Vec<Line>,
    /// Published numbers, drawn through the picture.
    pub(crate) references: Vec<(f64, String)>,
}

/// What an axis is about.
#[derive(Clone, Debug, Default)]
pub(crate) struct Axis {
    pub(crate) name: String,
    pub(crate) unit: &'static str,
    pub(crate) is_log: bool,
}

/// One line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    pub(crate) name: String,
    /// In the order of `x`.
    pub(crate) spots: Vec<Spot>,
}

/// One point of a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    pub(crate) x: f64,
    pub(crate) y: f64,
    /// Where the true value may lie.
    pub(crate) range: Option<(f64, f64)>,
}

impl Lines {
    pub(super) fn render(&self) -> Markup {
        let spots = || self.lines.iter().flat_map(|line| &line.spots);
        let x = Scale::new(
            spots().map(|spot| spot.x),
            self.x.is_log,
            (LEFT + 6.0, RIGHT - 6.0),
        );
        let ends = spots().flat_map(|spot| {
            let (low, high) = spot.range.unwrap_or((spot.y, spot.y));
            [low, spot.y, high]
        });
        let references = self.references.iter().map(|(value, _)| *value);
        let y = Scale::new(ends.chain(references), self.y.is_log, (BOTTOM, TOP))
            .for_unit(self.y.unit)
            .rounded();
        let inside = html! {
            (frame::vertical(&y, self.y.unit))
            (frame::horizontal(&x, self.x.unit, BOTTOM))
            text.muted.mid x=(n((LEFT + RIGHT) / 2.0)) y=(n(HEIGHT - 6.0)) { (self.x.name) }
            @for (index, line) in self.lines.iter().enumerate() {
                (self.line(line, index, (&x, &y)))
            }
            @for (value, text) in &self.references { (frame::reference_line(y.at(*value), text)) }
        };
        html! {
            (frame::picture(&self.title, &self.words(), HEIGHT, &inside))
            @if self.lines.len() > 1 {
                (frame::legend(self.lines.iter().map(|line| line.name.as_str())))
            }
        }
    }

    fn line(&self, line: &Line, index: usize, (x, y): (&Scale, &Scale)) -> Markup {
        let drawn: Vec<&Spot> = line.spots.iter().filter(|spot| y.holds(spot.y)).collect();
        let places = drawn.iter().map(|spot| (x.at(spot.x), y.at(spot.y)));
        let path: Vec<String> = places.map(|(x, y)| format!("{},{}", n(x), n(y))).collect();
        html! {
            g class=(format!("c{}", index % 6)) {
                @for spot in &drawn {
                    @if let Some((low, high)) = spot.range.filter(|(low, high)| high > low) {
                        line.whisker x1=(n(x.at(spot.x))) x2=(n(x.at(spot.x)))
                            y1=(n(y.at(low))) y2=(n(y.at(high))) {}
                    }
                }
                polyline.curve points=(path.join(" ")) {}
                @if drawn.len() <= 60 {
                    @for spot in &drawn {
                        circle.dot cx=(n(x.at(spot.x))) cy=(n(y.at(spot.y))) r="3" {
                            title {
                                (line.name) " " (super::scale::label(self.x.unit, spot.x)) ": "
                                (super::scale::label(self.y.unit, spot.y))
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
            let ends = line.spots.first().zip(line.spots.last());
            let label = |spot: &Spot| super::scale::label(self.y.unit, spot.y);
            match ends {
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
