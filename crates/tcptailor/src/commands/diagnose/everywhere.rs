//! All network namespaces of this machine at once, those of containers too.

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
            Err(_) => together.leave_out(),
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

    /// Leaves one more out.
    pub(crate) const fn leave_out(&mut self) {
        self.whole.netns_left_out += 1;
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
    pub(crate) fn document(self) -> Document {
        self.whole.with_flows(self.flows)
    }
}
