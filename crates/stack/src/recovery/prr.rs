//! Proportional rate reduction: how the window falls to the threshold during a recovery.
//!
//! RFC 6937 (with the "slow start" reduction bound of RFC 9937 where nothing more is lost); Linux
//! `tcp_cwnd_reduction`, rule 11.5.

/// State of one window reduction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Prr {
    /// Packets delivered since it began.
    pub(super) delivered: u64,
    /// Packets sent since it began, retransmitted ones included.
    pub(super) out: u64,
}

/// Input from one ACK.
#[derive(Clone, Copy, Debug)]
pub(super) struct PrrInput {
    pub(super) ssthresh: u32,
    /// The window when the reduction began.
    pub(super) prior_cwnd: u32,
    pub(super) in_flight: u32,
    /// Packets newly delivered; not 0.
    pub(super) delivered: u32,
    /// The cumulative acknowledgment moved and nothing was newly lost.
    pub(super) is_progress: bool,
}

impl Prr {
    /// The window after an ACK that delivered something.
    pub(super) fn on_ack(&mut self, input: &PrrInput) -> u32 {
        self.delivered += u64::from(input.delivered);
        let ssthresh = u64::from(input.ssthresh);
        let in_flight = u64::from(input.in_flight);
        let mut send = if in_flight > ssthresh {
            (ssthresh * self.delivered)
                .div_ceil(u64::from(input.prior_cwnd.max(1)))
                .saturating_sub(self.out)
        } else {
            let banked = self.delivered.saturating_sub(self.out);
            let send = banked.max(u64::from(input.delivered)) + u64::from(input.is_progress);
            send.min(ssthresh - in_flight)
        };
        if self.out == 0 {
            // The first retransmission leaves whatever is in flight.
            send = send.max(1);
        }
        u32::try_from(in_flight + send).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors() {
        let mut prr = Prr {
            delivered: 2,
            out: 1,
        };
        let input = PrrInput {
            ssthresh: 70,
            prior_cwnd: 100,
            in_flight: 90,
            delivered: 1,
            is_progress: false,
        };
        assert_eq!(prr.on_ack(&input), 92, "T19");
        let mut prr = Prr {
            delivered: 28,
            out: 28,
        };
        let input = PrrInput {
            in_flight: 60,
            delivered: 2,
            is_progress: true,
            ..input
        };
        assert_eq!(prr.on_ack(&input), 63, "T20");
    }

    #[test]
    fn a_whole_reduction_ends_at_the_threshold() {
        // 100 packets, one lost: 99 duplicate ACKs come back, each takes one out of flight.
        let (mut prr, mut in_flight) = (Prr::default(), 99);
        let mut sent = 0;
        for _ in 0..99 {
            in_flight -= 1;
            let cwnd = prr.on_ack(&PrrInput {
                ssthresh: 70,
                prior_cwnd: 100,
                in_flight,
                delivered: 1,
                is_progress: false,
            });
            let send = cwnd - in_flight;
            prr.out += u64::from(send);
            in_flight += send;
            sent += send;
        }
        assert_eq!(in_flight, 70);
        assert_eq!(sent, 70);
    }
}
