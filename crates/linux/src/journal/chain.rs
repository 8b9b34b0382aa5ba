//! Changes of one setting on top of each other, of one transaction or of several, and what each of
//! them is undone to when they are undone in any order.
//!
//! A change that is undone while a later one of the same setting is in force writes nothing: it
//! passes its old value on, and undoing the later one restores that. Settings that share their
//! state (the metrics of one route, a buffer and its lock) are taken apart: what the later change
//! did not touch is put back at once, and the rest is passed on.

use base::{Target, find_knob};

use super::entry::{Entry, Step};
use super::history::History;
use super::record::StepId;
use crate::netlink::route::{Destination, Route};
use crate::state::State;

/// A change with the values that it would have, had those before it that were undone never been.
pub(super) struct Link<'h> {
    /// The change.
    pub(super) step: &'h Step,
    /// State that rolling it back restores.
    pub(super) old: State,
    /// Resulting state, where it was recorded.
    pub(super) now: Option<State>,
}

impl<'h> Link<'h> {
    /// A change in the light of those before it.
    pub(super) fn of(history: &'h History, entry: &Entry, step: &'h Step) -> Self {
        let mut link = Self {
            step,
            old: step.old.clone(),
            now: step.now.clone(),
        };
        for (before, lower) in history.steps().rev() {
            let is_passed_here = lower.id < step.id
                && lower.undone
                && lower.passed_to.is_some_and(|newest| newest >= step.id);
            if is_passed_here && is_same_place((before, lower), (entry, step)) {
                link.leave_out(lower);
            }
        }
        link
    }

    /// Takes what `lower` did out of the values.
    fn leave_out(&mut self, lower: &Step) {
        for part in parts(lower) {
            let Some(made) = &lower.now else { continue };
            if is_same_part(part, &self.old, made) {
                let old = with_part(&self.old, part, &lower.old, Absent::Gone);
                self.old = settled(old, &self.step.change.knob);
            }
            let is_own = parts(self.step).contains(&part);
            if let Some(now) = self.now.as_ref().filter(|_| !is_own) {
                let now = with_part(now, part, &lower.old, Absent::Unset);
                self.now = Some(settled(now, &self.step.change.knob));
            }
        }
    }

    /// The later changes in the same place that are in force, oldest first.
    pub(super) fn later(&self, history: &'h History, entry: &Entry) -> Vec<Self> {
        history
            .steps()
            .filter(|(_, later)| later.id > self.step.id && !later.undone)
            .filter(|(after, later)| is_same_place((after, later), (entry, self.step)))
            .map(|(after, later)| Self::of(history, after, later))
            .collect()
    }

    /// The parts of this change that one of the `later` ones has made its own, and which one has:
    /// that which found what this one had made.
    pub(super) fn covered(
        &self,
        later: &[Self],
        is_made: &dyn Fn(&State) -> bool,
    ) -> Vec<(&'static str, StepId)> {
        let by = |part: &'static str| {
            let mut on_top = later
                .iter()
                .filter(|other| parts(other.step).contains(&part));
            let found_ours = |old: &State| match &self.now {
                Some(now) => is_same_part(part, old, now),
                None => is_made(old),
            };
            on_top.find(|other| found_ours(&other.old))
        };
        parts(self.step)
            .into_iter()
            .filter_map(|part| Some((part, by(part)?.step.id)))
            .collect()
    }

    /// Whether others have undone this change: a later one of the same setting found what this one
    /// had found.
    pub(super) fn is_undone_before(&self, later: &[Self]) -> bool {
        let is_same_setting = |other: &&Self| parts(other.step) == parts(self.step);
        let has_changed = self.now.as_ref().is_some_and(|now| !now.same_as(&self.old));
        let mut again = later.iter().filter(is_same_setting);
        has_changed && again.any(|other| other.old.same_as(&self.old))
    }

    /// `state` with everything that the `later` changes made as it is at `present`.
    pub(super) fn under(
        &self,
        state: &State,
        later: &[Self],
        covered: &[(&'static str, StepId)],
        present: &State,
    ) -> State {
        let own = parts(self.step);
        let mut merged = match (state, present) {
            // The route was made by this change and is needed by those on top of it.
            (State::Route { route: None, .. }, State::Route { route: Some(_), .. }) => {
                let own = own.first().copied().unwrap_or_default();
                let unset = with_part(present, own, state, Absent::Unset);
                return settled(unset, &self.step.change.knob);
            }
            _ => state.clone(),
        };
        for other in later {
            for part in parts(other.step) {
                let is_covered = covered.iter().any(|(covered, _)| *covered == part);
                if is_covered || !own.contains(&part) {
                    merged = with_part(&merged, part, present, Absent::Unset);
                }
            }
        }
        settled(merged, &self.step.change.knob)
    }
}

/// Substitute for a part where there is no route to take it from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Absent {
    /// There was no route at all.
    Gone,
    /// The route stays, without the metric.
    Unset,
}

/// The knobs whose values a change sets.
fn parts(step: &Step) -> Vec<&'static str> {
    match find_knob(&step.change.knob) {
        Ok(knob) if knob.name == "buf_lock" => vec!["sndbuf", "rcvbuf"],
        Ok(knob) => vec![knob.name],
        Err(_) => Vec::new(),
    }
}

/// Whether two changes set something that shares its state.
fn is_same_place(a: (&Entry, &Step), b: (&Entry, &Step)) -> bool {
    let ((entry_a, a), (entry_b, b)) = (a, b);
    let shares_parts = || parts(a).iter().any(|part| parts(b).contains(part));
    if entry_a.owner.boot_id != entry_b.owner.boot_id {
        return false;
    }
    match (&a.change.target, &b.change.target) {
        (Target::Socket { cookie: a, .. }, Target::Socket { cookie: b, .. }) => {
            a == b && shares_parts()
        }
        (
            Target::Route {
                destination: first, ..
            },
            Target::Route {
                destination: second,
                ..
            },
        ) => {
            let parsed = |text: &str| text.parse::<Destination>().ok();
            a.place.is_same(&b.place) && parsed(first) == parsed(second)
        }
        (Target::Link { name: first, .. }, Target::Link { name: second, .. })
        | (Target::Qdisc { link: first, .. }, Target::Qdisc { link: second, .. }) => {
            a.place.is_same(&b.place) && first == second && shares_parts()
        }
        (Target::Namespace { .. }, Target::Namespace { .. }) => {
            a.place.is_same(&b.place) && shares_parts()
        }
        _ => false,
    }
}

/// Whether both states have the same value of a part.
fn is_same_part(part: &str, a: &State, b: &State) -> bool {
    if let (Some((locked, bytes)), Some((other_locked, other_bytes))) =
        (buffer(part, a), buffer(part, b))
    {
        // The kernel sizes a buffer that is not locked at will.
        return locked == other_locked && (!locked || bytes == other_bytes);
    }
    match (a, b, find_knob(part)) {
        (State::Route { route: a, .. }, State::Route { route: b, .. }, Ok(knob)) => {
            let metric = |route: &Option<Route>| route.as_ref().and_then(|r| r.metric(knob));
            metric(a) == metric(b)
        }
        _ => a.same_as(b),
    }
}

/// `state` with one part as it is in `from`.
fn with_part(state: &State, part: &str, from: &State, absent: Absent) -> State {
    match (state, from) {
        (State::Buffer { .. } | State::Locks { .. }, _) => with_buffer(state, part, from),
        (State::Route { route, value }, State::Route { route: source, .. }) => {
            if source.is_none() && absent == Absent::Gone {
                return from.clone();
            }
            let (Ok(knob), Some(route)) = (find_knob(part), route) else {
                return state.clone();
            };
            State::Route {
                route: Some(route.with_metric_of(knob, source.as_ref())),
                value: value.clone(),
            }
        }
        _ => from.clone(),
    }
}

/// A state of a route with the value that the knob has in it.
fn settled(state: State, knob: &str) -> State {
    match (state, find_knob(knob)) {
        (State::Route { route, .. }, Ok(knob)) => State::Route {
            value: route.as_ref().and_then(|route| route.metric(knob)),
            route,
        },
        (other, _) => other,
    }
}

/// Whether a buffer is locked, and its size.
fn buffer(part: &str, state: &State) -> Option<(bool, u64)> {
    match (part, state) {
        ("sndbuf" | "rcvbuf", State::Buffer { bytes, locked }) => Some((*locked, *bytes)),
        (
            "sndbuf",
            State::Locks {
                bits, send_bytes, ..
            },
        ) => Some((bits & 1 != 0, *send_bytes)),
        (
            "rcvbuf",
            State::Locks {
                bits,
                receive_bytes,
                ..
            },
        ) => Some((bits & 2 != 0, *receive_bytes)),
        _ => None,
    }
}

fn with_buffer(state: &State, part: &str, from: &State) -> State {
    let Some((is_locked, size)) = buffer(part, from) else {
        return from.clone();
    };
    let mut changed = state.clone();
    match &mut changed {
        State::Buffer { bytes, locked } => (*bytes, *locked) = (size, is_locked),
        State::Locks {
            bits,
            send_bytes,
            receive_bytes,
        } => {
            let (bit, bytes) = match part {
                "sndbuf" => (1, send_bytes),
                _ => (2, receive_bytes),
            };
            *bytes = size;
            *bits = *bits & !bit | if is_locked { bit } else { 0 };
        }
        _ => {}
    }
    changed
}
