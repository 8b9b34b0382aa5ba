//! How often an experiment is wrong, under traffic that is steady, bursty, drifting, or of two
//! modes: counted over changes that do nothing, and over changes that help.

use base::Rng;
use doctor::Objective;
use lab::Measure;
use tailor::{Answer, Arm, Experiment, Outcome};

/// Traffic as an experiment meets it: a rate for every look.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Traffic {
    /// Looks differ by a few percent.
    Steady,
    /// By a factor, each look on its own.
    Bursty,
    /// Up or down all the time, to half or twice as much within twenty looks.
    Drifting,
    /// Either slow or fast, for some looks each.
    TwoModes,
}

const TRAFFIC: [Traffic; 4] = [
    Traffic::Steady,
    Traffic::Bursty,
    Traffic::Drifting,
    Traffic::TwoModes,
];

struct Source {
    traffic: Traffic,
    rng: Rng,
    looks: u32,
    trend: f64,
    is_fast: bool,
}

impl Source {
    fn new(traffic: Traffic, seed: u64) -> Self {
        let mut rng = Rng::new(seed, "traffic");
        let trend = if rng.below(2) == 0 { 0.035 } else { -0.035 };
        Self {
            traffic,
            rng,
            looks: 0,
            trend,
            is_fast: false,
        }
    }

    /// Near enough to a normal variable: the sum of twelve uniform ones (Irwin and Hall).
    fn normal(&mut self) -> f64 {
        let uniform = |rng: &mut Rng| rng.below(1_000_000) as f64 / 1e6;
        (0..12).map(|_| uniform(&mut self.rng)).sum::<f64>() - 6.0
    }

    fn look(&mut self, gain: f64) -> Measure {
        self.looks += 1;
        let noise = self.normal();
        let log = match self.traffic {
            Traffic::Steady => 0.03 * noise,
            Traffic::Bursty => 0.4 * noise,
            Traffic::Drifting => self.trend * f64::from(self.looks) + 0.03 * noise,
            Traffic::TwoModes => {
                if self.rng.below(3) == 0 {
                    self.is_fast = !self.is_fast;
                }
                0.03 * noise + if self.is_fast { 1.5 } else { 0.0 }
            }
        };
        Measure {
            goodput_bps: (1e7 * log.exp() * gain) as u64,
            ..Measure::default()
        }
    }
}

fn run(traffic: Traffic, gain: f64, seed: u64) -> Outcome {
    let mut source = Source::new(traffic, seed);
    let mut experiment = Experiment::alternating(Objective::Goodput);
    loop {
        if let Some(outcome) = experiment.outcome() {
            return outcome;
        }
        let arm = experiment.next();
        let measure = source.look(if arm == Arm::B { gain } else { 1.0 });
        experiment.add(arm, measure);
    }
}

/// How many of `runs` are answered so.
fn count(traffic: Traffic, gain: f64, runs: u64, answer: Answer) -> usize {
    let seeds = 0..runs;
    seeds
        .filter(|seed| run(traffic, gain, *seed).answer == answer)
        .count()
}

#[test]
fn a_change_that_does_nothing_is_kept_in_fewer_than_two_of_a_hundred() {
    for traffic in TRAFFIC {
        let kept = count(traffic, 1.0, 200, Answer::Better);
        println!("{traffic:?}: {kept} of 200 useless changes kept");
        assert!(kept <= 4, "{traffic:?}: {kept} of 200");
    }
}

#[test]
fn a_change_that_harms_is_kept_no_more_often() {
    for traffic in TRAFFIC {
        let kept = count(traffic, 0.7, 100, Answer::Better);
        println!("{traffic:?}: {kept} of 100 harmful changes kept");
        assert!(kept <= 2, "{traffic:?}: {kept} of 100");
    }
}

#[test]
fn a_change_that_helps_is_kept() {
    // Where looks differ by a factor of two, twenty percent are not to be seen in sixteen of them,
    // and the answer says so; twice as much is.
    for (traffic, gain) in [
        (Traffic::Steady, 1.2),
        (Traffic::Drifting, 1.2),
        (Traffic::Bursty, 2.0),
        (Traffic::TwoModes, 6.0),
    ] {
        let undone = 100 - count(traffic, gain, 100, Answer::Better);
        println!("{traffic:?}: {undone} of 100 helpful changes undone");
        assert!(undone <= 2, "{traffic:?}: {undone} of 100");
    }
}

#[test]
fn nothing_at_all_that_comes_through_is_the_worst_value() {
    let dead = Measure::default();
    let alive = Measure {
        goodput_bps: 1_000_000,
        ..dead
    };
    let mut experiment = Experiment::alternating(Objective::Goodput);
    while experiment.outcome().is_none() {
        let arm = experiment.next();
        experiment.add(arm, if arm == Arm::A { dead } else { alive });
    }
    let outcome = experiment.outcome().expect("it ended");
    assert_eq!((outcome.answer, outcome.looks), (Answer::Better, 3));
    let mut neither = Experiment::alternating(Objective::Response);
    while neither.outcome().is_none() {
        neither.add(neither.next(), dead);
    }
    let outcome = neither.outcome().expect("it ended");
    assert_eq!(outcome.answer, Answer::NotDistinguishable);
}

#[test]
fn a_shorter_round_trip_is_no_gain_where_goodput_pays_for_it() {
    let check = |goodput_after, answer, why| {
        let mut experiment = Experiment::alternating(Objective::Rtt);
        while experiment.outcome().is_none() {
            let arm = experiment.next();
            let (srtt, goodput_bps) = match arm {
                Arm::A => (500_000, 10_000_000),
                Arm::B => (25_000, goodput_after),
            };
            let measure = Measure {
                srtt_us: Some(srtt),
                goodput_bps,
                ..Measure::default()
            };
            experiment.add(arm, measure);
        }
        let outcome = experiment.outcome().expect("it ended");
        assert_eq!((outcome.answer, outcome.why), (answer, why));
    };
    check(9_500_000, Answer::Better, None);
    check(6_000_000, Answer::Worse, Some("it costs goodput"));
}

#[test]
fn where_the_old_state_cannot_come_back_it_is_looked_at_first() {
    let mut experiment = Experiment::before_after(Objective::Goodput);
    let mut arms = Vec::new();
    while experiment.outcome().is_none() {
        arms.push(experiment.next());
        experiment.add(experiment.next(), Measure::default());
    }
    assert_eq!(arms, [[Arm::A; 5], [Arm::B; 5]].concat());
}
