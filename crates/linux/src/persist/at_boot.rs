//! Setting what a plan says, at boot: without a journal, and as much of it as is possible.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::{Change, Instant, Target};

use super::BootPlan;
use crate::actuator::Setting;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::state::State;

/// How long an interface, a route or a queue that is not there yet is waited for, all of them
/// together. The units that the unit waits for have come before.
const PATIENCE: Duration = Duration::from_secs(15);
const RETRY: Duration = Duration::from_millis(200);
/// More than any plan has.
const PLAN_BYTES_MAX: u64 = 16 << 20;

/// Outcome of settings at boot.
#[derive(Debug)]
pub struct AtBoot {
    /// The transaction that made the plan.
    pub transaction: u64,
    /// Its changes, in order.
    pub changes: Vec<SetAtBoot>,
}

/// A change and what became of it at boot.
#[derive(Debug)]
pub struct SetAtBoot {
    /// The requested change.
    pub change: Change,
    /// State before, and state read back.
    pub outcome: Result<(State, State)>,
}

/// Makes the changes of a plan that [`super::Persistence`] has written. One that cannot be made
/// does not keep the others from being made. `stop` ends the waiting.
///
/// # Errors
/// [`Error::Os`] and [`Error::File`] where the plan cannot be read.
pub fn apply_at_boot(path: &Path, stop: &AtomicBool) -> Result<AtBoot> {
    let plan = read(path)?;
    let until = Clock.now() + PATIENCE;
    let set = |change: Change| SetAtBoot {
        outcome: set_patiently(&change, until, stop),
        change,
    };
    Ok(AtBoot {
        transaction: plan.transaction,
        changes: plan.changes.into_iter().map(set).collect(),
    })
}

fn set_patiently(change: &Change, until: Instant, stop: &AtomicBool) -> Result<(State, State)> {
    loop {
        let outcome = set(change);
        let may_come = outcome
            .as_ref()
            .is_err_and(|error| is_not_there_yet(change, error));
        if !may_come || Clock.now() >= until || stop.load(Ordering::SeqCst) {
            return outcome;
        }
        std::thread::sleep(RETRY);
    }
}

fn set(change: &Change) -> Result<(State, State)> {
    let setting = Setting::open(&change.target, &change.knob)?;
    let old = setting.read()?;
    if !setting.is_already(&old, &change.to) {
        setting.write(&change.to)?;
    }
    let now = setting.read()?;
    Ok((old, now))
}

/// An interface, the route to a destination, the way to its next hop; or a queue with a limit that
/// can be changed, which is not the kernel's own: something makes it at every boot.
fn is_not_there_yet(change: &Change, error: &Error) -> bool {
    match error {
        Error::NotFound { .. } => true,
        Error::Refused { .. } => matches!(change.target, Target::Qdisc { .. }),
        Error::Os { source, .. } => matches!(
            source.raw_os_error(),
            Some(libc::ENODEV | libc::ENETUNREACH | libc::EHOSTUNREACH | libc::ENETDOWN)
        ),
        _ => false,
    }
}

fn read(path: &Path) -> Result<BootPlan> {
    let op = format!("read the plan {}", path.display());
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(PLAN_BYTES_MAX).read_to_string(&mut text))
        .map_err(|source: io::Error| Error::Os { op, source })?;
    let wrong = |what: String| Error::File {
        path: path.into(),
        what,
    };
    let plan: BootPlan = serde_json::from_str(&text).map_err(|error| {
        wrong(format!(
            "it is not a plan that `apply --persist` wrote: {error}"
        ))
    })?;
    if plan.schema != BootPlan::SCHEMA {
        return Err(wrong(format!(
            "schema `{}` is not understood; this version reads `{}`",
            plan.schema,
            BootPlan::SCHEMA
        )));
    }
    for (at, change) in plan.changes.iter().enumerate() {
        Setting::check(change).map_err(|error| wrong(format!("change {}: {error}", at + 1)))?;
    }
    Ok(plan)
}
