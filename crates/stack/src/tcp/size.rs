//! Size of a segment: what path, peer and application allow, less the options of this very segment.
//! And what the connection does when that changes.
//!
//! The only place that decides how much data a segment carries, be it new, retransmitted or a
//! probe. What is known of the path itself is decided by [`MtuState`].

use core::time::Duration;

use base::settings::{Completion, Path, SocketSettings};
use base::tcp::SackBlocks;
use base::{CongestionState, Instant};

use super::Connection;
use crate::host::Shared;
use crate::mtu::{MtuState, ProbeConditions, TooBig};
use crate::packet::option_bytes;
use crate::progress::Mark;
use crate::send::{Outgoing, SegmentSizes};

/// Timeouts in a row from which on the path counts as a black hole.
const BLACK_HOLE_TIMEOUTS: u32 = 4;
/// Linux: the time from the first retransmission on, after a second timeout (`tcp_retries1` 3 and a
/// timeout of 200 ms, less a jiffy).
const BLACK_HOLE_TIME: Duration = Duration::from_millis(2996);
/// A smaller MSS, options included, is taken as this much: a peer that announces an MSS of 1 costs
/// 40 bytes of headers per byte otherwise (Linux `tcp_min_snd_mss`).
pub(super) const MSS_MIN: u32 = 48;

/// Least payload beside the longest options.
const PAYLOAD_MIN: u32 = 8;

/// Payload beside the header of IPv4, whose total length has 16 bits (RFC 791 section 3.1), and the
/// largest of TCP.
const PAYLOAD_BYTES_MAX: u32 = 65_535 - 20 - 60;

/// Payload that fits into `whole` bytes beside the options.
#[inline]
fn payload_beside(whole: u32, option_bytes: u32) -> u32 {
    whole
        .max(MSS_MIN)
        .saturating_sub(option_bytes)
        .max(PAYLOAD_MIN)
}

/// Limits of path and peer.
#[derive(Debug)]
pub(super) struct SizeLimits {
    path: MtuState,
    /// Payload of a segment that the peer accepts (its MSS option).
    peer_mss: u32,
    /// The first full-size segment in flight, by its end.
    full_segment: Mark,
    /// The MTU that its acknowledgment shows to pass.
    full_mtu: u16,
}

impl SizeLimits {
    /// Behind an interface with this `mtu`, and before the peer has said anything.
    pub(super) fn new(now: Instant, settings: &SocketSettings, mtu: u16, is_ipv4: bool) -> Self {
        let ip_header = if is_ipv4 { 20 } else { 40 };
        Self {
            path: MtuState::new(now, &settings.path, mtu, ip_header),
            peer_mss: settings.options.default_mss.into(),
            full_segment: Mark::NONE,
            full_mtu: 0,
        }
    }

    pub(super) fn configure(&mut self, now: Instant, settings: &Path) {
        self.path.configure(now, settings);
    }

    /// The peer takes segments of this size at most (its MSS option).
    pub(super) fn limit_by_peer(&mut self, mss: u16) {
        self.peer_mss = u32::from(mss).max(MSS_MIN);
        self.path.limit_by_peer(mss);
    }

    /// Segments carry the options that were agreed ([`MtuState::add_options`]).
    pub(super) fn add_options(&mut self, timestamps: bool, expected: bool) {
        let [bytes, expected] = [timestamps, expected].map(|on| option_bytes(on) as u8);
        self.path.add_options(bytes, expected);
    }

    /// A search for larger packets does not count yet ([`MtuState::defer_search`]).
    pub(super) fn defer_search(&mut self) {
        self.path.defer_search();
    }

    /// Abandons an MTU probe in flight ([`MtuState::forget_probe`]).
    pub(super) fn forget_probe(&mut self) {
        self.path.forget_probe();
    }

    pub(super) const fn peer_mss(&self) -> u32 {
        self.peer_mss
    }

    /// Bytes of the largest packet to be sent.
    pub(super) fn mtu(&self) -> u16 {
        self.path.mtu()
    }

    /// The path's MTU alone.
    pub(super) fn path_mtu(&self) -> u16 {
        self.path.path_mtu()
    }

    /// Bytes of the largest packet that may be a probe of a larger MTU.
    pub(super) fn largest(&self) -> u16 {
        self.path.largest()
    }

    pub(super) const fn dont_fragment(&self) -> bool {
        self.path.dont_fragment()
    }

    /// When what ICMP reported is forgotten.
    pub(super) fn next_search(&self) -> Option<Instant> {
        self.path.next_search()
    }

    /// Whether a probe of a larger MTU is outstanding.
    pub(super) fn is_probing(&self) -> bool {
        self.path.probe().is_some()
    }
}

impl Connection {
    /// Payload and options that path, peer and application allow.
    fn whole_mss(&self) -> u32 {
        let path = u32::from(self.size.path.mss_limit()).min(self.size.peer_mss);
        self.settings
            .options
            .mss
            .map_or(path, |mss| path.min(mss.into()))
    }

    /// Payload of a full segment without SACK blocks, by which windows, buffers and bursts count.
    pub(super) fn mss(&self) -> u32 {
        payload_beside(self.whole_mss(), option_bytes(self.agreed.timestamps))
    }

    /// Payload of a full segment before the peer's options are known: Linux subtracts what ours
    /// would need.
    pub(super) fn mss_before_options(&self) -> u32 {
        let timestamps = self.settings.options.timestamps && self.linux().is_some();
        payload_beside(self.whole_mss(), option_bytes(timestamps))
    }

    /// Sizes of the segments and GSO packets that are sent now, of new data and of retransmissions:
    /// SACK blocks reduce the room of data (rule 10.1).
    pub(super) fn segment_sizes(&self) -> SegmentSizes {
        let option_bytes = option_bytes(self.agreed.timestamps);
        let options = option_bytes + self.sack_option_bytes();
        SegmentSizes {
            mss: payload_beside(self.whole_mss(), options),
            gso_max: self.gso_payload_max(),
            window_max: self.window.max(),
            option_bytes,
        }
    }

    /// Payload of the largest segment that is retransmitted now (Linux `tcp_current_mss`).
    pub(super) fn retransmit_mss(&self) -> u32 {
        self.fitted(self.segment_sizes())
    }

    /// Linux fits a full segment to small windows (`tcp_sync_mss`).
    fn fitted(&self, sizes: SegmentSizes) -> u32 {
        match self.settings.send.completion {
            Completion::Linux => sizes.bound_mss(),
            Completion::Bsd | Completion::Winsock => sizes.mss,
        }
    }

    /// Payload of the largest GSO packet, whose headers have room in the length that IPv4 gives it.
    pub(super) fn gso_payload_max(&self) -> u32 {
        self.settings.path.gso_max.min(PAYLOAD_BYTES_MAX)
    }

    /// Sizes of one segment that fills a packet of `mtu` bytes, replacing `sizes`.
    pub(super) fn probe_sizes(&self, sizes: &SegmentSizes, mtu: u16) -> SegmentSizes {
        let mss = (sizes.mss + u32::from(mtu)).saturating_sub(self.size.mtu().into());
        SegmentSizes {
            mss: mss.max(PAYLOAD_MIN),
            gso_max: 0,
            ..*sizes
        }
    }

    /// Payload of a full segment without SACK blocks, as sockets report it.
    pub(super) fn fitted_mss(&self) -> u32 {
        self.mss_for_window(self.window.max())
    }

    /// The same, where `window` is the largest that the peer has offered.
    pub(super) fn mss_for_window(&self, window: u32) -> u32 {
        self.fitted(SegmentSizes {
            mss: self.mss(),
            gso_max: self.gso_payload_max(),
            window_max: window,
            option_bytes: option_bytes(self.agreed.timestamps),
        })
    }

    /// Bytes that the peer may send in one segment: what our MTU takes (RFC 6691).
    pub(super) fn announced_mss(&self, shared: &Shared) -> u32 {
        let headers = if self.remote.is_ipv4() { 40 } else { 60 };
        let most = u32::from(shared.mtu).saturating_sub(headers).max(MSS_MIN);
        let options = &self.settings.options;
        let bounds = options.mss.into_iter().chain(options.advmss);
        bounds.fold(most, |most, mss| most.min(mss.into()))
    }

    /// The same, where a router has said that less passes: Linux announces no more than that,
    /// though the other direction may be another path (`ipv4_default_advmss`).
    pub(super) fn announced_mss_of_path(&self, shared: &Shared) -> u32 {
        let headers = if self.remote.is_ipv4() { 40 } else { 60 };
        let path = u32::from(self.size.path_mtu()).saturating_sub(headers);
        self.announced_mss(shared).min(path.max(MSS_MIN))
    }

    fn sack_option_bytes(&self) -> u32 {
        if !self.recv.has_sack_blocks() {
            return 0;
        }
        let blocks = self.recv.sack_blocks(self.sack_blocks_max()).len() as u32;
        if blocks == 0 { 0 } else { 4 + 8 * blocks }
    }

    /// Four blocks fit beside nothing else, three beside timestamps (RFC 2018 section 3).
    pub(super) fn sack_blocks_max(&self) -> usize {
        match (self.agreed.sack, self.agreed.timestamps) {
            (false, _) => 0,
            (true, true) => 3,
            (true, false) => SackBlocks::MAX,
        }
    }

    /// The size of a full segment has changed, or may have.
    pub(super) fn resize(&mut self) {
        let mss = self.mss();
        self.recovery.set_mss(mss);
    }

    /// Notes a segment of full size: its acknowledgment shows that packets of this size pass.
    pub(super) fn note_full_segment(&mut self, outgoing: &Outgoing, probe: Option<u16>) {
        if probe.is_some() || self.size.full_segment.is_set() {
            return;
        }
        let mss = u64::from(self.mss());
        if outgoing.end - outgoing.start >= mss {
            self.size.full_segment = Mark::at(outgoing.start + mss);
            self.size.full_mtu = self.size.mtu();
        }
    }

    /// A probe of the next `bytes` of data may leave now: notes what it would take from the packet
    /// that is cut by it.
    #[cold]
    pub(super) fn before_mtu_probe(&mut self, bytes: u32) {
        let progress = self.recovery.progress();
        let end = progress.data_sent() + u64::from(bytes);
        let taken = self.send.cut_off(progress, end);
        self.size.path.will_take(taken, end);
    }

    /// Bytes of memory that the packet cut by the last probe of a larger MTU is charged for and
    /// does not have, as long as it is in flight.
    #[inline]
    pub(super) fn charged_behind_probe(&mut self) -> u32 {
        match self.size.path.taken() {
            Some((taken, start)) => self.still_charged(taken, start),
            None => 0,
        }
    }

    #[cold]
    fn still_charged(&mut self, taken: u32, start: u64) -> u32 {
        let una = self.recovery.una();
        let end = self.send.sent_end(start);
        if una > start && end.is_none_or(|end| end <= una) {
            self.size.path.forget_taken();
            return 0;
        }
        taken
    }

    /// A probe of this MTU left.
    pub(super) fn on_mtu_probe_sent(&mut self, mtu: u16, outgoing: &Outgoing) {
        self.size
            .path
            .on_probe_sent(mtu, outgoing.start, outgoing.end);
        let taken = self.charged_behind_probe();
        self.send.keep(taken);
        if self.linux().is_some() {
            self.recovery.on_mtu_probe_sent();
        }
    }

    /// A router says that our packets exceed `mtu` (RFC 1191, RFC 8201).
    pub(super) fn on_too_big(&mut self, now: Instant, shared: &mut Shared, mtu: u32, quoted: u64) {
        shared.counters.too_big += 1;
        let (una, next) = self.sent_range();
        // Where a router states none Linux takes the least that it believes, not the next common
        // size (`__ip_rt_update_pmtu`).
        let mtu = match self.linux() {
            Some(_) => mtu.max(1),
            None => mtu,
        };
        let report = TooBig {
            mtu,
            quoted,
            una,
            next,
        };
        if self.size.path.on_too_big(now, &report) && self.state.is_synchronized() {
            self.on_mtu_changed(now);
            match self.linux() {
                // Only retransmissions follow, dated by the last event instead of the clock
                // (`tcp_simple_retransmit`).
                Some(_) => {
                    let dated = self.traffic.last_heard().max(self.recovery.latest_sent());
                    self.output_lost_dated(now, shared, dated.unwrap_or(now));
                }
                None => self.output(now, shared),
            }
        }
    }

    /// The interface has another MTU.
    pub(crate) fn on_interface_mtu(&mut self, now: Instant, shared: &mut Shared) {
        if self.size.path.limit_by_interface(shared.mtu) && self.state.is_synchronized() {
            self.on_mtu_changed(now);
            self.output(now, shared);
        }
    }

    /// Retransmits everything in flight in smaller segments.
    fn on_mtu_changed(&mut self, now: Instant) {
        self.size.full_segment = Mark::NONE;
        let (mss, longest) = (self.mss(), self.retransmit_mss());
        self.recovery.on_mtu_change(now, mss, longest);
    }

    /// Repeated timeouts may mean that the path is a black hole for large packets (RFC 4821 section
    /// 7.7).
    pub(super) fn on_mtu_timeouts(&mut self, now: Instant) {
        if self.size.path.probe().is_some() {
            self.size.path.on_probe_unknown();
        }
        let timeouts = self.recovery.timeouts();
        let is_black_hole = match self.linux() {
            Some(_) => timeouts > 1 && self.repair_time(now) >= BLACK_HOLE_TIME,
            None => timeouts >= BLACK_HOLE_TIMEOUTS,
        };
        if self.size.path.on_timeouts(now, timeouts, is_black_hole) {
            self.on_mtu_changed(now);
        }
    }

    /// Everything up to `una` arrived: perhaps a probe of a larger MTU with it (RFC 4821 section
    /// 7.6).
    pub(super) fn on_mtu_acked(&mut self, una: u64) {
        let has_passed = self.size.full_segment.get().is_some_and(|end| end <= una);
        let mut passed = 0;
        if has_passed {
            passed = self.size.full_mtu;
            self.size.full_segment = Mark::NONE;
        }
        self.size.path.on_acked(una, passed);
        if let Some((_, end)) = self.size.path.probe()
            && una >= end
        {
            let before = self.size.path.mtu();
            self.size.path.on_probe_acked();
            self.resize();
            if self.linux().is_some() {
                self.recovery
                    .on_mtu_probe_acked(before, self.size.path.mtu());
            }
        }
    }

    /// The peer has offered a larger window than ever, by which Linux counts the size of segments
    /// anew (`tcp_ack_update_window`).
    pub(super) fn on_window_max(&mut self) {
        if self.size.path.count_anew() {
            self.resize();
        }
    }

    /// `start..` is lost; returns whether it was only a probe of a larger MTU, which is not a sign
    /// of congestion (RFC 4821 section 7.6.1).
    pub(super) fn on_mtu_loss(&mut self, now: Instant, start: u64) -> bool {
        let Some((first, end)) = self.size.path.probe() else {
            return false;
        };
        if start < first || start >= end {
            return false;
        }
        let is_linux = self.linux().is_some();
        // In a recovery that began with something else Linux retransmits it as other data
        // (`tcp_fastretrans_alert`).
        if is_linux && !self.recovery.began_at(first) {
            return false;
        }
        self.recovery.on_mtu_probe_lost(now, first, end);
        if is_linux {
            self.recovery.on_mtu_probe_forgotten();
        }
        self.size.path.on_probe_lost();
        true
    }

    /// The size of a probe that may leave now, as an IP packet.
    pub(super) fn mtu_probe_size(&mut self, now: Instant) -> Option<u16> {
        if !self.size.path.is_searching() {
            return None;
        }
        let (una, next) = self.sent_range();
        let conditions = ProbeConditions {
            is_open: self.recovery.state() == CongestionState::Open
                && !self.recv.has_out_of_order(),
            cwnd: self.recovery.window().cwnd,
            in_flight: self.recovery.in_flight(),
            reordering: self.recovery.reordering(),
            unsent_bytes: self.unsent_bytes(),
            window_bytes: self.window.end().saturating_sub(next.max(una)),
            mss: self.mss(),
        };
        self.size.path.probe_size(now, &conditions)
    }

    /// Expires the path MTU learned from ICMP.
    pub(super) fn on_mtu_timeout(&mut self, now: Instant, shared: &mut Shared) {
        if self.size.path.on_search_due(now) {
            self.resize();
        }
        self.output(now, shared);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_take_room_of_the_payload_down_to_a_least_one() {
        let check = |whole, timestamps, sack, expected| {
            let options = option_bytes(timestamps) + sack;
            assert_eq!(payload_beside(whole, options), expected, "{whole} {sack}");
        };
        check(1460, false, 0, 1460);
        check(1460, true, 0, 1448);
        // Three SACK blocks.
        check(1460, true, 28, 1420);
        check(48, true, 28, PAYLOAD_MIN);
        check(48, true, 0, 36);
        check(1, true, 12, 24);
        check(0, false, 0, MSS_MIN);
    }
}
