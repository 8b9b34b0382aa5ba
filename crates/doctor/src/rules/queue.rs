//! A queue that the flow itself keeps full.

use base::{FlowSample, Limit, human};
use core::time::Duration;

use super::draft::Draft;
use super::small_writes::of_all_time;
use super::thresholds::{BLOAT_DELAY, BLOAT_RTTS, BLOAT_SHARE};
use crate::timeline::cwnd_room_pkts;
use crate::verdict::{Confidence, NextLimit, Verdict};
use crate::view::View;

/// Round trips take far longer than they could, because the flow's own packets wait in a queue.
pub(crate) fn bufferbloat(view: &View<'_>) -> Option<Verdict> {
    let sender = view.sender?;
    if view.is_bbr() {
        // BBR drains its queue by itself; what stands there then is somebody else's.
        return None;
    }
    let share = sender.vote(|s| Some(is_bloated(s)? && fills_cwnd(s)?))?;
    if share < BLOAT_SHARE {
        return None;
    }
    let (srtt, min_rtt) = (sender.srtt()?, sender.min_rtt()?);
    Some(
        Draft::new(
            "bufferbloat",
            of_all_time(sender, share),
            Confidence::Medium,
        )
        .beside(Limit::Congestion)
        .row(
            "srtt",
            format!(
                "{} in {} of the samples",
                human::time(srtt),
                human::share(share)
            ),
            format!(
                "below {}",
                human::time(min_rtt.saturating_add(bloat_delay(min_rtt)))
            ),
        )
        .row(
            "min_rtt",
            human::time(min_rtt),
            "the path without its queue",
        )
        .next(Some(NextLimit {
            what: "the bottleneck rate, as before: the queueing delay shrinks, not the time of a \
                   transfer"
                .into(),
            rate: view.rate(),
        }))
        .propose_bbr(
            view.sender_side,
            "a smaller share beside flows that keep the queue full",
        )
        .remark(
            "If the queue is on this machine, a shorter one (txqueuelen, fq_codel) is better; \
                 at a router of yours, queue management.",
        ),
    )
}

fn is_bloated(sample: &FlowSample) -> Option<bool> {
    let min_rtt = sample.min_rtt?;
    Some(sample.srtt? > min_rtt.saturating_add(bloat_delay(min_rtt)))
}

fn bloat_delay(min_rtt: Duration) -> Duration {
    BLOAT_DELAY.max(min_rtt.saturating_mul(BLOAT_RTTS))
}

fn fills_cwnd(sample: &FlowSample) -> Option<bool> {
    Some(cwnd_room_pkts(sample)? < 2 || sample.notsent_bytes? >= sample.snd_mss_bytes?)
}
