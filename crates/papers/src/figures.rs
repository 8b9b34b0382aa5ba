//! Pictures of an experiment, as its document draws them: throughput over what was varied, and
//! beside it what the document leaves out, the round-trip time.

use core::fmt::Write;

use lab::judge::Spread;
use lab::show::show_value;
use lab::{EngineName, Metric, Outcome, axis_number};
use serde::{Deserialize, Serialize};

use crate::evaluation::{CellName, Material};

/// A picture that can be made of the runs of one experiment.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// Its number in the document, or the experiment that it shows.
    pub id: &'static str,
    /// Name of the experiment's file.
    pub scenario: &'static str,
    /// Title.
    pub title: &'static str,
    /// Quantity on the horizontal axis.
    pub x: Quantity,
    /// Quantity that distinguishes lines, or rows of a field; `None` for a single line.
    pub line: Option<Quantity>,
    /// Whether it is a field of numbers rather than lines.
    pub is_field: bool,
    /// Rates in bit/s that the document prints, and of what.
    pub published: &'static [(f64, &'static str)],
}

/// A quantity of which each cell has a value.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    /// In words.
    pub name: &'static str,
    /// Source of the value in a cell.
    pub of: QuantitySource,
}

/// Source of a quantity's value in a cell.
#[derive(Clone, Copy, Debug)]
pub enum QuantitySource {
    /// In a sweep, by its key.
    Axis(&'static str),
    /// In the name of its variant.
    Variant(&'static [(&'static str, &'static str)]),
}

/// The sizes of buffers, by the names of variants.
const BUFFERS: QuantitySource = QuantitySource::Variant(&[
    ("64k", "64KiB"),
    ("128k", "128KiB"),
    ("256k", "256KiB"),
    ("512k", "512KiB"),
    ("0.25m", "256KiB"),
    ("0.5m", "512KiB"),
    ("1m", "1MiB"),
    ("2m", "2MiB"),
    ("4m", "4MiB"),
    ("8m", "8MiB"),
    ("16m", "16MiB"),
    ("32m", "32MiB"),
]);

/// All, in the order of the documents.
pub const FIGURES: &[Figure] = &[
    Figure {
        id: "FIG1",
        scenario: "fig1",
        title: "Figure 1: throughput over buffer size, 1 Gbit/s, 1.49 ms",
        x: Quantity {
            name: "buffer",
            of: BUFFERS,
        },
        line: None,
        is_field: false,
        published: &[
            (501e6, "with default buffers"),
            (506e6, "with enlarged buffers"),
        ],
    },
    Figure {
        id: "FIG2",
        scenario: "p4",
        title: "Figure 2: throughput over buffer size, 10 Gbit/s, 1.58 ms",
        x: Quantity {
            name: "buffer",
            of: BUFFERS,
        },
        line: None,
        is_field: false,
        published: &[],
    },
    Figure {
        id: "FIG3",
        scenario: "fig3",
        title: "Figure 3: throughput over MTU and receive buffer, 10 Gbit/s, 1.58 ms",
        x: Quantity {
            name: "MTU",
            of: QuantitySource::Axis("path.mtu"),
        },
        line: Some(Quantity {
            name: "buffer",
            of: BUFFERS,
        }),
        is_field: true,
        published: &[],
    },
    Figure {
        id: "FIG4",
        scenario: "p6",
        title: "Figure 4: throughput over queue length with two MTUs, 10 Gbit/s, 1.58 ms",
        x: Quantity {
            name: "queue",
            of: QuantitySource::Variant(&[
                ("queue-1000-mtu-1500", "1000p"),
                ("queue-1000-mtu-10000", "1000p"),
                ("queue-2000-mtu-1500", "2000p"),
                ("queue-2000-mtu-10000", "2000p"),
                ("queue-4000-mtu-1500", "4000p"),
                ("queue-4000-mtu-10000", "4000p"),
                ("queue-8000-mtu-1500", "8000p"),
                ("queue-8000-mtu-10000", "8000p"),
                ("queue-16000-mtu-1500", "16000p"),
                ("queue-16000-mtu-10000", "16000p"),
            ]),
        },
        line: Some(Quantity {
            name: "MTU",
            of: QuantitySource::Variant(&[
                ("queue-1000-mtu-1500", "1500"),
                ("queue-1000-mtu-10000", "10000"),
                ("queue-2000-mtu-1500", "1500"),
                ("queue-2000-mtu-10000", "10000"),
                ("queue-4000-mtu-1500", "1500"),
                ("queue-4000-mtu-10000", "10000"),
                ("queue-8000-mtu-1500", "1500"),
                ("queue-8000-mtu-10000", "10000"),
                ("queue-16000-mtu-1500", "1500"),
                ("queue-16000-mtu-10000", "10000"),
            ]),
        }),
        is_field: false,
        published: &[],
    },
    Figure {
        id: "P2",
        scenario: "p2",
        title: "Throughput over round-trip time on a DSL line, 10 Mbit/s",
        x: Quantity {
            name: "RTT",
            of: QuantitySource::Axis("path.rtt"),
        },
        line: Some(Quantity {
            name: "buffers",
            of: QuantitySource::Variant(&[("default", "default"), ("tuned", "16 MiB")]),
        }),
        is_field: false,
        published: &[],
    },
    Figure {
        id: "P9",
        scenario: "p9",
        title: "Throughput over loss with two MTUs, 1 Gbit/s, 1.49 ms",
        x: Quantity {
            name: "loss at MTU 1500",
            of: QuantitySource::Variant(&[
                ("packets-0.01-mtu-1500", "0.01%"),
                ("packets-0.01-mtu-9000", "0.01%"),
                ("bytes-0.01-mtu-9000", "0.01%"),
                ("packets-0.1-mtu-1500", "0.1%"),
                ("packets-0.1-mtu-9000", "0.1%"),
                ("bytes-0.1-mtu-9000", "0.1%"),
                ("packets-1-mtu-1500", "1%"),
                ("packets-1-mtu-9000", "1%"),
                ("bytes-1-mtu-9000", "1%"),
            ]),
        },
        line: Some(Quantity {
            name: "MTU",
            of: QuantitySource::Variant(&[
                ("packets-0.01-mtu-1500", "1500"),
                ("packets-0.01-mtu-9000", "9000, per packet"),
                ("bytes-0.01-mtu-9000", "9000, per byte"),
                ("packets-0.1-mtu-1500", "1500"),
                ("packets-0.1-mtu-9000", "9000, per packet"),
                ("bytes-0.1-mtu-9000", "9000, per byte"),
                ("packets-1-mtu-1500", "1500"),
                ("packets-1-mtu-9000", "9000, per packet"),
                ("bytes-1-mtu-9000", "9000, per byte"),
            ]),
        }),
        is_field: false,
        published: &[],
    },
];

/// A picture with its numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Drawing {
    /// See [`Figure::id`].
    pub id: String,
    /// See [`Figure::title`].
    pub title: String,
    /// Quantity on the horizontal axis.
    pub x: String,
    /// Quantity that distinguishes lines; empty for a single line.
    pub line: String,
    /// See [`Figure::is_field`].
    pub is_field: bool,
    /// Rates in bit/s that the document prints, and of what.
    pub published: Vec<(f64, String)>,
    /// By engine, in the order of tables, then in that of the experiment's cells.
    pub spots: Vec<DrawnSpot>,
}

/// Results of one engine at one place of a figure: medians of its usable runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DrawnSpot {
    /// Engine.
    pub engine: EngineName,
    /// The line; empty for a single line.
    pub line: String,
    /// Place on the horizontal axis, as it is written.
    pub x: String,
    /// Usable runs.
    pub runs: usize,
    /// Payload per second, in bit/s; `None` without a usable run.
    pub goodput_bps: Option<f64>,
    /// Mean of the smoothed round-trip time, in microseconds; `None` if it was not sampled.
    pub rtt_mean_us: Option<f64>,
    /// 99th percentile of it, likewise.
    pub rtt_p99_us: Option<f64>,
}

impl DrawnSpot {
    /// Place on the horizontal axis as a number, with its unit.
    #[must_use]
    pub fn x_number(&self) -> Option<(f64, &'static str)> {
        axis_number(&self.x)
    }
}

impl Drawing {
    /// The places on the horizontal axis and the lines, each once, in the order of the cells.
    #[must_use]
    pub fn places(&self) -> (Vec<&str>, Vec<&str>) {
        self.places_of(|_| true)
    }

    /// Places that an engine ran.
    #[must_use]
    pub fn places_on(&self, engine: EngineName) -> (Vec<&str>, Vec<&str>) {
        self.places_of(|spot| spot.engine == engine)
    }

    fn places_of(&self, belongs: impl Fn(&DrawnSpot) -> bool) -> (Vec<&str>, Vec<&str>) {
        let (mut places, mut lines) = (Vec::new(), Vec::new());
        for spot in self.spots.iter().filter(|spot| belongs(spot)) {
            for (known, value) in [(&mut places, &spot.x), (&mut lines, &spot.line)] {
                if !known.contains(&value.as_str()) {
                    known.push(value.as_str());
                }
            }
        }
        (places, lines)
    }

    /// Engines that ran any of it, in the order of tables.
    #[must_use]
    pub fn engines(&self) -> Vec<EngineName> {
        let ran = |engine: &EngineName| self.spots.iter().any(|spot| spot.engine == *engine);
        EngineName::ALL.into_iter().filter(ran).collect()
    }

    /// Its numbers as tables of Markdown, below its title: goodput, and the mean and the 99th
    /// percentile of the round-trip time.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut text = format!("{}\n", self.title);
        if self.is_field {
            for engine in self.engines() {
                let (places, lines) = self.places_on(engine);
                let head = [format!("{engine}: {} by {}", self.line, self.x)];
                let head = head.into_iter().chain(places.iter().map(|&x| x.to_owned()));
                let rows = lines.iter().map(|line| {
                    let cells = places.iter().map(|x| self.words(engine, x, line));
                    [(*line).to_owned()].into_iter().chain(cells).collect()
                });
                push_table(&mut text, head.collect(), rows.collect());
            }
            return text;
        }
        let (places, lines) = self.places();
        let mut head = vec![self.x.clone()];
        head.extend((!self.line.is_empty()).then(|| self.line.clone()));
        head.extend(self.engines().iter().map(ToString::to_string));
        let mut rows = Vec::new();
        for line in &lines {
            for x in &places {
                let mut row = vec![(*x).to_owned()];
                row.extend((!self.line.is_empty()).then(|| (*line).to_owned()));
                let engines = self.engines().into_iter();
                row.extend(engines.map(|engine| self.words(engine, x, line)));
                rows.push(row);
            }
        }
        push_table(&mut text, head, rows);
        if !self.published.is_empty() {
            let published = self.published.iter();
            let published =
                published.map(|(rate, of)| format!("{} {of}", show_value("bit/s", *rate)));
            let published: Vec<String> = published.collect();
            writeln!(text, "\nPublished: {}.", published.join(", ")).expect("a String grows");
        }
        text
    }

    /// `9.56 Gbit/s, 2.37 ms (p99 2.44 ms)`; empty where the engine did not run it, `–` where no
    /// run can be used.
    fn words(&self, engine: EngineName, x: &str, line: &str) -> String {
        let mut spots = self.spots.iter();
        let spot = spots.find(|spot| spot.engine == engine && spot.x == x && spot.line == line);
        let Some(spot) = spot else {
            return String::new();
        };
        let Some(goodput) = spot.goodput_bps else {
            return "–".into();
        };
        let mut words = show_value("bit/s", goodput);
        let time = |value| show_value("us", value);
        if let Some(mean) = spot.rtt_mean_us {
            words += &format!(", {}", time(mean));
        }
        if let Some(p99) = spot.rtt_p99_us {
            words += &format!(" (p99 {})", time(p99));
        }
        words
    }
}

/// Adds a table of Markdown, an empty line before it.
///
/// # Panics
///
/// Never: a `String` grows.
pub fn push_table(text: &mut String, head: Vec<String>, rows: Vec<Vec<String>>) {
    let rule = vec!["---".to_owned(); head.len()];
    text.push('\n');
    for row in [head, rule].into_iter().chain(rows) {
        let cells: Vec<&str> = row.iter().map(String::as_str).collect();
        writeln!(text, "| {} |", cells.join(" | ")).expect("a String grows");
    }
}

impl QuantitySource {
    fn value(self, cell: &CellName) -> Option<&str> {
        match self {
            Self::Axis(key) => {
                let mut axes = cell.axes.iter();
                axes.find(|(known, _)| known == key)
                    .map(|(_, value)| value.as_str())
            }
            Self::Variant(values) => {
                let variant = cell.variant.as_deref()?;
                let mut values = values.iter();
                values
                    .find(|(known, _)| *known == variant)
                    .map(|(_, value)| *value)
            }
        }
    }
}

/// The pictures of an experiment that some engine ran.
pub(crate) fn drawings(material: &Material<'_>) -> Vec<Drawing> {
    let mine = FIGURES.iter();
    let mine = mine.filter(|figure| figure.scenario == material.scenario);
    let drawn = mine.map(|figure| drawing(figure, material));
    drawn.filter(|drawn| !drawn.spots.is_empty()).collect()
}

fn drawing(figure: &Figure, material: &Material<'_>) -> Drawing {
    let cells = || material.cells.iter().enumerate();
    let spots = EngineName::ALL.into_iter().flat_map(|engine| {
        cells().filter_map(move |(index, cell)| {
            let x = figure.x.of.value(cell)?;
            let line = match figure.line {
                Some(line) => line.of.value(cell)?,
                None => "",
            };
            let runs = material.runs.iter();
            let runs = runs.filter(|run| run.engine == engine && run.cell == index);
            let runs: Vec<&Outcome> = runs.map(|run| &run.outcome).collect();
            (!runs.is_empty()).then(|| spot(engine, (x, line), &runs))
        })
    });
    Drawing {
        id: figure.id.into(),
        title: figure.title.into(),
        x: figure.x.name.into(),
        line: figure.line.map_or(String::new(), |line| line.name.into()),
        is_field: figure.is_field,
        published: figure
            .published
            .iter()
            .map(|(value, of)| (*value, (*of).to_owned()))
            .collect(),
        spots: spots.collect(),
    }
}

fn spot(engine: EngineName, (x, line): (&str, &str), runs: &[&Outcome]) -> DrawnSpot {
    let usable: Vec<&Outcome> = runs.iter().copied().filter(|run| run.is_usable()).collect();
    let median = |metric: Metric| {
        let values = usable.iter().filter_map(|run| metric.of(run)).collect();
        Spread::of(values).map(|spread| spread.median)
    };
    DrawnSpot {
        engine,
        line: line.into(),
        x: x.into(),
        runs: usable.len(),
        goodput_bps: median(Metric::GoodputBps),
        rtt_mean_us: median(Metric::RttMeanUs),
        rtt_p99_us: median(Metric::RttP99Us),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::find_scenario;

    /// Otherwise a renamed variant would fall out of its picture unnoticed.
    #[test]
    fn every_cell_has_its_place() {
        for figure in FIGURES {
            let scenario = find_scenario(figure.scenario).expect(figure.scenario);
            let experiment = scenario.experiment.as_ref().expect("it is one");
            assert!(experiment.ids.iter().any(|id| id == figure.id));
            for cell in scenario.trials() {
                let name = CellName {
                    variant: cell.variant,
                    axes: cell.axes,
                };
                let x = figure.x.of.value(&name);
                assert!(x.is_some_and(|x| axis_number(x).is_some()), "{name:?}");
                if let Some(line) = figure.line {
                    assert!(line.of.value(&name).is_some(), "{name:?}");
                }
            }
        }
    }
}
