//! The path: dead for large packets, or simply full.

use core::time::Duration;

use base::{FlowSample, KnobValue, Limit, Live, human};

use super::application::program_sets_rate;
use super::draft::{Draft, Remedy};
use super::loss::{WindowCuts, has_short_round_trips, has_small_window, losses_come_together};
use super::queue;
use super::small_writes::of_all_time;
use super::steady::{
    arrives_at_one_rate, arrives_steadily, drops_behind_queue, drops_large_windows,
    drops_surely_at_one_rate, losses_behind_queue, probes_overflow, round_trips_follow_window,
    round_trips_probe,
};
use super::thresholds::{
    CAUGHT_UP, DEAD_BACKOFF, DEAD_SHARE, FULL_RATE, FULL_SEGMENT, FULL_SHARE, IDLE_BEFORE_CUT,
    LOSS_SHARE, MIN_RETRANSMISSIONS, OVERTAKEN_EVENTS, OVERTAKEN_IN_VAIN,
    OVERTAKEN_RETRANSMISSIONS, PASSED_SEGMENTS, POLICED_LOSS, POLICED_QUEUE, POLICED_QUEUE_SHARE,
    QUESTIONS_PER_SECOND, QUEUE_DELAY, QUEUE_SHARE, STARVING_LOSS, UNSENT_BACKLOG,
};
use crate::timeline::{Timeline, cwnd_room_pkts};
use crate::verdict::{Confidence, Verdict};
use crate::view::View;

const PROBING: &str = "net.ipv4.tcp_mtu_probing";

/// A connection whose data, or whose probes, are not acknowledged any more.
struct Unanswered {
    /// Share of the samples in which all that is out counts as lost, or probes have no answer.
    lost: f64,
    /// Probes of a closed window or of keepalive that have no answer.
    probes: Option<u8>,
    backoff: u8,
    /// Payload that was ever acknowledged.
    acked: u64,
    /// Segments of the other end that arrived meanwhile.
    arrived: u64,
}

impl Unanswered {
    fn read(view: &View<'_>) -> Option<Self> {
        let sender = view.sender?;
        let mss = sender.mss_bytes()?;
        // A small request may have passed in the same interval.
        if sender.counted(|s| s.bytes_acked)? >= u64::from(mss) {
            return None;
        }
        // A small segment behind a full one that vanished is acknowledged selectively.
        let lost = sender.vote_of_all(|s| {
            let missing = s.unacked_pkts?.saturating_sub(s.sacked_pkts.unwrap_or(0));
            Some(missing > 0 && s.lost_pkts? >= missing)
        })?;
        let backoff = sender.largest(|s| s.backoff).unwrap_or(0);
        let timeouts = sender.counted(|s| s.rto_total).unwrap_or(0);
        let given_up = backoff >= DEAD_BACKOFF || timeouts >= u64::from(DEAD_BACKOFF);
        let arrived = sender.counted(|s| s.segs_in).unwrap_or(0);
        // A closed window is probed with the same timer, and the other end answers the probes.
        let open = view.sent(|s| s.snd_wnd_bytes).is_none_or(|wnd| wnd >= mss);
        let probed = unanswered_probes(sender).filter(|_| arrived == 0);
        let data = lost >= DEAD_SHARE && given_up && open;
        if (!data && probed.is_none()) || passing_siblings(view).any(loses_much) {
            return None;
        }
        Some(Self {
            lost: lost.max(probed.unwrap_or(0.0)),
            probes: probed.and_then(|_| sender.largest(|s| s.probes)),
            backoff,
            acked: view.sent(|s| s.bytes_acked)?,
            arrived,
        })
    }

    /// The rows that all of these share.
    fn draft(&self, id: &'static str, confidence: Confidence, view: &View<'_>) -> Draft {
        let silence = view.sent(|s| s.since_ack_received);
        let shown = human::share(self.lost);
        let (field, observed, expected) = match self.probes {
            Some(count) => (
                "probes",
                format!("up to {count} without an answer, in {shown} of the samples"),
                "an answer to each after a round trip",
            ),
            None => (
                "lost_pkts",
                format!("all that is in flight, in {shown} of the samples"),
                "some arrive",
            ),
        };
        Draft::new(id, self.lost, confidence)
            .row(
                "bytes_acked",
                format!("stands at {}", human::count(self.acked, "byte")),
                "rising",
            )
            .row(
                "backoff",
                format!(
                    "{}, timeout {}",
                    self.backoff,
                    human::time(view.sent(|s| s.rto).unwrap_or_default())
                ),
                format!("below {DEAD_BACKOFF}"),
            )
            .row(field, observed, expected)
            .row_if(
                "segs_in",
                silence.map(|silence| {
                    format!(
                        "{} arrived, the last ACK {} ago",
                        human::count(self.arrived, "segment"),
                        human::time(silence)
                    )
                }),
                "ACKs",
            )
    }
}

/// Other connections from the sender's host to the same one whose full segments are acknowledged
/// meanwhile: the path passes these.
fn passing_siblings<'v>(view: &View<'v>) -> impl Iterator<Item = &'v Timeline> {
    let siblings = view.sender_siblings.iter().copied();
    siblings.filter(|sibling| {
        let passes = || {
            let mss = u64::from(sibling.mss_bytes()?);
            let is_full = sibling.segment_bytes()? as f64 >= mss as f64 * FULL_SEGMENT;
            Some(is_full && sibling.counted(|s| s.bytes_acked)? >= mss * PASSED_SEGMENTS)
        };
        passes() == Some(true)
    })
}

/// Whether the path loses so much of what others send that a connection may starve beside them: a
/// retransmission is a single packet, and finds the queue full at each attempt.
fn loses_much(sibling: &Timeline) -> bool {
    sibling
        .retransmitted_share()
        .is_some_and(|share| share >= STARVING_LOSS)
}

/// Share of the samples in which several probes in a row have no answer, where that is so all the
/// time: of a closed window, or of keepalive. The kernel counts those sent since the last ACK
/// (`icsk_probes_out`, cleared by `tcp_ack`), so that one alone may be on its way.
fn unanswered_probes(sender: &Timeline) -> Option<f64> {
    sender
        .vote_of_all(|s| Some(s.probes? >= DEAD_BACKOFF))
        .filter(|share| *share >= DEAD_SHARE)
}

/// The handshake went through, or small segments still do; full ones do not, and no message says
/// why (RFC 2923).
pub(crate) fn pmtu_blackhole(view: &View<'_>) -> Option<Verdict> {
    let unanswered = Unanswered::read(view)?;
    let mss = view.sender?.mss_bytes()?;
    // A path that passed full segments before and is silent now is dead, whatever the size.
    let knew_better = unanswered.acked > PASSED_SEGMENTS * u64::from(mss);
    let answered_lately = || {
        let (silence, rto) = (view.sent(|s| s.since_ack_received)?, view.sent(|s| s.rto)?);
        Some(unanswered.arrived > 0 && silence < rto * 2)
    };
    let small_ones_pass = !knew_better || answered_lately() == Some(true);
    let large_ones_pass = passing_siblings(view).next().is_some();
    if !small_ones_pass || large_ones_pass || !sends_full_segments(view, mss)? {
        return None;
    }
    let confidence = if knew_better {
        Confidence::Low
    } else {
        Confidence::Medium
    };
    let probing = view
        .sender_host
        .and_then(|host| host.sysctl_number(PROBING));
    Some(
        unanswered
            .draft("pmtu-blackhole", confidence, view)
            .row(
                "snd_mss_bytes",
                human::count(mss, "byte"),
                "what the path MTU allows",
            )
            .row_if(PROBING, probing.map(|value| value.to_string()), "1")
            .propose(
                view.sender_side,
                Remedy {
                    knob: PROBING,
                    to: KnobValue::Number(1),
                    live: Live::Now,
                    risk: "smaller packets on paths with high loss",
                },
            )
            .remark(
                "The open connection recovers after its next timeouts. Where the size is known: \
                 the route's mtu, or an MSS clamp at the gateway; best, let ICMP \"too big\" \
                 through. If small packets do not pass either, the path is down.",
            ),
    )
}

const NEVER_ACCEPTED: &str = "No TCP setting helps, because the other host has no socket for this \
    connection: it answered the handshake and no data after it, and repeats its SYN-ACK. The \
    accept queue of the program there is full (ss -lt at that host shows Recv-Q above Send-Q).";

/// Neither large nor small segments are answered.
pub(crate) fn path_dead(view: &View<'_>) -> Option<Verdict> {
    let unanswered = Unanswered::read(view)?;
    if unanswered.arrived > 0 {
        let draft = || unanswered.draft("path-dead", Confidence::Medium, view);
        return was_never_accepted(view, &unanswered).then(|| draft().remark(NEVER_ACCEPTED));
    }
    let confidence = if unanswered.backoff > DEAD_BACKOFF {
        Confidence::High
    } else {
        Confidence::Medium
    };
    Some(unanswered.draft("path-dead", confidence, view).remark(
        "No TCP setting helps, because nothing arrives: the other host is down, or the path is cut \
         (a cable, a route, a firewall that dropped the connection's state). TCP_USER_TIMEOUT, or \
         tcp_retries2, sets how long the program waits for an error.",
    ))
}

/// Whether the other end answered the handshake, and has no socket for the connection though it is
/// there: nothing small was ever acknowledged. With a full accept queue Linux drops the ACK that
/// ends the handshake, and sends its SYN-ACK again (`tcp_v4_syn_recv_sock`).
fn was_never_accepted(view: &View<'_>, unanswered: &Unanswered) -> bool {
    let is_small = || Some(!sends_full_segments(view, view.sender?.mss_bytes()?)?);
    // Where the beginning was not seen, what was acknowledged before is not counted.
    let has_begun_here = view.sent(|s| s.advmss_bytes).is_some();
    // The SYN counts as one.
    let is_mute = unanswered.acked <= 1 && view.sent(|s| s.bytes_received).unwrap_or(0) == 0;
    has_begun_here && is_mute && is_small() == Some(true)
}

/// A connection that was idle gets no answer any more, while another one between the same two hosts
/// does: a NAT or a firewall on the path has forgotten it.
pub(crate) fn idle_connection_cut(view: &View<'_>) -> Option<Verdict> {
    let unanswered = Unanswered::read(view)?;
    if unanswered.arrived > 0 || !view.hosts_answer_elsewhere {
        return None;
    }
    let idle = idle_before(view.sender?)?;
    (idle >= IDLE_BEFORE_CUT).then(|| {
        unanswered
            .draft("idle-connection-cut", Confidence::Medium, view)
            .row(
                "since_ack_received",
                format!("{} idle before the first of it was sent", human::time(idle)),
                format!("below {}", human::time(IDLE_BEFORE_CUT)),
            )
            .row(
                "other connections",
                "answers arrive from the same host",
                "none, if the host or the path were gone",
            )
            .remark(
                "No TCP setting helps, because the state is gone: the program has to reconnect \
                 (TCP_USER_TIMEOUT reports the error sooner). To keep such connections: \
                 SO_KEEPALIVE with TCP_KEEPIDLE below the timeout of the NAT or firewall, a ping \
                 of the protocol, or a longer timeout at the NAT or firewall.",
            )
    })
}

/// How long nothing had arrived when what is out was sent at first, at least: each timeout is twice
/// the one before, so that all of them before the present one took no longer than it does.
fn idle_before(sender: &Timeline) -> Option<Duration> {
    let last = sender.last()?;
    let (silence, rto) = (last.since_ack_received?, last.rto?);
    silence.checked_sub(rto.checked_add(last.since_data_sent?.min(rto))?)
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

/// Packets are dropped at one rate, and round trips are as short as without traffic: no queue.
pub(crate) fn policed(view: &View<'_>) -> Option<Verdict> {
    let sender = view.sender?;
    let lost = sender.retransmitted_share()?;
    let (delay, min_rtt) = (sender.queue_delay()?, sender.min_rtt()?);
    let bound = POLICED_QUEUE.max(min_rtt.mul_f64(POLICED_QUEUE_SHARE));
    let drops = lost >= POLICED_LOSS && view.retransmitted_pkts()? >= MIN_RETRANSMISSIONS;
    let has_queue = WindowCuts::of(sender).follow_a_queue(sender)
        || arrives_steadily(sender)
        || drops_behind_queue(sender).is_some()
        || losses_behind_queue(view).is_some()
        || probes_overflow(view);
    if !drops || delay >= bound || has_queue || view.interface_share().is_some() {
        return None;
    }
    let draft = fullness(view, "policed")?;
    Some(
        draft
            .row(
                "srtt - min_rtt",
                human::time(delay),
                format!("at least {} with a queue", human::time(bound)),
            )
            .remark(
                "No TCP setting helps, because the path enforces that rate. A rate-based \
                 congestion control (bbr) stays closer to it; SO_MAX_PACING_RATE set slightly \
                 below it avoids the drops.",
            ),
    )
}

/// The sender has more, the congestion window (or BBR's pace) decides, and the path shows that it
/// is full: a queue builds, or it drops at one rate.
pub(crate) fn path_full(view: &View<'_>) -> Option<Verdict> {
    let draft = match view.sender {
        Some(_) => fullness(view, "path-full")?,
        None => queue::standing_for_receiver(view)?,
    };
    let full = "No TCP setting helps, because the bottleneck link (or this flow's share of it) is \
                fully used.";
    let Some(backlog) = unsent_backlog(view) else {
        return Some(draft.remark(full));
    };
    let time = human::time(backlog);
    let draft = draft.row(
        "notsent_bytes / rate",
        time.clone(),
        format!("below {} for interactive data", human::time(UNSENT_BACKLOG)),
    );
    Some(draft.remark(format!(
        "{full} Data written now is sent {time} later, after the unsent data in the send buffer: \
         for interactive data on this connection, set TCP_NOTSENT_LOWAT (or the sysctl \
         net.ipv4.tcp_notsent_lowat) to 16 to 128 KiB.",
    )))
}

/// How long what is written now waits behind what the program wrote before, where that is long and
/// the other end sends data too: it may ask, and wait for answers.
fn unsent_backlog(view: &View<'_>) -> Option<Duration> {
    let sender = view.sender?;
    let unsent = sender.median(|s| s.notsent_bytes)?;
    let bits = view.rate()?.bits_per_second().max(1);
    let waits = Duration::from_secs_f64(f64::from(unsent) * 8.0 / bits as f64);
    let asked = sender.counted(|s| s.data_segs_in)? as f64;
    let asks = asked >= sender.interval().as_secs_f64() * QUESTIONS_PER_SECOND;
    (asks && waits >= UNSENT_BACKLOG).then_some(waits)
}

/// Whether packets that were only reordered are taken for lost so often that this cuts the window:
/// long round trips are then those of the longer way, not a queue.
pub(crate) fn retransmissions_overtaken(view: &View<'_>) -> Option<bool> {
    let sender = view.sender?;
    let retransmitted = view.retransmitted_pkts()? as f64;
    let in_vain = sender.counted(|s| s.dsack_dups)? as f64;
    let overtaken = sender.counted(|s| s.reord_seen)? as f64;
    let often = sender.retransmitted_share()? >= OVERTAKEN_RETRANSMISSIONS;
    let events = overtaken >= retransmitted * OVERTAKEN_EVENTS;
    Some(often && events && in_vain >= retransmitted * OVERTAKEN_IN_VAIN)
}

fn fullness(view: &View<'_>, id: &'static str) -> Option<Draft> {
    let sender = view.sender?;
    let rate = view.rate()?;
    if view.has_gaps()
        || rate.bits_per_second() == 0
        || retransmissions_overtaken(view) == Some(true)
    {
        return None;
    }
    // Where hardly anything is lost either, nothing shows that the path takes no more.
    let is_idle_between = || view.acks_pause() && !loses_later(sender);
    let may_be_held = || view.stops_and_goes() || is_idle_between();
    // What a program writes at a time may overflow a queue, too, and then it is idle.
    let is_bulk = sender.idle_share().unwrap_or(0.0) < CAUGHT_UP / 4.0;
    let drops = is_bulk && drops_behind_queue(sender).is_some();
    if view.still_grows() || (!drops && may_be_held()) {
        return None;
    }
    let (full, supply) = supply(view)?;
    let (field, shown, expected) = signs_of_fullness(view)?;
    if program_sets_rate(view) {
        return None;
    }
    let best = sender.lasting_rate();
    let of_best =
        best.map(|best| rate.bits_per_second() as f64 / best.bits_per_second().max(1) as f64);
    let confidence = match of_best {
        Some(share) if share >= FULL_RATE => Confidence::High,
        _ => Confidence::Medium,
    };
    let lost = sender.retransmitted_share();
    Some(
        Draft::new(id, of_all_time(sender, full), confidence)
            .row(supply.0, supply.1, supply.2)
            .row(field, shown, expected)
            .row(
                "bytes_acked",
                format!("{} on average", human::rate(rate)),
                best.map_or_else(
                    || "the bottleneck rate".into(),
                    |best| {
                        format!(
                            "the bottleneck rate: {}, the best of some round trips",
                            human::rate(best)
                        )
                    },
                ),
            )
            .row_if(
                "bytes_retrans / bytes_sent",
                lost.map(human::share),
                "what full queues drop",
            )
            .beside(Limit::Congestion),
    )
}

/// Whether losses go on behind the beginning of a watch, often enough to hold a window down.
fn loses_later(sender: &Timeline) -> bool {
    let lost = || {
        let middle = sender.first()?.at + sender.interval() / 2;
        let later = sender.samples().find(|s| s.at >= middle)?;
        let last = sender.last()?;
        let lost = last.bytes_retrans?.saturating_sub(later.bytes_retrans?) as f64;
        let sent = last.bytes_sent?.saturating_sub(later.bytes_sent?) as f64;
        Some(lost >= sent * LOSS_SHARE)
    };
    lost() == Some(true)
}

/// Whether the rate stays well below the best that was ever delivered.
fn falls_short(view: &View<'_>) -> bool {
    let rates = view.rate().zip(view.sender.and_then(Timeline::best_rate));
    rates.is_some_and(|(rate, best)| {
        (rate.bits_per_second() as f64) < best.bits_per_second() as f64 * FULL_RATE
    })
}

/// How much of the time the sender has more than the path takes, and what shows it: a full
/// congestion window, or more in flight than the path holds.
fn supply(view: &View<'_>) -> Option<(f64, Sign)> {
    let sender = view.sender?;
    if view.fills_cwnd() {
        let is_full =
            |s: &FlowSample| Some(s.notsent_bytes? >= s.snd_mss_bytes? || cwnd_room_pkts(s)? < 2);
        let full = sender.vote(is_full)?;
        let shown = format!(
            "full or more to send in {} of the samples",
            human::share(full)
        );
        let expected = format!("at least {}", human::share(FULL_SHARE));
        return Some((full, ("cwnd_pkts", shown, expected)));
    }
    if arrives_at_one_rate(view) {
        let shown = "sent faster and slower by turns".into();
        let room = "as it arrives, if the program set the rate".into();
        return Some((1.0, ("bytes_sent", shown, room)));
    }
    if !view.stands_in_queue() {
        return None;
    }
    let out = sender.median(FlowSample::bytes_out)?;
    let holds = sender.rate()?.bdp_bytes(sender.min_rtt()?);
    let expected = format!(
        "at most the bandwidth-delay product, {}, where the path has room",
        human::count(holds, "byte")
    );
    Some((1.0, ("bytes_out", human::count(out, "byte"), expected)))
}

const NO_RELATION: &str = "no relation where the path has room";

/// A field with what was seen, and what is expected.
type Sign = (&'static str, String, String);

/// Sign that the path is full: field, observed value, and what a path with room would show, in
/// words that say so: "below 2 ms" alone reads as if the finding were refuted.
fn signs_of_fullness(view: &View<'_>) -> Option<Sign> {
    let sender = view.sender?;
    if let (Some(delay), Some(min_rtt)) = (sender.queue_delay(), sender.min_rtt()) {
        let bound = QUEUE_DELAY.max(min_rtt.mul_f64(QUEUE_SHARE));
        // One late ACK of a small window is not a queue, which would lengthen all round trips.
        let may_be_late = has_small_window(sender) && has_short_round_trips(sender);
        if delay >= bound && !(may_be_late && falls_short(view)) && !view.acks_pause() {
            let shown = format!("{} in a queue", human::time(delay));
            return Some((
                "srtt - min_rtt",
                shown,
                format!("below {} without a queue", human::time(bound)),
            ));
        }
    }
    // Where the program does not wait for TCP, it sets the rate, and its bursts are what drops.
    if view.leaves_send_room() {
        return None;
    }
    // The newest may be a burst that a token bucket let through.
    let bandwidth = sender.median(|s| Some(s.bbr?.bandwidth));
    if let (Some(bandwidth), Some(rate)) = (bandwidth, view.rate()) {
        let reached = rate.bits_per_second() as f64 / bandwidth.bits_per_second().max(1) as f64;
        if reached >= FULL_RATE {
            let shown = format!(
                "{} of BBR's estimate {}",
                human::share(reached),
                human::rate(bandwidth)
            );
            return Some((
                "bbr.bandwidth",
                shown,
                "less of it where the path has room".into(),
            ));
        }
    }
    if let Some(share) = view.interface_share() {
        let queued = human::count(sender.median(|s| s.local_queue_bytes)?, "byte");
        return Some((
            "local_queue_bytes",
            format!(
                "{queued} wait here, in {} of the samples",
                human::share(share)
            ),
            "0: a bottleneck elsewhere leaves this host's queue empty".into(),
        ));
    }
    if let Some(sign) = marks(sender).or_else(|| behind_drops(sender)) {
        return Some(sign);
    }
    if bandwidth.is_some() {
        // Losses do not cut BBR's window, and it holds the path to carry more than what passes.
        return steady_arrivals(view);
    }
    let cuts = WindowCuts::of(sender);
    // A flow that filled the path once and loses packets since then leaves it idle most of the
    // time, though its longest round trips are those of its largest windows. A small window's
    // round trips are those of its delayed ACKs.
    let may_follow = !falls_short(view) && !view.acks_pause() && !has_small_window(sender);
    if may_follow && cuts.follow_a_queue(sender) {
        let shown = "the RTT grows with the window".into();
        return Some(("srtt, cwnd_pkts", shown, NO_RELATION.into()));
    }
    steady_arrivals(view)
        .or_else(|| cuts_at_one_size(&cuts))
        .or_else(|| losses_at_one_rate(view))
        .or_else(|| losses_of_large_windows(view))
        .or_else(|| long_round_trips_of_losses(view))
}

fn marks(sender: &Timeline) -> Option<Sign> {
    let marked = sender.counted(|s| s.delivered_ce_pkts)?;
    let shown = "marked by a full queue".into();
    (marked > 0).then(|| {
        (
            "delivered_ce_pkts",
            shown,
            "no marks where the path has room".into(),
        )
    })
}

fn behind_drops(sender: &Timeline) -> Option<Sign> {
    let (losses, share) = drops_behind_queue(sender)?;
    let share = human::share(share);
    let shown = format!("longer than {share} of the others behind {losses} losses");
    let expected = "like others where losses are random".into();
    Some(("last_rtt", shown, expected))
}

fn cuts_at_one_size(cuts: &WindowCuts) -> Option<Sign> {
    cuts.are_surely_at_one_size().then(|| {
        let shown = format!(
            "cut {} at {} each",
            human::count(cuts.sizes.len() as u64, "time"),
            human::count(cuts.mean() as u64, "segment")
        );
        (
            "ssthresh_pkts",
            shown,
            "at any size where losses are random".into(),
        )
    })
}

fn losses_at_one_rate(view: &View<'_>) -> Option<Sign> {
    let (losses, spread) = drops_surely_at_one_rate(view)?;
    let shown = format!(
        "within {} from one to the next of {losses} losses",
        human::share(spread)
    );
    Some((
        "delivered_pkts",
        shown,
        "any rate where losses are random".into(),
    ))
}

fn losses_of_large_windows(view: &View<'_>) -> Option<Sign> {
    let (losses, share) = drops_large_windows(view)?;
    let shown = format!(
        "{losses} losses in windows larger than {} of the others",
        human::share(share)
    );
    Some((
        "cwnd_pkts",
        shown,
        "any window where losses are random".into(),
    ))
}

/// Of losses that come together: single ones may be random while a queue of another size comes and
/// goes (0.1 % in windows of 512 KiB that hardly exceed the path).
fn long_round_trips_of_losses(view: &View<'_>) -> Option<Sign> {
    let (losses, share) = losses_behind_queue(view).filter(|_| losses_come_together(view))?;
    let share = human::share(share);
    let shown = format!("longer than {share} of the others at {losses} losses");
    Some(("srtt", shown, "like others where losses are random".into()))
}

/// As [`signs_of_fullness`]: more is sent for a time, and no more arrives.
fn steady_arrivals(view: &View<'_>) -> Option<Sign> {
    if arrives_at_one_rate(view) {
        let shown = "one rate, however fast packets are sent".into();
        let room = "as fast as they are sent where the path has room".into();
        return Some(("bytes_acked", shown, room));
    }
    if round_trips_probe(view) {
        let shown = "longer in one of eight, at one rate".into();
        return Some(("srtt", shown, NO_RELATION.into()));
    }
    round_trips_follow_window(view).then(|| {
        let shown = "the RTT grows with the window, and the rate does not".into();
        ("srtt, cwnd_pkts", shown, NO_RELATION.into())
    })
}
