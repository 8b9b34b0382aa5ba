//! A script while it is drawn.

use std::fmt::Write as _;
use std::time::Duration;

use base::Rng;
use packet_script::{Happening, Observed};

use super::{apart_ms, on_stack, parse};

/// The script's clock after the handshake.
const BEGIN_MS: u64 = 60;

/// A script while it is drawn.
pub(super) struct Draft {
    pub(super) rng: Rng,
    pub(super) text: String,
    /// When the next step is, in milliseconds after the start.
    pub(super) clock_ms: u64,
}

impl Draft {
    pub(super) const fn new(rng: Rng, text: String) -> Self {
        Self {
            rng,
            text,
            clock_ms: BEGIN_MS,
        }
    }

    pub(super) fn push(&mut self, step: &str) {
        let _ = writeln!(self.text, "@{}ms {step}", self.clock_ms);
    }

    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        pick(&mut self.rng, from)
    }

    /// True once in `count`.
    pub(super) fn one_in(&mut self, count: u64) -> bool {
        self.rng.below(count) == 0
    }

    /// Lets one of `waits_ms` pass.
    pub(super) fn wait(&mut self, waits_ms: &[u64]) -> Vec<Observed> {
        self.clock_ms += self.pick(waits_ms);
        self.look()
    }

    /// The script; it is watched for a while after its last step.
    pub(super) fn end(mut self, rest_ms: u64) -> String {
        self.clock_ms += rest_ms;
        self.look();
        self.push("none");
        self.text
    }

    /// Sees what our stack has done by now, and moves on where a timer is near.
    pub(super) fn look(&mut self) -> Vec<Observed> {
        let mut seen = self.observed();
        for _ in 0..20 {
            let near = |at: &u64| self.clock_ms.abs_diff(*at) < apart_ms(*at);
            match timers_ms(&seen).into_iter().rfind(near) {
                Some(at) => self.clock_ms = at + apart_ms(at),
                None => break,
            }
            seen = self.observed();
        }
        seen
    }

    fn observed(&self) -> Vec<Observed> {
        let until = self.clock_ms + apart_ms(self.clock_ms);
        let text = format!("{}@{until}ms none\n", self.text);
        on_stack(&parse(&text), &[])
    }
}

/// When packets left that no step called for.
fn timers_ms(seen: &[Observed]) -> Vec<u64> {
    let mut step = Duration::ZERO;
    let mut found = Vec::new();
    for one in seen {
        match one.what {
            Happening::Sent(_) if one.at > step => found.push(one.at.as_millis() as u64),
            Happening::Sent(_) => {}
            _ => step = one.at,
        }
    }
    found
}

pub(super) fn pick<T: Copy>(rng: &mut Rng, from: &[T]) -> T {
    from[rng.below(from.len() as u64) as usize]
}
