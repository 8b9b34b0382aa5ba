//! Findings over time: a line when one begins, a line when it ends, and none in between.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use base::{Instant, Live, Netns, Scope, Target, human};
use doctor::{Confidence, Evidence, Place, Side};
use linux::Setting;
use serde::Serialize;

use super::round::Found;
use crate::commands::diagnose::document::{ChangeRow, FlowRow, VerdictRow};
use crate::commands::diagnose::page::{Asked, remedy};
use crate::commands::diagnose::quoted;

/// A finding has ended when this many rounds in a row did not show it: what comes and goes is one.
const QUIET_ROUNDS: u32 = 2;

/// A finding as it was seen on one connection, or on the host.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Occurrence {
    pub(super) sentence: &'static str,
    pub(super) confidence: Confidence,
    pub(super) evidence: Vec<Evidence>,
    /// The connection; null for a finding of the host.
    pub(super) connection: Option<Connection>,
    /// Proposed change; null where no setting helps.
    pub(super) remedy: Option<Remedy>,
    /// Advice on the program or the path.
    pub(super) remark: String,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Connection {
    pub(super) netns: Netns,
    pub(super) container: Option<String>,
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    pub(super) pid: Option<u32>,
    pub(super) command: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Remedy {
    pub(super) knob: &'static str,
    pub(super) to: String,
    pub(super) side: Side,
    scope: Scope,
    takes_effect: Live,
    risk: &'static str,
    /// Command for this host; null where the change belongs on the other one, where its target here
    /// is unknown, or where no command makes it.
    command: Option<String>,
    /// Commands to apply and to undo the change, for the page.
    #[serde(skip)]
    pub(super) typed: String,
}

impl Occurrence {
    pub(super) fn of(verdict: &VerdictRow, row: &FlowRow) -> Self {
        let connection = Connection {
            netns: row.netns.clone(),
            container: row.container.clone(),
            local: row.local,
            remote: row.remote,
            pid: row.pid,
            command: row.command.clone(),
        };
        Self {
            sentence: verdict.sentence,
            confidence: verdict.confidence,
            evidence: verdict.evidence.clone(),
            remedy: verdict.change.as_ref().map(|change| Remedy {
                knob: change.knob,
                to: change.to_text.clone(),
                side: change.side,
                scope: change.scope,
                takes_effect: change.takes_effect,
                risk: change.risk,
                command: command(change, row),
                typed: typed(change, row),
            }),
            connection: Some(connection),
            remark: verdict.remark.clone(),
        }
    }

    pub(super) fn of_host(verdict: &VerdictRow) -> Self {
        Self {
            sentence: verdict.sentence,
            confidence: verdict.confidence,
            evidence: verdict.evidence.clone(),
            connection: None,
            remedy: None,
            remark: verdict.remark.clone(),
        }
    }
}

#[cfg(test)]
impl Occurrence {
    /// One without a connection and without anything to change.
    pub(super) const fn of_nothing() -> Self {
        Self {
            sentence: "It waits.",
            confidence: Confidence::High,
            evidence: Vec::new(),
            connection: None,
            remedy: None,
            remark: String::new(),
        }
    }
}

#[cfg(test)]
impl Remedy {
    /// One of which only the page tells.
    pub(super) fn to_type(typed: &str) -> Self {
        Self {
            knob: "nodelay",
            to: "on".into(),
            side: Side::Local,
            scope: Scope::Socket,
            takes_effect: Live::Now,
            risk: "",
            command: None,
            typed: typed.into(),
        }
    }
}

/// Command that makes the change: a plan where it reaches open connections, so that it is verified
/// and can be rolled back; else the shell's command, and where no shell can, `fit`.
fn command(change: &ChangeRow, row: &FlowRow) -> Option<String> {
    let target = change.target.as_ref()?;
    if change.takes_effect == Live::Now {
        let diagnose = diagnose_words(row)?;
        return Some(format!(
            "{diagnose} -o plan.json && tcptailor apply plan.json"
        ));
    }
    if let Target::Socket { .. } = target {
        return fit_words(row);
    }
    let setting = Setting::open(target, change.knob).ok()?;
    let command = setting.shell_command(target, &change.to).ok()?;
    (!command.starts_with('#')).then_some(command)
}

/// Command that diagnoses the service of a connection where it is.
fn diagnose_words(row: &FlowRow) -> Option<String> {
    let selected = match row.place {
        Place::Listening(port) => format!("sport = :{port}"),
        Place::Remote(remote) => format!("dport = :{}", remote.port()),
    };
    let netns = netns_words(&row.netns, row.pid)?;
    Some(format!("tcptailor diagnose {netns}{selected}"))
}

fn fit_words(row: &FlowRow) -> Option<String> {
    row.pid.map(|pid| format!("tcptailor fit --pid {pid}"))
}

/// Commands to apply and to undo a change, as on the page of `diagnose`; for a socket that must be
/// opened anew also the command that tries it.
fn typed(change: &ChangeRow, row: &FlowRow) -> String {
    let command = diagnose_words(row);
    let asked = Asked {
        file: None,
        command: command
            .as_deref()
            .unwrap_or("tcptailor diagnose --all-netns"),
    };
    let mut text = remedy::commands(change, &asked);
    let is_tried =
        change.takes_effect != Live::Now && matches!(change.target, Some(Target::Socket { .. }));
    if let Some(fit) = is_tried.then(|| fit_words(row)).flatten() {
        text.push_str("\n# or try it on new connections, and keep it where it helps:\n");
        text.push_str(&format!("{fit}\n# undo it:\ntcptailor rollback"));
    }
    text
}

/// How `diagnose` is told the namespace; `None` where no process is known by which to call it.
fn netns_words(netns: &Netns, pid: Option<u32>) -> Option<String> {
    match (netns, pid) {
        (Netns::Named(name), _) => Some(format!("-N {} ", quoted(name))),
        (Netns::OfProcess(_), Some(pid)) => Some(format!("--pid {pid} ")),
        (Netns::OfProcess(_), None) => None,
        (Netns::Own | Netns::Simulated(_), _) => Some(String::new()),
    }
}

/// A finding that has begun and not ended.
#[derive(Debug)]
struct Open {
    /// The wall clock, as text.
    began: String,
    began_at: Instant,
    quiet_rounds: u32,
}

/// Event for users.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(super) enum Event {
    /// A finding that was not there before.
    FindingBegan {
        service: String,
        diagnosis: &'static str,
        connections: usize,
        /// Mean share of the time, 0 to 1.
        share: f64,
        #[serde(flatten)]
        occurrence: Box<Occurrence>,
    },
    /// Not seen for some rounds.
    FindingEnded {
        service: String,
        diagnosis: &'static str,
        /// When it began.
        began: String,
        lasted_s: f64,
    },
}

impl Event {
    /// One line for people.
    pub(super) fn line(&self) -> String {
        match self {
            Self::FindingBegan {
                service,
                connections,
                share,
                occurrence,
                ..
            } => {
                let fix = match &occurrence.remedy {
                    Some(Remedy {
                        command: Some(command),
                        ..
                    }) => format!("; fix: {command}"),
                    Some(Remedy { knob, to, side, .. }) => match side {
                        Side::Local => format!("; fix: {knob} = {to}"),
                        Side::Remote => format!("; fix, at the other end: {knob} = {to}"),
                    },
                    None => String::new(),
                };
                format!(
                    "{service}: {}, {:.0} % of the time, {}{fix}",
                    occurrence.sentence.trim_end_matches('.'),
                    share * 100.0,
                    human::count(*connections as u64, "connection"),
                )
            }
            Self::FindingEnded {
                service,
                diagnosis,
                lasted_s,
                ..
            } => format!(
                "{service}: {diagnosis} ended after {}",
                human::time(Duration::from_secs_f64(*lasted_s))
            ),
        }
    }
}

/// All findings that are open, by service and diagnosis. Their number is bounded: services have a
/// bound, and diagnoses are those of a table.
#[derive(Debug, Default)]
pub(super) struct Findings {
    open: BTreeMap<(String, &'static str), Open>,
}

impl Findings {
    /// Takes in all that a round has found, by service; what began and ended with it. `wall` is the
    /// time of `now` as text.
    pub(super) fn handle_round<'f>(
        &mut self,
        found: impl IntoIterator<Item = (&'f str, &'static str, &'f Found)>,
        now: Instant,
        wall: &str,
    ) -> Vec<Event> {
        for open in self.open.values_mut() {
            open.quiet_rounds += 1;
        }
        let mut events = Vec::new();
        for (service, diagnosis, found) in found {
            let key = (service.to_owned(), diagnosis);
            if let Some(open) = self.open.get_mut(&key) {
                open.quiet_rounds = 0;
                continue;
            }
            let share = found.shares / found.connections.max(1) as f64;
            events.push(Event::FindingBegan {
                service: service.to_owned(),
                diagnosis,
                connections: found.connections,
                share: (share * 1e4).round() / 1e4,
                occurrence: Box::new(found.occurrence.clone()),
            });
            let open = Open {
                began: wall.to_owned(),
                began_at: now,
                quiet_rounds: 0,
            };
            self.open.insert(key, open);
        }
        self.open.retain(|(service, diagnosis), open| {
            let is_over = open.quiet_rounds >= QUIET_ROUNDS;
            if is_over {
                events.push(Event::FindingEnded {
                    service: service.clone(),
                    diagnosis,
                    began: open.began.clone(),
                    lasted_s: now.since(open.began_at).as_secs_f64(),
                });
            }
            !is_over
        });
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found() -> Found {
        Found {
            connections: 2,
            shares: 1.5,
            share_max: 0.8,
            occurrence: Occurrence::of_nothing(),
        }
    }

    #[test]
    fn a_finding_begins_once_and_ends_once() {
        let mut findings = Findings::default();
        let found = found();
        let mut rounds = 0;
        let mut round = |is_there: bool| {
            rounds += 1;
            let now = Instant::ZERO + Duration::from_secs(10 * rounds);
            let seen = is_there.then_some(("a:1", "nagle-delack-stall", &found));
            let events = findings.handle_round(seen, now, &format!("t{rounds}"));
            events.iter().map(Event::line).collect::<Vec<_>>()
        };
        let began = "a:1: It waits, 75 % of the time, 2 connections";
        assert_eq!(round(true), [began]);
        assert!(round(true).is_empty());
        assert!(round(false).is_empty(), "one round without it");
        assert!(round(true).is_empty(), "it came again");
        assert!(round(false).is_empty());
        let ended = round(false);
        assert_eq!(ended, ["a:1: nagle-delack-stall ended after 50.0 s"]);
        assert!(round(false).is_empty());
        assert_eq!(round(true), [began]);
    }

    #[test]
    fn a_line_says_where_the_fix_is_to_be_made() {
        let check = |side, command: Option<&str>, expected: &str| {
            let mut found = found();
            found.occurrence.remedy = Some(Remedy {
                side,
                command: command.map(str::to_owned),
                ..Remedy::to_type("")
            });
            let seen = [("a:1", "nagle-delack-stall", &found)];
            let events = Findings::default().handle_round(seen, Instant::ZERO, "t");
            let line = events[0].line();
            assert!(line.ends_with(expected), "{line}");
        };
        check(Side::Local, Some("do it"), "; fix: do it");
        check(Side::Local, None, "; fix: nodelay = on");
        check(Side::Remote, None, "; fix, at the other end: nodelay = on");
    }

    #[test]
    fn a_command_is_for_the_namespace_of_its_connection() {
        let check = |netns, pid, expected: Option<&str>| {
            assert_eq!(netns_words(&netns, pid).as_deref(), expected);
        };
        check(Netns::Own, None, Some(""));
        check(Netns::Named("blue".into()), None, Some("-N blue "));
        check(Netns::OfProcess(7), Some(9), Some("--pid 9 "));
        // Without a process the command would be for our own namespace.
        check(Netns::OfProcess(7), None, None);
    }

    #[test]
    fn two_services_have_a_finding_each() {
        let mut findings = Findings::default();
        let found = found();
        let both = ["a:1", "b:2"].map(|service| (service, "nagle-delack-stall", &found));
        let events = findings.handle_round(both, Instant::ZERO, "t");
        assert_eq!(events.len(), 2);
        let events = findings.handle_round([both[0]], Instant::ZERO, "t");
        assert!(events.is_empty());
        let events = findings.handle_round([both[0]], Instant::ZERO, "t");
        assert_eq!(events.len(), 1, "{events:?}");
    }
}
