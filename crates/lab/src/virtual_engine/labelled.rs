//! Connections of a trial with what a kernel would show of them, and what our stack knows: why
//! each waited, and for how long. Judgements on what is seen are measured against it.

use core::sync::atomic::AtomicBool;
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use base::{FlowSample, Instant, Limit};
use stack::SocketId;

use super::session::{SAMPLE_INTERVAL, VirtualSession};
use super::{BOTH, Virtual, at};
use crate::outcome::Caveat;
use crate::trial::{End, Trial};
use crate::world::Tap;

/// One end of a connection with the truth.
#[derive(Clone, Debug)]
pub struct LabelledFlow {
    /// Which end.
    pub end: End,
    /// Samples in order of time, at least two.
    pub samples: Vec<Arc<FlowSample>>,
    /// How long each limit held it from the first look to the last.
    pub truth: BTreeMap<Limit, Duration>,
}

/// A connection while the trial runs.
#[derive(Debug)]
struct Growing {
    samples: Vec<Arc<FlowSample>>,
    at_first: BTreeMap<Limit, Duration>,
    at_last: BTreeMap<Limit, Duration>,
}

impl Virtual {
    /// Runs a trial from its first packet on for `time`, and shows every connection of both hosts
    /// with its true limits. `stop` ends it early.
    ///
    /// # Errors
    /// The settings of the trial that our stack does not have.
    ///
    /// # Panics
    /// As [`Virtual::run`].
    pub fn labelled(
        &self,
        trial: &Trial,
        time: Duration,
        stop: &AtomicBool,
    ) -> Result<Vec<LabelledFlow>, Vec<Caveat>> {
        self.labelled_beside(trial, time, stop, |_| {})
    }

    /// The same beside a capture: the taps that `tap` makes see the packets at both ends, as those
    /// of [`VirtualSession::add_taps`].
    ///
    /// # Errors
    /// As [`Virtual::labelled`].
    ///
    /// # Panics
    /// As [`Virtual::run`].
    pub fn labelled_and_captured(
        &self,
        trial: &Trial,
        time: Duration,
        stop: &AtomicBool,
        tap: impl Fn(u32) -> Box<dyn Tap>,
    ) -> Result<Vec<LabelledFlow>, Vec<Caveat>> {
        self.labelled_beside(trial, time, stop, |session| session.add_taps(tap))
    }

    fn labelled_beside(
        &self,
        trial: &Trial,
        time: Duration,
        stop: &AtomicBool,
        prepare: impl FnOnce(&mut VirtualSession),
    ) -> Result<Vec<LabelledFlow>, Vec<Caveat>> {
        let mut session = self.start(trial)?;
        prepare(&mut session);
        for end in BOTH {
            let node = session.node(end);
            session.stage.world.watch_every_limit(node);
        }
        let mut growing: [BTreeMap<SocketId, Growing>; 2] = Default::default();
        let until = session.now() + time;
        session.look_until((until, SAMPLE_INTERVAL), stop, |session, _| {
            for end in BOTH {
                grow(session, end, &mut growing[at(end)]);
            }
        });
        let [client, server] = growing;
        let labelled = |end, grown: BTreeMap<SocketId, Growing>| {
            grown
                .into_values()
                .filter(|flow| flow.samples.len() > 1)
                .map(move |flow| flow.labelled(end))
        };
        Ok(labelled(End::Client, client)
            .chain(labelled(End::Server, server))
            .collect())
    }
}

impl Growing {
    fn labelled(mut self, end: End) -> LabelledFlow {
        for (limit, before) in &self.at_first {
            if let Some(time) = self.at_last.get_mut(limit) {
                *time = time.saturating_sub(*before);
            }
        }
        self.at_last.retain(|_, time| !time.is_zero());
        LabelledFlow {
            end,
            samples: self.samples,
            truth: self.at_last,
        }
    }
}

fn grow(session: &VirtualSession, end: End, flows: &mut BTreeMap<SocketId, Growing>) {
    let (now, node): (Instant, _) = (session.now(), session.node(end));
    let world = &session.stage.world;
    for id in world.host(node).sockets() {
        let Some(sample) = world.host(node).sample(now, id) else {
            continue;
        };
        // A kernel does not tell.
        let sample = Arc::new(FlowSample {
            limit: None,
            ..sample
        });
        let held = world.limits_of(node, id);
        match flows.get_mut(&id) {
            Some(flow) => {
                flow.samples.push(sample);
                flow.at_last = held;
            }
            None => {
                let flow = Growing {
                    samples: vec![sample],
                    at_first: held.clone(),
                    at_last: held,
                };
                flows.insert(id, flow);
            }
        }
    }
}
