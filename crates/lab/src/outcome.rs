//! Outcomes of engines: numbers with their doubts.

use core::fmt;
use std::collections::BTreeMap;

use base::Limit;
use serde::{Deserialize, Serialize};

use crate::trial::End;

/// Percentiles of a response time, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResponseMicros {
    /// Operations.
    pub n: u64,
    /// Median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// Worst.
    pub max: u64,
    /// Operations that took [`STALL_US`] or more.
    #[serde(default)]
    pub stalled: u64,
}

/// Threshold of a stall, in microseconds: longer than any pause of a local network or a processor,
/// shorter than every timer of TCP, the shortest of which is the delayed ACK of 40 ms.
pub const STALL_US: u64 = 20_000;

/// How late an emulator delivered packets, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatenessMicros {
    /// Median.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
    /// Worst.
    pub max: u64,
}

/// Counters of one direction of the path, in wire packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkOutcome {
    /// Packets that came in.
    pub sent: u64,
    /// Packets that came out.
    pub delivered: u64,
    /// Packets that were lost or found the queue full.
    pub dropped_segments: u64,
    /// Of these, dropped by a full queue.
    pub queue_dropped_segments: u64,
    /// Most bytes that waited.
    pub queue_bytes_max: u64,
    /// How late the emulator was; `None` where time is virtual or nothing is emulated.
    pub lateness_us: Option<LatenessMicros>,
}

/// Counters of the end that sends in the main direction over the whole run without warm-up, all its
/// connections together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SenderOutcome {
    /// Segments with payload, retransmissions among them; a GSO packet counts as what it is cut
    /// into.
    pub data_segments: u64,
    /// Of these, retransmitted.
    pub retransmitted_segments: u64,
    /// Mean of the smoothed round-trip time, in microseconds; `None` if it was not sampled.
    pub rtt_mean_us: Option<u64>,
    /// Its 99th percentile over the looks at the run, likewise.
    #[serde(default)]
    pub rtt_p99_us: Option<u64>,
}

/// A packet as its sender saw it leave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SentPacket {
    /// Since the run began, in microseconds.
    pub at_us: f64,
    /// Sending end.
    pub from: End,
    /// Number of the connection, from 1, in order of first packets.
    pub connection: u16,
    /// Payload, in bytes; of a GSO packet all of it.
    pub payload_bytes: u64,
    /// Payload of the other end that it acknowledges, from the first byte on; `None` without ACK.
    pub acked_bytes: Option<u64>,
    /// The flag.
    pub syn: bool,
    /// The flag.
    pub fin: bool,
    /// The flag.
    pub rst: bool,
}

/// One look at the flow in the main direction. What the engine does not see is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// Since the run began, its warm-up included, in microseconds.
    pub at_us: u64,
    /// Payload that arrived since the point before, in bit/s.
    pub goodput_bps: u64,
    /// Smoothed round-trip time in microseconds.
    pub rtt_us: Option<u64>,
    /// Congestion window in bytes.
    pub cwnd_bytes: Option<u64>,
    /// Sent and not acknowledged, in bytes.
    pub in_flight_bytes: Option<u64>,
    /// Bytes that wait in the queue of the link in the main direction.
    pub queue_bytes: Option<u64>,
    /// The limit that held the sender for most of the time since the previous point.
    pub limit: Option<Limit>,
}

/// A reason to doubt a number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "caveat", rename_all = "kebab-case")]
pub enum Caveat {
    /// The emulator's 99th percentile of lateness exceeds the limit: times are longer than told.
    EmulatorLate {
        /// Measured.
        p99_us: u64,
        /// Allowed.
        limit_us: u64,
        /// Above the second limit: the outcome must not be used.
        invalid: bool,
    },
    /// A setting could not be applied on this engine.
    SettingNotApplied {
        /// The knob.
        knob: String,
        /// Why.
        why: String,
    },
    /// A device of the path dropped packets of its host before the link saw them: the queue of the
    /// interface (`txqueuelen`) was full.
    DeviceDropped {
        /// `A` for the client, `B` for the server.
        host: String,
        /// How many.
        packets: u64,
    },
    /// The process that ran our stack took so much of a processor that it may have been the limit.
    StackBusy {
        /// Share of one processor, in percent.
        percent: u64,
    },
    /// The device of our stack dropped packets, since its process came too late to read them, or
    /// the kernel refused what it sent.
    StackDropped {
        /// How many, GSO packets counted once.
        packets: u64,
    },
    /// The real-time priority for the emulator was refused.
    NoRealtimePriority,
    /// The processors were busy with other work.
    HostBusy {
        /// Share of the processors' time that this run did not get, in percent.
        percent: u64,
    },
    /// A workload ended before its time.
    EndedEarly {
        /// Why.
        why: String,
    },
}

impl Caveat {
    /// Whether the numbers of its run must not be shown as a result.
    #[must_use]
    pub const fn forbids_use(&self) -> bool {
        matches!(
            self,
            Self::EmulatorLate { invalid: true, .. } | Self::EndedEarly { .. }
        )
    }
}

impl fmt::Display for Caveat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmulatorLate {
                p99_us,
                limit_us,
                invalid,
            } => {
                let judgement = if *invalid {
                    "do not use these numbers"
                } else {
                    "times are longer than told"
                };
                write!(
                    f,
                    "the emulator was late: 99 % of packets within {p99_us} us, {limit_us} us are \
                     allowed; {judgement}"
                )
            }
            Self::SettingNotApplied { knob, why } => write!(f, "{knob} was not set: {why}"),
            Self::NoRealtimePriority => f.write_str(
                "no real-time priority for the emulator (it needs CAP_SYS_NICE): it may be late",
            ),
            Self::HostBusy { percent } => {
                write!(f, "other work took {percent} % of the processors' time")
            }
            Self::StackBusy { percent } => write!(
                f,
                "our stack took {percent} % of a processor, which may have been the limit"
            ),
            Self::StackDropped { packets } => write!(
                f,
                "the device of our stack dropped {packets} packets; the path did not lose them"
            ),
            Self::EndedEarly { why } => write!(f, "ended early: {why}"),
            Self::DeviceDropped { host, packets } => {
                write!(
                    f,
                    "the interface of host {host} dropped {packets} packets on the way out"
                )
            }
        }
    }
}

/// Outcome of one run of a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Payload per second that arrived, in bit/s, in the workload's main direction.
    pub goodput_bps: u64,
    /// Seconds that were measured.
    pub duration_s: f64,
    /// Response times, for workloads that have them.
    pub response_us: Option<ResponseMicros>,
    /// Longest time between two arrivals of payload at its reader, where the engine sees each; for
    /// a bulk transfer the worst stall.
    #[serde(default)]
    pub stall_max_us: Option<u64>,
    /// Limits and the share of time of each, most first. An engine that does not know them infers
    /// them from what can be observed, and is as wrong as that inference.
    pub limits: Vec<(Limit, f64)>,
    /// The end that sends; `None` if it was not counted.
    #[serde(default)]
    pub sender: Option<SenderOutcome>,
    /// How the flow went, some hundred points at most; empty if not sampled.
    #[serde(default)]
    pub series: Vec<Point>,
    /// The first packets of both ends, in the order in which they were sent; empty if not recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packets: Vec<SentPacket>,
    /// Figures of a probe by name; empty for other trials.
    #[serde(default)]
    pub figures: BTreeMap<String, f64>,
    /// Client to server.
    pub forward: LinkOutcome,
    /// Server to client.
    pub reverse: LinkOutcome,
    /// Doubts.
    pub caveats: Vec<Caveat>,
}

impl Outcome {
    /// Outcome of a run without results, with the reason.
    #[must_use]
    pub fn ended_early(why: String) -> Self {
        Self {
            caveats: vec![Caveat::EndedEarly { why }],
            ..Self::default()
        }
    }

    /// Whether its numbers may be shown as a result; see [`Outcome::unusable_because`].
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.unusable_because().is_none()
    }

    /// Why the setting with this key of a scenario, such as `client.nodelay`, could not be applied,
    /// where it could not.
    #[must_use]
    pub fn refusal(&self, key: &str) -> Option<&str> {
        let name = ["client.", "server.", "tcp."]
            .iter()
            .find_map(|prefix| key.strip_prefix(prefix))
            .unwrap_or(key);
        self.caveats.iter().find_map(|caveat| match caveat {
            Caveat::SettingNotApplied { knob, why } => (knob == name).then_some(why.as_str()),
            _ => None,
        })
    }

    /// The caveat, if any, that makes the numbers unusable: the emulator was far too late, or the
    /// workload was cut short.
    #[must_use]
    pub fn unusable_because(&self) -> Option<&Caveat> {
        self.caveats.iter().find(|caveat| caveat.forbids_use())
    }
}
