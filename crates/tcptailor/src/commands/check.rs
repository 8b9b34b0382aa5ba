//! What this machine allows.

use comfy_table::{Cell, Color};
use linux::{Capabilities, Fact};
use serde::Serialize;

use crate::exit::Exit;
use crate::output::{self, Output};

/// Show what this machine allows, and how to allow the rest.
///
/// Tries what tcptailor may want to do, and leaves nothing behind. Ends with code 0 whatever the
/// answer is.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor check              as this user
  sudo tcptailor check         as root
  tcptailor check --json       for scripts: checks[].ok")]
pub(crate) struct Args {}

#[derive(Serialize)]
struct Report {
    checks: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    name: &'static str,
    ok: bool,
    /// What was found.
    detail: String,
    /// What to do, or what is lost, where it is not allowed.
    remedy: Option<String>,
}

pub(crate) fn run(_args: &Args, output: &Output) -> anyhow::Result<Exit> {
    let checks = Capabilities::probe().facts.into_iter().map(row).collect();
    let report = Report { checks };
    output.report("check", &report, || render(&report.checks))?;
    Ok(Exit::Done)
}

fn row(fact: Fact) -> Row {
    let Fact {
        name,
        ok,
        detail,
        remedy,
    } = fact;
    Row {
        name,
        ok,
        detail,
        remedy: (!ok && !remedy.is_empty()).then_some(remedy),
    }
}

fn render(rows: &[Row]) -> String {
    let mut table = output::table(&["", "CHECK", "FOUND", "WHAT TO DO"]);
    for row in rows {
        let (mark, color) = if row.ok {
            ("yes", Color::Green)
        } else {
            ("no", Color::Red)
        };
        table.add_row([
            Cell::new(mark).fg(color),
            Cell::new(row.name),
            Cell::new(&row.detail),
            Cell::new(row.remedy.as_deref().unwrap_or_default()),
        ]);
    }
    let missing = rows.iter().filter(|row| !row.ok).count();
    let summary = match missing {
        0 => "Everything is allowed.".to_owned(),
        n => format!(
            "{n} of {} are not allowed; what does not need them works.",
            rows.len()
        ),
    };
    format!("{}\n{summary}\n", output::render(&table))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(ok: bool, detail: &str, expected: &str) {
        let fact = Fact {
            name: "wings",
            ok,
            detail: detail.into(),
            remedy: "grow some".into(),
        };
        let text = render(&[row(fact)]);
        let text = anstream::adapter::strip_str(&text).to_string();
        assert_eq!(text.lines().nth(1), Some(expected));
    }

    #[test]
    fn what_is_missing_is_told_with_its_remedy() {
        check(true, "two", "yes  wings  two");
        check(false, "none", "no  wings  none   grow some");
    }
}
