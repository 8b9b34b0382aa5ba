//! Watching this machine for a while: what `diagnose` and `record` have in common.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::Netns;
use doctor::Recording;
use linux::{
    Filter, NetnsHandle, NetnsPlace, OwnerProcess, ScanRequest, Serving, SockDiag, WatchRequest,
};

use crate::exit::Problem;
use crate::interrupt;
use crate::output::Output;
use crate::progress::Progress;

/// Up to this many sockets all are watched whatever the filter says, because the other end of a
/// connection may be among them; above, only those that match.
pub(crate) const SOCKETS_WATCHED_WHOLE: usize = 500;
const TIME_USUAL: Duration = Duration::from_secs(5);
/// The doctor gives no verdict on less.
const TIME_MIN: Duration = Duration::from_secs(1);
const TIME_MAX: Duration = Duration::from_secs(3600);
const HOST_INTERVAL: Duration = Duration::from_millis(200);
const INTERVAL_MIN: Duration = Duration::from_millis(1);
/// The doctor wants at least twenty samples.
const SAMPLES_MIN: u32 = 25;
/// The looks at the host, at most; each holds some hundred counters.
const HOST_LOOKS: u32 = 1000;
/// Namespaces that are looked into, where all are asked for.
const NETNS_MAX: usize = 256;

/// What to watch, and how.
#[derive(Debug, clap::Args)]
pub(crate) struct Watching {
    #[command(flatten)]
    pub(crate) watched: Watched,
    /// How long to measure [default: 5s].
    #[arg(short, long, value_name = "TIME")]
    #[arg(value_parser = base::parse_time)]
    pub(crate) time: Option<Duration>,
    /// Mean sampling interval.
    #[arg(short, long, value_name = "TIME", default_value = "10ms")]
    #[arg(value_parser = base::parse_time)]
    pub(crate) interval: Duration,
}

/// Which network namespaces.
#[derive(Clone, Debug)]
pub(crate) enum Where {
    /// One of them.
    One(Netns),
    /// All of the machine, as they are when that is asked for.
    All,
}

impl Where {
    /// The namespaces to look into, the one that was asked for or our own first; and how many more
    /// there are.
    pub(crate) fn places(&self) -> (Vec<NetnsPlace>, usize) {
        let mut places = match self {
            Self::All => linux::all_netns(),
            Self::One(netns) => vec![NetnsPlace {
                netns: netns.clone(),
                container: None,
            }],
        };
        let left_out = places.len().saturating_sub(NETNS_MAX);
        places.truncate(NETNS_MAX);
        (places, left_out)
    }
}

/// What to watch.
#[derive(Debug, clap::Args)]
pub(crate) struct Watched {
    /// Only connections that match.
    #[arg(value_name = "FILTER")]
    pub(crate) filter: Vec<String>,
    /// Only connections of this process, in its network namespace, and those accepted where it
    /// listens, whichever process holds them; the filter `pid = PID` is for one process alone.
    /// With `diagnose FILE`: those that it held.
    #[arg(short, long, value_name = "PID", conflicts_with = "netns")]
    #[arg(value_parser = process_number)]
    pub(crate) pid: Option<u32>,
    /// Connections of this network namespace (see `ip netns`).
    #[arg(short = 'N', long, value_name = "NAME")]
    pub(crate) netns: Option<String>,
}

impl Watching {
    /// Checks what was typed, before any wait.
    pub(crate) fn filter(&self) -> Result<Filter, Problem> {
        check_times(self.time(), self.interval)?;
        self.watched.filter()
    }

    /// How long to watch.
    pub(crate) fn time(&self) -> Duration {
        self.time.unwrap_or(TIME_USUAL)
    }

    /// The namespace to watch.
    pub(crate) fn netns(&self) -> Netns {
        self.watched.netns()
    }
}

impl Watched {
    /// Checks what was typed, before any wait.
    pub(crate) fn filter(&self) -> Result<Filter, Problem> {
        let filter = parse_filter(&self.filter, self.pid)?;
        filter.fixed_pid().map_or(Ok(()), check_may_see)?;
        Ok(match self.pid {
            Some(pid) => filter.with_serving(pid, &serving(pid)),
            None => filter,
        })
    }

    /// The namespace to watch.
    pub(crate) fn netns(&self) -> Netns {
        match (&self.netns, self.pid) {
            (Some(name), _) => Netns::Named(name.clone()),
            (None, Some(pid)) => netns_of_process(pid),
            (None, None) => Netns::Own,
        }
    }

    /// The namespaces to watch: all of them where that is asked for.
    pub(crate) fn places(&self, all_netns: bool) -> Where {
        match all_netns {
            true => Where::All,
            false => Where::One(self.netns()),
        }
    }
}

/// Reads the number of a process.
pub(crate) fn process_number(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(pid) if pid > 0 => Ok(pid),
        _ => Err("a process is a number from 1 on, as `ps` shows it".into()),
    }
}

fn check_times(time: Duration, interval: Duration) -> Result<(), Problem> {
    let shown = base::format_duration;
    if !(TIME_MIN..=TIME_MAX).contains(&time) {
        let (min, max) = (shown(TIME_MIN), shown(TIME_MAX));
        return Err(Problem::usage(format!(
            "-t {}: the range is {min} to {max}",
            shown(time)
        )));
    }
    check_interval(interval)
}

/// The distance of looks.
pub(crate) fn check_interval(interval: Duration) -> Result<(), Problem> {
    let shown = base::format_duration;
    match interval < INTERVAL_MIN {
        true => Err(Problem::usage(format!(
            "-i {}: at least {}",
            shown(interval),
            shown(INTERVAL_MIN)
        ))),
        false => Ok(()),
    }
}

/// Notes that settings may change while connections are watched: by an experiment, or at the end of
/// a trial.
pub(crate) fn note_unsettled(output: &Output) {
    let directory = linux::Journal::default_directory().ok();
    let experimenter = directory.and_then(|path| linux::Journal::experimenter_in(&path));
    if let Some(pid) = experimenter {
        output.note(format!(
            "note: process {pid} (tcptailor) runs an experiment on this machine: settings may \
             change while they are watched"
        ));
    }
    note_trials(output);
}

/// Notes changes that are on trial: what is measured beside them is not what will be.
pub(crate) fn note_trials(output: &Output) {
    let directory = linux::Journal::default_directory().ok();
    let on_trial = directory.and_then(|path| linux::Journal::on_trial_in(&path).ok());
    for (id, until_unix_ms) in on_trial.unwrap_or_default() {
        let until = crate::output::rfc3339(until_unix_ms / 1000);
        output.note(format!(
            "note: transaction {id} is on trial: its changes are rolled back at {until} unless \
             `tcptailor confirm` keeps them"
        ));
    }
}

/// How long an experiment may take.
pub(crate) fn check_max_time(time: Duration) -> Result<(), Problem> {
    match time < TIME_MIN {
        true => Err(Problem::usage(format!(
            "--max-time {}: at least {}",
            base::format_duration(time),
            base::format_duration(TIME_MIN)
        ))),
        false => Ok(()),
    }
}

/// The filter of the command line; `--pid` is one more test: of who holds a connection.
pub(crate) fn parse_filter(words: &[String], pid: Option<u32>) -> Result<Filter, Problem> {
    let test = words.join(" ");
    let text = match pid {
        Some(pid) if test.trim().is_empty() => format!("pid = {pid}"),
        Some(pid) => format!("pid = {pid} and ( {test} )"),
        None => test,
    };
    let mut filter: Filter = text.parse().map_err(|error| {
        let hint = match words.first().filter(|word| Path::new(word).is_file()) {
            Some(file) => format!("for the file of this name: `tcptailor diagnose ./{file}`"),
            None => "`tcptailor diagnose --help` lists the tests".into(),
        };
        Problem::usage(error).hint(hint)
    })?;
    filter.resolve_cgroups(&linux::cgroup_id);
    Ok(filter)
}

/// The namespace of a process, as messages call it.
pub(crate) fn netns_of_process(pid: u32) -> Netns {
    if is_elsewhere(pid) {
        Netns::OfProcess(pid)
    } else {
        Netns::Own
    }
}

/// What a process serves. Where that cannot be listed, looking at its connections says why.
pub(crate) fn serving(pid: u32) -> Serving {
    let netns = NetnsHandle::open(&netns_of_process(pid));
    let serving = netns.and_then(|netns| Serving::of(pid, &netns));
    serving.unwrap_or_default()
}

/// Refuses to look at a process whose sockets we may not see: it would seem to have none.
pub(crate) fn check_may_see(pid: u32) -> Result<(), Problem> {
    match std::fs::read_dir(format!("/proc/{pid}/fd")) {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            Err(Problem::missing(format!(
                "seeing the sockets of process {pid} needs CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH"
            ))
            .hint("Run as root, or as the user of that process."))
        }
        _ => Ok(()),
    }
}

/// Whether a process lives in another network namespace than we.
fn is_elsewhere(pid: u32) -> bool {
    !may_live_in(pid, &Netns::Own)
}

/// Whether a process lives in this network namespace, or that cannot be seen. A process may hold
/// sockets of other ones too.
pub(crate) fn may_live_in(pid: u32, netns: &Netns) -> bool {
    let inode = |name: &Netns| NetnsHandle::open(name).and_then(|netns| netns.inode()).ok();
    let theirs = inode(&Netns::OfProcess(pid));
    theirs.is_none_or(|theirs| inode(netns).is_none_or(|inode| inode == theirs))
}

/// Watches behind a bar.
pub(crate) fn watch(
    args: &Watching,
    netns: &NetnsHandle,
    filter: &Filter,
    output: &Output,
) -> anyhow::Result<Recording> {
    let bar = bar(args, output);
    watch_one(args, netns, filter, 1, &|elapsed| bar.set(millis(elapsed)))
}

/// Watches several namespaces at the same time, behind one bar; each has an answer of its own.
pub(crate) fn watch_all(
    args: &Watching,
    places: &[NetnsPlace],
    filter: &Filter,
    output: &Output,
) -> Vec<anyhow::Result<Recording>> {
    let bar = bar(args, output);
    let watch = |place: &NetnsPlace, is_first: bool| {
        let netns = NetnsHandle::open(&place.netns)?;
        let show = |elapsed| {
            if is_first {
                bar.set(millis(elapsed));
            }
        };
        watch_one(args, &netns, filter, places.len(), &show)
    };
    std::thread::scope(|scope| {
        let watchers: Vec<_> = places
            .iter()
            .enumerate()
            .map(|(at, place)| scope.spawn(move || watch(place, at == 0)))
            .collect();
        watchers
            .into_iter()
            .map(|watcher| {
                let joined = watcher.join();
                joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .collect()
    })
}

fn bar(args: &Watching, output: &Output) -> Progress {
    Progress::bar(output, "watching", millis(args.time()))
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Watches one of this many namespaces.
fn watch_one(
    args: &Watching,
    netns: &NetnsHandle,
    filter: &Filter,
    of: usize,
    show: &(dyn Fn(Duration) + Sync),
) -> anyhow::Result<Recording> {
    let process = filter.fixed_pid().map(OwnerProcess::open).transpose()?;
    let sockets = SockDiag::open_in(netns)?
        .scan(&ScanRequest::default())?
        .len();
    let whole = sockets <= SOCKETS_WATCHED_WHOLE;
    let sysctls = crate::subject::sysctls();
    let stop = AtomicBool::new(false);
    let plain = WatchRequest::new(
        if whole {
            Filter::default()
        } else {
            filter.clone()
        },
        args.time(),
    );
    let request = WatchRequest {
        netns: Some(netns),
        samples_max: plain.samples_max / of,
        // The doctor wants some looks, however short the time.
        interval: args.interval.min(args.time() / SAMPLES_MIN),
        host_interval: HOST_INTERVAL.max(args.time() / HOST_LOOKS),
        sysctls: &sysctls,
        stop: Some(&stop),
        ..plain
    };
    let mut watched = linux::watch(&request, &mut |progress| {
        show(progress.elapsed);
        let process_ended = process.as_ref().is_some_and(OwnerProcess::has_ended);
        if interrupt::stopped() || process_ended {
            stop.store(true, Ordering::Relaxed);
        }
    })?;
    watched.process_ended |= process.as_ref().is_some_and(OwnerProcess::has_ended);
    Ok(watched)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_range() {
        let check = |time: &str, interval: &str, expected: &str| {
            let parse = |text| base::parse_duration(text).unwrap();
            let found = match check_times(parse(time), parse(interval)) {
                Ok(()) => String::new(),
                Err(problem) => problem.to_string(),
            };
            assert_eq!(found, expected);
        };
        check("5s", "10ms", "");
        check("5s", "500ms", "");
        check("500ms", "10ms", "-t 500ms: the range is 1s to 3600s");
        check("1s", "10us", "-i 10us: at least 1ms");
    }
}
