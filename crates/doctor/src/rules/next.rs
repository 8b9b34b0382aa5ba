//! The limit that follows once the present one is gone.

use base::{Limit, Rate, human};

use super::thresholds::WORTHWHILE_GAIN;
use crate::timeline::Timeline;
use crate::verdict::NextLimit;
use crate::view::View;

/// The smallest of the bounds on the rate that do not belong to `present`.
pub(crate) fn next_limit(view: &View<'_>, present: Limit) -> Option<NextLimit> {
    let mut bounds: Vec<(u64, String)> = Vec::new();
    if let Some(ceiling) = view.window_ceiling() {
        let what = format!("window scale: {ceiling} bytes per round trip");
        bounds.extend(per_round_trip(view, ceiling, what));
    }
    if present != Limit::PeerWindow {
        bounds.extend(window_bound(view));
    }
    if present != Limit::SendBuffer {
        bounds.extend(send_bound(view));
    }
    bounds.extend(path_bound(view));
    let (bits, what) = bounds.into_iter().min_by_key(|(bits, _)| *bits)?;
    let rate = Rate::from_bits_per_second(bits);
    Some(NextLimit {
        what: format!("{what}, {}", human::rate(rate)),
        rate: Some(rate),
    })
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
/// not show what its path could do.
fn path_bound(view: &View<'_>) -> Option<(u64, String)> {
    let best = view.sender.and_then(Timeline::best_rate)?.bits_per_second();
    let rate = view.rate()?.bits_per_second();
    (best as f64 > rate as f64 * WORTHWHILE_GAIN)
        .then(|| (best, "the highest delivery rate seen".into()))
}

fn per_round_trip(view: &View<'_>, bytes: u64, what: String) -> Option<(u64, String)> {
    let rate = Rate::of(bytes, view.min_rtt()?);
    Some((rate.bits_per_second(), what))
}
