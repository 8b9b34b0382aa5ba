//! Measures the processing times of this machine, for hosts in virtual time.

use std::path::{Path, PathBuf};
use std::time::Duration;

use lab::app::HostCosts;
use serde::{Deserialize, Serialize};

use crate::exit::{Exit, Problem};
use crate::output::{self, Output};
use crate::progress::Progress;

/// A file of costs is smaller.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// Measure what system calls, copies, wake-ups and packets take on this machine.
///
/// Hosts in virtual time spend these CPU times, so that results that depend on the CPU (many small
/// writes, responses within a millisecond) are realistic. By default they are those of a typical
/// Linux host; `lab run --costs FILE` takes those in FILE. Takes a second, uses only loopback, and
/// needs no privileges.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor lab calibrate                          the times of this machine, and the defaults
  tcptailor lab calibrate -o here.json             ... and write them to a file
  tcptailor lab run lan-wwr --engine virtual --costs here.json
  tcptailor lab calibrate --json                   the same as the file")]
pub(super) struct Args {
    /// Write the numbers into this file, for `--costs`.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Document that is printed, and that a file of costs holds.
#[derive(Debug, Serialize)]
struct Document {
    costs: HostCosts,
    /// Costs of virtual hosts without `--costs`.
    usual: HostCosts,
}

pub(super) fn run(args: &Args, output: &Output) -> anyhow::Result<Exit> {
    if let Some(path) = &args.output {
        output::check_writable(path)?;
    }
    let progress = Progress::spinner(output, "measuring");
    let costs = linux::calibrate()?;
    drop(progress);
    let document = Document {
        costs,
        usual: HostCosts::linux(),
    };
    if let Some(path) = &args.output {
        let text = output::document("lab-calibrate", &document)? + "\n";
        output::write_text(path, &text)?;
    }
    output.report("lab-calibrate", &document, || text(&document))?;
    Ok(Exit::Done)
}

fn text(document: &Document) -> String {
    let mut table = output::table(&["WHAT TAKES TIME", "HERE", "USUAL"]);
    for (what, read) in ROWS {
        let [here, usual] = [document.costs, document.usual].map(|costs| {
            let nanos = read(&costs).as_nanos() as f64;
            format!("{:.2} us", nanos / 1e3)
        });
        table.add_row([(*what).to_owned(), here, usual]);
    }
    let mut text = output::render(&table);
    text.push_str("The last one is not measured: nothing on loopback is merged.\n");
    text
}

type Read1 = fn(&HostCosts) -> Duration;

const ROWS: &[(&str, Read1)] = &[
    ("from an event to the program that waits for it", |c| c.wake),
    ("a system call", |c| c.system_call),
    ("copying 1 KiB", |c| c.copy_kib),
    ("sending a packet", |c| c.send_packet),
    ("taking in a packet", |c| c.receive_packet),
    ("each wire packet of a merged one", |c| c.receive_segment),
];

/// The costs in a file written by [`run`].
#[derive(Deserialize)]
struct Written {
    schema: String,
    costs: HostCosts,
}

/// Reads what `lab calibrate` wrote.
pub(super) fn read(path: &Path) -> anyhow::Result<HostCosts> {
    const HINT: &str = "`tcptailor lab calibrate -o FILE` writes one";
    let refused = |why: String| Problem::usage(format!("{}: {why}", path.display())).hint(HINT);
    let text = output::read_text(path, FILE_BYTES_MAX).map_err(|problem| problem.hint(HINT))?;
    let written: Written = serde_json::from_str(&text)
        .map_err(|error| refused(format!("not a calibration: {error}")))?;
    if written.schema != "tcptailor/lab-calibrate/1" {
        return Err(refused(format!("`{}` is not a calibration", written.schema)).into());
    }
    Ok(written.costs)
}
