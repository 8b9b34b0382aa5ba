//! Waits that depend on the connection: its round trips, a timeout that is backed off, the pauses
//! of its program.

use std::time::Duration;

use base::FlowSample;
use doctor::{Timeline, Track};

use super::{ACTS_AFTER, ACTS_AFTER_RTTS, FitOptions};
use crate::observed::Answered;
use crate::subject::Look;

/// A look of an experiment lasts this many of the pauses between the program's messages.
const PAUSES: u32 = 3;
/// No pause and no timeout is waited for longer than this.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// How long a program is watched for a new connection if all that helps needs one.
pub(super) const RENEWAL: Duration = Duration::from_secs(15);

/// A look at losses is so many times as long where the usual one holds too few of them (CUBIC on 20
/// Mbit/s and 90 ms, of which 0.3 % leave it 3: three in 4 s, and five cuts of the window are asked
/// for).
pub(super) const LOOKS_FOR_LOSSES: u32 = 5;

/// The same of a finding that is not sure enough to act on, of connections that come and go: each
/// is seen as a whole, and not only the end of one.
pub(super) const LOOKS_TO_BE_SURE: u32 = 3;

/// BBR leaves its start when the rate has not grown for three round trips, and drains its queue
/// then (`bbr_check_full_bw_reached`).
const DRAINS_AFTER_RTTS: u32 = 8;

/// Data sent between two pauses is a block, not a message, from this size per look.
const BLOCKS_BYTES_MIN: u64 = 100_000;
/// A program pauses where nothing is sent for this long; its pauses are few where a look holds no
/// more than these, and waited for up to a bound.
const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSES_MIN: u32 = 6;
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// How long an experiment on a connection waits and looks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timing {
    /// Until a change shows on an open connection.
    pub(super) settle: Duration,
    /// From new connections to the look at them.
    pub(super) warm_up: Duration,
    /// Duration of each look.
    pub(super) slice: Duration,
}

impl Timing {
    /// Waiting for this long at least until a change shows.
    pub(super) fn with_settle(self, least: Duration) -> Self {
        Self {
            settle: self.settle.max(least),
            ..self
        }
    }
}

/// On a new connection a timeout is backed off this often, from its first value, until what acts on
/// timeouts has acted: Linux probes the MTU from the fourth on (`tcp_write_timeout`,
/// `tcp_retries1`).
const BACKOFFS: u32 = 5;
/// Looks, with the waits before them, that the time allowed must hold: enough of A and B for the
/// second question, since not each connection takes the same time to recover.
const LOOKS_MIN: u32 = 20;

pub(super) fn timing(answered: &Answered<'_, '_>, options: &FitOptions) -> Timing {
    let timeline = answered.timeline();
    let bounded = |time: Duration| time.min(WAIT_MAX);
    let srtt = timeline.srtt().unwrap_or_default();
    let round_trips = srtt * ACTS_AFTER_RTTS;
    // A congestion control that starts in a long queue has to see it first, and then to drain it.
    let most = options.settle.max(bounded(srtt * DRAINS_AFTER_RTTS));
    let in_timeout = timeline.latest(|s| s.timeouts).is_some_and(|n| n > 0);
    // What the kernel tells is backed off already; the next one may be twice as long.
    let timeout = timeline.latest(|s| s.rto).filter(|_| in_timeout);
    let pause = pause_in(&timeline);
    let pause = bounded(pause.unwrap_or_default());
    let backoffs = timeline.latest(|s| s.timeouts).unwrap_or(0).min(16);
    let anew = timeout.unwrap_or_default() / (1 << backoffs) * (1 << BACKOFFS);
    let share = options.bound / LOOKS_MIN;
    // Of a program with long pauses a look holds one of them at least.
    let of_pauses = bounded(pause * PAUSES).min(share.max(pause + pause / 4));
    // Where one connection takes the place of another after seconds it holds one, if there is time:
    // looks at the beginning of one and at the end of another are not of the same. Of a pool
    // several are seen at once.
    let follow = answered.comes_and_goes() && !answered.is_pool;
    let turn = answered.turn.filter(|_| follow);
    let of_turns = turn.unwrap_or_default().min(share);
    let slice = options.slice.max(of_pauses).max(of_turns);
    Timing {
        settle: ACTS_AFTER
            .max(round_trips.min(most))
            // What acts after a pause shows when one has passed.
            .max(pause)
            .max(bounded(timeout.unwrap_or_default() * 2)),
        warm_up: options
            .warm_up
            .max(bounded(anew).min(share.saturating_sub(slice))),
        slice,
    }
}

/// The longest time in which nothing was said, of a program that says something. Who takes a
/// download sends nothing for as long as it lasts, and pauses at no time.
fn pause_in(timeline: &Timeline) -> Option<Duration> {
    let rate = timeline.rate()?;
    let since = |s: &FlowSample| {
        let times = [s.since_data_sent, s.since_data_received];
        times.into_iter().flatten().min()
    };
    let pause = timeline.largest(since)?;
    (rate.bits_per_second() > 0).then_some(pause)
}

/// For how long the program has paused, where nothing at all moved in a look.
pub(super) fn pause_of(look: &Look, wants: impl Fn(&Track) -> bool) -> Option<Duration> {
    if look.measure.goodput_bps > 0 || look.measure.stalled_share.is_some() {
        return None;
    }
    let wanted = look.here.flows.iter().filter(|track| wants(track));
    let since = wanted.filter_map(|track| {
        let last = track.samples.last()?;
        let since = [last.since_data_sent?, last.since_data_received?];
        since.into_iter().min()
    });
    since.min().filter(|since| *since < WAIT_MAX)
}

/// The longest pause between the blocks that a program sends, where a look holds few of them.
pub(super) fn pause_between_blocks(
    look: &Look,
    wants: impl Fn(&Track) -> bool,
    observe: Duration,
) -> Option<Duration> {
    let wanted = look.here.flows.iter().filter(|track| wants(track));
    let pause = wanted.filter_map(|track| {
        let [first, last] = [track.samples.first()?, track.samples.last()?];
        let bytes = last.bytes_acked?.saturating_sub(first.bytes_acked?);
        let pauses = track
            .samples
            .iter()
            .filter_map(|sample| sample.since_data_sent);
        pauses.max().filter(|_| bytes >= BLOCKS_BYTES_MIN)
    });
    let is_seldom = |pause: &Duration| *pause >= PAUSE_MIN && *pause * PAUSES_MIN > observe;
    pause
        .filter(is_seldom)
        .max()
        .map(|pause| pause.min(PAUSE_MAX))
}

/// A connection that was seen for this share of a look was there before it, or is there after it.
const LASTS_SHARE: f64 = 0.8;

/// A look that lasts beyond a pause of which this much has passed.
pub(super) fn past(pause: Duration, observe: Duration) -> Duration {
    (pause * PAUSES + observe).min(WAIT_MAX)
}

/// How long a connection has to be looked at that lasts longer than a look, where `observe` is too
/// short for its round trips.
pub(super) fn longer(answered: &Answered<'_, '_>, observe: Duration) -> Option<Duration> {
    let timeline = answered.timeline();
    let wanted = timeline.wanted_interval();
    let lasts = timeline.interval() > observe.mul_f64(LASTS_SHARE);
    (lasts && wanted > observe && !answered.comes_and_goes()).then(|| wanted.min(WAIT_MAX))
}

/// Whether nothing is known of a connection that lost packets, and was there all the time.
pub(super) fn has_few_losses(answered: &Answered<'_, '_>) -> bool {
    let timeline = answered.timeline();
    let lost = timeline.counted(|s| s.retrans_total_pkts);
    let is_unknown = answered.report.unknown.is_some() && !answered.comes_and_goes();
    is_unknown && lost.is_some_and(|lost| lost > 0)
}

#[cfg(test)]
mod tests {
    use base::{FlowKey, Instant, Netns};
    use doctor::Recording;

    use super::*;
    use crate::observed::Observed;

    /// A program that takes one file after the other, each by a connection of its own; the last
    /// one began after this many seconds of ten.
    #[test]
    fn looks_last_as_long_as_connections_that_follow_each_other() {
        let slice = |began_s: Option<u64>, bound_s: u64| {
            let second = Duration::from_secs(1);
            let track = |cookie: u64, from: u64, to: u64| {
                let key = FlowKey {
                    local: ([10, 0, 0, 1], 40_000 + cookie as u16).into(),
                    remote: ([10, 0, 0, 2], 443).into(),
                };
                let look = |at: u64| FlowSample {
                    bytes_acked: Some(100),
                    bytes_received: Some(1_000_000 * (at - from)),
                    ..FlowSample::empty(Instant::ZERO + second * at as u32, key)
                };
                Track {
                    key,
                    cookie,
                    owners: Vec::new(),
                    samples: (from..=to).map(look).collect(),
                    ended: to < 10,
                    interface: None,
                    options_error: None,
                }
            };
            let first = track(1, 0, began_s.unwrap_or(10));
            let next = began_s.map(|began| track(2, began, 10));
            let recording = Recording {
                flows: [Some(first), next].into_iter().flatten().collect(),
                ended: Instant::ZERO + second * 10,
                ..Recording::default()
            };
            let observed = Observed::new(&recording, &Netns::Own);
            let answers = observed.answers(|_| true);
            let options = FitOptions {
                observe: second * 4,
                slice: second,
                settle: second,
                warm_up: second,
                bound: second * bound_s as u32,
                extra: second,
                once: false,
                dry_run: false,
            };
            timing(&answers[0], &options).slice
        };
        assert_eq!(slice(None, 400), Duration::from_secs(1), "it stays");
        assert_eq!(slice(Some(3), 400), Duration::from_secs(10));
        assert_eq!(slice(Some(3), 90), Duration::from_millis(4500), "no time");
    }

    #[test]
    fn who_takes_a_download_does_not_pause() {
        let key = FlowKey {
            local: ([10, 0, 0, 1], 40_000).into(),
            remote: ([10, 0, 0, 2], 443).into(),
        };
        let second = Duration::from_secs(1);
        // Something was asked for, and an hour before; data arrives all the time, or each half
        // second.
        let check = |every_ms: u64, expected: Duration| {
            let mut timeline = Timeline::new();
            for look in 0..40_u64 {
                let at = Instant::ZERO + second * 3600 + Duration::from_millis(100 * look);
                let since = Duration::from_millis(100 * look % every_ms);
                timeline.push(FlowSample {
                    bytes_acked: Some(if look < 20 { 100 } else { 200 }),
                    bytes_received: Some(100_000 * (100 * look / every_ms)),
                    since_data_sent: Some(at.since(Instant::ZERO)),
                    since_data_received: Some(since),
                    ..FlowSample::empty(at, key)
                });
            }
            assert_eq!(pause_in(&timeline), Some(expected));
        };
        check(100, Duration::ZERO);
        check(500, Duration::from_millis(400));
    }
}
