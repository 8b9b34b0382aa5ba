//! A program that keeps several connections open and opens more: old and new ones are compared over
//! the same time, and what is not kept is undone. The connections are made up.

use std::sync::Arc;
use std::time::Duration;

use base::{Change, FlowKey, FlowSample, Instant, KnobValue, Live, Netns, Target, find_knob};
use doctor::{Objective, Proposal, Recording, Side, Track};
use tailor::{
    Answer, Applied, Design, FitEvent, FitOptions, Look, Others, Settings, Subject, Tried, Undone,
    Values, completed, fit_given, measure_of,
};

/// One connection lives this long, and another one is opened every this often.
const LIFE: Duration = Duration::from_secs(40);
const EVERY: Duration = Duration::from_secs(5);
const SAMPLE: Duration = Duration::from_millis(100);

struct Pool {
    now: Instant,
    /// Since when connections are opened with the change.
    changed_at: Option<Instant>,
    /// How many times faster those are.
    gain: f64,
    /// The others are not used any more from then on.
    old_ones_rest: bool,
    undone: bool,
    kept: bool,
}

impl Pool {
    fn new(gain: f64) -> Self {
        Self {
            now: Instant::ZERO + LIFE * 3,
            changed_at: None,
            gain,
            old_ones_rest: false,
            undone: false,
            kept: false,
        }
    }

    /// Bytes per second that a connection carries, a little different for each.
    fn rate(&self, number: u64, opened: Instant) -> f64 {
        let own = 1.0 + 0.03 * (number as f64 * 2.4).sin();
        let is_new = self.changed_at.is_some_and(|changed| opened >= changed);
        1e6 * own * if is_new { self.gain } else { 1.0 }
    }

    fn track(&self, number: u64, from: Instant, until: Instant) -> Option<Track> {
        let opened = Instant::ZERO + EVERY * u32::try_from(number).ok()?;
        let closed = opened + LIFE;
        let (first, last) = (from.max(opened), until.min(closed));
        if first >= last {
            return None;
        }
        let key = FlowKey {
            local: ([10, 0, 0, 1], 40_000 + u16::try_from(number).ok()?).into(),
            remote: ([10, 0, 0, 2], 443).into(),
        };
        let rests_from = self
            .changed_at
            .filter(|changed| self.old_ones_rest && opened < *changed);
        let sample = |at: Instant| {
            let open = at.since(opened);
            let busy = rests_from.map_or(at, |from| from.min(at)).since(opened);
            let rests = busy < open;
            FlowSample {
                cookie: Some(number),
                bytes_acked: Some((busy.as_secs_f64() * self.rate(number, opened)) as u64),
                busy_time: Some(busy),
                unacked_pkts: Some(if rests { 0 } else { 10 }),
                notsent_bytes: Some(if rests { 0 } else { 100_000 }),
                srtt: Some(Duration::from_millis(20)),
                rto: Some(Duration::from_millis(220)),
                snd_mss_bytes: Some(1448),
                since_data_sent: Some(open - busy),
                since_data_received: Some(open),
                ..FlowSample::empty(at, key)
            }
        };
        let looks = std::iter::successors(Some(first), |at| {
            Some(*at + SAMPLE).filter(|next| *next <= last)
        });
        Some(Track {
            key,
            cookie: number,
            owners: Vec::new(),
            samples: looks.map(|at| Arc::new(sample(at))).collect(),
            ended: closed < until,
            interface: None,
            options_error: None,
        })
    }
}

impl Subject for Pool {
    type Error = ();

    fn look(&mut self, time: Duration) -> Result<Look, ()> {
        let (began, ended) = (self.now, self.now + time);
        self.now = ended;
        let recording = Recording {
            flows: (0..1000)
                .filter_map(|number| self.track(number, began, ended))
                .collect(),
            began,
            ended,
            ..Recording::default()
        };
        let measure = measure_of(&recording, |_| true);
        assert_eq!(completed(measure, &recording, |_| true), measure);
        Ok(Look {
            measure,
            here: recording,
            netns: Netns::Own,
            there: None,
            close: Vec::new(),
            others: Others::default(),
        })
    }

    fn wait(&mut self, time: Duration) -> Result<(), ()> {
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

    fn reconnect(&mut self) -> Result<(), ()> {
        Err(())
    }

    fn on_listener(&mut self, _: &Change) -> Result<Vec<Change>, ()> {
        Ok(Vec::new())
    }

    fn settings(&mut self) -> &mut dyn Settings<Error = ()> {
        self
    }
}

impl Settings for Pool {
    type Error = ();

    fn make(&mut self, _: &str, changes: &[Change]) -> Result<Applied, ()> {
        self.changed_at = Some(self.now);
        let values = |_: &Change| Values {
            from: "10".into(),
            to: "20".into(),
        };
        Ok(Applied {
            transaction: None,
            values: changes.iter().map(values).collect(),
            all_closed: false,
        })
    }

    fn verified(&mut self, _: bool, _: &str) -> Result<(), ()> {
        Ok(())
    }

    fn keep(&mut self) -> Result<(), ()> {
        self.kept = true;
        Ok(())
    }

    fn undo(&mut self) -> Vec<Undone> {
        self.undone = true;
        Vec::new()
    }
}

fn tried(pool: &mut Pool, bound: Duration) -> Tried {
    let options = FitOptions {
        observe: Duration::from_secs(8),
        slice: Duration::from_secs(1),
        settle: Duration::from_secs(3),
        warm_up: Duration::from_secs(3),
        bound,
        extra: Duration::ZERO,
        once: false,
        dry_run: false,
    };
    let proposals = [Proposal {
        side: Side::Local,
        beside: None,
        knob: find_knob("route.initcwnd").expect("a knob"),
        to: KnobValue::Number(20),
        live: Live::Reconnect,
        risk: "",
    }];
    let mut designs = Vec::new();
    let tried = fit_given(
        pool,
        &options,
        (Objective::Goodput, &proposals),
        &mut |_, event| {
            if let FitEvent::Trying(_, _, design) = event {
                designs.push(design);
            }
            Ok(())
        },
    );
    assert_eq!(designs, [Design::SideBySide]);
    tried.expect("it works").expect("it can be made")
}

#[test]
fn old_and_new_connections_of_a_pool_are_compared() {
    let check = |gain, answer, is_kept: bool| {
        let mut pool = Pool::new(gain);
        let tried = tried(&mut pool, Duration::from_secs(180));
        let outcome = tried.outcome.expect("it was tried");
        assert_eq!(outcome.answer, answer, "{gain} times as fast: {outcome:?}");
        assert_eq!((pool.kept, pool.undone), (is_kept, !is_kept));
    };
    check(2.0, Answer::Better, true);
    check(0.5, Answer::Worse, false);
    check(1.0, Answer::NotDistinguishable, false);
}

/// As of a pool that hands out the connection that was opened last.
#[test]
fn connections_that_rest_are_not_taken_for_slow_ones() {
    let mut pool = Pool::new(1.0);
    pool.old_ones_rest = true;
    let tried = tried(&mut pool, Duration::from_secs(180));
    let outcome = tried.outcome.expect("it was tried");
    assert_eq!(outcome.answer, Answer::NotDistinguishable, "{outcome:?}");
    assert!(pool.undone && !pool.kept);
    let why = outcome.why.expect("it says why");
    assert!(why.contains("never busy at the same time"), "{why}");
}

#[test]
fn where_no_connection_is_opened_in_time_it_says_so() {
    let mut pool = Pool::new(2.0);
    let tried = tried(&mut pool, Duration::from_secs(4));
    let outcome = tried.outcome.expect("it was tried");
    assert_eq!(outcome.answer, Answer::NotDistinguishable);
    assert_eq!(outcome.time_limit_s, Some(4.0));
    assert_eq!(outcome.why, Some("no connection was opened that stayed"));
    assert!(pool.undone && !pool.kept);
}
