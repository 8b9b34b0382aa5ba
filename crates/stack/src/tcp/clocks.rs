//! Timestamps (RFC 7323): PAWS, the value to echo, and round-trip samples.

use core::time::Duration;

use base::Instant;
use base::settings::LinuxVersion;
use base::tcp::TcpFlags;

use super::Connection;
use super::incoming::{Placed, Verdict};
use crate::host::Shared;
use crate::packet::{Segment, Timestamps};

/// Timestamps older than 24 days may have wrapped (RFC 7323 section 5.5).
const TIMESTAMP_AGE_MAX_NANOS: u64 = 24 * 24 * 3600 * 1_000_000_000;

/// Longest round-trip time that Linux takes from a timestamp: it counts microseconds in 31 bits
/// (`tcp_rtt_tsopt_us`).
const LINUX_RTT_MILLIS_MAX: u32 = 2_147_482;

/// Our clock, and the last time of the peer's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clocks {
    /// Offset of our clock, which hides the host's uptime.
    offset: u32,
    /// The value to echo (`TS.Recent`).
    recent: u32,
    /// When it was taken; `None` where none came.
    recent_at: Option<Instant>,
}

impl Clocks {
    pub(super) const fn new(offset: u32) -> Self {
        Self {
            offset,
            recent: 0,
            recent_at: None,
        }
    }

    /// Milliseconds of our clock (rule 10.2: it ticks every millisecond).
    fn at(&self, now: Instant) -> u32 {
        ((now.as_nanos() / 1_000_000) as u32).wrapping_add(self.offset)
    }

    /// Whether `value` is not older than the last one.
    pub(super) const fn goes_on(&self, value: u32) -> bool {
        value.wrapping_sub(self.recent) as i32 >= 0
    }

    /// The option of a segment that is sent now.
    pub(super) fn option(&self, now: Instant) -> Timestamps {
        Timestamps {
            value: self.at(now),
            echo: self.recent,
        }
    }

    /// `value` came and is echoed from now on.
    pub(super) const fn take(&mut self, now: Instant, value: u32) {
        self.recent = value;
        self.recent_at = Some(now);
    }

    /// State kept in TIME-WAIT: the offset, and the value to echo.
    pub(super) const fn rest(&self) -> (u32, u32) {
        (self.offset, self.recent)
    }
}

impl Connection {
    /// Milliseconds of our timestamp clock.
    pub(super) fn timestamp(&self, now: Instant) -> u32 {
        self.clocks.at(now)
    }

    /// PAWS (RFC 7323 section 5.3), with an exception for bare ACKs that were only reordered (Linux
    /// `tcp_disordered_ack_check`). `None`: the timestamp is acceptable.
    pub(super) fn judge_clock(
        &self,
        now: Instant,
        shared: &mut Shared,
        placed: &Placed<'_>,
    ) -> Option<Verdict> {
        let flags = placed.segment.flags;
        if flags.contains(TcpFlags::RST) && !self.is_orphan_fin_wait2() {
            // A reset counts whatever its timestamp (RFC 7323 section 5.2).
            return None;
        }
        let age = self.clock_age(now, placed.segment)?;
        let next = self.recv.next() as i64;
        let is_bare = placed.segment.sequence_bytes() == 0 && !flags.contains(TcpFlags::RST);
        if flags.contains(TcpFlags::ACK) && is_bare {
            let is_silent = self
                .linux()
                .is_some_and(|rules| rules > LinuxVersion::V6_12);
            if placed.start < next && is_silent {
                // It was reordered behind data, and needs no answer.
                shared.counters.paws_rejected += 1;
                return Some(Verdict::Drop);
            }
            if placed.start == next && self.retransmits_ack(placed) && self.is_within_timeout(age) {
                return None;
            }
        }
        shared.counters.paws_rejected += 1;
        Some(if flags.contains(TcpFlags::SYN) {
            self.judge_syn(shared, placed)
        } else {
            Verdict::Duplicate
        })
    }

    /// How much older the timestamp of a segment is than the last one, where that is enough to
    /// matter. A last one of 24 days ago is ignored, and so is 0, which some SYNs have (Linux
    /// `tcp_paws_check`).
    fn clock_age(&self, now: Instant, segment: &Segment) -> Option<u32> {
        let (timestamps, recent_at) = segment.options.timestamps.zip(self.clocks.recent_at)?;
        let says_something = self.agreed.timestamps
            && self.clocks.recent != 0
            && now.nanos_since(recent_at) <= TIMESTAMP_AGE_MAX_NANOS;
        let age = self.clocks.recent.wrapping_sub(timestamps.value) as i32;
        // Linux accepts what is one unit older (`TCP_PAWS_WINDOW`).
        let least = 1 + i32::from(self.linux().is_some());
        (says_something && age >= least).then_some(age as u32)
    }

    /// Whether a bare ACK acknowledges what is acknowledged already and does not move the window.
    fn retransmits_ack(&self, placed: &Placed<'_>) -> bool {
        let (una, next) = self.sent_range();
        let ack = self.iss.offset(placed.segment.ack, next);
        let is_news = self
            .window
            .is_news(placed.segment, placed.start, ack, self.recovery.una());
        ack == una as i64 && !is_news
    }

    /// Whether a clock can advance this far within our timeout. Linux counts 1200 units a second,
    /// since some peers' clocks run at that rate (`tcp_tsval_replay`).
    fn is_within_timeout(&self, age: u32) -> bool {
        let micros = self.recovery.rtt().rto().as_micros();
        u128::from(age) * 1_000_000 <= micros * 1200
    }

    /// RFC 7323 section 4.3: the timestamp of the segment that covers the last ACK is echoed.
    pub(super) fn note_timestamp(&mut self, now: Instant, segment: &Segment, start: i64) {
        let Some(timestamps) = segment.options.timestamps else {
            return;
        };
        // A value so old that clocks may have wrapped is always replaced (RFC 7323 section 5.5;
        // Linux `tcp_replace_ts_recent`).
        let is_newer = self.clocks.goes_on(timestamps.value)
            || self.clocks.recent == 0
            || (self.clocks.recent_at)
                .is_none_or(|at| now.nanos_since(at) > TIMESTAMP_AGE_MAX_NANOS);
        if self.agreed.timestamps && is_newer && start <= self.last_ack_sent as i64 {
            self.clocks.take(now, timestamps.value);
        }
    }

    /// Time since we sent the timestamp that came back; `None` if it is implausible.
    pub(super) fn echoed_rtt(&self, now: Instant, echo: u32) -> Option<Duration> {
        if !self.agreed.timestamps || echo == 0 {
            return None;
        }
        let millis = self.timestamp(now).wrapping_sub(echo);
        let is_sense = millis <= LINUX_RTT_MILLIS_MAX
            || self.linux().is_none() && i32::try_from(millis).is_ok();
        is_sense.then(|| Duration::from_millis(millis.into()))
    }
}
