//! Distribution of values: from the median on in ever thinner lines to the worst.

use maud::{Markup, html};

use super::frame::{self, LEFT, LETTER, NAME_HEIGHT, NAME_LETTERS, RIGHT, n};
use super::scale::{Scale, label};

const ROW: f64 = 26.0;
const TOP: f64 = 8.0;

/// A picture of spreads, by logarithms.
#[derive(Clone, Debug, Default)]
pub struct Ranges {
    /// Above the picture.
    pub title: String,
    /// Unit of all values; see [`lab::show::show_value`].
    pub unit: &'static str,
    /// From top to bottom.
    pub rows: Vec<Range>,
}

/// One spread.
#[derive(Clone, Debug, Default)]
pub struct Range {
    /// In front of it.
    pub name: String,
    /// Median, 90th and 99th percentile, worst.
    pub quantiles: [f64; 4],
}

impl Ranges {
    pub(super) fn render(&self) -> Markup {
        let values = self.rows.iter().flat_map(|row| row.quantiles);
        let x = Scale::new(values, true, (LEFT + 8.0, RIGHT - 8.0));
        let mut names = self.rows.iter().map(|range| range.name.chars().count());
        let are_beside = names.all(|letters| letters <= NAME_LETTERS);
        let row = if are_beside { ROW } else { ROW + NAME_HEIGHT };
        let bottom = TOP + row * self.rows.len() as f64 + 4.0;
        let inside = html! {
            (frame::horizontal_at(&marks(&x, self.unit), &x, self.unit, bottom))
            @for (index, range) in self.rows.iter().enumerate() {
                @let [p50, p90, p99, worst] = range.quantiles.map(|value| x.at(value));
                @let y = TOP + row * (index as f64 + 1.0) - ROW / 2.0;
                @if are_beside {
                    text.end x=(n(LEFT - 6.0)) y=(n(y + 4.0)) { (range.name) }
                } @else {
                    text x=(n(LEFT + 2.0)) y=(n(y - ROW / 2.0 - 2.0)) { (range.name) }
                }
                g.c0 {
                    line.whisker x1=(n(p50)) x2=(n(worst)) y1=(n(y)) y2=(n(y)) {}
                    rect.range x=(n(p50)) y=(n(y - 5.0)) width=(n(p99 - p50)) height="10" {}
                    rect.bar x=(n(p50)) y=(n(y - 8.0)) width=(n((p90 - p50).max(1.5)))
                        height="16" rx="2" {}
                    line.mark x1=(n(p50)) x2=(n(p50)) y1=(n(y - 9.0)) y2=(n(y + 9.0)) {}
                    circle.dot cx=(n(worst)) cy=(n(y)) r="3" {}
                }
            }
            text.muted.mid x=(n((LEFT + RIGHT) / 2.0)) y=(n(bottom + 36.0)) {
                "median, to p90 and p99, worst"
                @if x.is_log() { "; logarithmic axis" }
            }
        };
        let rows = self.rows.iter().map(|row| {
            let [p50, p90, p99, worst] = row.quantiles.map(|value| label(self.unit, value));
            format!(
                "{}: median {p50}, p90 {p90}, p99 {p99}, worst {worst}",
                row.name
            )
        });
        let words = rows.collect::<Vec<_>>().join("; ");
        frame::picture(&self.title, &words, bottom + 42.0, &inside)
    }
}

/// Round values, and the largest in place of those that are close to it: between the last round
/// value of an axis of logarithms and its end there may be most of what was measured.
fn marks(x: &Scale, unit: &str) -> Vec<f64> {
    let largest = x.high();
    let letters = |value: f64| label(unit, value).chars().count() as f64;
    let is_apart = |tick: &f64| {
        let room = f64::midpoint(letters(*tick), letters(largest)) * LETTER;
        // Its words may have been moved to the left, into the picture.
        x.at(largest) - x.at(*tick) >= room + letters(largest) * LETTER / 2.0
    };
    let mut marks: Vec<f64> = x.ticks().into_iter().filter(is_apart).collect();
    marks.push(largest);
    marks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_is_marked_up_to_the_worst() {
        let check = |quantiles: [f64; 4], has_note: bool, expected: &[&str]| {
            let ranges = Ranges {
                title: "round trips".into(),
                unit: "us",
                rows: vec![Range {
                    name: "idle".into(),
                    quantiles,
                }],
            };
            let svg = ranges.render().into_string();
            assert_eq!(svg.contains("worst; logarithmic axis<"), has_note, "{svg}");
            for mark in expected {
                assert!(svg.contains(&format!(">{mark}</text>")), "{mark}: {svg}");
            }
        };
        check(
            [10.0, 300.0, 2e3, 87e3],
            true,
            &["10 us", "100 us", "1 ms", "10 ms", "87 ms"],
        );
        // 10 ms would stand in it.
        check([10.0, 300.0, 2e3, 12e3], true, &["1 ms", "12 ms"]);
        check([0.0, 300.0, 2e3, 8.7e3], false, &["0", "8.7 ms"]);
    }

    #[test]
    fn a_name_without_room_stands_above_its_range() {
        let check = |name: &str, is_beside: bool| {
            let range = |name: &str, p50| Range {
                name: name.into(),
                quantiles: [p50, 2e3, 3e3, 5e3],
            };
            let ranges = Ranges {
                title: "round trips".into(),
                unit: "us",
                rows: vec![range("idle", 1e3), range(name, 2e3)],
            };
            let svg = ranges.render().into_string();
            assert!(svg.contains(&format!(">{name}</text>")), "{svg}");
            assert_eq!(svg.contains("class=\"end\""), is_beside, "{svg}");
        };
        check("under load", true);
        check("nodelay=on, congestion=bbr", false);
    }
}
