//! Completion of Winsock sends (seed: Winsock, "Winsock implementation").
//!
//! The quota (`SO_SNDBUF`) is compared with the sends that are still buffered; a send is released
//! as a whole, when all of it has been acknowledged.

use alloc::collections::VecDeque;

use crate::shrink::{push, shrink_empty};

/// Most sends that may wait for their completion: what a program may have outstanding at once.
const PENDING_MAX: usize = 1024;

/// The sends that are still buffered, oldest first.
#[derive(Debug, Default)]
pub(super) struct Sends {
    /// End of each send, as offset; its length follows.
    sends: VecDeque<(u64, u64)>,
    /// How many of the oldest are complete.
    completed: usize,
    /// Their bytes.
    completed_bytes: u64,
    buffered_bytes: u64,
}

impl Sends {
    /// Whether one more send may be buffered by a caller that waits for completion.
    pub(super) fn is_full(&self) -> bool {
        self.pending() >= PENDING_MAX
    }

    /// Sends that are not complete.
    pub(super) fn pending(&self) -> usize {
        self.sends.len() - self.completed
    }

    /// Whether the socket is within its quota: what a caller that does not wait depends on.
    pub(super) const fn is_within(&self, quota: u64) -> bool {
        self.buffered_bytes == 0 || self.buffered_bytes < quota
    }

    /// Adds a send of `bytes` that ends at `end`; says whether it is complete at once.
    pub(super) fn push(&mut self, end: u64, bytes: u64, quota: u64) -> bool {
        push(&mut self.sends, (end, bytes));
        self.buffered_bytes += bytes;
        self.complete(quota);
        self.pending() == 0
    }

    /// Releases what is acknowledged up to `una`; returns how many sends became complete.
    pub(super) fn on_ack(&mut self, una: u64, quota: u64) -> u32 {
        let mut completed = 0;
        while let Some(&(end, bytes)) = self.sends.front() {
            if end > una {
                break;
            }
            self.sends.pop_front();
            shrink_empty(&mut self.sends);
            self.buffered_bytes -= bytes;
            if self.completed > 0 {
                self.completed -= 1;
                self.completed_bytes -= bytes;
            } else {
                completed += 1;
            }
        }
        completed + self.complete(quota)
    }

    /// Completes sends: one with so little buffered before it that the socket was within its quota,
    /// or with only one send before it. Without a quota nothing is buffered, and only an
    /// acknowledgment completes.
    fn complete(&mut self, quota: u64) -> u32 {
        let mut completed = 0;
        while quota > 0 && (self.completed_bytes < quota || self.completed <= 1) {
            let Some(&(_, bytes)) = self.sends.get(self.completed) else {
                break;
            };
            self.completed += 1;
            self.completed_bytes += bytes;
            completed += 1;
        }
        completed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends of `sizes` under `quota`: which complete at once, and how many complete by the
    /// acknowledgment of each in turn.
    fn check(quota: u64, sizes: &[u64], at_once: &[bool], by_ack: &[u32]) {
        let mut sends = Sends::default();
        let mut end = 1;
        for (&bytes, &complete) in sizes.iter().zip(at_once) {
            end += bytes;
            assert_eq!(sends.push(end, bytes, quota), complete, "send up to {end}");
        }
        let mut una = 1;
        for (&bytes, &completed) in sizes.iter().zip(by_ack) {
            // All but the last byte of it releases nothing: a send is released as a whole.
            assert_eq!(sends.on_ack(una + bytes - 1, quota), 0);
            una += bytes;
            assert_eq!(sends.on_ack(una, quota), completed, "ACK of {una}");
        }
        assert_eq!(sends.pending(), 0);
        assert_eq!(sends.buffered_bytes, 0);
    }

    #[test]
    fn within_quota_complete_at_once_ws13() {
        check(8192, &[4000, 4000], &[true, true], &[0, 0]);
    }

    #[test]
    fn beyond_quota_behind_one_send_complete_at_once_ws14() {
        check(8192, &[10_000, 10_000], &[true, true], &[0, 0]);
    }

    #[test]
    fn beyond_quota_behind_two_sends_complete_later_ws15() {
        let sizes = [10_000, 10_000, 10_000, 10_000];
        check(8192, &sizes, &[true, true, false, false], &[1, 1, 0, 0]);
        // Back within quota before one is left.
        let sizes = [6000, 1000, 1000, 500, 100];
        check(
            8192,
            &sizes,
            &[true, true, true, true, false],
            &[1, 0, 0, 0, 0],
        );
    }

    #[test]
    fn quota_zero_completes_with_the_acknowledgment_ws12() {
        check(0, &[100, 50, 20], &[false, false, false], &[1, 1, 1]);
    }

    #[test]
    fn a_send_that_fills_the_quota_blocks_the_next_until_it_is_acknowledged_ws40() {
        let mut sends = Sends::default();
        assert!(sends.is_within(32_768));
        assert!(sends.push(65_537, 65_536, 32_768));
        assert!(!sends.is_within(32_768));
        sends.on_ack(65_536, 32_768);
        assert!(!sends.is_within(32_768));
        sends.on_ack(65_537, 32_768);
        assert!(sends.is_within(32_768));
        // WS41: a quota of one byte more than the send, or a send one byte below the quota.
        assert!(sends.push(131_073, 65_536, 65_537));
        assert!(sends.is_within(65_537));
        assert!(sends.push(163_840, 32_767, 32_768 + 65_536));
        assert!(sends.is_within(32_768 + 65_536));
    }
}
