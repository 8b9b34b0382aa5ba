//! Identity of a target apart from its name: names are given again, and so are inodes of
//! namespaces. Cookies are not, nor are numbers of interfaces before they have gone round. A socket
//! is known by its own cookie, whichever process holds it now.

use std::fs;

use base::{Netns, Target};
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
    /// that leads elsewhere, as a namespace of another name or of any process. It bears the name by
    /// which it was reached.
    pub(super) fn netns(&self, target: &Target) -> Option<NetnsHandle> {
        let is_it = |handle: &NetnsHandle| self.is_namespace(handle);
        let by_name = NetnsHandle::open(target.netns()).ok().filter(is_it);
        by_name.or_else(|| {
            let named = entries(NAMED_DIR).map(Netns::Named);
            let processes = entries("/proc").filter_map(|name| name.parse().ok());
            named
                .chain(processes.map(Netns::OfProcess))
                .filter_map(|name| NetnsHandle::open(&name).ok())
                .find(is_it)
        })
    }

    /// The target as this process calls it. That of a journal was named where the change was made:
    /// its `this namespace` may be another one here.
    pub(super) fn named_from_here(&self, target: &Target) -> String {
        let own = Netns::Own;
        if *target.netns() != own
            || NetnsHandle::open(&own).is_ok_and(|own| self.is_namespace(&own))
        {
            return target.to_string();
        }
        let name = match self.netns(target) {
            Some(netns) => netns.name().to_string(),
            None => "a namespace that is gone".into(),
        };
        target.to_string().replace(&own.to_string(), &name)
    }
}

fn entries(directory: &str) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok())
}
