//! The race of our TCP against others that live in user space, each on a TUN device with the
//! kernel's TCP at its other end. README.md says what is measured and how to read it.

mod child;
mod kernel;
mod memory;
mod plan;
mod programs;
mod race;
mod results;
mod rows;
mod stage;
mod table;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use base::Fraction;
use clap::{Parser, Subcommand};
use linux::tun::Tun;
use linux::{LabNetns, cleanup};
use regex_lite::Regex;

use child::{Interrupt, Interrupted};
use kernel::Load;
use plan::Cell;
use race::{Method, measure};
use results::{Measurement, Results};
use rows::Row;

/// Races our TCP on a TUN device against other TCPs in user space, with the kernel at the far end.
#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Arguments {
    /// Only the rows whose label matches.
    #[arg(long, value_name = "REGEX", default_value = "")]
    rows: Regex,
    /// Length of each measurement [default: 1; on the path 3].
    #[arg(long)]
    seconds: Option<f64>,
    /// How often everything is measured [default: 3; on the path 5, each with losses of its own].
    #[arg(long)]
    reps: Option<u32>,
    /// Seed of the losses of the first of `--reps` measurements; each further one takes the next.
    #[arg(long, default_value_t = 1, requires = "path")]
    seed: u32,
    /// MTUs of the device.
    #[arg(long, value_delimiter = ',', default_values_t = rows::MTUS)]
    mtu: Vec<u32>,
    /// Processor of the stack and processor of the kernel's sockets; they decide what round trips
    /// take.
    #[arg(long, value_name = "A:B", value_parser = parse_pin)]
    pin: Option<(u32, u32)>,
    /// Race over 100 Mbit/s, 20 ms and a queue of 170 packets instead of the bare device.
    #[arg(long)]
    path: bool,
    /// Losses of the path.
    #[arg(long, value_delimiter = ',', default_value = "0%,0.1%,1%")]
    loss: Vec<Fraction>,
    /// Race with so many connections instead of one: all of them idle, up to 1000 of them busy.
    #[arg(long, value_name = "N", conflicts_with = "path")]
    many: Option<usize>,
    /// Write everything that was measured to a file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Race this command line instead of tcptailor, where `{mtu}` stands for the MTU.
    #[arg(long, value_name = "COMMAND")]
    stack: Option<String>,
    /// What the table calls it.
    #[arg(long, default_value = "tcptailor")]
    label: String,
    #[command(subcommand)]
    own: Option<Own>,
}

/// What this program starts itself as.
#[derive(Subcommand)]
#[command(hide = true)]
enum Own {
    #[command(hide = true)]
    Serve { address: IpAddr },
    #[command(hide = true)]
    Load {
        load: Load,
        address: IpAddr,
        connections: usize,
    },
    #[command(hide = true)]
    Ping {
        address: IpAddr,
        warm_up_ms: u64,
        time_ms: u64,
    },
}

fn parse_pin(text: &str) -> Result<(u32, u32), String> {
    let pin = text
        .split_once(':')
        .and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    pin.ok_or_else(|| "write two processors, as in `0:1`".into())
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.own {
        None => race(&arguments),
        Some(Own::Serve { address }) => kernel::serve(address).map(|()| true),
        Some(Own::Load {
            load,
            address,
            connections,
        }) => kernel::load(load, address, connections).map(|()| true),
        Some(Own::Ping {
            address,
            warm_up_ms,
            time_ms,
        }) => {
            let millis = Duration::from_millis;
            kernel::ping(address, millis(warm_up_ms), millis(time_ms)).map(|()| true)
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            let _ = writeln!(io::stderr(), "peers: {error:#}");
            ExitCode::from(if error.is::<Interrupted>() { 130 } else { 2 })
        }
    }
}

/// Runs the race. False where the stack that it is about failed.
fn race(arguments: &Arguments) -> anyhow::Result<bool> {
    check(arguments)?;
    let interrupt = Interrupt::install()?;
    cleanup::remove_leftovers()?;
    try_privileges()?;
    let (race, mtus) = match (arguments.path, arguments.many) {
        (true, _) => (rows::PATH, &[1500][..]),
        (_, Some(_)) => (rows::CROWD, &[1500][..]),
        _ => (rows::DEVICE, &arguments.mtu[..]),
    };
    let mut rows = chosen_rows(arguments, rows::rows(race, mtus, &arguments.label))?;
    let skipped = programs::build(&mut rows)?;
    let cells = match (arguments.path, arguments.many) {
        (true, _) => plan::path(&arguments.loss),
        (_, Some(connections)) => plan::crowd(connections),
        _ => plan::device(),
    };
    let method = Method {
        warm_up: Duration::from_millis(if arguments.path { 1500 } else { 400 }),
        time: Duration::from_secs_f64(seconds(arguments)),
        pin: arguments.pin,
        interrupt,
    };
    let mut results = new_results(arguments, skipped)?;
    let mut progress = Progress {
        done: 0,
        all: rows.len() * cells.len() * reps(arguments) as usize,
    };
    for seed in (arguments.seed..).take(reps(arguments) as usize) {
        for cell in &cells {
            for row in &rows {
                let found = measure_once(row, cell, seed, &method)?;
                progress.tell(&found);
                results.measurements.push(found);
            }
        }
    }
    results.load_averages[1] = load_average()?;
    results.summarize(&rows);
    report(arguments, &results, &cells)?;
    let ours = |one: &&Measurement| one.label == arguments.label;
    let ours = results.measurements.iter().filter(ours);
    Ok(ours.into_iter().all(|one| one.error.is_none()))
}

fn check(arguments: &Arguments) -> anyhow::Result<()> {
    let is_sane = |seconds: &f64| (0.1..=3600.0).contains(seconds);
    ensure!(
        arguments.seconds.as_ref().is_none_or(is_sane),
        "--seconds takes 0.1 to 3600"
    );
    ensure!(arguments.reps != Some(0), "--reps takes 1 or more");
    ensure!(
        arguments.mtu.iter().all(|mtu| (576..=65_535).contains(mtu)),
        "--mtu takes 576 to 65535"
    );
    ensure!(
        arguments
            .many
            .is_none_or(|many| (2..=15_000).contains(&many)),
        "--many takes 2 to 15000: a client has so many ports to one server"
    );
    if let Some(path) = &arguments.json {
        fs::write(path, "").with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

/// Fails at once where every measurement would.
fn try_privileges() -> anyhow::Result<()> {
    let [netns] = LabNetns::create(["probe"])?;
    netns.handle().run(|| Tun::create("probe"))??;
    Ok(())
}

fn seconds(arguments: &Arguments) -> f64 {
    arguments
        .seconds
        .unwrap_or(if arguments.path { 3.0 } else { 1.0 })
}

fn reps(arguments: &Arguments) -> u32 {
    arguments.reps.unwrap_or(if arguments.path { 5 } else { 3 })
}

fn chosen_rows(arguments: &Arguments, rows: Vec<Row>) -> anyhow::Result<Vec<Row>> {
    let (mut chosen, other): (Vec<Row>, Vec<Row>) = rows
        .into_iter()
        .partition(|row| arguments.rows.is_match(&row.label));
    if chosen.is_empty() {
        let mut labels: Vec<String> = other.into_iter().map(|row| row.label).collect();
        labels.sort();
        labels.dedup();
        bail!("no row matches --rows; there are: {}", labels.join(", "));
    }
    if let Some(stack) = &arguments.stack {
        for row in chosen.iter_mut().filter(|row| row.label == arguments.label) {
            row.command = programs::of_user(stack, row.mtu);
        }
    }
    Ok(chosen)
}

fn measure_once(
    row: &Row,
    cell: &Cell,
    seed: u32,
    method: &Method,
) -> Result<Measurement, Interrupted> {
    let network = cell.network(seed.into());
    let (figures, error, caveats) = match measure(row, &network, cell.measured, method) {
        Ok((figures, caveats)) => (figures, None, caveats),
        Err(error) => {
            method.interrupt.check()?;
            (BTreeMap::new(), Some(format!("{error:#}")), Vec::new())
        }
    };
    Ok(Measurement {
        label: row.label.clone(),
        mtu: row.mtu,
        what: cell.what.clone(),
        repetition: seed,
        figures,
        error,
        caveats,
    })
}

/// Says on standard error what is going on.
struct Progress {
    done: usize,
    all: usize,
}

impl Progress {
    fn tell(&mut self, found: &Measurement) {
        self.done += 1;
        let units = [
            ("gbit_s", "Gbit/s"),
            ("p50_us", "us"),
            ("memory_kib", "KiB each"),
        ];
        let known =
            |(name, unit): (&str, _)| Some(format!("{:.4} {unit}", found.figures.get(name)?));
        let failed = || format!("FAIL: {}", found.error.as_deref().unwrap_or("no figure"));
        let shown = units.into_iter().find_map(known).unwrap_or_else(failed);
        let _ = writeln!(
            io::stderr(),
            "[{}/{}] {} MTU {}, {}: {shown}",
            self.done,
            self.all,
            found.label,
            found.mtu,
            found.what
        );
    }
}

fn new_results(arguments: &Arguments, skipped: Vec<String>) -> anyhow::Result<Results> {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").context("reading /proc/sys")?;
    let mut settings = BTreeMap::from([
        ("seconds", seconds(arguments).to_string()),
        ("repetitions", reps(arguments).to_string()),
        ("seed", arguments.seed.to_string()),
    ]);
    settings.extend(
        arguments
            .pin
            .map(|(stack, kernel)| ("pin", format!("{stack}:{kernel}"))),
    );
    settings.extend(arguments.stack.clone().map(|stack| ("stack", stack)));
    settings.extend(arguments.many.map(|many| ("connections", many.to_string())));
    Ok(Results {
        schema: "tcptailor/peers/1",
        kernel: kernel.trim().into(),
        processors: std::thread::available_parallelism().map_or(0, usize::from),
        load_averages: [load_average()?, String::new()],
        settings,
        skipped,
        rows: Vec::new(),
        measurements: Vec::new(),
    })
}

/// Of the last minute.
fn load_average() -> anyhow::Result<String> {
    let text = fs::read_to_string("/proc/loadavg").context("reading /proc/loadavg")?;
    Ok(text.split(' ').next().unwrap_or_default().into())
}

fn report(arguments: &Arguments, results: &Results, cells: &[Cell]) -> anyhow::Result<()> {
    let columns = match (arguments.path, arguments.many) {
        (true, _) => table::path_columns(
            cells
                .iter()
                .map(|cell| (cell.head.clone(), cell.what.clone())),
        ),
        (_, Some(_)) => table::crowd_columns(),
        _ => table::device_columns(),
    };
    io::stdout()
        .write_all(table::render(results, &columns).as_bytes())
        .context("standard output")?;
    arguments
        .json
        .as_ref()
        .map_or(Ok(()), |path| results.write(path))
}
