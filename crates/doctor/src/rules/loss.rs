//! Lost packets: repaired slowly, thrown away here, or lost on the way without a reason.

use base::{KnobValue, Limit, Live, human};

use super::draft::{BothEnds, Draft, Step, high_if};
use super::next::next_limit;
use super::thresholds::{
    LOCAL_DROP_SHARE, LOSS_SHARE, MIN_LOCAL_DROPS, MIN_RETRANSMISSIONS, NO_QUEUE, NO_QUEUE_SLACK,
    NO_QUEUE_VOTES, SEGMENTS_PER_PACKET, SPURIOUS_SHARE, USUAL_TXQUEUELEN,
};
use crate::host_timeline::LinkDrops;
use crate::verdict::{Confidence, Verdict};
use crate::view::View;

/// Without SACK (RFC 2018) a sender repairs one loss per round trip.
pub(crate) fn sack_or_timestamps_off(view: &View<'_>) -> Option<Verdict> {
    let sender = view.sender?;
    if !view.repairs_without_sack() {
        return None;
    }
    let sysctl = BothEnds::read(view, "net.ipv4.tcp_sack");
    let in_recovery = sender.vote(|s| {
        use base::CongestionState::{Loss, Recovery};
        Some(matches!(s.congestion_state?, Recovery | Loss))
    });
    let share = in_recovery.filter(|share| *share > 0.0);
    let confidence = high_if(sysctl.is_off());
    let share = share.or(sender.retransmitted_share()).unwrap_or(0.0);
    let draft = Draft::new("sack-or-timestamps-off", share, confidence)
        .row("sack", "off", "on")
        .row(
            "retrans_total_pkts",
            human::count(view.retransmitted_pkts()?, "segment"),
            format!("fewer than {MIN_RETRANSMISSIONS}"),
        )
        .row_if(
            "congestion_state",
            in_recovery.map(|share| format!("recovery in {} of the samples", human::share(share))),
            "seldom",
        )
        .next(next_limit(view, Limit::Recovery))
        .propose_at_both_ends(view, &sysctl);
    Some(draft.remark(
        "Needs a reconnect: SACK is agreed in the SYN. If the sysctl is on at both ends, a \
         middlebox on the path removes the option.",
    ))
}

/// The sender's own interface or queue throws packets away.
pub(crate) fn local_qdisc_drops(view: &View<'_>) -> Option<Verdict> {
    let sender = view.sender?;
    let sent = sender.counted(|s| s.bytes_sent)?;
    let least = sender.counted(|s| s.data_segs_out).unwrap_or(0) / SEGMENTS_PER_PACKET;
    let mut drops = view.sender_host?.link_drops().into_iter();
    let worst: LinkDrops = drops.find(|link| link.tx_pkts >= least.max(1))?;
    let dropped = worst.dropped_pkts();
    let share = dropped as f64 / worst.tx_pkts.saturating_add(dropped).max(1) as f64;
    if dropped < MIN_LOCAL_DROPS || share < LOCAL_DROP_SHARE || sent == 0 {
        return None;
    }
    let hurts = view.retransmitted_pkts().unwrap_or(0) > 0;
    let length = (u64::from(worst.txqueuelen_pkts) * 4).max(USUAL_TXQUEUELEN);
    Some(
        Draft::new(
            "local-qdisc-drops",
            share,
            high_if(hurts),
        )
        .row(
            "tx_dropped_pkts",
            format!(
                "{dropped} of {} at {}",
                worst.tx_pkts.saturating_add(dropped),
                worst.name
            ),
            "0",
        )
        .row(
            "txqueuelen_pkts",
            format!("{} at {}", worst.txqueuelen_pkts, worst.name),
            format!("{USUAL_TXQUEUELEN} on a usual interface"),
        )
        .row_if(
            "retrans_total_pkts",
            view.retransmitted_pkts().map(|pkts| human::count(pkts, "segment")),
            "0 without drops",
        )
        .next(next_limit(view, Limit::Interface))
        .propose(
            view.sender_side,
            Step {
                knob: "link.txqueuelen",
                to: KnobValue::Number(length.min(i32::MAX as u64)),
                live: Live::Now,
                risk: "packets may wait longer in this queue",
            },
        )
        .remark(format!(
            "The interface is {}. If its queueing discipline has a limit of its own (pfifo, tbf), \
             raise that limit instead.",
            worst.name
        )),
    )
}

/// Packets vanish while no queue stands, and a loss-based congestion control gives way.
pub(crate) fn random_loss(view: &View<'_>) -> Option<Verdict> {
    let sender = view.sender?;
    let lost = sender.retransmitted_share()?;
    let retransmitted = view.retransmitted_pkts()?;
    if lost < LOSS_SHARE || retransmitted < MIN_RETRANSMISSIONS || view.is_bbr() {
        return None;
    }
    let spurious = sender.counted(|s| s.dsack_dups).unwrap_or(0);
    let reordered = sender.counted(|s| s.reord_seen).unwrap_or(0);
    if spurious as f64 >= retransmitted as f64 * SPURIOUS_SHARE || reordered >= retransmitted {
        return None;
    }
    let without_queue = sender.vote(|s| {
        let min = s.min_rtt?;
        let slack = min.as_secs_f64() * (NO_QUEUE - 1.0);
        let queued = s.srtt?.saturating_sub(min).as_secs_f64();
        Some(queued < slack.max(NO_QUEUE_SLACK.as_secs_f64()))
    })?;
    if without_queue < NO_QUEUE_VOTES {
        return None;
    }
    let (srtt, min_rtt) = (sender.srtt()?, sender.min_rtt()?);
    Some(
        Draft::new("random-loss", without_queue, Confidence::Medium)
            .row(
                "bytes_retrans / bytes_sent",
                human::share(lost),
                format!("below {}", human::share(LOSS_SHARE)),
            )
            .row(
                "srtt",
                format!("{} (minimum {})", human::time(srtt), human::time(min_rtt)),
                format!("above {NO_QUEUE} times the minimum if a queue overflowed"),
            )
            .row_if(
                "cwnd_pkts",
                sender
                    .median(|s| s.cwnd_pkts)
                    .map(|pkts| human::count(pkts, "segment")),
                "what the path holds",
            )
            .row_if(
                "congestion",
                view.sent(|s| s.congestion.clone()),
                "one that bears loss",
            )
            .next(next_limit(view, Limit::Recovery))
            .propose_bbr(
                view.sender_side,
                "more retransmissions, and less room for others in a full queue",
            )
            .remark("Look for the cause too: a bad cable, a radio link, a policer on the path."),
    )
}
