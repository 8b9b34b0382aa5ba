//! Output of `predict`.

use std::fmt::Write;

use base::human;
use tailor::{Forecast, PredictionRow, Predictions, Source, TwinRow};

use super::{Document, shown_rate};
use crate::output;

/// For the screen.
pub(super) fn render(document: &Document) -> String {
    let mut text = format!("{}\n\n", document.subject);
    let Predictions {
        twin,
        cannot_know: _,
        why,
        predictions,
    } = &document.answer;
    if let Some(twin) = twin {
        text.push_str(&about(twin));
    }
    let is_known = |row: &PredictionRow| matches!(row.forecast, Forecast::Known(_));
    let any = predictions.iter().any(is_known);
    match why {
        Some(why) if any => writeln!(
            text,
            "Without the twin: {why}.\nBy the share of the time that a change would save:\n"
        ),
        Some(why) => writeln!(text, "Nothing can be predicted: {why}."),
        None => Ok(()),
    }
    .expect("a String grows");
    if predictions.is_empty() {
        if why.is_none() {
            text.push_str("Nothing is proposed; `--try KNOB=VALUE` tries a setting.\n");
        }
        return text;
    }
    if why.is_none() || any {
        text.push_str(&table(predictions));
    }
    for row in predictions {
        let note = match &row.forecast {
            Forecast::Known(given) if given.source == Source::TimeSaved && why.is_none() => {
                "by the share of the time that it would save, without the twin".to_owned()
            }
            Forecast::Known(given) if given.shortened => {
                "simulated for a shorter time than it will be measured, since so many packets pass"
                    .to_owned()
            }
            Forecast::Unknown(unknown) if why.is_none() || any => {
                format!("not predicted: {unknown}")
            }
            _ => continue,
        };
        writeln!(text, "{}: {note}.", row.change).expect("a String grows");
    }
    text
}

fn about(twin: &TwinRow) -> String {
    let path = twin.path.as_deref().unwrap_or_default();
    let mut text = format!("path      {path}\n");
    if !twin.given {
        let range = twin.path_bps;
        if range.high > range.low * 1.02 {
            writeln!(
                text,
                "          paths from {} to {} fit as well",
                shown_rate(range.low),
                shown_rate(range.high)
            )
            .expect("a String grows");
        }
        text.push_str("check     ");
        for (at, compared) in twin.self_check.compared.iter().enumerate() {
            let indent = if at > 0 { "          " } else { "" };
            let shown = |value: f64| match compared.what {
                "goodput" => human::bps(value.round() as u64),
                _ => human::micros((value * 1e6).round() as u64),
            };
            let off = if compared.ok { "" } else { "  too far off" };
            writeln!(
                text,
                "{indent}{}: seen {}, the twin {}{off}",
                compared.what,
                shown(compared.seen),
                shown(compared.twin)
            )
            .expect("a String grows");
        }
    }
    text.push('\n');
    text
}

/// A gain with the digits that mean something.
fn times(gain: f64) -> String {
    match gain {
        1000.0.. => "more than x1000".into(),
        10.0.. => format!("x{gain:.0}"),
        _ => format!("x{gain:.2}"),
    }
}

fn table(rows: &[PredictionRow]) -> String {
    let mut table = output::table(&[
        "CHANGE",
        "AT",
        "SCOPE",
        "NOW",
        "PREDICTED",
        "LOW",
        "HIGH",
        "GAIN",
    ]);
    let mut any = false;
    for row in rows {
        let Forecast::Known(prediction) = &row.forecast else {
            continue;
        };
        let Some(range) = prediction.range else {
            continue;
        };
        any = true;
        let objective = prediction.shown_objective();
        let shown = |value: f64| match objective {
            doctor::Objective::Goodput => human::bps(value.round() as u64),
            _ => human::micros(value.round() as u64),
        };
        table.add_row([
            row.change.clone(),
            row.end.into(),
            crate::commands::knobs::scope_name(row.scope).into(),
            prediction.before.map_or_else(|| "-".into(), shown),
            shown(range.value),
            shown(range.low),
            shown(range.high),
            prediction.gain.map_or_else(|| "-".into(), times),
        ]);
    }
    if !any {
        return String::new();
    }
    let mut text = output::render(&table);
    text.push('\n');
    let forecasts = rows
        .iter()
        .filter(|row| matches!(row.forecast, Forecast::Known(_)));
    for row in forecasts.clone().filter(|row| row.acts_on_new_connections) {
        writeln!(text, "{}: on new connections.", row.change).expect("a String grows");
    }
    for row in forecasts.filter(|row| !row.risk.is_empty()) {
        writeln!(text, "{}: {}", row.change, row.risk).expect("a String grows");
    }
    text
}
