//! Identity of a target apart from its name: names are given again, and so are inodes of
//! namespaces. Cookies are not, nor are numbers of interfaces before they have gone round. A socket
//! is known by its own cookie, whichever process holds it now.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use base::Target;
use serde::{Deserialize, Serialize};

use crate::actuator::Setting;
use crate::error::Result;
use crate::netns::{NAMED_DIR, NetnsHandle};

/// The identity of a target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetIdentity {
    /// Inode number of the network namespace.
    pub netns_inode: u64,
    /// Cookie of the network namespace, where it could be read; the journals of earlier versions
    /// have none.
    #[serde(default)]
    pub netns_cookie: Option<u64>,
    /// Number of the interface in its namespace, where the target is one or its queue; the journals
    /// of earlier versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_index: Option<u32>,
}

impl TargetIdentity {
    pub(crate) fn of(setting: &Setting) -> Result<Self> {
        Ok(Self {
            netns_inode: setting.netns_inode()?,
            netns_cookie: setting.netns_cookie(),
            link_index: setting.link_index()?,
        })
    }

    /// Whether both are the same, as far as is known of them.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let cookies = (self.netns_cookie, other.netns_cookie);
        self.netns_inode == other.netns_inode
            && !matches!(cookies, (Some(one), Some(another)) if one != another)
            && self.is_same_link(other.link_index)
    }

    /// Whether the interface that has this number now is the one, as far as is known.
    pub(crate) fn is_same_link(&self, now: Option<u32>) -> bool {
        !matches!((self.link_index, now), (Some(then), Some(now)) if then != now)
    }

    /// Whether this namespace is the one.
    pub(crate) fn is_namespace(&self, handle: &NetnsHandle) -> bool {
        handle.inode().is_ok_and(|inode| inode == self.netns_inode)
            && match (self.netns_cookie, handle.cookie()) {
                (Some(then), Some(now)) => then == now,
                _ => true,
            }
    }

    /// The namespace itself, wherever it can be reached now: by the name in the target, or, where
    /// that leads elsewhere, as a namespace of another name or of any process.
    pub(super) fn netns(&self, target: &Target) -> Option<NetnsHandle> {
        let is_it = |handle: &NetnsHandle| self.is_namespace(handle);
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
}

fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
}
