//! No congestion control: the window of the peer alone limits.
//!
//! For stacks that have none, and for experiments on private links. On a shared network it does
//! harm, and a queue that overflows makes it slower than any of the others.

use core::time::Duration;

use base::Instant;

use super::{AckSample, CongestionControl, SSTHRESH_INFINITE, Window};

/// More packets than any peer's window holds (RFC 7323: 1 GiB), with room for sums.
const CWND: u32 = 1 << 30;

/// A window that never limits.
#[derive(Clone, Debug)]
pub struct Unlimited;

impl Unlimited {
    fn open(window: &mut Window) {
        window.cwnd = CWND.min(window.clamp);
        window.ssthresh = SSTHRESH_INFINITE;
    }
}

impl CongestionControl for Unlimited {
    fn name(&self) -> &'static str {
        "none"
    }

    fn on_start(&mut self, window: &mut Window, _now: Instant) {
        Self::open(window);
    }

    fn on_ack(&mut self, window: &mut Window, _ack: &AckSample) {
        Self::open(window);
    }

    fn on_congestion(&mut self, _window: &Window, _now: Instant) -> u32 {
        SSTHRESH_INFINITE
    }

    fn on_timeout(&mut self, window: &mut Window, _now: Instant) {
        Self::open(window);
    }

    fn on_restart(&mut self, window: &mut Window, _now: Instant, _idle: Duration) {
        Self::open(window);
    }

    fn undo(&mut self, window: &Window) -> u32 {
        CWND.min(window.clamp)
    }

    fn is_in_charge(&self) -> bool {
        true
    }

    fn wants_validation(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::ack;
    use super::*;

    #[test]
    fn nothing_closes_the_window() {
        let mut window = Window::new(10);
        let mut none = Unlimited;
        none.on_start(&mut window, Instant::ZERO);
        assert_eq!(window.cwnd, CWND);
        window.ssthresh = none.on_congestion(&window, Instant::ZERO);
        window.cwnd = 1;
        none.on_timeout(&mut window, Instant::ZERO);
        assert_eq!(window.cwnd, CWND);
        window.cwnd = 1;
        window.clamp = 500;
        none.on_ack(&mut window, &ack(1));
        assert_eq!((window.cwnd, window.ssthresh), (500, SSTHRESH_INFINITE));
    }
}
