//! What the tailor works on: a workload that runs, can be looked at, and can be changed. Whether
//! its hosts are real or simulated, the tailor does not know.

pub(crate) mod host;
mod journalled;
mod lab;
pub(crate) mod path;
pub(crate) mod process;
mod simulated;

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ::lab::Measure;
use base::{Change, KNOBS, Scope};
use doctor::Recording;
use linux::{Filter, NetnsHandle, WatchProgress, WatchRequest};

use crate::commands::diagnose::document::FlowRow;
use crate::interrupt;
use crate::output::Output;
use crate::progress::Progress;

/// How often a wait looks whether the user wants to stop.
const STOP_CHECK: Duration = Duration::from_millis(50);

/// A running workload.
pub(crate) trait Subject {
    /// Looks for `time` at the flows and at what the program gets out of them.
    fn look(&mut self, time: Duration) -> anyhow::Result<Sight>;

    /// Waits until `time` has passed or the user stops it.
    fn wait(&mut self, time: Duration) -> anyhow::Result<()>;

    /// Whether [`Subject::reconnect`] is possible.
    fn can_reconnect(&self) -> bool;

    /// Makes the program open its connections anew.
    fn reconnect(&mut self) -> anyhow::Result<()>;

    /// The change that does for the listening socket what `change` does for the accepted one;
    /// `None` where the listener is out of reach.
    fn on_listener(&mut self, change: &Change) -> anyhow::Result<Option<Change>>;

    /// The settings of its hosts.
    fn settings(&mut self) -> &mut dyn Settings;
}

/// Settings that can be changed on trial: a group of changes at a time, to be kept or put back.
/// What is neither kept nor put back when its owner is dropped is put back.
pub(crate) trait Settings {
    /// Makes these changes; on an error none of them is in force. `reason` is for people.
    fn make(&mut self, reason: &str, changes: &[Change]) -> anyhow::Result<Trying>;

    /// Notes what measuring has shown of the changes on trial.
    fn verified(&mut self, better: bool, comparison: &str) -> anyhow::Result<()>;

    /// Keeps the changes on trial.
    fn keep(&mut self) -> anyhow::Result<()>;

    /// Puts back what the changes on trial changed, the last one first.
    fn put_back(&mut self) -> Vec<PutBack>;
}

/// Changes on trial.
#[derive(Debug)]
pub(crate) struct Trying {
    /// By which `tcptailor rollback` knows them.
    pub(crate) transaction: Option<u64>,
    /// In the order in which they were asked for.
    pub(crate) changes: Vec<Made>,
}

/// One change that was made.
#[derive(Debug)]
pub(crate) struct Made {
    /// The value before, with its unit.
    pub(crate) from: String,
    /// The value now, which may be another one than was asked for.
    pub(crate) to: String,
}

/// One change that was put back.
#[derive(Debug)]
pub(crate) struct PutBack {
    pub(crate) knob: String,
    /// What became of it.
    pub(crate) how: String,
}

/// What a look gave.
#[derive(Debug)]
pub(crate) struct Sight {
    pub(crate) measure: Measure,
    /// The flows, the most important first.
    pub(crate) flows: Vec<FlowRow>,
}

/// The sysctls that verdicts are made from.
pub(crate) fn sysctls() -> Vec<&'static str> {
    KNOBS
        .iter()
        .filter(|knob| knob.scope == Scope::Namespace)
        .map(|knob| knob.name)
        .collect()
}

/// Watches flows of one namespace behind a bar.
fn watch(
    output: &Output,
    netns: &NetnsHandle,
    filter: Filter,
    time: Duration,
) -> anyhow::Result<Recording> {
    let sysctls = sysctls();
    let request = WatchRequest {
        netns: Some(netns),
        sysctls: &sysctls,
        stop: Some(interrupt::stop_flag()),
        ..WatchRequest::new(filter, time)
    };
    let bar = Progress::bar(output, "measuring", millis(time));
    let watched = linux::watch(&request, &mut |seen: WatchProgress| {
        bar.set(millis(seen.elapsed));
    })?;
    Ok(watched)
}

/// Waits behind a bar, and not longer than the user wants or until `gone`.
fn wait(output: &Output, label: String, time: Duration, gone: Option<&AtomicBool>) {
    let bar = Progress::bar(output, label, millis(time));
    let began = linux::Clock.now();
    loop {
        let elapsed = linux::Clock.now().since(began);
        let is_gone = gone.is_some_and(|gone| gone.load(std::sync::atomic::Ordering::Relaxed));
        if elapsed >= time || is_gone || interrupt::stopped() {
            return;
        }
        bar.set(millis(elapsed));
        std::thread::sleep(STOP_CHECK.min(time - elapsed));
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
