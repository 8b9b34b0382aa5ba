//! Small segments that wait: Nagle's algorithm, delayed ACKs, a cork.
//!
//! RFC 896 holds a partial segment while earlier data is unacknowledged; Linux (`tcp_nagle_check`,
//! Minshall's variant) while an earlier *small* segment is. RFC 1122 section 4.2.3.2 lets the
//! receiver delay that acknowledgement. Each is sensible, both together stall.

use base::{FlowSample, Instant, KnobValue, Live, human};
use core::time::Duration;

use super::draft::{Draft, Remedy, high_if, of_programs};
use super::stall_at_peer;
use super::thresholds::{
    ACKS_FLOW_SHARE, ANSWER_GAP, ANSWER_SHARE, CORK_PAUSE, CORK_PAUSES, CORK_SEGMENTS, CORK_SHARE,
    CORK_TIMER, DELAYED_ACK_ON_LONG_PATHS, DELAYED_ACK_QUEUE_DELAY, DELAYED_ACKS_PER_SECOND,
    DELAYED_OPERATIONS, FEW_OPERATIONS, LATE_WAITS_SHARE, LONG_MESSAGE_SILENCE, MORE_SHARE,
    SERIALISED_SHARE, STALL_PART_SHARE, STALL_PARTS, STALL_PKTS_OUT, STALL_SHARE,
    STEADY_SERIALISED_SHARE, TICK,
};
use crate::observation::only_sends;
use crate::timeline::{Timeline, cwnd_room_pkts, fills_sndbuf, window_room_bytes};
use crate::verdict::{NextLimit, Side, Verdict};
use crate::view::View;

/// A piece is held while a few packets are out, and the receiver delays its ACK.
pub(crate) fn nagle_delack_stall(view: &View<'_>) -> Option<Verdict> {
    if view.sender.is_none() {
        return stall_at_peer::nagle_delack_stall(view);
    }
    let share = stall_share(view, STALL_SHARE)?;
    let is_late =
        view.acks_are_late()? || wait_late(view).is_some_and(|share| share >= LATE_WAITS_SHARE);
    if !is_late || hears_all_the_time(view.sender?) {
        return None;
    }
    let draft = stall_draft("nagle-delack-stall", (share, is_late), view)?;
    let remark = "In the program: one write per message (writev, MSG_MORE, a buffered writer), or \
                  TCP_NODELAY after connect and accept.";
    Some(
        draft
            .propose(view.sender_side, nodelay())
            .propose(view.receiver_side(), quickack_route())
            .remark(remark),
    )
}

/// Whether data arrives so steadily that no timer keeps an ACK back at the other end: what it sends
/// carries the ACKs, and round trips are as long as a queue makes them.
fn hears_all_the_time(sender: &Timeline) -> bool {
    let share = sender.vote_of_all(|s| Some(s.since_data_received? < TICK * 2));
    share.is_some_and(|share| share >= ACKS_FLOW_SHARE)
}

/// A piece is held for a round trip although the receiver acknowledges at once.
pub(crate) fn nagle_rtt_serialised(view: &View<'_>) -> Option<Verdict> {
    // A piece that waits for a late ACK is one of the other stall, which may have ended meanwhile;
    // where it comes and goes, both are the same loss.
    let is_late = |s: &FlowSample| view.is_late(s.srtt?.saturating_sub(s.min_rtt?));
    let of_round_trips = |enough| stall_share_where(view, enough, |s| is_late(s) != Some(true));
    let share = of_round_trips(SERIALISED_SHARE)
        .or_else(|| stall_share(view, SERIALISED_SHARE).filter(|_| waits_in_each_part(view)))
        .or_else(|| of_round_trips(STEADY_SERIALISED_SHARE).filter(|_| waits_in_each_part(view)))?;
    // Without answers nothing waits: the small segments of a stream are only joined.
    if view.acks_are_late()? || sends_without_answer(view) || hardly_talks(view.sender?) {
        return None;
    }
    let draft = stall_draft("nagle-rtt-serialised", (share, false), view)?;
    let remark = "Each operation takes one round trip more than necessary. In the program: one \
                  write per message, or TCP_NODELAY.";
    Some(draft.propose(view.sender_side, nodelay()).remark(remark))
}

/// The stall of requests on one connection and answers on another: no answer carries an ACK.
///
/// Where both ACKs are late, the piece is held on one of the two only; on the other a request
/// simply leaves whenever an answer has come.
pub(crate) fn two_one_way_connections(view: &View<'_>) -> Option<Verdict> {
    let sender = view.sender?;
    if !view.acks_are_late()? || view.sent(|s| s.nodelay) == Some(true) {
        return None;
    }
    let sibling = opposite_sibling(view)?;
    // The answers are written at the other end of the connection beside this one.
    let answers = match view.sender_side {
        Side::Local => sibling.key()?.reversed(),
        Side::Remote => sibling.key()?,
    };
    let held = stall_share(view, STALL_SHARE);
    let answered = || answer_share(view, sibling).filter(|_| waits_for_delayed_acks(sender));
    let share = held.or_else(answered)?;
    let confidence = high_if(held.is_some());
    let operations = sender.counted(|s| s.data_segs_out)? as f64 / sender.interval().as_secs_f64();
    Some(
        Draft::new(
            "two-one-way-connections",
            of_all_time(sender, share),
            confidence,
        )
        .row(
            "bytes_received",
            "payload one way here, and the other way on the connection beside it",
            "both ways on one connection",
        )
        .row(
            "srtt - min_rtt",
            human::time(sender.queue_delay()?),
            format!("below {}", human::time(DELAYED_ACK_QUEUE_DELAY)),
        )
        .row(
            "data_segs_out",
            format!("{operations:.1} operations per second"),
            "one per round trip",
        )
        .row_if("nodelay", view.sent(|s| s.nodelay).map(human::flag), "on")
        .next(one_round_trip(view))
        .propose(view.sender_side, nodelay())
        .propose_beside(view.receiver_side(), answers, nodelay())
        .remark(
            "Set TCP_NODELAY on both connections, each at the end that writes to it: on one \
                 of them alone it helps little. Better, in the program: one connection for both \
                 directions, whose answers carry the ACKs.",
        ),
    )
}

/// A partial segment waits although nothing is out.
pub(crate) fn cork_not_uncorked(view: &View<'_>) -> Option<Verdict> {
    let sender = view.sender?;
    let held = sender.vote(|s| {
        let waits = is_partial(s)? && s.unacked_pkts? == 0;
        let has_window = s
            .snd_wnd_bytes
            .is_none_or(|wnd| Some(wnd) >= s.notsent_bytes);
        Some(waits && has_window && s.cwnd_pkts != Some(0))
    })?;
    let corked = sender
        .vote_of_all(|s| s.cork)
        .map(|share| share >= CORK_SHARE)
        .or_else(|| view.sent(|s| s.cork));
    let pauses = long_pauses(sender);
    // MSG_MORE corks a write, and no option tells of it.
    let enough = match corked {
        Some(false) => MORE_SHARE,
        _ => CORK_SHARE,
    };
    if held < enough || pauses < CORK_PAUSES {
        return None;
    }
    // A stream that is slowed down elsewhere (a rate limit, a busy program) leaves a last partial
    // segment each time, and nothing waits for that.
    let per_pause = sender.counted(|s| s.bytes_acked)? / pauses as u64;
    if per_pause > CORK_SEGMENTS * u64::from(sender.mss_bytes()?) {
        return None;
    }
    let confidence = high_if(corked == Some(true));
    let pause = sender.largest(|s| s.since_data_sent);
    let draft = Draft::new("cork-not-uncorked", of_all_time(sender, held), confidence)
        .row(
            "notsent_bytes",
            format!(
                "below one segment and nothing in flight in {}",
                human::share(held)
            ),
            format!("at least {} of the samples", human::share(CORK_SHARE)),
        )
        .row_if(
            "since_data_sent",
            pause.map(|pause| format!("up to {}, {pauses} pauses", human::time(pause))),
            format!("{CORK_PAUSES} pauses above {}", human::time(CORK_PAUSE)),
        )
        .row_if("cork", corked.map(human::flag), "on")
        .next(Some(one_round_trip(view)?));
    if corked == Some(false) {
        return Some(draft.remark(
            "No TCP setting helps, because TCP_CORK is off: the program marks its last write with \
             MSG_MORE. In the program: leave MSG_MORE out of the last send of each message.",
        ));
    }
    let uncork = Remedy {
        knob: "cork",
        to: KnobValue::Flag(false),
        live: Live::Now,
        risk: "more and smaller packets; the program may cork again",
    };
    let draft = draft.saves(of_all_time(sender, held));
    Some(draft.propose(view.sender_side, uncork).remark(
        "It holds until the program corks again. In the program: clear TCP_CORK after each message, \
         or leave MSG_MORE out of the last send.",
    ))
}

/// Share of active samples in which a partial segment waits for the ACK of a few packets, where
/// it is enough for a stall.
fn stall_share(view: &View<'_>, enough: f64) -> Option<f64> {
    stall_share_where(view, enough, |_| true)
}

/// The same of samples that are `meant` alone.
fn stall_share_where(
    view: &View<'_>,
    enough: f64,
    meant: impl Fn(&FlowSample) -> bool,
) -> Option<f64> {
    let sender = view.sender?;
    if view.sent(|s| s.nodelay) == Some(true) || view.sent(|s| s.cork) == Some(true) {
        return None;
    }
    let may_be_long = ends_long_messages(sender);
    let share = sender.vote(|s| {
        let mss = u64::from(s.snd_mss_bytes?);
        let is_out = match s.unacked_pkts? {
            0 => false,
            1..=STALL_PKTS_OUT => true,
            _ => may_be_long && follows_an_answer(s),
        };
        let waits_for_ack = is_out && !hears_since_it_sent(s);
        let has_cwnd = cwnd_room_pkts(s).is_none_or(|room| room >= 1);
        let has_window = window_room_bytes(s).is_none_or(|room| room >= mss);
        // A flow held by its send buffer ends in a partial segment too.
        let has_room = has_cwnd && has_window && !fills_sndbuf(s);
        Some(is_partial(s)? && waits_for_ack && has_room && meant(s))
    })?;
    (share >= enough).then_some(share)
}

/// Share of active samples in which Nagle's algorithm holds a piece back, as `TCP_NODELAY` would
/// not. Only those that leave no doubt of the stall make the finding; where the processors are
/// busy, a piece may be written long after the answer that it follows, and is held all the same.
fn held_share(sender: &Timeline) -> Option<f64> {
    let behind_many = falls_silent_behind_many(sender, |_| true);
    sender.vote(|s| {
        let mss = u64::from(s.snd_mss_bytes?);
        let is_out = match s.unacked_pkts? {
            0 => false,
            1..=STALL_PKTS_OUT => !hears_since_it_sent(s),
            _ => behind_many,
        };
        let has_cwnd = cwnd_room_pkts(s).is_none_or(|room| room >= 1);
        let has_window = window_room_bytes(s).is_none_or(|room| room >= mss);
        let has_room = has_cwnd && has_window && !fills_sndbuf(s);
        Some(is_partial(s)? && is_out && has_room)
    })
}

/// Whether data has come since something was sent last: the other end goes on with what it has, and
/// does not wait for the piece, such as a request behind many others.
fn hears_since_it_sent(sample: &FlowSample) -> bool {
    sample.since_data_received < sample.since_data_sent && sample.since_data_received.is_some()
}

/// Whether what was sent last followed at once on what was received last.
fn follows_an_answer(sample: &FlowSample) -> bool {
    let answer = sample.since_data_received.zip(sample.since_data_sent);
    answer.is_some_and(|(received, sent)| received >= sent && received <= sent + TICK * 2)
}

/// Whether the pieces that wait behind many packets are the ends of long messages, each sent at
/// once when an answer has come.
fn ends_long_messages(sender: &Timeline) -> bool {
    falls_silent_behind_many(sender, follows_an_answer)
}

/// Whether nothing else is sent for half a round trip and more while a piece that is `meant` waits
/// behind many packets. A stream, whose pieces are only gathered, goes on meanwhile.
fn falls_silent_behind_many(sender: &Timeline, meant: impl Fn(&FlowSample) -> bool) -> bool {
    let silent = || {
        let half = (sender.min_rtt()? / 2).max(TICK);
        sender.vote(|s| {
            let waits = is_partial(s)? && s.unacked_pkts? > STALL_PKTS_OUT;
            (waits && meant(s)).then_some(s.since_data_sent? >= half)
        })
    };
    silent().is_some_and(|share| share >= LONG_MESSAGE_SILENCE)
}

/// Of the samples in which a piece waits, the share in which it has for longer than an ACK takes
/// that is not delayed. A message may be in several segments, of which all but the last are
/// acknowledged at once: their round trips hide in the mean that those of the last one are late.
fn wait_late(view: &View<'_>) -> Option<f64> {
    let (sender, min_rtt) = (view.sender?, view.min_rtt()?);
    let late = (min_rtt / 2).clamp(DELAYED_ACK_QUEUE_DELAY, DELAYED_ACK_ON_LONG_PATHS);
    sender.vote(|s| {
        let waits = is_partial(s)? && s.unacked_pkts? > 0;
        waits.then_some(s.since_data_sent? >= min_rtt + late)
    })
}

/// Whether pieces wait in each part of the watch, late or not: a relay, whose pieces arrive
/// together at times, holds them back for a round trip, for a timer, or not at all.
fn waits_in_each_part(view: &View<'_>) -> bool {
    let waits = || {
        let sender = view.sender?;
        let (began, part) = (sender.first()?.at, sender.interval() / STALL_PARTS);
        let in_part = |number: u32| {
            let from = began + part * number;
            let is_meant = |s: &FlowSample| s.at >= from && s.at <= from + part;
            sender.vote(|s| {
                is_meant(s).then_some(())?;
                Some(is_partial(s)? && s.unacked_pkts? > 0)
            })
        };
        let has = |share: Option<f64>| share.is_some_and(|share| share >= STALL_PART_SHARE);
        Some((0..STALL_PARTS).all(|number| has(in_part(number))))
    };
    waits() == Some(true)
}

/// The rows that all stalls of Nagle's algorithm share.
fn stall_draft(id: &'static str, (share, late): (f64, bool), view: &View<'_>) -> Option<Draft> {
    let sender = view.sender?;
    let waits = wait_late(view).filter(|_| late && view.acks_are_late() == Some(false));
    let acks = delayed_acks_per_second(view);
    let confirmed = view.sent(|s| s.nodelay) == Some(false)
        || (late && acks.is_some_and(|acks| acks >= DELAYED_ACKS_PER_SECOND));
    let confidence = high_if(confirmed);
    let (delay, bound) = (sender.queue_delay()?, human::time(DELAYED_ACK_QUEUE_DELAY));
    let relation = if late { "at least" } else { "below" };
    let enough = match late {
        true => STALL_SHARE,
        false if share >= SERIALISED_SHARE => SERIALISED_SHARE,
        false => STEADY_SERIALISED_SHARE,
    };
    let expected_acks = format!("at least {DELAYED_ACKS_PER_SECOND:.0} per second");
    let held = |s: &FlowSample| s.notsent_bytes.filter(|bytes| *bytes > 0);
    Some(
        Draft::new(id, of_all_time(sender, share), confidence)
            .saves(of_all_time(sender, held_share(sender)?.max(share)))
            .row(
                "notsent_bytes",
                format!(
                    "{} held with data in flight, in {} of the samples",
                    human::count(sender.median(held)?, "byte"),
                    human::share(share)
                ),
                format!(
                    "less than one segment ({}), in {} or more",
                    human::count(sender.mss_bytes()?, "byte"),
                    human::share(enough)
                ),
            )
            .row_if(
                "since_data_sent",
                waits.map(|share| format!("late in {} of these", human::share(share))),
                "within a round trip",
            )
            .row_if(
                "srtt - min_rtt",
                waits.is_none().then(|| human::time(delay)),
                format!("{relation} {bound}"),
            )
            .row_if("nodelay", view.sent(|s| s.nodelay).map(human::flag), "off")
            .row_if(
                "TcpExtDelayedACKs",
                acks.filter(|_| late)
                    .map(|acks| format!("{acks:.1} per second")),
                expected_acks,
            )
            .next(one_round_trip(view)),
    )
}

/// Whether so little is said that one piece which waited for a round trip may be half of it all: a
/// control connection, whose program waits for something else.
fn hardly_talks(sender: &Timeline) -> bool {
    let seconds = sender.interval().as_secs_f64();
    let segments = sender.counted(|s| s.data_segs_out);
    segments.is_some_and(|segments| (segments as f64) < seconds * FEW_OPERATIONS)
}

fn sends_without_answer(view: &View<'_>) -> bool {
    view.sender.and_then(only_sends) == Some(true)
}

pub(super) fn nodelay() -> Remedy {
    Remedy {
        knob: "nodelay",
        to: KnobValue::Flag(true),
        live: Live::Now,
        risk: "more small packets: each write becomes one",
    }
}

pub(super) fn quickack_route() -> Remedy {
    Remedy {
        knob: "route.quickack",
        to: KnobValue::Flag(true),
        live: Live::Now,
        risk: "more ACKs towards this destination; a host route keeps the next hop of today",
    }
}

fn one_round_trip(view: &View<'_>) -> Option<NextLimit> {
    Some(NextLimit {
        what: format!(
            "one round trip per operation: {}",
            of_programs(view.min_rtt()?)
        ),
        rate: None,
    })
}

fn delayed_acks_per_second(view: &View<'_>) -> Option<f64> {
    let host = view.receiver_host?;
    let acks = host.counted("TcpExtDelayedACKs")? as f64;
    let seconds = host.interval().as_secs_f64();
    (seconds > 0.0).then(|| acks / seconds)
}

fn is_partial(sample: &FlowSample) -> Option<bool> {
    let notsent = sample.notsent_bytes?;
    Some(notsent > 0 && notsent < sample.snd_mss_bytes?)
}

/// How often nothing was sent for as long as only a cork's timer takes: a program that pulls its
/// cork sends what is left before it (`tcp_check_probe_timer`, with `tcp_probe0_base`).
fn long_pauses(sender: &Timeline) -> usize {
    let sent = |s: &FlowSample| Some((s.at - s.since_data_sent?, s.since_data_sent?, s.rto));
    let times: Vec<(Instant, Duration, Option<Duration>)> =
        sender.samples().filter_map(sent).collect();
    let is_timer = |pair: &&[(Instant, Duration, Option<Duration>)]| {
        let [(sent, pause, rto), (next, later, _)] = pair else {
            return false;
        };
        let timer = rto.unwrap_or_default().max(CORK_TIMER);
        *pause >= CORK_PAUSE && later < pause && next.since(*sent) + TICK >= timer
    };
    times.windows(2).filter(is_timer).count()
}

/// A connection between the same hosts that carries payload only the other way.
fn opposite_sibling<'v>(view: &View<'v>) -> Option<&'v Timeline> {
    let hosts = |timeline: &Timeline| {
        let key = timeline.key()?;
        Some((key.local.ip(), key.remote.ip()))
    };
    let (own, sends) = observed_end(view)?;
    if only_sends(own) != Some(sends) {
        return None;
    }
    view.siblings.iter().copied().find(|sibling| {
        sibling.key() != own.key()
            && hosts(sibling) == hosts(own)
            && only_sends(sibling) == Some(!sends)
    })
}

/// Siblings are sockets of the observed host: this flow's socket there, and whether it sends.
fn observed_end<'v>(view: &View<'v>) -> Option<(&'v Timeline, bool)> {
    match view.sender_side {
        Side::Local => Some((view.sender?, true)),
        Side::Remote => Some((view.receiver?, false)),
    }
}

/// Share of the samples in which one of the two connections last sent when the other last received.
fn answer_share(view: &View<'_>, sibling: &Timeline) -> Option<f64> {
    let (own, sends) = observed_end(view)?;
    let (requests, answers) = if sends {
        (own, sibling)
    } else {
        (sibling, own)
    };
    let received: Vec<(Instant, Instant)> = answers
        .samples()
        .filter_map(|s| Some((s.at, s.at - s.since_data_received?)))
        .collect();
    requests
        .vote(|s| {
            let sent = s.at - s.since_data_sent?;
            let next = received.partition_point(|(at, _)| *at < s.at);
            let near = received.get(next.saturating_sub(1)..received.len().min(next + 1))?;
            let gap = |a: Instant, b: Instant| a.since(b).max(b.since(a));
            Some(
                near.iter()
                    .any(|(_, received)| gap(sent, *received) <= ANSWER_GAP),
            )
        })
        .filter(|share| *share >= ANSWER_SHARE)
}

/// As many operations per second as the timers of delayed ACKs allow.
fn waits_for_delayed_acks(sender: &Timeline) -> bool {
    let seconds = sender.interval().as_secs_f64();
    let segments = sender.counted(|s| s.data_segs_out).unwrap_or(0) as f64;
    seconds > 0.0 && DELAYED_OPERATIONS.contains(&(segments / seconds))
}

/// A share of the active samples as a share of the whole time.
pub(super) fn of_all_time(timeline: &Timeline, share: f64) -> f64 {
    share * (1.0 - timeline.idle_share().unwrap_or(0.0))
}
