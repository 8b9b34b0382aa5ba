//! One direction of a connection, as its sender sees it: what it sends, what comes back, and what
//! it waits for in between.
//!
//! Times are those of the capture as far as data go. An ACK comes here when the sender has it,
//! which is later than the capture saw it where that is not at the sender (see `acks`).

use core::time::Duration;

use base::tcp::SackBlocks;
use base::{Instant, Rate};

use crate::gaps::Gaps;
use crate::loss::{InFlight, Loss};
use crate::rtt::Rtt;
use crate::runs::Runs;
use crate::scale::ScaleVotes;
use crate::waits::{Cause, Held, Waits};

/// Far from the sender, the ACKs that it had not got may have opened the window by this part: the
/// timestamps that it echoes have steps of a millisecond.
const LATE_WINDOW_PARTS: u32 = 16;
/// Numbers that are further from the present ones belong to another connection, or are made up.
const JUMP_MAX: u32 = 1 << 30;
/// Offsets begin here, so that what was sent before has one too.
const ORIGIN: u64 = 1 << 32;
/// Payload of a full segment on an Ethernet path with timestamps, where nothing tells.
const USUAL_MSS: u32 = 1448;
/// The longest segment that is none of several.
const PLAIN_SEGMENT_MAX: u32 = 1460;
/// So many segments one after the other with numbers that are too far away: the capture has missed
/// where the numbers went on, or another connection has the same ends.
const STRAYS_MAX: u32 = 8;
/// A rate is measured over a round trip, and at least this long.
const RATE_NANOS_MIN: u64 = 1_000_000;

/// Offsets of the ranges that an ACK's SACK blocks name, none of them empty.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sacked {
    ranges: [(u64, u64); SackBlocks::MAX],
    count: u8,
}

impl Sacked {
    pub(crate) fn ranges(&self) -> &[(u64, u64)] {
        &self.ranges[..usize::from(self.count)]
    }
}

impl FromIterator<(u64, u64)> for Sacked {
    /// As many as an ACK has room for.
    fn from_iter<I: IntoIterator<Item = (u64, u64)>>(ranges: I) -> Self {
        let mut sacked = Self::default();
        for (slot, range) in sacked.ranges.iter_mut().zip(ranges) {
            *slot = range;
            sacked.count += 1;
        }
        sacked
    }
}

/// An ACK that has reached the sender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ack {
    pub(crate) at: Instant,
    /// When the capture saw it.
    pub(crate) seen: Instant,
    /// Next byte expected; `None` where the offset makes no sense.
    pub(crate) una: u64,
    /// Bytes behind it that may be sent; `None` while the scale is unknown.
    pub(crate) window: Option<u32>,
    /// ... as it stands in the packet.
    pub(crate) unscaled: u16,
    pub(crate) carries_data: bool,
    /// Payload behind `una` that has arrived.
    pub(crate) sacked: Sacked,
    /// Its first block tells of data that came twice (RFC 2883).
    pub(crate) is_dsack: bool,
    pub(crate) echoes_mark: bool,
}

/// Payload that leaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Data {
    pub(crate) at: Instant,
    pub(crate) seq: u32,
    pub(crate) bytes: u32,
    pub(crate) is_pushed: bool,
    pub(crate) ends: bool,
    /// The sender's own timestamp.
    pub(crate) stamp: Option<u32>,
}

/// Counters of what was sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) segments: u64,
    pub(crate) data_segments: u64,
    pub(crate) marked: u64,
    /// Bytes that were acknowledged without having been seen.
    pub(crate) missed_bytes: u64,
    pub(crate) acked_pkts: u64,
    /// How often the other end closed its window.
    pub(crate) zero_windows: u64,
    /// Segments whose numbers are too far from the others.
    pub(crate) stray_segments: u64,
}

/// The direction.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    begun: bool,
    next_seq: u32,
    next: u64,
    una: u64,
    origin: u64,
    /// Offset of the first captured payload: ACKs of earlier payload give no round-trip time.
    seen_from: Option<u64>,
    /// Whether anything was acknowledged, so that `una` is more than a guess.
    pub(crate) hears: bool,
    pub(crate) counts: Counts,
    pub(crate) runs: Runs,
    pub(crate) rtt: Rtt,
    /// Apart from what each packet needs, since most connections have no losses to judge.
    gaps: Option<Box<Gaps>>,
    /// Whether it is known how far from the capture it is; round-trip times are wrong before.
    pub(crate) is_placed: bool,
    /// Scale of the windows that it is offered.
    pub(crate) scale: ScaleVotes,
    pub(crate) loss: Loss,
    pub(crate) waits: Waits,
    /// Largest payload that the other end takes in one segment.
    mss_allowed: Option<u32>,
    mss_seen: u32,
    largest: u32,
    /// Whether the newest segment is a full one.
    ends_full: bool,
    /// New data has left since the last ACK.
    sends: bool,
    /// Behind the last byte that the window allows.
    edge: Option<u64>,
    pub(crate) window: Option<u32>,
    pub(crate) last_data: Option<Instant>,
    pub(crate) last_ack: Option<Instant>,
    /// Up to when time was counted, and how much of it something was unacknowledged.
    clock: Option<Instant>,
    busy_nanos: u64,
    /// When everything was acknowledged.
    idle_since: Option<Instant>,
    /// It has asked whether a closed window is open again since its last payload.
    probes: bool,
    rate: RateMark,
    /// Largest number of bytes in flight.
    pub(crate) flight_max: u64,
    /// Segments with payload that is too far away, since the last one that was not.
    strays: u32,
}

/// From when and where a delivery rate is measured.
#[derive(Clone, Copy, Debug, Default)]
struct RateMark {
    from: Option<RateFrom>,
    /// When the newest data that was acknowledged had been sent; zero before there is any.
    sent: Instant,
    latest: Option<Rate>,
    best: Option<Rate>,
}

#[derive(Clone, Copy, Debug)]
struct RateFrom {
    at: Instant,
    /// Bytes that had arrived.
    delivered: u64,
    sent: Instant,
}

impl RateMark {
    /// Time in which what was delivered since then was, as the bottleneck let it out. ACKs that
    /// were held up on their way come together, and tell of more at once than arrived at once: data
    /// takes at least as long as it was sent (as in `tcp_rate_gen`).
    fn time_since(&self, from: &RateFrom, now: Instant) -> Duration {
        let is_known = from.sent > Instant::ZERO;
        let of_sending = match is_known {
            true => self.sent.since(from.sent),
            false => Duration::ZERO,
        };
        now.since(from.at).max(of_sending)
    }
}

impl Sender {
    pub(crate) fn new() -> Self {
        Self {
            begun: false,
            next_seq: 0,
            next: ORIGIN,
            una: ORIGIN,
            origin: ORIGIN,
            seen_from: None,
            hears: false,
            counts: Counts::default(),
            runs: Runs::default(),
            rtt: Rtt::default(),
            gaps: None,
            is_placed: true,
            scale: ScaleVotes::default(),
            loss: Loss::default(),
            waits: Waits::default(),
            mss_allowed: None,
            mss_seen: 0,
            largest: 0,
            ends_full: false,
            sends: false,
            edge: None,
            window: None,
            last_data: None,
            last_ack: None,
            clock: None,
            busy_nanos: 0,
            idle_since: None,
            probes: false,
            rate: RateMark::default(),
            flight_max: 0,
            strays: 0,
        }
    }

    /// The same in the memory of one that is over.
    pub(crate) fn renew(&mut self) {
        let mut runs = core::mem::take(&mut self.runs);
        runs.clear();
        let mut gaps = self.gaps.take();
        if let Some(gaps) = &mut gaps {
            gaps.clear();
        }
        *self = Self {
            runs,
            gaps,
            ..Self::new()
        };
    }

    /// The sequence numbers begin at `seq`, with the SYN of a new connection or in the middle.
    pub(crate) fn begin(&mut self, seq: u32) {
        if !self.begun {
            self.begun = true;
            self.next_seq = seq;
        }
    }

    /// Offset of a sequence number; `None` if it is too far from everything seen.
    pub(crate) const fn offset(&self, seq: u32) -> Option<u64> {
        let ahead = seq.wrapping_sub(self.next_seq);
        if ahead < JUMP_MAX {
            Some(self.next + ahead as u64)
        } else if ahead > 0_u32.wrapping_sub(JUMP_MAX) {
            Some(self.next - 0_u32.wrapping_sub(ahead) as u64)
        } else {
            None
        }
    }

    /// Whether its SYN had this number.
    pub(crate) fn begins_at(&self, seq: u32) -> bool {
        self.offset(seq).map(|offset| offset + 1) == Some(self.origin)
    }

    /// The offset at which the payload begins.
    pub(crate) const fn origin(&self) -> u64 {
        self.origin
    }

    /// Whether its numbers lead nowhere any more.
    pub(crate) const fn has_strayed(&self) -> bool {
        self.strays >= STRAYS_MAX
    }

    pub(crate) const fn has_begun(&self) -> bool {
        self.begun
    }

    /// The other end takes this much payload in a segment.
    pub(crate) fn allow_mss(&mut self, bytes: u32) {
        self.mss_allowed = Some(bytes.max(1));
    }

    /// Payload of a full segment, as far as it shows.
    pub(crate) fn mss(&self) -> u32 {
        match (self.mss_seen, self.mss_allowed) {
            (0, Some(allowed)) => allowed,
            // Each segment ended a write, so that none of them shows that it is full.
            (0, None) => self.largest.max(USUAL_MSS),
            (seen, _) => seen,
        }
    }

    pub(crate) const fn bytes_acked(&self) -> u64 {
        self.una - self.origin
    }

    /// Payload that was sent, retransmissions included.
    pub(crate) fn bytes_sent(&self) -> u64 {
        self.next - self.origin + self.loss.bytes
    }

    /// Payload that was sent for the first time.
    pub(crate) const fn bytes_new(&self) -> u64 {
        self.next - self.origin
    }

    pub(crate) const fn flight_bytes(&self) -> u64 {
        self.next - self.una
    }

    /// Room in the window of the other end; `None` where that is not known.
    pub(crate) fn room(&self) -> Option<u64> {
        Some(self.edge?.saturating_sub(self.next))
    }

    /// The same at the sender, which may not have had the newest ACKs when it sent.
    fn room_when_sent(&self) -> Option<u64> {
        let late = match self.waits.is_far {
            true => self.window.unwrap_or(0) / LATE_WINDOW_PARTS,
            false => 0,
        };
        Some(self.room()?.saturating_sub(late.into()))
    }

    /// Gaps whose packet behind was timed, and the sum of their ranks.
    pub(crate) fn gaps(&self) -> (u64, u64) {
        let gaps = self.gaps.as_deref();
        gaps.map_or((0, 0), |gaps| (gaps.count, gaps.ranks))
    }

    pub(crate) fn rates(&self) -> (Option<Rate>, Option<Rate>) {
        (self.rate.latest, self.rate.best)
    }

    /// Time in which something was unacknowledged, or waited with nothing in flight.
    pub(crate) fn busy_time(&self) -> Duration {
        Duration::from_nanos(self.busy_nanos.saturating_add(self.waits.busy_nanos))
    }

    /// A SYN takes a number, behind which the payload begins.
    pub(crate) fn on_syn(&mut self, seq: u32) {
        let is_first = !self.begun;
        self.begin(seq);
        if is_first {
            self.advance(1);
            (self.una, self.origin) = (self.next, self.next);
        }
    }

    /// A FIN takes one too. Whether it is one of this connection.
    pub(crate) fn on_fin(&mut self, seq: u32) -> bool {
        self.begin(seq);
        let offset = self.offset(seq);
        if offset == Some(self.next) {
            self.advance(1);
        }
        offset.is_some()
    }

    fn advance(&mut self, bytes: u64) {
        self.next += bytes;
        self.next_seq = self.next_seq.wrapping_add(bytes as u32);
    }

    /// Counts time up to `now`.
    pub(crate) fn pass(&mut self, now: Instant) {
        let clock = *self.clock.get_or_insert(now);
        if now > clock {
            if self.flight_bytes() > 0 && self.hears {
                self.busy_nanos += now.nanos_since(clock);
            }
            self.clock = Some(now);
        }
    }

    /// Payload leaves. Gives what the sender had waited for, where it is new.
    pub(crate) fn on_data(&mut self, data: &Data) -> Option<Held> {
        self.begin(data.seq);
        self.pass(data.at);
        self.note_size(data);
        let mss = self.mss();
        let pkts = data.bytes.div_ceil(mss).max(1);
        let Some(begin) = self.offset(data.seq) else {
            self.counts.stray_segments += 1;
            self.strays += 1;
            return None;
        };
        self.strays = 0;
        self.seen_from.get_or_insert(begin);
        let end = begin + u64::from(data.bytes);
        self.counts.data_segments += u64::from(pkts);
        let held = if end > self.next {
            let held = self.resolve(data, mss);
            self.take_new(data, begin, end);
            self.ends_full = data.bytes.is_multiple_of(mss);
            self.sends = true;
            self.runs.push(data.at, end, pkts);
            self.flight_max = self.flight_max.max(self.flight_bytes());
            held
        } else {
            let in_flight = self.in_flight();
            if self.loss.on_old(data, (begin, end), in_flight, &self.rtt) {
                self.runs.repeat(begin, end);
            }
            None
        };
        if held.is_some() || end >= self.next {
            let room = self.room_when_sent();
            self.waits.sent(data, end, mss, room);
        }
        self.last_data = Some(data.at);
        held
    }

    fn note_size(&mut self, data: &Data) {
        let most = self.mss_allowed.unwrap_or(PLAIN_SEGMENT_MAX);
        if data.bytes <= most {
            self.largest = self.largest.max(data.bytes);
            // What is followed by more of the same write is full.
            if !data.is_pushed && !data.ends {
                self.mss_seen = self.mss_seen.max(data.bytes);
            }
        }
    }

    fn take_new(&mut self, data: &Data, begin: u64, end: u64) {
        if begin > self.next {
            self.loss.note_hole(self.next, begin, data.at);
        } else if begin < self.next {
            self.loss.count_again(self.next - begin);
        }
        self.loss.note_newest(data);
        let bytes = end - self.next;
        self.advance(bytes);
    }

    /// A segment without payload leaves. One whose number was acknowledged before, while the window
    /// is closed, is a window probe (RFC 9293 section 3.8.6.1): its sender has more.
    pub(crate) fn note_bare(&mut self, seq: u32) {
        let is_old = self.offset(seq).is_some_and(|offset| offset < self.una);
        self.probes |= is_old && self.window == Some(0);
    }

    /// Since when it has waited with nothing in flight for a window that is closed, as its probes
    /// tell.
    pub(crate) fn stopped_since(&self) -> Option<Instant> {
        self.idle_since
            .filter(|_| self.probes && self.flight_bytes() == 0 && self.window == Some(0))
    }

    fn resolve(&mut self, data: &Data, mss: u32) -> Option<Held> {
        self.probes = false;
        let flight = (self.flight_bytes(), self.runs.pkts());
        let mut held = self
            .waits
            .resolve(data, (mss, &self.rtt), flight, self.una)?;
        if flight.0 == 0 && held.cause != Cause::Application {
            let idle_from = self.idle_since.unwrap_or(held.from).max(held.from);
            self.waits.busy_nanos += held.to.nanos_since(idle_from);
            held.idle_from = Some(idle_from);
        }
        Some(held)
    }

    pub(crate) const fn in_flight(&self) -> InFlight {
        InFlight {
            una: self.una,
            next: self.next,
            pkts: self.runs.pkts(),
        }
    }

    /// An ACK has come.
    pub(crate) fn on_ack(&mut self, ack: &Ack) {
        self.pass(ack.at);
        self.last_ack = Some(ack.at);
        let flight_before = self.runs.pkts();
        let first = !self.hears;
        // Of ACKs that come together, the first meets all that the sender could have out.
        let has_sent = core::mem::take(&mut self.sends);
        if !first && has_sent && self.is_placed {
            self.scale
                .vote(self.flight_bytes(), self.mss(), self.ends_full);
        }
        if first {
            self.hear_first(ack);
        }
        if ack.una > self.next {
            self.miss(ack.una);
        }
        let advanced = ack.una > self.una;
        if advanced {
            self.take_acked(ack, first);
        }
        let had_gap = self.loss.arrived_bytes() > 0 || self.loss.is_repairing();
        self.loss.on_ack(ack, self.una, advanced);
        if !had_gap && self.is_placed {
            self.find_gap(ack);
        }
        let was_shut = self.window == Some(0);
        if ack.una >= self.una {
            self.scale.offer(ack.unscaled);
            self.take_window(ack);
        }
        let opens = was_shut && self.window != Some(0);
        self.waits.has_room(ack.at, self.room(), self.mss());
        if advanced || opens || ack.window.is_some() {
            let acked_all = self.una == self.next;
            self.waits.acked(ack, flight_before, acked_all, opens);
        }
        self.measure_rate(ack.at);
    }

    /// The first ACK says where the connection stands, if its beginning was not seen.
    fn hear_first(&mut self, ack: &Ack) {
        self.hears = true;
        if ack.una < self.una {
            // What was in flight when the capture began.
            self.una = ack.una;
            self.origin = self.origin.min(ack.una);
        }
    }

    /// Something was acknowledged that the capture has not seen.
    fn miss(&mut self, una: u64) {
        let missed = una - self.next;
        self.counts.missed_bytes += missed;
        self.advance(missed);
    }

    fn take_acked(&mut self, ack: &Ack, first: bool) {
        let is_seen = self.seen_from.is_some_and(|from| self.una >= from);
        let acked = self.runs.acknowledge(self.una, ack.una);
        self.counts.acked_pkts += u64::from(acked.pkts);
        self.rate.sent = self.rate.sent.max(acked.newest_at.unwrap_or_default());
        self.counts.missed_bytes += self.loss.fill_holes(ack.una);
        self.una = ack.una;
        if self.una == self.next {
            self.runs.clear();
            self.idle_since = Some(ack.at);
        }
        if ack.echoes_mark {
            self.counts.marked += u64::from(acked.pkts);
        }
        let clean = !first && is_seen && self.is_placed && !self.loss.is_repairing();
        if let Some(sent_at) = acked.sent_at.filter(|_| clean) {
            self.rtt.sample(ack.at.nanos_since(sent_at));
        }
        let newest = acked
            .newest_at
            .filter(|_| clean && self.loss.arrived_bytes() == 0);
        if let Some((sent_at, rtt)) = newest.zip(self.rtt.srtt()) {
            self.gaps
                .get_or_insert_default()
                .note(ack.seen, ack.seen.since(sent_at), rtt);
        }
    }

    /// The first ACK that tells of a gap is sent when the packet behind that has arrived. Its time
    /// from the capture and back is known wherever that is.
    fn find_gap(&mut self, ack: &Ack) {
        let behind = ack
            .sacked
            .ranges()
            .iter()
            .find(|(from, _)| *from > self.una);
        let sent_at = behind.and_then(|(_, to)| self.runs.sent_at(*to));
        if let Some((sent_at, rtt)) = sent_at.zip(self.rtt.srtt()) {
            self.gaps
                .get_or_insert_default()
                .find(ack.seen, ack.seen.since(sent_at), rtt);
        }
    }

    fn take_window(&mut self, ack: &Ack) {
        let Some(window) = ack.window else {
            // Nothing tells the scale, or not any more: what was offered under it may be long ago.
            (self.window, self.edge) = (None, None);
            return;
        };
        if window == 0 && self.window != Some(0) {
            self.counts.zero_windows += 1;
        }
        self.window = Some(window);
        self.edge = Some(ack.una + u64::from(window));
    }

    fn measure_rate(&mut self, now: Instant) {
        // What has arrived behind a gap counts when it arrives, not when the gap is filled.
        let delivered = self.una + self.loss.arrived_bytes();
        let mark = RateFrom {
            at: now,
            delivered,
            sent: self.rate.sent,
        };
        let Some(from) = self.rate.from else {
            self.rate.from = Some(mark);
            return;
        };
        if now.nanos_since(from.at) < self.rtt.srtt_nanos().unwrap_or(0).max(RATE_NANOS_MIN) {
            return;
        }
        let time = self.rate.time_since(&from, now);
        let rate = Rate::of(delivered.saturating_sub(from.delivered), time);
        self.rate.latest = Some(rate);
        self.rate.best = self.rate.best.max(Some(rate));
        self.rate.from = Some(mark);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_whose_scale_nothing_tells_any_more_is_none() {
        let mut sender = Sender::new();
        sender.begin(0);
        let ack = |window| Ack {
            at: Instant::ZERO,
            seen: Instant::ZERO,
            una: ORIGIN,
            window,
            unscaled: 63,
            carries_data: false,
            sacked: Sacked::default(),
            is_dsack: false,
            echoes_mark: false,
        };
        for window in [Some(64_512), None, Some(0), None] {
            sender.on_ack(&ack(window));
            assert_eq!(sender.window, window);
        }
    }

    /// Four ACKs come together, of two segments each, and let eight out.
    #[test]
    fn acks_that_come_together_meet_one_full_window() {
        const MSS: u64 = 1448;
        let mut sender = Sender::new();
        sender.allow_mss(MSS as u32);
        sender.begin(0);
        let mut sent = 0;
        for round in 0..40_u32 {
            let at = Instant::ZERO + Duration::from_millis(5) * round;
            while sent < 44 + u64::from(round) * 8 {
                sender.on_data(&Data {
                    at,
                    seq: (sent * MSS) as u32,
                    bytes: MSS as u32,
                    is_pushed: false,
                    ends: false,
                    stamp: None,
                });
                sent += 1;
            }
            for number in 1..=4 {
                sender.on_ack(&Ack {
                    at,
                    seen: at,
                    una: ORIGIN + (sent - 44 + number * 2) * MSS,
                    window: None,
                    unscaled: 63_712,
                    carries_data: false,
                    sacked: Sacked::default(),
                    is_dsack: false,
                    echoes_mark: false,
                });
            }
        }
        assert_eq!(sender.scale.scale(), Some(0));
    }

    /// One segment a millisecond, acknowledged 20 ms later; what held the ACKs up for 40 ms lets
    /// all of them through at once.
    #[test]
    fn acks_that_come_together_tell_of_no_faster_path() {
        const MSS: u64 = 1000;
        let millis = |count: u64| Instant::ZERO + Duration::from_millis(count);
        let mut sender = Sender::new();
        sender.begin(0);
        for now in 0..300_u64 {
            sender.on_data(&Data {
                at: millis(now),
                seq: (now * MSS) as u32,
                bytes: MSS as u32,
                is_pushed: false,
                ends: false,
                stamp: None,
            });
            let is_held = (100..140).contains(&now);
            if now >= 20 && !is_held {
                sender.on_ack(&Ack {
                    at: millis(now),
                    seen: millis(now),
                    una: ORIGIN + (now - 20) * MSS,
                    window: None,
                    unscaled: 0,
                    carries_data: false,
                    sacked: Sacked::default(),
                    is_dsack: false,
                    echoes_mark: false,
                });
            }
        }
        let best = sender.rates().1.map_or(0, Rate::bits_per_second);
        assert!((7_000_000..=9_000_000).contains(&best), "{best}");
    }

    /// One segment a millisecond, of which the tenth is lost and comes again 20 ms later.
    #[test]
    fn what_arrives_behind_a_gap_is_no_faster_when_the_gap_is_filled() {
        const MSS: u64 = 1000;
        let mut sender = Sender::new();
        sender.begin(0);
        for number in 0..60_u64 {
            let at = Instant::ZERO + Duration::from_millis(number);
            sender.on_data(&Data {
                at,
                seq: (number * MSS) as u32,
                bytes: MSS as u32,
                is_pushed: false,
                ends: false,
                stamp: None,
            });
            let all = ORIGIN + (number + 1) * MSS;
            let lost = ORIGIN + 9 * MSS;
            let waits = (9..30).contains(&number);
            let behind = waits.then_some((lost + MSS, all));
            sender.on_ack(&Ack {
                at,
                seen: at,
                una: if waits { lost } else { all },
                window: None,
                unscaled: 0,
                carries_data: false,
                sacked: behind.into_iter().collect(),
                is_dsack: false,
                echoes_mark: false,
            });
        }
        let best = sender.rates().1.map_or(0, Rate::bits_per_second);
        assert!((8_000_000..=16_000_000).contains(&best), "{best}");
    }
}
