//! A trial from its start to its end.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use base::{KnobError, KnobValue, Limit, Rate};
use flow::{HostTimeline, Observation, Timeline, Verdict};
use lab::{Amount, Caveat, Direction, Outcome, Trial, Workload};

use super::load::Load;
use super::{End, LAB_PORT, Look, Session};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::watch::{Watched, WatchedFlow};
use crate::worker::{DEFAULT_CONGESTION, Worker};
use crate::workload::{Ended, Phase, Totals, amount_of};

/// Time at the start of a workload that is bounded by time which does not count: slow start, and
/// the growth of automatic buffers. Workloads of an amount count from their first byte on.
pub const WARM_UP: Duration = Duration::from_secs(1);

/// Time from look to look whether the run is over, and of the reports of progress.
const STOP_CHECK: Duration = Duration::from_millis(50);
/// Time after its planned end that a workload has to finish what is under way.
const OVERTIME: Duration = Duration::from_secs(5);
/// Longest time that the connections of a run of unknown length are watched. A watch that is told
/// a longer one looks less often, too rarely for a run of some seconds.
const WATCH_MAX: Duration = Duration::from_secs(300);
/// Other connections that are handed to the doctor beside the main one, at most.
const SIBLINGS_MAX: usize = 64;

/// How far a run is.
#[derive(Clone, Copy, Debug)]
pub struct RunProgress {
    /// Since its start.
    pub elapsed: Duration,
    /// What it will take in all; `None` where that depends on the path.
    pub expected: Option<Duration>,
}

/// Runs a trial to its end: real Linux TCP at both ends, programs that know nothing of us.
///
/// A workload of a certain time runs for [`WARM_UP`] longer, and that does not count. Goodput is
/// taken where payload arrives; the counts and the lateness of the links are those of the whole
/// run. The limits are inferred: the doctor watches the main connection (the one that carried most)
/// at both ends while it runs, and each of its verdicts is a limit with its share of the time. Runs
/// that are too short for a verdict have none.
///
/// `stop` ends the run early; what was measured until then is returned, with a caveat. A setting of
/// a host that this kernel lacks is a caveat too. `exe` is the program whose hidden command
/// `worker` runs one side of a workload.
///
/// # Errors
/// Where the path cannot be made or the programs do not start; [`Error::Peer`] where a program
/// ended before anything was measured, with what it said.
pub fn run(
    exe: &Path,
    trial: &Trial,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(RunProgress),
) -> Result<Outcome> {
    run_watched(exe, trial, stop, true, progress)
}

/// As [`run`], without limits: nobody watches, which takes a processor from the hosts now and then
/// and shows in the slowest responses.
///
/// # Errors
/// Those of [`run`].
pub fn run_unwatched(
    exe: &Path,
    trial: &Trial,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(RunProgress),
) -> Result<Outcome> {
    run_watched(exe, trial, stop, false, progress)
}

fn run_watched(
    exe: &Path,
    trial: &Trial,
    stop: &AtomicBool,
    is_watched: bool,
    progress: &mut dyn FnMut(RunProgress),
) -> Result<Outcome> {
    let mut caveats = Vec::new();
    let course = Course {
        is_watched,
        ..Course::of(&trial.workload, stop)
    };
    let session = Session::launch(exe, trial, course.warmup, &mut |knob, error| {
        caveats.push(not_applied(knob, error)?);
        Ok(())
    })?;
    let seen = observe(&session, &course, progress)?;
    let links = session.path.outcome();
    let path_caveats = session.path.caveats()?;
    let Session {
        path,
        server,
        client,
        ..
    } = session;
    let client = Side::end(client.expect("absent only inside `reconnect`"), true);
    let server = Side::end(server, false);
    drop(path);
    if client.measured.duration_s <= 0.0 && !stop.load(Ordering::Relaxed) {
        let why = client.early.or(server.early);
        return Err(Error::Peer(
            why.unwrap_or_else(|| "the workload measured nothing".into()),
        ));
    }
    caveats.extend(path_caveats);
    caveats.extend(seen.load);
    caveats.extend(other_congestion(trial, &client.congestion));
    let why = client.early.or(server.early);
    caveats.extend(why.map(|why| Caveat::EndedEarly { why }));
    let duration_s = client.measured.duration_s;
    Ok(Outcome {
        goodput_bps: goodput_bps(&trial.workload, &client.measured, &server.measured),
        duration_s,
        response_us: client.measured.response_us(),
        stall_max_us: None,
        limits: seen.look.as_ref().map_or_else(Vec::new, limits),
        forward: links.0,
        reverse: links.1,
        caveats,
    })
}

/// When a run ends.
struct Course<'s> {
    warmup: Duration,
    /// The measured time, where the workload is bounded by it.
    time: Option<Duration>,
    stop: &'s AtomicBool,
    /// Whether the connections are watched for what limits them.
    is_watched: bool,
}

impl<'s> Course<'s> {
    fn of(workload: &Workload, stop: &'s AtomicBool) -> Self {
        let (warmup, time) = match amount_of(workload) {
            Amount::Time(time) => (WARM_UP, Some(time)),
            Amount::Bytes(_) | Amount::Operations(_) => (Duration::ZERO, None),
        };
        Self {
            warmup,
            time,
            stop,
            is_watched: true,
        }
    }

    fn expected(&self) -> Option<Duration> {
        self.time.map(|time| self.warmup + time)
    }
}

/// What was seen while a run was under way.
#[derive(Default)]
struct Seen {
    look: Option<Look>,
    load: Option<Caveat>,
}

/// Waits for the end of the client, and watches the measured time meanwhile.
fn observe(
    session: &Session,
    course: &Course<'_>,
    progress: &mut dyn FnMut(RunProgress),
) -> Result<Seen> {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let watching = scope.spawn(|| watch_measured(session, course, &over));
        await_end(session, course, progress);
        over.store(true, Ordering::Relaxed);
        watching
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn watch_measured(session: &Session, course: &Course<'_>, over: &AtomicBool) -> Result<Seen> {
    let begin = Clock.now() + course.warmup;
    while Clock.now() < begin {
        if over.load(Ordering::Relaxed) {
            return Ok(Seen::default());
        }
        thread::sleep(STOP_CHECK.min(begin.since(Clock.now())));
    }
    let pids = [End::Client, End::Server].map(|end| session.worker(end).pid());
    let before = Load::read(&pids);
    let look = if course.is_watched {
        Some(session.look(course.time.unwrap_or(WATCH_MAX), over, &mut |_| ())?)
    } else {
        while !over.load(Ordering::Relaxed) {
            thread::sleep(STOP_CHECK);
        }
        None
    };
    let load = before
        .zip(Load::read(&pids))
        .and_then(|(before, after)| before.caveat(&after));
    Ok(Seen { look, load })
}

fn await_end(session: &Session, course: &Course<'_>, progress: &mut dyn FnMut(RunProgress)) {
    let began = Clock.now();
    let expected = course.expected();
    loop {
        // What the client failed of is told when it is stopped.
        let Ok(None) = session.worker(End::Client).wait_done(STOP_CHECK) else {
            return;
        };
        let elapsed = Clock.now().since(began);
        let is_overdue = expected.is_some_and(|expected| elapsed > expected + OVERTIME);
        if is_overdue || course.stop.load(Ordering::Relaxed) {
            return;
        }
        progress(RunProgress { elapsed, expected });
    }
}

/// What the program at one end measured.
struct Side {
    measured: Totals,
    congestion: String,
    /// Why it ended before its time, where it did.
    early: Option<String>,
}

impl Side {
    /// Ends the program. One that `decides` ends by itself; if not, that is early.
    fn end(worker: Worker, decides: bool) -> Self {
        let intervals = worker.intervals();
        match worker.stop() {
            Ok(summary) => Self {
                early: (decides && summary.ended != Ended::Complete)
                    .then(|| "it was stopped".to_owned()),
                measured: summary.measured,
                congestion: summary.congestion,
            },
            Err(error) => {
                let mut measured = Totals::default();
                let counts = intervals.iter().filter(|i| i.phase == Phase::Measured);
                counts.for_each(|interval| measured.add(interval));
                Self {
                    measured,
                    congestion: String::new(),
                    early: Some(error.to_string()),
                }
            }
        }
    }
}

/// Payload per second in the main direction; in a workload both ways, of both together. Both ends
/// measured for as long, each by its own clock.
fn goodput_bps(workload: &Workload, client: &Totals, server: &Totals) -> u64 {
    let time = Duration::from_secs_f64(client.duration_s.max(0.0));
    let bytes = match workload {
        Workload::Bulk {
            direction: Direction::Both,
            ..
        } => client.received_bytes + server.received_bytes,
        // The payload of a workload goes one way; what comes back are answers.
        _ => client.received_bytes.max(server.received_bytes),
    };
    Rate::of(bytes, time).bits_per_second()
}

/// A setting that this kernel, or Linux, lacks; other errors end the run.
fn not_applied(knob: &'static str, error: Error) -> Result<Caveat> {
    match error {
        Error::Unsupported { .. }
        | Error::NotFound { .. }
        | Error::Refused { .. }
        | Error::Knob(KnobError::NotInLinux { .. }) => Ok(Caveat::SettingNotApplied {
            knob: knob.into(),
            why: error.to_string(),
        }),
        other => Err(other),
    }
}

/// The kernel keeps its own congestion control where ours is not allowed and the trial names none.
fn other_congestion(trial: &Trial, got: &str) -> Option<Caveat> {
    let wanted = match trial.client.settings.get("congestion") {
        Some(KnobValue::Name(name)) => name.as_str(),
        _ => DEFAULT_CONGESTION,
    };
    let by_route = trial
        .client
        .settings
        .keys()
        .any(|knob| knob.ends_with("congctl"));
    (!by_route && !got.is_empty() && got != wanted).then(|| Caveat::SettingNotApplied {
        knob: "congestion".into(),
        why: format!("the kernel gave {got} instead of {wanted}"),
    })
}

/// What limited the main connection, by the doctor's verdicts; the longest share first.
fn limits(look: &Look) -> Vec<(Limit, f64)> {
    let flows = look
        .client
        .flows
        .iter()
        .filter(|flow| flow.key.remote.port() == LAB_PORT);
    let mut flows: Vec<&WatchedFlow> = flows.collect();
    flows.sort_by_key(|flow| std::cmp::Reverse(moved(flow)));
    let timelines: Vec<Timeline> = flows
        .iter()
        .take(1 + SIBLINGS_MAX)
        .map(|flow| timeline(flow))
        .collect();
    let Some((main, siblings)) = timelines.split_first() else {
        return Vec::new();
    };
    let other_end = flows[0].key.reversed();
    let remote = look.server.flows.iter().find(|flow| flow.key == other_end);
    let remote = remote.map(timeline);
    let hosts = [&look.client, &look.server].map(host_timeline);
    let report = flow::diagnose(&Observation {
        local: main,
        remote: remote.as_ref(),
        siblings: &siblings.iter().collect::<Vec<_>>(),
        host: Some(&hosts[0]),
        remote_host: Some(&hosts[1]),
    });
    shares(&report.verdicts)
}

/// Each limit once, with its largest share.
fn shares(verdicts: &[Verdict]) -> Vec<(Limit, f64)> {
    let mut shares: Vec<(Limit, f64)> = Vec::new();
    for verdict in verdicts {
        let Some(limit) = verdict.limit else {
            continue;
        };
        match shares.iter_mut().find(|(known, _)| *known == limit) {
            Some((_, share)) => *share = share.max(verdict.share),
            None => shares.push((limit, verdict.share)),
        }
    }
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    shares
}

/// Payload that a connection carried while it was watched, both ways, and how often it was seen.
fn moved(flow: &WatchedFlow) -> (u64, usize) {
    let carried = |index: Option<&base::FlowSample>| {
        let sample = index?;
        Some(sample.bytes_acked.unwrap_or(0) + sample.bytes_received.unwrap_or(0))
    };
    let first = carried(flow.samples.first()).unwrap_or(0);
    let last = carried(flow.samples.last()).unwrap_or(0);
    (last.saturating_sub(first), flow.samples.len())
}

fn timeline(flow: &WatchedFlow) -> Timeline {
    let mut timeline = Timeline::new();
    for sample in &flow.samples {
        timeline.push(sample.clone());
    }
    timeline
}

fn host_timeline(watched: &Watched) -> HostTimeline {
    let mut timeline = HostTimeline::new();
    for sample in &watched.hosts {
        timeline.push(sample.clone());
    }
    timeline
}

#[cfg(test)]
mod tests {
    use base::Bytes;
    use flow::{Confidence, find_diagnosis};

    use super::*;

    fn trial(scenario: &str) -> Trial {
        let scenario = lab::find_scenario(scenario).expect("it is part of the program");
        scenario.trials()[0].trial.clone()
    }

    #[test]
    fn only_workloads_of_a_time_are_warmed_up() {
        let stop = AtomicBool::new(false);
        let mut workload = trial("wan-bulk").workload;
        let course = Course::of(&workload, &stop);
        let time = Duration::from_secs(5);
        assert_eq!((course.warmup, course.time), (WARM_UP, Some(time)));
        assert_eq!(course.expected(), Some(WARM_UP + time));
        if let Workload::Bulk { amount, .. } = &mut workload {
            *amount = Amount::Bytes(Bytes(1));
        }
        let course = Course::of(&workload, &stop);
        assert_eq!((course.warmup, course.expected()), (Duration::ZERO, None));
    }

    #[test]
    fn goodput_is_what_arrives_at_the_end_that_receives() {
        let totals = |received_bytes| Totals {
            duration_s: 2.0,
            received_bytes,
            ..Totals::default()
        };
        let check = |direction: Direction, expected: u64| {
            let workload = Workload::Bulk {
                direction,
                flows: 1,
                write_size: Bytes(1),
                amount: Amount::Operations(1),
            };
            let found = goodput_bps(&workload, &totals(1_000), &totals(250));
            assert_eq!(found, expected, "{direction:?}");
        };
        check(Direction::Down, 4_000);
        check(Direction::Both, 5_000);
        let workload = trial("lan-request").workload;
        assert_eq!(goodput_bps(&workload, &totals(4), &totals(8)), 32);
        assert_eq!(
            goodput_bps(&workload, &Totals::default(), &totals(8)),
            0,
            "over no time"
        );
    }

    #[test]
    fn each_limit_has_its_largest_share() {
        let verdict = |limit, share| Verdict {
            diagnosis: find_diagnosis("nagle-delack-stall").expect("an id"),
            limit,
            share,
            confidence: Confidence::High,
            evidence: Vec::new(),
            next: None,
            proposals: Vec::new(),
            remark: String::new(),
        };
        let verdicts = [
            verdict(Some(Limit::Nagle), 0.2),
            verdict(None, 1.0),
            verdict(Some(Limit::Congestion), 0.5),
            verdict(Some(Limit::Nagle), 0.9),
        ];
        let expected = [(Limit::Nagle, 0.9), (Limit::Congestion, 0.5)];
        assert_eq!(shares(&verdicts), expected);
        assert_eq!(shares(&[]), []);
    }

    #[test]
    fn what_was_not_set_is_a_doubt() {
        let doubt = |trial: &Trial, got: &str| other_congestion(trial, got).is_some();
        let mut trial = trial("wan-bulk");
        assert!(
            doubt(&trial, "bbr"),
            "a lab begins with {DEFAULT_CONGESTION}"
        );
        assert!(!doubt(&trial, DEFAULT_CONGESTION));
        assert!(!doubt(&trial, ""), "the kernel did not say");
        let bbr = KnobValue::Name("bbr".into());
        trial.client.settings.insert("congestion", bbr.clone());
        assert!(doubt(&trial, "cubic") && !doubt(&trial, "bbr"));
        trial.client.settings.clear();
        trial.client.settings.insert("route.congctl", bbr);
        assert!(!doubt(&trial, "bbr"), "the route decides");

        let lacking = Error::Unsupported {
            what: "x".into(),
            hint: "y".into(),
        };
        let caveat = not_applied("net.ipv4.tcp_sack", lacking).expect("a doubt");
        assert!(
            caveat
                .to_string()
                .starts_with("net.ipv4.tcp_sack was not set")
        );
        let own = KnobError::NotInLinux { knob: "nagle" };
        assert!(not_applied("nagle", own.into()).is_ok());
        assert!(not_applied("mtu", Error::Peer("gone".into())).is_err());
    }
}
