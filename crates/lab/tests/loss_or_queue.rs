//! Random loss and a queue that overflows look alike, and need opposite advice: paths drawn at
//! random, other ones than those on which the rules were made.

use core::sync::atomic::AtomicBool;
use core::time::Duration;

use base::Rng;
use doctor::{Observation, Timeline, diagnose};
use lab::{EngineName, Trial, Virtual, find_scenario};

/// Of fewer, one path more or less would decide.
const PATHS: usize = 120;
const LOOK: Duration = Duration::from_secs(5);
const WARM_UP: Duration = Duration::from_secs(6);
/// A flow that gets less than this share of the link's rate leaves the path unfilled.
const FULL: f64 = 0.7;

/// A path with one CUBIC flow.
#[derive(Debug)]
struct Drawn {
    rate_kbit: u64,
    rtt_ms: u64,
    loss_percent: &'static str,
    queue_pkts: u64,
}

impl Drawn {
    fn draw(rng: &mut Rng, is_lossy: bool) -> Self {
        let mut one_of = |values: &[u64]| values[rng.below(values.len() as u64) as usize];
        let rate_kbit = 1000 * one_of(&[5, 8, 15, 30, 70, 150]);
        let rtt_ms = one_of(&[8, 15, 25, 50, 90]);
        let bdp_pkts = rate_kbit * rtt_ms / 8 / 1500;
        let loss_percent = ["0.3", "0.7", "1.5", "2.5"][one_of(&[0, 1, 2, 3]) as usize];
        let short = (bdp_pkts * one_of(&[6, 12, 20]) / 100).max(4);
        Self {
            rate_kbit,
            rtt_ms,
            loss_percent: if is_lossy { loss_percent } else { "0" },
            queue_pkts: if is_lossy {
                (2 * bdp_pkts).max(50)
            } else {
                short
            },
        }
    }

    fn trial(&self) -> Trial {
        let mut scenario = find_scenario("wan-bulk").expect("it is part of the program");
        for (key, value) in [
            ("path.rate", format!("{}kbit", self.rate_kbit)),
            ("path.rtt", format!("{}ms", self.rtt_ms)),
            ("path.loss", format!("{}%", self.loss_percent)),
            ("path.queue", format!("{}p", self.queue_pkts)),
            ("client.congestion", "cubic".to_owned()),
            ("workload.duration", "60s".to_owned()),
        ] {
            scenario.set(key, &value).expect("a value of the key");
        }
        scenario.on(EngineName::Virtual).trials().remove(0).trial
    }

    /// The main answer, and the share of the link's rate that the flow got.
    fn answer(&self) -> (Option<&'static str>, f64) {
        let stop = AtomicBool::new(false);
        let mut session = Virtual::default().start(&self.trial()).expect("it runs");
        session.wait(WARM_UP, &stop, &mut |_| ());
        let look = session
            .look((LOOK, lab::SAMPLE_INTERVAL), &stop, &mut |_| ())
            .expect("it goes on");
        let mut timeline = Timeline::new();
        for sample in &look.client.flows[0].samples {
            timeline.push(sample.clone());
        }
        let report = diagnose(&Observation::of(&timeline));
        let got = look.measure.goodput_bps as f64 / (self.rate_kbit as f64 * 1e3);
        (report.main().map(|main| main.diagnosis.id), got)
    }
}

#[test]
fn random_loss_and_full_queues_are_told_apart() {
    let mut rng = Rng::new(99, "loss or queue");
    let (mut lossy, mut named, mut mistaken) = (0, 0, Vec::new());
    for at in 0..PATHS {
        let is_lossy = at % 2 == 0;
        let drawn = Drawn::draw(&mut rng, is_lossy);
        let (answer, got) = drawn.answer();
        let is_starved = is_lossy && got < FULL;
        lossy += usize::from(is_starved);
        named += usize::from(is_starved && answer == Some("random-loss"));
        let is_mistaken = match answer {
            Some("random-loss") => !is_lossy,
            Some("path-full" | "policed" | "bufferbloat") => is_starved,
            _ => false,
        };
        if is_mistaken {
            mistaken.push(format!("{drawn:?}: {answer:?} at {got:.2}"));
        }
    }
    assert!(mistaken.len() <= PATHS / 20, "{mistaken:#?}");
    assert!(named * 4 >= lossy * 3, "{named} of {lossy} named");
}
