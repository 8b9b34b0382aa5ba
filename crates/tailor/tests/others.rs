//! A host on which not everything stays as the experiment left it: another program sets the same
//! setting, and connections end before they can be changed. The connections are made up.

use std::sync::Arc;
use std::time::Duration;

use base::{Change, FlowKey, FlowSample, Instant, KnobValue, Live, Netns, Target, find_knob};
use doctor::{Objective, Proposal, Recording, Side, Track};
use lab::Measure;
use tailor::{
    Answer, Applied, Design, FitEvent, FitOptions, Look, Others, Settings, Subject, Tried, Undone,
    Values, fit_given,
};

const SAMPLE: Duration = Duration::from_millis(100);
/// The listener of the service.
const LISTENER: u64 = 1;

struct Host {
    now: Instant,
    in_force: bool,
    kept: bool,
    /// What was changed, in order.
    made: Vec<Target>,
    undone: usize,
    /// When it is undone this often, another program has set it meanwhile.
    theirs_at: Option<usize>,
    /// When it was made this often, another program sets it while it is not in force.
    then_theirs_at: Option<usize>,
    /// How long a connection lives; each of them follows the one before.
    life: Duration,
    looks: u32,
    /// It stays as fast as it was with the change, whatever is undone.
    keeps_speed: bool,
}

impl Host {
    fn new(life: Duration) -> Self {
        Self {
            now: Instant::ZERO + Duration::from_secs(3600),
            in_force: false,
            kept: false,
            made: Vec::new(),
            undone: 0,
            theirs_at: None,
            then_theirs_at: None,
            life,
            looks: 0,
            keeps_speed: false,
        }
    }

    /// Which connection is open at this time.
    fn open_at(&self, at: Instant) -> u64 {
        let lives = at.since(Instant::ZERO).as_nanos() / self.life.as_nanos();
        LISTENER + 1 + u64::try_from(lives).unwrap_or(u64::MAX / 2)
    }

    fn key(number: u64) -> FlowKey {
        let port = 20_000 + u16::try_from(number % 20_000).unwrap_or(0);
        FlowKey {
            local: ([10, 0, 0, 1], 443).into(),
            remote: ([10, 0, 0, 2], port).into(),
        }
    }

    fn track(&self, number: u64, (began, ended): (Instant, Instant)) -> Track {
        let key = Self::key(number);
        let times = std::iter::successors(Some(began), |at| Some(*at + SAMPLE));
        let of_it = times
            .take_while(|at| *at <= ended)
            .filter(|at| self.open_at(*at) == number);
        let sample = |at: Instant| {
            let age = at.since(Instant::ZERO);
            Arc::new(FlowSample {
                cookie: Some(number),
                bytes_acked: Some(age.as_millis() as u64 * 1000),
                busy_time: Some(age),
                unacked_pkts: Some(10),
                srtt: Some(Duration::from_millis(20)),
                rto: Some(Duration::from_millis(220)),
                snd_mss_bytes: Some(1448),
                since_data_sent: Some(Duration::ZERO),
                ..FlowSample::empty(at, key)
            })
        };
        Track {
            key,
            cookie: number,
            owners: Vec::new(),
            samples: of_it.map(sample).collect(),
            ended: self.open_at(ended) != number,
            interface: None,
            options_error: None,
        }
    }
}

impl Subject for Host {
    type Error = String;

    fn look(&mut self, time: Duration) -> Result<Look, String> {
        let span = (self.now, self.now + time);
        self.now = span.1;
        self.looks += 1;
        let numbers = self.open_at(span.0)..=self.open_at(span.1);
        let own = 1.0 + 0.02 * f64::from(self.looks).sin();
        let is_fast = self.in_force || (self.keeps_speed && !self.made.is_empty());
        let rate = if is_fast { 2e7 } else { 1e7 };
        Ok(Look {
            measure: Measure {
                goodput_bps: (rate * own) as u64,
                ..Measure::default()
            },
            here: Recording {
                flows: numbers.map(|number| self.track(number, span)).collect(),
                began: span.0,
                ended: span.1,
                ..Recording::default()
            },
            // Where a socket is found without a process.
            netns: Netns::Simulated("server".into()),
            there: None,
            close: Vec::new(),
            others: Others::default(),
        })
    }

    fn wait(&mut self, time: Duration) -> Result<(), String> {
        self.now += time;
        Ok(())
    }

    fn wants(&self, _: &Track) -> bool {
        true
    }

    fn lacks(&self, _: &Target) -> Option<&'static str> {
        None
    }

    fn can_reconnect(&self) -> bool {
        false
    }

    fn reconnect(&mut self) -> Result<(), String> {
        Err("the program opens its connections itself".into())
    }

    fn on_listener(&mut self, change: &Change) -> Result<Vec<Change>, String> {
        let mut change = change.clone();
        if let Target::Socket { cookie, .. } = &mut change.target {
            *cookie = LISTENER;
        }
        Ok(vec![change])
    }

    fn settings(&mut self) -> &mut dyn Settings<Error = String> {
        self
    }
}

impl Settings for Host {
    type Error = String;

    fn make(&mut self, _: &str, changes: &[Change]) -> Result<Applied, String> {
        let open = self.open_at(self.now);
        for change in changes {
            if let Target::Socket { cookie, .. } = &change.target
                && ![LISTENER, open].contains(cookie)
            {
                return Err(format!("connection {cookie} does not exist any more"));
            }
            self.made.push(change.target.clone());
        }
        self.in_force = true;
        let is_theirs = self.then_theirs_at.is_some_and(|at| self.made.len() > at);
        let values = |_: &Change| Values {
            from: if is_theirs { "other" } else { "off" }.into(),
            to: "on".into(),
        };
        Ok(Applied {
            transaction: None,
            values: changes.iter().map(values).collect(),
            all_closed: false,
        })
    }

    fn verified(&mut self, _: bool, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn keep(&mut self) -> Result<(), String> {
        self.kept = true;
        Ok(())
    }

    fn undo(&mut self) -> Vec<Undone> {
        if !std::mem::take(&mut self.in_force) {
            return Vec::new();
        }
        self.undone += 1;
        let is_theirs = self.theirs_at == Some(self.undone);
        vec![Undone {
            knob: "a knob".into(),
            how: "as it was".into(),
            is_theirs,
        }]
    }
}

/// Tries a change that acts on open connections at once, and can be taken back.
fn tried(host: &mut Host, knob: &str, to: KnobValue) -> Tried {
    let (tried, design) = tried_so(host, knob, to);
    assert_eq!(design, Design::Alternate);
    tried
}

/// The same, with how it was tried.
fn tried_so(host: &mut Host, knob: &str, to: KnobValue) -> (Tried, Design) {
    let options = FitOptions {
        observe: Duration::from_secs(8),
        slice: Duration::from_secs(1),
        settle: Duration::from_secs(1),
        warm_up: Duration::from_secs(1),
        bound: Duration::from_secs(600),
        extra: Duration::ZERO,
        once: false,
        dry_run: false,
    };
    let proposals = [Proposal {
        side: Side::Local,
        beside: None,
        knob: find_knob(knob).expect("a knob"),
        to,
        live: Live::Now,
        risk: "",
    }];
    let mut designs = Vec::new();
    let cause = (Objective::Goodput, &proposals[..]);
    let tried = fit_given(host, &options, cause, &mut |_, event| {
        if let FitEvent::Trying(_, _, design) = event {
            designs.push(design);
        }
        Ok(())
    });
    let tried = tried.expect("it works").expect("it can be made");
    let design = designs.pop().expect("it was tried");
    assert!(designs.is_empty());
    (tried, design)
}

#[test]
fn what_another_program_sets_meanwhile_is_not_set_over() {
    let knob = "net.ipv4.tcp_slow_start_after_idle";
    let long = Duration::from_secs(100_000);
    let mut host = Host::new(long);
    let alone = tried(&mut host, knob, KnobValue::Flag(false));
    assert!(alone.kept && host.kept, "{:?}", alone.outcome);

    // It is set while the change is in force, and between two times that it is: in the middle, and
    // after the last look, when what was better is made once more.
    for (theirs_at, then_theirs_at, made) in
        [(Some(2), None, 2), (None, Some(1), 2), (None, Some(3), 4)]
    {
        let mut host = Host::new(long);
        (host.theirs_at, host.then_theirs_at) = (theirs_at, then_theirs_at);
        let shared = tried(&mut host, knob, KnobValue::Flag(false));
        let outcome = shared.outcome.expect("it was tried");
        assert_eq!(outcome.answer, Answer::NotDistinguishable);
        let why = outcome.why.expect("it says why");
        assert!(why.contains("something else"), "{why}");
        assert!(!shared.kept && !host.kept && !host.in_force);
        assert_eq!(host.made.len(), made, "it is not made again");
    }
}

#[test]
fn of_connections_that_come_and_go_the_listener_is_changed() {
    let mut host = Host::new(Duration::from_millis(700));
    let tried = tried(&mut host, "nodelay", KnobValue::Flag(true));
    assert!(tried.kept, "{:?}", tried.outcome);
    let is_listener =
        |target: &Target| matches!(target, Target::Socket { cookie, .. } if *cookie == LISTENER);
    assert!(host.made.iter().all(is_listener), "{:?}", host.made);
}

/// CUBIC goes on with the window that BBR found, without a slow-start threshold, and paced: looks
/// at it after BBR tell nothing of what it was before.
#[test]
fn what_was_under_bbr_is_not_looked_at_as_it_was() {
    let mut host = Host::new(Duration::from_secs(100_000));
    host.keeps_speed = true;
    let (tried, design) = tried_so(&mut host, "congestion", KnobValue::Name("bbr".into()));
    assert_eq!(design, Design::BeforeAfter);
    assert!(tried.kept && host.kept, "{:?}", tried.outcome);
    assert_eq!(host.made.len(), 1);
}
