//! What the work of this machine takes, for hosts in virtual time.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use lab::app::HostCosts;
use serde::{Deserialize, Serialize};

use crate::exit::{Exit, Problem};
use crate::output::{self, Output};
use crate::progress::Progress;

/// A file of costs is smaller.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// Measure what system calls, copies, wake-ups and packets take on this machine.
///
/// In virtual time a host spends these times, so that what processors decide (many small writes,
/// answers within a millisecond) comes out too. `lab run` has those of a usual Linux host; with
/// `--costs FILE` it has those of the machine on which FILE was written. Takes a second, uses
/// loopback alone, and needs no permission.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor lab calibrate                          what it takes here, beside what is usual
  tcptailor lab calibrate -o here.json             ... and into a file
  tcptailor lab run lan-wwr --engine virtual --costs here.json
  tcptailor lab calibrate --json                   the same as the file")]
pub(super) struct Args {
    /// Write the numbers into this file, for `--costs`.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// What is told, and what a file of costs holds.
#[derive(Debug, Serialize)]
struct Document {
    costs: HostCosts,
    /// Of virtual hosts without `--costs`.
    usual: HostCosts,
}

pub(super) fn run(args: &Args, output: &Output) -> anyhow::Result<Exit> {
    if let Some(path) = &args.output {
        crate::commands::diagnose::check_plan_path(path)?;
    }
    let progress = Progress::spinner(output, "measuring");
    let costs = linux::calibrate()?;
    drop(progress);
    let document = Document {
        costs,
        usual: HostCosts::linux(),
    };
    if let Some(path) = &args.output {
        std::fs::write(path, output::document("lab-calibrate", &document)? + "\n")
            .with_context(|| format!("writing {}", path.display()))?;
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

/// Of a file that [`run`] wrote, the costs.
#[derive(Deserialize)]
struct Written {
    schema: String,
    costs: HostCosts,
}

/// Reads what `lab calibrate` wrote.
pub(super) fn read(path: &Path) -> anyhow::Result<HostCosts> {
    let reading = || format!("reading {}", path.display());
    let mut text = String::new();
    let file = File::open(path).with_context(reading)?;
    let length = file
        .take(FILE_BYTES_MAX + 1)
        .read_to_string(&mut text)
        .with_context(reading)?;
    let refused = |why: String| {
        Problem::usage(format!("{}: {why}", path.display()))
            .hint("`tcptailor lab calibrate -o FILE` writes one")
    };
    if length as u64 > FILE_BYTES_MAX {
        return Err(refused("too long for a file of costs".into()).into());
    }
    let written: Written = serde_json::from_str(&text)
        .map_err(|error| refused(format!("no costs of hosts: {error}")))?;
    if written.schema != "tcptailor/lab-calibrate/1" {
        return Err(refused(format!("`{}` is not a calibration", written.schema)).into());
    }
    Ok(written.costs)
}
