//! Makes the flow sample of one end, for the doctor.
//!
//! What the packets of a connection cannot show is `None`: buffers, options of sockets, what a
//! program has not read. The congestion window and what was not sent are inferred from what the
//! sender did next; what it waits for in between stays open until then.

use core::time::Duration;

use base::{FlowKey, FlowSample, Instant, Source, TcpState};

use crate::end::End;
use crate::waits::{Cause, Held};

/// A value that stands for "none was set" (as in `tcp_info`).
const NO_THRESHOLD: u32 = u32::MAX;

/// No host offers less than this for long, but as a scaled number (bytes).
const TINY_WINDOW: u16 = 1024;
/// Windows without a scale are at least this, or there was no reason to disable scaling (bytes).
const PLAIN_WINDOW: u16 = 14_600;

/// Looks at all connections together that come as often as was asked for, about ...
const LOOKS_FREE: u32 = 3 << 13;
/// ... and one more with each this many packets: looks cost many times what packets do.
const PACKETS_PER_LOOK: u32 = 128;
/// Looks that one stands for, at most.
const STRETCH_MAX: u32 = 1024;

/// How many looks may still be taken: the less is left, the rarer they are, and the more each one
/// counts.
#[derive(Debug)]
pub(crate) struct LookBudget {
    left: u32,
    /// Packets since the last one was given for them.
    packets: u32,
}

impl LookBudget {
    pub(crate) const fn new() -> Self {
        Self {
            left: LOOKS_FREE,
            packets: 0,
        }
    }

    /// A packet came.
    pub(crate) const fn earn(&mut self) {
        self.packets += 1;
        if self.packets == PACKETS_PER_LOOK {
            self.packets = 0;
            self.left += (self.left < LOOKS_FREE) as u32;
        }
    }

    pub(crate) const fn take(&mut self, looks: u32) {
        self.left = self.left.saturating_sub(looks);
    }

    /// For how many looks the next one has to stand.
    pub(crate) fn stretch(&self) -> u32 {
        (LOOKS_FREE / self.left.max(1)).min(STRETCH_MAX)
    }
}

/// Latest round trip of a packet and its answer, by the echo of the sender's timestamps, where the
/// capture is not at the sender: both ways, since an ACK and the data that it releases pass the
/// capture.
fn round_trip(end: &End, other: &End) -> Option<Duration> {
    Some(end.near.latest()? + other.near.min()?)
}

/// The sample of `end`, whose other end is `other`, which stands for this many `looks`; what it
/// waits for is not told.
// tidy: long because each of the fields is named once
pub(crate) fn look(
    at: Instant,
    key: FlowKey,
    cookie: u64,
    (end, other): (&End, &End),
    looks: u32,
) -> FlowSample {
    let sender = &end.sender;
    let (loss, counts, rtt) = (&sender.loss, &sender.counts, &sender.rtt);
    let mss = sender.mss();
    let unacked = sender.runs.pkts();
    let lost = loss.lost_pkts(sender.in_flight(), mss);
    let sacked = loss.sacked_pkts(mss).min(unacked);
    let since = |then: Option<Instant>| then.map(|then| at.since(then));
    // Without ACKs nothing is known of what has arrived.
    let hears = sender.hears;
    let count = |value: u64| hears.then_some(value);
    // Without its segments, their ACKs tell how much it sent, and not what it had in flight.
    let shows = hears && counts.segments > 0;
    let has_sent = sender.has_begun() && counts.segments > 0;
    let both_open = end.opening.syns > 0 && other.opening.syns > 0;
    let both_tell = end.opening.tells() && other.opening.tells();
    let agreed = |of: fn(&End) -> bool| both_tell.then(|| of(end) && of(other));
    let has_received = other.sender.has_begun();
    FlowSample {
        cookie: Some(cookie),
        source: Source::Capture,
        state: Some(state(end, other)),
        congestion_state: shows.then_some(loss.state()),
        timestamps: agreed(|end| end.opening.stamps)
            .or((end.has_stamps && other.has_stamps).then_some(true)),
        sack: agreed(|end| end.opening.sack),
        window_scaling: scaling_agreed(end, other),
        ecn: agreed(|end| end.opening.ecn),
        snd_wscale: other.scale(end),
        rcv_wscale: end.scale(other),
        snd_mss_bytes: Some(mss),
        advmss_bytes: end.opening.mss.map(u32::from),
        unacked_pkts: shows.then_some(unacked),
        sacked_pkts: shows.then_some(sacked),
        lost_pkts: shows.then_some(lost),
        retrans_pkts: shows.then_some(loss.again_pkts(lost)),
        timeouts: Some(match state(end, other) {
            TcpState::SynSent => {
                u8::try_from(end.opening.syns.saturating_sub(1)).unwrap_or(u8::MAX)
            }
            _ => loss.backoff,
        }),
        backoff: shows.then_some(loss.backoff),
        ssthresh_pkts: loss.cut.or((both_open && shows).then_some(NO_THRESHOLD)),
        snd_wnd_bytes: sender.window,
        rcv_wnd_bytes: end.scale(other).map(|scale| u32::from(end.window) << scale),
        srtt: rtt.srtt(),
        last_rtt: round_trip(end, other),
        gaps: count(sender.gaps().0),
        gap_ranks: count(sender.gaps().1),
        rttvar: rtt.srtt().map(|_| rtt.variation()),
        min_rtt: rtt.min(),
        rto: shows.then(|| rtt.rto_after(loss.backoff)),
        since_data_sent: since(sender.last_data),
        since_data_received: since(other.sender.last_data),
        since_ack_received: since(sender.last_ack),
        bytes_sent: has_sent.then(|| sender.bytes_sent()),
        bytes_retrans: has_sent.then_some(loss.bytes),
        bytes_acked: count(sender.bytes_acked()),
        bytes_received: has_received.then(|| other.sender.bytes_new()),
        segs_out: has_sent.then_some(counts.segments),
        segs_in: has_received.then_some(other.sender.counts.segments),
        data_segs_out: has_sent.then_some(counts.data_segments),
        data_segs_in: has_received.then_some(other.sender.counts.data_segments),
        delivered_pkts: count(counts.acked_pkts + u64::from(sacked)),
        delivered_ce_pkts: count(counts.marked),
        retrans_total_pkts: has_sent.then_some(loss.segments),
        dsack_dups: count(loss.needless),
        reord_seen: has_sent.then_some(loss.reordered + loss.overtaken),
        rto_total: count(loss.timeouts),
        busy_time: shows.then_some(sender.busy_time()),
        rwnd_limited_time: sender
            .window
            .filter(|_| shows)
            .map(|_| sender.waits.of(Cause::PeerWindow)),
        delivery_rate: sender.rates().0,
        // What small segments show although earlier ones are out.
        nodelay: sender.waits.shows_nodelay().then_some(true),
        looks,
        ..FlowSample::empty(at, key)
    }
}

/// Scaling needs the option in both SYNs: one without it tells that there is none (RFC 7323 section
/// 1.3).
fn scaling_agreed(end: &End, other: &End) -> Option<bool> {
    let offers = |end: &End| end.opening.tells().then_some(end.opening.scale.is_some());
    match (offers(end), offers(other)) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        (None, None) => scaling_by_windows(end, other),
        _ => None,
    }
}

/// What windows tell of scaling where no SYN was captured. One of less than a segment stands for
/// more, so that there is scaling; where one end's windows are told to have no scale, and those of
/// the other are as large as windows of usual hosts without it, there is none.
fn scaling_by_windows(end: &End, other: &End) -> Option<bool> {
    let is_tiny = |end: &End| (1..TINY_WINDOW).contains(&end.window);
    let has_none = end.scale(other) == Some(0) || other.scale(end) == Some(0);
    let are_plain = [end, other].iter().all(|end| end.window >= PLAIN_WINDOW);
    match is_tiny(end) || is_tiny(other) {
        true => Some(true),
        false => (has_none && are_plain).then_some(false),
    }
}

fn state(end: &End, other: &End) -> TcpState {
    let is_acked = |end: &End| end.has_fin && end.sender.flight_bytes() == 0;
    match (end.opening.syns > 0, other.sender.has_begun()) {
        (true, false) => TcpState::SynSent,
        _ if is_acked(end) && is_acked(other) => TcpState::Closed,
        _ if end.has_fin && other.has_fin => TcpState::Closing,
        _ if end.has_fin => TcpState::FinWait1,
        _ if other.has_fin => TcpState::CloseWait,
        _ => TcpState::Established,
    }
}

/// Fills in what the sender waited for at a look that fell into `held`, with its congestion window
/// where that showed last.
pub(crate) fn tell(sample: &mut FlowSample, held: &Held, cwnd: Option<u32>) {
    let (Some(mss), Some(out)) = (sample.snd_mss_bytes, sample.packets_out()) else {
        return;
    };
    let has_room = |room: u32| cwnd.unwrap_or(0).max(out.saturating_add(room));
    let (unsent, window) = match held.cause {
        Cause::Application => (0, has_room(2)),
        // One or more than a segment: what left first had been there.
        Cause::Congestion => (held.bytes.max(mss), out.max(1)),
        Cause::PeerWindow => (held.bytes.max(mss), has_room(1)),
        Cause::Nagle | Cause::Cork => (held.bytes.min(mss.saturating_sub(1)), has_room(1)),
    };
    sample.notsent_bytes = Some(unsent);
    sample.cwnd_pkts = Some(window);
    if held.cause == Cause::PeerWindow {
        let whole = sample.rwnd_limited_time.get_or_insert_default();
        *whole += sample.at.since(held.from);
    }
    if let (Some(from), Some(0)) = (held.idle_from, sample.unacked_pkts) {
        let busy = sample.busy_time.get_or_insert_default();
        *busy += sample.at.since(from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_pay_for_looks() {
        const PACKETS: u32 = 4_000_000;
        let (mut budget, mut due, mut taken, mut counted) = (LookBudget::new(), 0, 0, 0);
        for packet in 1..=PACKETS {
            budget.earn();
            // Many connections: two looks are due with each packet.
            due += 2;
            let stretch = budget.stretch();
            if due >= stretch {
                due -= stretch;
                budget.take(1);
                (taken, counted) = (taken + 1, counted + stretch);
            }
            let is_small = packet <= LOOKS_FREE / 4;
            assert!(!is_small || stretch == 1, "{packet} packets: {stretch}");
        }
        assert_eq!(counted + due, 2 * PACKETS, "each stands for those left out");
        let paid = LOOKS_FREE + PACKETS / PACKETS_PER_LOOK;
        assert!((paid * 9 / 10..=paid).contains(&taken), "{taken} of {paid}");
        // In a calm time they come as often again.
        for _ in 0..LOOKS_FREE * PACKETS_PER_LOOK {
            budget.earn();
        }
        assert_eq!(budget.stretch(), 1);
    }
}
