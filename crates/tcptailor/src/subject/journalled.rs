//! Settings of this machine, each change behind the journal.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use base::{Change, Instant, Target};
use linux::journal::{self, ExperimentLock, Guard, Transaction};
use linux::{Clock, Journal};

use tailor::{Settings, Undone, Values};

use crate::commands::guard;

/// In place of a value: one of several connections had ended before its change.
const CLOSED: &str = "connection closed";
/// In place of a value: nothing led to one of several other ends.
const UNROUTED: &str = "no route";

/// Whether a change was made, by the value that it was told with.
pub(crate) fn was_made(to: &str) -> bool {
    to != CLOSED && to != UNROUTED
}

/// The settings of real hosts.
pub(crate) struct Journalled {
    /// `None` where nothing is to be changed.
    journal: Option<Journal>,
    // Dropped before its guard, which then has nothing to do.
    unconfirmed: Option<Transaction>,
    guarding: Option<Guarding>,
    // Dropped last: until then no other process experiments.
    _experiments: Option<ExperimentLock>,
}

/// The process that undoes unconfirmed changes if this one cannot.
struct Guarding {
    guard: Guard,
    /// How long one change may stay unconfirmed.
    lease: Duration,
}

impl Journalled {
    /// For a host that is only observed.
    pub(crate) const fn none() -> Self {
        Self {
            journal: None,
            unconfirmed: None,
            guarding: None,
            _experiments: None,
        }
    }

    /// For hosts that end with this process; the journal is in this directory.
    pub(crate) fn of_lab(directory: impl Into<PathBuf>) -> anyhow::Result<Self> {
        Ok(Self {
            journal: Some(Journal::open(directory)?),
            unconfirmed: None,
            guarding: None,
            _experiments: None,
        })
    }

    /// For this machine, on which no other process experiments meanwhile. Even if this process
    /// dies, no change stays unconfirmed for longer than `lease`.
    pub(crate) fn of_machine(lease: Duration) -> anyhow::Result<Self> {
        let journal = Journal::open(Journal::default_directory()?)?;
        let experiments = journal.lock_experiments()?;
        let guard = guard::start(&journal, false)?;
        Ok(Self {
            journal: Some(journal),
            unconfirmed: None,
            guarding: Some(Guarding { guard, lease }),
            _experiments: Some(experiments),
        })
    }

    /// Nothing is unconfirmed any more: a guard that is gone has nothing to miss.
    fn end_lease(&mut self) {
        if let Some(Guarding { guard, .. }) = &mut self.guarding {
            guard.give_until(Instant::MAX).ok();
        }
    }

    fn unconfirmed(&mut self) -> anyhow::Result<&mut Transaction> {
        self.unconfirmed
            .as_mut()
            .context("no change is unconfirmed")
    }
}

impl Settings for Journalled {
    type Error = anyhow::Error;

    fn make(&mut self, reason: &str, changes: &[Change]) -> anyhow::Result<tailor::Applied> {
        if let Some(Guarding { guard, lease }) = &mut self.guarding {
            guard.give_until(Clock.now() + *lease)?;
        }
        let journal = self.journal.as_ref().context("it is only looked at")?;
        let mut transaction = journal.begin(reason)?;
        let mut values = Vec::new();
        let mut closed = 0;
        for change in changes {
            values.push(match transaction.apply(change) {
                Ok(applied) => Values {
                    from: applied.old.to_string(),
                    to: applied.now.to_string(),
                },
                Err(error) => {
                    let is_alone = changes.len() == 1;
                    let Some(gone) = gone(&error, &change.target, is_alone) else {
                        return Err(error.into());
                    };
                    closed += 1;
                    Values {
                        from: String::new(),
                        to: gone.into(),
                    }
                }
            });
        }
        let all_closed = closed == changes.len();
        let applied = tailor::Applied {
            transaction: (!all_closed).then_some(transaction.id()),
            values,
            all_closed,
        };
        // Without a change it ends here.
        self.unconfirmed = (!all_closed).then_some(transaction);
        Ok(applied)
    }

    fn verified(&mut self, better: bool, comparison: &str) -> anyhow::Result<()> {
        Ok(self.unconfirmed()?.verified(better, comparison)?)
    }

    fn keep(&mut self) -> anyhow::Result<()> {
        let transaction = self
            .unconfirmed
            .take()
            .context("no change is unconfirmed")?;
        transaction.keep()?;
        self.end_lease();
        Ok(())
    }

    fn undo(&mut self) -> Vec<Undone> {
        let shown = |undone: journal::Undone| Undone {
            knob: undone.change.knob,
            is_theirs: matches!(undone.how, journal::How::LeftAlone { .. }),
            how: undone.how.to_string(),
        };
        let undone = self.unconfirmed.take().map(Transaction::roll_back);
        self.end_lease();
        undone.into_iter().flatten().map(shown).collect()
    }
}

/// What is told in place of a value where the other end is missing: one of several connections may
/// have ended since it was seen, and one of several clients be where no route leads to.
fn gone(error: &linux::Error, target: &Target, is_alone: bool) -> Option<&'static str> {
    match (error, target) {
        (linux::Error::NotFound { .. }, Target::Socket { .. }) => Some(CLOSED),
        (linux::Error::NotFound { what, .. }, Target::Route { .. }) => {
            (*what == "route to" && !is_alone).then_some(UNROUTED)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use base::{FlowKey, KnobValue, Netns};
    use linux::{ScanRequest, SockDiag};

    use super::*;

    /// Both ends of a connection.
    fn connection() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let client = TcpStream::connect(listener.local_addr().expect("bound")).expect("a server");
        (client, listener.accept().expect("a client").0)
    }

    fn nodelay(socket: &TcpStream) -> Change {
        let key = FlowKey {
            local: socket.local_addr().expect("bound"),
            remote: socket.peer_addr().expect("connected"),
        };
        let mut diag = SockDiag::open().expect("sockets are listed");
        let listed = diag.scan(&ScanRequest::default()).expect("they are listed");
        let own = listed.iter().find(|sample| sample.key == key);
        Change {
            target: Target::Socket {
                netns: Netns::Own,
                pid: std::process::id(),
                cookie: own.and_then(|sample| sample.cookie).expect("it is open"),
                key,
            },
            knob: "nodelay".into(),
            to: KnobValue::Flag(true),
        }
    }

    #[test]
    fn one_client_among_several_to_which_nothing_leads_costs_its_own_change_only() {
        let check = |what: &'static str, is_alone: bool, expected: Option<&str>| {
            let error = linux::Error::NotFound {
                what,
                name: "10.0.0.9".into(),
                hint: String::new(),
            };
            let target = Target::Route {
                netns: Netns::Own,
                destination: "10.0.0.9/32".into(),
            };
            let found = gone(&error, &target, is_alone);
            assert_eq!(found, expected, "{what}, alone: {is_alone}");
            assert!(found.is_none_or(|found| !was_made(found)));
        };
        check("route to", false, Some("no route"));
        check("route to", true, None);
        check("namespace", false, None);
    }

    #[test]
    fn a_connection_that_closes_costs_its_own_change_only() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut settings = Journalled::of_lab(directory.path()).expect("a journal");
        let (first, second) = (connection(), connection());
        let changes = [nodelay(&first.0), nodelay(&second.0)];
        settings.make("both", &changes).expect("both are open");
        assert!(first.0.nodelay().expect("open") && second.0.nodelay().expect("open"));
        settings.undo();
        drop(first);
        let applied = settings.make("one", &changes).expect("one is open");
        let values: Vec<&str> = applied.values.iter().map(|v| v.to.as_str()).collect();
        assert_eq!(values, ["connection closed", "on"]);
        assert!(second.0.nodelay().expect("open"));
        settings.undo();
        assert!(!second.0.nodelay().expect("open"));
        drop(second);
        let none = settings.make("none", &changes).expect("it is no failure");
        assert!(none.all_closed && none.transaction.is_none(), "{none:?}");
        assert_eq!(settings.undo().len(), 0);
    }
}
