//! A connection that is watched: which of the looks at it are kept, and how often it needs one.

use std::time::Duration;

use base::FlowSample;
use doctor::{Samples, Track};

use super::owner_book::{Known, OwnerBook};

/// Looks at a connection that was idle for longer than this are kept only where something changed:
/// pauses of programs that think are shorter.
const LONG_IDLE: Duration = Duration::from_secs(1);
/// One that was idle for longer than this sleeps, and is looked at in lists of all sockets alone.
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
    /// How often the options of its socket were read.
    pub(super) option_reads: u8,
}

impl Followed {
    /// Completes a sample by what the owner shows and keeps it; whether there is one more now.
    pub(super) fn keep(&mut self, mut sample: FlowSample, look: u64, book: &mut OwnerBook) -> bool {
        let flow = &mut self.flow;
        // It stands for those that it slept through as well.
        let looks = look.saturating_sub(std::mem::replace(&mut self.look, look));
        sample.looks = u32::try_from(looks).unwrap_or(u32::MAX).max(1);
        if flow.owners.is_empty()
            && let Known::Owners(owners) = book.known(sample.inode)
        {
            flow.owners = owners.to_vec();
            book.note_near(&flow.owners);
        }
        flow.ended = false;
        book.fill(flow, &mut sample, &mut self.option_reads);
        self.is_asleep = has_slept(&sample);
        add(&mut flow.samples, sample)
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

/// Appends a sample; whether there is one more than before. Of a connection on which nothing has
/// happened for a while only the first and the last look are kept.
fn add(samples: &mut Samples, mut sample: FlowSample) -> bool {
    let is_rest = |later: &FlowSample, earlier: &FlowSample| {
        let idle = earlier.since_data_sent.min(earlier.since_data_received);
        idle >= Some(LONG_IDLE) && later.repeats(earlier)
    };
    if let (Some(earlier), Some(last)) = (samples.before_last(), samples.last())
        && is_rest(last, earlier)
        && is_rest(&sample, last)
    {
        sample.looks = sample.looks.saturating_add(last.looks);
        // Read seldom: the last reading stays.
        sample.owner_cpu_time = sample.owner_cpu_time.or(last.owner_cpu_time);
        samples.replace_last(sample);
        return false;
    }
    samples.push_look(sample);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{FlowKey, Instant};

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
        let mut followed = Followed {
            order: 0,
            flow: Track {
                key,
                cookie: 1,
                owners: Vec::new(),
                samples: Samples::new(),
                ended: false,
                interface: None,
                options_error: None,
            },
            look: 0,
            matches: true,
            is_asleep: false,
            option_reads: 0,
        };
        let mut book = OwnerBook::default();
        let mut keep = |idle: Duration, look: u64| {
            followed.keep(idle_for(idle), look, &mut book);
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
}
