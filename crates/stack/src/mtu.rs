//! Size limits of packets to the peer: path MTU discovery.
//!
//! Decides the path MTU of one connection from three sources: the interface and the peer's MSS;
//! ICMP errors, after the checks of RFC 5927; and probes, packets larger than all others whose
//! acknowledgment proves that they fit (RFC 4821, RFC 8899; Linux `tcp_mtu_probe`). Timers and
//! sending belong to the connection. Sizes are those of IP packets.

use alloc::boxed::Box;
use core::time::Duration;

use base::Instant;
use base::settings::{MtuProbing, Path};

use crate::host::RateLimit;

/// Nothing was said yet of the options of segments.
const UNKNOWN: u8 = u8::MAX;
const TCP_HEADER_BYTES: u16 = 20;
const V4_HEADER_BYTES: u16 = 20;
/// Smallest MTU believed in ICMP reports (Linux `min_pmtu`); smaller reports lead to packets of
/// this size that may be fragmented.
const V4_REPORTED_MIN: u16 = 552;
/// Every IPv6 link carries it (RFC 8200 section 5).
const V6_MIN: u16 = 1280;
/// Least payload and TCP options of a packet, whatever the peer announces or a search finds: what
/// is smaller costs us more than it brings (Linux `tcp_min_snd_mss`, `tcp_mtu_probe_floor`: 48).
const MSS_MIN: u16 = 48;
/// The same with both headers.
const V4_SEARCH_MIN: u16 = MSS_MIN + V4_HEADER_BYTES + TCP_HEADER_BYTES;
/// Sizes of common links below which a router that states none may be (RFC 1191 section 7.1).
const PLATEAUS: [u16; 9] = [32_000, 17_914, 8166, 4352, 2002, 1492, 1006, 552, 508];
/// The search ends when its bounds are as close as that (Linux `tcp_probe_threshold`).
const SEARCH_END_BYTES: u16 = 8;
/// Time after which larger packets are tried again (RFC 1191 section 6.3: 10 minutes; Linux
/// `tcp_probe_interval`, `mtu_expires`).
const SEARCH_AGAIN: Duration = Duration::from_secs(600);
/// Least congestion window for a probe: its loss must be found without a timeout (Linux).
const PROBE_WINDOW_MIN: u32 = 11;
/// A probe whose fate stays unknown this often counts as lost (RFC 8899 section 5.1.2).
const PROBES_MAX: u32 = 3;

/// Reports of an ever smaller MTU that are believed at once after the first one: more than any path
/// has bottlenecks, each of which shows once the one before is respected. All data in flight is
/// retransmitted after each, which a forger could otherwise cause without end.
const REPORTS_AT_ONCE: u32 = 8;
const REPORTS_PER_SECOND: u32 = 1;

/// An ICMP error about a segment of this connection, with the positions that tell forgeries apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooBig {
    /// The MTU of the next hop; 0 where the router does not say.
    pub(crate) mtu: u32,
    /// Offset of the quoted segment.
    pub(crate) quoted: u64,
    /// First unacknowledged offset.
    pub(crate) una: u64,
    /// Next offset to be sent.
    pub(crate) next: u64,
}

/// Conditions under which a probe may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProbeConditions {
    /// Nothing is lost or reordered (`CongestionState::Open`), and the peer sends in order.
    pub(crate) is_open: bool,
    /// Congestion window in packets.
    pub(crate) cwnd: u32,
    /// Packets in flight.
    pub(crate) in_flight: u32,
    /// Degree of reordering: this many packets must follow the probe for its loss to be seen.
    pub(crate) reordering: u32,
    /// Bytes written and not sent.
    pub(crate) unsent_bytes: u64,
    /// Bytes that the peer's window has left.
    pub(crate) window_bytes: u64,
    /// Payload of a full segment now.
    pub(crate) mss: u32,
}

/// The search between a size that passes and one that may not.
#[derive(Clone, Copy, Debug)]
struct Search {
    /// Known or taken to pass: the size in use.
    low: u16,
    /// The largest that may pass.
    high: u16,
    /// The probe in flight.
    probe: Option<Probe>,
    /// Probes of the same size whose fate stayed unknown.
    unknown: u32,
    /// When the bounds were last opened.
    since: Instant,
    /// Segments still have this size, from before it; at least that of the path: they have none.
    in_use: Option<u16>,
    /// The packet behind the probe that left last stays charged for what that took.
    taken: Taken,
    /// What the next probe will take.
    to_take: Taken,
}

/// Bytes at the front of a packet that a probe took, and where that packet begins behind them.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    bytes: u32,
    start: u64,
}

#[derive(Clone, Copy, Debug)]
struct Probe {
    mtu: u16,
    start: u64,
    end: u64,
}

/// MTU reported by ICMP.
#[derive(Clone, Copy, Debug)]
struct Reported {
    mtu: u16,
    since: Instant,
    limit: RateLimit,
}

/// State of path MTU discovery.
#[derive(Debug)]
pub(crate) struct MtuState {
    /// Upper bound: the interface's MTU, and the peer's MSS.
    ceiling: u16,
    /// The interface's MTU alone.
    link: u16,
    ip_header: u16,
    discovery: bool,
    confirms: bool,
    probing: MtuProbing,
    base: u16,
    /// Bytes of TCP options in each segment.
    options: u8,
    /// Those by which the search counts. Where they are known, its base is an amount of data,
    /// whatever IPv6 takes at least (Linux `tcp_mtup_init`).
    expected: u8,
    reported: Option<Box<Reported>>,
    /// MTU reported by ICMP that is below what has already passed, with the offset of the quoted
    /// segment: believed when that segment times out (RFC 5927 section 7.2).
    doubtful: Option<Box<(u16, u64)>>,
    /// ICMP asks for packets below the least size: they are sent without DF.
    may_fragment: bool,
    largest_acked: u16,
    search: Option<Box<Search>>,
}

impl MtuState {
    /// A connection behind an interface with this `mtu`; `ip_header` is 20 or 40 bytes.
    pub(crate) fn new(now: Instant, settings: &Path, mtu: u16, ip_header: u16) -> Self {
        let mut state = Self {
            ceiling: mtu,
            link: mtu,
            ip_header,
            discovery: false,
            confirms: false,
            probing: MtuProbing::Off,
            base: 0,
            options: 0,
            expected: UNKNOWN,
            reported: None,
            doubtful: None,
            may_fragment: false,
            largest_acked: 0,
            search: None,
        };
        state.configure(now, settings);
        state
    }

    /// The settings changed. What ICMP or a search found stays, unless it is switched off.
    pub(crate) fn configure(&mut self, now: Instant, settings: &Path) {
        let Path {
            pmtu_discovery,
            pmtu_confirm,
            mtu_probing,
            mtu_base,
            gso_max: _,
            tso_min_segments: _,
            tso_rtt_log: _,
            tso_win_divisor: _,
            local_queue_max: _,
            hop_limit: _,
        } = *settings;
        self.discovery = pmtu_discovery;
        self.confirms = pmtu_confirm;
        self.probing = mtu_probing;
        self.base = mtu_base;
        if !pmtu_confirm {
            self.doubtful = None;
        }
        if !pmtu_discovery {
            self.reported = None;
            self.doubtful = None;
            self.may_fragment = false;
        }
        match mtu_probing {
            MtuProbing::Off => self.search = None,
            MtuProbing::BlackHole => {}
            MtuProbing::Always if self.search.is_none() => self.begin_search(now),
            MtuProbing::Always => {}
        }
    }

    /// The peer takes segments of this size at most (its MSS option, without TCP options).
    pub(crate) fn limit_by_peer(&mut self, mss: u16) {
        let headers = self.ip_header + TCP_HEADER_BYTES;
        let whole = mss.max(MSS_MIN).saturating_add(headers);
        self.ceiling = self.ceiling.min(whole);
        self.clamp_search();
    }

    /// Segments carry this many bytes of options, of which so many were expected when the search
    /// began: where its base says how much data they have (Linux `tcp_base_mss`), packets are
    /// larger by that, and by the header of IPv6. The search goes on from what they do carry, as
    /// soon as the size of segments counts anew (`tcp_init_transfer`).
    pub(crate) fn add_options(&mut self, bytes: u8, expected: u8) {
        self.options = bytes;
        self.expected = expected;
        let in_use = self.search_base().max(self.search_min());
        self.expected = bytes;
        let low = self.search_base().max(self.search_min());
        if let Some(search) = &mut self.search {
            search.low = low.min(search.high);
            search.in_use = (in_use != low).then_some(in_use);
        }
    }

    /// The search does not count until something makes the size of segments count anew: a
    /// connection that Linux has accepted (`tcp_init_transfer` after `tcp_sync_mss`).
    pub(crate) fn defer_search(&mut self) {
        if let Some(search) = &mut self.search {
            search.in_use = Some(u16::MAX);
        }
    }

    /// The size of segments counts anew; whether another size is in use from now on.
    pub(crate) fn count_anew(&mut self) -> bool {
        self.search
            .as_mut()
            .is_some_and(|search| search.in_use.take().is_some())
    }

    /// The interface carries packets of this size at most from now on. Returns whether the MTU is
    /// smaller now.
    pub(crate) fn limit_by_interface(&mut self, mtu: u16) -> bool {
        let before = self.mtu();
        self.ceiling = self.ceiling.min(mtu);
        self.link = self.link.min(mtu);
        self.clamp_search();
        self.mtu() < before
    }

    /// Bytes of the largest packet to be sent.
    pub(crate) fn mtu(&self) -> u16 {
        let known = self.known_max();
        match &self.search {
            Some(search) => known.min(search.in_use.unwrap_or(search.low)),
            None => known,
        }
    }

    /// What the interface and routers let pass, whatever the peer takes or a search found (Linux
    /// `icsk_pmtu_cookie`).
    pub(crate) fn path_mtu(&self) -> u16 {
        let reported = self.reported.as_ref();
        reported.map_or(self.link, |reported| reported.mtu.min(self.link))
    }

    /// Bytes of the largest packet that may be a probe of a larger MTU.
    pub(crate) fn largest(&self) -> u16 {
        match &self.search {
            Some(_) => self.ceiling,
            None => self.mtu(),
        }
    }

    /// Payload and TCP options of the largest packet to be sent.
    pub(crate) fn mss_limit(&self) -> u16 {
        self.mtu()
            .saturating_sub(self.ip_header + TCP_HEADER_BYTES)
            .max(MSS_MIN)
    }

    /// Whether packets forbid fragmentation (RFC 1191 section 3; IPv6 packets always do).
    pub(crate) const fn dont_fragment(&self) -> bool {
        self.ip_header != V4_HEADER_BYTES || self.discovery && !self.may_fragment
    }

    /// An ICMP error says that a packet of ours was too big. Returns whether the MTU is smaller
    /// now: then what was larger must be cut and retransmitted.
    pub(crate) fn on_too_big(&mut self, now: Instant, report: &TooBig) -> bool {
        let TooBig {
            mtu,
            quoted,
            una,
            next,
        } = *report;
        // RFC 5927 section 4.1: only what is in flight can have been too big; in Linux the next,
        // too.
        if !self.discovery || quoted < una || quoted > next {
            return false;
        }
        // RFC 8201 section 4: no IPv6 link has less, so the report is not from a router.
        if self.ip_header != V4_HEADER_BYTES && mtu < u32::from(V6_MIN) {
            return false;
        }
        let claimed = match mtu {
            0 => self.plateau(),
            mtu => u16::try_from(mtu).unwrap_or(u16::MAX),
        };
        if claimed >= self.mtu() {
            // It is still a result for a probe.
            return self.reject_probe(claimed, quoted);
        }
        // RFC 5927 section 7.2: packets of that size have passed, so it is a new path or a forgery;
        // a timeout decides.
        if self.confirms && claimed.max(self.reported_min()) < self.largest_acked {
            self.doubtful = Some(Box::new((claimed, quoted)));
            return false;
        }
        let limit = self.reported.as_mut().map(|reported| &mut reported.limit);
        if limit.is_some_and(|limit| !limit.take(now, REPORTS_PER_SECOND, REPORTS_AT_ONCE)) {
            return false;
        }
        self.believe(now, claimed)
    }

    /// The peer acknowledged all up to `una`, among it a packet of `bytes`.
    pub(crate) fn on_acked(&mut self, una: u64, bytes: u16) {
        self.largest_acked = self.largest_acked.max(bytes);
        self.doubtful.take_if(|doubtful| doubtful.1 < una);
    }

    /// This many retransmission timeouts in a row, so many that the path may swallow large packets
    /// (`is_black_hole`). Returns whether the MTU is smaller now (Linux `tcp_mtu_probing`).
    pub(crate) fn on_timeouts(&mut self, now: Instant, timeouts: u32, is_black_hole: bool) -> bool {
        let mut is_smaller = false;
        if let Some(doubtful) = self.doubtful.take_if(|_| timeouts > 0) {
            self.largest_acked = 0;
            is_smaller = self.believe(now, doubtful.0);
        }
        if self.probing == MtuProbing::Off || !is_black_hole {
            return is_smaller;
        }
        let before = self.mtu();
        let headers = self.ip_header + TCP_HEADER_BYTES + u16::from(self.options);
        let (base, least) = (self.search_base(), self.search_min());
        match &mut self.search {
            None => self.begin_search(now),
            Some(search) => {
                let half = headers + search.low.saturating_sub(headers) / 2;
                search.low = half.min(base).max(least).min(search.low);
                search.probe = None;
                search.in_use = None;
            }
        }
        self.mtu() < before
    }

    /// Whether a larger size is looked for by probes.
    pub(crate) const fn is_searching(&self) -> bool {
        self.search.is_some()
    }

    /// Bytes of the probe that may leave now, as one segment of new data; `None` where none may or
    /// none is needed.
    pub(crate) fn probe_size(&mut self, now: Instant, conditions: &ProbeConditions) -> Option<u16> {
        let ProbeConditions {
            is_open,
            cwnd,
            in_flight,
            reordering,
            unsent_bytes,
            window_bytes,
            mss,
        } = *conditions;
        let search = self.search.as_ref()?;
        if search.probe.is_some()
            || !is_open
            || cwnd < PROBE_WINDOW_MIN
            || in_flight.saturating_add(2) > cwnd
        {
            return None;
        }
        if search.high.saturating_sub(search.low) < SEARCH_END_BYTES {
            if now >= search.since + SEARCH_AGAIN {
                self.open_bounds(now);
            }
            return None;
        }
        let size = search.low.midpoint(search.high);
        let headers = self.ip_header + TCP_HEADER_BYTES + u16::from(self.options);
        let following = u64::from(reordering) + 1;
        let needed = u64::from(size.saturating_sub(headers)) + following * u64::from(mss);
        (needed <= unsent_bytes && needed <= window_bytes).then_some(size)
    }

    /// The probe left as the data `start..end` in a packet of `mtu` bytes.
    pub(crate) fn on_probe_sent(&mut self, mtu: u16, start: u64, end: u64) {
        if let Some(search) = &mut self.search {
            search.probe = Some(Probe { mtu, start, end });
            search.taken = search.to_take;
        }
    }

    /// A probe that leaves now takes this many bytes from the front of the packet that then begins
    /// at `start`: Linux does not give back its memory for them (`tcp_mtu_probe`).
    pub(crate) fn will_take(&mut self, bytes: u32, start: u64) {
        if let Some(search) = &mut self.search {
            search.to_take = Taken { bytes, start };
        }
    }

    /// What the last probe took, and where the packet begins that it took it from, which has not
    /// been acknowledged.
    #[inline]
    pub(crate) fn taken(&self) -> Option<(u32, u64)> {
        let Taken { bytes, start } = self.search.as_ref()?.taken;
        (bytes > 0).then_some((bytes, start))
    }

    /// That packet is acknowledged.
    pub(crate) fn forget_taken(&mut self) {
        if let Some(search) = &mut self.search {
            search.taken = Taken::default();
        }
    }

    /// The data of the probe in flight.
    pub(crate) fn probe(&self) -> Option<(u64, u64)> {
        let probe = self.search.as_ref()?.probe?;
        Some((probe.start, probe.end))
    }

    /// The probe arrived: packets of its size pass, and the MTU is larger now.
    pub(crate) fn on_probe_acked(&mut self) {
        if let Some(search) = &mut self.search
            && let Some(probe) = search.probe.take()
        {
            search.low = search.low.max(probe.mtu.min(search.high));
            search.unknown = 0;
            search.in_use = None;
            self.largest_acked = self.largest_acked.max(probe.mtu);
        }
    }

    /// The probe, and nothing else, was lost: packets of its size do not pass. This is not a sign
    /// of congestion (RFC 4821 section 7.6.1).
    pub(crate) fn on_probe_lost(&mut self) {
        if let Some(search) = &mut self.search
            && let Some(probe) = search.probe.take()
        {
            search.high = search.high.min(probe.mtu - 1).max(search.low);
            search.unknown = 0;
        }
    }

    /// More than the probe was lost or retransmitted: the result is inconclusive (RFC 4821 section
    /// 7.6.2).
    pub(crate) fn on_probe_unknown(&mut self) {
        let Some(search) = &mut self.search else {
            return;
        };
        if search.probe.is_some() {
            search.unknown += 1;
            if search.unknown >= PROBES_MAX {
                self.on_probe_lost();
            } else {
                search.probe = None;
            }
        }
    }

    /// Abandons the probe in flight, without counting it as inconclusive.
    pub(crate) fn forget_probe(&mut self) {
        if let Some(search) = &mut self.search {
            search.probe = None;
        }
    }

    /// When the MTU from ICMP expires. It needs no timer: it is checked when data is sent.
    pub(crate) fn next_search(&self) -> Option<Instant> {
        let reported = self.reported.as_ref()?;
        Some(reported.since + SEARCH_AGAIN)
    }

    /// Forgets what ICMP reported long ago; returns whether the MTU is larger now.
    pub(crate) fn on_search_due(&mut self, now: Instant) -> bool {
        if self.next_search().is_none_or(|due| now < due) {
            return false;
        }
        let before = self.mtu();
        self.reported = None;
        self.may_fragment = false;
        self.open_bounds(now);
        self.mtu() > before
    }

    /// The largest that may pass, without what probes found.
    fn known_max(&self) -> u16 {
        self.reported
            .as_ref()
            .map_or(self.ceiling, |reported| reported.mtu.min(self.ceiling))
    }

    const fn reported_min(&self) -> u16 {
        match self.ip_header {
            V4_HEADER_BYTES => V4_REPORTED_MIN,
            _ => V6_MIN,
        }
    }

    const fn search_min(&self) -> u16 {
        match self.ip_header {
            V4_HEADER_BYTES => V4_SEARCH_MIN,
            _ if self.expected != UNKNOWN => MSS_MIN + self.ip_header + TCP_HEADER_BYTES,
            _ => V6_MIN,
        }
    }

    /// Next plateau below, for routers that report "too big" without an MTU.
    fn plateau(&self) -> u16 {
        let mtu = self.mtu();
        PLATEAUS
            .into_iter()
            .find(|&plateau| plateau < mtu)
            .unwrap_or(1)
            .max(self.reported_min())
    }

    /// Takes `claimed` for the MTU; returns whether it is smaller now.
    fn believe(&mut self, now: Instant, claimed: u16) -> bool {
        let before = self.mtu();
        let least = self.reported_min();
        self.may_fragment |= claimed < least;
        let mtu = claimed.max(least);
        if mtu < self.known_max() {
            let before = self.reported.take();
            let limit = before.map(|reported| reported.limit);
            self.reported = Some(Box::new(Reported {
                mtu,
                since: now,
                limit: limit.unwrap_or_default(),
            }));
            self.clamp_search();
            self.count_anew();
        }
        self.mtu() < before
    }

    /// A report about the probe, the only packet larger than the MTU: the probe is lost, the MTU
    /// stays.
    fn reject_probe(&mut self, claimed: u16, quoted: u64) -> bool {
        if let Some(search) = &mut self.search
            && let Some(probe) = search.probe
            && probe.start == quoted
            && claimed < probe.mtu
        {
            search.high = search.high.min(claimed).max(search.low);
        }
        false
    }

    const fn search_base(&self) -> u16 {
        let headers = match self.expected {
            UNKNOWN => 0,
            options => options as u16 + self.ip_header - V4_HEADER_BYTES,
        };
        self.base.saturating_add(headers)
    }

    fn begin_search(&mut self, now: Instant) {
        let high = self.known_max();
        self.search = Some(Box::new(Search {
            low: self.search_base().max(self.search_min()).min(high),
            high,
            probe: None,
            unknown: 0,
            since: now,
            in_use: None,
            taken: Taken::default(),
            to_take: Taken::default(),
        }));
    }

    /// Linux `tcp_mtu_check_reprobe`: from what is in use up to what the ends allow.
    fn open_bounds(&mut self, now: Instant) {
        let high = self.known_max();
        if let Some(search) = &mut self.search {
            search.high = high;
            search.since = now;
            search.unknown = 0;
        }
    }

    fn clamp_search(&mut self) {
        let high = self.known_max();
        if let Some(search) = &mut self.search {
            search.high = search.high.min(high);
            search.low = search.low.min(high);
        }
    }
}

#[cfg(test)]
mod tests;
