//! Small pieces that wait: Nagle's algorithm, delayed ACKs, a cork.
//!
//! RFC 896 holds a partial segment while earlier data is unacknowledged; Linux (`tcp_nagle_check`,
//! Minshall's variant) while an earlier *small* segment is. RFC 1122 section 4.2.3.2 lets the
//! receiver delay that acknowledgement. Each is sensible, both together stall.

use base::{FlowSample, KnobValue, Live};
use core::time::Duration;

use super::draft::{Draft, Step, show_bytes, show_flag, show_share, show_time};
use super::thresholds::{
    CORK_PAUSE, CORK_PAUSES, CORK_SHARE, DELAYED_ACK_QUEUE_DELAY, DELAYED_ACKS_PER_SECOND,
    STALL_PKTS_OUT, STALL_SHARE,
};
use crate::observation::only_sends;
use crate::timeline::{Timeline, cwnd_room_pkts, window_room_bytes};
use crate::verdict::{Confidence, NextLimit, Side, Verdict};
use crate::view::View;

/// A piece is held while a few packets are out, and the receiver delays its ACK.
pub(crate) fn nagle_delack_stall(view: &View<'_>) -> Option<Verdict> {
    let share = stall_share(view)?;
    if !view.acks_are_late()? {
        return None;
    }
    let draft = stall_draft("nagle-delack-stall", share, view)?;
    let remark = "In the program: one write per message (writev, MSG_MORE, a buffered writer), or \
                  TCP_NODELAY after connect and accept.";
    Some(
        draft
            .propose(view.sender_side, nodelay())
            .propose(view.receiver_side(), quickack_route())
            .remark(remark),
    )
}

/// A piece is held for a round trip although the receiver acknowledges at once.
pub(crate) fn nagle_rtt_serialised(view: &View<'_>) -> Option<Verdict> {
    let share = stall_share(view)?;
    if view.acks_are_late()? {
        return None;
    }
    let draft = stall_draft("nagle-rtt-serialised", share, view)?;
    let remark = "Each operation takes one round trip more than it has to. In the program: one \
                  write per message, or TCP_NODELAY.";
    Some(draft.propose(view.sender_side, nodelay()).remark(remark))
}

/// The stall of requests on one connection and answers on another: no answer carries an ACK.
pub(crate) fn two_one_way_connections(view: &View<'_>) -> Option<Verdict> {
    let share = stall_share(view)?;
    if !view.acks_are_late()? || !has_opposite_sibling(view) {
        return None;
    }
    let draft = stall_draft("two-one-way-connections", share, view)?;
    let remark = "Set TCP_NODELAY on both connections, each at the end that writes to it: on one \
                  of them alone it helps little. Better, in the program: one connection for both \
                  directions, whose answers carry the ACKs.";
    Some(
        draft
            .row(
                "bytes_received",
                "none here, and none sent on the connection beside it",
                "payload both ways on one connection",
            )
            .propose(view.sender_side, nodelay())
            .propose(view.receiver_side(), nodelay())
            .remark(remark),
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
        .map(|share| share >= CORK_SHARE);
    let pauses = long_pauses(sender);
    if held < CORK_SHARE || corked == Some(false) || (corked.is_none() && pauses < CORK_PAUSES) {
        return None;
    }
    let confidence = if corked == Some(true) {
        Confidence::High
    } else {
        Confidence::Medium
    };
    let pause = sender.largest(|s| s.since_data_sent);
    Some(
        Draft::new("cork-not-uncorked", of_all_time(sender, held), confidence)
            .row(
                "notsent_bytes",
                format!("below one segment and nothing out in {}", show_share(held)),
                format!("at least {} of the samples", show_share(CORK_SHARE)),
            )
            .row_if(
                "since_data_sent",
                pause.map(|pause| format!("up to {}, {pauses} pauses", show_time(pause))),
                format!("{CORK_PAUSES} pauses above {}", show_time(CORK_PAUSE)),
            )
            .row_if("cork", corked.map(show_flag), "on")
            .next(Some(one_round_trip(view)?))
            .propose(
                view.sender_side,
                Step {
                    knob: "cork",
                    to: KnobValue::Flag(false),
                    live: Live::Now,
                    risk: "more and smaller packets; the program may cork again",
                },
            )
            .remark(
                "It lasts until the program corks again. In the program: clear TCP_CORK after \
                 each message, or leave MSG_MORE out of the last send.",
            ),
    )
}

/// Share of active samples in which a partial segment waits for the ACK of a few packets, where
/// it is enough for a stall.
fn stall_share(view: &View<'_>) -> Option<f64> {
    let sender = view.sender?;
    if view.sent(|s| s.nodelay) == Some(true) || view.sent(|s| s.cork) == Some(true) {
        return None;
    }
    let share = sender.vote(|s| {
        let mss = u64::from(s.snd_mss_bytes?);
        let waits_for_ack = (1..=STALL_PKTS_OUT).contains(&s.unacked_pkts?);
        let has_cwnd = cwnd_room_pkts(s).is_none_or(|room| room >= 1);
        let has_window = window_room_bytes(s).is_none_or(|room| room >= mss);
        Some(is_partial(s)? && waits_for_ack && has_cwnd && has_window && !fills_sndbuf(s))
    })?;
    (share >= STALL_SHARE).then_some(share)
}

/// The rows that all stalls of Nagle's algorithm share.
fn stall_draft(id: &'static str, share: f64, view: &View<'_>) -> Option<Draft> {
    let sender = view.sender?;
    let late = view.acks_are_late()?;
    let acks = delayed_acks_per_second(view);
    let confirmed = view.sent(|s| s.nodelay) == Some(false)
        || (late && acks.is_some_and(|acks| acks >= DELAYED_ACKS_PER_SECOND));
    let confidence = if confirmed {
        Confidence::High
    } else {
        Confidence::Medium
    };
    let (delay, bound) = (sender.queue_delay()?, show_time(DELAYED_ACK_QUEUE_DELAY));
    let relation = if late { "at least" } else { "below" };
    let expected_acks = format!("at least {DELAYED_ACKS_PER_SECOND:.0} per second");
    Some(
        Draft::new(id, of_all_time(sender, share), confidence)
            .row(
                "notsent_bytes",
                format!(
                    "{} held with packets out, in {} of the samples",
                    show_bytes(sender.median(|s| s.notsent_bytes)?),
                    show_share(share)
                ),
                format!(
                    "less than one segment ({}), in {} or more",
                    show_bytes(sender.mss_bytes()?),
                    show_share(STALL_SHARE)
                ),
            )
            .row(
                "srtt - min_rtt",
                show_time(delay),
                format!("{relation} {bound}"),
            )
            .row_if("nodelay", view.sent(|s| s.nodelay).map(show_flag), "off")
            .row_if(
                "TcpExtDelayedACKs",
                acks.filter(|_| late)
                    .map(|acks| format!("{acks:.1} per second")),
                expected_acks,
            )
            .next(one_round_trip(view)),
    )
}

fn nodelay() -> Step {
    Step {
        knob: "nodelay",
        to: KnobValue::Flag(true),
        live: Live::Now,
        risk: "more small packets: each write becomes one",
    }
}

fn quickack_route() -> Step {
    Step {
        knob: "route.quickack",
        to: KnobValue::Flag(true),
        live: Live::Now,
        risk: "more ACKs towards this destination",
    }
}

fn one_round_trip(view: &View<'_>) -> Option<NextLimit> {
    Some(NextLimit {
        what: format!(
            "one round trip per operation: {}",
            show_time(view.min_rtt()?)
        ),
        rate: None,
    })
}

fn delayed_acks_per_second(view: &View<'_>) -> Option<f64> {
    let acks = view.receiver_host?.counted("TcpExtDelayedACKs")? as f64;
    let seconds = view.main_timeline()?.interval().as_secs_f64();
    (seconds > 0.0).then(|| acks / seconds)
}

fn is_partial(sample: &FlowSample) -> Option<bool> {
    let notsent = sample.notsent_bytes?;
    Some(notsent > 0 && notsent < sample.snd_mss_bytes?)
}

/// A flow held by its send buffer ends in a partial segment too, but its buffer is full.
fn fills_sndbuf(sample: &FlowSample) -> bool {
    matches!(
        (sample.wmem_queued_bytes, sample.sndbuf_bytes),
        (Some(queued), Some(limit)) if u64::from(queued) * 10 >= u64::from(limit) * 9
    )
}

/// How often the time since data was sent grew to what only a timer ends, and then fell.
fn long_pauses(sender: &Timeline) -> usize {
    let times: Vec<Duration> = sender.samples().filter_map(|s| s.since_data_sent).collect();
    times
        .windows(2)
        .filter(|pair| pair[0] >= CORK_PAUSE && pair[1] < pair[0])
        .count()
}

/// Another connection between the same hosts carries payload only the other way.
fn has_opposite_sibling(view: &View<'_>) -> bool {
    let hosts = |timeline: &Timeline| {
        let key = timeline.key()?;
        Some((key.local.ip(), key.remote.ip()))
    };
    // Siblings are sockets of the observed host, so this flow is compared from there.
    let (own, sends) = match view.sender_side {
        Side::Local => (view.sender, true),
        Side::Remote => (view.receiver, false),
    };
    own.is_some_and(|own| {
        only_sends(own) == Some(sends)
            && view.siblings.iter().any(|sibling| {
                sibling.key() != own.key()
                    && hosts(sibling) == hosts(own)
                    && only_sends(sibling) == Some(!sends)
            })
    })
}

/// A share of the active samples as a share of the whole time.
pub(super) fn of_all_time(timeline: &Timeline, share: f64) -> f64 {
    share * (1.0 - timeline.idle_share().unwrap_or(0.0))
}
