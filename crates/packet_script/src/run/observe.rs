//! Plays a script without judging it: what a host does is noted, so that two hosts can be compared.

use std::time::Duration;

use base::Instant;

use super::{Play, ScriptHost, TICK, Told, Value, Wire};
use crate::compare::describe_steady;
use crate::model::{Action, PacketScript, Step};

/// Something that happened while a script was played.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// When, since the script began.
    pub at: Duration,
    /// Event.
    pub what: Happening,
}

/// Kind of event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happening {
    /// The host sent this packet. Its window and timestamps are left out: they depend on how much
    /// memory a device takes for a packet, and on the host's clock.
    Sent(String),
    /// The application called, and this came of it.
    Called(String),
    /// The peer or the network sent something.
    Received,
    /// What was known of the connection after the step, by the names of checks.
    Known(Vec<(&'static str, Option<Value>)>),
}

/// Plays the steps of `script` at their times and notes what the host does. An `out` waits for the
/// next packet, whichever it is; checks are left out, and so are the results that calls should
/// have. After each step the host is asked for `fields`, by the names that checks have.
///
/// # Errors
/// What the host cannot do, and an `out` that nothing answers.
pub fn observe(
    script: &PacketScript,
    host: &mut dyn ScriptHost,
    fields: &[&'static str],
) -> Result<Vec<Observed>, String> {
    let mut play = Play::new(script, host);
    let mut seen = Vec::new();
    for step in &script.steps {
        if play.includes(step) {
            play.observe(step, &mut seen)
                .map_err(|why| format!("line {}: {why}", step.line))?;
            play.know(&step.connection, fields, &mut seen);
        }
    }
    Ok(seen)
}

impl<'a> Play<'a> {
    fn observe(&mut self, step: &'a Step, seen: &mut Vec<Observed>) -> Told<()> {
        let base = self.base(&step.when);
        let name = self.enter(step);
        if let Action::Out(spec) = &step.action {
            let latest = base + step.when.max.unwrap_or(step.when.min + TICK) + self.host.slack();
            let (at, wire) = self.next_packet(latest).ok_or("nothing was sent")?;
            self.previous = at;
            if let Some(label) = &spec.label {
                self.mark(label, at, &wire);
            }
            self.note_packet(at, &wire, seen);
            return Ok(());
        }
        let until = base + step.when.min;
        while let Some((at, wire)) = self.next_packet(until) {
            self.note_packet(at, &wire, seen);
        }
        self.previous = self.host.now();
        let what = match &step.action {
            Action::In(spec) => {
                self.send(name, spec);
                Happening::Received
            }
            Action::Icmp { kind, seq } => {
                let icmp = self.icmp(name, *kind, *seq);
                self.host.handle_icmp(&icmp);
                Happening::Received
            }
            Action::Call(call, _) => {
                let found = self.make_call(name, call)?;
                Happening::Called(format!("{call:?} -> {found:?}"))
            }
            Action::Check(_) | Action::Silence | Action::Out(_) => return Ok(()),
        };
        seen.push(Observed {
            at: self.previous.since(self.start),
            what,
        });
        Ok(())
    }

    fn know(&mut self, name: &str, fields: &[&'static str], seen: &mut Vec<Observed>) {
        if fields.is_empty() {
            return;
        }
        let known = fields
            .iter()
            .map(|field| (*field, self.host.sample(name, field)));
        let what = Happening::Known(known.collect());
        let at = self.previous.since(self.start);
        seen.push(Observed { at, what });
    }

    fn note_packet(&mut self, at: Instant, wire: &Wire, seen: &mut Vec<Observed>) {
        seen.push(Observed {
            at: at.since(self.start),
            what: Happening::Sent(self.account(wire, describe_steady)),
        });
    }
}
