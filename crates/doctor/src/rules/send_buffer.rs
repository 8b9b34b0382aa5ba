//! The sender's buffer: fixed by the program, capped by a sysctl, or next to nothing.
//!
//! `sndbuf_limited_time` is of no use (0 in 11 of 12 flows that were limited so): the signal is
//! memory in use up to the limit while nothing waits to be sent and every window has room.

use base::{KnobValue, Limit, Live, human};

use super::draft::{Draft, Remedy, high_if, raised_maximum};
use super::loss::WindowCuts;
use super::next::next_limit;
use super::small_writes::of_all_time;
use super::steady::{drops_large_windows, losses_behind_queue};
use super::thresholds::{
    AT_CAP, BBR_BDPS, BUFFERS_OF_A_TRANSFER, FEW_SEGMENTS, FIXED_BUFFER_SHARE,
    FIXED_BUFFER_SHARE_CUT, FULL_BUFFER, MEMORY_PER_SEGMENT, MIN_SAMPLES, QUEUED_BDPS,
    SEND_BUFFER_SHARE, SMALL_SEGMENT, SMALLEST_SNDBUF, USUAL_WMEM_MAX, WAKE_SHARE,
};
use crate::timeline::{Timeline, cwnd_room_pkts, window_room_bytes};
use crate::verdict::{Confidence, Verdict};
use crate::view::View;

/// The kernel's smallest buffer, asked for by the program.
pub(crate) fn sndbuf_tiny(view: &View<'_>) -> Option<Verdict> {
    let full = Full::of(view)?;
    let limit = view.sent(|s| s.sndbuf_bytes)?;
    let locked = view.sent(|s| s.sndbuf_locked);
    if limit > SMALLEST_SNDBUF || locked == Some(false) {
        return None;
    }
    let remark = "Permanent fix: remove the SO_SNDBUF call. Zero does not mean \"copy nothing\" on \
                  Linux: it is the smallest buffer.";
    let confidence = full.sure_if(locked == Some(true));
    Some(
        full.draft("sndbuf-tiny", confidence, view)?
            .propose(view.sender_side, unlock(view))
            .remark(remark),
    )
}

/// A buffer that the program fixed.
pub(crate) fn sndbuf_locked(view: &View<'_>) -> Option<Verdict> {
    let full = Full::of(view)?;
    let sender = view.sender?;
    let confidence = match view.sent(|s| s.sndbuf_locked) {
        Some(true) => full.sure_if(true),
        Some(false) => return None,
        // Not visible: an own buffer would grow, up to its sysctl.
        None if is_at_cap(view) == Some(true) || grows(sender) => return None,
        None => Confidence::Medium,
    };
    let remark = "Permanent fix: remove the SO_SNDBUF call. If what waits in the buffer grows \
                  stale, set TCP_NOTSENT_LOWAT (16 to 128 KiB) instead.";
    Some(
        full.draft("sndbuf-locked", confidence, view)?
            .propose(view.sender_side, unlock(view))
            .remark(remark),
    )
}

/// A buffer that has reached the third value of `tcp_wmem`.
pub(crate) fn tcp_wmem_max_cap(view: &View<'_>) -> Option<Verdict> {
    let full = Full::of(view)?;
    let [min, default, max] = view.tcp_wmem()?;
    let locked = view.sent(|s| s.sndbuf_locked);
    let sender = view.sender?;
    // Tiny segments use up any buffer, because each is charged some 800 bytes more: no cause.
    if locked == Some(true) || is_at_cap(view) != Some(true) || sends_small_segments(sender) {
        return None;
    }
    let present = sender.largest(base::FlowSample::bytes_out).unwrap_or(0);
    let mss = u64::from(sender.mss_bytes()?);
    let segments = view.needed_bytes(present).div_ceil(mss);
    let memory = segments.saturating_mul(2 * MEMORY_PER_SEGMENT);
    let confidence = full.sure_if(locked == Some(false));
    Some(
        full.draft("tcp-wmem-max-cap", confidence, view)?
            .row(
                "net.ipv4.tcp_wmem",
                format!("{min} {default} {max}"),
                "a larger third value",
            )
            .propose(
                view.sender_side,
                Remedy {
                    knob: "net.ipv4.tcp_wmem",
                    to: raised_maximum([min, default, max], memory.max(USUAL_WMEM_MAX)),
                    live: Live::Now,
                    risk: "memory: every connection of the network namespace may grow this far",
                },
            )
            .remark("The kernel reads the new maximum when it next grows the buffer."),
    )
}

/// A send buffer that is all that stops the flow, often enough for a verdict.
struct Full {
    /// Share of active samples in which it stops the flow.
    share: f64,
    /// Least such share for a verdict.
    enough: f64,
}

impl Full {
    fn of(view: &View<'_>) -> Option<Self> {
        let sender = view.sender?;
        let locked = view.sent(|s| s.sndbuf_locked) == Some(true);
        let fixed = locked || is_at_cap(view) == Some(true);
        // Bursts as large as the buffer may overflow a short queue. After each, the window stops
        // the flow, until it has grown to the same size again.
        let overflows = || {
            view.has_no_queue()
                && (WindowCuts::of(sender).are_at_one_size()
                    || drops_large_windows(view).is_some()
                    || losses_behind_queue(view).is_some())
        };
        let (used, enough) = match fixed {
            true if locked && overflows() => (WAKE_SHARE, FIXED_BUFFER_SHARE_CUT),
            true => (WAKE_SHARE, FIXED_BUFFER_SHARE),
            false => (FULL_BUFFER, SEND_BUFFER_SHARE),
        };
        let share = all_sent_share(sender, used, fixed)?;
        let is_limit = share >= enough
            && !queues(sender)
            && !view.many_stand_in_queue()
            && !view.repairs_without_sack()
            && !holds_what_bbr_wants(view);
        is_limit.then_some(Self { share, enough })
    }

    /// How sure a verdict is, where it is known who fixed the buffer.
    fn sure_if(&self, known: bool) -> Confidence {
        high_if(known && self.share >= FIXED_BUFFER_SHARE)
    }

    /// The rows that all of these share.
    fn draft(&self, id: &'static str, sure: Confidence, view: &View<'_>) -> Option<Draft> {
        let sender = view.sender?;
        let full = format!(
            "full with nothing unsent, in {} of the samples",
            human::share(self.share)
        );
        Some(
            Draft::new(id, of_all_time(sender, self.share), sure)
                .row(
                    "wmem_queued_bytes",
                    format!(
                        "{}, {full}",
                        human::count(sender.median(|s| s.wmem_queued_bytes)?, "byte")
                    ),
                    format!(
                        "below two thirds of the limit, or less than {} so",
                        human::share(self.enough)
                    ),
                )
                .row(
                    "sndbuf_bytes",
                    human::count(view.sent(|s| s.sndbuf_bytes)?, "byte"),
                    "as the path needs",
                )
                .row_if(
                    "sndbuf_locked",
                    view.sent(|s| s.sndbuf_locked).map(human::flag),
                    "off",
                )
                .row_if(
                    "cwnd_pkts",
                    sender
                        .median(cwnd_room_pkts)
                        .map(|room| format!("room for {room} segments more")),
                    "full if the path were the limit",
                )
                .next(next_limit(view, Limit::SendBuffer)),
        )
    }
}

/// Share of active samples in which this much of the buffer is in use and all of it has been sent,
/// while every window has room.
fn all_sent_share(sender: &Timeline, used: f64, fixed: bool) -> Option<f64> {
    sender.vote(|s| {
        let mss = u64::from(s.snd_mss_bytes?);
        let full = f64::from(s.wmem_queued_bytes?) >= f64::from(s.sndbuf_bytes?) * used;
        let all_sent = u64::from(s.notsent_bytes?) < 2 * mss;
        // cwnd grows only while it is full, so a buffer that is known to be fixed may fill it.
        let has_cwnd = fixed || cwnd_room_pkts(s)? >= 2;
        Some(full && all_sent && has_cwnd && window_room_bytes(s).is_none_or(|room| room > mss))
    })
}

/// Whether a buffer that the program fixed stops a transfer of many of them: that shows in a
/// connection however short, and its slow start is not what it waits for.
pub(crate) fn fixed_buffer_stops(sender: &Timeline) -> bool {
    let many = || {
        let sent = sender.latest(|s| s.bytes_acked)?;
        let buffer = u64::from(sender.latest(|s| s.sndbuf_bytes)?);
        Some(sent >= buffer.saturating_mul(BUFFERS_OF_A_TRANSFER))
    };
    let stops = || Some(all_sent_share(sender, WAKE_SHARE, true)? >= FIXED_BUFFER_SHARE);
    sender.latest(|s| s.sndbuf_locked) == Some(true)
        && sender.looks() >= MIN_SAMPLES
        && many() == Some(true)
        && stops() == Some(true)
}

fn sends_small_segments(sender: &Timeline) -> bool {
    let (segment, mss) = (sender.segment_bytes(), sender.mss_bytes());
    segment
        .zip(mss)
        .is_some_and(|(segment, mss)| (segment as f64) < f64::from(mss) * SMALL_SEGMENT)
}

/// More in flight than the path holds: the path is full and a larger buffer only grows its queue.
/// A few segments are no queue, however short the path is (one is 64 KiB long on loopback).
fn queues(sender: &Timeline) -> bool {
    let out = sender.median(base::FlowSample::bytes_out);
    let few = sender
        .mss_bytes()
        .map_or(0, |mss| u64::from(mss) * FEW_SEGMENTS);
    match (out, sender.bdp_bytes()) {
        (Some(out), Some(bdp)) if bdp > 0 => out > few && out as f64 > bdp as f64 * QUEUED_BDPS,
        _ => false,
    }
}

/// BBR keeps about two products of the path in flight, whether it needs them or not: a buffer that
/// lets it deliver the bandwidth that it found is not a limit.
fn holds_what_bbr_wants(view: &View<'_>) -> bool {
    let enough = || {
        let bbr = view.sent(|s| s.bbr)?;
        let out = view.sender?.median(base::FlowSample::bytes_out)? as f64;
        Some(out >= bbr.bandwidth.bdp_bytes(bbr.min_rtt) as f64 * BBR_BDPS)
    };
    view.is_bbr() && enough() == Some(true)
}

fn grows(sender: &Timeline) -> bool {
    sender.smallest(|s| s.sndbuf_bytes) < sender.largest(|s| s.sndbuf_bytes)
}

fn is_at_cap(view: &View<'_>) -> Option<bool> {
    let limit = view.sent(|s| s.sndbuf_bytes)?;
    Some(f64::from(limit) >= view.tcp_wmem()?[2] as f64 * AT_CAP)
}

fn unlock(view: &View<'_>) -> Remedy {
    let keeps = if view.sent(|s| s.rcvbuf_locked) == Some(true) {
        2
    } else {
        0
    };
    Remedy {
        knob: "buf_lock",
        to: KnobValue::Number(keeps),
        live: Live::Now,
        risk: "memory, and older data in the buffer, up to tcp_wmem's maximum",
    }
}
