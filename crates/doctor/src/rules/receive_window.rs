//! The peer's window: a slow reader, a fixed buffer, a sysctl, no scaling.
//!
//! From the sender alone these look alike; the receiver's socket tells them apart. Where only the
//! receiver is visible, its buffers stand in for the sender's clock of window-limited time.

use base::{FlowSample, KnobValue, Live, Rate, human};
use core::time::Duration;

use super::draft::{BothEnds, Draft, Remedy, high_if, raised_maximum};
use super::held_acks::{self, AckPattern};
use super::next::{next_after_window, next_limit};
use super::queue::standing_for_receiver;
use super::thresholds::{
    ACKED_AT_ONCE, ACKED_AT_ONCE_WINDOW, AT_CAP, BURST_WINDOWS, CLOSED_ROUND_TRIPS, CLOSED_SHARE,
    CLOSED_TIME, DELAYED_ACK, DELAYED_ACK_TICKS, DELAYED_SHARE, FOLLOWS_READS, LOCAL_RTT,
    MIN_BUSY_SHARE, MOSTLY_STOPPED, MOVING_WINDOW_SEGMENTS, NEVER_READ_SHARE, NEVER_READ_VOTES,
    PAUSE_ROUND_TRIPS, PROBING_STOPPED, PROMPT_READER_SHARE, RECEIVE_MEMORY_SHARE, SHUT_SHARE,
    SLEEPS_SHARE, SPARSE_ACKS_DELAY, SPARSE_ACKS_WINDOW, TELLING_FACTOR, TICK, UNREAD_SHARE,
    UNREAD_VOTES, UNSCALED_SHARE, UNSCALED_WINDOW, USUAL_RMEM_MAX, WINDOW_PER_RTT_SHARE,
    WINDOW_SHARE, WINDOW_SHRINKS_BY, WINDOW_SHRINKS_SHARE,
};
use crate::timeline::{Timeline, cwnd_room_pkts, ratio_of_times};
use crate::verdict::{Confidence, Verdict};
use crate::view::View;

const MODERATE: &str = "net.ipv4.tcp_moderate_rcvbuf";

pub(super) const READS_SLOWLY: &str = "No TCP setting helps, because the receiving program is the limit: a \
    larger buffer would only hold more unread data. In that program: read more at a time, in a \
    thread of its own, with less work per read. A proxy reads no faster than its other side takes \
    it: look there.";

/// The receiving program leaves data unread.
pub(crate) fn slow_reader(view: &View<'_>) -> Option<Verdict> {
    let held = stopped_share(view);
    if held.is_none() && view.receiver.is_none() {
        let sender = view.sender?;
        return reader_delays_acks(sender).or_else(|| held_acks::seen_by_sender(sender));
    }
    let unread = unread_share(view);
    if let Some(receiver) = view.receiver.filter(|_| view.sender.is_none())
        && unread.is_some_and(|unread| unread < UNREAD_VOTES)
    {
        return sleeps_on_data(receiver).or_else(|| held_acks::seen_by_receiver(receiver));
    }
    let (share, confidence) = match unread {
        Some(unread) if unread < UNREAD_VOTES => return None,
        Some(_) if view.sender.is_some() => (held?, Confidence::High),
        Some(unread) => (unread, high_if(view.received(|s| s.unread_bytes) > Some(0))),
        None => (held?, Confidence::Medium),
    };
    let signs = view.sender.and_then(reader_signs);
    if unread.is_none() && signs.is_none() {
        return None;
    }
    let waiting = view.receiver.and_then(|receiver| {
        let bytes = receiver.median(|s| s.unread_bytes)?;
        Some(format!("{} wait", human::count(bytes, "byte")))
    });
    Some(
        window_draft("slow-reader", share, confidence, view)
            .row_if("unread_bytes", waiting, "close to 0 with a prompt reader")
            .row_if(
                "snd_wnd_bytes",
                signs,
                "constant, and one full window per round trip",
            )
            .remark(READS_SLOWLY),
    )
}

/// The receiving program sleeps for longer than its kernel delays ACKs, and the window is large
/// enough for what arrives meanwhile: the congestion window stops the sender until the timer has
/// run out. Of this many segments a kernel acknowledges each second one at once where the program
/// reads (see [`sparse_acks`]). A queue on the path lets ACKs through one after the other, for
/// parts of what is in flight.
fn reader_delays_acks(sender: &Timeline) -> Option<Verdict> {
    let min_rtt = sender.min_rtt()?;
    let timer = DELAYED_ACK + TICK * DELAYED_ACK_TICKS;
    if sender.counted(|s| s.data_segs_in)? > 0 {
        return None;
    }
    let (mut waited, mut acks) = (Duration::ZERO, 0_u32);
    let samples: Vec<&FlowSample> = sender.samples().collect();
    for pair in samples.windows(2) {
        let [before, after] = pair else { continue };
        let late = before.since_ack_received?.saturating_sub(min_rtt);
        let acked = after.bytes_acked?.checked_sub(before.bytes_acked?)?;
        let is_stopped =
            before.unacked_pkts? >= ACKED_AT_ONCE_WINDOW && cwnd_room_pkts(before)? < 2;
        let is_for_all = acked as f64 >= before.bytes_out()? as f64 * ACKED_AT_ONCE;
        if is_stopped && is_for_all && (SPARSE_ACKS_DELAY..=timer).contains(&late) {
            (waited, acks) = (waited + late, acks + 1);
        }
    }
    let share = ratio_of_times(waited, sender.interval())?;
    (share >= DELAYED_SHARE).then(|| {
        Draft::new("slow-reader", share, Confidence::Medium)
            .row(
                "since_ack_received",
                format!(
                    "{} for all that is in flight, {} late in the mean",
                    human::count(u64::from(acks), "ACK"),
                    human::time(waited / acks.max(1))
                ),
                "an ACK for every second segment, at once",
            )
            .row_if(
                "snd_wnd_bytes",
                sender
                    .median(|s| s.snd_wnd_bytes)
                    .map(|bytes| human::count(bytes, "byte")),
                "any: it takes what arrives while the program does not read",
            )
            .remark(READS_SLOWLY)
    })
}

/// The same as [`reader_delays_acks`] at the receiver, whose buffer is far from full: much lies
/// unread while nothing comes, for longer than the path and a tick take, and new data comes when
/// that was read. A sender with a pace of its own sends however the program reads.
fn sleeps_on_data(receiver: &Timeline) -> Option<Verdict> {
    let (min_rtt, mss) = (receiver.min_rtt()?, receiver.mss_bytes()?);
    let quiet = min_rtt.saturating_add(TICK * 2);
    let least = mss.saturating_mul(ACKED_AT_ONCE_WINDOW);
    let (mut slept, mut watched, mut read) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    let (mut came, mut came_with_reads, mut lay) = (0_u64, 0_u64, 0_u64);
    let samples: Vec<&FlowSample> = receiver.samples().collect();
    for pair in samples.windows(2) {
        let [before, after] = pair else { continue };
        let (time, unread) = (after.at.since(before.at), before.unread_bytes?);
        let arrived = after.bytes_received?.checked_sub(before.bytes_received?)?;
        (watched, came) = (watched + time, came.saturating_add(arrived));
        if arrived.saturating_add(u64::from(unread)) > u64::from(after.unread_bytes?) {
            (read, came_with_reads) = (read + time, came_with_reads.saturating_add(arrived));
        }
        if unread >= least && before.since_data_received? >= quiet {
            (slept, lay) = (slept + time, lay.max(u64::from(unread)));
        }
    }
    let share = ratio_of_times(slept, watched)?;
    let with_reads = came_with_reads as f64 / came.max(1) as f64;
    let follows = with_reads >= FOLLOWS_READS * ratio_of_times(read, watched)?;
    (share >= SLEEPS_SHARE && follows).then(|| {
        Draft::new("slow-reader", share, Confidence::Medium)
            .row(
                "unread_bytes",
                format!(
                    "up to {} while nothing comes, in {} of the time",
                    human::count(lay, "byte"),
                    human::share(share)
                ),
                "close to 0 with a prompt reader",
            )
            .row(
                "bytes_received",
                format!(
                    "{} of it comes in the {} of the time in which the program reads",
                    human::share(with_reads),
                    human::share(ratio_of_times(read, watched).unwrap_or_default())
                ),
                "whenever the sender sends",
            )
            .remark(READS_SLOWLY)
    })
}

/// Evidence, from the sender alone, that the other end's program reads slowly or not at all. A
/// prompt reader behind a small buffer opens the window within a round trip and consumes one window
/// in each.
fn reader_signs(sender: &Timeline) -> Option<String> {
    if let Some((share, longest)) = window_closed(sender)
        && share >= CLOSED_SHARE
    {
        let prompt = CLOSED_TIME.max(sender.srtt()?.saturating_mul(CLOSED_ROUND_TRIPS));
        let most = sender.largest_that_holds(|s| s.snd_wnd_bytes)?;
        let mss = sender.mss_bytes()?;
        // It opens and closes: a prompt reader behind a small buffer keeps it at one size.
        if longest >= prompt || most >= mss.saturating_mul(MOVING_WINDOW_SEGMENTS) {
            return Some(format!(
                "closed in {} of the samples, {} at a stretch",
                human::share(share),
                human::time(longest)
            ));
        }
    }
    if let Some(share) = window_shut(sender).filter(|share| *share >= SHUT_SHARE) {
        return Some(format!(
            "0, and stays so, in {} of the samples",
            human::share(share)
        ));
    }
    if let Some(share) = window_shrinks(sender).filter(|share| *share >= WINDOW_SHRINKS_SHARE) {
        return Some(format!("shrinks in {} of the steps", human::share(share)));
    }
    if let Some(shown) = sparse_acks(sender) {
        return Some(shown);
    }
    // A reader that takes much at a time leaves the window closed in most samples.
    // The program that writes may pause as well: only its busy time tells of the reader.
    let offered = sender.largest_that_holds(|s| s.snd_wnd_bytes)?;
    let prompt = Rate::of(u64::from(offered), sender.srtt()?);
    let busy = sender
        .interval()
        .mul_f64(sender.busy_share()?.max(MIN_BUSY_SHARE));
    let rate = Rate::of(sender.counted(|s| s.bytes_acked)?, busy);
    let of_prompt = rate.bits_per_second() as f64 / prompt.bits_per_second().max(1) as f64;
    // Where the window stops the flow at times only, something else slows it down too.
    (of_prompt < PROMPT_READER_SHARE && sender.rwnd_share()? >= MOSTLY_STOPPED)
        .then(|| format!("{} of a window per round trip", human::share(of_prompt)))
}

/// ACKs that come late and for many segments at a time. A receiver acknowledges two segments at
/// once only where its window opens with them, that is, where its program has read (RFC 9293
/// section 3.8.6.3; in Linux `__tcp_ack_snd_check`); where it has not, the delayed-ACK timer has to
/// run out. A driver that merges segments makes ACKs as few, but not late.
fn sparse_acks(sender: &Timeline) -> Option<String> {
    let acks = AckPattern::of(sender)?;
    let window = sender.median(|s| s.snd_wnd_bytes)? / sender.mss_bytes()?.max(1);
    let by_the_reader = acks.is_sparse()
        && sender.rwnd_share()? >= enough_stopped(sender)
        && window >= SPARSE_ACKS_WINDOW;
    by_the_reader.then(|| {
        format!(
            "an ACK for {:.0} segments, {} late",
            acks.segments,
            human::time(acks.late)
        )
    })
}

/// For how much of its busy time the window has to stop a flow that has no other limit. BBR takes
/// the rate of a slow reader for that of the path and paces to it: it meets the window only where
/// it probes for more, in one round trip of eight (`bbr_pacing_gain`).
fn enough_stopped(sender: &Timeline) -> f64 {
    match is_bbr(sender) {
        true => PROBING_STOPPED,
        false => MOSTLY_STOPPED,
    }
}

/// Whether BBR paces to what the other end's program reads. A path that is full leaves the window
/// alone, or finds it at one size.
pub(crate) fn reader_sets_pace(sender: &Timeline) -> bool {
    let stopped = sender
        .rwnd_share()
        .is_some_and(|share| share >= PROBING_STOPPED);
    is_bbr(sender) && stopped && (window_moves(sender) || sparse_acks(sender).is_some())
}

pub(super) fn is_bbr(sender: &Timeline) -> bool {
    let name = sender.latest(|s| s.congestion);
    name.is_some_and(|name| name.starts_with("bbr"))
}

/// Whether the window shrinks and opens repeatedly: a prompt reader keeps it at one size.
pub(crate) fn window_moves(sender: &Timeline) -> bool {
    let closed = window_closed(sender).is_some_and(|(share, _)| share >= CLOSED_SHARE);
    closed || window_shrinks(sender).is_some_and(|share| share >= WINDOW_SHRINKS_SHARE)
}

/// Share of the samples in which the window has no room for a segment, and the longest stretch of
/// them.
fn window_closed(sender: &Timeline) -> Option<(f64, Duration)> {
    let (mut closed, mut looks) = (0_u32, 0_u32);
    let mut since: Option<base::Instant> = None;
    let mut longest = Duration::ZERO;
    for sample in sender.samples() {
        looks = looks.saturating_add(sample.looks);
        if sample.snd_wnd_bytes? < sample.snd_mss_bytes? {
            closed = closed.saturating_add(sample.looks);
            let begin = *since.get_or_insert(sample.at);
            longest = longest.max(sample.at.since(begin));
        } else {
            since = None;
        }
    }
    (closed > 0).then(|| (f64::from(closed) / f64::from(looks), longest))
}

/// Share of the samples in which the window is 0 and was so for longer than it takes to wake a
/// program: received data fills the buffer, however small that is, and is not read.
fn window_shut(sender: &Timeline) -> Option<f64> {
    sender.vote(|s| Some(s.snd_wnd_bytes? == 0 && s.since_ack_received? >= TICK * 2))
}

/// No window above 65535 bytes was ever possible, because scaling was not agreed. A scale of 0 that
/// was agreed looks alike and is another cause: the receiver chose it, for a buffer as small.
pub(crate) fn window_scaling_off(view: &View<'_>) -> Option<Verdict> {
    let share = stopped_share(view)?;
    let reached = view.window_offered()? as f64 >= f64::from(UNSCALED_WINDOW) * UNSCALED_SHARE;
    // A buffer that is smaller still is another cause, and the nearer one.
    if !reached || view.scaling_agreed() != Some(false) {
        return None;
    }
    let sysctl = BothEnds::read(view, "net.ipv4.tcp_window_scaling");
    let draft = window_draft("window-scaling-off", share, high_if(sysctl.is_off()), view)
        .row("window_scaling", "off", "on")
        .row_if(
            "rcv_wscale",
            view.window_scale()
                .map(|scale| format!("{scale} at the receiver")),
            "above 0",
        )
        .row_if(
            sysctl.name,
            sysctl.is_off().then(|| {
                if sysctl.sender == Some(0) {
                    "0 at the sender"
                } else {
                    "0 at the receiver"
                }
                .into()
            }),
            "1 at both ends",
        )
        .next(next_after_window(view, Live::Reconnect, false))
        .propose_at_both_ends(view, &sysctl);
    Some(draft.remark(
        "Needs a reconnect: scaling is agreed in the SYN (RFC 7323 section 1.3). If the sysctl is \
         on at both ends, a middlebox on the path removes the option.",
    ))
}

/// The receiver's buffer has reached the third value of `tcp_rmem`.
pub(crate) fn tcp_rmem_max_cap(view: &View<'_>) -> Option<Verdict> {
    let receiver = view.receiver?;
    let share = stopped_share(view)?;
    let [min, default, max] = view.tcp_rmem()?;
    let buffer = u64::from(receiver.largest(|s| s.rcvbuf_bytes)?);
    let locked = view.received(|s| s.rcvbuf_locked);
    if locked == Some(true) || (buffer as f64) < max as f64 * AT_CAP {
        return None;
    }
    let need = view.needed_bytes(view.window_offered().unwrap_or(buffer));
    let confidence = high_if(locked == Some(false));
    let grows = view
        .window_offered()
        .is_none_or(|offered| may_grow(view, offered));
    let live = match grows {
        true => live_up_to_ceiling(view, need, Live::Reconnect),
        false => Live::Reconnect,
    };
    Some(
        window_draft("tcp-rmem-max-cap", share, confidence, view)
            .row(
                "rcvbuf_bytes",
                human::count(buffer, "byte"),
                "below the sysctl's maximum",
            )
            .row(
                "net.ipv4.tcp_rmem",
                format!("{min} {default} {max}"),
                "a larger third value",
            )
            .row_if("rcvbuf_locked", locked.map(human::flag), "off")
            .next(next_after_window(view, live, true))
            .propose(
                view.receiver_side(),
                Remedy {
                    knob: "net.ipv4.tcp_rmem",
                    to: raised_maximum(
                        [min, default, max],
                        memory_for(receiver, need).max(USUAL_RMEM_MAX),
                    ),
                    live,
                    risk: "memory: every connection of the network namespace may grow this far",
                },
            )
            .remark(match live {
                Live::Now => "The kernel reads the new maximum when it next sizes the window.",
                _ if !grows => {
                    "Needs a reconnect: the kernel grows a window only when the program reads more \
                     per round trip than it ever did (rcv_space), and it has read more than this \
                     window holds."
                }
                _ => {
                    "Needs a reconnect: the window scale was chosen from the old maximum, and the \
                     window cannot pass what it allows."
                }
            }),
    )
}

/// The receiving program fixed its buffer.
pub(crate) fn rcvbuf_locked(view: &View<'_>) -> Option<Verdict> {
    let share = stopped_share(view)?;
    let receiver = view.receiver?;
    let locked = view.received(|s| s.rcvbuf_locked);
    let buffer = receiver.largest(|s| s.rcvbuf_bytes)?;
    let grows = receiver.smallest(|s| s.rcvbuf_bytes) < Some(buffer);
    // Without the option: a buffer of its own would grow, from its default to the maximum.
    let may_be_fixed = || {
        let rmem = view.tcp_rmem()?;
        Some(!grows && u64::from(buffer) != rmem[1] && (buffer as f64) < rmem[2] as f64 * AT_CAP)
    };
    let confidence = match locked {
        Some(true) => Confidence::High,
        None if may_be_fixed() == Some(true) => Confidence::Medium,
        _ => return None,
    };
    let offered = view.window_offered()?;
    let live = match may_grow(view, offered) {
        true => live_up_to_ceiling(view, view.needed_bytes(offered), Live::Restart),
        false => Live::Restart,
    };
    let keeps = u64::from(view.received(|s| s.sndbuf_locked) == Some(true));
    Some(
        window_draft("rcvbuf-locked", share, confidence, view)
            .row(
                "rcvbuf_bytes",
                human::count(buffer, "byte"),
                "as large as the path needs",
            )
            .row_if("rcvbuf_locked", locked.map(human::flag), "off")
            .row_if(
                "rcv_space_bytes",
                view.received(|s| s.rcv_space_bytes)
                    .filter(|_| !may_grow(view, offered))
                    .map(|most| format!("{} read in a round trip", human::count(most, "byte"))),
                "below the window, so that the kernel may grow it",
            )
            .row_if(
                "rcv_wscale",
                view.window_ceiling()
                    .map(|most| format!("windows up to {}", human::count(most, "byte"))),
                "room for what the path needs",
            )
            .next(next_after_window(view, live, false))
            .propose(
                view.receiver_side(),
                Remedy {
                    knob: "buf_lock",
                    to: KnobValue::Number(keeps),
                    live,
                    risk: "memory: the kernel may grow this buffer up to tcp_rmem's maximum",
                },
            )
            .remark(format!(
                "{} Permanent fix: remove the SO_RCVBUF call.",
                what_unlocking_does(live, may_grow(view, offered))
            )),
    )
}

fn what_unlocking_does(live: Live, may_grow: bool) -> &'static str {
    match live {
        Live::Now => "Unlocked on the live socket, the window grows at once.",
        _ if !may_grow => {
            "Needs a reconnect without SO_RCVBUF: the kernel grows a window only when the program \
             reads more per round trip than it ever did (rcv_space), and this window was larger \
             before the call."
        }
        _ => {
            "Needs a restart of the listening program (or a reconnect of the one that connects) \
             without SO_RCVBUF: the window scale was chosen from the small buffer, and the window \
             cannot pass what it allows."
        }
    }
}

/// Whether the kernel would grow the window if it were allowed to: it does when more was read in a
/// round trip than in any before (`tcp_rcv_space_adjust`), and no more than a window can arrive in
/// one: a reader that has taken a whole one takes no more. Where the program shrank its buffer on
/// the open connection, a larger one did once.
fn may_grow(view: &View<'_>, offered: u64) -> bool {
    let most_read = view.received(|s| s.rcv_space_bytes);
    most_read.is_none_or(|most| u64::from(most) < offered)
}

/// The receiver's kernel does not grow buffers: `tcp_moderate_rcvbuf` is off, and the buffer stands
/// at its default.
pub(crate) fn rmem_autotuning_off(view: &View<'_>) -> Option<Verdict> {
    let share = stopped_share(view)?;
    let receiver = view.receiver?;
    let sysctl = view.receiver_host?.sysctl_number(MODERATE)?;
    let locked = view.received(|s| s.rcvbuf_locked);
    let buffer = receiver.largest(|s| s.rcvbuf_bytes)?;
    if sysctl != 0 || locked == Some(true) {
        return None;
    }
    let offered = view.window_offered()?;
    let live = match may_grow(view, offered) {
        true => live_up_to_ceiling(view, view.needed_bytes(offered), Live::Reconnect),
        false => Live::Reconnect,
    };
    Some(
        window_draft("rmem-autotuning-off", share, Confidence::High, view)
            .row(MODERATE, sysctl.to_string(), "1")
            .row(
                "rcvbuf_bytes",
                human::count(buffer, "byte"),
                "as large as the path needs",
            )
            .row_if("rcvbuf_locked", locked.map(human::flag), "off")
            .next(next_after_window(view, live, false))
            .propose(
                view.receiver_side(),
                Remedy {
                    knob: MODERATE,
                    to: KnobValue::Flag(true),
                    live,
                    risk: "memory: buffers may grow up to tcp_rmem's maximum",
                },
            )
            .remark(match live {
                Live::Now => "The kernel reads the sysctl whenever the program has read.",
                _ if !may_grow(view, offered) => {
                    "Needs a reconnect: the kernel grows a window only when the program reads more \
                     per round trip than it ever did (rcv_space), and it has read more than this \
                     window holds."
                }
                _ => "Needs a reconnect: the window scale does not allow what the path needs.",
            }),
    )
}

/// The window decides, and nothing of what is visible here says why.
pub(crate) fn peer_window(view: &View<'_>) -> Option<Verdict> {
    let share = stopped_share(view)?;
    let scale = view.window_scale();
    let remark = if scale == Some(0) && view.scaling_agreed() == Some(true) {
        "Needs a reconnect, and a restart of a program that listens: the scale 0 was chosen in \
         the SYN because of a small SO_RCVBUF, TCP_WINDOW_CLAMP or the route attribute `window` at \
         the receiver, and no later change raises it."
    } else if scale == Some(0) && view.received(|s| s.rcvbuf_bytes).is_none() {
        "Needs a look at the receiver, or at the SYN of a new connection: no window is larger than \
         64 KiB, because window scaling is off (net.ipv4.tcp_window_scaling at either end), or \
         because the program there set a small buffer (SO_RCVBUF)."
    } else if view.received(|s| s.rcvbuf_bytes).is_some() {
        "No TCP setting helps, because none limits the window: it may still be growing. Measure \
         longer (-t)."
    } else {
        "Needs a second measurement, at the receiver: tcptailor diagnose there shows whether its \
         program reads too slowly, set a fixed buffer (SO_RCVBUF), or is limited by a sysctl."
    };
    let limit = base::Limit::PeerWindow;
    Some(
        window_draft("peer-window", share, Confidence::High, view)
            .row_if(
                "rcv_wscale",
                scale.map(|scale| format!("{scale} at the receiver")),
                "above 0 where windows exceed 64 KiB",
            )
            .next(next_limit(view, limit))
            .remark(remark),
    )
}

/// Share of the time in which the window stops the sender, where that is the limit.
pub(super) fn stopped_share(view: &View<'_>) -> Option<f64> {
    if let Some(sender) = view.sender {
        let share = view.rwnd_share().filter(|_| view.window_bound())?;
        let held = if view.reader_sets_pace() { 1.0 } else { share };
        return Some(held * sender.busy_share().unwrap_or(1.0));
    }
    // Only the receiver is seen: a whole window arrives in each round trip. Where it stands in a
    // queue for a part of that, a larger one would only make the queue longer.
    let receiver = view
        .receiver
        .filter(|_| standing_for_receiver(view).is_none())?;
    let per_round_trip = Rate::of(view.window_offered()?, view.min_rtt()?);
    let rate = receiver.receive_rate()?;
    let share = rate.bits_per_second() as f64 / per_round_trip.bits_per_second().max(1) as f64;
    match share >= WINDOW_PER_RTT_SHARE {
        true => Some(share.min(1.0)),
        false => stopped_in_bursts(receiver, view.window_offered()?, view.min_rtt()?),
    }
}

/// The same of a sender that pauses, seen at the receiver: while data comes, a whole window arrives
/// in each round trip, and each burst is of several, so that it is not just what the sender had.
fn stopped_in_bursts(receiver: &Timeline, offered: u64, min_rtt: Duration) -> Option<f64> {
    let quiet = min_rtt.saturating_mul(PAUSE_ROUND_TRIPS) + TICK * 2;
    let (mut comes, mut arrived, mut bursts) = (Duration::ZERO, 0_u64, 0_u64);
    let mut pauses = true;
    let samples: Vec<&FlowSample> = receiver.samples().collect();
    for pair in samples.windows(2) {
        let [before, after] = pair else { continue };
        arrived += after.bytes_received?.checked_sub(before.bytes_received?)?;
        if after.since_data_received? >= quiet {
            pauses = true;
            continue;
        }
        comes += after.at.since(before.at);
        bursts += u64::from(pauses);
        pauses = false;
    }
    let per_burst = arrived.checked_div(bursts)?;
    let per_round_trip = Rate::of(offered, min_rtt).bits_per_second().max(1) as f64;
    let share = Rate::of(arrived, comes).bits_per_second() as f64 / per_round_trip;
    let part = ratio_of_times(comes, receiver.interval())?;
    let is_filled = share >= WINDOW_PER_RTT_SHARE && per_burst >= BURST_WINDOWS * offered;
    (is_filled && part >= WINDOW_SHARE).then_some(part * share.min(1.0))
}

/// The rows that all limits of the window share.
fn window_draft(id: &'static str, share: f64, sure: Confidence, view: &View<'_>) -> Draft {
    let stopped = view.rwnd_share();
    let enough = match view.window_sets_pace() {
        true => PROBING_STOPPED,
        false => WINDOW_SHARE,
    };
    let offered = view.window_offered();
    // Where that is far from what is carried, and within a machine, it tells nothing.
    let is_near = |rate: &Rate| {
        let carried = view.rate().unwrap_or_default().bits_per_second() as f64;
        rate.bits_per_second() as f64 <= carried * TELLING_FACTOR
    };
    let round_trip = view.min_rtt().filter(|rtt| *rtt >= LOCAL_RTT);
    let per_round_trip = offered
        .zip(round_trip)
        .map(|(bytes, rtt)| Rate::of(bytes, rtt))
        .filter(is_near);
    Draft::new(id, share, sure)
        .row_if(
            "rwnd_limited_time",
            stopped.map(|share| format!("{} of the busy time", human::share(share))),
            format!("above {}", human::share(enough)),
        )
        .row_if(
            "snd_wnd_bytes",
            offered.map(|bytes| format!("at most {}", human::count(bytes, "byte"))),
            "more than the bandwidth-delay product",
        )
        .row_if(
            "bytes_acked",
            view.rate().map(human::rate),
            per_round_trip.map_or_else(
                || "one window per round trip".into(),
                |rate| format!("one window per RTT is {}", human::rate(rate)),
            ),
        )
        // The rest of the time counts as that of congestion control.
        .row_if(
            "pacing_rate",
            view.sent(|s| s.pacing_rate)
                .filter(|_| view.reader_sets_pace())
                .map(human::rate),
            "the path's, for which BBR takes what the program reads",
        )
}

/// Share of the receiver's samples with much unread data.
pub(crate) fn unread_share(view: &View<'_>) -> Option<f64> {
    let receiver = view.receiver?;
    let much = receiver.vote_of_all(|s| {
        let limit = f64::from(s.rcvbuf_bytes?);
        let unread = f64::from(s.unread_bytes?);
        let memory = s.rmem_bytes.map(f64::from);
        let fills = memory.is_some_and(|memory| memory >= limit * RECEIVE_MEMORY_SHARE);
        Some(unread >= limit * UNREAD_SHARE || (unread > 0.0 && fills))
    })?;
    // It reads at times, and never all that has come.
    let left = receiver.vote_of_all(|s| {
        let limit = f64::from(s.rcvbuf_bytes?);
        Some(f64::from(s.unread_bytes?) >= limit * NEVER_READ_SHARE)
    });
    Some(
        left.filter(|left| *left >= NEVER_READ_VOTES)
            .map_or(much, |left| much.max(left)),
    )
}

/// Share of the steps from sample to sample in which the window shrinks.
fn window_shrinks(sender: &Timeline) -> Option<f64> {
    let windows: Vec<f64> = sender
        .samples()
        .filter_map(|s| s.snd_wnd_bytes)
        .map(f64::from)
        .collect();
    let steps = windows.len().checked_sub(1).filter(|steps| *steps > 0)?;
    let shrinks = |pair: &&[f64]| pair[1] < pair[0] * (1.0 - WINDOW_SHRINKS_BY);
    Some(windows.windows(2).filter(shrinks).count() as f64 / steps as f64)
}

/// On the open connection where its window scale leaves room for the need.
fn live_up_to_ceiling(view: &View<'_>, need: u64, otherwise: Live) -> Live {
    match view.window_ceiling() {
        Some(ceiling) if ceiling < need => otherwise,
        _ => Live::Now,
    }
}

/// Memory of a buffer that holds twice `window` bytes of payload: the ratio is that of the present
/// buffer (`rcv_ssthresh / rcvbuf`), one half where it is unknown.
fn memory_for(receiver: &Timeline, window: u64) -> u64 {
    let ratio = receiver
        .largest(|s| s.rcv_ssthresh_bytes)
        .zip(
            receiver
                .largest(|s| s.rcvbuf_bytes)
                .filter(|buffer| *buffer > 0),
        )
        .map_or(0.5, |(payload, memory)| {
            f64::from(payload) / f64::from(memory)
        })
        .clamp(0.1, 1.0);
    (window as f64 * 2.0 / ratio) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{FlowKey, Instant};

    /// A window of 100 segments in flight, of which each ACK is for this many, over 2 ms; the last
    /// ACK before a look each 10 ms came at most `late` ms ago. The peer's window is never full.
    fn acked_by(segments: u64, late: u64) -> Timeline {
        acked_of(100, segments, late)
    }

    /// The same of a window of so many segments.
    fn acked_of(window: u32, segments: u64, late: u64) -> Timeline {
        let key = FlowKey {
            local: ([10, 0, 0, 1], 80).into(),
            remote: ([10, 0, 0, 2], 40_000).into(),
        };
        let mut timeline = Timeline::new();
        for look in 0..500_u64 {
            let at = Instant::ZERO + Duration::from_millis(10 * look);
            let acked = look * 10 / late * segments * 1448;
            timeline.push(FlowSample {
                snd_mss_bytes: Some(1448),
                snd_wnd_bytes: Some(25_000_000),
                min_rtt: Some(Duration::from_millis(2)),
                unacked_pkts: Some(window),
                cwnd_pkts: Some(window),
                notsent_bytes: Some(1_000_000),
                bytes_acked: Some(acked),
                bytes_sent: Some(acked + u64::from(window) * 1448),
                data_segs_in: Some(0),
                since_ack_received: Some(Duration::from_millis(look * 10 % late)),
                ..FlowSample::empty(at, key)
            });
        }
        timeline
    }

    #[test]
    fn one_ack_for_all_when_the_timer_has_run_out_is_a_program_that_does_not_read() {
        let verdict = reader_delays_acks(&acked_by(100, 40)).expect("a verdict");
        assert_eq!(verdict.diagnosis.id, "slow-reader");
        // The same on a path that takes as long by itself.
        let mut far = Timeline::new();
        for sample in acked_by(100, 40).samples() {
            far.push(FlowSample {
                min_rtt: Some(Duration::from_millis(35)),
                ..sample.clone()
            });
        }
        assert!(reader_delays_acks(&far).is_none());
    }

    #[test]
    fn a_short_queue_keeps_the_window_before_a_sleeping_reader_small() {
        let verdict = reader_delays_acks(&acked_of(10, 10, 30)).expect("a verdict");
        assert_eq!(verdict.diagnosis.id, "slow-reader");
        assert!(reader_delays_acks(&acked_of(10, 2, 30)).is_none(), "parts");
        assert!(
            reader_delays_acks(&acked_of(4, 4, 30)).is_none(),
            "one or two ACKs are all there are"
        );
    }

    /// Looks each 10 ms at a receiver 40 ms away: in each second `windows` of 80 kB come, one
    /// in each round trip.
    fn bursts(windows: u64) -> Timeline {
        let key = FlowKey {
            local: ([10, 0, 0, 1], 40_000).into(),
            remote: ([10, 0, 0, 2], 80).into(),
        };
        let (mut timeline, mut quiet) = (Timeline::new(), 0);
        for look in 0..500_u64 {
            let (second, step) = (look / 100, look % 100);
            let came = (step * 20_000).min(windows * 80_000);
            quiet = match came < windows * 80_000 {
                true => 0,
                false => quiet + 10,
            };
            timeline.push(FlowSample {
                snd_mss_bytes: Some(1448),
                bytes_received: Some(second * windows * 80_000 + came),
                since_data_received: Some(Duration::from_millis(quiet)),
                ..FlowSample::empty(Instant::ZERO + Duration::from_millis(10 * look), key)
            });
        }
        timeline
    }

    #[test]
    fn a_window_in_each_round_trip_of_a_burst_stops_a_sender_that_pauses() {
        let check = |windows, expected: bool| {
            let timeline = bursts(windows);
            let share = stopped_in_bursts(&timeline, 80_000, Duration::from_millis(40));
            assert_eq!(share.is_some(), expected, "{windows}: {share:?}");
        };
        check(12, true);
        // What the sender had is little more than a window.
        check(2, false);
        // It comes at less than a window each round trip.
        let slower = stopped_in_bursts(&bursts(12), 200_000, Duration::from_millis(40));
        assert_eq!(slower, None);
    }

    /// Samples every 10 ms of a program that reads all there is each 40 ms. 30 segments come in the
    /// 10 ms behind that, or a quarter of them in each look, whatever it does.
    fn sleeps(is_held: bool) -> Timeline {
        let key = FlowKey {
            local: ([10, 0, 0, 1], 40_000).into(),
            remote: ([10, 0, 0, 2], 80).into(),
        };
        let (mut timeline, mut unread, mut received) = (Timeline::new(), 0_u32, 0_u64);
        for look in 0..500_u64 {
            let phase = look % 4;
            if phase == 0 {
                unread = 0;
            }
            let comes = match (is_held, phase) {
                (true, 0) => 30 * 1448,
                (true, _) => 0,
                (false, _) => 7 * 1448,
            };
            (unread, received) = (unread + comes, received + u64::from(comes));
            let quiet = if is_held { 10 * phase } else { 0 };
            timeline.push(FlowSample {
                snd_mss_bytes: Some(1448),
                min_rtt: Some(Duration::from_millis(1)),
                rcvbuf_bytes: Some(4_000_000),
                rmem_bytes: Some(unread * 2),
                unread_bytes: Some(unread),
                bytes_received: Some(received),
                since_data_received: Some(Duration::from_millis(quiet)),
                ..FlowSample::empty(Instant::ZERO + Duration::from_millis(10 * look), key)
            });
        }
        timeline
    }

    #[test]
    fn data_that_comes_when_what_came_before_was_read_waits_for_the_reader() {
        let verdict = sleeps_on_data(&sleeps(true)).expect("a verdict");
        assert_eq!(verdict.diagnosis.id, "slow-reader");
        assert!(sleeps_on_data(&sleeps(false)).is_none(), "it comes anyway");
    }

    #[test]
    fn acks_for_parts_or_at_once_or_later_than_the_timer_are_no_sleeping_reader() {
        assert!(reader_delays_acks(&acked_by(20, 40)).is_none(), "a queue");
        assert!(reader_delays_acks(&acked_by(100, 10)).is_none(), "at once");
        assert!(reader_delays_acks(&acked_by(100, 200)).is_none(), "later");
    }
}
