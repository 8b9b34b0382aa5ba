//! The answer for people: a row per number, with the causes of large errors below.

use base::human;
use lab::{CaveatKind, ERROR_MEDIAN_MAX, ERROR_P90_MAX, Metric};

use super::{Document, Doubt, Engine, Row, Value, Verdict, is_large};
use crate::output;

pub(super) fn render(document: &Document) -> String {
    let causes = causes(document);
    let mut header = vec!["SCENARIO".to_owned(), String::new()];
    header.extend(["KERNEL".to_owned(), "RANGE".to_owned()]);
    let engines = document.engines.iter();
    header.extend(engines.map(|errors| errors.engine.to_string().to_uppercase()));
    let numbers: Vec<usize> = (2..header.len()).collect();
    let names: Vec<&str> = header.iter().map(String::as_str).collect();
    let mut table = output::table(&names);
    for row in &document.rows {
        let kernel = show(&row.metric, row.kernel);
        let mut cells = vec![
            row.scenario.clone(),
            format!("{} {}", measure_name(&row.metric), letters(row, &causes)),
            kernel.clone(),
            percent(row.kernel_spread.filter(|_| document.runs > 1)),
        ];
        cells.extend(document.engines.iter().map(|errors| {
            let mut values = row.engines.iter();
            let value = values.find(|value| value.engine == errors.engine);
            value.map_or_else(String::new, |value| beside(row, value, &kernel))
        }));
        table.add_row(cells);
    }
    output::align_right(&mut table, &numbers);
    let mut text = output::render(&table);
    remarks(&mut text, document, &causes);
    text.push('\n');
    for errors in &document.engines {
        let verdict = match (document.interrupted, errors.verdict) {
            (true, _) => "interrupted, not all runs were made".to_owned(),
            (_, Verdict::Agrees) => "agrees with the kernel".to_owned(),
            (_, Verdict::Differs) => "does not agree with the kernel".to_owned(),
            (_, Verdict::NotDistinguishable) => format!(
                "not distinguishable ({} of {} numbers are missing or of a busy machine)",
                errors.doubtful, errors.numbers
            ),
        };
        let (median, p90) = (percent(errors.figures.median), percent(errors.figures.p90));
        let words = format!(
            "{} {verdict}: median of the errors {median} (at most {}), 90th percentile {p90} (at \
             most {})",
            errors.engine,
            percent(Some(ERROR_MEDIAN_MAX)),
            percent(Some(ERROR_P90_MAX))
        );
        output::push_wrapped(&mut text, &words, "  ", 0);
    }
    text
}

/// Why errors are large, in the order of the table.
fn causes(document: &Document) -> Vec<&str> {
    let mut causes = Vec::new();
    for value in document.rows.iter().flat_map(|row| &row.engines) {
        let cause = value.cause.filter(|cause| !causes.contains(cause));
        causes.extend(cause.filter(|_| value.error.is_some_and(is_large)));
    }
    causes
}

/// The letters of a row's causes; a question mark where one is not known.
fn letters(row: &Row, causes: &[&str]) -> String {
    let mut letters = String::new();
    for value in row.engines.iter().filter(|v| v.error.is_some_and(is_large)) {
        let letter = letter(value.cause, causes);
        if !letters.contains(letter) {
            letters.push(letter);
        }
    }
    letters
}

fn letter(cause: Option<&str>, causes: &[&str]) -> char {
    let place = causes.iter().position(|known| Some(*known) == cause);
    let place = place.and_then(|place| u8::try_from(place).ok());
    place.map_or('?', |place| char::from(b'a' + place.min(25)))
}

/// Causes of large errors, each once with where they are, and doubts, each kind once per engine.
fn remarks(text: &mut String, document: &Document, causes: &[&str]) {
    let mut found: Vec<(Option<&str>, Vec<String>)> = Vec::new();
    for row in &document.rows {
        for value in row.engines.iter().filter(|v| v.error.is_some_and(is_large)) {
            let place = format!(
                "{} {} ({})",
                row.scenario,
                measure_name(&row.metric),
                value.engine
            );
            match found.iter_mut().find(|(known, _)| *known == value.cause) {
                Some((_, places)) => places.push(place),
                None => found.push((value.cause, vec![place])),
            }
        }
    }
    if !found.is_empty() {
        text.push('\n');
    }
    for (cause, places) in found {
        let words = cause.unwrap_or("the cause is not known");
        text.push(letter(cause, causes));
        text.push(' ');
        output::push_wrapped(text, &format!("{words}: {}", places.join(", ")), "  ", 2);
    }
    let mut told = "";
    let once = document.rows.iter().filter(|row| {
        // Each row of a scenario has its doubts.
        std::mem::replace(&mut told, row.scenario.as_str()) != row.scenario
    });
    let doubts = by_engine(once.flat_map(|row| &row.caveats));
    if !doubts.is_empty() {
        text.push('\n');
    }
    for (engine, CaveatKind { worst, runs }) in doubts {
        let runs = human::count(runs as u64, "run");
        push_item(text, &format!("{engine}, {runs}: {worst}"));
    }
}

/// The kinds of doubts of all scenarios on each engine.
fn by_engine<'d>(doubts: impl Iterator<Item = &'d Doubt>) -> Vec<(Engine, CaveatKind)> {
    let mut kinds: Vec<(Engine, CaveatKind)> = Vec::new();
    for doubt in doubts {
        let one = CaveatKind {
            worst: doubt.caveat.clone(),
            runs: doubt.runs,
        };
        let mut known = kinds.iter_mut();
        if !known.any(|(engine, kind)| *engine == doubt.engine && kind.absorb(&one)) {
            kinds.push((doubt.engine, one));
        }
    }
    kinds
}

fn push_item(text: &mut String, words: &str) {
    text.push_str("- ");
    output::push_wrapped(text, words, "  ", 2);
}

const fn measure_name(metric: &Metric) -> &'static str {
    match metric {
        Metric::GoodputBps => "goodput",
        Metric::ResponseP50Us => "p50",
        Metric::ResponseP99Us => "p99",
        _ => "",
    }
}

fn show(metric: &Metric, value: Option<f64>) -> String {
    let Some(value) = value.map(|value| value.round() as u64) else {
        return "-".into();
    };
    match metric {
        Metric::GoodputBps => human::bps(value),
        _ => human::micros(value),
    }
}

/// An engine's value with its distance from the kernel's, which stands beside it: `94.1 -0.3%`.
/// The unit is left out where it is the same.
fn beside(row: &Row, value: &Value, kernel: &str) -> String {
    let own = show(&row.metric, value.value);
    let unit = |text: &str| text.split_once(' ').map(|(_, unit)| unit.to_owned());
    let number = match own.split_once(' ') {
        Some((number, _)) if unit(&own) == unit(kernel) => number,
        _ => &own,
    };
    match (value.value, row.kernel, value.error) {
        (Some(value), Some(kernel), Some(_)) if value >= 10.0 * kernel => {
            format!("{number} x{:.0}", value / kernel)
        }
        (Some(value), Some(kernel), Some(error)) => {
            let sign = if value < kernel { "-" } else { "+" };
            format!("{number} {sign}{}", short_percent(error))
        }
        _ => number.to_owned(),
    }
}

/// In few columns: `8.4%`, `42%`.
fn short_percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent < 9.95 {
        true => format!("{percent:.1}%"),
        false => format!("{percent:.0}%"),
    }
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".into(), |share| format!("{:.1} %", share * 100.0))
}
