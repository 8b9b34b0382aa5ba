//! What attackers cost in memory that is really allocated, what stays when they have gone, and
//! whether an honest peer is answered meanwhile.
//!
//! One test in a program of its own: the memory of a process is counted, which tests that run
//! beside it would change. `cargo bench -p tcptailor-stack --bench attacks` prints the same with
//! times.

#[path = "by_hand/attacks.rs"]
#[expect(dead_code, reason = "the tests by hand use the rest")]
mod attacks;
#[path = "by_hand/bounds.rs"]
mod bounds;
#[path = "by_hand/cost.rs"]
mod cost;
#[path = "by_hand/crowd.rs"]
mod crowd;
#[path = "by_hand/crowds.rs"]
mod crowds;
#[path = "by_hand/hand.rs"]
#[expect(dead_code, reason = "the tests by hand use the rest")]
mod hand;
#[path = "by_hand/honest.rs"]
#[expect(dead_code, reason = "times are measured in a benchmark")]
mod honest;

use std::fmt::Write as _;

use attacks::{ATTACKS, scenes};
use cost::{Cost, crowded};
use crowds::{CROWDS, CrowdRow};
use tcptailor_stack::MemoryBudget;
use tcptailor_stack::profile::{self, Profile};

/// No time is measured.
const NO_CLOCK: fn() -> u64 = || 0;

#[test]
fn no_attack_takes_more_memory_than_its_bound() {
    let mut broken = String::new();
    for (name, bound, run) in ATTACKS {
        for (profile, options) in scenes() {
            let what = format!("{name} on {}", profile.name);
            let scene = attacks::Scene::new(&profile, options);
            let cost = cost::of_one((bound, *run), &profile, scene, NO_CLOCK);
            check(&what, &cost, (0, 0), &mut broken);
        }
    }
    for row in CROWDS {
        for profile in crowded() {
            let what = format!("{} on {}", row.name, profile.name);
            let cost = cost::of_crowd(row, profile, NO_CLOCK);
            check(&what, &cost, (row.ahead, row.unanswered), &mut broken);
        }
    }
    check_that_a_budget_matters();
    check_page();
    assert!(broken.is_empty(), "\n{broken}");
}

fn check(what: &str, cost: &Cost, (ahead, unanswered): (u64, u64), broken: &mut String) {
    let Cost {
        packets,
        peak,
        bound,
        left,
        left_bound,
        honest,
    } = cost;
    let line = format!(
        "{what}: {packets} packets, {} of {} KiB, {} of {} KiB left, {} of {} asked in vain, {} ahead",
        peak >> 10,
        bound >> 10,
        left >> 10,
        left_bound >> 10,
        honest.unanswered,
        honest.asked,
        honest.ahead
    );
    println!("{line}");
    let is_right = peak <= bound
        && left <= left_bound
        && honest.ahead <= ahead
        && honest.unanswered <= unanswered;
    if !is_right {
        writeln!(broken, "{line}").expect("a string");
    }
}

/// Without a budget the same costs much more: the attack is one, and the count sees it.
fn check_that_a_budget_matters() {
    let unlimited = |profile: Profile| {
        let mut profile = crowd::small(profile);
        profile.system.memory = MemoryBudget::UNLIMITED;
        profile
    };
    let row = CrowdRow {
        adapt: unlimited,
        ..CROWDS[0]
    };
    let cost = cost::of_crowd(&row, profile::linux_6_18(), NO_CLOCK);
    let limited = CROWDS[0].holds.bytes(&crowd::small(profile::linux_6_18()));
    assert!(cost.peak > limited, "{} of {limited}", cost.peak);
}

/// docs/stack.md has each attack with its bound.
fn check_page() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/stack.md");
    let page = std::fs::read_to_string(path).expect("the page is there");
    let on_one = ATTACKS.iter().map(|(name, bound, _)| {
        let (profile, _) = scenes().swap_remove(0);
        (*name, bound.holds.bytes(&profile))
    });
    let of_many = CROWDS.iter().map(|row| {
        let profile = (row.adapt)(profile::linux_6_18());
        (row.name, row.holds.bytes(&profile))
    });
    for (name, bound) in on_one.chain(of_many) {
        let begin = format!("| {name} |");
        let line = page.lines().find(|line| line.starts_with(&begin));
        let told = line.and_then(|line| line.split(" | ").nth(3));
        assert_eq!(told, Some((bound >> 10).to_string().as_str()), "{name}");
    }
}
