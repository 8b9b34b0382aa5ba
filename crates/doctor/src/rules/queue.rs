//! A queue that the flow itself keeps full.

use base::{FlowSample, Limit, human};
use core::time::Duration;

use super::draft::Draft;
use super::small_writes::of_all_time;
use super::thresholds::{
    BLOAT_DELAY, BLOAT_RTTS, BLOAT_SHARE, BULK_SEGMENTS, SMALL_SEGMENT, STANDING_OUT_OF_ORDER,
    STANDING_SHARE, STANDING_TICKS, STANDING_VOTES, STEADY_PART, TICK,
};
use crate::timeline::{Timeline, cwnd_room_pkts};
use crate::verdict::{Confidence, NextLimit, Verdict};
use crate::view::View;

/// Round trips take far longer than they could, because the flow's own packets wait in a queue.
pub(crate) fn bufferbloat(view: &View<'_>) -> Option<Verdict> {
    match view.sender {
        Some(sender) => seen_by_sender(view, sender),
        None => seen_by_receiver(view),
    }
}

fn seen_by_sender(view: &View<'_>, sender: &Timeline) -> Option<Verdict> {
    if view.is_bbr() {
        // BBR drains its queue by itself; what remains is that of other flows.
        return None;
    }
    let share = sender.vote(|s| Some(is_bloated(s)? && fills_cwnd(s)?))?;
    if share < BLOAT_SHARE {
        return None;
    }
    let observed = format!(
        "{} in {} of the samples",
        human::time(sender.srtt()?),
        human::share(share)
    );
    let share = of_all_time(sender, share);
    Some(
        draft(view, share, ("srtt", observed), sender.min_rtt()?)
            .beside(Limit::Congestion)
            .next(Some(NextLimit {
                what:
                    "the bottleneck rate, as before: the queueing delay shrinks, not the time of \
                       a transfer"
                        .into(),
                rate: view.rate(),
            }))
            .remark(
                "If the queue is on this machine, a shorter one (txqueuelen, fq_codel) is better; \
                 at a router of yours, queue management.",
            ),
    )
}

/// What both ends say of a queue.
fn draft(
    view: &View<'_>,
    share: f64,
    (field, observed): (&'static str, String),
    min_rtt: Duration,
) -> Draft {
    let usual = min_rtt.saturating_add(bloat_delay(min_rtt));
    let path = "the path without its queue";
    Draft::new("bufferbloat", share, Confidence::Medium)
        .row(field, observed, format!("below {}", human::time(usual)))
        .row("min_rtt", human::time(min_rtt), path)
        .propose_bbr(
            view.sender_side,
            "a smaller share beside flows that keep the queue full",
        )
}

/// The receiver has no queue of its own to look at, but data that comes all the time echoes what
/// was acknowledged a moment before it left (RFC 7323 section 4): that it echoes something old says
/// that it waited on the path.
fn seen_by_receiver(view: &View<'_>) -> Option<Verdict> {
    let receiver = view.receiver?;
    if receiver.last()?.timestamps != Some(true) || !is_bulk(receiver)? {
        return None;
    }
    let share = receiver.vote_of_all(|s| Some(echoes_late(s)? && comes_all_the_time(s)?))?;
    if share < BLOAT_SHARE {
        return None;
    }
    let observed = format!(
        "{} in {} of the samples, without a pause in what comes",
        human::time(receiver.median(|s| s.rcv_rtt)?),
        human::share(share)
    );
    let fields = "rcv_rtt, since_data_received";
    Some(
        draft(view, share, (fields, observed), receiver.min_rtt()?).remark(
            "Seen from here the queue may be in either direction. Queue management at its \
             bottleneck (fq_codel, cake) is better: at a router of yours, a little below the rate \
             of the line.",
        ),
    )
}

/// A standing queue that needs no fix: whichever flow fills it, the bottleneck is in use, and this
/// flow has its share.
pub(super) fn standing_for_receiver(view: &View<'_>) -> Option<Draft> {
    let receiver = view.receiver?;
    if receiver.last()?.timestamps != Some(true) || !is_bulk(receiver)? {
        return None;
    }
    let min_rtt = receiver.min_rtt()?;
    let delay = min_rtt.mul_f64(STANDING_SHARE).max(TICK * STANDING_TICKS);
    let least = min_rtt.saturating_add(delay);
    let is_late = |s: &FlowSample| Some(s.rcv_rtt? >= least && comes_all_the_time(s)?);
    let share = receiver.vote_of_all(is_late)?;
    // Reordered packets are late without a queue.
    let out_of_order = receiver.counted(|s| s.out_of_order_pkts);
    let segments = receiver.counted(|s| s.data_segs_in)?;
    if out_of_order.is_some_and(|late| late as f64 > segments as f64 * STANDING_OUT_OF_ORDER) {
        return None;
    }
    let observed = format!(
        "{} in the median, without a pause in what comes, in {} of the samples",
        human::time(receiver.median(|s| s.rcv_rtt)?),
        human::share(share)
    );
    (share >= STANDING_VOTES).then(|| {
        Draft::new("path-full", share, Confidence::Medium)
            .row(
                "rcv_rtt, since_data_received",
                observed,
                format!("below {} if no queue stood", human::time(least)),
            )
            .row(
                "min_rtt",
                human::time(min_rtt),
                "the path without its queue",
            )
            .row_if(
                "bytes_received",
                view.rate().map(human::rate),
                "the bottleneck rate, or this flow's share of it",
            )
    })
}

/// Whether many full segments come in each round trip, and hardly anything is sent back: the kernel
/// measures round trips by full segments alone (`tcp_rcv_rtt_measure_ts`), and what it knows of a
/// dialogue is old. What waits behind a gap is not counted in bytes yet, but in segments.
fn is_bulk(receiver: &Timeline) -> Option<bool> {
    let (into, out) = (
        receiver.counted(|s| s.data_segs_in)?,
        receiver.counted(|s| s.data_segs_out)?,
    );
    let full = f64::from(receiver.mss_bytes()?) * SMALL_SEGMENT;
    let is_full = receiver.counted(|s| s.bytes_received)? as f64 >= full * into as f64;
    let round_trips =
        receiver.interval().as_secs_f64() / receiver.median(|s| s.rcv_rtt)?.as_secs_f64();
    Some(is_full && into > out * BULK_SEGMENTS && into as f64 > round_trips * BULK_SEGMENTS as f64)
}

fn echoes_late(sample: &FlowSample) -> Option<bool> {
    let min_rtt = sample.min_rtt?;
    Some(sample.rcv_rtt? > min_rtt.saturating_add(bloat_delay(min_rtt)))
}

fn comes_all_the_time(sample: &FlowSample) -> Option<bool> {
    Some(sample.since_data_received? < sample.rcv_rtt? / STEADY_PART)
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

#[cfg(test)]
mod tests {
    use base::{FlowKey, Instant};

    use super::*;
    use crate::Observation;

    /// Samples every 10 ms of the receiver of 500 full segments a second over a path of 30 ms,
    /// which measures round trips of so many milliseconds, and to which nothing came for so long.
    fn receives(rtt_ms: u64, pause_ms: u64, segment: u64) -> Timeline {
        let key = FlowKey {
            local: ([10, 0, 0, 1], 40_000).into(),
            remote: ([10, 0, 0, 2], 80).into(),
        };
        let mut timeline = Timeline::new();
        for look in 0..400_u64 {
            timeline.push(FlowSample {
                snd_mss_bytes: Some(1448),
                timestamps: Some(true),
                min_rtt: Some(Duration::from_millis(30)),
                srtt: Some(Duration::from_millis(30)),
                rcv_rtt: Some(Duration::from_millis(rtt_ms)),
                since_data_received: Some(Duration::from_millis(look * 10 % (pause_ms + 10))),
                bytes_received: Some(look * 5 * segment),
                data_segs_in: Some(look * 5),
                data_segs_out: Some(1),
                bytes_sent: Some(200),
                bytes_acked: Some(200),
                unacked_pkts: Some(0),
                notsent_bytes: Some(0),
                ..FlowSample::empty(Instant::ZERO + Duration::from_millis(10 * look), key)
            });
        }
        timeline
    }

    #[test]
    fn a_receiver_sees_a_full_path_in_a_queue_that_stands() {
        let told = |timeline: &Timeline| {
            let report = crate::diagnose(&Observation::of(timeline));
            report.main().map(|verdict| verdict.diagnosis.id)
        };
        assert_eq!(told(&receives(55, 10, 1448)), Some("path-full"));
        assert_eq!(told(&receives(31, 10, 1448)), None, "no queue");
        assert_eq!(told(&receives(55, 54, 1448)), None, "the sender pauses");
        assert_eq!(told(&receives(55, 10, 700)), None, "messages");
    }

    /// A window as large as what arrives in a round trip of so many milliseconds, of a buffer that
    /// cannot grow.
    #[test]
    fn a_window_of_which_a_part_stands_in_a_queue_is_large_enough() {
        let told = |rtt_ms: u64| {
            let mut timeline = Timeline::new();
            let window = u32::try_from(500 * 1448 * rtt_ms / 1000).expect("small");
            for sample in receives(rtt_ms, 0, 1448).samples() {
                timeline.push(FlowSample {
                    rcv_wnd_bytes: Some(window),
                    rcvbuf_bytes: Some(window * 2),
                    rcvbuf_locked: Some(true),
                    ..sample.clone()
                });
            }
            let report = crate::diagnose(&Observation::of(&timeline));
            report.main().map(|verdict| verdict.diagnosis.id)
        };
        assert_eq!(told(31), Some("rcvbuf-locked"), "no queue");
        assert_eq!(told(40), Some("path-full"));
    }

    #[test]
    fn a_receiver_sees_a_queue_in_what_comes_without_a_pause() {
        let told = |timeline: &Timeline| {
            let report = crate::diagnose(&Observation::of(timeline));
            let main = report.main().map(|verdict| verdict.diagnosis.id);
            main == Some("bufferbloat")
        };
        assert!(told(&receives(600, 10, 1448)));
        assert!(!told(&receives(140, 10, 1448)), "a queue of 110 ms");
        assert!(!told(&receives(600, 590, 1448)), "the sender pauses");
        assert!(!told(&receives(600, 10, 700)), "messages");
    }
}
