//! The loop on simulated hosts: what is kept, and that it goes on to the next limit.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use base::{Change, Target};
use doctor::Track;
use lab::{Virtual, find_fault};
use tailor::{
    Ending, FitOptions, Fitting, Look, Settings, Simulated, SimulatedError, Subject, fit,
};

static NEVER: AtomicBool = AtomicBool::new(false);

fn options(fault: &lab::Fault) -> FitOptions {
    FitOptions {
        observe: fault.observe,
        slice: fault.observe,
        settle: fault.settle,
        warm_up: fault.warm_up,
        bound: Duration::from_secs(600),
        extra: Duration::ZERO,
        once: false,
        dry_run: false,
    }
}

fn fitted(fault: &lab::Fault, options: FitOptions) -> Fitting {
    let engine = Virtual::default();
    let session = engine.start(&fault.trial()).expect("our stack has it");
    let mut subject: Simulated<'_, SimulatedError> =
        Simulated::new(session, &NEVER, Box::new(|_, _, _| ()));
    subject.wait(fault.warm_up).expect("it runs");
    fit(&mut subject, &options, &mut |_, _| Ok(())).expect("it runs")
}

/// What was kept, in order.
fn kept(fitting: &Fitting) -> Vec<(&'static str, String)> {
    let kept = fitting.tried.iter().filter(|tried| tried.kept);
    kept.map(|tried| {
        let change = &tried.changes[0];
        (
            tried.finding.diagnosis,
            format!("{} = {}", change.knob, change.to),
        )
    })
    .collect()
}

/// By response time, by round-trip time, by goodput on new connections, by stalls past a timeout
/// that has backed off, and by the time of transfers with pauses between them.
/// `lab faults` and the command `fit` walk the others.
#[test]
fn a_cure_of_each_kind_is_kept() {
    let check = |name, change: &str| {
        let fault = find_fault(name).expect("a row of the table");
        let fitting = fitted(fault, options(fault));
        assert_eq!(fitting.ending, Ending::Kept, "{name}: {:#?}", fitting.tried);
        assert_eq!(kept(&fitting), [(fault.expected, change.to_owned())]);
        let outcome = fitting.tried[0].outcome.as_ref().expect("it was tried");
        assert!(outcome.gain_interval.is_some_and(|[low, _]| low > 1.05));
    };
    check("nagle", "nodelay = on");
    check("bufferbloat", "congestion = bbr");
    check("rcvbuf", "buf_lock = 0");
    check("pmtu-blackhole", "net.ipv4.tcp_mtu_probing = 1");
    check("idle", "net.ipv4.tcp_slow_start_after_idle = off");
}

#[test]
fn behind_the_first_limit_the_next_one_is_removed() {
    let fault = find_fault("stacked").expect("a row of the table");
    let fitting = fitted(fault, options(fault));
    let steps = [
        ("cork-not-uncorked", "cork = off".to_owned()),
        ("nagle-delack-stall", "nodelay = on".to_owned()),
    ];
    assert_eq!(kept(&fitting), steps, "{:#?}", fitting.tried);
    assert_eq!(fitting.left, Some(Ending::NothingToImprove));
    let after = fitting.after.and_then(|after| after.response_us);
    assert!(after.is_some_and(|response| response.p50 < 1_000));
}

#[test]
fn what_is_healthy_is_not_touched() {
    let fault = find_fault("healthy-request").expect("a row of the table");
    let fitting = fitted(fault, options(fault));
    assert_eq!(fitting.ending, Ending::NothingToImprove);
    assert!(fitting.tried.is_empty() && fitting.after.is_none());
}

#[test]
fn what_takes_longer_than_is_allowed_is_not_begun() {
    let fault = find_fault("bufferbloat").expect("a row of the table");
    let bound = Duration::from_secs(20);
    let fitting = fitted(
        fault,
        FitOptions {
            bound,
            extra: Duration::ZERO,
            ..options(fault)
        },
    );
    assert_eq!(fitting.ending, Ending::OutOfTime);
    for tried in &fitting.tried {
        let outcome = tried.outcome.as_ref().expect("it says why not");
        assert!(!tried.kept && outcome.looks == 0);
        assert!(outcome.time_needed_s > Some(20.0), "{outcome:?}");
        assert!(tried.changes[0].from.is_empty(), "it was not made");
    }
}

/// A program that keeps several connections has the fault on each of them; a fix of one alone
/// leaves the others as they are.
#[test]
fn all_connections_with_the_fault_are_cured_together() {
    let scenario = r#"
        name = "three"
        about = "Three uploads, each with a small fixed send buffer."
        [path]
        kind = "emulated"
        rate = "300mbit"
        rtt = "40ms"
        queue = "1000p"
        [client]
        sndbuf = "16KiB"
        [workload]
        kind = "bulk"
        direction = "up"
        flows = 3
        duration = "10m"
    "#;
    let scenario = lab::Scenario::parse("three.toml", scenario).expect("a scenario");
    let trial = &scenario.trials()[0].trial;
    let session = Virtual::default().start(trial).expect("our stack has it");
    let mut subject: Simulated<'_, SimulatedError> =
        Simulated::new(session, &NEVER, Box::new(|_, _, _| ()));
    let second = Duration::from_secs(1);
    subject.wait(second).expect("it runs");
    let options = FitOptions {
        observe: second * 2,
        slice: second * 2,
        settle: second,
        warm_up: second,
        bound: second * 600,
        extra: Duration::ZERO,
        once: false,
        dry_run: false,
    };
    let fitting = fit(&mut subject, &options, &mut |_, _| Ok(())).expect("it runs");
    let tried = &fitting.tried[0];
    assert_eq!(tried.finding.diagnosis, "sndbuf-locked");
    assert!(tried.kept, "{:#?}", tried.outcome);
    let mut targets: Vec<&str> = tried.changes.iter().map(|c| c.target.as_str()).collect();
    targets.dedup();
    assert_eq!(targets.len(), 3, "{targets:?}");
    let after = fitting.after.expect("a look").goodput_bps;
    let before = fitting.before.goodput_bps;
    assert!(after as f64 > 1.5 * before as f64, "{before} -> {after}");
}

/// A program that opens no connection while it is looked at, seen at both ends or at its own.
struct Keeps<'a> {
    simulated: Simulated<'a, SimulatedError>,
    sees_both_ends: bool,
    looks: Vec<Duration>,
}

impl Subject for Keeps<'_> {
    type Error = SimulatedError;

    fn look(&mut self, time: Duration) -> Result<Look, SimulatedError> {
        self.looks.push(time);
        let mut look = self.simulated.look(time)?;
        look.there = look.there.filter(|_| self.sees_both_ends);
        Ok(look)
    }

    fn wait(&mut self, time: Duration) -> Result<(), SimulatedError> {
        self.simulated.wait(time)
    }

    fn wants(&self, track: &Track) -> bool {
        self.simulated.wants(track)
    }

    fn lacks(&self, target: &Target) -> Option<&'static str> {
        self.simulated.lacks(target)
    }

    fn can_reconnect(&self) -> bool {
        false
    }

    fn reconnect(&mut self) -> Result<(), SimulatedError> {
        unreachable!("it cannot")
    }

    fn on_listener(&mut self, change: &Change) -> Result<Vec<Change>, SimulatedError> {
        self.simulated.on_listener(change)
    }

    fn settings(&mut self) -> &mut dyn Settings<Error = SimulatedError> {
        self.simulated.settings()
    }
}

/// The program may open a connection seldom, which only a longer look shows.
#[test]
fn what_helps_new_connections_only_is_out_of_reach_after_a_longer_look() {
    let looks = |id: &str| {
        let fault = find_fault(id).expect("a row of the table");
        let engine = Virtual::default();
        let session = engine.start(&fault.trial()).expect("our stack has it");
        let simulated = Simulated::new(session, &NEVER, Box::new(|_, _, _| ()));
        let mut subject = Keeps {
            simulated,
            sees_both_ends: true,
            looks: Vec::new(),
        };
        subject.wait(fault.warm_up).expect("it runs");
        let fitting = fit(&mut subject, &options(fault), &mut |_, _| Ok(())).expect("it runs");
        assert!(fitting.tried.is_empty());
        (fitting.ending, subject.looks.split_off(1))
    };
    let longer = vec![Duration::from_secs(15)];
    assert_eq!(looks("window-scaling-off"), (Ending::OutOfReach, longer));
    let healthy = (Ending::NothingToImprove, Vec::new());
    assert_eq!(looks("healthy-request"), healthy);
}

/// Losses that are rare tell nothing in a short look, and are random in one that holds enough.
#[test]
fn where_few_packets_are_lost_the_first_look_is_longer() {
    let fault = find_fault("random-loss").expect("a row of the table");
    let engine = Virtual::default();
    let session = engine.start(&fault.trial()).expect("our stack has it");
    let mut subject = Keeps {
        simulated: Simulated::new(session, &NEVER, Box::new(|_, _, _| ())),
        sees_both_ends: false,
        looks: Vec::new(),
    };
    subject.wait(fault.warm_up).expect("it runs");
    let mut options = options(fault);
    options.observe = Duration::from_millis(900);
    let fitting = fit(&mut subject, &options, &mut |_, _| Ok(())).expect("it runs");
    assert_eq!(subject.looks[1], options.observe * 5);
    assert_eq!(fitting.tried[0].finding.diagnosis, "random-loss");
}

/// Nothing on this host tells whether the other one offers no scaling or the path removes it, and a
/// longer look does not either.
#[test]
fn what_only_the_other_host_can_change_is_out_of_reach() {
    let fault = find_fault("window-scaling-off").expect("a row of the table");
    let mut trial = fault.trial();
    core::mem::swap(&mut trial.client, &mut trial.server);
    let engine = Virtual::default();
    let session = engine.start(&trial).expect("our stack has it");
    let mut subject = Keeps {
        simulated: Simulated::new(session, &NEVER, Box::new(|_, _, _| ())),
        sees_both_ends: false,
        looks: Vec::new(),
    };
    subject.wait(fault.warm_up).expect("it runs");
    let fitting = fit(&mut subject, &options(fault), &mut |_, _| Ok(())).expect("it runs");
    assert!(fitting.tried.is_empty());
    assert_eq!(fitting.ending, Ending::OutOfReach);
}
