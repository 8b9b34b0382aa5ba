//! The diagnoses that the doctor knows, a row each.

use base::Limit;

/// What kind of answer a diagnosis is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Something to change, or a defect of the program or of the path. Counts for `--fail-on`.
    Finding,
    /// A full answer with nothing to change: "the path is full", "the program is the limit".
    Nothing,
}

/// One cause that the doctor can name.
#[derive(Debug, PartialEq, Eq)]
pub struct Diagnosis {
    /// Short name, such as `nagle-delack-stall`.
    pub id: &'static str,
    /// One sentence for people.
    pub sentence: &'static str,
    /// The limit that it refines; `None` for advice and for causes outside one flow.
    pub limit: Option<Limit>,
    /// Finding or not.
    pub kind: Kind,
}

impl Diagnosis {
    /// Whether it calls for a change or names a defect.
    #[must_use]
    pub fn is_finding(&self) -> bool {
        self.kind == Kind::Finding
    }
}

/// Finds a diagnosis by its id.
#[must_use]
pub fn find_diagnosis(id: &str) -> Option<&'static Diagnosis> {
    DIAGNOSES.iter().find(|diagnosis| diagnosis.id == id)
}

const fn finding(id: &'static str, limit: Option<Limit>, sentence: &'static str) -> Diagnosis {
    Diagnosis {
        id,
        sentence,
        limit,
        kind: Kind::Finding,
    }
}

const fn nothing(id: &'static str, limit: Option<Limit>, sentence: &'static str) -> Diagnosis {
    Diagnosis {
        id,
        sentence,
        limit,
        kind: Kind::Nothing,
    }
}

/// Every diagnosis.
pub const DIAGNOSES: &[Diagnosis] = &[
    finding(
        "nagle-delack-stall",
        Some(Limit::Nagle),
        "The sender holds a small piece until an ACK comes, and the receiver delays that ACK: \
         each operation waits out a timer that nobody needs.",
    ),
    finding(
        "nagle-rtt-serialised",
        Some(Limit::Nagle),
        "The sender holds each partial segment for one round trip although the receiver answers \
         at once.",
    ),
    finding(
        "cork-not-uncorked",
        Some(Limit::Cork),
        "The program corked the socket and never released it: data leaves only when a 200 ms \
         timer gives up.",
    ),
    finding(
        "two-one-way-connections",
        Some(Limit::Nagle),
        "Requests go out on one connection and answers come back on another, so no answer can \
         carry an ACK.",
    ),
    finding(
        "rcvbuf-locked",
        Some(Limit::PeerWindow),
        "The receiving program fixed its receive buffer: the kernel may not let the window grow \
         to what the path needs.",
    ),
    finding(
        "tcp-rmem-max-cap",
        Some(Limit::PeerWindow),
        "The receiver's kernel has grown the window as far as tcp_rmem allows, and the path could \
         carry more.",
    ),
    finding(
        "window-scaling-off",
        Some(Limit::PeerWindow),
        "The connection was opened without window scaling: never more than 64 KiB can be in \
         flight.",
    ),
    finding(
        "slow-reader",
        Some(Limit::PeerWindow),
        "The receiving program does not read fast enough; the network is fine.",
    ),
    finding(
        "sndbuf-locked",
        Some(Limit::SendBuffer),
        "The sending program fixed its send buffer: it cannot hold enough data to fill the path.",
    ),
    finding(
        "tcp-wmem-max-cap",
        Some(Limit::SendBuffer),
        "The sender's kernel has grown the send buffer as far as tcp_wmem allows.",
    ),
    finding(
        "sndbuf-tiny",
        Some(Limit::SendBuffer),
        "The program set a send buffer of next to nothing: every write waits for ACKs.",
    ),
    nothing(
        "app-limited",
        Some(Limit::Application),
        "The program does not write enough: TCP has nothing to send. Nothing to tune.",
    ),
    finding(
        "small-writes-cpu",
        Some(Limit::Application),
        "The program writes so little at a time that the processor, not the network, is the limit.",
    ),
    finding(
        "unbatched-records",
        Some(Limit::Application),
        "The program sends each small record in a segment of its own, although it has many a \
         second and nobody answers them one by one.",
    ),
    nothing(
        "round-trip-bound",
        Some(Limit::Application),
        "One question, one answer, one round trip: TCP is as fast as it can be. Nothing to tune.",
    ),
    finding(
        "random-loss",
        Some(Limit::Recovery),
        "Packets get lost although no queue is full, and the congestion control slows down for \
         nothing.",
    ),
    finding(
        "bufferbloat",
        None,
        "The connection fills a queue so deep that everybody behind it waits.",
    ),
    finding(
        "local-qdisc-drops",
        Some(Limit::Interface),
        "Packets are lost in this machine's own output queue.",
    ),
    finding(
        "pmtu-blackhole",
        Some(Limit::Recovery),
        "Small packets pass and full-sized ones disappear without a message: the connection hangs \
         as soon as it has something to say.",
    ),
    finding(
        "slow-start-after-idle",
        Some(Limit::Congestion),
        "After each pause the connection starts slowly again, although the path is known.",
    ),
    finding(
        "initcwnd-too-small",
        Some(Limit::Congestion),
        "Short transfers end before the connection has reached the speed of the path.",
    ),
    finding(
        "sack-or-timestamps-off",
        Some(Limit::Recovery),
        "The connection lacks the options that make loss recovery fast.",
    ),
    nothing(
        "path-full",
        Some(Limit::Congestion),
        "The connection uses what the path has. Nothing to tune.",
    ),
];
