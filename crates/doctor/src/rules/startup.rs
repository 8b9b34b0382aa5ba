//! Slow starts: of each burst after a pause, and of each short connection.

use base::{FlowSample, KnobValue, Limit, Live, Rate, TcpState, human};
use core::time::Duration;

use super::draft::{Draft, Remedy, high_if};
use super::next::next_limit;
use super::restarts::Restarts;
use super::send_buffer;
use super::thresholds::{
    FULL_PATH_RTTS, FULL_SHARE, INITIAL_WINDOW_PKTS, LARGE_INITIAL_WINDOW_PKTS, LOSS_SHARE,
    NO_QUEUE, NO_QUEUE_SLACK, PROPOSED_INITIAL_WINDOW, RESTART_COST, SHORT_BUSY, SHORT_CONNECTIONS,
    STARTUP_ROUND_TRIPS, STARTUP_SLOWDOWN, WINDOW_SHARE,
};
use crate::timeline::{Timeline, cwnd_room_pkts, is_idle, ratio_of_times};
use crate::verdict::{Confidence, Verdict};
use crate::view::View;

const AFTER_IDLE: &str = "net.ipv4.tcp_slow_start_after_idle";

/// The window falls back to its initial size in each pause (RFC 2861, `tcp_cwnd_restart`).
pub(crate) fn slow_start_after_idle(view: &View<'_>) -> Option<Verdict> {
    let sender = view.sender?;
    let sysctl = view
        .sender_host
        .and_then(|host| host.sysctl_number(AFTER_IDLE));
    if view.is_bbr() || sysctl == Some(0) || sender.retransmitted_share()? > LOSS_SHARE {
        return None;
    }
    let enough = if sysctl == Some(1) { 1 } else { 2 };
    let restarts = Restarts::read(view, enough)?;
    let first_window = INITIAL_WINDOW_PKTS * u64::from(sender.mss_bytes()?);
    if restarts.bytes <= first_window || !restarts.is_worth_a_setting() {
        return None;
    }
    let active = 1.0 - sender.idle_share().unwrap_or(0.0);
    // A burst that leaves at once takes a round trip all the same.
    let most = restarts.time.saturating_sub(sender.min_rtt()?);
    let saved = restarts.lost.min(most);
    let confidence = high_if(sysctl == Some(1));
    Some(
        Draft::new("slow-start-after-idle", active, confidence)
            .saves(saved.as_secs_f64() / restarts.time.as_secs_f64().max(1e-9))
            .row(
                "cwnd_pkts",
                format!(
                    "{} before a pause, {} after it, {} times",
                    restarts.before, restarts.after, restarts.count
                ),
                "kept over the pause",
            )
            .row(
                "bytes_acked",
                format!("{} per burst", human::count(restarts.bytes, "byte")),
                format!(
                    "above the initial window of {}",
                    human::count(INITIAL_WINDOW_PKTS, "segment")
                ),
            )
            .row(
                "min_rtt",
                format!(
                    "{} of the {} per burst are spent in slow start",
                    human::time(restarts.lost),
                    human::time(restarts.time)
                ),
                format!("below {}", human::share(RESTART_COST)),
            )
            .row_if(AFTER_IDLE, sysctl.map(|value| value.to_string()), "0")
            .next(next_limit(view, Limit::Congestion))
            .propose(
                view.sender_side,
                Remedy {
                    knob: AFTER_IDLE,
                    to: KnobValue::Flag(false),
                    live: Live::Now,
                    risk: "each burst leaves at once and may overflow a short queue",
                },
            )
            .remark("The kernel reads the sysctl at each write after an idle period."),
    )
}

/// Connections end while their window still doubles.
pub(crate) fn initcwnd_too_small(view: &View<'_>) -> Option<Verdict> {
    let (best, starts) = short_starts(view)?;
    let median = *starts.get(starts.len() / 2)?;
    let ideal = median.ideal(best);
    let &Start {
        bytes,
        busy,
        mss,
        min_rtt,
        ..
    } = median;
    let (least, most) = PROPOSED_INITIAL_WINDOW;
    let window = (best.bdp_bytes(min_rtt) / mss / 2).clamp(least, most);
    let remedy = |knob, risk| Remedy {
        knob,
        to: KnobValue::Number(window),
        live: Live::Reconnect,
        risk,
    };
    let share = 1.0 - ideal.as_secs_f64() / busy.as_secs_f64();
    let saved = [false, true].map(|is_prompt| {
        let saved = median.saved_by(window, is_prompt).as_secs_f64();
        saved / busy.as_secs_f64().max(1e-9)
    });
    let (sending, receiving) = (view.sender_side, view.receiver_side());
    Some(
        Draft::new("initcwnd-too-small", share, Confidence::Medium)
            .saves(saved[0])
            .saves_up_to(saved[1])
            .row(
                "busy_time",
                format!("{} for {}", human::time(busy), human::count(bytes, "byte")),
                format!("{} at the bottleneck rate", human::time(ideal)),
            )
            .row(
                "ssthresh_pkts",
                format!("no loss, still in slow start, {} connections", starts.len()),
                "reached before the transfer ends",
            )
            .next(next_limit(view, Limit::Congestion))
            .propose(
                sending,
                remedy(
                    "route.initcwnd",
                    "the initial burst may overflow the queue of a slow link; a host route keeps \
                     the next hop of today",
                ),
            )
            .propose(
                receiving,
                remedy(
                    "route.initrwnd",
                    "memory for each new connection; a host route keeps the next hop of today",
                ),
            )
            .remark(
                "Needs a reconnect: the route's values apply to new connections. In the program: \
                 keep connections open and reuse them.",
            ),
    )
}

/// The short connections of this service that were in their slow start, where they are enough for
/// a verdict, and the best rate that the path gave any of them.
fn short_starts<'a>(view: &View<'a>) -> Option<(Rate, Vec<&'a Start>)> {
    let own = view.sender?;
    let same_service = view
        .sender_siblings
        .iter()
        .copied()
        .filter(|other| is_same_service(own, other));
    let connections: Vec<&'a Timeline> = core::iter::once(own).chain(same_service).collect();
    let starts = connections
        .iter()
        .filter_map(|timeline| Startup::of(timeline).start.as_ref());
    let mut starts: Vec<&Start> = starts.collect();
    // What the path gave takes longer to see.
    if starts.len() < SHORT_CONNECTIONS {
        return None;
    }
    // What a full path carries is known; what a window would bring is not.
    let most = |rate: fn(&Startup) -> Option<Rate>| {
        let rates = connections.iter().map(|timeline| Startup::of(timeline));
        rates.filter_map(rate).max()
    };
    let best = most(|shown| shown.rate_of_full_path).or_else(|| most(|shown| shown.shown_rate))?;
    starts.retain(|start| start.is_slow(best));
    // One that still sends may become one that is short, or not; of one that was seen when all was
    // sent the start is not known.
    let told = connections.iter().filter(|timeline| {
        timeline.last().and_then(is_idle) == Some(true) && saw_sending(timeline) != Some(false)
    });
    let enough = starts.len() >= SHORT_CONNECTIONS && starts.len() * 2 >= told.count();
    starts.sort_unstable_by_key(|start| start.busy);
    enough.then_some((best, starts))
}

/// The rate that the path has shown. All transfers may have ended in their slow start: what their
/// largest window allows in a round trip nothing has refused so far, where round trips are as short
/// as before (Linux grows a window only while it is used). On a slow link a window grows into a
/// queue, and round trips with it: there counts what was delivered.
pub(super) fn shown_rate(timeline: &Timeline) -> Option<Rate> {
    let delivered = timeline.best_rate()?;
    let min_rtt = timeline.min_rtt().filter(|rtt| !rtt.is_zero())?;
    let slack = min_rtt.mul_f64(NO_QUEUE - 1.0).max(NO_QUEUE_SLACK);
    if timeline.largest(|s| s.srtt)? >= min_rtt.saturating_add(slack) {
        return Some(delivered);
    }
    let window = u64::from(timeline.largest(|s| s.cwnd_pkts)?) * u64::from(timeline.mss_bytes()?);
    Some(delivered.max(Rate::of(window, min_rtt)))
}

/// Acknowledged rate while round trips took more than twice their minimum: more than the path holds
/// is queued then, and the bottleneck is never idle. The best rate of all may be a burst that a
/// token bucket let through.
fn rate_of_full_path(timeline: &Timeline) -> Option<Rate> {
    let min_rtt = timeline.min_rtt().filter(|rtt| !rtt.is_zero())?;
    let is_full = |s: &&FlowSample| s.srtt.is_some_and(|srtt| srtt >= min_rtt * FULL_PATH_RTTS);
    let first = timeline.samples().find(is_full)?;
    let all = timeline.latest(|s| s.bytes_acked)?;
    let acked = |s: &FlowSample| {
        s.bytes_acked
            .is_some_and(|acked| acked.saturating_add(1) >= all)
    };
    let last = timeline.samples().find(|s| acked(s))?;
    let time = last.at.since(first.at);
    let bytes = last.bytes_acked?.checked_sub(first.bytes_acked?)?;
    (time >= min_rtt * FULL_PATH_RTTS).then(|| Rate::of(bytes, time))
}

/// Start and path of a connection; computed once, since each of many is asked by all others.
#[derive(Clone, Debug)]
pub(crate) struct Startup {
    start: Option<Start>,
    shown_rate: Option<Rate>,
    rate_of_full_path: Option<Rate>,
}

impl Startup {
    fn of(timeline: &Timeline) -> &Self {
        timeline.startup.get_or_init(|| Self {
            start: start(timeline),
            shown_rate: shown_rate(timeline),
            rate_of_full_path: rate_of_full_path(timeline),
        })
    }
}

/// Start of a short connection.
#[derive(Clone, Debug)]
struct Start {
    bytes: u64,
    busy: Duration,
    mss: u64,
    min_rtt: Duration,
    /// Segments of its first window, of usual ones at most.
    first: u64,
    /// The window that the peer announced, from so many acknowledged bytes on, where it grew.
    windows: Vec<(u64, u64)>,
}

impl Start {
    /// Duration at this rate.
    fn ideal(&self, best: Rate) -> Duration {
        let at_best = self.bytes as f64 * 8.0 / best.bits_per_second().max(1) as f64;
        let at_best = Duration::try_from_secs_f64(at_best).unwrap_or(Duration::MAX);
        self.min_rtt.saturating_add(at_best)
    }

    /// What a first window of so many segments saves of the time with data in flight, without the
    /// handshake; see [`Start::rounds`] for `is_prompt`.
    fn saved_by(&self, window: u64, is_prompt: bool) -> Duration {
        let now = self.rounds(self.first, is_prompt);
        self.min_rtt * now.saturating_sub(self.rounds(window, is_prompt))
    }

    /// Round trips in slow start until all has left, beginning with so many segments. No flight
    /// exceeds the peer's window, which is adjusted once in a round trip, from what the program has
    /// taken in it (`tcp_rcv_space_adjust`): ACKs of the first flight announce what the handshake
    /// did, whatever arrives. `is_prompt`: they announce more, since the round trip from the
    /// handshake to the first data is one in which the window is adjusted, if the program takes
    /// enough of that at once: more than a usual first window (`tcp_init_buffer_space`).
    fn rounds(&self, first: u64, is_prompt: bool) -> u32 {
        let mss = self.mss.max(1);
        let is_prompt = is_prompt && first.min(self.window_after(0) / mss) > INITIAL_WINDOW_PKTS;
        let segments = self.bytes / mss;
        let (mut cwnd, mut sent, mut arrived, mut rounds) = (first.max(1), 0_u64, 0_u64, 0);
        while rounds < u64::BITS {
            let acked = if is_prompt { sent } else { arrived };
            let flight = cwnd.min(self.window_after(acked * mss) / mss).max(1);
            arrived = sent;
            sent = sent.saturating_add(flight);
            cwnd = cwnd.saturating_add(flight);
            rounds += 1;
            if sent >= segments {
                break;
            }
        }
        rounds
    }

    /// The peer's window when so much had been acknowledged; that of the first look before it.
    fn window_after(&self, acked: u64) -> u64 {
        let until = self.windows.partition_point(|(from, _)| *from <= acked);
        let told = self.windows.get(until.saturating_sub(1));
        told.map_or(u64::MAX, |(_, window)| *window)
    }

    fn is_slow(&self, best: Rate) -> bool {
        self.busy.as_secs_f64() >= self.ideal(best).as_secs_f64() * STARTUP_SLOWDOWN
    }
}

/// `None` unless the connection was short and ended (or stands) in its slow start. A connection
/// this young is wholly inside the observed time, so its counters need no difference.
fn start(timeline: &Timeline) -> Option<Start> {
    let bytes = timeline.latest(|s| s.bytes_acked)?;
    // What follows the last byte, mostly closing, is not part of the transfer; a FIN that is
    // acknowledged counts as a byte, and so does the SYN of the end that connected (`tcp_ack`), but
    // not among the bytes that were sent.
    let reaches = |offset: u64| offset.saturating_add(2) >= bytes;
    // From the end: most connections are long, which shows there at once.
    let newest = timeline.samples().rev();
    let told = newest.filter_map(|s| s.bytes_acked.map(|acked| (acked, s)));
    let done = told.take_while(|(acked, _)| reaches(*acked)).last();
    let (_, done) = done?;
    let busy = done.busy_time.filter(|busy| *busy <= SHORT_BUSY)?;
    let mss = u64::from(timeline.mss_bytes()?);
    let min_rtt = timeline.min_rtt()?;
    // A connection that asks and waits many times is slow for another reason. The last window is
    // hardly ever full: it carries what is left.
    let all_sent = timeline
        .samples()
        .find(|s| {
            let sent = s.bytes_acked.zip(s.bytes_out());
            sent.is_some_and(|(acked, out)| reaches(acked.saturating_add(out)))
        })
        .map_or(done.at, |s| s.at);
    let keeps_sending = timeline
        .vote_until(all_sent, |s| {
            // Nothing can be sent before the handshake is over.
            (s.state != Some(TcpState::SynSent)).then_some(())?;
            Some(cwnd_room_pkts(s)? < 2 || s.notsent_bytes? >= s.snd_mss_bytes?)
        })
        .is_some_and(|share| share >= FULL_SHARE);
    let clean = timeline.latest(|s| s.retrans_total_pkts)? == 0 && in_slow_start(done);
    let window_free = timeline
        .latest(|s| s.rwnd_limited_time)
        .and_then(|stopped| ratio_of_times(stopped, busy))
        .is_none_or(|share| share <= WINDOW_SHARE);
    let is_long_enough = busy >= min_rtt.mul_f64(STARTUP_ROUND_TRIPS);
    // One that was found late has grown meanwhile, by a segment for each that was acknowledged.
    let began = |s: &FlowSample| {
        let grown = u32::try_from(s.bytes_acked? / mss.max(1)).unwrap_or(u32::MAX);
        Some(s.cwnd_pkts?.saturating_sub(grown))
    };
    let first = timeline.samples().find_map(began)?;
    let began_small = first < LARGE_INITIAL_WINDOW_PKTS;
    let first = u64::from(first).clamp(1, INITIAL_WINDOW_PKTS);
    let above_first_window = bytes > 2 * first * mss;
    let is_free = window_free && !send_buffer::fixed_buffer_stops(timeline);
    let is_start = keeps_sending && clean && is_free && began_small;
    (is_start && is_long_enough && above_first_window).then(|| Start {
        bytes,
        busy,
        mss,
        min_rtt,
        first,
        windows: windows(timeline),
    })
}

/// See [`Start::windows`].
fn windows(timeline: &Timeline) -> Vec<(u64, u64)> {
    let mut grown: Vec<(u64, u64)> = Vec::new();
    for sample in timeline.samples() {
        let Some((acked, window)) = sample.bytes_acked.zip(sample.snd_wnd_bytes) else {
            continue;
        };
        let window = u64::from(window);
        if grown.last().is_none_or(|(_, most)| window > *most) {
            grown.push((acked, window));
        }
    }
    grown
}

/// Whether a connection was seen before all that it carried had been sent.
fn saw_sending(timeline: &Timeline) -> Option<bool> {
    let (first, last) = (timeline.first()?, timeline.last()?);
    let sent = first.bytes_acked?.saturating_add(first.bytes_out()?);
    Some(sent.saturating_add(1) < last.bytes_acked?)
}

/// No threshold was set; or only `HyStart` set one, at the window reached (RFC 9406).
fn in_slow_start(last: &FlowSample) -> bool {
    let unset = |s: &FlowSample| s.ssthresh_pkts.is_some_and(|pkts| pkts >= i32::MAX as u32);
    let left_late = matches!(
        (last.ssthresh_pkts, last.cwnd_pkts),
        (Some(ssthresh), Some(cwnd)) if u64::from(ssthresh) * 4 >= u64::from(cwnd) * 3
    );
    unset(last) || left_late
}

fn is_same_service(own: &Timeline, other: &Timeline) -> bool {
    match (own.key(), other.key()) {
        (Some(a), Some(b)) => a != b && (a.remote == b.remote || a.local == b.local),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use base::FlowKey;

    use super::*;
    use crate::Observation;

    const RTT: u64 = 42;

    /// A connection that sends 24 segments, 3 of them first and twice as many in each round trip,
    /// looked at each 10 ms from so many milliseconds on; the last look is at its end.
    fn short(port: u16, from: u64) -> Timeline {
        short_of(24, port, from)
    }

    /// The same of this many segments.
    fn short_of(segments: u32, port: u16, from: u64) -> Timeline {
        let key = FlowKey {
            local: ([10, 0, 0, 1], 80).into(),
            remote: ([10, 0, 0, 2], port).into(),
        };
        let mut timeline = Timeline::new();
        let rounds = [0, 3, 9, 21]
            .iter()
            .filter(|sent| segments > **sent)
            .count() as u64;
        for now in (from..=5 * RTT).step_by(10).chain([5 * RTT + 1]) {
            let (window, acked) = match now / RTT {
                0 => (3, 0),
                1 => (6, 3),
                2 => (12, 9),
                3 => (24, 21),
                _ => (27, segments),
            };
            let acked = segments.min(acked);
            let out = window.min(segments - acked);
            timeline.push(FlowSample {
                snd_mss_bytes: Some(1448),
                min_rtt: Some(Duration::from_millis(RTT)),
                srtt: Some(Duration::from_millis(RTT)),
                busy_time: Some(Duration::from_millis(now.min(rounds * RTT))),
                rwnd_limited_time: Some(Duration::ZERO),
                cwnd_pkts: Some(window),
                ssthresh_pkts: Some(i32::MAX as u32),
                unacked_pkts: Some(out),
                notsent_bytes: Some((segments - acked - out) * 1448),
                bytes_acked: Some(u64::from(acked) * 1448),
                bytes_sent: Some(u64::from(acked + out) * 1448),
                bytes_retrans: Some(0),
                retrans_total_pkts: Some(0),
                delivery_rate: Some(base::Rate::from_bits_per_second(3_000_000)),
                ..FlowSample::empty(base::Instant::from_nanos(now * 1_000_000), key)
            });
        }
        timeline
    }

    /// The SYN of the end that connects is acknowledged as a byte, and so is its FIN; before the
    /// handshake is over there is nothing to be in the way of.
    #[test]
    fn who_connects_and_closes_is_in_its_start_too() {
        let accepted = short(40_000, 0);
        let first = accepted.first().expect("it has samples");
        let mut connected = Timeline::new();
        for now in 0..10 {
            connected.push(FlowSample {
                state: Some(TcpState::SynSent),
                unacked_pkts: Some(1),
                notsent_bytes: Some(0),
                at: base::Instant::from_nanos(now * 4_000_000),
                ..first.clone()
            });
        }
        for sample in accepted.samples() {
            let is_over = sample.unacked_pkts == Some(0);
            connected.push(FlowSample {
                at: sample.at + Duration::from_millis(RTT),
                bytes_acked: sample
                    .bytes_acked
                    .map(|acked| acked + 1 + u64::from(is_over)),
                ..sample.clone()
            });
        }
        assert!(start(&accepted).is_some());
        assert!(start(&connected).is_some());
    }

    /// Under BBR, of which the kernel told 572 and 570 ms with data in flight, 361 and 368 were
    /// left with so many segments at first.
    #[test]
    fn what_a_larger_window_saves_is_of_the_time_with_data_in_flight() {
        let check = |(bytes, rtt, window): (u64, u64, u64), [before, after]: [u64; 2]| {
            let start = Start {
                bytes,
                busy: Duration::from_millis(before),
                mss: 1448,
                min_rtt: Duration::from_millis(rtt),
                first: INITIAL_WINDOW_PKTS,
                windows: Vec::new(),
            };
            let share = start.saved_by(window, false).as_secs_f64() / start.busy.as_secs_f64();
            let saved = 1.0 - after as f64 / before as f64;
            // A quarter: what else BBR does in its start, such as pacing, is not reckoned with.
            // With the handshake in the time the first was 0.13 too small.
            let is_near = (saved - share).abs() < share / 4.0 + 0.02;
            assert!(is_near, "{share}: {saved}");
        };
        check((69_754, 161, 29), [572, 361]);
        check((150_044, 120, 57), [570, 368]);
    }

    /// 150121 bytes of php-fpm to nginx, whose window opens with 64 KiB: 57 segments took 274 ms of
    /// 366 at 90 ms, where a window that does not bind would have left 186.
    #[test]
    fn a_window_of_the_peer_that_opens_late_leaves_less_to_save() {
        let start = |windows: &[(u64, u64)]| Start {
            bytes: 150_121,
            busy: Duration::from_millis(366),
            mss: 1448,
            min_rtt: Duration::from_millis(90),
            first: INITIAL_WINDOW_PKTS,
            windows: windows.to_vec(),
        };
        let saved =
            |windows: &[(u64, u64)], is_prompt| start(windows).saved_by(57, is_prompt).as_millis();
        assert_eq!(saved(&[], false), 180);
        assert_eq!(saved(&[(0, 64_256), (43_440, 130_000)], false), 90);
        assert_eq!(
            saved(&[(0, 400_000)], false),
            180,
            "a window that does not bind"
        );
        // 130 kB to a program of OCaml, whose window was told in the same way, took 190 ms.
        assert_eq!(saved(&[(0, 64_256), (43_440, 130_000)], true), 180);
    }

    /// The peer announces ten segments at first: the first flight is no larger with any first
    /// window, so that what its ACKs announce is the same with both.
    #[test]
    fn a_window_of_the_peer_that_binds_at_first_hides_no_round_trip_to_save() {
        let saved = |bytes: u64, window: u64, is_prompt: bool| {
            let start = Start {
                bytes,
                busy: Duration::from_millis(366),
                mss: 1448,
                min_rtt: Duration::from_millis(90),
                first: INITIAL_WINDOW_PKTS,
                windows: vec![(0, 14_480), (14_480, 130_000)],
            };
            start.saved_by(window, is_prompt).as_millis()
        };
        for segments in [30, 60, 104, 200] {
            let bytes = segments * 1448;
            assert_eq!(saved(bytes, INITIAL_WINDOW_PKTS, true), 0, "{segments}");
            let both = [false, true].map(|is_prompt| saved(bytes, 57, is_prompt));
            assert_eq!(both[0], both[1], "{segments}");
        }
    }

    #[test]
    fn a_first_window_of_three_segments_is_too_small_for_eighteen() {
        let told = |segments: u32| {
            let (own, other) = (short_of(segments, 40_000, 0), short_of(segments, 40_001, 0));
            let siblings = [&other];
            let seen = Observation {
                siblings: &siblings,
                ..Observation::of(&own)
            };
            let verdict = initcwnd_too_small(&crate::observation::sender_view(&seen));
            verdict.map(|verdict| verdict.saves.expect("it is arithmetic") > 0.3)
        };
        assert_eq!(told(18), Some(true));
        assert_eq!(told(5), None, "two round trips");
    }

    #[test]
    fn connections_of_which_only_the_end_was_seen_tell_nothing_of_their_start() {
        let told = |seen_late: u16, from: u64| {
            let own = short(40_000, 0);
            let mut beside: Vec<Timeline> = (1..3).map(|n| short(40_000 + n, 0)).collect();
            beside.extend((0..seen_late).map(|n| short(50_000 + n, from)));
            let siblings: Vec<&Timeline> = beside.iter().collect();
            let seen = Observation {
                siblings: &siblings,
                ..Observation::of(&own)
            };
            initcwnd_too_small(&crate::observation::sender_view(&seen)).is_some()
        };
        assert!(told(0, 0));
        assert!(told(20, 5 * RTT), "their last look alone");
    }
}
