use super::*;
use crate::simulated::{Simulated, SimulatedError};
use crate::subject::Subject;
use std::sync::atomic::AtomicBool;

fn look_at(fault: &str) -> Look {
    if let Some((seed, number)) = fault.split_once(':') {
        let case = crate::truth::drawn_cases(seed.parse().unwrap(), 400)
            .swap_remove(number.parse().unwrap());
        println!("{} {:?}", case.label, case.trial.workload);
        let engine = lab::Virtual {
            costs: Some(lab::app::HostCosts::linux()),
            ..Default::default()
        };
        let session = engine.start(&case.trial).unwrap();
        let stop = AtomicBool::new(false);
        let mut subject: Simulated<'_, SimulatedError> =
            Simulated::new(session, &stop, Box::new(|_, _, _| ()));
        subject.wait(case.warm_up).unwrap();
        return subject.look(case.look).unwrap();
    }
    let fault = lab::find_fault(fault).unwrap();
    let engine = lab::Virtual {
        costs: Some(lab::app::HostCosts::linux()),
        ..Default::default()
    };
    let session = engine.start(&fault.trial()).unwrap();
    let stop = AtomicBool::new(false);
    let mut subject: Simulated<'_, SimulatedError> =
        Simulated::new(session, &stop, Box::new(|_, _, _| ()));
    subject.wait(fault.warm_up).unwrap();
    subject.look(fault.observe).unwrap()
}

#[test]
fn debug() {
    for name in std::env::var("FAULTS_TO_SEE")
        .unwrap_or_default()
        .split(',')
        .filter(|s| !s.is_empty())
    {
        let look = look_at(name);
        let place = Place::of(look.here.flows[0].key);
        let seen = Seen::of(&look, place).unwrap();
        println!(
            "{name} SEEN {:?} {:?} {:?} transport {:?}",
            seen.swing,
            seen.crest_bps,
            seen.queue_time(),
            seen.transport_share
        );
        let twin = Twin::of(&look, place);
        match twin {
            Ok(twin) => {
                println!(
                    "best {} {} {} {:?} {:?}\n   {:?}",
                    twin.best.rate_bps,
                    twin.best.queue_pkts,
                    twin.best.rtt,
                    twin.best.loss,
                    twin.best.workload,
                    twin.check
                );
                println!("  {seen:?}");
                for rate in [twin.best.rate_bps, 50e6, 50e6 * 1.2, 50e6 / 1.2] {
                    let draft = Draft {
                        rate_bps: rate,
                        ..twin.best.clone()
                    };
                    let runs: Vec<Seen> = [1, 2]
                        .iter()
                        .flat_map(|s| {
                            draft
                                .run(
                                    *s,
                                    twin.times.bounded(twin.seen.events_per_s(), draft.rtt),
                                    (seen.here, seen.both_ends),
                                    &[],
                                )
                                .unwrap()
                        })
                        .collect();
                    println!(
                        "rate {rate}: distance {:?}",
                        fitting::distance(&seen, &runs)
                    );
                    println!(
                        "{:?} {:?} {:?} {:?}",
                        runs[0].swing,
                        runs[1].swing,
                        runs[0].crest_bps,
                        runs[0].queue_time()
                    );
                }
            }
            Err(why) => println!("{why}"),
        }
    }
}
