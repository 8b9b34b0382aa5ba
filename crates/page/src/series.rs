//! Course of a connection over time: rate, round-trip time, bytes in flight, and below them which
//! limit held when.
//!
//! The picture stands in the page; the same data goes along for the script that reads it out.

use std::time::Duration;

use base::{Limit, human};
use lab::Point;
use maud::{Markup, html};
use serde_json::{Value, json};

use super::frame::{self, LEFT, RIGHT, n};
use super::limits::{LimitShares, Limits};
use super::scale::Scale;

const PANEL: f64 = 96.0;
const GAP: f64 = 30.0;
const TOP: f64 = 20.0;
const CONGESTION_WINDOW: &str = "congestion window";
const IN_FLIGHT: &str = "in flight";
/// Bytes from which on a congestion window limits nothing.
const WINDOW_MAX: f64 = (1_u64 << 40) as f64;
/// So does one that is this many times the largest of the other lines.
const WINDOW_RATIO: f64 = 1000.0;

/// A run or a connection over time.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// Above the picture.
    pub title: String,
    /// In the order of time.
    pub points: Vec<Point>,
    /// Published rates in bit/s, drawn into the plot.
    pub references: Vec<(f64, String)>,
    /// Limits between each point and the previous one, where more is known than the longest: as
    /// many as points, or none.
    pub shares: Vec<LimitShares>,
    /// Limits of the whole time, where parts do not weigh by their length alone; otherwise summed
    /// from the points.
    pub totals: LimitShares,
    /// Further lines, in panels of the points or in their own.
    pub curves: Vec<Curve>,
    /// In which time is told.
    pub time: TimeUnit,
}

/// The unit of a time axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeUnit {
    /// Seconds.
    #[default]
    Seconds,
    /// From five of them on.
    Minutes,
    /// From three of them on.
    Hours,
}

impl TimeUnit {
    /// The unit in which a time of this length reads best.
    #[must_use]
    pub fn of(span: Duration) -> Self {
        match span.as_secs() {
            0..300 => Self::Seconds,
            300..10_800 => Self::Minutes,
            _ => Self::Hours,
        }
    }

    /// How many seconds it has.
    #[must_use]
    pub const fn seconds(self) -> f64 {
        match self {
            Self::Seconds => 1.0,
            Self::Minutes => 60.0,
            Self::Hours => 3600.0,
        }
    }

    /// In words, of several.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Seconds => "seconds",
            Self::Minutes => "minutes",
            Self::Hours => "hours",
        }
    }

    const fn symbol(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::Minutes => "min",
            Self::Hours => "h",
        }
    }
}

/// A line over time.
#[derive(Clone, Debug)]
pub struct Curve {
    /// The panel that it is drawn in: [`Curve::BYTES`] or one of its own, by its title.
    pub panel: &'static str,
    /// Unit of its values; see [`lab::show::show_value`].
    pub unit: &'static str,
    /// In words.
    pub name: &'static str,
    /// As many as points; `None` where it is not known.
    pub values: Vec<Option<f64>>,
}

impl Curve {
    /// The panel of windows and of bytes in flight.
    pub const BYTES: &'static str = "bytes";
}

/// The data of all series of a page.
#[derive(Debug, Default)]
pub(super) struct Book {
    figures: Vec<Value>,
}

/// A line of a panel: its name, and a value for each point.
type Drawn = (&'static str, Vec<Option<f64>>);

/// A quantity of a point, with its name.
type Quantity = (&'static str, fn(&Point) -> Option<f64>);

struct Panel {
    title: &'static str,
    unit: &'static str,
    lines: Vec<Drawn>,
    references: Vec<(f64, String)>,
}

impl Book {
    /// Whether there is none.
    pub(super) const fn is_empty(&self) -> bool {
        self.figures.is_empty()
    }

    /// Data for the script of the page.
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
        let limits = Limits::of(&self.points, &self.shares).with_totals(&self.totals);
        let index = book.figures.len();
        book.figures.push(self.data(&panels));
        html! {
            figure data-series=(index) {
                figcaption { (self.title) }
                (self.picture(&panels, &limits))
                p.reading {}
                (limits.legend())
                @for panel in panels.iter().filter(|panel| panel.lines.len() > 1) {
                    (frame::legend(panel.lines.iter().map(|(name, _)| meaning(name))))
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
                Curve::BYTES,
                "bytes",
                &[
                    (CONGESTION_WINDOW, |p| p.cwnd_bytes.map(|v| v as f64)),
                    (IN_FLIGHT, |p| p.in_flight_bytes.map(|v| v as f64)),
                    ("queue of the link", |p| p.queue_bytes.map(|v| v as f64)),
                ],
            ),
        ];
        let panels = quantities.into_iter().map(|(title, unit, reads)| {
            let line = |(name, read): &Quantity| (*name, self.points.iter().map(read).collect());
            Panel {
                title,
                unit,
                lines: reads.iter().map(line).collect(),
                references: match unit {
                    "bit/s" => self.references.clone(),
                    _ => Vec::new(),
                },
            }
        });
        let mut panels: Vec<Panel> = panels.collect();
        for curve in &self.curves {
            let line = (curve.name, curve.values.clone());
            match panels.iter_mut().find(|panel| panel.title == curve.panel) {
                Some(panel) => panel.lines.push(line),
                None => panels.push(Panel {
                    title: curve.panel,
                    unit: curve.unit,
                    lines: vec![line],
                    references: Vec::new(),
                }),
            }
        }
        for panel in &mut panels {
            leave_out_unlimited(&mut panel.lines);
            let is_known = |(_, values): &Drawn| values.iter().any(Option::is_some);
            panel.lines.retain(is_known);
        }
        panels.retain(|panel| !panel.lines.is_empty());
        panels
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
            "time": (self.time.seconds(), self.time.symbol()),
            "plot": [LEFT, RIGHT],
            "limit": self.points.iter().map(|p| p.limit.and_then(place)).collect::<Vec<_>>(),
            "shares": self.shares.iter().map(|shares| {
                let share = |(limit, share): &(Option<Limit>, f64)| (limit.and_then(place), *share);
                shares.iter().map(share).collect::<Vec<_>>()
            }).collect::<Vec<_>>(),
            "panels": panels.collect::<Vec<_>>(),
        })
    }

    fn picture(&self, panels: &[Panel], limits: &Limits) -> Markup {
        let seconds = self.seconds();
        let x = Scale::new(seconds.iter().copied(), false, (LEFT, RIGHT));
        // The same places, in the unit in which time is told.
        let told = seconds.iter().map(|at| at / self.time.seconds());
        let marks = Scale::new(told, false, (LEFT, RIGHT));
        let tops: Vec<f64> = (0..panels.len())
            .map(|index| TOP + (PANEL + GAP) * index as f64)
            .collect();
        let below = TOP + (PANEL + GAP) * panels.len() as f64 - GAP + 16.0;
        let axis = below + limits.height() + 4.0;
        let inside = html! {
            @for (panel, top) in panels.iter().zip(&tops) {
                (self::panel(panel, *top, &seconds, &x))
            }
            (limits.picture(&x, below))
            (frame::horizontal(&marks, self.time.symbol(), axis))
            text.muted.mid x=(n((LEFT + RIGHT) / 2.0)) y=(n(axis + 34.0)) { (self.time.name()) }
        };
        let words = self.words(limits);
        frame::picture(&self.title, &words, axis + 40.0, &inside)
    }

    /// The same for who cannot see it.
    fn words(&self, limits: &Limits) -> String {
        let rates = self.points.iter().map(|point| point.goodput_bps);
        let most = human::bps(rates.max().unwrap_or(0));
        let times = self.points.iter().filter_map(|point| point.rtt_us);
        let least = times.clone().min().map(human::micros);
        let times = least.zip(times.max().map(human::micros));
        let rtt = times.map(|(least, most)| format!(" Round-trip time {least} to {most}."));
        format!(
            "Goodput up to {most}.{}{}",
            rtt.unwrap_or_default(),
            limits.words()
        )
    }
}

/// A line in the words of a legend.
fn meaning(name: &'static str) -> &'static str {
    match name {
        IN_FLIGHT => "in flight: sent and not yet acknowledged",
        "queue of the link" => "queue of the link: bytes that wait there",
        other => other,
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
    // A line that is alone has no legend.
    let title = match panel.lines.as_slice() {
        [(name, _)] if panel.title == Curve::BYTES => meaning(name),
        _ => panel.title,
    };
    html! {
        text x=(n(LEFT)) y=(n(top - 6.0)) { (title) }
        (frame::vertical(&y, panel.unit))
        @for (index, (_, values)) in panel.lines.iter().enumerate() {
            g class=(format!("c{}", index % 6)) {
                @for run in runs(seconds, values) {
                    @if let [(at, value)] = run.as_slice() {
                        // A line of one point would not be seen.
                        circle.dot cx=(n(x.at(*at))) cy=(n(y.at(*value))) r="2" {}
                    } @else {
                        polyline class=(frame::curve_class(index)) points=(points(&run, x, &y)) {}
                    }
                }
            }
        }
        (frame::reference_lines(&panel.references, &y))
    }
}

/// Takes a window that limits nothing from the plot: beside it all other lines would be at zero.
fn leave_out_unlimited(lines: &mut [Drawn]) {
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

    #[test]
    fn a_value_between_holes_is_a_dot() {
        let point = |at_us, rtt_us| Point {
            at_us,
            rtt_us,
            ..Point::default()
        };
        let series = Series {
            points: vec![point(1, None), point(2, Some(300)), point(3, None)],
            ..Series::default()
        };
        let page = series.render(&mut Book::default()).into_string();
        // The line is that of the goodput.
        let seen = ["<circle", "<polyline"].map(|mark| page.matches(mark).count());
        assert_eq!(seen, [1, 1]);
    }

    #[test]
    fn hours_are_marked_as_hours() {
        let check = |seconds: u64, expected: TimeUnit| {
            assert_eq!(TimeUnit::of(Duration::from_secs(seconds)), expected);
        };
        check(299, TimeUnit::Seconds);
        check(300, TimeUnit::Minutes);
        check(8 * 3600, TimeUnit::Hours);
        let point = |hours: u64| Point {
            at_us: hours * 3_600_000_000,
            goodput_bps: 8,
            ..Point::default()
        };
        let series = Series {
            points: vec![point(2), point(8)],
            time: TimeUnit::Hours,
            ..Series::default()
        };
        let page = series.render(&mut Book::default()).into_string();
        assert!(page.contains(">hours</text>"), "{page}");
        assert!(page.contains(">8</text>"), "{page}");
        assert!(!page.contains("28800"), "{page}");
    }

    #[test]
    fn further_lines_stand_in_their_panels() {
        let point = |at_us| Point {
            at_us,
            in_flight_bytes: Some(1000),
            ..Point::default()
        };
        let curve = |panel, name| Curve {
            panel,
            unit: "bytes",
            name,
            values: vec![Some(1.0), None],
        };
        let unknown = Curve {
            values: vec![None, None],
            ..curve("nowhere", "unknown")
        };
        let series = Series {
            points: vec![point(1), point(2)],
            curves: vec![
                curve(Curve::BYTES, "window"),
                curve("losses", "lost"),
                unknown,
            ],
            ..Series::default()
        };
        let panels = series.panels();
        let titles: Vec<&str> = panels.iter().map(|panel| panel.title).collect();
        assert_eq!(titles, ["goodput", "bytes", "losses"]);
        let names: Vec<&str> = panels[1].lines.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, [IN_FLIGHT, "window"]);
    }
}
