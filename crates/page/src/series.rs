//! How one run went: rate, round-trip time, bytes on the way, and below them which limit held when.
//!
//! The picture stands in the page; the same data goes along for the script that reads it out.

use std::collections::BTreeMap;

use base::{Limit, human};
use lab::Point;
use maud::{Markup, html};
use serde_json::{Value, json};

use super::frame::{self, LEFT, RIGHT, n};
use super::scale::Scale;

const PANEL: f64 = 96.0;
const GAP: f64 = 22.0;
const TOP: f64 = 20.0;
const STRIP: f64 = 12.0;
const CONGESTION_WINDOW: &str = "congestion window";
/// Bytes from which on a congestion window limits nothing.
const WINDOW_MAX: f64 = (1_u64 << 40) as f64;
/// So does one that is so many times the largest of the other lines.
const WINDOW_RATIO: f64 = 1000.0;

/// One run over time.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// Above the picture.
    pub title: String,
    /// In the order of time.
    pub points: Vec<Point>,
    /// Published rates in bit/s, drawn into the plot.
    pub references: Vec<(f64, String)>,
}

/// The data of all series of a page.
#[derive(Debug, Default)]
pub(super) struct Book {
    figures: Vec<Value>,
}

/// A line of a panel: its name, and a value for each point.
type Curve = (&'static str, Vec<Option<f64>>);

/// A quantity of a point, with its name.
type Quantity = (&'static str, fn(&Point) -> Option<f64>);

struct Panel {
    title: &'static str,
    unit: &'static str,
    lines: Vec<Curve>,
    references: Vec<(f64, String)>,
}

impl Book {
    /// As the script of the page reads it.
    pub(super) fn data(&self) -> Value {
        let limits = Limit::ALL.map(Limit::name);
        json!({ "limits": limits, "figures": self.figures })
    }
}

impl Series {
    /// The figure; nothing where there are no two points.
    pub(super) fn render(&self, book: &mut Book) -> Markup {
        if self.points.len() < 2 {
            return html! { p.note { (self.title) ": too short for a plot over time." } };
        }
        let panels = self.panels();
        let index = book.figures.len();
        book.figures.push(self.data(&panels));
        html! {
            figure data-series=(index) {
                figcaption { (self.title) }
                (self.picture(&panels))
                p.reading {}
                (self.limits())
                @for panel in panels.iter().filter(|panel| panel.lines.len() > 1) {
                    (frame::legend(panel.lines.iter().map(|(name, _)| *name)))
                }
            }
        }
    }

    fn panels(&self) -> Vec<Panel> {
        let quantities: [(&str, &str, &[Quantity]); 3] = [
            (
                "goodput",
                "bit/s",
                &[("goodput", |p| Some(p.goodput_bps as f64))],
            ),
            (
                "round-trip time",
                "us",
                &[("RTT", |p| p.rtt_us.map(|v| v as f64))],
            ),
            (
                "bytes",
                "bytes",
                &[
                    (CONGESTION_WINDOW, |p| p.cwnd_bytes.map(|v| v as f64)),
                    ("in flight", |p| p.in_flight_bytes.map(|v| v as f64)),
                    ("queue of the link", |p| p.queue_bytes.map(|v| v as f64)),
                ],
            ),
        ];
        let panels = quantities.into_iter().map(|(title, unit, reads)| {
            let curve = |(name, read): &Quantity| (*name, self.points.iter().map(read).collect());
            let mut lines: Vec<Curve> = reads.iter().map(curve).collect();
            leave_out_unlimited(&mut lines);
            lines.retain(|(_, values)| values.iter().any(Option::is_some));
            Panel {
                title,
                unit,
                lines,
                references: match unit {
                    "bit/s" => self.references.clone(),
                    _ => Vec::new(),
                },
            }
        });
        panels.filter(|panel| !panel.lines.is_empty()).collect()
    }

    fn seconds(&self) -> Vec<f64> {
        self.points
            .iter()
            .map(|point| point.at_us as f64 / 1e6)
            .collect()
    }

    fn data(&self, panels: &[Panel]) -> Value {
        let place = |limit| Limit::ALL.iter().position(|known| *known == limit);
        let panels = panels.iter().map(|panel| {
            let lines = panel.lines.iter();
            let lines = lines.map(|(name, values)| json!({ "name": name, "values": values }));
            let references = panel.references.iter();
            let references =
                references.map(|(value, label)| json!({ "value": value, "label": label }));
            json!({
                "title": panel.title,
                "unit": panel.unit,
                "lines": lines.collect::<Vec<_>>(),
                "references": references.collect::<Vec<_>>(),
            })
        });
        json!({
            "title": self.title,
            "at_s": self.seconds(),
            "plot": [LEFT, RIGHT],
            "limit": self.points.iter().map(|p| p.limit.and_then(place)).collect::<Vec<_>>(),
            "panels": panels.collect::<Vec<_>>(),
        })
    }

    fn picture(&self, panels: &[Panel]) -> Markup {
        let seconds = self.seconds();
        let x = Scale::new(seconds.iter().copied(), false, (LEFT, RIGHT));
        let tops: Vec<f64> = (0..panels.len())
            .map(|index| TOP + (PANEL + GAP) * index as f64)
            .collect();
        let strip = TOP + (PANEL + GAP) * panels.len() as f64 - GAP + 8.0;
        let axis = strip + STRIP + 4.0;
        let inside = html! {
            @for (panel, top) in panels.iter().zip(&tops) {
                (self::panel(panel, *top, &seconds, &x))
            }
            (self.strip(&x, strip))
            text.muted.end x=(n(LEFT - 6.0)) y=(n(strip + 10.0)) { "limit" }
            (frame::horizontal(&x, "s", axis))
            text.muted.mid x=(n((LEFT + RIGHT) / 2.0)) y=(n(axis + 34.0)) { "seconds" }
        };
        frame::picture(&self.title, &self.words(), axis + 40.0, &inside)
    }

    /// Neighbours with the same limit are one piece.
    fn strip(&self, x: &Scale, y: f64) -> Markup {
        let mut pieces: Vec<(f64, f64, Option<Limit>)> = Vec::new();
        let mut begin = 0.0;
        for point in &self.points {
            let end = point.at_us as f64 / 1e6;
            match pieces.last_mut() {
                Some(last) if last.2 == point.limit => last.1 = end,
                _ => pieces.push((begin, end, point.limit)),
            }
            begin = end;
        }
        html! {
            @for (begin, end, limit) in pieces {
                @if let Some(limit) = limit {
                    rect class=(format!("lim lim-{limit}")) x=(n(x.at(begin))) y=(n(y))
                        width=(n(x.at(end) - x.at(begin))) height=(n(STRIP)) {
                        title { (limit) }
                    }
                }
            }
        }
    }

    /// Each limit with its share of the time, most first.
    fn shares(&self) -> Vec<(Option<Limit>, f64)> {
        let mut times: BTreeMap<Option<Limit>, u64> = BTreeMap::new();
        let mut before = 0;
        for point in &self.points {
            *times.entry(point.limit).or_default() += point.at_us.saturating_sub(before);
            before = point.at_us;
        }
        let all: u64 = times.values().sum();
        let share = |(limit, time)| (limit, time as f64 / all.max(1) as f64);
        let mut shares: Vec<_> = times.into_iter().map(share).collect();
        shares.sort_by(|a, b| b.1.total_cmp(&a.1));
        shares
    }

    fn limits(&self) -> Markup {
        html! {
            ul.legend aria-label="What limited the sender, with its share of the time" {
                @for (limit, share) in self.shares() {
                    @let name = limit.map_or("unknown", Limit::name);
                    li { i class=(format!("lim lim-{name}")) {} (name) " " (human::share(share)) }
                }
            }
        }
    }

    /// The same for who cannot see it.
    fn words(&self) -> String {
        let rates = self.points.iter().map(|point| point.goodput_bps);
        let most = rates.max().unwrap_or(0);
        let shares = self.shares().into_iter().map(|(limit, share)| {
            format!(
                "{} {}",
                limit.map_or("unknown", Limit::name),
                human::share(share)
            )
        });
        format!(
            "Goodput up to {}. Limits: {}.",
            human::bps(most),
            shares.collect::<Vec<_>>().join(", ")
        )
    }
}

fn panel(panel: &Panel, top: f64, seconds: &[f64], x: &Scale) -> Markup {
    let known = panel
        .lines
        .iter()
        .flat_map(|(_, values)| values.iter().flatten().copied());
    let references = panel.references.iter().map(|(value, _)| *value);
    let y = Scale::new(known.chain(references), false, (top + PANEL, top))
        .for_unit(panel.unit)
        .rounded();
    html! {
        text x=(n(LEFT)) y=(n(top - 6.0)) { (panel.title) }
        (frame::vertical(&y, panel.unit))
        @for (index, (_, values)) in panel.lines.iter().enumerate() {
            g class=(format!("c{}", index % 6)) {
                @for run in runs(seconds, values) {
                    polyline.curve points=(points(&run, x, &y)) {}
                }
            }
        }
        @for (value, text) in &panel.references {
            (frame::reference_line(y.at(*value), text))
        }
    }
}

/// Takes a window that limits nothing from the plot: beside it all other lines would be at zero.
fn leave_out_unlimited(lines: &mut [Curve]) {
    let others = lines.iter().filter(|(name, _)| *name != CONGESTION_WINDOW);
    let others = others.flat_map(|(_, values)| values.iter().flatten());
    let largest = others.copied().fold(0.0, f64::max);
    let most = match largest > 0.0 {
        true => WINDOW_MAX.min(largest * WINDOW_RATIO),
        false => WINDOW_MAX,
    };
    let windows = lines
        .iter_mut()
        .filter(|(name, _)| *name == CONGESTION_WINDOW);
    for value in windows.flat_map(|(_, values)| values) {
        *value = value.filter(|value| *value <= most);
    }
}

/// Pieces of a line without holes.
fn runs(seconds: &[f64], values: &[Option<f64>]) -> Vec<Vec<(f64, f64)>> {
    let mut runs = vec![Vec::new()];
    for (at, value) in seconds.iter().zip(values) {
        match value {
            Some(value) => runs.last_mut().expect("one is begun").push((*at, *value)),
            None => runs.push(Vec::new()),
        }
    }
    runs.retain(|run| !run.is_empty());
    runs
}

fn points(run: &[(f64, f64)], x: &Scale, y: &Scale) -> String {
    let place = |(at, value): &(f64, f64)| format!("{},{}", n(x.at(*at)), n(y.at(*value)));
    run.iter().map(place).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_without_end_is_not_plotted() {
        let check = |window: u64, in_flight: u64, expected: &[&str]| {
            let point = |at_us| Point {
                at_us,
                cwnd_bytes: Some(window),
                in_flight_bytes: Some(in_flight),
                ..Point::default()
            };
            let series = Series {
                points: vec![point(1), point(2)],
                ..Series::default()
            };
            let panels = series.panels();
            let bytes = panels.iter().find(|panel| panel.title == "bytes");
            let names = bytes.map(|panel| panel.lines.iter().map(|(name, _)| *name).collect());
            assert_eq!(names.unwrap_or_else(Vec::new), expected, "{window}");
        };
        check(14_600, 7_300, &["congestion window", "in flight"]);
        check(1460 << 30, 7_300, &["in flight"]);
        check(1460 << 30, 0, &["in flight"]);
        check(8_000_000, 7_300, &["in flight"]);
        check(14_600, 0, &["congestion window", "in flight"]);
    }
}
