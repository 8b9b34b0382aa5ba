//! Receivers of samples during a watch.

use std::fmt;
use std::time::Duration;

use base::FlowSample;
use doctor::{ByCookie, Track};

use super::followed::Followed;

/// Progress of a watch.
#[derive(Clone, Copy, Debug)]
pub struct WatchProgress<'w> {
    /// Time since the start.
    pub elapsed: Duration,
    /// Time that it will take in all.
    pub duration: Duration,
    /// How often all of them were sampled.
    pub looks: u64,
    /// Samples of each connection so far.
    pub tracks: Tracks<'w>,
}

/// Receives everything during a watch.
pub trait WatchObserver {
    /// A sample of a connection that matches, also one that is not kept.
    fn on_look(&mut self, cookie: u64, sample: &FlowSample) {
        let _ = (cookie, sample);
    }

    /// Whether nothing new is expected of a connection, so that few of its samples have to be kept
    /// while it does not change.
    fn is_steady(&self, cookie: u64) -> bool {
        let _ = cookie;
        false
    }

    /// About every tenth of a second.
    fn on_progress(&mut self, progress: WatchProgress<'_>);
}

/// Receives progress only.
pub(super) struct ProgressOnly<'p>(pub(super) &'p mut (dyn FnMut(WatchProgress<'_>) + Send));

impl WatchObserver for ProgressOnly<'_> {
    fn on_progress(&mut self, progress: WatchProgress<'_>) {
        (self.0)(progress);
    }
}

/// The connections that match, while they are watched.
#[derive(Clone, Copy)]
pub struct Tracks<'w> {
    pub(super) flows: &'w ByCookie<Followed>,
}

impl<'w> Tracks<'w> {
    /// Looks at them that are kept.
    #[must_use]
    pub fn samples(self) -> usize {
        self.iter().map(|track| track.samples.len()).sum()
    }

    /// Each of them, also those that have ended, in the order in which they appeared.
    pub fn iter(self) -> impl Iterator<Item = &'w Track> {
        let all = self.flows.iter().map(|(_, followed)| followed);
        let matching = all.filter(|followed| followed.matches);
        matching.map(|followed| &followed.flow)
    }
}

impl fmt::Debug for Tracks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
