//! The subject of `fit`: a lab path of the kernel, two simulated hosts, a host that runs `serve`,
//! or a program that is running here.

pub(crate) mod host;
pub(crate) mod journalled;
mod lab;
pub(crate) mod path;
pub(crate) mod process;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::{KNOBS, Netns, Scope, Target};
use doctor::Recording;
use linux::{Filter, NetnsHandle, WatchProgress, WatchRequest};

use crate::exit::Problem;
use crate::interrupt;
use crate::output::Output;
use crate::progress::Progress;

/// How often a wait looks whether the user wants to stop.
const STOP_CHECK: Duration = Duration::from_millis(50);

/// Any of them.
pub(crate) type AnySubject<'o> = dyn tailor::Subject<Error = anyhow::Error> + 'o;

/// The sysctls that verdicts are made from.
pub(crate) fn sysctls() -> Vec<&'static str> {
    KNOBS
        .iter()
        .filter(|knob| knob.scope >= Scope::Namespace)
        .map(|knob| knob.name)
        .collect()
}

/// Watches connections of one namespace behind a bar.
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
        interval: tailor::LOOK_INTERVAL,
        stop: Some(interrupt::stop_flag()),
        ..WatchRequest::new(filter, time)
    };
    let bar = Progress::bar(output, "measuring", millis(time));
    let watched = linux::watch(&request, &mut |seen: WatchProgress| {
        bar.set(millis(seen.elapsed));
    })?;
    check_stopped()?;
    Ok(watched)
}

/// Waits behind a bar, and not longer than until `gone`.
fn wait(
    output: &Output,
    label: String,
    time: Duration,
    gone: Option<&AtomicBool>,
) -> anyhow::Result<()> {
    let bar = Progress::bar(output, label, millis(time));
    let began = linux::Clock.now();
    loop {
        check_stopped()?;
        let elapsed = linux::Clock.now().since(began);
        let is_gone = gone.is_some_and(|gone| gone.load(Ordering::Relaxed));
        if elapsed >= time || is_gone {
            return Ok(());
        }
        bar.set(millis(elapsed));
        std::thread::sleep(STOP_CHECK.min(time - elapsed));
    }
}

/// Ctrl-C ends the work; what was changed is undone when the subject is dropped.
pub(crate) fn check_stopped() -> Result<(), Problem> {
    match interrupt::stopped() {
        true => Err(Problem::interrupted("interrupted; nothing stays changed")),
        false => Ok(()),
    }
}

/// Privilege that this process lacks to change something on this machine.
fn lacks(target: &Target) -> Option<&'static str> {
    let is_open = matches!(target, Target::Socket { .. })
        || matches!(target.netns(), Netns::Simulated(_))
        || linux::privilege::may_configure_network();
    (!is_open).then_some("CAP_NET_ADMIN")
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
