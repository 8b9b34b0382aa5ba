//! Divides the time between samples among the limits of a sender.
//!
//! Two counters of the kernel are exact (`tcp_chrono_*`): the time with nothing to send, and the
//! time that the peer's window took. The rest of the time between two samples is attributed by what
//! they show: half of it by the sample before, half by the one after.

use core::time::Duration;

use base::{CongestionState, FlowSample, Instant, Limit, Rate, TcpState};

use crate::timeline::{Timeline, cwnd_room_pkts, window_room_bytes};

/// Shares of time by limit, and of the time whose limit is unknown; they sum to one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shares {
    of: [f64; Limit::ALL.len()],
    unclear: f64,
}

/// Times by limit, in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Times {
    pub(crate) of: [f64; Limit::ALL.len()],
    pub(crate) unclear: f64,
}

/// The limit shown by a sample, with everything needed for the next one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown {
    pub(crate) at: Instant,
    limit: Option<Limit>,
    has_nothing: bool,
    busy_time: Option<Duration>,
    rwnd_limited_time: Option<Duration>,
}

impl Shown {
    pub(crate) fn of(sample: &FlowSample) -> Self {
        Self {
            at: sample.at,
            limit: limit_of(sample),
            has_nothing: has_nothing(sample),
            busy_time: sample.busy_time,
            rwnd_limited_time: sample.rwnd_limited_time,
        }
    }
}

impl Shares {
    /// Shares out the time from the first sample to the last; `None` with fewer than two.
    #[must_use]
    pub fn of_timeline(timeline: &Timeline) -> Option<Self> {
        Self::of_samples(timeline.samples())
    }

    /// The same of samples in order of time.
    pub fn of_samples<'s>(samples: impl IntoIterator<Item = &'s FlowSample>) -> Option<Self> {
        let mut times = Times::default();
        let mut samples = samples.into_iter().map(Shown::of);
        let mut before = samples.next()?;
        for after in samples {
            times.share_out(&before, &after);
            before = after;
        }
        let all = times.of.iter().sum::<f64>() + times.unclear;
        (all > 0.0).then(|| Self {
            of: times.of.map(|time| time / all),
            unclear: times.unclear / all,
        })
    }

    /// The share of a limit, 0 to 1.
    #[must_use]
    pub fn get(&self, limit: Limit) -> f64 {
        self.of[place(limit)]
    }

    /// The share of time whose limit is unknown, 0 to 1.
    #[must_use]
    pub const fn unclear(&self) -> f64 {
        self.unclear
    }

    /// Each limit that took time, largest first.
    #[must_use]
    pub fn largest_first(&self) -> Vec<(Limit, f64)> {
        let mut shares: Vec<(Limit, f64)> = Limit::ALL
            .into_iter()
            .map(|limit| (limit, self.get(limit)))
            .filter(|(_, share)| *share > 0.0)
            .collect();
        shares.sort_by(|a, b| b.1.total_cmp(&a.1));
        shares
    }
}

/// From when to when `limit` took time: the start of the first interval between samples in which
/// it held for at least half, and the end of the last one.
pub(crate) fn held<'s>(
    samples: impl IntoIterator<Item = &'s FlowSample>,
    limit: Limit,
) -> Option<(Instant, Instant)> {
    let mut samples = samples.into_iter().map(Shown::of);
    let mut before = samples.next()?;
    let mut held = None;
    for after in samples {
        let mut times = Times::default();
        times.share_out(&before, &after);
        if 2.0 * times.of[place(limit)] >= after.at.since(before.at).as_secs_f64() {
            let (first, _) = held.unwrap_or((before.at, after.at));
            held = Some((first, after.at));
        }
        before = after;
    }
    held
}

impl Times {
    /// Attributes the time between two samples.
    pub(crate) fn share_out(&mut self, before: &Shown, after: &Shown) {
        let all = after.at.since(before.at).as_secs_f64();
        let counted = |read: fn(&Shown) -> Option<Duration>| {
            let (old, new) = (read(before)?, read(after)?);
            Some(new.checked_sub(old)?.as_secs_f64().min(all))
        };
        let looks = [before, after];
        let busy = counted(|s| s.busy_time);
        let shut = counted(|s| s.rwnd_limited_time).unwrap_or(0.0);
        let shut = shut.min(busy.unwrap_or(all));
        self.add(Some(Limit::PeerWindow), shut);
        let mut left = all - shut;
        let is_open = looks
            .iter()
            .all(|look| look.limit != Some(Limit::Handshake));
        if let Some(busy) = busy.filter(|_| is_open) {
            self.add(Some(Limit::Application), all - busy);
            left = busy - shut;
        }
        // The counters cover the idle time, and that of the window.
        let has_busy = busy.is_some() && is_open;
        let is_counted = |look: &Shown| {
            let is_shut = shut > 0.0 && look.limit == Some(Limit::PeerWindow);
            (has_busy && look.has_nothing) || is_shut
        };
        let votes = looks.into_iter().filter(|look| !is_counted(look));
        let number = votes.clone().count();
        if number == 0 {
            // Both samples lie in counted time; data came and went in between.
            let is_silent = looks.into_iter().any(|look| look.has_nothing);
            let between = if shut > 0.0 && !is_silent {
                Limit::PeerWindow
            } else {
                Limit::Application
            };
            self.add(Some(between), left);
        }
        for vote in votes {
            self.add(vote.limit, left / number as f64);
        }
    }

    fn add(&mut self, limit: Option<Limit>, time: f64) {
        match limit {
            Some(limit) => self.of[place(limit)] += time,
            None => self.unclear += time,
        }
    }
}

/// Why the flow did not send more at the time of a sample; `None` if that does not show it.
fn limit_of(sample: &FlowSample) -> Option<Limit> {
    if matches!(
        sample.state,
        Some(TcpState::SynSent | TcpState::SynReceived)
    ) {
        return Some(Limit::Handshake);
    }
    let unsent = u64::from(sample.notsent_bytes?);
    if unsent == 0 {
        return Some(match sample.lost_pkts {
            Some(lost) if lost > 0 => Limit::Recovery,
            _ if holds_writer(sample) => Limit::SendBuffer,
            _ => Limit::Application,
        });
    }
    let mss = u64::from(sample.snd_mss_bytes?);
    let is_recovering = matches!(
        sample.congestion_state,
        Some(CongestionState::Recovery | CongestionState::Loss)
    );
    if cwnd_room_pkts(sample)? == 0 {
        return Some(match is_recovering {
            true => Limit::Recovery,
            false => Limit::Congestion,
        });
    }
    if window_room_bytes(sample)? < unsent.min(mss) {
        return Some(Limit::PeerWindow);
    }
    // A cork holds a partial segment with nothing in flight; whether one is set is not always
    // visible.
    let looks_corked = sample.cork.is_none() && sample.unacked_pkts == Some(0);
    if unsent < mss && (sample.cork == Some(true) || looks_corked) {
        return Some(Limit::Cork);
    }
    if unsent < mss && sample.unacked_pkts? > 0 && sample.nodelay != Some(true) {
        return Some(Limit::Nagle);
    }
    // No window or buffer is full, and yet packets are not sent.
    Some(if is_held_to_bound(sample) {
        Limit::Pacing
    } else if paces_itself(sample) {
        Limit::Congestion
    } else if sample
        .local_queue_bytes
        .is_some_and(|queued| u64::from(queued) > 2 * mss)
    {
        Limit::Interface
    } else {
        // Room for a few segments waits to become that of a large packet (`tcp_tso_should_defer`).
        Limit::Congestion
    })
}

/// Whether a writer that found the send buffer full would still wait: it is woken when a third of
/// the buffer is free (`sk_stream_is_writeable`).
fn holds_writer(sample: &FlowSample) -> bool {
    match (sample.wmem_queued_bytes, sample.sndbuf_bytes) {
        (Some(queued), Some(limit)) => 3 * u64::from(queued) > 2 * u64::from(limit),
        _ => false,
    }
}

/// Whether packets that are held wait for BBR's own pace, which is how it sends what it finds the
/// path to carry, and not for a bound that the program set.
#[must_use]
pub fn paces_itself(sample: &FlowSample) -> bool {
    sample.bbr.is_some() && !is_held_to_bound(sample)
}

/// Whether packets leave at the pace that the program set as a bound; `pacing_rate` alone is kept
/// of every connection. Under BBR the pace may be lower by itself.
fn is_held_to_bound(sample: &FlowSample) -> bool {
    let is_reached = |bound: Rate| {
        let pace = sample.pacing_rate.filter(|_| sample.bbr.is_some());
        pace.is_none_or(|pace| pace >= bound)
    };
    sample.max_pacing_rate.is_some_and(is_reached)
}

/// Nothing to send and nothing in flight.
fn has_nothing(sample: &FlowSample) -> bool {
    sample.unacked_pkts == Some(0) && sample.notsent_bytes == Some(0)
}

/// Its place in [`Limit::ALL`], whose order is that of the type.
const fn place(limit: Limit) -> usize {
    limit as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::FlowKey;

    fn look(millis: u64) -> FlowSample {
        let key = FlowKey {
            local: ([10, 0, 0, 1], 40_000).into(),
            remote: ([10, 0, 0, 2], 80).into(),
        };
        FlowSample {
            snd_mss_bytes: Some(1448),
            cwnd_pkts: Some(10),
            snd_wnd_bytes: Some(1 << 20),
            bytes_sent: Some(0),
            bytes_acked: Some(0),
            unacked_pkts: Some(0),
            notsent_bytes: Some(0),
            ..FlowSample::empty(Instant::ZERO + Duration::from_millis(millis), key)
        }
    }

    /// At 100 ms, with all that is left out of a look changed.
    fn check(looks: &[FlowSample; 2], expected: &[(Limit, f64)], unclear: f64) {
        let shares = Shares::of_samples(looks).expect("two looks");
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        let found = shares.largest_first();
        let same = found.len() == expected.len()
            && expected
                .iter()
                .all(|(limit, share)| near(shares.get(*limit), *share));
        assert!(same, "{found:?} instead of {expected:?}");
        assert!(
            near(shares.unclear(), unclear),
            "{} unclear",
            shares.unclear()
        );
    }

    fn full(mut sample: FlowSample) -> FlowSample {
        sample.unacked_pkts = Some(10);
        sample.notsent_bytes = Some(50_000);
        sample
    }

    /// Paced by BBR to 9 Mbit/s.
    fn bbr(sample: FlowSample) -> FlowSample {
        FlowSample {
            bbr: Some(base::BbrState {
                bandwidth: Rate::from_bits_per_second(9_000_000),
                min_rtt: Duration::from_millis(30),
                pacing_gain: 256,
                cwnd_gain: 512,
            }),
            pacing_rate: Some(Rate::from_bits_per_second(9_000_000)),
            cwnd_pkts: Some(90),
            ..full(sample)
        }
    }

    /// The same where the program allows so many Mbit/s.
    fn bounded(sample: FlowSample, mbit: u64) -> FlowSample {
        FlowSample {
            max_pacing_rate: Some(Rate::from_bits_per_second(mbit * 1_000_000)),
            ..bbr(sample)
        }
    }

    #[test]
    fn each_limit_has_its_place() {
        for (at, limit) in Limit::ALL.into_iter().enumerate() {
            assert_eq!(place(limit), at, "{limit:?}");
        }
    }

    #[test]
    fn what_both_looks_see_takes_all_the_time() {
        let both = |change: fn(FlowSample) -> FlowSample, limit| {
            check(&[change(look(0)), change(look(100))], &[(limit, 1.0)], 0.0);
        };
        both(|s| s, Limit::Application);
        both(full, Limit::Congestion);
        both(
            |s| FlowSample {
                congestion_state: Some(CongestionState::Recovery),
                ..full(s)
            },
            Limit::Recovery,
        );
        both(bbr, Limit::Congestion);
        both(|s| bounded(s, 20), Limit::Congestion);
        both(|s| bounded(s, 9), Limit::Pacing);
        both(
            |s| FlowSample {
                snd_wnd_bytes: Some(1000),
                cwnd_pkts: Some(90),
                ..full(s)
            },
            Limit::PeerWindow,
        );
        let tail = |s| FlowSample {
            unacked_pkts: Some(1),
            notsent_bytes: Some(100),
            ..s
        };
        both(tail, Limit::Nagle);
        both(
            |s| FlowSample {
                unacked_pkts: Some(0),
                notsent_bytes: Some(100),
                cork: Some(true),
                ..s
            },
            Limit::Cork,
        );
        both(
            |s| FlowSample {
                unacked_pkts: Some(3),
                wmem_queued_bytes: Some(15_000),
                sndbuf_bytes: Some(16_384),
                ..s
            },
            Limit::SendBuffer,
        );
        both(
            |s| FlowSample {
                state: Some(TcpState::SynSent),
                ..s
            },
            Limit::Handshake,
        );
    }

    #[test]
    fn two_looks_that_differ_have_half_of_it_each() {
        let halves = [(Limit::Congestion, 0.5), (Limit::Application, 0.5)];
        check(&[full(look(0)), look(100)], &halves, 0.0);
    }

    #[test]
    fn counters_of_time_go_before_what_looks_see() {
        let counted = |sample: FlowSample, busy, shut| FlowSample {
            busy_time: Some(Duration::from_millis(busy)),
            rwnd_limited_time: Some(Duration::from_millis(shut)),
            ..sample
        };
        let expected = [
            (Limit::Congestion, 0.5),
            (Limit::PeerWindow, 0.3),
            (Limit::Application, 0.2),
        ];
        let (before, after) = (counted(full(look(0)), 5, 0), counted(look(100), 85, 30));
        check(&[before, after], &expected, 0.0);
    }

    #[test]
    fn a_limit_held_from_its_first_interval_to_its_last() {
        let looks = [0, 100, 200, 300, 400, 500].map(look);
        let [a, b, c, d, e, f] = looks;
        let looks = [a, full(b), full(c), d, full(e), f];
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        assert_eq!(
            held(&looks, Limit::Congestion),
            Some((at(0), at(500))),
            "half of an interval is enough"
        );
        let blind = FlowSample {
            notsent_bytes: None,
            ..look(150)
        };
        assert_eq!(
            held(&[blind, full(look(200)), full(look(300))], Limit::Nagle),
            None
        );
        assert_eq!(
            held(
                &[look(0), look(100), full(look(200)), full(look(300))],
                Limit::Congestion
            ),
            Some((at(100), at(300)))
        );
    }

    #[test]
    fn what_is_not_shown_is_unclear() {
        let blind = |millis| FlowSample {
            notsent_bytes: None,
            ..look(millis)
        };
        check(&[blind(0), blind(100)], &[], 1.0);
        check(
            &[blind(0), full(look(100))],
            &[(Limit::Congestion, 0.5)],
            0.5,
        );
        assert_eq!(Shares::of_samples(&[look(0)]), None);
        // Counters of another socket, or of a broken source.
        let at = |millis, busy| FlowSample {
            busy_time: Some(Duration::from_secs(busy)),
            ..full(look(millis))
        };
        check(&[at(0, 9), at(100, 1)], &[(Limit::Congestion, 1.0)], 0.0);
    }
}
