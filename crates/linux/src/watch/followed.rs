//! A connection that is watched: which of the looks at it are kept, and how often it needs one.

use std::time::Duration;

use base::{CongestionState, FlowSample, TcpState};
use doctor::Track;

use super::owner_book::{Known, OwnerBook};

/// Of a steady connection, one look in this many is kept.
const STEADY_LOOKS: u64 = 4;
/// A connection idle for longer than this counts as asleep: it is observed only in dumps of all
/// sockets.
const ASLEEP_AFTER: Duration = Duration::from_secs(5);

/// The connection.
pub(super) struct Followed {
    pub(super) order: u64,
    pub(super) flow: Track,
    /// Which look was the last one at it.
    pub(super) look: u64,
    /// The filter holds. Until it does the owner is not known, and samples are kept on trial.
    pub(super) matches: bool,
    /// Nothing was to be seen of it for long, up to the last look.
    pub(super) is_asleep: bool,
    /// The list of all sockets in which it was last.
    pub(super) listed: u64,
    /// Nothing new is expected of it.
    pub(super) is_steady: bool,
    /// How often the options of its socket were read.
    pub(super) option_reads: u8,
}

impl Followed {
    /// Whether this look may be left out: the next one that is kept stands for it.
    pub(super) fn may_skip(&self, sample: &FlowSample, look: u64) -> bool {
        self.is_steady
            && look.saturating_sub(self.look) < STEADY_LOOKS
            && sample.state == Some(TcpState::Established)
            && sample.congestion_state == Some(CongestionState::Open)
            && (sample.timeouts, sample.probes) == (Some(0), Some(0))
            && self.is_settled()
    }

    /// Completes a sample by what the owner shows and keeps it; whether there is one more now.
    pub(super) fn keep(
        &mut self,
        sample: &mut FlowSample,
        look: u64,
        book: &mut OwnerBook,
    ) -> bool {
        let flow = &mut self.flow;
        // It stands for those that it slept through as well.
        let looks = look.saturating_sub(std::mem::replace(&mut self.look, look));
        sample.looks = u32::try_from(looks).unwrap_or(u32::MAX).max(1);
        if flow.owners.is_empty()
            && let Known::Owners(owners) = book.known(sample)
        {
            flow.owners = OwnerBook::in_order(sample, owners);
            book.note_near(&flow.owners);
        }
        flow.ended = false;
        book.fill(flow, sample, &mut self.option_reads);
        self.is_asleep = has_slept(sample);
        flow.samples.take_look(sample)
    }

    /// Whether an owner has nothing more to decide.
    pub(super) fn is_settled(&self) -> bool {
        self.matches && !self.flow.owners.is_empty() && self.flow.samples.len() > 1
    }
}

/// Whether a look shows that nothing was to be seen for long.
fn has_slept(last: &FlowSample) -> bool {
    let idle = last.since_data_sent.min(last.since_data_received);
    let is_quiet = last.unacked_pkts == Some(0) && last.notsent_bytes == Some(0);
    is_quiet && idle >= Some(ASLEEP_AFTER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{FlowKey, Instant};
    use doctor::Samples;
    use doctor::recording::LONG_IDLE;

    /// A connection that was not sampled yet.
    fn of_track(key: FlowKey, owners: Vec<doctor::SocketOwner>) -> Followed {
        Followed {
            order: 0,
            flow: Track {
                key,
                cookie: 1,
                owners,
                samples: Samples::new(),
                ended: false,
                interface: None,
                options_error: None,
            },
            look: 0,
            matches: true,
            is_asleep: false,
            listed: 0,
            is_steady: false,
            option_reads: 0,
        }
    }

    #[test]
    fn one_that_sleeps_is_looked_at_less_often_and_each_look_counts_for_more() {
        let key = FlowKey {
            local: ([10, 0, 0, 1], 443).into(),
            remote: ([10, 0, 0, 2], 50_000).into(),
        };
        let idle_for = |idle: Duration| FlowSample {
            unacked_pkts: Some(0),
            notsent_bytes: Some(0),
            since_data_sent: Some(idle + Duration::from_secs(1)),
            since_data_received: Some(idle),
            segs_in: Some(7 + u64::from(idle.is_zero())),
            segs_out: Some(7),
            ..FlowSample::empty(Instant::ZERO + Duration::from_secs(60) + idle, key)
        };
        let mut followed = of_track(key, Vec::new());
        let mut book = OwnerBook::default();
        let mut keep = |idle: Duration, look: u64| {
            followed.keep(&mut idle_for(idle), look, &mut book);
            let samples = &followed.flow.samples;
            let looks = samples.iter().map(|sample| sample.looks).sum::<u32>();
            (followed.is_asleep, samples.len(), looks)
        };
        let asleep = ASLEEP_AFTER + Duration::from_millis(1);
        assert_eq!(keep(Duration::from_millis(10), 0), (false, 1, 1));
        assert_eq!(keep(LONG_IDLE, 1), (false, 2, 2));
        assert_eq!(keep(asleep, 2), (true, 3, 3));
        // Three were slept through.
        assert_eq!(keep(asleep * 2, 6), (true, 3, 7));
        assert_eq!(keep(Duration::ZERO, 7), (false, 4, 8));
    }

    #[test]
    fn of_a_steady_connection_few_looks_are_kept_until_something_is_lost() {
        let end = |last: u8| ([10, 0, 0, last], 443).into();
        let key = FlowKey {
            local: end(1),
            remote: end(2),
        };
        let look = |at: u64, state| FlowSample {
            state: Some(TcpState::Established),
            congestion_state: Some(state),
            timeouts: Some(0),
            probes: Some(0),
            ..FlowSample::empty(Instant::ZERO + Duration::from_millis(100 * at), key)
        };
        let owner = doctor::SocketOwner {
            fd: 3,
            process: std::sync::Arc::new(doctor::ProcessInfo {
                pid: 1,
                command: "init".into(),
                cmdline: String::new(),
                cgroup: None,
            }),
        };
        let mut followed = Followed {
            is_steady: true,
            option_reads: 2,
            ..of_track(key, vec![owner])
        };
        let mut book = OwnerBook::default();
        let mut kept = Vec::new();
        for at in 1..16 {
            let state = match at {
                12 | 13 => CongestionState::Recovery,
                _ => CongestionState::Open,
            };
            let mut sample = look(at, state);
            if !followed.may_skip(&sample, at) {
                followed.keep(&mut sample, at, &mut book);
                kept.push(at);
            }
        }
        assert_eq!(kept, [1, 2, 6, 10, 12, 13]);
        let looks = followed.flow.samples.iter().map(|sample| sample.looks);
        assert_eq!(looks.sum::<u32>(), 13, "each stands for those left out");
    }
}
