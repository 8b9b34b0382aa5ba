//! The result as a page: what `--html` writes.

#[cfg(test)]
mod tests;

use doctor::{Evidence, Objective};
use lab::Measure;
use lab::stats::median;
use page::{
    Axis, Bar, BarGroup, Bars, Cell, Line, Lines, Page, Part, Range, Ranges, Section, Series, Spot,
    Table, Tile, Tone,
};
use tailor::{Answer, Arm, ChangeMade, Fitting, Forecast, Outcome, Tried};

use super::Document;
use super::heard::{Experiment, Heard, Run};
use super::own_connection::{self, OwnConnection};
use super::screen;
use crate::output;

/// A quantity of a measurement: its name, its unit, and how it is read.
type Quantity = (&'static str, &'static str, fn(&Measure) -> Option<f64>);

const QUANTITIES: [Quantity; 11] = [
    ("goodput", "bit/s", |m| Some(m.goodput_bps as f64)),
    (
        "goodput of a connection with data in flight",
        "bit/s",
        |m| whole(m.busy_goodput_bps),
    ),
    ("operations per second", "", |m| m.operations_per_s),
    ("response, median", "us", |m| {
        whole(m.response_us.map(|r| r.p50))
    }),
    ("response, p90", "us", |m| {
        whole(m.response_us.map(|r| r.p90))
    }),
    ("response, p99", "us", |m| {
        whole(m.response_us.map(|r| r.p99))
    }),
    ("response, worst", "us", |m| {
        whole(m.response_us.map(|r| r.max))
    }),
    ("time of a transfer, median", "us", |m| whole(m.transfer_us)),
    ("share of the time stalled (200 ms or more)", "share", |m| {
        m.stalled_share
    }),
    ("smoothed RTT, median", "us", |m| whole(m.srtt_us)),
    ("local drops", "", |m| Some(m.local_drops_pkts as f64)),
];

/// Values of which one is this many times another are drawn by their logarithms.
const FAR_APART: f64 = 20.0;

fn whole(value: Option<u64>) -> Option<f64> {
    value.map(|value| value as f64)
}

/// The page of `document`, of which `heard` is how it came about; `command` is what was typed.
pub(super) fn render(document: &Document<'_>, heard: &Heard, command: &str) -> String {
    let fitting = &document.fitting;
    let is_test = document.own_connection.is_some();
    let mut sections = vec![measured(fitting, heard)];
    let experiments = document.experiments.iter().map(Some);
    let experiments = experiments.chain(std::iter::repeat(None));
    let tried = fitting.tried.iter().zip(experiments).enumerate();
    sections.extend(
        tried.map(|(index, (tried, experiment))| of_tried(index, tried, experiment, is_test)),
    );
    sections.extend(undoing(document));
    let doubts: Vec<String> = document
        .path
        .iter()
        .flat_map(|path| &path.caveats)
        .map(ToString::to_string)
        .collect();
    sections.extend((!doubts.is_empty()).then(|| {
        Section {
            title: "Caveats".into(),
            parts: doubts
                .into_iter()
                .map(|doubt| Part::Note(Tone::Doubt, doubt))
                .collect(),
        }
    }));
    let mut facts = vec![
        ("command".to_owned(), command.to_owned()),
        ("subject".to_owned(), document.subject.to_owned()),
    ];
    let engine = document
        .path
        .iter()
        .map(|path| ("engine".to_owned(), path.engine.to_string()));
    facts.extend(engine);
    facts.extend(output::provenance());
    page::render(&Page {
        title: format!("Fit: {}", document.subject),
        lead: lead(fitting, is_test),
        facts,
        parts: head(fitting, is_test),
        sections,
    })
}

fn lead(fitting: &Fitting, is_test: bool) -> String {
    let mut text = screen::ended(fitting.ending, is_test).concat();
    if let Some(left) = fitting.left {
        text.push_str(&format!("; left: {}", screen::left(left).concat()));
    }
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    let text: String = first.into_iter().chain(letters).collect();
    format!("{text}.")
}

/// Before and after in numbers, and a line for each change.
fn head(fitting: &Fitting, is_test: bool) -> Vec<Part> {
    let objective = fitting.before.own_objective();
    let tile = |name: &str, measure: &Measure, tone| Tile {
        number: measure.show(objective),
        name: name.into(),
        tone,
    };
    let mut tiles = vec![tile("before", &fitting.before, Tone::Plain)];
    tiles.extend(
        fitting
            .after
            .iter()
            .map(|after| tile("after", after, Tone::Good)),
    );
    let mut parts = vec![Part::Tiles(tiles)];
    if !fitting.tried.is_empty() {
        parts.push(Part::Table(all_tried(fitting, is_test)));
    }
    parts
}

fn all_tried(fitting: &Fitting, is_test: bool) -> Table {
    let head = [
        "limit",
        "change",
        "scope",
        "predicted",
        "before",
        "after",
        "gain",
        "result",
    ];
    let row = |(index, tried): (usize, &Tried)| {
        let outcome = tried.outcome.as_ref();
        let unit = outcome.map_or("", |outcome| unit_of(outcome.objective));
        vec![
            // The first section has the numbers before and after.
            Cell::text(tried.finding.diagnosis).leading_to(index + 1),
            Cell::text(screen::changes(&tried.changes).replace('\n', "; ")),
            Cell::text(screen::scopes(&tried.changes).replace('\n', "; ")),
            Cell::text(match &tried.predicted {
                Some(Forecast::Known(prediction)) => prediction.text(),
                Some(Forecast::Unknown(_)) => "not known".into(),
                None => String::new(),
            }),
            Cell::number(unit, outcome.and_then(|outcome| outcome.before)),
            Cell::number(unit, outcome.and_then(|outcome| outcome.after)),
            gain(outcome.and_then(|outcome| outcome.gain)),
            Cell::text(screen::result_word(tried, is_test)).toned(tone(tried)),
        ]
    };
    Table {
        caption: "Changes tried, in order.".into(),
        head: head.map(Into::into).into(),
        rows: fitting.tried.iter().enumerate().map(row).collect(),
    }
}

/// How many times better it is with the change, as on the screen.
fn gain(gain: Option<f64>) -> Cell {
    Cell {
        text: gain.map_or_else(|| "–".into(), screen::times),
        value: gain,
        ..Cell::default()
    }
}

const fn unit_of(objective: Objective) -> &'static str {
    match objective {
        Objective::Goodput => "bit/s",
        Objective::Response | Objective::Tail | Objective::Transfer | Objective::Rtt => "us",
        Objective::Stalls => "share",
        Objective::LocalDrops => "",
    }
}

/// Name of the metric of an experiment.
const fn name_of(outcome: &Outcome) -> &'static str {
    match outcome.objective {
        Objective::Goodput if outcome.while_in_flight => "goodput while data is in flight",
        Objective::Goodput => "goodput",
        Objective::Response => "response time, median",
        Objective::Tail => "response time, p99",
        Objective::Transfer => "time of a transfer, median",
        Objective::Stalls => "share of the time stalled",
        Objective::Rtt => "smoothed RTT, median",
        Objective::LocalDrops => "packets dropped by the own interface",
    }
}

fn tone(tried: &Tried) -> Tone {
    match &tried.outcome {
        _ if tried.kept => Tone::Good,
        Some(outcome) if outcome.answer == Answer::Worse => Tone::Bad,
        Some(_) => Tone::Doubt,
        None => Tone::Muted,
    }
}

/// The whole, before the first change and after the last.
fn measured(fitting: &Fitting, heard: &Heard) -> Section {
    let after = fitting.after.as_ref();
    let rows = QUANTITIES.iter().filter_map(|(name, unit, read)| {
        let (before, after) = (read(&fitting.before), after.and_then(read));
        before.or(after)?;
        Some(vec![
            Cell::text(*name),
            Cell::number(unit, before),
            Cell::number(unit, after),
        ])
    });
    let mut parts = vec![Part::Table(Table {
        caption: "Results of the program.".into(),
        head: ["", "before", "after"].map(Into::into).into(),
        rows: rows.collect(),
    })];
    let named = [
        ("Before the first change", heard.first.as_ref()),
        ("After the last look", heard.last.as_ref()),
    ];
    parts.extend(named.into_iter().filter_map(|(title, series)| {
        let series = Series {
            title: format!("{title}: the connection with the most important finding"),
            ..series?.clone()
        };
        Some(Part::Series(Box::new(series)))
    }));
    Section {
        title: "Before and after".into(),
        parts,
    }
}

/// One change: what was against it, how it was tried, and what came of it.
fn of_tried(
    index: usize,
    tried: &Tried,
    experiment: Option<&Experiment>,
    is_test: bool,
) -> Section {
    let mut parts = vec![
        Part::Text(tried.finding.sentence.into()),
        Part::Note(
            tone(tried),
            format!("{}.", screen::result_word(tried, is_test)),
        ),
        Part::Table(made(&tried.changes)),
    ];
    if !tried.risk.is_empty() {
        parts.push(Part::Note(Tone::Plain, format!("Risk: {}", tried.risk)));
    }
    if let Some(experiment) = experiment {
        parts.push(Part::Text(format!("Measured {}.", experiment.how)));
    }
    if let Some(outcome) = &tried.outcome {
        if outcome.time_needed_s.is_none() {
            parts.push(Part::Table(compared(outcome)));
        }
        let why = outcome
            .why
            .map(|why| Part::Note(Tone::Doubt, format!("Why: {why}.")));
        parts.extend(why);
        let runs = experiment.map_or(&[][..], |experiment| &experiment.runs);
        parts.extend(pictures(outcome, runs));
    }
    parts.extend(undo(tried, experiment, is_test));
    parts.push(Part::Table(evidence(tried)));
    let changes = screen::changes(&tried.changes).replace('\n', "; ");
    Section {
        title: format!("{}. {changes}", index + 1),
        parts,
    }
}

fn made(changes: &[ChangeMade]) -> Table {
    let row = |change: &ChangeMade| {
        let when = if change.live {
            "open connections too"
        } else {
            "new connections"
        };
        vec![
            Cell::text(change.knob.clone()),
            Cell::text(change.target.clone()),
            Cell::text(screen::scope_of(change)),
            Cell::text(change.from.clone()),
            Cell::text(change.to.clone()),
            Cell::text(when),
        ]
    };
    let head = ["setting", "where", "scope", "from", "to", "acts on"];
    Table {
        caption: "The change.".into(),
        head: head.map(Into::into).into(),
        rows: changes.iter().map(row).collect(),
    }
}

/// The numbers of an experiment.
fn compared(outcome: &Outcome) -> Table {
    let unit = unit_of(outcome.objective);
    let [low, high] = outcome
        .gain_interval
        .map_or([None; 2], |ends| ends.map(Some));
    let rows = [
        ("without the change", Cell::number(unit, outcome.before)),
        ("with the change", Cell::number(unit, outcome.after)),
        ("gain", gain(outcome.gain)),
        ("gain, at least (95 % CI)", gain(low)),
        ("gain, at most (95 % CI)", gain(high)),
        ("p-value", Cell::number("ratio", outcome.p_value)),
        ("runs of each", Cell::number("", Some(outcome.looks as f64))),
    ];
    let row = |(name, number): (&str, Cell)| vec![Cell::text(name), number];
    Table {
        caption: format!("Compared by the {}: medians of the runs.", name_of(outcome)),
        head: ["", "number"].map(Into::into).into(),
        rows: rows.map(row).into(),
    }
}

/// How the runs without and with a change differ.
fn pictures(outcome: &Outcome, runs: &[Run]) -> Vec<Part> {
    let objective = outcome.objective;
    let arms = [(Arm::A, "without"), (Arm::B, "with")];
    let lines = arms.map(|(arm, name)| Line {
        name: name.into(),
        spots: runs
            .iter()
            .enumerate()
            .filter(|(_, run)| run.arm == arm)
            .map(|(number, run)| Spot {
                x: (number + 1) as f64,
                y: outcome.value(&run.measure),
                range: None,
            })
            .collect(),
    });
    let values = |arm| {
        let of_arm = runs.iter().filter(move |run| run.arm == arm);
        of_arm
            .filter_map(|run| outcome.value(&run.measure))
            .collect::<Vec<f64>>()
    };
    let bars = arms
        .into_iter()
        .enumerate()
        .filter_map(|(colour, (arm, name))| {
            let values = values(arm);
            let ends = values.iter().copied();
            Some(Bar {
                name: name.into(),
                value: median(&values)?,
                range: ends.clone().reduce(f64::min).zip(ends.reduce(f64::max)),
                colour,
            })
        });
    let bars: Vec<Bar> = bars.collect();
    if bars.is_empty() {
        return Vec::new();
    }
    let what = name_of(outcome);
    let mut parts = vec![
        Part::Lines(Lines {
            title: format!("{what}, run by run"),
            x: Axis {
                name: "run, in the order in which they were made".into(),
                ..Axis::default()
            },
            y: Axis {
                name: what.into(),
                unit: unit_of(objective),
                is_log: are_far_apart(runs.iter().filter_map(|run| outcome.value(&run.measure))),
            },
            lines: lines.into(),
            ..Lines::default()
        }),
        Part::Bars(Bars {
            title: format!("{what}: medians of the runs, from the lowest to the highest"),
            unit: unit_of(objective),
            groups: vec![BarGroup {
                bars,
                ..BarGroup::default()
            }],
        }),
    ];
    parts.extend(responses(arms, runs));
    parts
}

/// Whether the small ones of these values would all be at zero beside the large ones.
fn are_far_apart(values: impl Iterator<Item = f64>) -> bool {
    let (low, high) = values.fold((f64::MAX, 0.0_f64), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    low > 0.0 && high > FAR_APART * low
}

/// How response times spread: medians over the runs of each percentile.
fn responses(arms: [(Arm, &str); 2], runs: &[Run]) -> Option<Part> {
    let rows = arms.into_iter().filter_map(|(arm, name)| {
        let of_arm = || runs.iter().filter(|run| run.arm == arm);
        let times = of_arm().filter_map(|run| run.measure.response_us);
        let times: Vec<[u64; 4]> = times.map(|r| [r.p50, r.p90, r.p99, r.max]).collect();
        let middle = |at: usize| {
            let values: Vec<f64> = times.iter().map(|quantiles| quantiles[at] as f64).collect();
            median(&values)
        };
        Some(Range {
            name: name.into(),
            quantiles: [middle(0)?, middle(1)?, middle(2)?, middle(3)?],
        })
    });
    let rows: Vec<Range> = rows.collect();
    (!rows.is_empty()).then(|| {
        Part::Ranges(Ranges {
            title: "Response times: medians over the runs".into(),
            unit: "us",
            rows,
        })
    })
}

/// How to undo a kept change, or how it was rolled back.
fn undo(tried: &Tried, experiment: Option<&Experiment>, is_test: bool) -> Vec<Part> {
    match (tried.kept, tried.transaction) {
        (true, Some(number)) => vec![
            Part::Text("It is kept. To undo it:".into()),
            Part::Code(format!("tcptailor rollback {number}")),
        ],
        (true, None) if is_test && own_connection::is_of_socket(tried) => {
            vec![Part::Text("It ended with the test connection.".into())]
        }
        (true, None) => vec![Part::Text("It ended with the lab path.".into())],
        (false, _) if tried.outcome.is_none() => vec![Part::Text("Nothing was changed.".into())],
        (false, _) => {
            let undone = experiment.map_or(&[][..], |experiment| &experiment.undone);
            let lines = undone
                .iter()
                .map(|line| Part::Text(format!("Undone: {line}.")));
            lines.collect()
        }
    }
}

fn evidence(tried: &Tried) -> Table {
    let row = |row: &Evidence| {
        let cells = [row.field, row.observed.as_str(), row.expected.as_str()];
        Vec::from(cells.map(Cell::text))
    };
    let share = vec![
        Cell::text("share of the time"),
        Cell::number("share", Some(tried.finding.share)),
        Cell::text(""),
    ];
    Table {
        caption: format!("Evidence for {}", tried.finding.diagnosis),
        head: ["field", "observed", "expected"].map(Into::into).into(),
        rows: [share]
            .into_iter()
            .chain(tried.finding.evidence.iter().map(row))
            .collect(),
    }
}

/// Steps after a test connection for the program that it was made for, or after a change of a
/// socket for later connections.
fn undoing(document: &Document<'_>) -> Option<Section> {
    let own = document.own_connection.as_ref().map(OwnConnection::text);
    let (title, text) = match (own, &document.lasting) {
        (Some(own), _) => ("For your own program", own),
        (None, lasting) => ("For later connections", lasting.as_ref()?.text()),
    };
    Some(Section {
        title: title.into(),
        parts: vec![Part::Code(text)],
    })
}
