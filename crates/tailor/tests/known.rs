//! Whether experiments keep what helps and undo what does nothing, where it is known beforehand
//! which is which: on simulated hosts, under steady, bursty and drifting traffic.
//!
//! Each run draws other ones. `SIM_SEED=17` repeats a run; `SIM_RUNS=200` tries this many useless
//! changes and half as many helpful ones (`tcptailor lab experiments` does the same on either
//! engine).

mod promised;
mod seeds;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use lab::Virtual;
use lab::known::{KnownChange, helpful, useless};
use tailor::{Answer, FitOptions, Simulated, SimulatedError, Subject, Tried, fit_given};

static NEVER: AtomicBool = AtomicBool::new(false);

fn options() -> FitOptions {
    FitOptions {
        observe: Duration::from_secs(2),
        slice: Duration::from_secs(1),
        settle: Duration::from_secs(2),
        warm_up: Duration::from_secs(2),
        bound: Duration::from_secs(180),
        extra: Duration::ZERO,
        once: false,
        dry_run: false,
    }
}

fn tried(known: &KnownChange) -> Tried {
    let engine = Virtual::default();
    let session = engine.start(&known.trial).expect("our stack has it");
    let mut subject: Simulated<'_, SimulatedError> =
        Simulated::new(session, &NEVER, Box::new(|_, _, _| ()));
    subject.wait(known.warm_up).expect("it runs");
    let given = (known.objective, &known.proposals[..]);
    let tried = fit_given(&mut subject, &options(), given, &mut |_, _| Ok(()));
    let tried = tried.unwrap_or_else(|error| panic!("{}: {error}", known.name));
    tried.unwrap_or_else(|| panic!("{}: out of reach", known.name))
}

fn show(number: usize, known: &KnownChange, tried: &Tried) {
    let outcome = tried.outcome.as_ref().expect("it was tried");
    println!(
        "{number} {} ({}): {:?}, {}, {:?} times, p {:?}, {} looks{}",
        known.name,
        known.traffic.name(),
        outcome.answer,
        tailor::comparison(outcome),
        outcome.gain,
        outcome.p_value,
        outcome.looks,
        outcome
            .why
            .map_or_else(String::new, |why| format!(": {why}")),
    );
}

/// How many of them are kept.
fn kept(of: fn(u64, usize) -> KnownChange, seed: u64, runs: usize) -> usize {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let work = || {
        let mut kept = 0;
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= runs {
                return kept;
            }
            let known = of(seed, number);
            let tried = tried(&known);
            show(number, &known, &tried);
            let answer = tried.outcome.as_ref().map(|outcome| outcome.answer);
            assert_eq!(tried.kept, answer == Some(Answer::Better));
            kept += usize::from(tried.kept);
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .map(|worker| worker.join().expect("it ended"))
            .sum()
    })
}

#[test]
fn what_does_nothing_is_not_kept() {
    let runs = seeds::number("SIM_RUNS").map_or(36, |runs| runs as usize);
    let kept = kept(useless, seeds::first(), runs);
    println!("{kept} of {runs} useless changes kept");
    assert!(kept <= promised::allowed(runs), "{kept} of {runs}");
}

#[test]
fn what_helps_is_not_undone() {
    let runs = seeds::number("SIM_RUNS").map_or(33, |runs| runs as usize / 2);
    let undone = runs - kept(helpful, seeds::first(), runs);
    println!("{undone} of {runs} helpful changes undone");
    assert!(undone <= promised::allowed(runs), "{undone} of {runs}");
}
