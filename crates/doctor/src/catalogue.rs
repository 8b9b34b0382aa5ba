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

/// What kind of answer a diagnosis is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Something to change, or a defect of the program or of the path. Counts for `--fail-on`.
    Finding,
    /// A full answer with nothing to change: "the path is full", "the program is the limit".
    Nothing,
}

/// What the cure of a diagnosis makes better, and what a change on its account is judged by.
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

/// A smaller share of stalls is not told from none.
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
    /// In what the connections of a host share.
    Host(fn(&HostTimeline) -> Option<Verdict>),
}

/// One cause that the doctor can name.
pub struct Diagnosis {
    /// Short name, such as `nagle-delack-stall`.
    pub id: &'static str,
    /// One sentence for people.
    pub sentence: &'static str,
    /// The limit that it refines; `None` for advice and for causes outside one flow.
    pub limit: Option<Limit>,
    /// Finding or not.
    pub kind: Kind,
    /// The least confidence from which a change is made on its account.
    pub act_from: Confidence,
    /// What its cure makes better.
    pub objective: Objective,
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

/// The values from which most rows differ in a few fields only.
const FINDING: Diagnosis = Diagnosis {
    id: "",
    sentence: "",
    limit: None,
    kind: Kind::Finding,
    act_from: Confidence::Medium,
    objective: Objective::Goodput,
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
        sentence: "The connection request gets no answer: its SYN is sent again and again.",
        limit: Some(Limit::Handshake),
        stage: Stage::Opening,
        rule: Rule::Opening(opening::connect_unanswered),
        ..FINDING
    },
    Diagnosis {
        id: "pmtu-blackhole",
        sentence: "Small packets pass and full-sized ones disappear without a message: the connection hangs \
         as soon as it has something to say.",
        limit: Some(Limit::Recovery),
        objective: Objective::Stalls,
        stage: Stage::DeadPath,
        rule: Rule::Flow(path::pmtu_blackhole),
        ..FINDING
    },
    Diagnosis {
        id: "idle-connection-cut",
        sentence: "After a pause nothing is answered on this connection, and on others to the same host it is: a \
         NAT or firewall on the path has forgotten it.",
        limit: Some(Limit::Recovery),
        objective: Objective::Stalls,
        stage: Stage::DeadPath,
        rule: Rule::Flow(path::idle_connection_cut),
        ..FINDING
    },
    Diagnosis {
        id: "path-dead",
        sentence: "Nothing that is sent is answered: the path or the other host is gone, or the program \
                   there does not accept the connection.",
        limit: Some(Limit::Recovery),
        objective: Objective::Stalls,
        stage: Stage::DeadPath,
        rule: Rule::Flow(path::path_dead),
        ..FINDING
    },
    Diagnosis {
        id: "segmentation-offload-off",
        sentence: "The processor cuts all data into packets by itself, because segmentation offload is switched \
         off at the interface, and has no time left.",
        limit: Some(Limit::Application),
        stage: Stage::ReceiveWindow,
        rule: Rule::Flow(application::segmentation_offload_off),
        ..FINDING
    },
    Diagnosis {
        id: "cpu-bound",
        sentence: "A program at one end of the connection uses a whole processor: it cannot move more data. \
                   Nothing to tune in TCP.",
        limit: Some(Limit::Application),
        stage: Stage::ReceiveWindow,
        rule: Rule::Flow(application::cpu_bound),
        ..NOTHING
    },
    Diagnosis {
        id: "slow-reader",
        sentence: "The receiving program does not read fast enough; the network is fine.",
        limit: Some(Limit::PeerWindow),
        stage: Stage::ReceiveWindow,
        rule: Rule::Flow(receive_window::slow_reader),
        ..FINDING
    },
    Diagnosis {
        id: "window-scaling-off",
        sentence: "The connection was opened without window scaling: never more than 64 KiB can be in \
         flight.",
        limit: Some(Limit::PeerWindow),
        act_from: Confidence::High,
        stage: Stage::ReceiveWindow,
        rule: Rule::Flow(receive_window::window_scaling_off),
        ..FINDING
    },
    Diagnosis {
        id: "rmem-autotuning-off",
        sentence: "Receive buffers do not grow by themselves on the receiving host: autotuning is switched off.",
        limit: Some(Limit::PeerWindow),
        stage: Stage::ReceiveWindow,
        rule: Rule::Flow(receive_window::rmem_autotuning_off),
        ..FINDING
    },
    Diagnosis {
        id: "tcp-rmem-max-cap",
        sentence: "The receiver's kernel has grown the window as far as tcp_rmem allows, and the path could \
         carry more.",
        limit: Some(Limit::PeerWindow),
        act_from: Confidence::High,
        stage: Stage::ReceiveWindow,
        rule: Rule::Flow(receive_window::tcp_rmem_max_cap),
        ..FINDING
    },
    Diagnosis {
        id: "rcvbuf-locked",
        sentence: "The receiving program fixed its receive buffer: the kernel may not let the window grow \
         to what the path needs.",
        limit: Some(Limit::PeerWindow),
        act_from: Confidence::High,
        stage: Stage::ReceiveWindow,
        rule: Rule::Flow(receive_window::rcvbuf_locked),
        ..FINDING
    },
    Diagnosis {
        id: "peer-window",
        sentence: "The window that the receiver offers is the limit; why it is not larger can only be seen at \
                   the receiver.",
        limit: Some(Limit::PeerWindow),
        stage: Stage::ReceiveWindow,
        rule: Rule::Flow(receive_window::peer_window),
        ..NOTHING
    },
    Diagnosis {
        id: "cork-not-uncorked",
        sentence: "The program corked the socket and never released it: data leaves only when a 200 ms \
         timer gives up.",
        limit: Some(Limit::Cork),
        objective: Objective::Response,
        stage: Stage::Stall,
        rule: Rule::Flow(small_writes::cork_not_uncorked),
        ..FINDING
    },
    Diagnosis {
        id: "two-one-way-connections",
        sentence: "Requests go out on one connection and answers come back on another, so no answer can \
         carry an ACK.",
        limit: Some(Limit::Nagle),
        objective: Objective::Response,
        stage: Stage::Stall,
        rule: Rule::Flow(small_writes::two_one_way_connections),
        ..FINDING
    },
    Diagnosis {
        id: "nagle-delack-stall",
        sentence: "The sender holds a small piece until an ACK comes, and the receiver delays that ACK: \
         each operation waits out a timer that nobody needs.",
        limit: Some(Limit::Nagle),
        objective: Objective::Response,
        stage: Stage::Stall,
        rule: Rule::Flow(small_writes::nagle_delack_stall),
        ..FINDING
    },
    Diagnosis {
        id: "nagle-rtt-serialised",
        sentence: "The sender holds each partial segment for one round trip although the receiver answers \
         at once.",
        limit: Some(Limit::Nagle),
        objective: Objective::Response,
        stage: Stage::Stall,
        rule: Rule::Flow(small_writes::nagle_rtt_serialised),
        ..FINDING
    },
    Diagnosis {
        id: "retransmission-timeouts",
        sentence: "Lost packets are missed only by a timer, since too little follows them: the connection \
         waits for it again and again.",
        limit: Some(Limit::Recovery),
        objective: Objective::Tail,
        stage: Stage::Stall,
        rule: Rule::Flow(loss::retransmission_timeouts),
        ..FINDING
    },
    Diagnosis {
        id: "paced",
        sentence: "A pacing rate that was set on purpose is the limit. Nothing to tune.",
        limit: Some(Limit::Pacing),
        stage: Stage::Pacing,
        rule: Rule::Flow(application::paced),
        ..NOTHING
    },
    Diagnosis {
        id: "sndbuf-tiny",
        sentence: "The program set a send buffer of next to nothing: every write waits for ACKs.",
        limit: Some(Limit::SendBuffer),
        stage: Stage::SendBuffer,
        rule: Rule::Flow(send_buffer::sndbuf_tiny),
        ..FINDING
    },
    Diagnosis {
        id: "sndbuf-locked",
        sentence: "The sending program fixed its send buffer: it cannot hold enough data to fill the path.",
        limit: Some(Limit::SendBuffer),
        stage: Stage::SendBuffer,
        rule: Rule::Flow(send_buffer::sndbuf_locked),
        ..FINDING
    },
    Diagnosis {
        id: "tcp-wmem-max-cap",
        sentence: "The sender's kernel has grown the send buffer as far as tcp_wmem allows.",
        limit: Some(Limit::SendBuffer),
        act_from: Confidence::High,
        stage: Stage::SendBuffer,
        rule: Rule::Flow(send_buffer::tcp_wmem_max_cap),
        ..FINDING
    },
    Diagnosis {
        id: "slow-start-after-idle",
        sentence: "After each pause the connection starts slowly again, although the path is known.",
        limit: Some(Limit::Congestion),
        act_from: Confidence::High,
        objective: Objective::Transfer,
        stage: Stage::Startup,
        rule: Rule::Flow(startup::slow_start_after_idle),
        ..FINDING
    },
    Diagnosis {
        id: "initcwnd-too-small",
        sentence: "Short transfers end before the connection has reached the speed of the path.",
        limit: Some(Limit::Congestion),
        objective: Objective::Transfer,
        stage: Stage::Startup,
        rule: Rule::Flow(startup::initcwnd_too_small),
        ..FINDING
    },
    Diagnosis {
        id: "small-writes-cpu",
        sentence: "The program writes so little at a time that the processor, not the network, is the limit.",
        limit: Some(Limit::Application),
        stage: Stage::Application,
        rule: Rule::Flow(application::small_writes_cpu),
        ..FINDING
    },
    Diagnosis {
        id: "unbatched-records",
        sentence: "The program sends each small record in a segment of its own, although it has many a \
         second and nobody answers them one by one.",
        limit: Some(Limit::Application),
        stage: Stage::Application,
        rule: Rule::Flow(application::unbatched_records),
        ..FINDING
    },
    Diagnosis {
        id: "round-trip-bound",
        sentence: "One question, one answer, one round trip: TCP is as fast as it can be. Nothing to tune.",
        limit: Some(Limit::Application),
        stage: Stage::Application,
        rule: Rule::Flow(application::round_trip_bound),
        ..NOTHING
    },
    Diagnosis {
        id: "application-thinks",
        sentence: "Between a question and its answer the programs need more time than the network. Nothing \
                   to tune in TCP.",
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
        sentence: "The connection lacks the options that make loss recovery fast.",
        limit: Some(Limit::Recovery),
        stage: Stage::Loss,
        rule: Rule::Flow(loss::sack_or_timestamps_off),
        ..FINDING
    },
    Diagnosis {
        id: "local-qdisc-drops",
        sentence: "Packets are lost in this machine's own output queue.",
        limit: Some(Limit::Interface),
        act_from: Confidence::High,
        objective: Objective::LocalDrops,
        stage: Stage::Loss,
        rule: Rule::Flow(loss::local_qdisc_drops),
        ..FINDING
    },
    Diagnosis {
        id: "reordering",
        sentence: "Packets overtake each other on the path and are taken for lost: the congestion window is cut \
         for nothing.",
        limit: Some(Limit::Recovery),
        stage: Stage::Loss,
        rule: Rule::Flow(loss::reordering),
        ..FINDING
    },
    Diagnosis {
        id: "random-loss",
        sentence: "Packets get lost although no queue is full, and the congestion control slows down for \
         nothing.",
        limit: Some(Limit::Recovery),
        stage: Stage::Loss,
        rule: Rule::Flow(loss::random_loss),
        ..FINDING
    },
    Diagnosis {
        id: "bufferbloat",
        sentence: "The connection fills a queue so deep that everybody behind it waits.",
        objective: Objective::Rtt,
        stage: Stage::Queue,
        rule: Rule::Flow(queue::bufferbloat),
        ..FINDING
    },
    Diagnosis {
        id: "policed",
        sentence: "The path drops what exceeds a rate, without a queue: somebody polices this \
                   traffic.",
        limit: Some(Limit::Congestion),
        stage: Stage::PathFull,
        rule: Rule::Flow(path::policed),
        ..NOTHING
    },
    Diagnosis {
        id: "path-full",
        sentence: "The connection uses what the path has. Nothing to tune.",
        limit: Some(Limit::Congestion),
        stage: Stage::PathFull,
        rule: Rule::Flow(path::path_full),
        ..NOTHING
    },
    Diagnosis {
        id: "accept-queue-full",
        sentence: "Connections arrive faster than the listening program accepts them: some are dropped.",
        limit: Some(Limit::Handshake),
        stage: Stage::Host,
        rule: Rule::Host(host::accept_queue_full),
        ..FINDING
    },
    Diagnosis {
        id: "syn-queue-full",
        sentence: "Half-open connections fill the queue of a listening program: a flood, or a path on which \
                   the handshake is not completed.",
        limit: Some(Limit::Handshake),
        stage: Stage::Host,
        rule: Rule::Host(host::syn_queue_full),
        ..FINDING
    },
    Diagnosis {
        id: "ports-exhausted",
        sentence: "Connections to one destination take all local ports: new ones to it fail.",
        limit: Some(Limit::Handshake),
        stage: Stage::Host,
        rule: Rule::Host(host::ports_exhausted),
        ..FINDING
    },
    Diagnosis {
        id: "tcp-memory-pressure",
        sentence: "All connections of the host together use so much memory that the kernel holds each of \
                   them back.",
        stage: Stage::Host,
        rule: Rule::Host(host::tcp_memory_pressure),
        ..FINDING
    },
    Diagnosis {
        id: "receive-drops",
        sentence: "Packets reach this machine and are dropped before TCP sees them: the processor or the card \
         does not keep up.",
        stage: Stage::Host,
        rule: Rule::Host(host::receive_drops),
        ..FINDING
    },
    Diagnosis {
        id: "conntrack-full",
        sentence: "Connection tracking has no room for more connections: packets are dropped, or connections \
         forgotten that live.",
        stage: Stage::Host,
        rule: Rule::Host(host::conntrack_full),
        ..FINDING
    },
    Diagnosis {
        id: "receive-buffer-overrun",
        sentence: "Segments arrive within the window and find no room in the receive buffer: they are dropped and \
         have to be retransmitted.",
        stage: Stage::Host,
        rule: Rule::Host(host::receive_buffer_overrun),
        ..FINDING
    },
];
