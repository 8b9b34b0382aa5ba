//! The path: dead for large packets, or simply full.

use base::{FlowSample, KnobValue, Limit, Live, human};

use super::draft::{Draft, Step};
use super::small_writes::of_all_time;
use super::thresholds::{
    DEAD_BACKOFF, DEAD_SHARE, FULL_RATE, FULL_SEGMENT, FULL_SHARE, PASSED_SEGMENTS,
};
use crate::timeline::cwnd_room_pkts;
use crate::verdict::{Confidence, Verdict};
use crate::view::View;

const PROBING: &str = "net.ipv4.tcp_mtu_probing";

/// The handshake went through, full segments do not, and no message says why (RFC 2923).
pub(crate) fn pmtu_blackhole(view: &View<'_>) -> Option<Verdict> {
    let sender = view.sender?;
    let mss = sender.mss_bytes()?;
    // A small request may have passed in the same interval.
    if sender.counted(|s| s.bytes_acked)? >= u64::from(mss) {
        return None;
    }
    let lost =
        sender.vote_of_all(|s| Some(s.unacked_pkts? > 0 && s.lost_pkts? >= s.unacked_pkts?))?;
    let backoff = sender.largest(|s| s.backoff).unwrap_or(0);
    let timeouts = sender.counted(|s| s.rto_total).unwrap_or(0);
    let dead = backoff >= DEAD_BACKOFF || timeouts >= u64::from(DEAD_BACKOFF);
    let open = view.sent(|s| s.snd_wnd_bytes).is_none_or(|wnd| wnd >= mss);
    if lost < DEAD_SHARE || !dead || !open || !sends_full_segments(view, mss)? {
        return None;
    }
    // A path that passed full segments before has changed or died; its packets' size is a guess.
    let acked = view.sent(|s| s.bytes_acked)?;
    let knew_better = acked > PASSED_SEGMENTS * u64::from(mss);
    let confidence = if knew_better {
        Confidence::Low
    } else {
        Confidence::Medium
    };
    let probing = view
        .sender_host
        .and_then(|host| host.sysctl_number(PROBING));
    Some(
        Draft::new("pmtu-blackhole", lost, confidence)
            .row(
                "bytes_acked",
                format!("stands at {}", human::count(acked, "byte")),
                "rising",
            )
            .row(
                "backoff",
                format!(
                    "{backoff}, timeout {}",
                    human::time(view.sent(|s| s.rto).unwrap_or_default())
                ),
                format!("below {DEAD_BACKOFF}"),
            )
            .row(
                "lost_pkts",
                format!("all that is out, in {} of the samples", human::share(lost)),
                "some arrive",
            )
            .row(
                "snd_mss_bytes",
                human::count(mss, "byte"),
                "what the path passes",
            )
            .row_if(PROBING, probing.map(|value| value.to_string()), "1")
            .propose(
                view.sender_side,
                Step {
                    knob: PROBING,
                    to: KnobValue::Number(1),
                    live: Live::Now,
                    risk: "smaller packets on paths that lose much",
                },
            )
            .remark(
                "The open connection recovers after its next timeouts. Where the size is known: \
                 the route's mtu, or an MSS clamp at the gateway; best, let ICMP \"too big\" \
                 through. If small packets do not pass either, the path is down.",
            ),
    )
}

/// Whether what is out are full segments; `None` where nothing tells.
fn sends_full_segments(view: &View<'_>, mss: u32) -> Option<bool> {
    let last_out = |s: &FlowSample| {
        let pkts = u64::from(s.unacked_pkts.filter(|pkts| *pkts > 0)?);
        // What is out is in the retransmission queue whether it counts as lost or not.
        let queued = u64::from(s.send_queue_bytes?).checked_sub(u64::from(s.notsent_bytes?))?;
        Some(queued / pkts)
    };
    let by_queue = view.sent(last_out);
    let by_counters = || view.sent(|s| s.bytes_out()?.checked_div(u64::from(s.unacked_pkts?)));
    // The last of several segments may be partial, so the average is a little lower.
    let average = by_queue.or_else(by_counters)?;
    Some(average as f64 >= f64::from(mss) * FULL_SEGMENT / 2.0 && has_full_one(view, mss))
}

fn has_full_one(view: &View<'_>, mss: u32) -> bool {
    view.sent(FlowSample::bytes_out)
        .is_none_or(|out| out as f64 >= f64::from(mss) * FULL_SEGMENT)
}

/// The sender always has more, and the congestion window (or BBR's pace) decides.
pub(crate) fn path_full(view: &View<'_>) -> Option<Verdict> {
    let sender = view.sender?;
    let full = sender.vote(|s| {
        let has_more = s.notsent_bytes? >= s.snd_mss_bytes?;
        Some(has_more || cwnd_room_pkts(s)? < 2)
    })?;
    let rate = view.rate()?;
    if full < FULL_SHARE || rate.bits_per_second() == 0 {
        return None;
    }
    let best = sender.best_rate();
    let of_best =
        best.map(|best| rate.bits_per_second() as f64 / best.bits_per_second().max(1) as f64);
    let confidence = match of_best {
        Some(share) if share >= FULL_RATE => Confidence::High,
        Some(_) => Confidence::Medium,
        None => Confidence::Low,
    };
    let lost = sender.retransmitted_share();
    Some(
        Draft::new("path-full", of_all_time(sender, full), confidence)
            .row(
                "cwnd_pkts",
                format!(
                    "full or more to send in {} of the samples",
                    human::share(full)
                ),
                format!("at least {}", human::share(FULL_SHARE)),
            )
            .row(
                "bytes_acked",
                human::rate(rate),
                best.map_or_else(
                    || "the path's rate".into(),
                    |best| format!("{} at best", human::rate(best)),
                ),
            )
            .row_if(
                "bytes_retrans / bytes_sent",
                lost.map(human::share),
                "what full queues lose",
            )
            .beside(Limit::Congestion)
            .remark(
                "No TCP setting helps, because the path (or this flow's share of it) is used up.",
            ),
    )
}
