//! All network namespaces of this machine at once, those of containers too.

use std::collections::BTreeMap;

use linux::NetnsPlace;

use super::document::{Document, FlowRow};
use super::judged;
use super::page::Drawn;
use crate::commands::watching::{self, Watching, Where};
use crate::output::Output;

/// Watches them, and asks the doctor about each.
pub(super) fn look(
    watching: &Watching,
    has_page: bool,
    output: &Output,
) -> anyhow::Result<(Document, Drawn)> {
    let filter = watching.filter()?;
    let (places, too_many) = Where::All.places();
    let recordings = watching::watch_all(watching, &places, &filter, output);
    let mut together = Together::new(too_many);
    let mut drawn = Drawn::default();
    for (at, (place, recording)) in places.iter().zip(recordings).enumerate() {
        match recording {
            Ok(recording) => {
                let (document, part) = judged(&recording, &place.netns, &filter, has_page);
                drawn.courses.add(part.courses);
                together.add(document, place);
            }
            // Our own is always there; others may end meanwhile, or not be ours to enter.
            Err(error) if at == 0 => return Err(error),
            Err(error) => together.leave_out(&error),
        }
    }
    Ok((together.document(), drawn))
}

/// One answer of what is said of several namespaces.
#[derive(Debug)]
pub(crate) struct Together {
    /// Without its connections.
    whole: Document,
    flows: Vec<FlowRow>,
}

impl Together {
    /// An empty document; this many namespaces are left out.
    pub(crate) fn new(netns_left_out: usize) -> Self {
        Self {
            whole: Document {
                netns_left_out,
                ..Document::default()
            },
            flows: Vec::new(),
        }
    }

    /// Leaves one more out, for this reason.
    fn leave_out(&mut self, why: &anyhow::Error) {
        let why = why.downcast_ref::<linux::Error>();
        let is_forbidden = why.is_some_and(linux::Error::is_missing_privilege);
        self.whole.netns_left_out += 1;
        self.whole.netns_forbidden += usize::from(is_forbidden);
    }

    /// Adds what is said of one.
    pub(crate) fn add(&mut self, part: Document, place: &NetnsPlace) {
        let Self { whole, flows } = self;
        whole.duration_s = whole.duration_s.max(part.duration_s);
        whole.interrupted |= part.interrupted;
        whole.unseen_processes = whole.unseen_processes.max(part.unseen_processes);
        whole.flows_left_out += part.flows_left_out;
        for mut row in part.host {
            row.container.clone_from(&place.container);
            whole.host.push(row);
        }
        for mut flow in part.flows {
            flow.container.clone_from(&place.container);
            flows.push(flow);
        }
    }

    /// The answer.
    pub(crate) fn document(mut self) -> Document {
        point_to_other_ends(&mut self.flows);
        self.whole.with_flows(self.flows)
    }
}

/// What limits the sender of a connection cannot be seen at its receiving end: where the other end
/// was seen too, says where. Addresses may be those of several namespaces.
fn point_to_other_ends(flows: &mut [FlowRow]) {
    let mut ends: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for (at, flow) in flows.iter().enumerate() {
        ends.entry((flow.local, flow.remote)).or_default().push(at);
    }
    for at in 0..flows.len() {
        let flow = &flows[at];
        if flow.unknown.as_deref() != Some(doctor::SENDER_UNSEEN) || flow.connections > 1 {
            continue;
        }
        let others = ends.get(&(flow.remote, flow.local)).map(Vec::as_slice);
        let ([other], Some([_])) = (
            others.unwrap_or_default(),
            ends.get(&(flow.local, flow.remote)).map(Vec::as_slice),
        ) else {
            continue;
        };
        // One that is unclear, too, says nothing.
        if flows[*other].connections > 1 || flows[*other].verdicts.is_empty() {
            continue;
        }
        flows[at].unknown = Some(
            "this end mainly receives and its program reads promptly; the other end of this \
             connection is on this machine too: its line says what limits the sender"
                .into(),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::diagnose::document::Direction;
    use crate::commands::diagnose::screen::tests::{flow_row, stall};

    #[test]
    fn a_receiver_points_to_the_sender_that_was_seen_too() {
        let sender = || flow_row(5, vec![stall()]);
        let receiver = || {
            let sender = sender();
            FlowRow {
                local: sender.remote,
                remote: sender.local,
                direction: Direction::In,
                verdicts: Vec::new(),
                unknown: Some(doctor::SENDER_UNSEEN.into()),
                ..sender
            }
        };
        let check = |mut flows: Vec<FlowRow>, expected: &str| {
            point_to_other_ends(&mut flows);
            let said = flows[0].unknown.as_deref();
            assert!(said.is_some_and(|said| said.contains(expected)), "{said:?}");
        };
        check(vec![receiver(), sender()], "on this machine too");
        check(vec![receiver()], "only be seen at the other end");
        let unclear = FlowRow {
            verdicts: Vec::new(),
            ..sender()
        };
        check(vec![receiver(), unclear], "only be seen at the other end");
        let brief = FlowRow {
            unknown: Some("too few samples".into()),
            ..receiver()
        };
        check(vec![brief, sender()], "too few samples");
        // Two namespaces with the same addresses and ports.
        check(vec![receiver(), sender(), sender()], "only be seen");
    }
}
