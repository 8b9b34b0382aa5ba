use std::time::Duration;

use lab::Scenario;

use super::plan::{Planned, Wanted};
use super::times::Times;
use super::*;
use crate::experiments::read_scenario;

const TEXT: &str = r#"
name = "x1"
about = "Two windows on one path."
runs = 3

[path]
kind = "emulated"
rate = "25mbit"
rtt = "8ms"

[workload]
kind = "bulk"
bytes = "1MiB"

[[variant]]
name = "small"
server.rcvbuf = "16KiB"

[[variant]]
name = "large"
server.rcvbuf = "256KiB"

[[variant]]
name = "ours"
engines = "virtual"

[quick]
runs = 1
engines = "virtual"

[experiment]
ids = "X1 X1a"
document = "netburner"
class = "deviates"
claim = "The larger window carries what the link does, and no more."
engines = "virtual, kernel, tun"
corrections = "D-N9"
not_promised = "The time of a device that nobody here has."

[[published]]
variant = "large"
metric = "duration_us"
value = "658ms"
text = "0.658 s"

[[expect]]
metric = "duration_us"
variant = "large"
min = "330ms"
max = "600ms"
reason = "the link takes 345 ms"

[[expect]]
metric = "duration_us"
variant = "small"
over = "large"
min = "1.3"
reason = "16 KiB per round trip are less than the link carries"
"#;

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
