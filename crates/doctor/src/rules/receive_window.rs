//! The peer's window: a slow reader, a fixed buffer, a sysctl, no scaling.
//!
//! From the sender alone these look alike; the receiver's socket tells them apart. Where only the
//! receiver is visible, its buffers stand in for the sender's clock of window-limited time.

use base::{KnobValue, Live, Rate, human};

use super::draft::{BothEnds, Draft, Step, high_if, raised_maximum};
use super::next::next_limit;
use super::thresholds::{
    AT_CAP, RECEIVE_MEMORY_SHARE, UNREAD_SHARE, UNREAD_VOTES, UNSCALED_SHARE, UNSCALED_WINDOW,
    USUAL_RMEM_MAX, WINDOW_PER_RTT_SHARE, WINDOW_SHARE, WINDOW_SHRINKS_BY, WINDOW_SHRINKS_SHARE,
};
use crate::timeline::Timeline;
use crate::verdict::{Confidence, Verdict};
use crate::view::View;

/// The receiving program leaves data unread.
pub(crate) fn slow_reader(view: &View<'_>) -> Option<Verdict> {
    let held = stopped_share(view);
    let unread = unread_share(view);
    let (share, confidence) = match (view.receiver, unread) {
        (Some(_), Some(unread)) if unread < UNREAD_VOTES => return None,
        (Some(_), Some(_)) if view.sender.is_some() => (held?, Confidence::High),
        (Some(_), Some(unread)) => (unread, Confidence::Medium),
        _ => {
            // Only the sender is seen: a reader moves the window, a small buffer does not.
            (window_shrinks(view.sender?)? >= WINDOW_SHRINKS_SHARE).then_some(())?;
            (held?, Confidence::Low)
        }
    };
    let waiting = view.receiver.and_then(|receiver| {
        let bytes = receiver.median(|s| s.unread_bytes)?;
        Some(format!("{} wait", human::count(bytes, "byte")))
    });
    let shrinks = view.sender.and_then(window_shrinks);
    Some(
        window_draft("slow-reader", share, confidence, view)
            .row_if("unread_bytes", waiting, "close to 0 with a prompt reader")
            .row_if(
                "snd_wnd_bytes",
                shrinks.map(|share| format!("shrinks in {} of the steps", human::share(share))),
                "constant with a small buffer",
            )
            .remark(
                "No TCP setting helps, because the receiving program is the limit: a larger \
                 buffer would only hold more unread data. In that program: read more at a time, \
                 in a thread of its own, with less work per read.",
            ),
    )
}

/// No window above 65535 bytes was ever possible.
pub(crate) fn window_scaling_off(view: &View<'_>) -> Option<Verdict> {
    let share = stopped_share(view)?;
    let agreed = view.scaling_agreed();
    let unscaled =
        view.window_scale() == Some(0) && view.received(|s| s.rcvbuf_locked) != Some(true);
    let reached = view.window_offered()? as f64 >= f64::from(UNSCALED_WINDOW) * UNSCALED_SHARE;
    // A buffer that is smaller still is another cause, and the nearer one.
    if !reached || !(agreed == Some(false) || unscaled) {
        return None;
    }
    let sysctl = BothEnds::read(view, "net.ipv4.tcp_window_scaling");
    let mut draft = window_draft("window-scaling-off", share, high_if(sysctl.is_off()), view)
        .row_if("window_scaling", agreed.map(human::flag), "on")
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
        .next(next_limit(view, base::Limit::PeerWindow));
    if agreed == Some(false) {
        draft = draft.propose_at_both_ends(view, &sysctl);
    }
    Some(draft.remark(if agreed == Some(false) {
        "Needs a reconnect: scaling is agreed in the SYN (RFC 7323 section 1.3). If the sysctl is \
         on at both ends, a middlebox on the path removes the option."
    } else {
        "Needs a reconnect, and a restart of a program that listens: the scale 0 was chosen in \
         the SYN because of a small SO_RCVBUF, TCP_WINDOW_CLAMP or the route attribute `window` at \
         the receiver, and no later change raises it."
    }))
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
    let live = live_up_to_ceiling(view, need, Live::Reconnect);
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
            .next(next_limit(view, base::Limit::PeerWindow))
            .propose(
                view.receiver_side(),
                Step {
                    knob: "net.ipv4.tcp_rmem",
                    to: raised_maximum(
                        [min, default, max],
                        memory_for(receiver, need).max(USUAL_RMEM_MAX),
                    ),
                    live,
                    risk: "memory: every connection of the namespace may grow so far",
                },
            )
            .remark(match live {
                Live::Now => "The kernel reads the new maximum when it next sizes the window.",
                _ => {
                    "Needs a reconnect: the window scale was chosen from the old maximum, and the \
                     window cannot pass what it allows."
                }
            }),
    )
}

/// The receiving program fixed its buffer; or, seen from the sender alone, a buffer that is small
/// for a reason that only the receiver shows.
pub(crate) fn rcvbuf_locked(view: &View<'_>) -> Option<Verdict> {
    let share = stopped_share(view)?;
    let locked = view.received(|s| s.rcvbuf_locked);
    let buffer = view
        .receiver
        .and_then(|receiver| receiver.largest(|s| s.rcvbuf_bytes));
    if locked == Some(false) {
        return None;
    }
    let grows = view.receiver.is_some_and(|receiver| {
        receiver.smallest(|s| s.rcvbuf_bytes) < receiver.largest(|s| s.rcvbuf_bytes)
    });
    if locked.is_none() && grows {
        return None;
    }
    let confidence = match (locked, buffer) {
        (Some(true), _) => Confidence::High,
        (_, Some(_)) => Confidence::Medium,
        _ => Confidence::Low,
    };
    let offered = view.window_offered()?;
    let live = live_up_to_ceiling(view, view.needed_bytes(offered), Live::Restart);
    let keeps = u64::from(view.received(|s| s.sndbuf_locked) == Some(true));
    let fixed_end = if view.receiver.is_some() {
        ""
    } else {
        " (this end cannot see which)"
    };
    Some(
        window_draft("rcvbuf-locked", share, confidence, view)
            .row_if(
                "rcvbuf_bytes",
                buffer.map(|bytes| human::count(bytes, "byte")),
                "as large as the path needs",
            )
            .row_if("rcvbuf_locked", locked.map(human::flag), "off")
            .row_if(
                "rcv_wscale",
                view.window_ceiling()
                    .map(|most| format!("windows up to {}", human::count(most, "byte"))),
                "room for what the path needs",
            )
            .next(next_limit(view, base::Limit::PeerWindow))
            .propose(
                view.receiver_side(),
                Step {
                    knob: "buf_lock",
                    to: KnobValue::Number(keeps),
                    live,
                    risk: "memory: the kernel may grow this buffer up to tcp_rmem's maximum",
                },
            )
            .remark(format!(
                "{} Lastingly: remove the SO_RCVBUF call, or raise tcp_rmem where there is none\
                 {fixed_end}.",
                match live {
                    Live::Now => "Unlocked on the live socket, the window grows at once.",
                    _ => {
                        "Needs a restart of the listening program (or a reconnect of the one that \
                         connects) without SO_RCVBUF: the window scale was chosen from the small \
                         buffer, and the window cannot pass what it allows."
                    }
                }
            )),
    )
}

/// Share of the time in which the window stops the sender, where that is the limit.
fn stopped_share(view: &View<'_>) -> Option<f64> {
    if let Some(sender) = view.sender {
        let share = view.rwnd_share().filter(|_| view.window_bound())?;
        return Some(share * sender.busy_share().unwrap_or(1.0));
    }
    // Only the receiver is seen: a whole window arrives in each round trip.
    let receiver = view.receiver?;
    let per_round_trip = Rate::of(view.window_offered()?, view.min_rtt()?);
    let rate = receiver.receive_rate()?;
    let share = rate.bits_per_second() as f64 / per_round_trip.bits_per_second().max(1) as f64;
    (share >= WINDOW_PER_RTT_SHARE).then_some(share.min(1.0))
}

/// The rows that all limits of the window share.
fn window_draft(id: &'static str, share: f64, sure: Confidence, view: &View<'_>) -> Draft {
    let stopped = view.rwnd_share();
    let offered = view.window_offered();
    let per_round_trip = offered
        .zip(view.min_rtt())
        .map(|(bytes, rtt)| Rate::of(bytes, rtt));
    Draft::new(id, share, sure)
        .row_if(
            "rwnd_limited_time",
            stopped.map(|share| format!("{} of the busy time", human::share(share))),
            format!("above {}", human::share(WINDOW_SHARE)),
        )
        .row_if(
            "snd_wnd_bytes",
            offered.map(|bytes| format!("at most {}", human::count(bytes, "byte"))),
            "more than the path holds",
        )
        .row_if(
            "bytes_acked",
            view.rate().map(human::rate),
            per_round_trip.map_or_else(
                || "one window per round trip".into(),
                |rate| format!("one window per round trip is {}", human::rate(rate)),
            ),
        )
}

/// Share of the receiver's samples with much unread data.
fn unread_share(view: &View<'_>) -> Option<f64> {
    view.receiver?.vote_of_all(|s| {
        let limit = f64::from(s.rcvbuf_bytes?);
        let unread = f64::from(s.unread_bytes?);
        let memory = s.rmem_bytes.map(f64::from);
        let fills = memory.is_some_and(|memory| memory >= limit * RECEIVE_MEMORY_SHARE);
        Some(unread >= limit * UNREAD_SHARE || (unread > 0.0 && fills))
    })
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
