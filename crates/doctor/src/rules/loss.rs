//! Lost packets: repaired slowly, thrown away here, or lost on the way without a reason.

use base::{CongestionState, FlowSample, Instant, KnobValue, Limit, Live, Source, human};
use core::time::Duration;

use super::draft::{BothEnds, Draft, Remedy, high_if};
use super::next::next_limit;
use super::path::{path_full, policed, retransmissions_overtaken};
use super::steady::{
    arrives_at_one_rate, bound_of, by_chance, drops_at_one_rate, drops_behind_queue,
    drops_large_windows, mean_and_variance, windows_of_losses,
};
use super::thresholds::{
    COME_TOGETHER, CUT, CUT_SEGMENTS, CUTS, FULL_SHARE, LARGE_WINDOWS_MAYBE, LATE_OF_RTO,
    LATE_SHARE, LOCAL_DROP_SHARE, LOSS_SHARE, MIN_LOCAL_DROPS, MIN_RETRANSMISSIONS, MIN_SAMPLES,
    NO_QUEUE, NO_QUEUE_SLACK, NO_QUEUE_VOTES, NO_THRESHOLD, OVERTAKEN_IN_VAIN,
    OVERTAKEN_RETRANSMISSIONS, QUEUE_CORRELATION, QUEUE_DELAY, QUEUE_SPREAD, RANDOM_RATE,
    RESPONSE_SLACK, SEGMENTS_PER_PACKET, SHORT_QUEUE_RATE, SMALLEST_THRESHOLD, SPURIOUS_SHARE,
    STALL_PKTS_OUT, STEADY_CUTS, STEADY_CUTS_MAYBE, STEADY_CUTS_SURE, USUAL_TXQUEUELEN,
    WINDOW_QUEUE_SEGMENTS,
};
use crate::host_timeline::LinkDrops;
use crate::timeline::{Timeline, cwnd_room_pkts};
use crate::verdict::{Confidence, Verdict};
use crate::view::View;

const REORDERING_HELP: &str = "No TCP setting helps, because the path has to keep packets in \
    order: look for per-packet load balancing (balance by flow instead), several receive queues, \
    and radio links with retransmission.";

/// To which sizes losses cut the congestion window while it was watched, as the slow-start
/// threshold keeps them.
pub(crate) struct WindowCuts {
    pub(crate) sizes: Vec<f64>,
    /// How many of them belong to the beginning of the connection.
    of_start: usize,
}

/// Until when losses tell of the slow start of a connection, where that was seen: it overshoots
/// what the path holds, and the window falls in several steps to what that is.
pub(crate) fn start_ends(sender: &Timeline) -> Option<Instant> {
    let threshold = sender.samples().find_map(|s| s.ssthresh_pkts)?;
    let begins = threshold >= NO_THRESHOLD;
    begins.then(|| Some(sender.first()?.at + sender.interval() / 4))?
}

impl WindowCuts {
    /// A cut shows in a window that has fallen: the threshold alone does not change where the
    /// window is cut to the same size again.
    pub(crate) fn of(sender: &Timeline) -> Self {
        let mut sizes: Vec<f64> = Vec::new();
        let (start, mut of_start) = (start_ends(sender), 0);
        let mut most = 0.0_f64;
        // While one loss is repaired the window may fall below the threshold, and rise to it again.
        let mut repairs = false;
        // No window is cut without a loss or a mark since the last cut: what a capture takes for it
        // falls, too, where a full send buffer lets a part of it out.
        let mut uncut: Option<Option<u64>> = None;
        for sample in sender.samples() {
            let (Some(cwnd), Some(threshold)) = (sample.cwnd_pkts, sample.ssthresh_pkts) else {
                continue;
            };
            let cwnd = f64::from(cwnd);
            let causes = causes_of_cuts(sample);
            let before = *uncut.get_or_insert(causes);
            let may_be_cut = causes.zip(before).is_none_or(|(now, then)| now > then);
            repairs &= sample.congestion_state != Some(CongestionState::Open);
            if cwnd > most * CUT {
                most = most.max(cwnd);
                continue;
            }
            if threshold < NO_THRESHOLD && may_be_cut {
                let size = f64::from(threshold);
                if !repairs || sizes.last() != Some(&size) {
                    sizes.push(size);
                    of_start += usize::from(start.is_some_and(|start| sample.at < start));
                }
                (repairs, uncut) = (true, Some(causes));
            }
            if threshold < NO_THRESHOLD {
                most = cwnd;
            }
        }
        Self { sizes, of_start }
    }

    pub(crate) fn mean(&self) -> f64 {
        mean_of(&self.sizes)
    }

    /// Of these sizes, as a share of their mean.
    fn deviation(&self) -> f64 {
        deviation_of(&self.sizes)
    }

    /// Whether the window was cut repeatedly, each time where it reached the same size: the path
    /// drops at one rate. The smallest possible threshold does not describe the path: every small
    /// window is cut to it.
    pub(crate) fn are_at_one_size(&self) -> bool {
        self.deviate_below(|_| STEADY_CUTS)
    }

    /// As [`Self::are_at_one_size`], where so many random losses would hardly do so by chance.
    /// Those of a window of few segments would: it grows by one segment between them.
    pub(crate) fn are_surely_at_one_size(&self) -> bool {
        let has_sizes = self.mean() >= CUT_SEGMENTS;
        has_sizes
            && self.deviate_below(|count| bound_of(count - CUTS, &STEADY_CUTS_SURE, STEADY_CUTS))
    }

    /// Whether the sizes, or those behind the beginning of the connection, deviate by less than the
    /// bound for their number.
    fn deviate_below(&self, bound: impl Fn(usize) -> f64) -> bool {
        let steady =
            |sizes: &[f64]| sizes.len() >= CUTS && deviation_of(sizes) < bound(sizes.len());
        let is_small = self.mean() <= SMALLEST_THRESHOLD;
        !is_small && (steady(&self.sizes) || steady(&self.sizes[self.of_start..]))
    }

    /// Whether the RTT grows with the window: then a queue is filled that may be too short to raise
    /// the mean. The beginning of a connection, whose window overshoots on any path, is left out
    /// where enough is left.
    pub(crate) fn follow_a_queue(&self, sender: &Timeline) -> bool {
        let both = |s: &FlowSample| Some((f64::from(s.cwnd_pkts?), s.srtt?.as_secs_f64()));
        let since = |from: Instant| -> Vec<(f64, f64)> {
            let samples = sender.samples().filter(|s| s.at >= from);
            samples.filter_map(both).collect()
        };
        let later = since(start_ends(sender).unwrap_or(Instant::ZERO));
        let pairs = match later.len() >= MIN_SAMPLES {
            true => later,
            false => since(Instant::ZERO),
        };
        let count = pairs.len() as f64;
        if self.sizes.is_empty() || pairs.len() < MIN_SAMPLES {
            return false;
        }
        let mean = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / count;
        let (cwnd, srtt) = (mean(|pair| pair.0), mean(|pair| pair.1));
        let sum = |of: &dyn Fn(f64, f64) -> f64| {
            let terms = pairs.iter().map(|pair| of(pair.0 - cwnd, pair.1 - srtt));
            terms.sum::<f64>()
        };
        let spread = (sum(&|_, y| y * y) / count).sqrt();
        let scale = (sum(&|x, _| x * x) * sum(&|_, y| y * y)).sqrt();
        let delay = QUEUE_DELAY.as_secs_f64() / 4.0;
        spread > delay.max(srtt * QUEUE_SPREAD / 4.0)
            && scale > 0.0
            && sum(&|x, y| x * y) / scale >= QUEUE_CORRELATION
    }
}

/// Losses that were repaired and marks so far; `None`, as everywhere, where they are not known.
fn causes_of_cuts(sample: &FlowSample) -> Option<u64> {
    Some(sample.retrans_total_pkts? + sample.delivered_ce_pkts.unwrap_or(0))
}

/// Standard deviation as a share of the mean; not a number for an empty slice.
fn deviation_of(sizes: &[f64]) -> f64 {
    let (mean, variance) = mean_and_variance(sizes);
    variance.sqrt() / mean
}

fn mean_of(sizes: &[f64]) -> f64 {
    sizes.iter().sum::<f64>() / sizes.len().max(1) as f64
}

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

/// The last packets of a message get lost, or its only one: no later one makes the receiver
/// complain (RFC 8985 section 7), and a timer of 200 ms and more decides, however short the round
/// trip is.
///
/// A sender that always has more would follow the lost packet up, if losses left it a window for
/// that: its timeouts are what random loss does, or a path that drops what exceeds its rate.
pub(crate) fn retransmission_timeouts(view: &View<'_>) -> Option<Verdict> {
    let sender = view.sender?;
    // The exponent of the present timeout counts those in a row, of which few fall into a watch.
    let in_a_row = sender.largest(|s| s.backoff).unwrap_or(0);
    let counted = view.retransmitted_pkts()?;
    let retransmitted = counted.max(in_a_row.into());
    let late = sender
        .vote_of_all(|s| Some(s.unacked_pkts? > 0 && s.since_data_sent? >= late_after(s)?))?;
    if late < LATE_SHARE || retransmitted < MIN_RETRANSMISSIONS {
        return None;
    }
    let lost_otherwise = || {
        [random_loss, policed, path_full]
            .iter()
            .any(|rule| rule(view).is_some())
    };
    if always_has_more(sender) && lost_otherwise() {
        return None;
    }
    let share = (late / (1.0 - LATE_OF_RTO)).min(1.0);
    let rto = sender.median(|s| s.rto)?;
    Some(
        Draft::new("retransmission-timeouts", share, Confidence::Medium)
            .row(
                "since_data_sent",
                format!(
                    "no ACK for longer than halfway from the RTT to the RTO, in {} of the samples",
                    human::share(late)
                ),
                format!("below {}", human::share(LATE_SHARE)),
            )
            .row("rto", human::time(rto), "a few RTTs")
            .row_if("srtt", sender.srtt().map(human::time), "far below the RTO")
            .row(
                "retrans_total_pkts",
                human::count(counted, "segment"),
                format!("fewer than {MIN_RETRANSMISSIONS}"),
            )
            .row_if(
                "backoff",
                (in_a_row > 1).then(|| format!("{in_a_row} timeouts in a row")),
                "0",
            )
            .next(next_limit(view, Limit::Recovery))
            .remark(
                "Needs a path with less loss: look for the cause (a bad cable, a radio link, a \
                 policer). A smaller route.rto_min at both ends (ip route change ... rto_min 50ms) \
                 shortens each timeout; in the program, several requests at once on one connection \
                 let a loss be detected without it.",
            ),
    )
}

/// From when on an ACK is late: when more of the time from the round trip, in which it may come, to
/// the timeout has passed than a delayed ACK explains. On a long path the round trip is most of the
/// timeout (RFC 6298 section 2.3).
fn late_after(sample: &FlowSample) -> Option<Duration> {
    let rto = sample.rto?;
    let rtt = sample.srtt.unwrap_or_default().min(rto);
    Some(rtt + (rto - rtt).mul_f64(LATE_OF_RTO))
}

/// Whether more would be sent, or many segments are out, whenever the window is full. That of a
/// program which asks and waits is as small as its questions, and full with each of them.
fn lacks_window(sender: &Timeline) -> bool {
    let lacks = sender.vote(|s| {
        let is_full = cwnd_room_pkts(s)? < 2 && s.unacked_pkts? > STALL_PKTS_OUT;
        Some(is_full || s.notsent_bytes? >= s.snd_mss_bytes?)
    });
    lacks.is_some_and(|share| share >= FULL_SHARE)
}

/// Whether a segment and more waits to be sent in most samples.
fn always_has_more(sender: &Timeline) -> bool {
    let has_more = sender.vote(|s| Some(s.notsent_bytes? >= s.snd_mss_bytes?));
    has_more.is_some_and(|share| share >= FULL_SHARE)
}

/// The sender's own interface or queue throws packets away although it is shorter than the path
/// needs. Queues that drop by design (`fq_codel` and the like), and long ones that a fast sender
/// overflows, are in order.
pub(crate) fn local_qdisc_drops(view: &View<'_>) -> Option<Verdict> {
    let sender = view.sender?;
    let sent = sender.counted(|s| s.bytes_sent)?;
    let least = sender.counted(|s| s.data_segs_out).unwrap_or(0) / SEGMENTS_PER_PACKET;
    let is_own = |link: &LinkDrops| view.sender_interface.is_none_or(|name| name == link.name);
    let mut drops = view.sender_host?.link_drops().into_iter();
    let worst: LinkDrops = drops.find(|link| is_own(link) && link.tx_pkts >= least.max(1))?;
    let dropped = worst.dropped_pkts();
    let share = dropped as f64 / worst.tx_pkts.saturating_add(dropped).max(1) as f64;
    if dropped < MIN_LOCAL_DROPS || share < LOCAL_DROP_SHARE || sent == 0 {
        return None;
    }
    let holds = worst.queue_bytes?;
    // A flow that starves on its own queue does not show what the path could do.
    let needs = view.needed_bytes(0);
    if holds >= needs {
        return None;
    }
    let hurts = view.retransmitted_pkts().unwrap_or(0) > 0;
    let length = (u64::from(worst.txqueuelen_pkts) * 4).max(USUAL_TXQUEUELEN);
    let draft = Draft::new("local-qdisc-drops", share, high_if(hurts))
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
            format!(
                "{} holds {}",
                queue_name(&worst),
                human::count(holds, "byte")
            ),
            format!(
                "the bandwidth-delay product, {}",
                human::count(needs, "byte")
            ),
        )
        .row_if(
            "retrans_total_pkts",
            view.retransmitted_pkts()
                .map(|pkts| human::count(pkts, "segment")),
            "0 without drops",
        )
        .next(next_limit(view, Limit::Interface));
    if has_own_limit(&worst.qdisc_kind) {
        return Some(draft.remark(format!(
            "Needs a longer queue: raise the limit of {} (tc qdisc change).",
            queue_name(&worst)
        )));
    }
    let longer = Remedy {
        knob: "link.txqueuelen",
        to: KnobValue::Number(length.min(i32::MAX as u64)),
        live: Live::Now,
        risk: "packets may wait longer in this queue",
    };
    Some(draft.propose(view.sender_side, longer).remark(format!(
        "The interface is {}; its queue takes its length from the interface.",
        worst.name
    )))
}

/// Kinds of queue whose length is not the interface's.
fn has_own_limit(kind: &str) -> bool {
    matches!(kind, "tbf" | "bfifo" | "pfifo")
}

fn queue_name(link: &LinkDrops) -> String {
    match link.qdisc_kind.as_str() {
        "" => format!("the queue of {}", link.name),
        kind => format!("{kind} at {}", link.name),
    }
}

/// Whether windows are so small that a late ACK for one segment lengthens the mean of the round
/// trips like a queue.
pub(crate) fn has_small_window(sender: &Timeline) -> bool {
    let cwnd = sender.median(|s| s.cwnd_pkts);
    cwnd.is_some_and(|cwnd| f64::from(cwnd) < WINDOW_QUEUE_SEGMENTS)
}

/// Whether the round trips are at times as short as they can be: a queue that stands lengthens all.
pub(crate) fn has_short_round_trips(sender: &Timeline) -> bool {
    let short = sender.above_share(10, |s| s.srtt);
    short.zip(sender.min_rtt()).is_some_and(|(short, min)| {
        let slack = min.mul_f64(NO_QUEUE - 1.0).max(NO_QUEUE_SLACK);
        short < min + slack
    })
}

/// Packets that were only reordered are taken for lost (RFC 4737): the congestion window is cut
/// needlessly.
pub(crate) fn reordering(view: &View<'_>) -> Option<Verdict> {
    let sender = view.sender?;
    if retransmissions_overtaken(view) != Some(true) {
        return None;
    }
    let retransmitted = view.retransmitted_pkts()?;
    let in_recovery = sender.vote(|s| Some(s.congestion_state? != CongestionState::Open))?;
    Some(
        Draft::new("reordering", in_recovery, Confidence::Medium)
            .row_if(
                "reord_seen",
                sender
                    .counted(|s| s.reord_seen)
                    .map(|count| human::count(count, "time")),
                "seldom",
            )
            .row(
                "dsack_dups",
                format!(
                    "{} of {} were duplicates (D-SACK)",
                    sender.counted(|s| s.dsack_dups)?,
                    human::count(retransmitted, "retransmission")
                ),
                format!("below {}", human::share(OVERTAKEN_IN_VAIN)),
            )
            .row(
                "bytes_retrans / bytes_sent",
                human::share(sender.retransmitted_share()?),
                format!("below {}", human::share(OVERTAKEN_RETRANSMISSIONS)),
            )
            .row(
                "congestion_state",
                format!("not Open in {} of the samples", human::share(in_recovery)),
                "seldom",
            )
            .remark(REORDERING_HELP),
    )
}

/// Whether something else than losses explains what was retransmitted, or why the window was cut.
fn is_explained(sender: &Timeline, retransmitted: u64) -> bool {
    let count = |read: fn(&FlowSample) -> Option<u64>| sender.counted(read).unwrap_or(0);
    let spurious = count(|s| s.dsack_dups);
    // More duplicates than were retransmitted are made by the path, and tell nothing of losses.
    let is_in_vain =
        spurious <= retransmitted && spurious as f64 >= retransmitted as f64 * SPURIOUS_SHARE;
    // Marks come from a queue (RFC 3168).
    is_in_vain
        || count(|s| s.reord_seen) >= retransmitted
        || count(|s| s.delivered_ce_pkts) >= retransmitted
}

/// Whether the sender, whose congestion control does not show, has many times more in flight than
/// one that takes losses for congestion could have at this rate of losses (RFC 5681 as in RFC 9438
/// section 4.3, CUBIC as in equation 6 of it): then it is none.
fn exceeds_response(sender: &Timeline, cuts: &WindowCuts) -> Option<bool> {
    if sender.latest(|s| s.congestion).is_some() {
        return Some(false);
    }
    let out = f64::from(sender.median(|s| s.unacked_pkts)?);
    let segments = sender.counted(|s| s.data_segs_out)?.max(1) as f64;
    let losses = cuts.sizes.len() as f64 / segments;
    let reno = (1.5 / losses).sqrt();
    let cubic = 1.054 * (sender.srtt()?.as_secs_f64() / losses).powf(0.75);
    Some(out > reno.max(cubic) * RESPONSE_SLACK)
}

/// Whether all losses fell into the first quarter of the watch: a sender that begins overshoots
/// what the path holds, while random losses go on.
fn ended_early(sender: &Timeline) -> bool {
    let late = || {
        let begun = sender.first()?.at + sender.interval() / 4;
        let mut later = sender.samples().filter(|s| s.at >= begun);
        let first = later.find_map(|s| s.retrans_total_pkts)?;
        Some(sender.latest(|s| s.retrans_total_pkts)? > first)
    };
    late() == Some(false)
}

/// Whether the rate is so close to the best one that losses come at one rate: where they cut the
/// window at one size, Reno gets three quarters of what that size carries, and CUBIC more (RFC 5681
/// section 3.1, RFC 9438 section 4.6). Random ones come at any size.
fn reaches_best_rate(view: &View<'_>) -> bool {
    let rates = view.rate().zip(view.sender.and_then(Timeline::best_rate));
    rates.is_some_and(|(rate, best)| {
        rate.bits_per_second() as f64 >= best.bits_per_second() as f64 * RANDOM_RATE
    })
}

/// Whether few losses came in large windows, of nearly one size: nothing shows that they are
/// random.
fn may_drop_large_windows(view: &View<'_>, cuts: &WindowCuts) -> bool {
    windows_of_losses(view).is_some_and(|(losses, share)| {
        share >= by_chance(losses, LARGE_WINDOWS_MAYBE) && cuts.deviation() < STEADY_CUTS_MAYBE
    })
}

/// Whether losses take several segments at a time, where such that hit each segment alike would
/// take one, and seldom another one of the same window: so drop a queue of a few packets and a
/// bucket of a few tokens when a burst comes, and a radio link that fails for a moment. `None`
/// where looks are too rare to tell one loss from the next.
fn come_together(sender: &Timeline, cuts: &WindowCuts) -> Option<bool> {
    let between_looks = sender.interval() / u32::try_from(sender.looks()).ok()?.max(1);
    if sender.srtt()? < between_looks {
        return None;
    }
    let lost = sender.counted(|s| s.retrans_total_pkts)? as f64 / cuts.sizes.len() as f64;
    let window = f64::from(sender.median(|s| s.cwnd_pkts)?);
    let alike = 1.0 + sender.retransmitted_share()? * window;
    Some(lost >= alike * COME_TOGETHER)
}

/// Whether losses that come together leave so much of the best rate that a short queue may drop
/// them: nothing but what waits behind a drop tells the two apart. In a capture the best rate is
/// that of ACKs which came at once, and tells nothing.
fn may_be_short_queue(view: &View<'_>, cuts: &WindowCuts) -> bool {
    let may_be = || {
        let sender = view.sender?;
        let best = sender.best_rate()?.bits_per_second() as f64;
        let leaves = view.rate()?.bits_per_second() as f64 >= best * SHORT_QUEUE_RATE;
        let is_capture = sender.last()?.source == Source::Capture;
        Some(come_together(sender, cuts)? && (is_capture || leaves))
    };
    may_be() == Some(true)
}

/// Whether the window is cut by losses that a short queue and a bad link have in common.
pub(crate) fn losses_come_together(view: &View<'_>) -> bool {
    let cuts = view.sender.map(WindowCuts::of);
    cuts.is_some_and(|cuts| cuts.sizes.len() >= CUTS && may_be_short_queue(view, &cuts))
}

/// Whether losses show a path that is full, or may do so.
fn may_be_full(view: &View<'_>, cuts: &WindowCuts) -> bool {
    cuts.are_at_one_size()
        || view
            .sender
            .is_some_and(|sender| cuts.follow_a_queue(sender))
        || drops_at_one_rate(view).is_some()
        || drops_large_windows(view).is_some()
        || view.sender.and_then(drops_behind_queue).is_some()
        || may_drop_large_windows(view, cuts)
        || arrives_at_one_rate(view)
        || may_be_short_queue(view, cuts)
}

/// Packets vanish while no queue stands, and a loss-based congestion control gives way.
pub(crate) fn random_loss(view: &View<'_>) -> Option<Verdict> {
    let sender = view.sender?;
    let lost = sender.retransmitted_share()?;
    let retransmitted = view.retransmitted_pkts()?;
    let is_slowed = !view.is_bbr() && view.interface_share().is_none() && !view.leaves_send_room();
    if lost < LOSS_SHARE || retransmitted < MIN_RETRANSMISSIONS || !is_slowed {
        return None;
    }
    if is_explained(sender, retransmitted) || ended_early(sender) {
        return None;
    }
    let without_queue = sender.vote(|s| {
        let min = s.min_rtt?;
        let slack = min.as_secs_f64() * (NO_QUEUE - 1.0);
        let queued = s.srtt?.saturating_sub(min).as_secs_f64();
        Some(queued < slack.max(NO_QUEUE_SLACK.as_secs_f64()))
    })?;
    let without_queue = match has_small_window(sender) && has_short_round_trips(sender) {
        true => 1.0,
        false => without_queue,
    };
    let cuts = WindowCuts::of(sender);
    let is_full = may_be_full(view, &cuts);
    let is_cut = cuts.sizes.len() >= CUTS;
    if without_queue < NO_QUEUE_VOTES || is_full || !is_cut || !lacks_window(sender) {
        return None;
    }
    if exceeds_response(sender, &cuts) == Some(true) || reaches_best_rate(view) {
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
            .row(
                "cwnd_pkts",
                format!(
                    "cut {}, to {:.0} segments on average, from {:.0} to {:.0}",
                    human::count(cuts.sizes.len() as u64, "time"),
                    cuts.mean(),
                    cuts.sizes.iter().copied().fold(f64::INFINITY, f64::min),
                    cuts.sizes.iter().copied().fold(0.0, f64::max),
                ),
                "always to one size if a queue overflowed",
            )
            .row_if(
                "congestion",
                view.sent(|s| s.congestion.map(|name| name.to_string())),
                "one that tolerates loss",
            )
            .next(next_limit(view, Limit::Recovery))
            .propose_bbr(
                view.sender_side,
                "more retransmissions, and less room for others in a full queue",
            )
            .remark("Look for the cause too: a bad cable, a radio link, a policer on the path."),
    )
}

#[cfg(test)]
mod tests {
    use base::FlowKey;

    use super::*;

    /// Samples every 100 ms of a window, its threshold and what was retransmitted.
    fn watched(looks: &[(u32, u32, u64)]) -> Timeline {
        let key = FlowKey {
            local: ([10, 0, 0, 1], 40_000).into(),
            remote: ([10, 0, 0, 2], 5001).into(),
        };
        let mut timeline = Timeline::new();
        for (number, &(cwnd, threshold, lost)) in (0..).zip(looks) {
            timeline.push(FlowSample {
                cwnd_pkts: Some(cwnd),
                ssthresh_pkts: Some(threshold),
                retrans_total_pkts: Some(lost),
                congestion_state: Some(CongestionState::Open),
                ..FlowSample::empty(Instant::from_nanos(number * 100_000_000), key)
            });
        }
        timeline
    }

    #[test]
    fn few_cuts_and_small_ones_are_at_one_size_by_chance() {
        let check = |sizes: &[f64], (maybe, sure): (bool, bool)| {
            let cuts = WindowCuts {
                sizes: sizes.to_vec(),
                of_start: 0,
            };
            let found = (cuts.are_at_one_size(), cuts.are_surely_at_one_size());
            assert_eq!(found, (maybe, sure), "{sizes:?}");
        };
        // They deviate by 0.02, 0.05 and 0.05 of their mean.
        check(&[40.0, 41.0, 40.0, 39.0], (true, true));
        check(&[40.0, 43.0, 40.0, 38.0], (true, false));
        check(&[40.0, 43.0, 40.0, 38.0, 43.0, 40.0, 38.0], (true, true));
        check(&[6.0; 7], (true, false));
        check(&[40.0, 60.0, 45.0, 30.0], (false, false));
    }

    /// The start of a connection is the first quarter of a watch that saw it, and nothing of one
    /// that found the connection with a threshold.
    #[test]
    fn a_start_ends_after_a_quarter_where_it_was_seen() {
        let seen = watched(&[
            (10, NO_THRESHOLD, 0),
            (90, NO_THRESHOLD, 0),
            (60, 60, 5),
            (62, 60, 5),
            (64, 60, 5),
        ]);
        assert_eq!(start_ends(&seen), Some(Instant::from_nanos(100_000_000)));
        let found_later = watched(&[(60, 60, 5), (62, 60, 5), (64, NO_THRESHOLD, 5)]);
        assert_eq!(start_ends(&found_later), None);
        assert_eq!(start_ends(&Timeline::new()), None);
    }

    #[test]
    fn no_window_is_cut_without_a_loss() {
        let saw = |lost: u64| -> Vec<(u32, u32, u64)> {
            (0..40)
                .map(|look| {
                    (
                        [40, 50, 60, 30][look % 4],
                        40,
                        lost * (look as u64 / 4 + u64::from(look % 4 == 3)),
                    )
                })
                .collect()
        };
        assert_eq!(WindowCuts::of(&watched(&saw(1))).sizes.len(), 10);
        assert!(
            WindowCuts::of(&watched(&saw(0))).sizes.is_empty(),
            "a full send buffer"
        );
    }

    /// Samples every 10 ms of a flow over 40 ms that gets 8.7 Mbit/s and loses this many segments
    /// twice a second, which cut its window from any size; once it got `best` Mbit/s.
    fn cut_by(lost: u64, best: u64, source: Source) -> Timeline {
        cut_behind(Duration::ZERO, lost, best, source)
    }

    /// The same with round trips that are this much longer while losses are repaired.
    fn cut_behind(queue: Duration, lost: u64, best: u64, source: Source) -> Timeline {
        let mut timeline = Timeline::new();
        for look in 0..800_u64 {
            let (cuts, phase) = (look / 50, look % 50);
            let threshold = [20, 31, 24, 37, 28][cuts as usize % 5];
            let cwnd = threshold + u32::try_from(phase).expect("some") / 3;
            let (acked, repairs) = (look * 10_900, phase < 4);
            timeline.push(FlowSample {
                at: Instant::from_nanos(look * 10_000_000),
                source,
                congestion: Some("cubic".into()),
                snd_mss_bytes: Some(1448),
                min_rtt: Some(Duration::from_millis(40)),
                srtt: Some(Duration::from_millis(40) + queue * u32::from(repairs)),
                congestion_state: Some(if repairs {
                    CongestionState::Recovery
                } else {
                    CongestionState::Open
                }),
                bytes_acked: Some(acked),
                bytes_sent: Some(acked + 40_000),
                bytes_retrans: Some(cuts * lost * 1448),
                data_segs_out: Some(acked / 1448),
                notsent_bytes: Some(90_000),
                unacked_pkts: Some(cwnd),
                delivery_rate: Some(base::Rate::from_bits_per_second(best * 1_000_000)),
                ..watched(&[(cwnd, threshold, cuts * lost)])
                    .first()
                    .expect("a look")
                    .clone()
            });
        }
        timeline
    }

    fn told(timeline: &Timeline) -> (Option<&'static str>, String) {
        let report = crate::diagnose(&crate::Observation::of(timeline));
        let first = report.main().map(|verdict| verdict.diagnosis.id);
        (first, report.unknown.unwrap_or_default())
    }

    #[test]
    fn segments_lost_together_may_be_those_of_a_short_queue() {
        let said = |lost: u64, best: u64, source: Source| told(&cut_by(lost, best, source));
        let sockets = Source::SockDiag;
        assert_eq!(said(1, 14, sockets).0, Some("random-loss"), "one by one");
        let (first, unknown) = said(8, 14, sockets);
        assert_eq!(first, None);
        assert!(unknown.contains("captured at the sender"), "{unknown}");
        // No queue takes so much of the rate.
        assert_eq!(said(8, 30, sockets).0, Some("random-loss"), "a bad link");
        assert_eq!(
            said(8, 30, Source::Capture).0,
            None,
            "ACKs that came at once"
        );
    }

    #[test]
    fn round_trips_behind_losses_tell_of_a_short_queue() {
        let said = |queue_ms: u64, lost: u64| {
            let queue = Duration::from_millis(queue_ms);
            told(&cut_behind(queue, lost, 14, Source::SockDiag)).0
        };
        assert_eq!(said(3, 8), Some("path-full"));
        assert_eq!(said(3, 1), Some("random-loss"), "one by one");
        assert_eq!(said(0, 1), Some("random-loss"), "no queue");
    }

    /// A buffer that stops the flow before each loss makes the bursts that a short queue drops.
    #[test]
    fn bursts_of_a_fixed_buffer_do_not_fill_a_path() {
        let said = |stops: u64, locked: bool| {
            let mut timeline = Timeline::new();
            let flow = cut_behind(Duration::from_millis(3), 8, 14, Source::SockDiag);
            for (look, sample) in (0..).zip(flow.samples()) {
                timeline.push(FlowSample {
                    sndbuf_bytes: Some(80_000),
                    sndbuf_locked: Some(locked),
                    wmem_queued_bytes: Some(85_000),
                    notsent_bytes: sample
                        .notsent_bytes
                        .filter(|_| look % 50 < 50 - stops)
                        .or(Some(0)),
                    ..sample.clone()
                });
            }
            told(&timeline).0
        };
        assert_eq!(said(10, true), Some("sndbuf-locked"));
        assert_eq!(said(4, true), Some("path-full"), "now and then");
        assert_eq!(said(10, false), Some("path-full"), "it grows");
    }
}
