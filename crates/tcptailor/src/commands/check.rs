//! What this machine allows.

use comfy_table::{Cell, Color};
use linux::{Allowance, Error, allowances};
use serde::Serialize;

use crate::exit::Exit;
use crate::output::{self, Output};

/// Show what this machine allows, and how to allow the rest.
///
/// Tries everything that tcptailor may want to do, and leaves nothing behind. Ends with code 0
/// whatever the answer is.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor check              as this user
  sudo tcptailor check         as root
  tcptailor check --json       for scripts: checks[].allowed")]
pub(crate) struct Args {}

#[derive(Serialize)]
struct Report {
    checks: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    what: &'static str,
    wanted_for: &'static str,
    allowed: bool,
    /// Worth knowing where it is allowed.
    detail: Option<String>,
    /// What is missing where it is not.
    missing: Option<String>,
    /// What to do about it.
    remedy: Option<String>,
}

pub(crate) fn run(_args: Args, output: &Output) -> anyhow::Result<Exit> {
    let report = Report {
        checks: allowances().into_iter().map(row).collect(),
    };
    output.report("check", &report, || render(&report.checks))?;
    Ok(Exit::Done)
}

fn row(allowance: Allowance) -> Row {
    let Allowance {
        what,
        wanted_for,
        answer,
    } = allowance;
    let (detail, missing, remedy) = match answer {
        Ok(detail) => (Some(detail).filter(|detail| !detail.is_empty()), None, None),
        Err(Error::Permission { needs, hint, .. }) => (None, Some(needs.into()), Some(hint)),
        Err(Error::Unsupported { what, hint }) => (None, Some(what), Some(hint)),
        Err(error) => (None, Some(error.to_string()), None),
    };
    Row {
        what,
        wanted_for,
        allowed: missing.is_none(),
        detail,
        missing,
        remedy,
    }
}

fn render(rows: &[Row]) -> String {
    let mut table = output::table(&["", "THIS MACHINE LETS US", "FOR", "REMARK"]);
    for row in rows {
        let (mark, color) = if row.allowed {
            ("yes", Color::Green)
        } else {
            ("no", Color::Red)
        };
        let remark = match (&row.detail, &row.missing, &row.remedy) {
            (_, Some(missing), Some(remedy)) => format!("missing: {missing}; {remedy}"),
            (_, Some(missing), None) => format!("missing: {missing}"),
            (Some(detail), ..) => detail.clone(),
            _ => String::new(),
        };
        let cells = [row.what, row.wanted_for, &remark];
        let mut line = vec![Cell::new(mark).fg(color)];
        line.extend(cells.map(Cell::new));
        table.add_row(line);
    }
    let missing = rows.iter().filter(|row| !row.allowed).count();
    let summary = match missing {
        0 => "Everything is allowed.".to_owned(),
        n => format!(
            "{n} of {} are not allowed; the rest works without.",
            rows.len()
        ),
    };
    format!("{}\n{summary}\n", output::render(&table))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(answer: Result<String, Error>, expected: &str) {
        let allowance = Allowance {
            what: "fly",
            wanted_for: "fun",
            answer,
        };
        let text = render(&[row(allowance)]);
        let text = anstream::adapter::strip_str(&text).to_string();
        let line = text.lines().nth(1).expect("a row").trim_end();
        assert_eq!(line, expected);
    }

    #[test]
    fn what_is_missing_is_told_with_its_remedy() {
        check(Ok("high".into()), "yes  fly                   fun  high");
        check(
            Err(Error::Permission {
                what: "flying".into(),
                needs: "wings",
                hint: "grow some".into(),
            }),
            "no  fly                   fun  missing: wings; grow some",
        );
    }
}
