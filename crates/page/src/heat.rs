//! A number over two quantities, as a field of colours with the numbers in it.

use lab::show::show_value;
use maud::{Markup, html};

use super::frame::{self, LEFT, RIGHT, n};
use super::scale::label;

const ROW: f64 = 34.0;
const TOP: f64 = 8.0;
/// Shades, from none to full.
const SHADES: f64 = 8.0;
/// Shades from which on text must be light.
const DARK: f64 = 5.0;
/// Narrowest field that has room for its number.
const TEXT_WIDTH: f64 = 58.0;

/// A field of numbers.
#[derive(Clone, Debug, Default)]
pub struct Heat {
    /// Above the picture.
    pub title: String,
    /// Name of the columns.
    pub x_name: String,
    /// Name of the rows.
    pub y_name: String,
    /// Names of the columns.
    pub x: Vec<String>,
    /// Names of the rows.
    pub y: Vec<String>,
    /// Unit of all values; see [`lab::show::show_value`].
    pub unit: &'static str,
    /// By row, as `y`; `None` where nothing was measured.
    pub values: Vec<Vec<Option<f64>>>,
}

impl Heat {
    pub(super) fn render(&self) -> Markup {
        let known = || self.values.iter().flatten().flatten().copied();
        let low = known().fold(f64::MAX, f64::min);
        let high = known().fold(f64::MIN, f64::max);
        let bottom = TOP + ROW * self.y.len() as f64;
        let width = (RIGHT - LEFT) / self.x.len().max(1) as f64;
        let shade = |value: f64| match high > low {
            true => ((value - low) / (high - low) * SHADES).round(),
            false => SHADES / 2.0,
        };
        let shared = shared_unit(self.unit, high);
        let number = |value: f64| match shared {
            Some((_, factor)) => show_value("ratio", value / factor),
            None => label(self.unit, value),
        };
        let inside = html! {
            @for (row, name) in self.y.iter().enumerate() {
                @let y = TOP + ROW * row as f64;
                text.end x=(n(LEFT - 8.0)) y=(n(y + ROW / 2.0 + 4.0)) { (name) }
                @for (column, value) in self.values[row].iter().enumerate() {
                    @let x = LEFT + width * column as f64;
                    @let (w, h) = (n(width - 2.0), n(ROW - 2.0));
                    @if let Some(value) = value {
                        rect class=(format!("q{}", shade(*value))) x=(n(x)) y=(n(y))
                            width=(w) height=(h) rx="3" {
                            title { (name) ", " (self.x[column]) ": " (label(self.unit, *value)) }
                        }
                        @if width >= TEXT_WIDTH {
                            text.mid.on-dark[shade(*value) >= DARK] x=(n(x + width / 2.0 - 1.0))
                                y=(n(y + ROW / 2.0 + 3.0)) { (number(*value)) }
                        }
                    } @else {
                        rect.hole x=(n(x)) y=(n(y)) width=(w) height=(h) rx="3" {}
                    }
                }
            }
            @for (column, name) in self.x.iter().enumerate() {
                @let x = LEFT + width * (column as f64 + 0.5);
                text.mid x=(n(x)) y=(n(bottom + 16.0)) { (name) }
            }
            text.muted.mid x=(n((LEFT + RIGHT) / 2.0)) y=(n(bottom + 36.0)) {
                (self.x_name) " across, " (self.y_name) " down"
                @if let Some((unit, _)) = shared { "; in " (unit) }
            }
        };
        let words = match known().next() {
            Some(_) => format!(
                "{} over {} and {}, from {} to {}.",
                self.title,
                self.x_name,
                self.y_name,
                label(self.unit, low),
                label(self.unit, high)
            ),
            None => "Nothing was measured.".into(),
        };
        frame::picture(&self.title, &words, bottom + 44.0, &inside)
    }
}

/// The unit in which the numbers of a field are written, and how many of the unit of its values it
/// is: that of the highest, since each on its own would not fit at the size of a phone.
fn shared_unit(unit: &str, high: f64) -> Option<(&'static str, f64)> {
    let steps: &[(&'static str, f64)] = match unit {
        "bit/s" => &[
            ("Gbit/s", 1e9),
            ("Mbit/s", 1e6),
            ("kbit/s", 1e3),
            ("bit/s", 1.0),
        ],
        "us" => &[("s", 1e6), ("ms", 1e3), ("us", 1.0)],
        _ => return None,
    };
    steps.iter().find(|(_, factor)| high >= *factor).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_a_field_have_one_unit() {
        let heat = Heat {
            x: vec!["a".into(), "b".into()],
            y: vec!["c".into()],
            unit: "bit/s",
            values: vec![vec![Some(821e6), Some(9.56e9)]],
            ..Heat::default()
        };
        let picture = heat.render().into_string();
        for text in [">0.82<", ">9.56<", "; in Gbit/s", "821 Mbit/s"] {
            assert!(picture.contains(text), "{text} is not in {picture}");
        }
    }
}
