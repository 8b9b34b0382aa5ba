//! Requirements of a path on its hosts: the bandwidth-delay product, and which limits of a Linux
//! host are below it. Reads nothing: the limits come in as numbers.

use core::fmt;
use core::time::Duration;

use base::{Bytes, KnobValue, Rate, find_knob};
use serde::Serialize;

/// A path that one connection is to fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    rate: Rate,
    rtt: Duration,
    mtu: Bytes,
}

/// Why a path cannot be as it was told to be. [`fmt::Display`] says what to write instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DemandError {
    /// A rate of zero.
    RateZero,
    /// A round-trip time of zero, or above an hour.
    Rtt(Duration),
    /// An MTU that IPv4 does not have.
    Mtu(Bytes),
    /// More than 2^53 bytes, which no host has.
    TooMuch,
}

/// Above every path; a geostationary satellite has half a second.
const RTT_MAX: Duration = Duration::from_secs(3600);
/// RFC 791 section 3.2, and the largest packet that its 16 bits of length allow.
const MTU_RANGE: core::ops::RangeInclusive<u64> = 68..=65_535;
const BYTES_MAX: u64 = 1 << 53;

impl fmt::Display for DemandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RateZero => f.write_str("a rate of 0 carries nothing; write for example `1gbit`"),
            Self::Rtt(rtt) => write!(
                f,
                "a round-trip time of {} is out of range; it is above 0 and at most 1h",
                base::format_duration(*rtt)
            ),
            Self::Mtu(mtu) => write!(
                f,
                "an MTU of {mtu} is out of range; the range is {} to {}",
                MTU_RANGE.start(),
                MTU_RANGE.end()
            ),
            Self::TooMuch => {
                f.write_str("this rate and this round-trip time give more bytes than any host has")
            }
        }
    }
}

impl core::error::Error for DemandError {}

impl Demand {
    /// A path of this rate, round-trip time when its queues are empty, and largest packet.
    ///
    /// # Errors
    /// [`DemandError`] where there is no such path.
    pub fn new(rate: Rate, rtt: Duration, mtu: Bytes) -> Result<Self, DemandError> {
        if rate.bits_per_second() == 0 {
            return Err(DemandError::RateZero);
        }
        if rtt.is_zero() || rtt > RTT_MAX {
            return Err(DemandError::Rtt(rtt));
        }
        if !MTU_RANGE.contains(&mtu.0) {
            return Err(DemandError::Mtu(mtu));
        }
        if rate.bdp_bytes(rtt) > BYTES_MAX {
            return Err(DemandError::TooMuch);
        }
        Ok(Self { rate, rtt, mtu })
    }

    /// Rate of the slowest link.
    #[must_use]
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// With empty queues.
    #[must_use]
    pub const fn rtt(&self) -> Duration {
        self.rtt
    }

    /// The largest packet.
    #[must_use]
    pub const fn mtu(&self) -> Bytes {
        self.mtu
    }

    /// The bandwidth-delay product in bits.
    #[must_use]
    pub fn bits(&self) -> u64 {
        let nano = u128::from(self.rate.bits_per_second()) * self.rtt.as_nanos();
        u64::try_from(nano / 1_000_000_000).unwrap_or(u64::MAX)
    }

    /// The bandwidth-delay product in bytes: what has to be in flight for the path to be full.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.rate.bdp_bytes(self.rtt)
    }

    /// Full packets of `mtu` bytes that hold the bandwidth-delay product, the last one begun.
    #[must_use]
    pub fn packets(&self, mtu: Bytes) -> u64 {
        self.bytes().div_ceil(mtu.0.max(1)).max(1)
    }

    /// Rate of a window of this size: one window per round trip, at most the bottleneck rate.
    #[must_use]
    pub fn rate_of_window(&self, window: u64) -> Rate {
        let rate = Rate::of(window, self.rtt).bits_per_second();
        Rate::from_bits_per_second(rate.min(self.rate.bits_per_second()))
    }

    /// How many connections of a host have the path full between them, each with the largest
    /// window that it can have.
    #[must_use]
    pub fn connections(&self, limits: &HostLimits) -> u64 {
        self.bytes().div_ceil(limits.window_max()).max(1)
    }

    /// Each limit of a host beside what it must be for one connection to fill the path, or as much
    /// of it as a single connection can.
    #[must_use]
    pub fn rows(&self, limits: &HostLimits) -> Vec<LimitRow> {
        let need = Need::of(self, limits);
        let mut rows = receive_rows(&need, limits);
        rows.extend(send_rows(&need, limits));
        if need.window > UNSCALED_WINDOW {
            rows.push(LimitRow::switch(
                "net.ipv4.tcp_window_scaling",
                limits.window_scaling,
                "off: no window above 65535 bytes",
            ));
        }
        if let Some(queue) = limits.queue_pkts {
            rows.push(LimitRow {
                standing: match queue {
                    queue if queue < self.packets(self.mtu) => Standing::BelowIfShared,
                    _ => Standing::Enough,
                },
                ..LimitRow::number("queue", queue, self.packets(self.mtu), QUEUE_ABOUT)
            });
        }
        rows
    }

    /// The rate that the limits of a host leave to a connection whose program sets no buffer: to
    /// send, and to receive. Neither is above the path's.
    #[must_use]
    pub fn reach(&self, limits: &HostLimits) -> Reach {
        let largest = if limits.moderate_rcvbuf {
            limits.rmem[2]
        } else {
            limits.rmem[1]
        };
        let receive = (largest as f64 * limits.receive_ratio) as u64;
        let send = (limits.wmem[2] as f64 / send_memory_per_byte()) as u64;
        let window_max = match limits.window_scaling {
            true => SCALED_WINDOW,
            false => UNSCALED_WINDOW,
        };
        Reach {
            send: self.rate_of_window(send.min(window_max)),
            receive: self.rate_of_window(receive.min(window_max)),
        }
    }
}

/// Limits of connections of a host, as reported by the kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct HostLimits {
    /// `net.ipv4.tcp_rmem`: minimum, initial size, maximum; bytes of memory.
    pub rmem: [u64; 3],
    /// `net.ipv4.tcp_wmem`, likewise.
    pub wmem: [u64; 3],
    /// `net.core.rmem_max`: the most that `SO_RCVBUF` is granted; `None` where a namespace hides
    /// it.
    pub rmem_max: Option<u64>,
    /// `net.core.wmem_max`: the most that `SO_SNDBUF` is granted; likewise.
    pub wmem_max: Option<u64>,
    /// `net.ipv4.tcp_moderate_rcvbuf`: the receive buffer sizes itself.
    pub moderate_rcvbuf: bool,
    /// `net.ipv4.tcp_window_scaling`.
    pub window_scaling: bool,
    /// Window per byte of receive memory; see [`receive_ratio`].
    pub receive_ratio: f64,
    /// Packets that the queue of the interface holds; `None` where no interface is meant.
    pub queue_pkts: Option<u64>,
}

impl HostLimits {
    /// The largest window that a connection can have, whatever is set: what TCP can offer, or what
    /// the largest buffers hold.
    #[must_use]
    pub fn window_max(&self) -> u64 {
        let received = (memory_max(RMEM) as f64 * self.ratio()) as u64;
        let sent = (memory_max(WMEM) as f64 / send_memory_per_byte()) as u64;
        SCALED_WINDOW.min(received).min(sent)
    }

    /// [`HostLimits::receive_ratio`] as a kernel can have it: this many of 256 parts, at least one.
    fn ratio(&self) -> f64 {
        self.receive_ratio.clamp(1.0 / 256.0, 1.0)
    }
}

/// Window per byte of receive memory that a connection begins with.
///
/// From Linux 6.6 on it is measured on each connection and begins with a half
/// (`TCP_DEFAULT_SCALING_RATIO`); before, `net.ipv4.tcp_adv_win_scale` sets it
/// (`tcp_win_from_space` of those kernels).
#[must_use]
pub fn receive_ratio(kernel: (u32, u32), adv_win_scale: Option<i32>) -> f64 {
    match adv_win_scale {
        Some(scale @ 1..=31) if kernel < (6, 6) => 1.0 - 0.5_f64.powi(scale),
        Some(scale @ -31..=0) if kernel < (6, 6) => 0.5_f64.powi(-scale),
        _ => 0.5,
    }
}

/// How a limit stands to what is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// It is large enough.
    Enough,
    /// It keeps a connection from filling the path.
    Below,
    /// It keeps one whose program sets its buffer itself.
    BelowIfAsked,
    /// It may drop packets where this interface is the slowest link of the path.
    BelowIfShared,
    /// It is smaller and limits nothing.
    NoLimit,
}

impl Standing {
    /// In a table.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Enough => "enough",
            Self::Below => "below",
            Self::BelowIfAsked => "below, if asked",
            Self::BelowIfShared => "below, if slowest",
            Self::NoLimit => "no limit",
        }
    }
}

/// One limit beside what is needed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LimitRow {
    /// Which one: a sysctl, with the place of the value where it has three; or the queue.
    pub setting: &'static str,
    /// Current value; 0 or 1 for a switch. Bytes of memory, packets for the queue.
    pub now: u64,
    /// Required minimum.
    pub needed: u64,
    /// How they compare.
    pub standing: Standing,
    /// The effect of this limit.
    pub about: &'static str,
}

impl LimitRow {
    const fn number(setting: &'static str, now: u64, needed: u64, about: &'static str) -> Self {
        let standing = if now < needed {
            Standing::Below
        } else {
            Standing::Enough
        };
        Self {
            setting,
            now,
            needed,
            standing,
            about,
        }
    }

    fn switch(setting: &'static str, is_on: bool, about: &'static str) -> Self {
        Self::number(setting, u64::from(is_on), 1, about)
    }

    /// As [`LimitRow::number`], of a limit that acts only under a condition.
    fn number_if(self, standing: Standing) -> Self {
        match self.standing {
            Standing::Below => Self { standing, ..self },
            _ => self,
        }
    }
}

/// The rate that a host's limits leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// To send.
    pub send: Rate,
    /// To receive.
    pub receive: Rate,
}

/// RFC 7323 section 2.2.
const UNSCALED_WINDOW: u64 = 65_535;
/// RFC 7323 section 2.3: a window is shifted by at most 14 bits.
const SCALED_WINDOW: u64 = UNSCALED_WINDOW << 14;
const RMEM: &str = "net.ipv4.tcp_rmem";
const WMEM: &str = "net.ipv4.tcp_wmem";
/// Linux charges a sent packet of up to 64 KiB its payload and this (a descriptor of 256 bytes, and
/// 576 of header room and shared information; measured on 6.18).
const SEND_CHARGE_BYTES: f64 = 832.0;
const SEND_PACKET_BYTES: f64 = 65_536.0;
/// A writer that was stopped is woken when a third of its buffer is free (`sk_stream_write_space`):
/// only two thirds are always in flight.
const SEND_HEADROOM: f64 = 1.5;
/// One connection alone keeps little in its own host's queue (`tcp_limit_output_bytes`).
const QUEUE_ABOUT: &str = "drops where this link is the slowest";

/// The largest value of a setting of bytes.
fn memory_max(setting: &str) -> u64 {
    find_knob(setting).map_or(u64::MAX, |knob| knob.max)
}

fn send_memory_per_byte() -> f64 {
    SEND_HEADROOM * (1.0 + SEND_CHARGE_BYTES / SEND_PACKET_BYTES)
}

/// Requirements of one path on one host for one connection, in bytes.
struct Need {
    window: u64,
    receive_memory: u64,
    send_memory: u64,
}

impl Need {
    fn of(demand: &Demand, limits: &HostLimits) -> Self {
        let window = demand.bytes().clamp(1, limits.window_max());
        Self {
            window,
            receive_memory: (window as f64 / limits.ratio()).ceil() as u64,
            send_memory: (window as f64 * send_memory_per_byte()).ceil() as u64,
        }
    }
}

fn receive_rows(need: &Need, limits: &HostLimits) -> Vec<LimitRow> {
    let memory = need.receive_memory;
    let initial = LimitRow::number(
        "net.ipv4.tcp_rmem[1]",
        limits.rmem[1],
        memory,
        if limits.moderate_rcvbuf {
            "size at the start"
        } else {
            "size for ever; autotuning is off"
        },
    );
    let largest = LimitRow::number(
        "net.ipv4.tcp_rmem[2]",
        limits.rmem[2],
        memory,
        "most that autotuning gives",
    );
    let (initial, largest) = if limits.moderate_rcvbuf {
        (initial.number_if(Standing::NoLimit), largest)
    } else {
        (initial, largest.number_if(Standing::NoLimit))
    };
    let asked = limits.rmem_max.map(|max| {
        let about = "most that SO_RCVBUF can ask for";
        LimitRow::number("net.core.rmem_max", max, memory.div_ceil(2), about)
            .number_if(Standing::BelowIfAsked)
    });
    let auto = LimitRow::switch(
        "net.ipv4.tcp_moderate_rcvbuf",
        limits.moderate_rcvbuf,
        "the receive buffer sizes itself",
    );
    let auto = if initial.standing == Standing::Below {
        auto
    } else {
        auto.number_if(Standing::NoLimit)
    };
    [auto, initial, largest].into_iter().chain(asked).collect()
}

fn send_rows(need: &Need, limits: &HostLimits) -> Vec<LimitRow> {
    let memory = need.send_memory;
    let largest = LimitRow::number(
        "net.ipv4.tcp_wmem[2]",
        limits.wmem[2],
        memory,
        "most that autotuning gives",
    );
    let asked = limits.wmem_max.map(|max| {
        let about = "most that SO_SNDBUF can ask for";
        LimitRow::number("net.core.wmem_max", max, memory.div_ceil(2), about)
            .number_if(Standing::BelowIfAsked)
    });
    [largest].into_iter().chain(asked).collect()
}

/// A setting and what it is to become.
pub type Proposal = (&'static str, KnobValue);

/// The settings that would let a connection of this host fill the path; none where it can.
///
/// Sizes are twice what is needed, as the ratio of window to memory varies from connection to
/// connection, rounded up to a power of two; none is above what the setting takes.
#[must_use]
pub fn proposals(rows: &[LimitRow], limits: &HostLimits) -> Vec<Proposal> {
    let size = |row: &LimitRow| (row.needed.saturating_mul(2)).next_power_of_two();
    let mut proposals = Vec::new();
    let below = rows.iter().filter(|row| row.standing == Standing::Below);
    for row in below {
        proposals.push(match row.setting {
            "net.ipv4.tcp_rmem[2]" => triple(RMEM, limits.rmem, size(row)),
            "net.ipv4.tcp_wmem[2]" => triple(WMEM, limits.wmem, size(row)),
            // Autotuning takes the place of a larger initial size, if its own maximum allows.
            "net.ipv4.tcp_rmem[1]" if limits.rmem[2] < row.needed => {
                triple(RMEM, limits.rmem, size(row))
            }
            "net.ipv4.tcp_rmem[1]" => continue,
            setting => (setting, KnobValue::Flag(true)),
        });
    }
    proposals
}

fn triple(setting: &'static str, [min, initial, _]: [u64; 3], max: u64) -> Proposal {
    let max = max.min(memory_max(setting));
    (setting, KnobValue::Triple([min, initial, max]))
}

/// The receive buffer that the datacenter paper calls the default of Linux; with today's kernels it
/// is neither the initial size nor a limit.
pub const PAPER_BUFFER_BYTES: u64 = 87_380;

/// A path by name.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Name of the limit.
    pub name: &'static str,
    /// Whose path this is.
    pub about: &'static str,
    /// Bit/s.
    pub rate_bps: u64,
    /// Microseconds.
    pub rtt_us: u64,
}

/// The paths of the datacenter paper (arXiv 1905.01194). It gives no round-trip time for the DSL
/// line.
pub const PRESETS: &[Preset] = &[
    Preset {
        name: "home",
        about: "two computers on a LAN at home",
        rate_bps: 1_000_000_000,
        rtt_us: 120,
    },
    Preset {
        name: "home-dsl",
        about: "a DSL line; 30 ms are assumed",
        rate_bps: 10_000_000,
        rtt_us: 30_000,
    },
    Preset {
        name: "datacenter-1g",
        about: "two virtual machines with 1 Gbit/s",
        rate_bps: 1_000_000_000,
        rtt_us: 1490,
    },
    Preset {
        name: "datacenter",
        about: "two virtual machines with 10 Gbit/s",
        rate_bps: 10_000_000_000,
        rtt_us: 1580,
    },
];

#[cfg(test)]
mod tests;
