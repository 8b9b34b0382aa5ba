//! What a host's own work takes.

use core::time::Duration;

/// Times that programs and packets take on a host, apart from TCP. All zero: only the path takes
/// time.
///
/// System calls of one program follow each other; different programs run beside each other, as does
/// the work of the network: each has a processor of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostCosts {
    /// From the event to the program that waited for it.
    pub wake: Duration,
    /// Each system call, without its copying.
    pub system_call: Duration,
    /// Copying 1024 bytes between program and system.
    pub copy_kib: Duration,
    /// Taking in a packet, which may be a superpacket.
    pub receive_packet: Duration,
    /// Taking in each wire packet of it.
    pub receive_segment: Duration,
    /// Handing a packet to the interface.
    pub send_packet: Duration,
    /// Handing over each wire packet of it.
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
    /// of rule 13.1 of the project's rules of Linux: wake-up 5 to 50 us, system call 0.3 to 1 us,
    /// copying 5 to 10 GB/s, work of the network 0.3 to 1 us per merged packet.
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

    /// A system call that copies so much.
    pub(crate) fn call(&self, bytes: u64) -> Duration {
        self.system_call + per_kib(self.copy_kib, bytes)
    }

    /// Taking in one packet of so many segments.
    pub(crate) fn receive(&self, segments: u32) -> Duration {
        self.receive_packet + self.receive_segment * segments
    }

    /// Handing over one packet of so many segments.
    pub(crate) fn send(&self, segments: u32) -> Duration {
        self.send_packet + self.send_segment * segments
    }
}

fn per_kib(time: Duration, bytes: u64) -> Duration {
    let nanos = time.as_nanos() * u128::from(bytes) / 1024;
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_add_up() {
        let costs = HostCosts::linux();
        assert_eq!(costs.call(0), Duration::from_nanos(500));
        assert_eq!(costs.call(65_536), Duration::from_nanos(500 + 64 * 130));
        assert_eq!(costs.receive(45), Duration::from_nanos(700 + 45 * 20));
        assert_eq!(HostCosts::NONE.call(1 << 30), Duration::ZERO);
        let slow = costs.and_per_segment(Duration::from_micros(229));
        assert_eq!(slow.receive(2), Duration::from_nanos(700 + 2 * 229_020));
        assert_eq!(slow.send(2), Duration::from_nanos(700 + 2 * 229_000));
        assert_eq!(slow.call(0), costs.call(0));
    }
}
