//! The subject of the tailor's work: a workload that runs, can be looked at, and can be changed.
//! Whether its hosts are real or simulated, the tailor does not know.

use std::collections::BTreeSet;
use std::time::Duration;

use base::{Change, FlowKey, Netns, Target};
use doctor::{Case, Cases, Place, Recording, Track};
use lab::Measure;

use crate::arrivals::{self, Arrivals};
use crate::measure::{Others, measure_of};
use crate::observed::Observed;

/// A running workload on two hosts.
pub trait Subject {
    /// Errors of the subject; also that the user wants to stop.
    type Error;

    /// Looks for `time` at the connections and at what the program gets out of them.
    ///
    /// # Errors
    /// Where the workload ended, or cannot be seen any more.
    fn look(&mut self, time: Duration) -> Result<Look, Self::Error>;

    /// Results of one service in a look. A program may have connections of others beside it,
    /// unrelated to the change.
    fn measure_of_service(&self, look: &Look, _place: Place) -> Measure {
        look.measure
    }

    /// Waits for this time.
    ///
    /// # Errors
    /// Where the workload ended meanwhile.
    fn wait(&mut self, time: Duration) -> Result<(), Self::Error>;

    /// Whether a connection belongs to the workload.
    fn wants(&self, track: &Track) -> bool;

    /// Privilege that the user lacks to change something here, such as `CAP_NET_ADMIN`.
    fn lacks(&self, target: &Target) -> Option<&'static str>;

    /// Whether [`Subject::reconnect`] is possible.
    fn can_reconnect(&self) -> bool;

    /// Makes the program open its connections anew.
    ///
    /// # Errors
    /// Where it cannot.
    fn reconnect(&mut self) -> Result<(), Self::Error>;

    /// The changes that do for the listening sockets what `change` does for the accepted one: of
    /// several that share an address (`SO_REUSEPORT`) all, since each accepts some of the
    /// connections. None where the listener is out of reach.
    ///
    /// # Errors
    /// Where the sockets cannot be listed.
    fn on_listener(&mut self, change: &Change) -> Result<Vec<Change>, Self::Error>;

    /// The settings of its hosts.
    fn settings(&mut self) -> &mut dyn Settings<Error = Self::Error>;
}

/// Settings that are changed on trial, a group of changes at a time. What is neither kept nor
/// undone when its owner is dropped is undone.
pub trait Settings {
    /// Why something did not work.
    type Error;

    /// Makes these changes, unconfirmed: if this process dies, they are rolled back. On an error
    /// none of them is in force. Of several connections, those that have ended are left out.
    /// `reason` is for users.
    ///
    /// # Errors
    /// Why one of them could not be made.
    fn make(&mut self, reason: &str, changes: &[Change]) -> Result<Applied, Self::Error>;

    /// Notes what measuring has shown of the unconfirmed changes.
    ///
    /// # Errors
    /// Where the note cannot be written.
    fn verified(&mut self, better: bool, note: &str) -> Result<(), Self::Error>;

    /// Confirms the unconfirmed changes.
    ///
    /// # Errors
    /// Where that cannot be written; then they have been undone.
    fn keep(&mut self) -> Result<(), Self::Error>;

    /// Undoes the unconfirmed changes, the last one first.
    fn undo(&mut self) -> Vec<Undone>;
}

/// Results of a look.
#[derive(Debug)]
pub struct Look {
    /// Results of the program.
    pub measure: Measure,
    /// Recording at the observed end.
    pub here: Recording,
    /// The namespace of that end.
    pub netns: Netns,
    /// The same of the other end, where that can be seen as well.
    pub there: Option<(Recording, Netns)>,
    /// Arrivals at either end, where they were sampled more closely.
    pub close: Vec<Arrivals>,
    /// What others carried meanwhile, where that was counted.
    pub others: Others,
}

impl Look {
    /// From recordings, whose samples may be close; `measure` holds the program's results, from the
    /// recording of the observed end.
    #[must_use]
    pub fn new(
        (here, netns): (Recording, Netns),
        there: Option<(Recording, Netns)>,
        measure: impl FnOnce(&Recording) -> Measure,
    ) -> Self {
        let (here, mut close) = arrivals::apart(here);
        let there = there.map(|(recording, netns)| {
            let (recording, others) = arrivals::apart(recording);
            close.extend(others);
            (recording, netns)
        });
        Self {
            measure: measure(&here),
            here,
            netns,
            there,
            close,
            others: Others::default(),
        }
    }

    /// From a packet capture, which shows both ends of its connections: keeps the end that the
    /// doctor judges, so that nothing counts twice.
    #[must_use]
    pub fn of_capture(mut recording: Recording) -> Self {
        let cases = Cases::of(&recording);
        let cases = cases.select(|_| true);
        let tracks = cases.iter().flat_map(Case::tracks);
        let answered: BTreeSet<FlowKey> = tracks.map(|track| track.key).collect();
        drop(cases);
        recording
            .flows
            .retain(|track| answered.contains(&track.key));
        Self::new((recording, Netns::Own), None, |recording| {
            measure_of(recording, |_| true)
        })
    }

    /// Calls `ask` with what was observed.
    pub fn observed<T>(&self, ask: impl FnOnce(&Observed<'_>) -> T) -> T {
        let here = Observed::new(&self.here, &self.netns);
        match &self.there {
            None => ask(&here),
            Some((recording, netns)) => {
                let there = Observed::new(recording, netns);
                ask(&here.with_other_ends(&there))
            }
        }
    }
}

/// Unconfirmed changes.
#[derive(Clone, Debug)]
pub struct Applied {
    /// By which `tcptailor rollback` knows them; `None` on simulated hosts.
    pub transaction: Option<u64>,
    /// In the order in which they were asked for.
    pub values: Vec<Values>,
    /// All sockets that were to be changed have closed, so that nothing was.
    pub all_closed: bool,
}

/// Values of a changed setting.
#[derive(Clone, Debug)]
pub struct Values {
    /// The value before, with its unit.
    pub from: String,
    /// The value now, which may be another one than was asked for.
    pub to: String,
}

/// One change that was undone.
#[derive(Clone, Debug)]
pub struct Undone {
    /// Its knob.
    pub knob: String,
    /// Result.
    pub how: String,
    /// Whether it was left alone, because something else has changed the setting meanwhile.
    pub is_theirs: bool,
}
