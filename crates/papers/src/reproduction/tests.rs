use std::time::Duration;

use lab::Scenario;

use super::plan::{Planned, Wanted};
use super::times::Times;
use super::*;
use crate::experiments::read_scenario;

const TEXT: &str = include_str!("../../tests/data/x1.toml");

fn scenario() -> Scenario {
    read_scenario("x1.toml", TEXT).unwrap_or_else(|errors| panic!("{errors:?}"))
}

fn wanted(quick: bool) -> Wanted {
    Wanted {
        engines: vec![EngineName::Virtual, EngineName::Kernel, EngineName::Tun],
        quick,
        runs: None,
        costs: None,
    }
}

fn planned(wanted: &Wanted) -> Planned {
    Planned::new(&scenario(), wanted).expect("it is an experiment")
}

#[test]
fn engines_run_what_their_file_says() {
    let shape = |wanted: &Wanted| -> Vec<(EngineName, (usize, usize), usize)> {
        let planned = planned(wanted);
        let on = planned.on.iter();
        on.map(|on| (on.engine, on.runs, on.work.len())).collect()
    };
    use EngineName::{Kernel, Tun, Virtual};
    assert_eq!(
        shape(&wanted(false)),
        [(Virtual, (3, 6), 3), (Kernel, (3, 6), 2), (Tun, (3, 6), 2)]
    );
    assert_eq!(shape(&wanted(true)), [(Virtual, (1, 1), 3)]);
    let one = Wanted {
        engines: vec![Kernel],
        quick: false,
        runs: Some(2),
        costs: None,
    };
    assert_eq!(shape(&one), [(Kernel, (2, 2), 2)]);
    let planned = planned(&one);
    assert_eq!(planned.cells.len(), 2, "nobody runs the third");
    assert_eq!(planned.cell_id(1), "x1/large");
    let not_run: Vec<EngineName> = planned
        .record()
        .not_run
        .iter()
        .map(|no| no.engine)
        .collect();
    assert_eq!(not_run, [Virtual, Tun]);
}

#[test]
fn the_time_left_is_told_once_it_is_known() {
    let mut one = wanted(false);
    one.engines = vec![EngineName::Kernel];
    let all = [planned(&one)];
    let mut times = Times::new(&all, &[all[0].record()], 2);
    assert_eq!(
        (times.left_in_words(), times.share_done()),
        (String::new(), 0.0)
    );
    // Two cells of three runs each.
    times.add((0, 0, 0), Duration::from_secs(10));
    assert_eq!(times.left_in_words(), ", about 50 s left");
    times.add((0, 0, 1), Duration::from_secs(40));
    assert_eq!(times.left_in_words(), ", about 2 min left");
    assert!((times.share_done() - 1.0 / 3.0).abs() < 1e-9);
    times.drop_engine((0, 0, 0));
    assert_eq!(
        (times.left_in_words(), times.share_done()),
        (String::new(), 1.0)
    );
    // What a folder had counts as done.
    let mut record = all[0].record();
    record.found = vec![(EngineName::Kernel, 0, Duration::from_secs(10)); 3];
    let mut times = Times::new(&all, &[record], 2);
    times.add((0, 0, 1), Duration::from_secs(15));
    assert_eq!(times.left_in_words(), ", about 30 s left");
    assert!((times.share_done() - 0.6).abs() < 1e-9);
}
