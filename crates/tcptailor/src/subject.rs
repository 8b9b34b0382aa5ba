//! What the tailor works on: a workload that runs, can be looked at, and can be changed.

pub(crate) mod host;
pub(crate) mod lab;
pub(crate) mod process;

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ::lab::Measure;
use base::{Change, KNOBS, Scope};
use linux::{Filter, NetnsHandle, WatchProgress, WatchRequest, Watched};

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
    fn on_listener(&self, change: &Change) -> anyhow::Result<Option<Change>>;
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
) -> anyhow::Result<Watched> {
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
