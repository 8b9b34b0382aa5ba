//! Congestion control: how many packets may be in flight.
//!
//! A controller keeps no clock and sees no packet: it decides only from the [`AckSample`] and the
//! [`Window`]. Windows are counted in packets of one MSS, in integers, as Linux does, so that a run
//! repeats on every machine.
//!
//! Reading list: RFC 5681, RFC 9438 (CUBIC), RFC 9406 (HyStart++), Linux's `tcp_congestion_ops`.

mod bbr;
mod cubic;
mod hystart;
mod newreno;
#[cfg(test)]
mod testing;
mod unlimited;

use alloc::boxed::Box;
use core::fmt::Debug;
use core::net::SocketAddr;
use core::time::Duration;

use base::settings::{Congestion, CongestionName};
use base::{BbrState, CongestionState, Instant, Rate, Rng};

pub use bbr::Bbr;
pub use cubic::Cubic;
pub use newreno::NewReno;
pub use unlimited::Unlimited;

/// "No threshold yet": slow start continues.
pub const SSTHRESH_INFINITE: u32 = u32::MAX;

/// The congestion window and what belongs to it, in packets of one MSS.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Window {
    /// Packets that may be in flight; at least 1.
    pub cwnd: u32,
    /// Below it the window grows by slow start.
    pub ssthresh: u32,
    /// The window when the present reduction began.
    pub prior_cwnd: u32,
    /// Whether the last round used all of the window (Linux `tcp_is_cwnd_limited`).
    pub is_limited: bool,
    /// Most packets in flight in the last round.
    pub max_packets_out: u32,
    /// Credit towards the next packet in congestion avoidance (Linux `snd_cwnd_cnt`).
    pub credit: u32,
    /// Upper bound of the window.
    pub clamp: u32,
}

impl Window {
    /// A window of `initial` packets in slow start.
    #[must_use]
    pub const fn new(initial: u32) -> Self {
        Self {
            cwnd: initial,
            ssthresh: SSTHRESH_INFINITE,
            prior_cwnd: 0,
            is_limited: false,
            max_packets_out: 0,
            credit: 0,
            clamp: u32::MAX,
        }
    }

    /// Whether the window grows by slow start.
    #[must_use]
    pub const fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Whether the window may grow: it was used (rule 12.2; Linux `tcp_is_cwnd_limited`).
    #[must_use]
    pub const fn may_grow(&self) -> bool {
        if self.is_limited {
            return true;
        }
        self.in_slow_start() && self.cwnd < self.max_packets_out.saturating_mul(2)
    }

    /// Slow start: one packet per packet acknowledged, up to the threshold; returns what is left
    /// over for congestion avoidance (RFC 5681 section 3.1; Linux `tcp_slow_start`).
    pub fn slow_start(&mut self, acked: u32) -> u32 {
        let grown = self.cwnd.saturating_add(acked).min(self.ssthresh);
        let rest = acked - (grown - self.cwnd).min(acked);
        self.cwnd = grown.min(self.clamp);
        rest
    }

    /// Congestion avoidance: one packet per `every` packets acknowledged (Linux
    /// `tcp_cong_avoid_ai`).
    pub fn grow_by_one_per(&mut self, every: u32, acked: u32) {
        let every = every.max(1);
        if self.credit >= every {
            self.credit = 0;
            self.cwnd = self.cwnd.saturating_add(1);
        }
        self.credit = self.credit.saturating_add(acked);
        if self.credit >= every {
            self.cwnd = self.cwnd.saturating_add(self.credit / every);
            self.credit %= every;
        }
        self.cwnd = self.cwnd.min(self.clamp);
    }
}

/// How fast packets were delivered (draft-cheng-iccrg-delivery-rate-estimation; Linux
/// `tcp_rate_gen`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RateSample {
    /// Packets delivered in the interval.
    pub delivered: u32,
    /// The interval.
    pub interval: Duration,
    /// `delivered_total` when the packet that gave the sample was sent.
    pub prior_delivered: u64,
    /// The application, not the path, limited the interval.
    pub is_app_limited: bool,
    /// Packets newly marked lost with this ACK.
    pub losses: u32,
}

/// What a connection knows of its path when a controller begins.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct KnownPath {
    /// When the controller begins.
    pub now: Instant,
    /// Payload of a full segment.
    pub mss: u32,
    /// Packets delivered so far, the SYN among them.
    pub delivered_total: u64,
    /// Smoothed round-trip time, if there was a sample.
    pub srtt: Option<Duration>,
    /// Least round-trip time, if there was a sample.
    pub min_rtt: Option<Duration>,
}

/// Information from one ACK.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AckSample {
    /// When it arrived.
    pub now: Instant,
    /// Packets newly acknowledged, cumulatively.
    pub acked: u32,
    /// Packets newly delivered: acknowledged or SACKed.
    pub delivered: u32,
    /// Packets delivered since the connection began.
    pub delivered_total: u64,
    /// Packets newly marked lost.
    pub lost: u32,
    /// Packets are known to be reordered, so that all delivered data lets the window grow, not only
    /// data in order.
    pub is_reordered: bool,
    /// Packets in flight before the ACK.
    pub prior_in_flight: u32,
    /// Packets in flight after it.
    pub in_flight: u32,
    /// A round-trip time that it gave (never from a retransmitted packet, unless by timestamps).
    pub rtt: Option<Duration>,
    /// Smoothed round-trip time; `None` before the first sample.
    pub srtt: Option<Duration>,
    /// Least round-trip time of the last minutes.
    pub min_rtt: Option<Duration>,
    /// A delivery-rate sample.
    pub rate: Option<RateSample>,
    /// Offset of the first unacknowledged byte in our stream.
    pub una: u64,
    /// Offset of the next byte to be sent.
    pub next: u64,
    /// State of loss recovery after this ACK.
    pub state: CongestionState,
    /// The ACK carried ECE (RFC 3168).
    pub ece: bool,
    /// Payload of a full segment.
    pub mss: u32,
    /// Bytes of the largest GSO packet.
    pub gso_max: u32,
    /// The rate at which the connection is paced or would be.
    pub pacing_rate: Rate,
    /// Whether packets are in fact paced at that rate.
    pub is_paced: bool,
}

/// A congestion control.
pub trait CongestionControl: Debug + Send {
    /// Its name, such as `cubic`.
    fn name(&self) -> &'static str;

    /// The connection is established, or this controller takes over from another (Linux `init`).
    fn on_start(&mut self, _window: &mut Window, _now: Instant) {}

    /// Right after [`Self::on_start`]: what the connection knows of its path by then.
    fn on_path_known(&mut self, _window: &mut Window, _path: &KnownPath) {}

    /// After each ACK that delivered something. In recovery it is called too; a controller that
    /// leaves the window to proportional rate reduction looks at [`AckSample::state`] (Linux calls
    /// `cong_avoid` in Open, Disorder and Loss only).
    fn on_ack(&mut self, window: &mut Window, ack: &AckSample);

    /// A reduction begins (loss, timeout or mark): returns the new slow-start threshold, at least
    /// 2 (Linux `ssthresh`).
    fn on_congestion(&mut self, window: &Window, now: Instant) -> u32;

    /// A retransmission timeout expired; everything outstanding counts as lost.
    fn on_timeout(&mut self, window: &mut Window, now: Instant);

    /// Data is about to be sent after nothing was in flight for `idle`.
    fn on_restart(&mut self, _window: &mut Window, _now: Instant, _idle: Duration) {}

    /// The last reduction was spurious: the window to return to.
    fn undo(&mut self, window: &Window) -> u32 {
        window.cwnd.max(window.prior_cwnd)
    }

    /// Whether it sets the window itself on every ACK, also in recovery (Linux `cong_control`).
    fn is_in_charge(&self) -> bool {
        false
    }

    /// The rate at which packets must be paced; `None`: the controller does not require pacing.
    fn pacing_rate(&self) -> Option<Rate> {
        None
    }

    /// Least segments of a burst; `None`: the setting (Linux `min_tso_segs`).
    fn burst_segments_min(&self) -> Option<u32> {
        None
    }

    /// Windows that the send buffer is sized for (Linux `sndbuf_expand`).
    fn send_buffer_windows(&self) -> u32 {
        2
    }

    /// Whether slow start after idle and the validation of unused windows apply.
    fn wants_validation(&self) -> bool {
        true
    }

    /// BBR's state, for the flow record.
    fn bbr(&self) -> Option<BbrState> {
        None
    }
}

/// Makes the controllers of a host's connections
/// ([`Host::set_controllers`](crate::Host::set_controllers)): congestion control that is not built
/// in.
pub trait Controllers: Debug + Send {
    /// The controller of a connection that begins, or whose `congestion` knob is set; `None`: the
    /// one that `settings` name. `remote` is where its packets go.
    fn make(
        &mut self,
        remote: SocketAddr,
        settings: &Congestion,
    ) -> Option<Box<dyn CongestionControl>>;
}

/// Makes the controller that `settings` name. `rng` decides BBR's phase, nothing else.
#[must_use]
pub fn make(settings: &Congestion, rng: &mut Rng) -> Box<dyn CongestionControl> {
    match settings.name {
        CongestionName::NewReno => Box::new(NewReno::new(settings.byte_counting)),
        CongestionName::Cubic => Box::new(Cubic::new(settings.hystart, settings.byte_counting)),
        CongestionName::Bbr => Box::new(Bbr::new(Rng::new(rng.next_u64(), "bbr"))),
        CongestionName::None => Box::new(Unlimited),
    }
}

/// Packets that `ack` may count for where the window grows by acknowledgments: none while a
/// reduction is in progress, or where the cumulative acknowledgment did not advance, unless packets
/// are known to be reordered (Linux `tcp_cong_control`, `tcp_may_raise_cwnd`).
fn growth_credit(ack: &AckSample, byte_counting: bool) -> u32 {
    let is_reducing = match ack.state {
        CongestionState::Recovery | CongestionState::Cwr => true,
        CongestionState::Open | CongestionState::Disorder | CongestionState::Loss => false,
    };
    if is_reducing || (ack.acked == 0 && !ack.is_reordered) {
        0
    } else if byte_counting {
        ack.delivered
    } else {
        ack.delivered.min(1)
    }
}

/// Whole microseconds of `time`.
fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
