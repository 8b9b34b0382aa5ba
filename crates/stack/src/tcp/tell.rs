//! Reports to a trace beside packets, timers and states: what changed since it was told last.
//! Without a trace nothing is compared.

use base::{CongestionState, Instant, Limit};

use super::Connection;
use crate::cc::SSTHRESH_INFINITE;
use crate::host::Shared;
use crate::trace::TraceEvent;

/// Values last reported to a trace.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told {
    congestion: Option<CongestionState>,
    /// Congestion window and threshold.
    window: Option<(u32, u32)>,
    rtt_samples: u32,
    limit: Option<Limit>,
    mtu: Option<u16>,
}

impl Connection {
    /// Tells a trace what has changed.
    #[inline]
    pub(super) fn tell_changes(&mut self, now: Instant, shared: &mut Shared) {
        if shared.trace.is_some() {
            self.tell_trace(now, shared);
        }
    }

    #[cold]
    fn tell_trace(&mut self, now: Instant, shared: &mut Shared) {
        let before = self.told.value();
        let window = self.recovery.window();
        let (cwnd, ssthresh) = (window.cwnd, window.ssthresh);
        let rtt = self.recovery.rtt();
        let after = Told {
            congestion: Some(self.recovery.state()),
            window: Some((cwnd, ssthresh)),
            rtt_samples: rtt.samples(),
            limit: Some(self.wait().limit),
            mtu: Some(self.size.mtu()),
        };
        let mut tell = |event: TraceEvent<'_>| shared.tell(now, Some(self.socket.id()), || event);
        if after.congestion != before.congestion {
            tell(TraceEvent::Congestion(self.recovery.state()));
        }
        if after.window != before.window {
            tell(TraceEvent::Window {
                cwnd,
                ssthresh: (ssthresh != SSTHRESH_INFINITE).then_some(ssthresh),
                in_flight: self.recovery.in_flight(),
            });
        }
        if after.rtt_samples != before.rtt_samples
            && let Some(smoothed) = rtt.srtt()
        {
            tell(TraceEvent::Rtt {
                latest: rtt.latest(),
                smoothed,
                rto: rtt.rto(),
            });
        }
        if after.limit != before.limit {
            tell(TraceEvent::Limit(after.limit));
        }
        if let Some(mtu) = after.mtu.filter(|_| after.mtu != before.mtu) {
            tell(TraceEvent::Mtu(mtu));
        }
        *self.told.make() = after;
    }
}
