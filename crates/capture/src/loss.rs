//! Retransmissions by kind: after a timeout, as a tail loss probe, fast, or needless.

use core::time::Duration;

use base::{CongestionState, Instant};

use crate::arrived::Arrived;
use crate::rtt::Rtt;
use crate::sender::{Ack, Data};

/// Ranges that the capture has not seen, at most.
const HOLES_MAX: usize = 8;
/// What fills a gap this long after it opened was retransmitted; earlier, it was reordered.
const OVERTAKEN_MAX: Duration = Duration::from_millis(3);
/// Share of the timeout from which on a silence is taken for one: the capture's RTO is an estimate.
const TIMEOUT_SHARE: f64 = 0.7;
/// CUBIC's cut.
const CUT: (u64, u64) = (7, 10);

/// Losses of one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loss {
    /// Segments and bytes that were retransmitted.
    pub(crate) segments: u64,
    pub(crate) bytes: u64,
    /// Of these, after a timeout.
    pub(crate) timeouts: u64,
    /// Of these, tail-loss probes.
    pub(crate) tail_probes: u64,
    /// Of these, fast retransmissions, on duplicate ACKs or SACK.
    pub(crate) fast: u64,
    /// Of these, needless (D-SACK).
    pub(crate) needless: u64,
    /// Segments that were reordered before the capture saw them.
    pub(crate) reordered: u64,
    /// Gaps that the receiver told of, and that were none.
    pub(crate) overtaken: u64,
    state: State,
    /// Recovery ends when this is acknowledged.
    recover: u64,
    /// Data that has arrived behind a gap.
    arrived: Arrived,
    duplicate_acks: u32,
    /// Segments retransmitted since recovery began.
    again: u32,
    pub(crate) backoff: u8,
    /// The point at which a congestion control would last have reduced its window.
    pub(crate) cut: Option<u32>,
    holes: Vec<Hole>,
    /// The timestamp of the newest data.
    newest: Option<u32>,
    /// When anything was retransmitted, or acknowledged, last.
    progress: Option<Instant>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Open,
    Disorder,
    Recovery,
    Timeout,
}

/// Offsets that were skipped, and when.
#[derive(Clone, Copy, Debug)]
struct Hole {
    from: u64,
    to: u64,
    since: Instant,
}

/// Data in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InFlight {
    pub(crate) una: u64,
    pub(crate) next: u64,
    pub(crate) pkts: u32,
}

impl Loss {
    pub(crate) const fn state(&self) -> CongestionState {
        match self.state {
            State::Open => CongestionState::Open,
            State::Disorder => CongestionState::Disorder,
            State::Recovery => CongestionState::Recovery,
            State::Timeout => CongestionState::Loss,
        }
    }

    pub(crate) const fn is_repairing(&self) -> bool {
        matches!(self.state, State::Recovery | State::Timeout)
    }

    /// Bytes between `from` and `to` were skipped at `since`.
    pub(crate) fn note_hole(&mut self, from: u64, to: u64, since: Instant) {
        if self.holes.len() == HOLES_MAX {
            self.holes.remove(0);
        }
        self.holes.push(Hole { from, to, since });
    }

    /// Fills the range; since when the oldest hole in it had been one, if any.
    fn fill(&mut self, (from, to): (u64, u64)) -> Option<Instant> {
        let mut oldest: Option<Instant> = None;
        for hole in &mut self.holes {
            if from < hole.to && to > hole.from {
                oldest = Some(oldest.map_or(hole.since, |since| since.min(hole.since)));
                // The longer of the parts that are left of it.
                let (before, behind) = (from.saturating_sub(hole.from), hole.to.saturating_sub(to));
                match before >= behind {
                    true => hole.to = hole.from + before,
                    false => hole.from = hole.to - behind,
                }
            }
        }
        self.drop_holes_before(0);
        oldest
    }

    fn drop_holes_before(&mut self, una: u64) {
        self.holes
            .retain(|hole| hole.to > una && hole.to > hole.from);
    }

    /// Everything up to `una` has arrived; gives the bytes of it that were never seen.
    pub(crate) fn fill_holes(&mut self, una: u64) -> u64 {
        if self.holes.is_empty() {
            return 0;
        }
        let missed = |hole: &Hole| hole.to.min(una).saturating_sub(hole.from);
        let missed = self.holes.iter().map(missed).sum();
        for hole in &mut self.holes {
            hole.from = hole.from.max(una);
        }
        self.drop_holes_before(una);
        missed
    }

    pub(crate) fn count_again(&mut self, bytes: u64) {
        self.segments += 1;
        self.bytes += bytes;
    }

    pub(crate) fn note_newest(&mut self, data: &Data) {
        self.newest = data.stamp;
        self.progress = Some(data.at);
    }

    /// Data that is not new. Whether it was retransmitted, and did not only come late.
    pub(crate) fn on_old(
        &mut self,
        data: &Data,
        span: (u64, u64),
        in_flight: InFlight,
        rtt: &Rtt,
    ) -> bool {
        // A probe of keepalive, or of a closed window, repeats a byte that was acknowledged.
        if data.bytes <= 1 && span.1 <= in_flight.una {
            return false;
        }
        if let Some(since) = self.fill(span)
            && self.is_overtaken(data, since)
        {
            self.reordered += 1;
            return false;
        }
        self.count_again(span.1 - span.0);
        self.tell_kind(data.at, span, in_flight, rtt);
        self.progress = Some(data.at);
        true
    }

    /// Whether data that fills a gap was reordered: by the sender's clock, unless that is the same
    /// for the newest data; else by the age of the gap.
    fn is_overtaken(&self, data: &Data, since: Instant) -> bool {
        match (data.stamp, self.newest) {
            (Some(stamp), Some(newest)) if stamp != newest => {
                (stamp.wrapping_sub(newest) as i32) < 0
            }
            _ => data.at.since(since) <= OVERTAKEN_MAX,
        }
    }

    fn tell_kind(&mut self, at: Instant, span: (u64, u64), in_flight: InFlight, rtt: &Rtt) {
        let silence = self.progress.map_or(Duration::ZERO, |last| at.since(last));
        let shows_gap = self.arrived.end() > in_flight.una || self.duplicate_acks > 1;
        let is_first = span.0 <= in_flight.una;
        if is_first && silence >= rtt.rto().mul_f64(TIMEOUT_SHARE) {
            self.timeouts += 1;
            self.backoff = self.backoff.saturating_add(1);
            self.begin(State::Timeout, in_flight);
        } else if !shows_gap && span.1 >= in_flight.next && !self.is_repairing() {
            self.tail_probes += 1;
            return;
        } else if self.state != State::Timeout {
            self.fast += 1;
            self.begin(State::Recovery, in_flight);
        }
        self.again = self.again.saturating_add(1);
    }

    fn begin(&mut self, state: State, in_flight: InFlight) {
        if !self.is_repairing() {
            self.recover = in_flight.next;
            self.again = 0;
            let cut = u64::from(in_flight.pkts) * CUT.0 / CUT.1;
            self.cut = Some((cut as u32).max(2));
        }
        self.state = state;
    }

    pub(crate) fn on_ack(&mut self, ack: &Ack, una: u64, advanced: bool) {
        // A gap closed although nothing was retransmitted, or the retransmission was needless.
        let closed = advanced && self.state == State::Disorder && una >= self.arrived.end();
        if (closed && self.arrived.end() > 0) || (ack.is_dsack && self.is_repairing()) {
            self.overtaken += 1;
        }
        self.take_sacked(ack, una);
        self.needless += u64::from(ack.is_dsack);
        if advanced {
            self.progress = Some(ack.at);
            self.backoff = 0;
            self.duplicate_acks = 0;
            self.again = self.again.saturating_sub(1);
            let is_over = !self.is_repairing() || una >= self.recover;
            if is_over {
                self.again = 0;
                self.state = match self.arrived.bytes() {
                    0 => State::Open,
                    _ => State::Disorder,
                };
            }
        } else if !ack.carries_data {
            self.duplicate_acks = self.duplicate_acks.saturating_add(1);
            if self.state == State::Open && self.arrived.bytes() > 0 {
                self.state = State::Disorder;
            }
        }
    }

    /// A receiver that has something behind a gap says so in each ACK; one that does not has thrown
    /// it away (RFC 2018 section 8).
    fn take_sacked(&mut self, ack: &Ack, una: u64) {
        self.arrived.pass(una);
        if ack.sacked.ranges().is_empty() && ack.una >= una && !ack.is_dsack {
            self.arrived.clear();
        }
        for &(from, to) in ack.sacked.ranges() {
            self.arrived.insert((from.max(una), to));
        }
    }

    /// Bytes that have arrived behind a gap.
    pub(crate) const fn arrived_bytes(&self) -> u64 {
        self.arrived.bytes()
    }

    pub(crate) fn sacked_pkts(&self, mss: u32) -> u32 {
        pkts(self.arrived.bytes(), mss)
    }

    /// Segments that count as lost, of so many that are out.
    pub(crate) fn lost_pkts(&self, in_flight: InFlight, mss: u32) -> u32 {
        let arrived = self.sacked_pkts(mss);
        let rest = in_flight.pkts.saturating_sub(arrived);
        match self.state {
            State::Open | State::Disorder => 0,
            State::Timeout => rest,
            State::Recovery => {
                let gaps = self.arrived.end().saturating_sub(in_flight.una);
                pkts(gaps.saturating_sub(self.arrived.bytes()), mss)
                    .max(1)
                    .min(rest)
            }
        }
    }

    /// Retransmitted segments that are out, of so many that count as lost.
    pub(crate) fn again_pkts(&self, lost: u32) -> u32 {
        self.again.min(lost)
    }
}

fn pkts(bytes: u64, mss: u32) -> u32 {
    u32::try_from(bytes.div_ceil(u64::from(mss.max(1)))).unwrap_or(u32::MAX)
}
