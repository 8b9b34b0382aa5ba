//! The everyday scenarios, as far as both the kernel and our stack can run them as they are.

use core::time::Duration;

use crate::builtin::{BUILTIN_SCENARIOS, parse_builtin};
use crate::engine::EngineName;
use crate::scenario::{Cell, Scenario};
use crate::workload::Amount;

/// Longer workloads are cut: what decides happens before.
const DURATION_MAX: Duration = Duration::from_secs(4);
/// The congestion control of hosts for which a scenario names none: what is the default of a kernel
/// is decided when it is built.
const CONGESTION: &str = "cubic";

/// All cells of the built-in scenarios that mean the same on the kernel and in virtual time, with
/// the same congestion control on both. `quick` bounds their time further.
#[must_use]
pub fn everyday_cells(quick: Option<Duration>) -> Vec<Cell> {
    let duration_max = quick.map_or(DURATION_MAX, |quick| quick.min(DURATION_MAX));
    let scenarios = BUILTIN_SCENARIOS.iter();
    scenarios
        .map(|(name, text)| parse_builtin(name, text))
        .filter(|scenario| scenario.probe.is_none())
        .flat_map(|scenario| {
            let mut scenario = scenario;
            shorten(&mut scenario, duration_max);
            name_congestion(&mut scenario);
            common_cells(&scenario)
        })
        .collect()
}

/// Cells that both engines can run with the same profile; the kernel has no other.
fn common_cells(scenario: &Scenario) -> Vec<Cell> {
    let virtual_cells = scenario.on(EngineName::Virtual).trials();
    let is_kernels =
        |cell: &Cell| cell.trial.client.profile.is_none() && cell.trial.server.profile.is_none();
    let mut cells = scenario.on(EngineName::Kernel).trials();
    cells.retain(|cell| is_kernels(cell) && virtual_cells.contains(cell));
    cells
}

fn shorten(scenario: &mut Scenario, duration_max: Duration) {
    let cells = scenario.trials();
    let is_long = |cell: &Cell| match cell.trial.workload.amount() {
        Amount::Time(time) => time > duration_max,
        Amount::Bytes(_) | Amount::Operations(_) => false,
    };
    if cells.iter().any(is_long) {
        let duration = base::format_duration(duration_max);
        // A workload that has no time of its own refuses one, and stays as it is.
        drop(scenario.set("workload.duration", &duration));
    }
}

fn name_congestion(scenario: &mut Scenario) {
    let cells = scenario.trials();
    for end in ["client", "server"] {
        let names = |cell: &Cell| {
            let host = if end == "client" {
                &cell.trial.client
            } else {
                &cell.trial.server
            };
            host.settings.contains_key("congestion")
        };
        if !cells.iter().any(names) {
            let set = scenario.set(&format!("{end}.congestion"), CONGESTION);
            set.expect("each host takes a congestion control");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everyday_cells_are_short_and_name_what_kernels_choose() {
        let cells = everyday_cells(None);
        assert!(cells.len() >= 30, "{}", cells.len());
        for cell in &cells {
            if let Amount::Time(time) = cell.trial.workload.amount() {
                assert!(time <= DURATION_MAX, "{}", cell.id);
            }
            let sender = cell.trial.host(cell.trial.workload.sender());
            let named = sender.settings.contains_key("congestion");
            assert!(named, "{}: the host's default", cell.id);
        }
        let has = |id: &str| cells.iter().any(|cell| cell.id == id);
        assert!(has("lan-wwr/nodelay") && has("wan-bulk") && has("lossy-wan/bbr"));
        let quick = everyday_cells(Some(Duration::from_secs(2)));
        assert_eq!(quick.len(), cells.len());
    }

    /// The timer of a delayed ACK ends the mode that `quickack = off` began with the read before;
    /// that read then goes on, and its record is acknowledged at once. The kernel: 35.7 kbit/s.
    #[test]
    fn every_other_record_waits_for_a_delayed_ack() {
        let cells = everyday_cells(None);
        let cell = cells.iter().find(|cell| cell.id == "records/acknowledged");
        let trial = &cell.expect("it is part of the program").trial;
        let stop = core::sync::atomic::AtomicBool::new(false);
        let outcome = crate::Virtual::default().run(trial, &stop, &mut |_| ());
        let goodput = outcome.goodput_bps;
        assert!((33_000..40_000).contains(&goodput), "{goodput}");
    }
}
