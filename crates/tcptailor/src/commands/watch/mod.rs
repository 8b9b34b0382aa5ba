//! Diagnosing all the time, at a bounded cost: metrics for Prometheus, and a line when a finding
//! begins or ends. Never changes anything.

mod endpoint;
mod finding;
mod history;
mod metrics;
pub(crate) mod pace;
mod page;
mod round;
mod state;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::{Fraction, Instant};
use linux::OwnerProcess;
use linux::http::HttpServer;
use serde::Serialize;

use self::endpoint::Endpoint;
use self::finding::Event;
use self::metrics::Exposition;
use self::pace::Pace;
use self::page::PageFile;
use self::round::{Sampler, WINDOW_MAX};
use self::state::State;
use crate::commands::diagnose::command_words;
use crate::commands::watching::Watched;
use crate::exit::{Exit, Problem};
use crate::interrupt;
use crate::output::{self, Output};

const EVERY_MIN: Duration = Duration::from_secs(2);
const EVERY_MAX: Duration = Duration::from_secs(3600);
/// How long a request to stop may go unseen, and how often the own CPU time is read in a pause.
const STOP_CHECK: Duration = Duration::from_millis(200);

/// Diagnose all the time, as Prometheus metrics and a log.
///
/// Looks at all connections for some seconds in each round, diagnoses them as `diagnose` does, and
/// serves the result at http://ADDRESS/metrics. Prints a line when a finding begins and when it
/// ends. Bounds its own CPU time: where a round costs more, rounds are rarer.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor watch                                 metrics at http://127.0.0.1:9917/metrics
  tcptailor watch --listen 10.0.0.5:9917          for a Prometheus on another machine
  tcptailor watch --json --all-netns              a line of JSON per event, containers too
  tcptailor watch --max-cpu 0.5% sport = :443     cheaper, and of one service only
  tcptailor watch --html watch.html               a page of the last hours, too

Filters are those of `tcptailor diagnose`. With --json, stdout has a line of JSON for each event.
docs/watch.md explains every metric; dist/ has a systemd unit, a Kubernetes DaemonSet, a Grafana
dashboard and alert rules.")]
pub(crate) struct Args {
    #[command(flatten)]
    watched: Watched,
    /// All network namespaces of this machine, including containers.
    #[arg(long, conflicts_with_all = ["netns", "pid"])]
    all_netns: bool,
    /// Serve metrics on this address and no other.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9917")]
    #[arg(value_parser = socket_address)]
    listen: SocketAddr,
    /// Time from the beginning of one round to the next, or longer where --max-cpu asks for it.
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = base::parse_time)]
    every: Duration,
    /// Upper bound of the CPU time, of one core, averaged from round to round.
    #[arg(long, value_name = "PERCENT", default_value = "2%")]
    max_cpu: Fraction,
    /// Services with metrics of their own; the others are counted as `other`.
    #[arg(long, value_name = "N", default_value_t = 20)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=200))]
    services: u16,
    /// Also write an HTML page of the last hours to this file, about once a minute.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// A line of the log, with what every document has.
#[derive(Serialize)]
struct Line<'e> {
    schema: &'static str,
    time: String,
    #[serde(flatten)]
    event: &'e LogEvent,
}

/// Event of the log.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum LogEvent {
    Finding(Event),
    Own(Own),
}

/// Event of the watch itself.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
enum Own {
    /// The endpoint is there.
    Listening {
        address: SocketAddr,
        every_s: f64,
        cpu_budget: f64,
        services: u16,
    },
    /// Rounds are rarer now, or more frequent again, because of their cost.
    Interval {
        interval_s: f64,
        /// CPU time of the last round.
        cpu_s: f64,
        cpu_budget: f64,
    },
    /// A round could not be made; the next one is tried.
    RoundFailed { message: String },
    /// The page could not be written; that is tried again.
    PageFailed { message: String },
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<Exit> {
    check(args)?;
    let filter = args.watched.filter()?;
    output::check_page(args.html.as_deref())?;
    let process = filter.fixed_pid().map(OwnerProcess::open).transpose()?;
    let place = args.watched.places(args.all_netns);
    let server = HttpServer::bind(args.listen).map_err(|error| bind_problem(args, error))?;
    let address = server.address()?;
    tell(
        output,
        Own::Listening {
            address,
            every_s: args.every.as_secs_f64(),
            cpu_budget: args.max_cpu.as_f64(),
            services: args.services,
        },
    );
    if !address.ip().is_loopback() {
        output.note("note: anyone who can reach this address can read the metrics");
    }
    let endpoint = Endpoint::new(args.every, args.max_cpu.as_f64());
    let window = WINDOW_MAX.min(args.every);
    let mut rounds = Rounds {
        looker: Sampler::new(place, filter, window, address),
        process,
        state: match args.html {
            Some(_) => {
                State::new(args.services.into()).with_history(linux::Clock.now(), args.every)
            }
            None => State::new(args.services.into()),
        },
        page: args
            .html
            .clone()
            .map(|path| PageFile::new(path, command_words(false))),
        pace: Pace::new(args.every, args.max_cpu.as_f64()),
        endpoint: &endpoint,
        output,
        is_first: true,
        failure: None,
    };
    let (served, outcome) = until_one_ends(
        |over| endpoint.serve(&server, over),
        |over| rounds.run(over),
    );
    rounds.write_page(true);
    served?;
    outcome
}

/// Runs both at the same time, the first on a thread of its own. Each is told to end when the other
/// has ended, also by a panic: one alone would look alive and be of no use.
fn until_one_ends<S: Send, R>(
    serve: impl FnOnce(&AtomicBool) -> S + Send,
    look: impl FnOnce(&AtomicBool) -> R,
) -> (S, R) {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| {
            let _ends = SetsOnDrop(&over);
            serve(&over)
        });
        let looked = {
            let _ends = SetsOnDrop(&over);
            look(&over)
        };
        let served = serving.join();
        let served = served.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (served, looked)
    })
}

/// Sets a flag however a block is left.
struct SetsOnDrop<'f>(&'f AtomicBool);

impl Drop for SetsOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn check(args: &Args) -> Result<(), Problem> {
    let shown = base::format_duration;
    if !(EVERY_MIN..=EVERY_MAX).contains(&args.every) {
        let (min, max) = (shown(EVERY_MIN), shown(EVERY_MAX));
        let every = shown(args.every);
        let message = format!("--every {every}: the range is {min} to {max}");
        return Err(Problem::usage(message));
    }
    if args.max_cpu < Fraction::from_parts(1_000_000) {
        let message = format!("--max-cpu {}: at least 0.1%", args.max_cpu);
        return Err(Problem::usage(message));
    }
    Ok(())
}

/// Reads an address with its port.
fn socket_address(text: &str) -> Result<SocketAddr, String> {
    let wanted = "type an address of this machine and a port, such as 127.0.0.1:9917 or [::1]:9917";
    text.parse().map_err(|_| wanted.into())
}

/// Remedy where the address cannot be bound.
fn bind_problem(args: &Args, error: linux::Error) -> anyhow::Error {
    let linux::Error::Os { ref source, .. } = error else {
        return error.into();
    };
    let hint = match source.kind() {
        std::io::ErrorKind::AddrInUse => {
            "Another program listens there; type another port, such as --listen 127.0.0.1:9918."
        }
        std::io::ErrorKind::AddrNotAvailable => {
            "No interface has this address; `ip addr` lists them."
        }
        _ => return error.into(),
    };
    Problem::failed(format!("cannot listen on {}: {source}", args.listen))
        .hint(hint)
        .into()
}

/// The work of the main thread.
struct Rounds<'w> {
    looker: Sampler,
    /// The requested process; the watch ends with it.
    process: Option<OwnerProcess>,
    state: State,
    /// The page, if requested.
    page: Option<PageFile>,
    pace: Pace,
    endpoint: &'w Endpoint,
    output: &'w Output,
    is_first: bool,
    /// Why the last round failed, where it did.
    failure: Option<String>,
}

impl Rounds<'_> {
    /// One round after the other, until the user, the process that was asked for or the endpoint
    /// ends it.
    fn run(&mut self, over: &AtomicBool) -> anyhow::Result<Exit> {
        loop {
            let began = linux::Clock.now();
            let before = self.cpu_times();
            self.round()?;
            if let Some(exit) = self.end(over) {
                return Ok(exit);
            }
            let cpu = self.cpu_times().since(before);
            let planned = self.pace.interval_beside(cpu.rounds, cpu.answers);
            if self.pace.is_news(planned) {
                self.tell_interval(planned, cpu.all());
            }
            if let Some(exit) = self.rest(began, before, over) {
                return Ok(exit);
            }
            let interval = linux::Clock.now().since(began);
            let cpu = self.cpu_times().since(before).all();
            self.endpoint.note_cost(interval, cpu);
            self.state.handle_cost(interval, cpu);
        }
    }

    /// How the watch ends, where it is to end now.
    fn end(&self, over: &AtomicBool) -> Option<Exit> {
        if interrupt::stopped() {
            return Some(Exit::Interrupted);
        }
        if self.process_ended() {
            self.output.note("note: the process ended");
            return Some(Exit::Done);
        }
        over.load(Ordering::Relaxed).then_some(Exit::Done)
    }

    fn process_ended(&self) -> bool {
        self.process.as_ref().is_some_and(OwnerProcess::has_ended)
    }

    /// Looks once, publishes and tells.
    fn round(&mut self) -> anyhow::Result<()> {
        // Where rounds fail half way, their beginnings are no progress.
        let goes_well = self.failure.is_none();
        let endpoint = self.endpoint;
        let looked = self.looker.round(&|| {
            if goes_well {
                endpoint.note_progress(linux::Clock.now());
            }
        });
        let round = match looked {
            Ok(round) => round,
            // Its namespace may be gone with it.
            Err(_) if self.process_ended() => return Ok(()),
            // What fails at once is what was typed, or a permission.
            Err(error) if self.is_first => return Err(error),
            Err(error) => {
                let message = format!("{error:#}");
                // The same failure each time is told once.
                if self.failure.as_ref() != Some(&message) {
                    tell(
                        self.output,
                        Own::RoundFailed {
                            message: message.clone(),
                        },
                    );
                }
                self.failure = Some(message);
                return Ok(());
            }
        };
        if interrupt::stopped() {
            // Half a round shows too little.
            return Ok(());
        }
        self.is_first = false;
        self.failure = None;
        let unix_s = linux::Clock.unix_millis() as f64 / 1e3;
        let now = linux::Clock.now();
        let events = self
            .state
            .handle_round(round, now, (&output::now(), unix_s));
        let mut exposition = Exposition::default();
        self.state.expose(&mut exposition);
        self.endpoint.publish(exposition.into_text());
        for event in events {
            tell_line(self.output, &LogEvent::Finding(event));
        }
        self.write_page(false);
        Ok(())
    }

    /// Writes the page, where one is asked for and there is something to be told: where it is due,
    /// and at the end. The service continues if it cannot be written.
    fn write_page(&mut self, is_over: bool) {
        let now = linux::Clock.now();
        let (Some(page), Some(history), false) =
            (&mut self.page, self.state.history(), self.is_first)
        else {
            return;
        };
        if !is_over && !page.is_due(now) {
            return;
        }
        let watch = page::Watch {
            is_over,
            cpu_budget: self.pace.budget,
            resident_bytes: endpoint::resident_bytes(),
        };
        if let Some(message) = page.write(history, watch, now) {
            tell(self.output, Own::PageFailed { message });
        }
    }

    /// Pauses until the next round is due: later where answering scrapes costs time too. How the
    /// watch ends, where there is to be none.
    fn rest(&self, began: Instant, before: CpuTimes, over: &AtomicBool) -> Option<Exit> {
        loop {
            if let Some(exit) = self.end(over) {
                return Some(exit);
            }
            let cpu = self.cpu_times().since(before);
            let interval = self.pace.interval_beside(cpu.rounds, cpu.answers);
            // Rounds that fail make no progress, however often they are tried.
            if self.failure.is_none() {
                self.endpoint.expect_next(began, interval);
            }
            let left = interval.saturating_sub(linux::Clock.now().since(began));
            if left.is_zero() {
                return None;
            }
            std::thread::sleep(left.min(STOP_CHECK));
        }
    }

    fn cpu_times(&self) -> CpuTimes {
        let answers = self.endpoint.cpu_time();
        CpuTimes {
            rounds: own_cpu_time().saturating_sub(answers),
            answers,
        }
    }

    fn tell_interval(&self, interval: Duration, cpu: Duration) {
        tell(
            self.output,
            Own::Interval {
                interval_s: interval.as_secs_f64(),
                cpu_s: cpu.as_secs_f64(),
                cpu_budget: self.pace.budget,
            },
        );
    }
}

/// CPU time of this process, of the thread that answers requests and of all others.
#[derive(Clone, Copy, Debug)]
struct CpuTimes {
    rounds: Duration,
    answers: Duration,
}

impl CpuTimes {
    fn since(self, earlier: Self) -> Self {
        Self {
            rounds: self.rounds.saturating_sub(earlier.rounds),
            answers: self.answers.saturating_sub(earlier.answers),
        }
    }

    fn all(self) -> Duration {
        self.rounds + self.answers
    }
}

/// CPU time of this process, user and system.
pub(crate) fn own_cpu_time() -> Duration {
    linux::process_cpu_time(std::process::id()).unwrap_or_default()
}

fn tell(output: &Output, own: Own) {
    tell_line(output, &LogEvent::Own(own));
}

/// A line on stdout. The service continues if its reader is gone.
fn tell_line(output: &Output, event: &LogEvent) {
    let _ = if output.is_json() {
        output.json_line(&Line {
            schema: "tcptailor/watch/1",
            time: output::now(),
            event,
        })
    } else {
        output.line(format!("{} {}", output::now(), line_of(event)))
    };
}

fn line_of(event: &LogEvent) -> String {
    match event {
        LogEvent::Finding(event) => event.line(),
        LogEvent::Own(Own::Listening { address, .. }) => {
            format!("metrics at http://{address}/metrics")
        }
        LogEvent::Own(Own::Interval {
            interval_s,
            cpu_s,
            cpu_budget,
        }) => format!(
            "a round every {} now: it takes {} of CPU time, and {:.1} % of a core is the limit",
            base::human::time(Duration::from_secs_f64(*interval_s)),
            base::human::time(Duration::from_secs_f64(*cpu_s)),
            cpu_budget * 100.0,
        ),
        LogEvent::Own(Own::RoundFailed { message }) => format!("could not look: {message}"),
        LogEvent::Own(Own::PageFailed { message }) => {
            format!("could not write the page: {message}; the watch goes on")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    /// Waits for the flag, but not for ever: a test that fails has to end.
    fn sees(over: &AtomicBool) -> bool {
        (0..10_000).any(|_| {
            std::thread::sleep(Duration::from_millis(1));
            over.load(Ordering::Relaxed)
        })
    }

    #[test]
    fn a_panic_on_one_side_ends_the_other() {
        let seen = AtomicBool::new(false);
        let wait = |over: &AtomicBool| seen.store(sees(over), Ordering::Relaxed);
        let check = |run: &dyn Fn()| {
            seen.store(false, Ordering::Relaxed);
            assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
            assert!(seen.load(Ordering::Relaxed));
        };
        check(&|| {
            until_one_ends(wait, |_| panic!("a bug in a round"));
        });
        check(&|| {
            until_one_ends(|_| panic!("a bug in an answer"), wait);
        });
    }
}
