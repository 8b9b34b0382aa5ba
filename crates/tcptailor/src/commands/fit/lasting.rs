//! Remaining steps after a change of a running program's socket: it ends with its connection, and
//! the next one begins as all others do.

use std::fmt::Write;

use base::{Scope, find_knob};
use doctor::Side;
use linux::Setting;
use serde::Serialize;
use tailor::{Fitting, Tried};

use super::own_connection::{bare, is_of_socket};
use crate::commands::diagnose::document::{ChangeRow, FlowRow};

/// A change of a wider scope against a limit, as the doctor proposes it beside that of the socket.
#[derive(Clone, Debug)]
pub(super) struct Wider {
    diagnosis: &'static str,
    change: ChangeRow,
}

impl Wider {
    /// Lasting changes of a row.
    pub(super) fn of(row: &FlowRow) -> Vec<Self> {
        let findings = row.verdicts.iter().filter(|verdict| verdict.finding);
        let changes = findings.flat_map(|verdict| {
            let all = verdict.change.iter().chain(&verdict.alternatives);
            all.map(|change| (verdict.id, change))
        });
        let wider = changes.filter(|(_, change)| {
            change.side == Side::Local && change.scope > Scope::Socket && change.target.is_some()
        });
        wider
            .map(|(diagnosis, change)| Self {
                diagnosis,
                change: change.clone(),
            })
            .collect()
    }

    /// The shell's command for it; `None` where no shell can.
    fn command(&self) -> Option<String> {
        let target = self.change.target.as_ref()?;
        let setting = Setting::open(target, self.change.knob).ok()?;
        let command = setting.shell_command(target, &self.change.to).ok()?;
        (!command.starts_with('#')).then_some(command)
    }
}

/// Results that end with a connection, and how to make them permanent.
#[derive(Debug, Serialize)]
pub(crate) struct Lasting {
    /// Settings of single connections, as `run --set` takes them.
    ends_with_connection: Vec<String>,
    /// Number of these connections.
    #[serde(skip)]
    connections: usize,
    /// For the program's later connections, one of these.
    commands: Vec<Command>,
}

/// A command, and what it is for.
#[derive(Debug, Serialize)]
struct Command {
    command: String,
    reaches: &'static str,
}

impl Lasting {
    /// `None` where all that is kept outlives the connections.
    pub(super) fn of(fitting: &Fitting, wider: &[Wider]) -> Option<Self> {
        let passing: Vec<&Tried> = fitting.tried.iter().filter(|tried| ends(tried)).collect();
        let covered = |tried: &Tried| {
            let mut kept = fitting.tried.iter().filter(|tried| tried.kept);
            kept.any(|other| other.finding.diagnosis == tried.finding.diagnosis && !ends(other))
        };
        let passing: Vec<&Tried> = passing
            .into_iter()
            .filter(|tried| !covered(tried))
            .collect();
        let mut settings: Vec<String> = Vec::new();
        let mut sockets: Vec<&str> = Vec::new();
        for change in passing.iter().flat_map(|tried| &tried.changes) {
            // What was closed meanwhile has no value any more.
            let to = bare(&change.knob, &change.to);
            let setting = format!("{}={to}", change.knob);
            if !find_knob(&change.knob).is_ok_and(|knob| knob.parse(&to).is_ok()) {
                continue;
            }
            if !settings.contains(&setting) {
                settings.push(setting);
            }
            if !sockets.contains(&change.target.as_str()) {
                sockets.push(&change.target);
            }
        }
        if settings.is_empty() {
            return None;
        }
        let is_of = |wider: &&Wider| {
            let mut tried = passing.iter();
            tried.any(|tried| tried.finding.diagnosis == wider.diagnosis)
        };
        let mut commands: Vec<Command> = Vec::new();
        for command in wider.iter().filter(is_of).filter_map(Wider::command) {
            if commands.iter().all(|known| known.command != command) {
                commands.push(Command {
                    command,
                    reaches: "all new connections it covers, of any program",
                });
            }
        }
        let flags: String = settings
            .iter()
            .map(|setting| format!(" --set {setting}"))
            .collect();
        commands.push(Command {
            command: format!("tcptailor run{flags} -- COMMAND"),
            reaches: "this program alone, once it is started so",
        });
        Some(Self {
            ends_with_connection: settings,
            connections: sockets.len(),
            commands,
        })
    }

    /// In words, a line for each.
    pub(super) fn text(&self) -> String {
        let whose = match self.connections {
            0 | 1 => ("this connection".to_owned(), "its socket"),
            several => (format!("these {several} connections"), "their sockets"),
        };
        let mut text = format!(
            "lasts     only as long as {}: {} is set on {} alone\nlater     to \
             have it on the program's later connections{}:",
            whose.0,
            self.ends_with_connection.join(", "),
            whose.1,
            if self.commands.len() == 1 {
                ""
            } else {
                ", one of"
            }
        );
        for Command { command, reaches } in &self.commands {
            write!(text, "\n          {command}\n              {reaches}").expect("a String grows");
        }
        text
    }
}

/// Whether what is kept is gone once its connections have closed: that of a listener is not.
fn ends(tried: &Tried) -> bool {
    tried.kept && is_of_socket(tried) && tried.changes.iter().all(|change| change.live)
}

#[cfg(test)]
mod tests {
    use base::{KnobValue, Live, Netns, Target};
    use doctor::Confidence;
    use lab::Measure;
    use tailor::{ChangeMade, Ending, Finding};

    use super::*;

    fn tried(knob: &str, to: &str, live: bool) -> Tried {
        Tried {
            finding: Finding {
                diagnosis: "random-loss",
                sentence: "",
                limit: None,
                share: 1.0,
                confidence: Confidence::High,
                evidence: Vec::new(),
            },
            changes: vec![ChangeMade {
                knob: knob.into(),
                target: String::new(),
                from: String::new(),
                to: to.into(),
                live,
            }],
            risk: "",
            predicted: None,
            outcome: None,
            kept: true,
            transaction: Some(1),
        }
    }

    fn lasting_with(tried: Vec<Tried>, wider: &[Wider]) -> Option<String> {
        let fitting = Fitting {
            before: Measure::default(),
            after: None,
            tried,
            ending: Ending::Kept,
            left: None,
        };
        Lasting::of(&fitting, wider).map(|lasting| lasting.text())
    }

    fn lasting(tried: Vec<Tried>) -> Option<String> {
        let wider = Wider {
            diagnosis: "random-loss",
            change: ChangeRow {
                knob: "net.ipv4.tcp_slow_start_after_idle",
                to: KnobValue::Flag(false),
                to_text: "off".into(),
                side: Side::Local,
                scope: Scope::Namespace,
                takes_effect: Live::Reconnect,
                risk: "",
                target: Some(Target::Namespace { netns: Netns::Own }),
                at: None,
                requires: None,
            },
        };
        lasting_with(tried, &[wider])
    }

    #[test]
    fn what_ends_with_its_connection_is_told_with_what_lasts() {
        let told = lasting(vec![tried("congestion", "bbr", true)]).expect("it ends");
        for part in [
            "only as long as this connection: congestion=bbr",
            "sysctl -w 'net.ipv4.tcp_slow_start_after_idle=0'",
            "tcptailor run --set congestion=bbr -- COMMAND",
            "later connections, one of:\n",
        ] {
            assert!(told.contains(part), "{part}: {told}");
        }
        let mut two = tried("congestion", "bbr", true);
        let mut second = two.changes[0].clone();
        second.target = "another socket".into();
        two.changes.push(second);
        let told = lasting(vec![two]).expect("they end");
        let part = "only as long as these 2 connections: congestion=bbr is set on their sockets";
        assert!(told.contains(part), "{told}");
        let one = lasting_with(vec![tried("congestion", "bbr", true)], &[]).expect("it ends");
        assert!(one.contains("later connections:\n"), "{one}");
        let of_listener = tried("congestion", "bbr", false);
        assert_eq!(lasting(vec![of_listener]), None, "accepted sockets inherit");
        let of_route = tried("route.congctl", "bbr", false);
        assert_eq!(lasting(vec![of_route.clone()]), None);
        let both = vec![tried("congestion", "bbr", true), of_route];
        assert_eq!(lasting(both), None, "the wider one covers it");
    }
}
