//! The limit that follows once the present one is gone.

use base::{Limit, Live, Rate, human};

use super::thresholds::{LOCAL_RTT, WORTHWHILE_GAIN};
use crate::timeline::Timeline;
use crate::verdict::NextLimit;
use crate::view::View;

/// The smallest of the bounds on the rate that do not belong to `present`, on this connection.
pub(crate) fn next_limit(view: &View<'_>, present: Limit) -> Option<NextLimit> {
    let mut bounds: Vec<(u64, String)> = Vec::new();
    bounds.extend(scale_bound(view));
    if present != Limit::PeerWindow {
        bounds.extend(window_bound(view));
    }
    if present != Limit::SendBuffer {
        bounds.extend(send_bound(view));
    }
    smallest(view, bounds)
}

/// The limit after the receiver's window where a change of that acts as `live` says: connections
/// that are opened after it agree on a scale of their own, for a buffer that the kernel sizes.
/// `is_rmem_raised`: up to a new maximum.
pub(crate) fn next_after_window(
    view: &View<'_>,
    live: Live,
    is_rmem_raised: bool,
) -> Option<NextLimit> {
    if live == Live::Now {
        return next_limit(view, Limit::PeerWindow);
    }
    let cap = view.tcp_rmem().map(|[.., most]| most / 2);
    let window = cap.filter(|_| !is_rmem_raised);
    let window = window.and_then(|cap| rmem_bound(view, cap));
    smallest(view, window.into_iter().chain(send_bound(view)).collect())
}

/// The smallest of these and of what the path delivered.
fn smallest(view: &View<'_>, bounds: Vec<(u64, String)>) -> Option<NextLimit> {
    let bound = bounds.into_iter().min_by_key(|(bits, _)| *bits);
    let seen = path_rate(view).filter(|seen| bound.as_ref().is_none_or(|(bits, _)| seen < bits));
    let shown = |bits| human::rate(Rate::from_bits_per_second(bits));
    let (bits, what) = match (seen, bound) {
        (Some(seen), _) => {
            let what = format!("at least {}, the highest delivery rate seen", shown(seen));
            (seen, what)
        }
        (None, Some((bits, what))) => (bits, format!("at most {} ({what})", shown(bits))),
        (None, None) => return None,
    };
    Some(NextLimit {
        what,
        rate: Some(Rate::from_bits_per_second(bits)),
    })
}

/// The largest window that the receiver can say on this connection.
fn scale_bound(view: &View<'_>) -> Option<(u64, String)> {
    let ceiling = view.window_ceiling()?;
    let what = format!("window scale: {ceiling} bytes per round trip");
    per_round_trip(view, ceiling, what)
}

/// The window that the receiver can grow to, or that it offers now where its buffer is fixed.
fn window_bound(view: &View<'_>) -> Option<(u64, String)> {
    let offered = view.window_offered()?;
    if view.received(|s| s.rcvbuf_locked) == Some(true) {
        let what = format!("the receiver's fixed buffer: {offered} bytes per round trip");
        return per_round_trip(view, offered, what);
    }
    // Half of the memory is payload before the kernel has measured the ratio.
    let cap = (view.tcp_rmem()?[2] / 2).max(offered);
    rmem_bound(view, cap)
}

fn rmem_bound(view: &View<'_>, cap: u64) -> Option<(u64, String)> {
    let what = format!("tcp_rmem of the receiver: about {cap} bytes per round trip");
    per_round_trip(view, cap, what)
}

/// The send buffer that the kernel can grow to, or the present one where it is fixed.
fn send_bound(view: &View<'_>) -> Option<(u64, String)> {
    let present = u64::from(view.sent(|s| s.sndbuf_bytes)?);
    if view.sent(|s| s.sndbuf_locked) == Some(true) {
        let what = format!("the sender's fixed buffer: {present} bytes per round trip");
        return per_round_trip(view, present, what);
    }
    let cap = view.tcp_wmem()?[2].max(present);
    let what = format!("tcp_wmem of the sender: {cap} bytes per round trip");
    per_round_trip(view, cap, what)
}

/// The best rate that the path delivered, where that is above the present one: a limited flow does
/// not show what its path could do, but that it can do this.
fn path_rate(view: &View<'_>) -> Option<u64> {
    let best = view.sender.and_then(Timeline::best_rate)?.bits_per_second();
    let rate = view.rate()?.bits_per_second();
    (best as f64 > rate as f64 * WORTHWHILE_GAIN).then_some(best)
}

/// Within a machine round trips are those of the kernel alone, and a window in each of them bounds
/// nothing that a program could reach.
fn per_round_trip(view: &View<'_>, bytes: u64, what: String) -> Option<(u64, String)> {
    let round_trip = view.min_rtt().filter(|rtt| *rtt >= LOCAL_RTT)?;
    let rate = Rate::of(bytes, round_trip);
    Some((rate.bits_per_second(), what))
}
