//! What a target was, apart from its name: names are given again, and so are numbers of processes
//! and inodes of namespaces. Start times and cookies are not.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use base::Target;
use serde::{Deserialize, Serialize};

use crate::actuator::Setting;
use crate::error::Result;
use crate::netns::{NAMED_DIR, NetnsHandle};
use crate::process::process_start_ticks;

/// The identity of a target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Inode number of the network namespace.
    pub netns_inode: u64,
    /// Cookie of the network namespace, where it could be read; the journals of earlier versions
    /// have none.
    #[serde(default)]
    pub netns_cookie: Option<u64>,
    /// For a socket, when its process started, in ticks since the boot.
    pub process_start_ticks: Option<u64>,
}

impl Place {
    pub(super) fn of(setting: &Setting, target: &Target) -> Result<Self> {
        Ok(Self {
            netns_inode: setting.netns_inode()?,
            netns_cookie: setting.netns_cookie(),
            process_start_ticks: match target {
                Target::Socket { pid, .. } => process_start_ticks(*pid),
                _ => None,
            },
        })
    }

    /// The namespace itself, wherever it can be reached now: by the name in the target, or, where
    /// that leads elsewhere, as a namespace of another name or of any process.
    pub(super) fn netns(&self, target: &Target) -> Option<NetnsHandle> {
        let is_it = |handle: &NetnsHandle| {
            handle.inode().is_ok_and(|inode| inode == self.netns_inode)
                && match (self.netns_cookie, handle.cookie()) {
                    (Some(then), Some(now)) => then == now,
                    _ => true,
                }
        };
        let by_name = NetnsHandle::open(target.netns()).ok().filter(is_it);
        by_name.or_else(|| {
            let processes = entries(Path::new("/proc")).map(|process| process.join("ns/net"));
            entries(Path::new(NAMED_DIR))
                .chain(processes)
                .filter_map(|path| File::open(path).ok())
                .map(|file| NetnsHandle::from_file(target.netns().clone(), file))
                .find(is_it)
        })
    }

    /// Whether the process of a socket is still the same one. A target without one has none to
    /// lose.
    pub(super) fn process_lives(&self, target: &Target) -> bool {
        match target {
            Target::Socket { pid, .. } => {
                self.process_start_ticks.is_some()
                    && process_start_ticks(*pid) == self.process_start_ticks
            }
            _ => true,
        }
    }
}

fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
}
