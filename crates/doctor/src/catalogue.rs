//! The diagnoses that the doctor knows, a row each: everything else derives from this table.

use core::fmt;

use base::Limit;

use crate::host_timeline::HostTimeline;
use crate::rules::{
    application, host, loss, opening, path, queue, receive_window, send_buffer, small_writes,
    startup,
};
use crate::timeline::Timeline;
use crate::verdict::{Confidence, Verdict};
use crate::view::View;

/// Kind of answer that a diagnosis gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Something to change, or a defect of the program or of the path. Counts for `--fail-on`.
    Finding,
    /// A full answer with nothing to change: "the path is full", "the program is the limit".
    Nothing,
}

/// Objective of a diagnosis's fix, by which a change is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Objective {
    /// Payload per second; more is better.
    Goodput,
    /// Median response time; less is better.
    Response,
    /// 99th percentile of the response time, where only some operations suffer; less is better.
    Tail,
    /// Median time of a transfer: a block between two pauses, or a short connection; less is
    /// better.
    Transfer,
    /// Share of the time with data to deliver in which nothing is acknowledged for longer than a
    /// round trip explains; less is better.
    Stalls,
    /// Smoothed round-trip time while there is traffic; less is better.
    Rtt,
    /// Packets that the sender's own interface drops; fewer are better.
    LocalDrops,
}

/// Evidence of a diagnosis in a packet capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InPackets {
    /// As good as in samples of sockets.
    Shown,
    /// Consistent with the diagnosis, with at most this confidence: confirmation would need a
    /// setting or buffer of a socket, or the load of a processor.
    Consistent(Confidence),
    /// Nothing: only sockets or counters of a host show it.
    Hidden,
}

impl InPackets {
    /// Highest confidence of a verdict from packets alone; `None`: any.
    #[must_use]
    pub const fn confidence_max(self) -> Option<Confidence> {
        match self {
            Self::Shown => None,
            Self::Consistent(most) => Some(most),
            Self::Hidden => Some(Confidence::Low),
        }
    }
}

/// A smaller share of stalls is not distinguishable from none.
const STALLS_MIN: f64 = 0.05;

impl Objective {
    /// Whether a larger value is a better one.
    #[must_use]
    pub const fn larger_is_better(self) -> bool {
        matches!(self, Self::Goodput)
    }

    /// How many times better `after` is than `before`: above 1 is better. Where nothing came
    /// through before, everything is a million times better.
    #[must_use]
    pub fn gain(self, before: f64, after: f64) -> f64 {
        // The quotient of these two is above 1 where `after` is better.
        let (dividend, divisor) = match self {
            Self::Goodput => (after, before),
            Self::Response | Self::Tail | Self::Transfer | Self::Rtt => (before, after),
            // None may be left.
            Self::Stalls => (before + STALLS_MIN, after + STALLS_MIN),
            // None may be dropped.
            Self::LocalDrops => (before + 1.0, after + 1.0),
        };
        dividend / divisor.max(dividend * 1e-6).max(f64::MIN_POSITIVE)
    }
}

/// The questions in their order. Start-up comes before the application: a flow of bursts is idle
/// most of the time, and that alone would make each of them application-limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Opening,
    DeadPath,
    ReceiveWindow,
    Stall,
    Pacing,
    SendBuffer,
    Startup,
    Application,
    Loss,
    Queue,
    PathFull,
    Host,
}

/// How the evidence is looked for, and in what.
#[derive(Clone, Copy)]
pub(crate) enum Rule {
    /// In one direction of a connection.
    Flow(fn(&View<'_>) -> Option<Verdict>),
    /// In a connection that does not carry data yet.
    Opening(fn(&Timeline) -> Option<Verdict>),
    /// In the state that the connections of a host share.
    Host(fn(&HostTimeline) -> Option<Verdict>),
}

/// One cause that the doctor can name.
pub struct Diagnosis {
    /// Short name, such as `nagle-delack-stall`.
    pub id: &'static str,
    /// One sentence for users.
    pub sentence: &'static str,
    /// The limit that it refines; `None` for advice and for causes outside one flow.
    pub limit: Option<Limit>,
    /// Finding or not.
    pub kind: Kind,
    /// Least confidence from which a change is made for it.
    pub act_from: Confidence,
    /// Objective of its fix.
    pub objective: Objective,
    /// Evidence in a capture.
    pub in_packets: InPackets,
    pub(crate) stage: Stage,
    pub(crate) rule: Rule,
}

impl Diagnosis {
    /// Whether it calls for a change or names a defect.
    #[must_use]
    pub fn is_finding(&self) -> bool {
        self.kind == Kind::Finding
    }
}

impl PartialEq for Diagnosis {
    /// Ids are unique.
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for Diagnosis {}

impl fmt::Debug for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id)
    }
}

/// Finds a diagnosis by its id.
#[must_use]
pub fn find_diagnosis(id: &str) -> Option<&'static Diagnosis> {
    DIAGNOSES.iter().find(|diagnosis| diagnosis.id == id)
}

/// Defaults of a row; most rows override a few fields only.
const FINDING: Diagnosis = Diagnosis {
    id: "",
    sentence: "",
    limit: None,
    kind: Kind::Finding,
    act_from: Confidence::Medium,
    objective: Objective::Goodput,
    in_packets: InPackets::Shown,
    stage: Stage::Opening,
    rule: Rule::Flow(|_| None),
};

const NOTHING: Diagnosis = Diagnosis {
    kind: Kind::Nothing,
    ..FINDING
};

/// Every diagnosis in the order of evaluation: stage by stage, and within a stage the more special
/// one first.
pub const DIAGNOSES: &[Diagnosis] = &[
    Diagnosis {
        id: "connect-unanswered",
        sentence: "No answer to the SYN: it is retransmitted and the connection is never \
                   established.",
        limit: Some(Limit::Handshake),
        stage: Stage::Opening,
        rule: Rule::Opening(opening::connect_unanswered),
        ..FINDING
    },
    Diagnosis {
        id: "pmtu-blackhole",
        sentence: "Small packets arrive, full-sized ones are dropped without an ICMP message (path \
                   MTU black hole): the connection hangs as soon as it sends a full segment.",
        limit: Some(Limit::Recovery),
        objective: Objective::Stalls,
        stage: Stage::DeadPath,
        rule: Rule::Flow(path::pmtu_blackhole),
        ..FINDING
    },
    Diagnosis {
        id: "idle-connection-cut",
        sentence: "After an idle period this connection gets no answers, while others to the same \
                   host do: a NAT or firewall on the path has dropped its state.",
        limit: Some(Limit::Recovery),
        objective: Objective::Stalls,
        stage: Stage::DeadPath,
        rule: Rule::Flow(path::idle_connection_cut),
        ..FINDING
    },
    Diagnosis {
        id: "path-dead",
        sentence: "Nothing that is sent is acknowledged: the path or the other host is down, or \
                   the program there does not accept the connection.",
        limit: Some(Limit::Recovery),
        objective: Objective::Stalls,
        stage: Stage::DeadPath,
        rule: Rule::Flow(path::path_dead),
        ..FINDING
    },
    Diagnosis {
        id: "segmentation-offload-off",
        sentence: "Segmentation offload is disabled at the interface: the CPU builds every packet \
                   itself and is at its limit.",
        limit: Some(Limit::Application),
        in_packets: InPackets::Hidden,
        stage: Stage::ReceiveWindow,
        rule: Rule::Flow(application::segmentation_offload_off),
        ..FINDING
    },
    Diagnosis {
        id: "cpu-bound",
        sentence: "A program at one end of the connection uses a whole CPU core and cannot move \
                   more data. Nothing to tune in TCP.",
        limit: Some(Limit::Application),
        in_packets: InPackets::Hidden,
        stage: Stage::ReceiveWindow,
        rule: Rule::Flow(application::cpu_bound),
        ..NOTHING
    },
    Diagnosis {
        id: "slow-reader",
        sentence: "The receiving program does not read fast enough; the network is not the limit.",
        limit: Some(Limit::PeerWindow),
        stage: Stage::ReceiveWindow,
        rule: Rule::Flow(receive_window::slow_reader),
        ..FINDING
    },
    Diagnosis {
        id: "window-scaling-off",
        sentence: "The connection was opened without window scaling: at most 64 KiB can be in \
                   flight.",
        limit: Some(Limit::PeerWindow),
        act_from: Confidence::High,
        stage: Stage::ReceiveWindow,
        rule: Rule::Flow(receive_window::window_scaling_off),
        ..FINDING
    },
    Diagnosis {
        id: "rmem-autotuning-off",
        sentence: "Receive buffer autotuning is disabled on the receiving host: receive buffers do \
                   not grow.",
        limit: Some(Limit::PeerWindow),
        in_packets: InPackets::Hidden,
        stage: Stage::ReceiveWindow,
        rule: Rule::Flow(receive_window::rmem_autotuning_off),
        ..FINDING
    },
    Diagnosis {
        id: "tcp-rmem-max-cap",
        sentence: "The receive window has grown to the maximum in tcp_rmem, and the path could \
                   carry more.",
        limit: Some(Limit::PeerWindow),
        act_from: Confidence::High,
        in_packets: InPackets::Hidden,
        stage: Stage::ReceiveWindow,
        rule: Rule::Flow(receive_window::tcp_rmem_max_cap),
        ..FINDING
    },
    Diagnosis {
        id: "rcvbuf-locked",
        sentence: "The receiving program set a fixed receive buffer (SO_RCVBUF): the window cannot \
                   grow to the bandwidth-delay product of the path.",
        limit: Some(Limit::PeerWindow),
        act_from: Confidence::High,
        in_packets: InPackets::Hidden,
        stage: Stage::ReceiveWindow,
        rule: Rule::Flow(receive_window::rcvbuf_locked),
        ..FINDING
    },
    Diagnosis {
        id: "peer-window",
        sentence: "The receiver's advertised window is the limit; why it is not larger can only be \
                   seen at the receiver.",
        limit: Some(Limit::PeerWindow),
        stage: Stage::ReceiveWindow,
        rule: Rule::Flow(receive_window::peer_window),
        ..NOTHING
    },
    Diagnosis {
        id: "cork-not-uncorked",
        sentence: "The program set TCP_CORK and did not clear it: the last partial segment waits \
                   for a 200 ms timer.",
        limit: Some(Limit::Cork),
        objective: Objective::Response,
        in_packets: InPackets::Consistent(Confidence::Medium),
        stage: Stage::Stall,
        rule: Rule::Flow(small_writes::cork_not_uncorked),
        ..FINDING
    },
    Diagnosis {
        id: "two-one-way-connections",
        sentence: "Requests are sent on one connection and responses arrive on another, so no \
                   response can carry an ACK.",
        limit: Some(Limit::Nagle),
        objective: Objective::Response,
        in_packets: InPackets::Consistent(Confidence::Medium),
        stage: Stage::Stall,
        rule: Rule::Flow(small_writes::two_one_way_connections),
        ..FINDING
    },
    Diagnosis {
        id: "nagle-delack-stall",
        sentence: "Nagle's algorithm holds a partial segment until an ACK arrives, and the \
                   receiver delays that ACK: each operation waits for the receiver's delayed-ACK \
                   timer.",
        limit: Some(Limit::Nagle),
        objective: Objective::Response,
        in_packets: InPackets::Consistent(Confidence::Medium),
        stage: Stage::Stall,
        rule: Rule::Flow(small_writes::nagle_delack_stall),
        ..FINDING
    },
    Diagnosis {
        id: "nagle-rtt-serialised",
        sentence: "Nagle's algorithm holds each partial segment for one round trip, although the \
                   receiver acknowledges at once.",
        limit: Some(Limit::Nagle),
        objective: Objective::Response,
        in_packets: InPackets::Consistent(Confidence::Medium),
        stage: Stage::Stall,
        rule: Rule::Flow(small_writes::nagle_rtt_serialised),
        ..FINDING
    },
    Diagnosis {
        id: "retransmission-timeouts",
        sentence: "Too few packets follow a lost one for fast retransmit: it is retransmitted only \
                   after a timeout (RTO), repeatedly.",
        limit: Some(Limit::Recovery),
        objective: Objective::Tail,
        stage: Stage::Stall,
        rule: Rule::Flow(loss::retransmission_timeouts),
        ..FINDING
    },
    Diagnosis {
        id: "paced",
        sentence: "The limit is a pacing rate that was set on purpose. Nothing to tune.",
        limit: Some(Limit::Pacing),
        in_packets: InPackets::Hidden,
        stage: Stage::Pacing,
        rule: Rule::Flow(application::paced),
        ..NOTHING
    },
    Diagnosis {
        id: "sndbuf-tiny",
        sentence: "The program set a very small send buffer (SO_SNDBUF): every write waits for \
                   ACKs.",
        limit: Some(Limit::SendBuffer),
        in_packets: InPackets::Hidden,
        stage: Stage::SendBuffer,
        rule: Rule::Flow(send_buffer::sndbuf_tiny),
        ..FINDING
    },
    Diagnosis {
        id: "sndbuf-locked",
        sentence: "The sending program set a fixed send buffer (SO_SNDBUF): it is too small to \
                   fill the path.",
        limit: Some(Limit::SendBuffer),
        in_packets: InPackets::Hidden,
        stage: Stage::SendBuffer,
        rule: Rule::Flow(send_buffer::sndbuf_locked),
        ..FINDING
    },
    Diagnosis {
        id: "tcp-wmem-max-cap",
        sentence: "The send buffer has grown to the maximum in tcp_wmem, and the path could carry \
                   more.",
        limit: Some(Limit::SendBuffer),
        act_from: Confidence::High,
        in_packets: InPackets::Hidden,
        stage: Stage::SendBuffer,
        rule: Rule::Flow(send_buffer::tcp_wmem_max_cap),
        ..FINDING
    },
    Diagnosis {
        id: "slow-start-after-idle",
        sentence: "After each idle period the congestion window is reset and the connection goes \
                   through slow start again.",
        limit: Some(Limit::Congestion),
        act_from: Confidence::High,
        objective: Objective::Transfer,
        in_packets: InPackets::Consistent(Confidence::Medium),
        stage: Stage::Startup,
        rule: Rule::Flow(startup::slow_start_after_idle),
        ..FINDING
    },
    Diagnosis {
        id: "initcwnd-too-small",
        sentence: "Short transfers end in slow start, before the connection reaches the bottleneck \
                   rate.",
        limit: Some(Limit::Congestion),
        objective: Objective::Transfer,
        in_packets: InPackets::Consistent(Confidence::Medium),
        stage: Stage::Startup,
        rule: Rule::Flow(startup::initcwnd_too_small),
        ..FINDING
    },
    Diagnosis {
        id: "small-writes-cpu",
        sentence: "The program writes so few bytes per call that the CPU, not the network, is the \
                   limit.",
        limit: Some(Limit::Application),
        in_packets: InPackets::Consistent(Confidence::Low),
        stage: Stage::Application,
        rule: Rule::Flow(application::small_writes_cpu),
        ..FINDING
    },
    Diagnosis {
        id: "unbatched-records",
        sentence: "The program sends each small record in a segment of its own, many per second, \
                   although no response is awaited for each.",
        limit: Some(Limit::Application),
        stage: Stage::Application,
        rule: Rule::Flow(application::unbatched_records),
        ..FINDING
    },
    Diagnosis {
        id: "round-trip-bound",
        sentence: "One request and one response per round trip: TCP adds no delay of its own. \
                   Nothing to tune.",
        limit: Some(Limit::Application),
        stage: Stage::Application,
        rule: Rule::Flow(application::round_trip_bound),
        ..NOTHING
    },
    Diagnosis {
        id: "application-thinks",
        sentence: "Between request and response the programs take more time than the network. \
                   Nothing to tune in TCP.",
        limit: Some(Limit::Application),
        stage: Stage::Application,
        rule: Rule::Flow(application::application_thinks),
        ..NOTHING
    },
    Diagnosis {
        id: "app-limited",
        sentence: "The program does not write enough: TCP has nothing to send. Nothing to tune.",
        limit: Some(Limit::Application),
        stage: Stage::Application,
        rule: Rule::Flow(application::app_limited),
        ..NOTHING
    },
    Diagnosis {
        id: "sack-or-timestamps-off",
        sentence: "The connection was opened without the options (SACK, timestamps) that make loss \
                   recovery fast.",
        limit: Some(Limit::Recovery),
        stage: Stage::Loss,
        rule: Rule::Flow(loss::sack_or_timestamps_off),
        ..FINDING
    },
    Diagnosis {
        id: "local-qdisc-drops",
        sentence: "Packets are dropped in this machine's own queueing discipline (qdisc).",
        limit: Some(Limit::Interface),
        act_from: Confidence::High,
        objective: Objective::LocalDrops,
        in_packets: InPackets::Hidden,
        stage: Stage::Loss,
        rule: Rule::Flow(loss::local_qdisc_drops),
        ..FINDING
    },
    Diagnosis {
        id: "reordering",
        sentence: "The path reorders packets, which are taken for lost: the congestion window is \
                   reduced without need.",
        limit: Some(Limit::Recovery),
        stage: Stage::Loss,
        rule: Rule::Flow(loss::reordering),
        ..FINDING
    },
    Diagnosis {
        id: "random-loss",
        sentence: "Packets are lost although no queue is full, and congestion control reduces the \
                   rate without need.",
        limit: Some(Limit::Recovery),
        in_packets: InPackets::Consistent(Confidence::Medium),
        stage: Stage::Loss,
        rule: Rule::Flow(loss::random_loss),
        ..FINDING
    },
    Diagnosis {
        id: "bufferbloat",
        sentence: "The connection fills a deep queue: the queueing delay adds to the RTT of every \
                   flow through it.",
        objective: Objective::Rtt,
        stage: Stage::Queue,
        rule: Rule::Flow(queue::bufferbloat),
        ..FINDING
    },
    Diagnosis {
        id: "policed",
        sentence: "The path drops what exceeds a rate, without a queue: this traffic is policed.",
        limit: Some(Limit::Congestion),
        in_packets: InPackets::Consistent(Confidence::Medium),
        stage: Stage::PathFull,
        rule: Rule::Flow(path::policed),
        ..NOTHING
    },
    Diagnosis {
        id: "path-full",
        sentence: "The connection uses the full bottleneck rate. Nothing to tune.",
        limit: Some(Limit::Congestion),
        in_packets: InPackets::Consistent(Confidence::Medium),
        stage: Stage::PathFull,
        rule: Rule::Flow(path::path_full),
        ..NOTHING
    },
    Diagnosis {
        id: "accept-queue-full",
        sentence: "Connections arrive faster than the listening program accepts them: the accept \
                   queue overflows and some are dropped.",
        limit: Some(Limit::Handshake),
        in_packets: InPackets::Hidden,
        stage: Stage::Host,
        rule: Rule::Host(host::accept_queue_full),
        ..FINDING
    },
    Diagnosis {
        id: "syn-queue-full",
        sentence: "Half-open connections fill the SYN queue of a listener: a SYN flood, or a path \
                   on which the handshake is not completed.",
        limit: Some(Limit::Handshake),
        in_packets: InPackets::Hidden,
        stage: Stage::Host,
        rule: Rule::Host(host::syn_queue_full),
        ..FINDING
    },
    Diagnosis {
        id: "ports-exhausted",
        sentence: "Connections to one destination use all local ports: new ones to it fail.",
        limit: Some(Limit::Handshake),
        in_packets: InPackets::Hidden,
        stage: Stage::Host,
        rule: Rule::Host(host::ports_exhausted),
        ..FINDING
    },
    Diagnosis {
        id: "tcp-memory-pressure",
        sentence: "TCP memory of the host is under pressure (tcp_mem): the kernel limits the \
                   buffers of every connection.",
        in_packets: InPackets::Hidden,
        stage: Stage::Host,
        rule: Rule::Host(host::tcp_memory_pressure),
        ..FINDING
    },
    Diagnosis {
        id: "receive-drops",
        sentence: "Packets reach this machine and are dropped before TCP sees them: the CPU or the \
                   network card does not keep up.",
        in_packets: InPackets::Hidden,
        stage: Stage::Host,
        rule: Rule::Host(host::receive_drops),
        ..FINDING
    },
    Diagnosis {
        id: "conntrack-full",
        sentence: "The connection tracking table is full: packets are dropped, or entries of live \
                   connections evicted.",
        in_packets: InPackets::Hidden,
        stage: Stage::Host,
        rule: Rule::Host(host::conntrack_full),
        ..FINDING
    },
    Diagnosis {
        id: "receive-buffer-overrun",
        sentence: "Segments within the advertised window find no room in the receive buffer: they \
                   are dropped and have to be retransmitted.",
        in_packets: InPackets::Hidden,
        stage: Stage::Host,
        rule: Rule::Host(host::receive_buffer_overrun),
        ..FINDING
    },
];
