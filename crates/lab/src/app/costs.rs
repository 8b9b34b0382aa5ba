//! Processing times of a host.

use core::time::Duration;

use serde::{Deserialize, Serialize};

/// Times that programs and packets take on a host, apart from TCP. All zero: only the path takes
/// time.
///
/// System calls of one program follow each other, and what a call makes the host send is handed
/// over within it. Different programs run beside each other, as does the work of the network for
/// what arrives: each has a processor of its own.
///
/// As data, each is a whole number of nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostCosts {
    /// From the event to the program that waited for it.
    #[serde(rename = "wake_ns", with = "nanos")]
    pub wake: Duration,
    /// Each system call, without its copying.
    #[serde(rename = "system_call_ns", with = "nanos")]
    pub system_call: Duration,
    /// Copying 1024 bytes between program and system.
    #[serde(rename = "copy_kib_ns", with = "nanos")]
    pub copy_kib: Duration,
    /// Taking in a packet, which may be a GSO packet.
    #[serde(rename = "receive_packet_ns", with = "nanos")]
    pub receive_packet: Duration,
    /// Taking in each wire packet of it.
    #[serde(rename = "receive_segment_ns", with = "nanos")]
    pub receive_segment: Duration,
    /// Handing a packet to the interface.
    #[serde(rename = "send_packet_ns", with = "nanos")]
    pub send_packet: Duration,
    /// Handing over each wire packet of it.
    #[serde(rename = "send_segment_ns", with = "nanos")]
    pub send_segment: Duration,
}

impl HostCosts {
    /// None.
    pub const NONE: Self = Self {
        wake: Duration::ZERO,
        system_call: Duration::ZERO,
        copy_kib: Duration::ZERO,
        receive_packet: Duration::ZERO,
        receive_segment: Duration::ZERO,
        send_packet: Duration::ZERO,
        send_segment: Duration::ZERO,
    };

    /// A Linux host of the 2020s whose processors do not sleep deeply. Estimates, within the ranges
    /// of rule 13.1 (`docs/linux-tcp.md`): wake-up 5 to 50 us, system call 0.3 to 1 us, copying 5
    /// to 10 GB/s, work of the network 0.3 to 1 us per merged packet.
    #[must_use]
    pub const fn linux() -> Self {
        Self {
            wake: Duration::from_micros(5),
            system_call: Duration::from_nanos(500),
            copy_kib: Duration::from_nanos(130),
            receive_packet: Duration::from_nanos(700),
            receive_segment: Duration::from_nanos(20),
            send_packet: Duration::from_nanos(700),
            send_segment: Duration::ZERO,
        }
    }

    /// The same on a host where each segment, sent or taken in, costs so much more.
    #[must_use]
    pub fn and_per_segment(self, cost: Duration) -> Self {
        Self {
            receive_segment: self.receive_segment + cost,
            send_segment: self.send_segment + cost,
            ..self
        }
    }

    /// The same where nothing lies between two hosts of one machine (loopback, veth): the sender of
    /// a packet processes its reception as well, within its call (`loopback_xmit`, `netif_rx`).
    #[must_use]
    pub fn on_one_machine(self) -> Self {
        Self {
            send_packet: self.send_packet + self.receive_packet,
            send_segment: self.send_segment + self.receive_segment,
            receive_packet: Duration::ZERO,
            receive_segment: Duration::ZERO,
            ..self
        }
    }

    /// A system call that copies this much.
    pub(crate) fn call(&self, bytes: u64) -> Duration {
        self.system_call + per_kib(self.copy_kib, bytes)
    }

    /// Taking in a packet.
    pub(crate) fn receive(&self) -> PacketCost {
        PacketCost::new(self.receive_packet, self.receive_segment)
    }

    /// Handing over a packet.
    pub(crate) fn send(&self) -> PacketCost {
        PacketCost::new(self.send_packet, self.send_segment)
    }
}

/// Processing time of a packet on one of its ways through a host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketCost {
    packet: Duration,
    segment: Duration,
    /// Nanoseconds of a packet of one segment, as most are.
    single: u64,
}

impl PacketCost {
    fn new(packet: Duration, segment: Duration) -> Self {
        Self {
            packet,
            segment,
            single: nanos_of(packet + segment),
        }
    }

    /// Nanoseconds of one of this many segments.
    #[inline]
    pub(crate) fn nanos(&self, segments: u32) -> u64 {
        match segments {
            1 => self.single,
            _ => nanos_of(self.packet + self.segment * segments),
        }
    }
}

/// Times as whole numbers of nanoseconds, at most a second.
mod nanos {
    use core::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer, de};

    const MAX: u64 = 1_000_000_000;

    pub(super) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        match u64::deserialize(from)? {
            nanos @ 0..=MAX => Ok(Duration::from_nanos(nanos)),
            nanos => Err(de::Error::custom(format!(
                "{nanos} ns is more than a second: nothing that a host does takes so long"
            ))),
        }
    }
}

fn nanos_of(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn per_kib(time: Duration, bytes: u64) -> Duration {
    let nanos = time.as_nanos() * u128::from(bytes) / 1024;
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_what_is_wrong_is_refused() {
        let costs = HostCosts::linux();
        let text = serde_json::to_string(&costs).expect("numbers");
        assert!(text.contains("\"wake_ns\":5000"), "{text}");
        assert_eq!(
            serde_json::from_str::<HostCosts>(&text).expect("the same"),
            costs
        );
        for (from, to) in [
            ("\"wake_ns\":5000", "\"wake_ns\":5000000000"),
            ("\"wake_ns\":5000", "\"wake_ns\":-1"),
            ("wake_ns", "awake_ns"),
        ] {
            let wrong = serde_json::from_str::<HostCosts>(&text.replace(from, to));
            assert!(wrong.is_err(), "{to}");
        }
    }

    #[test]
    fn times_add_up() {
        let costs = HostCosts::linux();
        assert_eq!(costs.call(0), Duration::from_nanos(500));
        assert_eq!(costs.call(65_536), Duration::from_nanos(500 + 64 * 130));
        assert_eq!(costs.receive().nanos(45), 700 + 45 * 20);
        assert_eq!(HostCosts::NONE.call(1 << 30), Duration::ZERO);
        let slow = costs.and_per_segment(Duration::from_micros(229));
        assert_eq!(slow.receive().nanos(1), 700 + 229_020);
        assert_eq!(slow.receive().nanos(2), 700 + 2 * 229_020);
        assert_eq!(slow.send().nanos(2), 700 + 2 * 229_000);
        assert_eq!(slow.call(0), costs.call(0));
        let near = costs.on_one_machine();
        assert_eq!(
            near.send().nanos(45),
            costs.send().nanos(45) + costs.receive().nanos(45)
        );
        assert_eq!(near.receive().nanos(45), 0);
    }
}
