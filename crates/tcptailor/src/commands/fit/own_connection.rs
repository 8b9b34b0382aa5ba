//! The result of `fit HOST`: it was found on a test connection of the command, which has ended, and
//! the program that it is for has its own.

use std::fmt::Write;

use base::{Scope, find_knob};
use serde::Serialize;
use tailor::{Fitting, Tried};

use crate::subject::journalled::was_made;

/// Results that stay, and how the program itself gets the rest.
#[derive(Debug, Serialize)]
pub(crate) struct OwnConnection {
    /// Always: the traffic was that of `bench`.
    is_test: bool,
    /// Settings of the test connection, which ended with it.
    ended: Vec<String>,
    /// Settings that stay, for all connections that they cover.
    stays: Vec<LastingChange>,
    /// For the program itself.
    commands: Vec<String>,
}

/// A kept change that outlives the test connection.
#[derive(Debug, Serialize)]
struct LastingChange {
    change: String,
    place: String,
    /// Undoes it.
    undo: Option<String>,
}

impl OwnConnection {
    pub(crate) fn of(fitting: &Fitting) -> Self {
        let kept = || fitting.tried.iter().filter(|tried| tried.kept);
        let settings: Vec<String> = kept()
            .filter(|tried| is_of_socket(tried))
            .flat_map(|tried| &tried.changes)
            .map(|change| format!("{}={}", change.knob, bare(&change.knob, &change.to)))
            .collect();
        let mut commands = Vec::new();
        if !settings.is_empty() {
            let flags: String = settings
                .iter()
                .map(|setting| format!(" --set {setting}"))
                .collect();
            commands.push("tcptailor fit --pid PID".to_owned());
            commands.push(format!("tcptailor run{flags} -- COMMAND"));
        }
        Self {
            is_test: true,
            ended: settings,
            stays: kept()
                .filter(|tried| !is_of_socket(tried))
                .flat_map(stays)
                .collect(),
            commands,
        }
    }

    /// In words, a line for each.
    pub(crate) fn text(&self) -> String {
        let mut text = String::from(
            "test      the traffic was that of this command, on a connection of its own\n",
        );
        if self.stays.is_empty() {
            text.push_str("stays     nothing");
            if !self.ended.is_empty() {
                let ended = self.ended.join(", ");
                write!(text, ": {ended} ended with the test connection").expect("a String grows");
            }
            text.push('\n');
        }
        for (at, stays) in self.stays.iter().enumerate() {
            let word = if at == 0 { "stays     " } else { "          " };
            let undo = stays
                .undo
                .as_ref()
                .map_or_else(String::new, |undo| format!(", until `{undo}`"));
            writeln!(text, "{word}{}, {}{undo}", stays.change, stays.place)
                .expect("a String grows");
        }
        if let [running, from_start] = &self.commands[..] {
            writeln!(text, "program   {running}     while it is running").expect("a String grows");
            writeln!(text, "          {from_start}     from its start").expect("a String grows");
        }
        text.truncate(text.trim_end().len());
        text
    }
}

pub(super) fn is_of_socket(tried: &Tried) -> bool {
    let scope = |knob: &str| find_knob(knob).map(|knob| knob.scope);
    let mut changes = tried.changes.iter();
    changes.all(|change| scope(&change.knob).is_ok_and(|scope| scope == Scope::Socket))
}

fn stays(tried: &Tried) -> Vec<LastingChange> {
    let undo = tried
        .transaction
        .map(|number| format!("tcptailor rollback {number}"));
    let of = |change: &tailor::ChangeMade| LastingChange {
        change: format!("{} = {}", change.knob, change.to),
        place: change.target.clone(),
        undo: undo.clone(),
    };
    let stay = tried.changes.iter().filter(|change| was_made(&change.to));
    stay.map(of).collect()
}

/// A value as `--set` takes it.
pub(super) fn bare(knob: &str, shown: &str) -> String {
    let parsed = find_knob(knob).ok().and_then(|knob| knob.parse(shown).ok());
    parsed.map_or_else(|| shown.to_owned(), |value| value.to_string())
}
