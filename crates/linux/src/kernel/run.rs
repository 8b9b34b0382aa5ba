//! A trial from its start to its end.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use base::{KnobError, KnobValue, Limit, Rate};
use doctor::{Cases, Track, Verdict};
use lab::{
    Amount, Caveat, Direction, LinkOutcome, Outcome, PathSpec, Point, SAMPLE_INTERVAL,
    SenderOutcome, Trial, WARM_UP, Workload, stats,
};

use super::course::{self, Known};
use super::load::StackLoad;
use super::{End, Hosts, LAB_PORT, Look, Session};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::tun_engine::{Side, StackEnd, StackSummary};
use crate::worker::{DEFAULT_CONGESTION, Worker, WorkerFailure};
use crate::workload::{self, Interval, Phase, Totals};

/// Interval of checks whether the run is over, and of reports of progress.
const STOP_CHECK: Duration = Duration::from_millis(50);
/// Time after its planned end that a workload has to finish operations in progress.
const OVERTIME: Duration = Duration::from_secs(5);
/// Longest time that the connections of a run of unknown length are watched. A watch that is told
/// a longer one looks less often, too rarely for a run of some seconds.
const WATCH_MAX: Duration = Duration::from_secs(300);

/// How far a run is.
#[derive(Clone, Copy, Debug)]
pub struct RunProgress {
    /// Since its start.
    pub elapsed: Duration,
    /// Expected duration; `None` where it depends on the path.
    pub expected: Option<Duration>,
}

/// How trials are run in real time.
///
/// A workload of a certain time runs for [`WARM_UP`] longer, and that does not count. Goodput is
/// taken where payload arrives; the counts and the lateness of the links are those of the whole
/// run. Limits are those of the sender: true ones where it has our stack; otherwise they are
/// inferred: the doctor watches the main connection (the one that carried most) while it runs, and
/// each of its verdicts is a limit with its share of the time. Runs that are too short for a
/// verdict have none.
#[derive(Clone, Debug)]
pub struct RealTime {
    /// The program whose hidden command `worker` runs one side of a workload.
    pub exe: PathBuf,
    /// Whether limits are inferred. Watching takes a processor from the hosts now and then and
    /// shows in the slowest responses.
    pub is_watched: bool,
    /// The end that has our stack; `None`: the kernel's at both.
    pub stack: Option<StackEnd>,
}

impl RealTime {
    /// Runs a trial to its end. `stop` ends it early; what was measured until then is returned,
    /// with a caveat. A setting of a host that its stack lacks is a caveat too.
    ///
    /// # Errors
    /// Where the path cannot be made or the programs do not start; [`Error::Peer`] where a program
    /// ended before anything was measured, with what it said.
    pub fn run(
        &self,
        trial: &Trial,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(RunProgress),
    ) -> Result<Outcome> {
        let knows_limits = self.stack.is_some_and(|stack| stack.side == Side::Sender);
        let schedule = Schedule {
            is_watched: self.is_watched && !knows_limits,
            ..Schedule::of(&trial.workload, stop)
        };
        let hosts = Hosts {
            trial,
            warmup: schedule.warmup,
            stack: self.stack,
        };
        let mut caveats = Vec::new();
        let session = Session::launch(&self.exe, &hosts, &mut |knob, error| {
            caveats.push(not_applied(knob, error)?);
            Ok(())
        })?;
        if let Some(stack) = self.stack {
            let spec = stack.spec(trial, session.path.address(stack.end(trial)));
            caveats.extend(spec.refused()?);
            if stack.end(trial) == End::Client {
                caveats.extend(trial.workload.caveat_on_our_stack());
            }
            caveats.extend(other_path(trial));
        }
        let seen = observe(&session, &schedule, progress)?;
        caveats.extend(other_costs(trial));
        caveats.extend(other_programs(trial));
        caveats.extend(session.path.caveats()?);
        caveats.extend(seen.load);
        caveats.extend(seen.busy);
        let end = Ended::of(session);
        if end.client.measured.duration_s <= 0.0 && !stop.load(Ordering::Relaxed) {
            return Err(Error::Peer(
                end.early
                    .unwrap_or_else(|| "the workload measured nothing".into()),
            ));
        }
        caveats.extend(other_congestion(trial, &end.client.congestion));
        Ok(end.outcome(trial, seen.look.as_ref(), caveats))
    }
}

/// When a run ends.
struct Schedule<'s> {
    warmup: Duration,
    /// The measured time, where the workload is bounded by it.
    time: Option<Duration>,
    stop: &'s AtomicBool,
    /// Whether the connections are watched for what limits them.
    is_watched: bool,
}

impl<'s> Schedule<'s> {
    fn of(workload: &Workload, stop: &'s AtomicBool) -> Self {
        let (warmup, time) = match workload.amount() {
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

/// Samples taken during a run.
#[derive(Default)]
struct Seen {
    look: Option<Look>,
    load: Option<Caveat>,
    /// Caveat on the processor time of our stack, where it was too high.
    busy: Option<Caveat>,
}

/// Waits for the end of the client, and watches the measured time meanwhile.
fn observe(
    session: &Session,
    schedule: &Schedule<'_>,
    progress: &mut dyn FnMut(RunProgress),
) -> Result<Seen> {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let watching = scope.spawn(|| watch_measured(session, schedule, &over));
        await_end(session, schedule, progress);
        over.store(true, Ordering::Relaxed);
        watching
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn watch_measured(session: &Session, schedule: &Schedule<'_>, over: &AtomicBool) -> Result<Seen> {
    let begin = Clock.now() + schedule.warmup;
    while Clock.now() < begin {
        if over.load(Ordering::Relaxed) {
            return Ok(Seen::default());
        }
        thread::sleep(STOP_CHECK.min(begin.since(Clock.now())));
    }
    let stack = session
        .stack
        .and_then(|end| StackLoad::read(session.worker(end).pid()));
    let (look, load) = if schedule.is_watched {
        let look = session.look(
            (schedule.time.unwrap_or(WATCH_MAX), SAMPLE_INTERVAL),
            over,
            &mut |_| (),
        )?;
        let load = look.load.clone();
        (Some(look), load)
    } else {
        let before = session.load();
        while !over.load(Ordering::Relaxed) {
            thread::sleep(STOP_CHECK);
        }
        (None, session.busy_since(before))
    };
    let busy = stack.and_then(|before| before.caveat());
    Ok(Seen { look, load, busy })
}

fn await_end(session: &Session, schedule: &Schedule<'_>, progress: &mut dyn FnMut(RunProgress)) {
    let began = Clock.now();
    let expected = schedule.expected();
    loop {
        // What the client failed of is told when it is stopped.
        let Ok(None) = session.worker(End::Client).wait_done(STOP_CHECK) else {
            return;
        };
        // A client may wait for long for a host that is gone.
        if session.worker(End::Server).failure().is_some() {
            return;
        }
        let elapsed = Clock.now().since(began);
        let is_overdue = expected.is_some_and(|expected| elapsed > expected + OVERTIME);
        if is_overdue || schedule.stop.load(Ordering::Relaxed) {
            return;
        }
        progress(RunProgress { elapsed, expected });
    }
}

/// Results after both programs have ended.
struct Ended {
    client: Part,
    server: Part,
    /// The end that has our stack.
    stack: Option<End>,
    links: (LinkOutcome, LinkOutcome),
    /// Why it ended before its time, if it did.
    early: Option<String>,
}

impl Ended {
    fn of(session: Session) -> Self {
        // Only now: an end that is told to stop breaks connections, of which the other may fail.
        let failures = [End::Client, End::Server].map(|end| session.worker(end).failure());
        let links = session.path.outcome();
        let Session {
            path,
            server,
            client,
            stack,
            ..
        } = session;
        let client = Part::end(client.expect("absent only inside `reconnect`"));
        let server = Part::end(server);
        drop(path);
        let early = why_early(failures, &client, &server);
        Self {
            client,
            server,
            stack,
            links,
            early,
        }
    }

    fn outcome(self, trial: &Trial, look: Option<&Look>, mut caveats: Vec<Caveat>) -> Outcome {
        let Self {
            mut client,
            mut server,
            stack,
            links,
            early,
        } = self;
        caveats.extend(early.map(|why| Caveat::EndedEarly { why }));
        let goodput_bps = goodput_bps(&trial.workload, &client.measured, &server.measured);
        let own = client.stack.take().or(server.stack.take());
        let receives = stack.is_some_and(|end| end != trial.workload.sender());
        let stall_max_us = match client.measured.received_bytes > server.measured.received_bytes {
            true => client.silence_max_us,
            false => server.silence_max_us,
        };
        let dropped = own.as_ref().map_or(0, |own| own.dropped_packets);
        caveats.extend((dropped > 0).then_some(Caveat::StackDropped { packets: dropped }));
        let kernel = stack.map_or(End::Client, End::other);
        let inferred = look.map(|look| limits(look, kernel));
        let known = own.filter(|_| !receives);
        let (series, sender) = match &known {
            Some(own) => (own.series.clone(), own.sender),
            None => kernel_course(&trial.workload, &client, &server, look),
        };
        let known = known.map(|own| own.limits);
        Outcome {
            goodput_bps,
            duration_s: client.measured.duration_s,
            response_us: client.measured.response_us(),
            stall_max_us,
            limits: known.or(inferred).unwrap_or_default(),
            forward: links.0,
            reverse: links.1,
            caveats,
            sender,
            series,
            ..Outcome::default()
        }
    }
}

/// Why a run ended before its time, if it did: the first failure before the programs were told to
/// stop, since the other end fails of it as well. A server never ends by itself; one that fails
/// when it is told to has no numbers.
fn why_early(failures: [Option<WorkerFailure>; 2], client: &Part, server: &Part) -> Option<String> {
    let first = failures.into_iter().flatten().min_by_key(|first| first.at);
    let stopped = || client.was_stopped.then(|| "it was stopped".to_owned());
    let last = || server.failed.clone();
    first
        .map(|failure| failure.why)
        .or_else(stopped)
        .or_else(last)
}

/// How a run went whose sender is the kernel's TCP, and what that sender counted.
fn kernel_course(
    workload: &Workload,
    client: &Part,
    server: &Part,
    look: Option<&Look>,
) -> (Vec<Point>, Option<SenderOutcome>) {
    let is_two_way = workload.is_two_way();
    let (sends, receives) = match workload.sender() {
        End::Client => (client, server),
        End::Server => (server, client),
    };
    let bytes = |part: &Part| part.measured.received_bytes;
    // The payload of a workload goes one way; what comes back are answers.
    let (receives, other) = match bytes(sends) > bytes(receives) && !is_two_way {
        true => (sends, receives),
        false => (receives, sends),
    };
    let watched = look.map(|look| match workload.sender() {
        End::Client => &look.client,
        End::Server => &look.server,
    });
    let points = course::points(&Known {
        receiver: &receives.intervals,
        other: if is_two_way { &other.intervals } else { &[] },
        sender: watched,
    });
    let rtts_us = course::rtts_us(&points);
    let sent = sends.sent.map(|sent| SenderOutcome {
        // Without samples there is the state at the end.
        rtt_mean_us: stats::whole_mean(&rtts_us).or(sent.rtt_mean_us),
        rtt_p99_us: stats::whole_percentile(&rtts_us, 99),
        ..sent
    });
    (points, sent)
}

/// Measurements of the program at one end.
#[derive(Default)]
struct Part {
    measured: Totals,
    /// Its reports up to the end of the measured time.
    intervals: Vec<Interval>,
    /// Counters of its sockets as senders.
    sent: Option<SenderOutcome>,
    /// Longest time between two reads of payload.
    silence_max_us: Option<u64>,
    congestion: String,
    /// Report of our stack, at an end that has it.
    stack: Option<StackSummary>,
    /// Why it failed, where it did.
    failed: Option<String>,
    /// It was stopped early.
    was_stopped: bool,
}

impl Part {
    /// Ends the program.
    fn end(worker: Worker) -> Self {
        let mut intervals = worker.intervals();
        intervals.retain(|interval| interval.phase != Phase::After);
        match worker.stop() {
            Ok(summary) => Self {
                failed: None,
                was_stopped: summary.ended != workload::Ended::Complete,
                measured: summary.measured,
                intervals,
                sent: summary.sent,
                silence_max_us: summary.silence_max_us,
                congestion: summary.congestion,
                stack: summary.stack,
            },
            Err(error) => {
                let mut measured = Totals::default();
                let counts = intervals.iter().filter(|i| i.phase == Phase::Measured);
                counts.for_each(|interval| measured.add(interval));
                Self {
                    measured,
                    intervals,
                    sent: None,
                    silence_max_us: None,
                    congestion: String::new(),
                    stack: None,
                    failed: Some(error.to_string()),
                    was_stopped: true,
                }
            }
        }
    }
}

/// Payload per second in the main direction; in a workload both ways, of both together. What an end
/// received is divided by the time that it measured, which on a busy machine ends late: by its own
/// clock, or by that of the client where the server counts no time between connections.
fn goodput_bps(workload: &Workload, client: &Totals, server: &Totals) -> u64 {
    let rate = |end: &Totals| {
        let time = Duration::from_secs_f64(end.duration_s.max(client.duration_s).max(0.0));
        Rate::of(end.received_bytes, time).bits_per_second()
    };
    match workload {
        Workload::Bulk {
            direction: Direction::Both,
            ..
        } => rate(client) + rate(server),
        // The payload of a workload goes one way; what comes back are answers.
        _ => rate(client).max(rate(server)),
    }
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

/// Two stacks are two hosts, which no loopback interface joins.
fn other_path(trial: &Trial) -> Option<Caveat> {
    matches!(trial.path, PathSpec::Loopback).then(|| Caveat::SettingNotApplied {
        knob: "path.kind".into(),
        why: "two stacks are two hosts; a veth pair with the largest MTU stands for loopback"
            .into(),
    })
}

/// A segment costs what it costs here.
fn other_costs(trial: &Trial) -> Option<Caveat> {
    let hosts = [&trial.client, &trial.server];
    let costs = hosts.iter().any(|host| !host.cost_per_segment.is_zero());
    costs.then(|| Caveat::SettingNotApplied {
        knob: "cost_per_segment".into(),
        why: "only virtual time has slow hosts; `--engine virtual` has them".into(),
    })
}

/// A program fills its buffer as it writes.
fn other_programs(trial: &Trial) -> Option<Caveat> {
    let hosts = [&trial.client, &trial.server];
    let is_held = hosts.iter().any(|host| host.held.is_some());
    is_held.then(|| Caveat::SettingNotApplied {
        knob: "held".into(),
        why: "only in virtual time do programs keep a given share of their send buffers".into(),
    })
}

/// The kernel keeps its own congestion control if ours is not permitted and the trial names none.
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

/// Limits of the main connection, by the doctor's verdicts on the view from one end; largest share
/// first.
fn limits(look: &Look, end: End) -> Vec<(Limit, f64)> {
    let (local, remote) = match end {
        End::Client => (&look.client, &look.server),
        End::Server => (&look.server, &look.client),
    };
    let is_main = |track: &Track| {
        let server = match end {
            End::Client => track.key.remote,
            End::Server => track.key.local,
        };
        server.port() == LAB_PORT
    };
    let other_ends = Cases::of(remote);
    let cases = Cases::of(local).with_other_ends(&other_ends);
    let found = cases.select(is_main);
    let main = found.iter().max_by_key(|case| moved(case.track()));
    main.map_or_else(Vec::new, |case| shares(&case.diagnose().verdicts))
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
fn moved(flow: &Track) -> (u64, usize) {
    let carried = |sample: &base::FlowSample| {
        sample.bytes_acked.unwrap_or(0) + sample.bytes_received.unwrap_or(0)
    };
    let first = flow.samples.first().map_or(0, carried);
    let last = flow.samples.last().map_or(0, carried);
    (last.saturating_sub(first), flow.samples.len())
}

#[cfg(test)]
mod tests {
    use base::{Bytes, Instant};
    use doctor::{Confidence, find_diagnosis};

    use super::*;

    fn trial(scenario: &str) -> Trial {
        let scenario = lab::find_scenario(scenario).expect("it is part of the program");
        scenario.trials()[0].trial.clone()
    }

    #[test]
    fn only_workloads_of_a_time_are_warmed_up() {
        let stop = AtomicBool::new(false);
        let mut workload = trial("wan-bulk").workload;
        let schedule = Schedule::of(&workload, &stop);
        let time = Duration::from_secs(5);
        assert_eq!((schedule.warmup, schedule.time), (WARM_UP, Some(time)));
        assert_eq!(schedule.expected(), Some(WARM_UP + time));
        if let Workload::Bulk { amount, .. } = &mut workload {
            *amount = Amount::Bytes(Bytes(1));
        }
        let schedule = Schedule::of(&workload, &stop);
        assert_eq!(
            (schedule.warmup, schedule.expected()),
            (Duration::ZERO, None)
        );
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
                unacked: None,
                amount: Amount::Operations(1),
            };
            let found = goodput_bps(&workload, &totals(1_000), &totals(250));
            assert_eq!(found, expected, "{direction:?}");
        };
        check(Direction::Down, 4_000);
        check(Direction::Both, 5_000);
        let workload = trial("lan-request").workload;
        assert_eq!(goodput_bps(&workload, &totals(4), &totals(8)), 32);
        let none = Totals::default();
        assert_eq!(goodput_bps(&workload, &none, &none), 0, "over no time");
        let late = Totals {
            duration_s: 4.0,
            ..totals(8)
        };
        assert_eq!(
            goodput_bps(&workload, &totals(0), &late),
            16,
            "by its own clock"
        );
        assert_eq!(goodput_bps(&workload, &late, &totals(8)), 16, "gaps count");
    }

    #[test]
    fn the_first_cause_is_told() {
        let failure = |at: u64, why: &str| {
            Some(WorkerFailure {
                at: Instant::from_nanos(at),
                why: why.into(),
            })
        };
        let part = |was_stopped, failed: Option<&str>| Part {
            was_stopped,
            failed: failed.map(Into::into),
            ..Part::default()
        };
        let check = |failures, client: Part, server: Part, expected: Option<&str>| {
            let found = why_early(failures, &client, &server);
            assert_eq!(found.as_deref(), expected);
        };
        let (reset, gone) = (failure(9, "reset"), failure(8, "gone"));
        let broken = || (part(true, Some("reset")), part(true, Some("gone")));
        let (client, server) = broken();
        check([reset.clone(), gone], client, server, Some("gone"));
        let (client, server) = broken();
        check([reset, failure(10, "late")], client, server, Some("reset"));
        // Both fail of the order to stop.
        let (client, server) = broken();
        check([None, None], client, server, Some("it was stopped"));
        check([None, None], part(false, None), part(true, None), None);
        let (client, server) = (part(false, None), part(true, Some("killed")));
        check([None, None], client, server, Some("killed"));
    }

    #[test]
    fn each_limit_has_its_largest_share() {
        let verdict = |limit, share| Verdict {
            diagnosis: find_diagnosis("nagle-delack-stall").expect("an id"),
            limit,
            share,
            held: None,
            confidence: Confidence::High,
            evidence: Vec::new(),
            saves: None,
            saves_most: None,
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
