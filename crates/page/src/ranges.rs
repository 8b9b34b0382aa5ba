//! How values spread: from the median on in ever thinner lines to the worst.

use maud::{Markup, html};

use super::frame::{self, LEFT, RIGHT, n};
use super::scale::{Scale, label};

const ROW: f64 = 26.0;
const TOP: f64 = 8.0;

/// A picture of spreads, by logarithms.
#[derive(Clone, Debug, Default)]
pub struct Ranges {
    /// Above the picture.
    pub title: String,
    /// Of all values, as [`lab::show::show_value`] has it.
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
        let bottom = TOP + ROW * self.rows.len() as f64 + 4.0;
        let inside = html! {
            (frame::horizontal(&x, self.unit, bottom))
            @for (index, row) in self.rows.iter().enumerate() {
                @let [p50, p90, p99, worst] = row.quantiles.map(|value| x.at(value));
                @let y = TOP + ROW * (index as f64 + 0.5);
                text.end x=(n(LEFT - 6.0)) y=(n(y + 4.0)) { (row.name) }
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
                "median, to the 90th and 99th percentile, worst"
            }
        };
        let rows = self.rows.iter().map(|row| {
            let [p50, p90, p99, worst] = row.quantiles.map(|value| label(self.unit, value));
            format!(
                "{}: median {p50}, 90 % {p90}, 99 % {p99}, worst {worst}",
                row.name
            )
        });
        let words = rows.collect::<Vec<_>>().join("; ");
        frame::picture(&self.title, &words, bottom + 42.0, &inside)
    }
}
