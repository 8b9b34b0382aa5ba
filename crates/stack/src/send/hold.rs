//! Whether a partial segment is held: Nagle's algorithm in its variants, cork, and stacks that do
//! not push.

use base::Limit;
use base::settings::{Accounting, Completion, Nagle, Push};

use super::Sender;
use super::segment::SendEnv;
use crate::progress::Progress;

impl Sender {
    /// Why the last `bytes` of the stream, less than a full segment, wait; `None`: they are sent.
    /// `follows`: full segments precede them in the same packet.
    pub(super) fn tail_hold(&self, bytes: u64, follows: bool, env: &SendEnv) -> Option<Limit> {
        // A FIN releases its own segment, not a larger packet that ends with it (Linux
        // `tcp_nagle_test`, `tcp_mss_split_point`).
        let ends = self.has_fin() && !(follows && self.forms_packets());
        let is_released = self.round.pushes || env.progress.data_sent() < self.flush_until || ends;
        if is_released || self.is_urgent(&env.progress) {
            return None;
        }
        // RFC 9293 section 3.8.6.2.1, in FreeBSD's `tcp_output` also against TCP_NOPUSH.
        let window_max = u64::from(env.sizes.window_max);
        if self.settings.small_writes.half_window && window_max > 0 && 2 * bytes >= window_max {
            return None;
        }
        let is_held = self.is_corked_now() || self.settings.small_writes.push == Push::Never;
        if is_held && !self.is_stuck(&env.progress) {
            return Some(Limit::Cork);
        }
        self.nagle_hold(follows, &env.progress)
    }

    /// The application forbids small segments: `TCP_CORK`, or `MSG_MORE` of the last write.
    pub(super) fn is_corked_now(&self) -> bool {
        self.settings.small_writes.cork || self.ledger.tail().is_some_and(|tail| tail.more)
    }

    /// Nagle's test alone.
    pub(super) fn nagle_hold(&self, follows: bool, progress: &Progress) -> Option<Limit> {
        let is_out = !progress.is_quiet();
        let waits = match self.settings.small_writes.nagle {
            Nagle::Off => false,
            // BSD decides once per call of `tcp_output` whether the connection is idle, and then
            // sends all of a write.
            Nagle::Rfc896 => (is_out || follows) && !self.started_idle(),
            Nagle::Minshall => is_out && self.small_end > progress.data_acked(),
        };
        waits.then_some(if self.is_cut_by_buffer() {
            Limit::SendBuffer
        } else {
            Limit::Nagle
        })
    }

    /// The tail is short only because the buffer is full: with more room the writer would fill it
    /// up. Where the buffer counts payload; elsewhere writes end for other reasons too.
    fn is_cut_by_buffer(&self) -> bool {
        self.writer_waits
            && self.settings.send.completion == Completion::Bsd
            && self.settings.send.accounting == Accounting::Payload
    }

    fn started_idle(&self) -> bool {
        self.settings.send.completion == Completion::Bsd && self.round.was_idle == Some(true)
    }

    /// Whether nothing could release the tail: nothing is in flight, the writer waits for room, and
    /// no timer is set ("until the buffer is full", `FreeBSD` tcp(4), `TCP_NOPUSH`).
    fn is_stuck(&self, progress: &Progress) -> bool {
        self.writer_waits
            && progress.is_quiet()
            && self.settings.small_writes.cork_ceiling.is_none()
    }
}
