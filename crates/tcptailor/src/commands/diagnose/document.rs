//! The answer as data: what `--json` prints, and what the table is made of.

use base::{Change, KnobValue, Live, Netns, Scope, Target, human};
use capture::CaptureInfo;
use doctor::Side;
use serde::Serialize;
use tailor::sort_rows;
pub(crate) use tailor::{Direction, LimitShare};

use super::service::{self, Counts, Service};

/// The whole answer. Flows with findings come first.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Document {
    /// Seconds that were observed.
    pub(crate) duration_s: f64,
    /// Whether the user ended the observation early.
    pub(crate) interrupted: bool,
    /// Whether the process that was asked for ended first.
    pub(crate) process_ended: bool,
    /// Flows with at least one finding, and findings of the host.
    pub(crate) findings: usize,
    /// Processes whose sockets have no owner here, because we may not look into them.
    pub(crate) unseen_processes: usize,
    /// Connections that were not watched because there were too many.
    pub(crate) flows_left_out: usize,
    /// Properties of the packet capture; absent for live connections and recordings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) capture: Option<CaptureInfo>,
    /// Network namespaces that were not watched, of all that were asked for.
    pub(crate) netns_left_out: usize,
    /// Those of them that this process may not enter.
    #[serde(skip)]
    pub(crate) netns_forbidden: usize,
    /// Connections by what is said of them.
    pub(crate) counts: Counts,
    /// Findings on the host as a whole, such as a listener that does not accept.
    #[serde(rename = "host_findings")]
    pub(crate) host: Vec<HostRow>,
    /// The connections by the program and the place that they belong to.
    pub(crate) services: Vec<Service>,
    pub(crate) flows: Vec<FlowRow>,
}

impl Document {
    /// The same with its connections, sorted and summed up.
    pub(crate) fn with_flows(mut self, mut flows: Vec<FlowRow>) -> Self {
        sort_rows(&mut flows);
        let found = flows.iter().filter(|flow| flow.has_finding()).count();
        self.findings = found + self.host.len();
        self.counts = Counts::of(&flows);
        self.services = service::services(&flows);
        self.flows = flows;
        self
    }

    /// How many namespaces were left out and why, where any were.
    pub(crate) fn netns_left_out(&self) -> Option<String> {
        let others = self.netns_left_out - self.netns_forbidden;
        let why = match (self.netns_forbidden, others) {
            (0, 0) => return None,
            (0, _) => "ended meanwhile, or too many",
            (_, 0) => "entering them needs CAP_SYS_ADMIN, which root has outside of containers",
            _ => "no CAP_SYS_ADMIN to enter them, ended meanwhile, or too many",
        };
        let namespaces = human::count(self.netns_left_out as u64, "namespace");
        Some(format!("{namespaces} left out: {why}"))
    }
}

/// One verdict on a host, or on the part of it that a network namespace is.
#[derive(Debug, Serialize)]
pub(crate) struct HostRow {
    pub(crate) netns: Netns,
    /// The container in the namespace, if there is one.
    pub(crate) container: Option<String>,
    #[serde(flatten)]
    pub(crate) verdict: VerdictRow,
}

/// One connection.
pub(crate) type FlowRow = tailor::FlowRow<true>;
/// One verdict.
pub(crate) type VerdictRow = tailor::VerdictRow<true>;
/// A change, with where to make it if that is known and reachable.
pub(crate) type ChangeRow = tailor::ChangeRow<true>;

/// What the options of a subflow of Multipath TCP need: the kernel made its socket, and no process
/// has a descriptor of it.
pub(super) const ITS_PROGRAM: &str =
    "its program, which alone can set options of a Multipath TCP connection";

/// What this process lacks for a change on this machine.
pub(super) fn lacking(change: &ChangeRow, upper: Option<&str>) -> Option<&'static str> {
    let is_simulated = |netns: &Netns| matches!(netns, Netns::Simulated(_));
    match &change.target {
        // Whose socket it is was not to be seen.
        None if change.side == Side::Local && change.scope == Scope::Socket => {
            Some("root, to find its program")
        }
        Some(Target::Socket { .. }) if upper == Some("mptcp") => Some(ITS_PROGRAM),
        None | Some(Target::Socket { .. }) => None,
        Some(
            Target::Route { netns, .. }
            | Target::Link { netns, .. }
            | Target::Qdisc { netns, .. }
            | Target::Namespace { netns },
        ) => (!is_simulated(netns) && !linux::privilege::may_configure_network())
            .then_some("CAP_NET_ADMIN"),
    }
}

/// Changes that `apply` can make at once: for each finding the live changes of the smallest scope
/// whose target is known. The same change for several flows appears once.
pub(crate) fn plan(flows: &[FlowRow]) -> Vec<Change> {
    let mut planned = Vec::new();
    for verdict in flows
        .iter()
        .filter_map(FlowRow::main)
        .filter(|verdict| verdict.finding && verdict.act)
    {
        let live = || {
            verdict
                .change
                .iter()
                .chain(&verdict.alternatives)
                .filter(|change| change.takes_effect == Live::Now && change.target.is_some())
                .filter(|change| change.requires.is_none())
        };
        let Some(smallest) = live().map(|change| change.scope).min() else {
            continue;
        };
        for row in live().filter(|change| change.scope == smallest) {
            let change = Change {
                target: row.target.clone().expect("filtered above"),
                knob: row.knob.into(),
                to: row.to.clone(),
            };
            add(&mut planned, change);
        }
    }
    planned
}

/// Adds a change. One setting has one value: of two the larger, which suffices for both, and of two
/// names the first.
fn add(planned: &mut Vec<Change>, change: Change) {
    let is_same =
        |known: &&mut Change| (&known.target, &known.knob) == (&change.target, &change.knob);
    let Some(known) = planned.iter_mut().find(is_same) else {
        return planned.push(change);
    };
    match (&mut known.to, change.to) {
        (KnobValue::Number(known), KnobValue::Number(other)) => *known = other.max(*known),
        (KnobValue::Triple(known), KnobValue::Triple(other)) => {
            for (known, other) in known.iter_mut().zip(other) {
                *known = other.max(*known);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_values_for_one_setting_become_one() {
        let change = |knob: &str, to| Change {
            target: Target::Namespace { netns: Netns::Own },
            knob: knob.into(),
            to,
        };
        let rmem = |most| change("net.ipv4.tcp_rmem", KnobValue::Triple([4096, 8192, most]));
        let name = |name: &str| change("congestion", KnobValue::Name(name.into()));
        let mut planned = Vec::new();
        for change in [
            rmem(1000),
            name("bbr"),
            rmem(3000),
            rmem(2000),
            name("reno"),
        ] {
            add(&mut planned, change);
        }
        assert_eq!(planned, [rmem(3000), name("bbr")]);
    }
}
