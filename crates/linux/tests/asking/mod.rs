//! What tests ask of a machine before they use it: what is permitted and what is present, never who
//! runs them. Each that does without says so; where `REQUIRE_KERNEL` is set it fails instead.

use std::fmt::Display;
use std::process::Command;

use linux::tun::Tun;
use linux::{LabNetns, Result};

// Each test program uses some of them.
const _: () = {
    let _ = (permitted::<()>, namespace_for_devices, witness, may::<()>);
};

/// Says what was left out, and why.
#[track_caller]
pub(crate) fn skip(why: impl Display) {
    assert!(
        std::env::var_os("REQUIRE_KERNEL").is_none(),
        "REQUIRE_KERNEL is set, but: {why}"
    );
    println!("skipped: {why}");
}

/// What was made; `None`, with a word about it, where this process may not or the kernel cannot.
#[track_caller]
pub(crate) fn permitted<T>(made: Result<T>) -> Option<T> {
    match made {
        Ok(made) => Some(made),
        Err(error) if error.is_missing_privilege() => {
            skip(error);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// A network namespace in which TUN devices can be made.
#[track_caller]
pub(crate) fn namespace_for_devices(side: &str) -> Option<LabNetns> {
    let [netns] = permitted(LabNetns::create([side]))?;
    let tried = netns.handle().run(|| Tun::create("asked0").map(drop));
    permitted(tried.expect("a namespace of ours"))?;
    Some(netns)
}

/// A program that is asked beside ours; `None`, with a word about it, where it is not installed.
#[track_caller]
pub(crate) fn witness(name: &str) -> Option<Command> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
    if !is_there {
        skip(format_args!("`{name}` is not installed"));
    }
    is_there.then(|| Command::new(name))
}

/// Whether a system call was permitted; a refusal is told.
#[track_caller]
pub(crate) fn may<T>(what: &str, called: std::io::Result<T>) -> Option<T> {
    match called {
        Ok(value) => Some(value),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            skip(format_args!("{what}: {error}"));
            None
        }
        Err(error) => panic!("{what}: {error}"),
    }
}
