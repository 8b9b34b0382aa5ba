//! All network namespaces of this machine at once, those of containers too.

use linux::NetnsPlace;

use super::document::{Document, FlowRow};
use super::judged;
use super::page::Drawn;
use crate::commands::watching::{self, Watching};
use crate::output::Output;

/// Namespaces that are watched at the same time, each by a thread.
const NETNS_MAX: usize = 256;

/// Watches them, and asks the doctor about each.
pub(super) fn look(
    watching: &Watching,
    has_page: bool,
    output: &Output,
) -> anyhow::Result<(Document, Drawn)> {
    let filter = watching.filter()?;
    let mut places = linux::all_netns();
    let too_many = places.len().saturating_sub(NETNS_MAX);
    places.truncate(NETNS_MAX);
    let recordings = watching::watch_all(watching, &places, &filter, output);
    let mut whole = Document {
        netns_left_out: too_many,
        ..Document::default()
    };
    let mut flows = Vec::new();
    let mut drawn = Drawn::default();
    for (at, (place, recording)) in places.iter().zip(recordings).enumerate() {
        match recording {
            Ok(recording) => {
                let (document, part) = judged(&recording, &place.netns, &filter, has_page);
                drawn.courses.add(part.courses);
                flows.extend(join(&mut whole, document, place));
            }
            // Our own is always there; others may end meanwhile, or not be ours to enter.
            Err(error) if at == 0 => return Err(error),
            Err(_) => whole.netns_left_out += 1,
        }
    }
    Ok((whole.with_flows(flows), drawn))
}

/// Adds what was seen of one namespace, apart from its connections, which are given back.
fn join(whole: &mut Document, part: Document, place: &NetnsPlace) -> Vec<FlowRow> {
    whole.duration_s = whole.duration_s.max(part.duration_s);
    whole.interrupted |= part.interrupted;
    whole.unseen_processes = whole.unseen_processes.max(part.unseen_processes);
    whole.flows_left_out += part.flows_left_out;
    for mut row in part.host {
        row.container.clone_from(&place.container);
        whole.host.push(row);
    }
    let mut flows = part.flows;
    for flow in &mut flows {
        flow.container.clone_from(&place.container);
    }
    flows
}
