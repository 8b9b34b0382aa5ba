//! Report on a program that has ended: how it ended, what limited its connections, what would have
//! helped, and how its settings fared.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Duration;

use base::{FlowKey, human};
use doctor::Track;
use linux::supervise::{Ended, SettingOutcome, SocketSetting, Tally};
use serde::Serialize;

use super::compare::Compared;
use super::watched::WatchedRun;
use super::{Args, gain, settings};
use crate::commands::diagnose::document::Document;
use crate::commands::diagnose::{quoted, screen, seen as diagnosed};
use crate::output::{self, Output, push_wrapped};

/// The document `tcptailor/run/1`: how the program ended, and what `diagnose` says.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// The program and its arguments, as a shell reads them.
    command: String,
    /// As a shell shows it: 128 and the number of a signal.
    exit_code: u8,
    /// The signal that ended it.
    signal: Option<i32>,
    /// From its start to its end.
    time_s: f64,
    attribution: Attribution,
    /// How the settings of `--set` fared.
    settings: Vec<SettingRow>,
    /// Sockets that could not be reached to set them.
    unreached: Failures,
    /// Connections of the program that opened without passing by, so that they have no settings.
    bypassed: usize,
    /// Helpful changes, for each main finding.
    helps: Vec<Help>,
    /// Result of `--fit`.
    pub(super) compared: Option<Compared>,
    #[serde(flatten)]
    pub(super) diagnosis: Document,
}

/// How connections are known as the program's.
#[derive(Debug, Serialize)]
struct Attribution {
    /// `calls`: the kernel showed each call that opens one; `owners`: by who was seen holding it.
    by: &'static str,
    /// Why it is not by calls.
    reason: Option<String>,
    /// Connections of this user that ended before their owner was seen.
    unattributed: usize,
    /// Connections that the program began and that were never seen: refused ones, those in another
    /// network namespace, and some of a flood.
    unseen: usize,
}

#[derive(Debug, Serialize)]
struct SettingRow {
    setting: String,
    /// Sockets that have it.
    set: usize,
    refused: Failures,
    /// How often the program wanted to set the option itself.
    overruled: usize,
}

#[derive(Debug, Serialize)]
struct Failures {
    count: usize,
    /// The first reason.
    reason: Option<String>,
}

/// A finding and what would have helped.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Help {
    finding: &'static str,
    /// For `--set`; empty where no setting of the program's own sockets helps.
    set: Vec<String>,
    /// Predicted effect, where known.
    expected: Option<String>,
}

impl From<&Tally> for Failures {
    fn from(tally: &Tally) -> Self {
        Self {
            count: tally.count,
            reason: tally.reason.clone(),
        }
    }
}

impl From<&SettingOutcome> for SettingRow {
    fn from(outcome: &SettingOutcome) -> Self {
        Self {
            setting: outcome.setting.to_string(),
            set: outcome.set,
            refused: (&outcome.refused).into(),
            overruled: outcome.overruled,
        }
    }
}

impl Report {
    pub(super) fn of(args: &Args, seen: &WatchedRun) -> Self {
        let WatchedRun {
            ended,
            time,
            noted,
            unfiltered,
            recording,
        } = seen;
        let netns = args.netns();
        let own = |track: &Track| noted.has(track);
        let is_new = |track: &Track| noted.opened(track);
        let mut diagnosis = diagnosed::diagnose_wanted(recording, &netns, own, is_new);
        // Whose sockets those are does not matter here.
        diagnosis.unseen_processes = 0;
        let own = recording.flows.iter().filter(|track| noted.has(track));
        let bypassed = own.filter(|track| !noted.passed_by(track)).count();
        let helps = helps(recording, &diagnosis, !args.no_predict);
        Self {
            command: args.shown_command(),
            exit_code: ended.shell_code(),
            signal: match ended {
                Ended::Signal(signal) => Some(*signal),
                Ended::Code(_) => None,
            },
            time_s: time.as_secs_f64(),
            attribution: Attribution {
                by: match unfiltered {
                    None => "calls",
                    Some(_) => "owners",
                },
                reason: unfiltered.clone(),
                unattributed: unfiltered.as_ref().map_or(0, |_| unattributed(seen)),
                unseen: unseen(seen),
            },
            settings: noted.outcomes.iter().map(SettingRow::from).collect(),
            unreached: (&noted.unreached).into(),
            bypassed: match unfiltered {
                None => bypassed,
                Some(_) => 0,
            },
            helps,
            compared: None,
            diagnosis,
        }
    }

    pub(super) fn print(&self, args: &Args, output: &Output) -> anyhow::Result<()> {
        let file = args.output.as_deref();
        output.report_aside(("run", self), file, || self.shown(args, output))
    }

    /// The report for people.
    fn shown(&self, args: &Args, output: &Output) -> String {
        let bold = output::Paint::BOLD;
        let ended = match self.signal {
            Some(signal) => format!("ended by signal {signal}"),
            None => format!("exit code {}", self.exit_code),
        };
        let time = human::time(Duration::from_secs_f64(self.time_s));
        let mut text = format!("\n{bold}{}{bold:#}: {ended} after {time}\n\n", self.command);
        let style = screen::Style {
            verbosity: output.verbosity(),
            has_advice: !output.is_quiet(),
            next: "",
        };
        text.push_str(&screen::render(&self.diagnosis, &style));
        self.push_settings(&mut text);
        if !output.is_quiet() {
            self.push_doubts(&mut text, args.no_notify);
        }
        self.push_helps(&mut text);
        match &self.compared {
            Some(compared) => text.push_str(&compared.shown(args)),
            None if output.is_quiet() => {}
            None => text.push_str(&self.next(args)),
        }
        text
    }

    fn push_settings(&self, text: &mut String) {
        for row in &self.settings {
            let sockets = human::count(row.set as u64, "socket");
            write!(text, "set       {} on {sockets}", row.setting).expect("a String grows");
            if row.overruled > 0 {
                let calls = human::count(row.overruled as u64, "call");
                write!(text, "; {calls} of the program to set it overruled")
                    .expect("a String grows");
            }
            text.push('\n');
            push_failures(text, &format!("refused   {} on", row.setting), &row.refused);
        }
        push_failures(text, "not set   on", &self.unreached);
        if self.bypassed > 0 && !self.settings.is_empty() {
            let connections = human::count(self.bypassed as u64, "connection");
            writeln!(
                text,
                "not set   on {connections} opened by io_uring, or handed over by another program"
            )
            .expect("a String grows");
        }
    }

    /// Doubts about which connections belong to the program.
    fn push_doubts(&self, text: &mut String, by_owners: bool) {
        let reason = self.attribution.reason.as_deref().unwrap_or_default();
        if !reason.is_empty() && !by_owners && self.attribution.unattributed == 0 {
            let words = format!(
                "note: the program's calls were not watched ({reason}): short connections may be \
                 missing here"
            );
            push_wrapped(text, &words, "      ", 0);
        }
        if self.attribution.unseen > 0 {
            let count = human::count(self.attribution.unseen as u64, "connection");
            let words = format!(
                "note: the program began {count} more that could not be seen open: refused, in \
                 another network namespace (-N), or too many at once"
            );
            push_wrapped(text, &words, "      ", 0);
        }
        if self.attribution.unattributed > 0 {
            let count = human::count(self.attribution.unattributed as u64, "connection");
            let words = format!(
                "note: {count} ended before their program was seen, and may be of this one: its \
                 calls were not watched ({reason})"
            );
            push_wrapped(text, &words, "      ", 0);
        }
    }

    fn push_helps(&self, text: &mut String) {
        for help in &self.helps {
            let what = match &help.set[..] {
                [] => continue,
                set => format!("{} for {}", set.join(", "), help.finding),
            };
            let expected = help.expected.as_ref();
            let expected = expected.map_or_else(String::new, |expected| format!(": {expected}"));
            text.push_str("helps     ");
            push_wrapped(text, &format!("{what}{expected}"), "          ", 10);
        }
    }

    /// Suggests the next command.
    fn next(&self, args: &Args) -> String {
        let suggested = settings::suggested(&self.diagnosis);
        let already = |setting: &&SocketSetting| !args.set.contains(setting);
        let new: Vec<&SocketSetting> = suggested.iter().filter(already).collect();
        if new.is_empty() {
            return String::new();
        }
        let all = args.set.iter().chain(new);
        let command = with_settings(args, all);
        format!(
            "Next: {command}\n      tcptailor run --fit ...   compares with and without it; it runs \
             the command again\n"
        )
    }
}

/// The command that gives the program these settings.
pub(super) fn with_settings<'s>(
    args: &Args,
    settings: impl Iterator<Item = &'s SocketSetting>,
) -> String {
    let mut command = "tcptailor run".to_owned();
    if let Some(netns) = &args.netns {
        write!(command, " -N {}", quoted(netns)).expect("a String grows");
    }
    for setting in settings {
        write!(command, " --set {setting}").expect("a String grows");
    }
    write!(command, " -- {}", args.shown_command()).expect("a String grows");
    command
}

fn push_failures(text: &mut String, what: &str, failures: &Failures) {
    if failures.count > 0 {
        let sockets = human::count(failures.count as u64, "socket");
        let reason = failures.reason.as_deref().unwrap_or_default();
        writeln!(text, "{what} {sockets}: {reason}").expect("a String grows");
    }
}

/// Helpful changes against the main findings, each once.
fn helps(recording: &doctor::Recording, diagnosis: &Document, predicts: bool) -> Vec<Help> {
    let mut helps = Vec::new();
    for flow in &diagnosis.flows {
        let Some(main) = flow.main().filter(|main| main.finding) else {
            continue;
        };
        let set = settings::of_finding(main);
        let set: Vec<String> = set.iter().map(ToString::to_string).collect();
        // The largest connection speaks for those with the same finding.
        let is_told = |known: &Help| known.finding == main.id && known.set == set;
        if !helps.iter().any(is_told) {
            helps.push(Help {
                finding: main.id,
                expected: gain::expected(recording, flow, main, predicts),
                set,
            });
        }
    }
    helps
}

fn unseen(seen: &WatchedRun) -> usize {
    let tracks = seen.recording.flows.iter();
    let cookies: BTreeSet<u64> = tracks.map(|track| track.cookie).collect();
    let begun = seen.noted.sockets.keys();
    begun.filter(|&cookie| !cookies.contains(cookie)).count()
}

/// Connections of this user that opened while the program ran and whose owner was not seen. Of one
/// with both ends here the ends count once.
fn unattributed(seen: &WatchedRun) -> usize {
    let own = linux::privilege::user_id();
    let recording = &seen.recording;
    let is_unknown = |track: &&Track| {
        let first = track.samples.first();
        let is_own = first.is_some_and(|sample| sample.uid == Some(own));
        let is_new = first.is_some_and(|sample| sample.at > recording.began);
        track.owners.is_empty() && track.ended && is_own && is_new && !seen.noted.has(track)
    };
    let unknown = recording.flows.iter().filter(is_unknown);
    let connection = |track: &Track| {
        let FlowKey { local, remote } = track.key;
        (local.min(remote), local.max(remote))
    };
    let connections: BTreeSet<_> = unknown.map(connection).collect();
    connections.len()
}
