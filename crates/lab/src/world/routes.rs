//! Routes of a node.

use core::net::IpAddr;
use std::collections::BTreeMap;

/// The routes of a node, each to a link by its number.
#[derive(Debug, Default)]
pub(super) struct Routes {
    by_destination: BTreeMap<IpAddr, usize>,
    default: Option<usize>,
    /// There is another route than the default one: only then a destination matters.
    fork: bool,
}

impl Routes {
    /// Sends what has no route of its own over `link`, unless there is a default route.
    pub(super) fn add_default(&mut self, link: usize) {
        self.default.get_or_insert(link);
        self.look_for_fork();
    }

    /// Sends what goes to `destination` over `link`.
    pub(super) fn add(&mut self, destination: IpAddr, link: usize) {
        self.by_destination.insert(destination, link);
        self.look_for_fork();
    }

    /// The link to `destination`.
    #[inline]
    pub(super) fn find(&self, destination: &IpAddr) -> Option<usize> {
        if !self.fork {
            return self.default;
        }
        let own = self.by_destination.get(destination).copied();
        own.or(self.default)
    }

    fn look_for_fork(&mut self) {
        let mut links = self.by_destination.values();
        self.fork = links.any(|link| Some(*link) != self.default);
    }
}
