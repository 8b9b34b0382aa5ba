//! The next segment to send: its length, alone or in a GSO packet, or why there is none.
//!
//! The order of the questions is that of Linux's `tcp_write_xmit`: congestion window, peer's
//! window, small segments and deferral, size, local queue. Stacks that cut the stream when they
//! send (BSD, Winsock) differ in how they treat a window that is smaller than a segment.

use core::time::Duration;

use base::settings::{Accounting, Path, Push};
use base::{Instant, Limit, Rate};

use super::Sender;
use super::memory::PACKET_OVERHEAD_BYTES;
use crate::progress::Progress;

/// Largest window up to which Linux fits its segments to the whole window, not to half of it
/// (`tcp_bound_to_half_wnd`).
const SMALL_WINDOW_BYTES: u32 = 536;
/// Least segment that Linux makes for a small window, with the options that every segment has: 68
/// bytes of IP packet (RFC 791) less the TCP header.
const SEGMENT_BYTES_MIN: u32 = 48;
/// Data of about one millisecond (`sk_pacing_shift`): a rate in bytes per second over this.
const RATE_PER_BURST: u64 = 1024;
/// Time after the last packet from which a GSO packet no longer waits to become larger, and the
/// latest next ACK for which it does (`tcp_tso_should_defer`, whose clock never reads the exact
/// limit).
const DEFER_MAX: Duration = Duration::from_millis(1);

/// Input to the size of segments and GSO packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentSizes {
    /// Payload of a segment by MTU, the peer's option and our options.
    pub(crate) mss: u32,
    /// Bytes of the largest GSO packet; 0: each segment by itself.
    pub(crate) gso_max: u32,
    /// Largest window offered by the peer so far.
    pub(crate) window_max: u32,
    /// Bytes of the options that every segment has.
    pub(crate) option_bytes: u32,
}

impl SegmentSizes {
    /// Payload of a segment such that two fit into the largest window (rule 6.2).
    pub(crate) fn bound_mss(&self) -> u32 {
        self.bound_to_half_window(self.mss).max(1)
    }

    /// Bytes up to which Linux fills a packet in memory (rule 6.1, `tcp_xmit_size_goal`).
    pub(crate) fn size_goal(&self) -> u32 {
        let mss = self.bound_mss();
        let goal = self.bound_to_half_window(self.gso_max);
        (goal / mss * mss).max(mss)
    }

    fn bound_to_half_window(&self, bytes: u32) -> u32 {
        let cutoff = match self.window_max {
            0 => return bytes,
            small @ ..=SMALL_WINDOW_BYTES => small,
            large => large / 2,
        };
        if bytes > cutoff {
            let least = SEGMENT_BYTES_MIN.saturating_sub(self.option_bytes);
            cutoff.max(least).min(bytes)
        } else {
            bytes
        }
    }
}

/// Segments per burst by the pacing rate and the distance of the peer (rule 6.5,
/// `tcp_tso_autosize`); 0: no limit.
pub(crate) fn burst_segments(path: &Path, rate: Rate, min_rtt: Option<Duration>, mss: u32) -> u32 {
    let least = path.tso_min_segments;
    if least == 0 {
        return 0;
    }
    let gso_max = u64::from(path.gso_max);
    let mut bytes = rate.bits_per_second() / 8 / RATE_PER_BURST;
    if let Some(rtt) = min_rtt.filter(|_| path.tso_rtt_log > 0) {
        let halvings = u32::try_from(rtt.as_micros())
            .unwrap_or(u32::MAX)
            .checked_shr(path.tso_rtt_log)
            .unwrap_or(0);
        if halvings < u32::BITS {
            bytes += gso_max >> halvings;
        }
    }
    let segments = bytes.min(gso_max) / u64::from(mss.max(1));
    (segments as u32).max(least)
}

/// Input to the decision about the next segment, beside the stream itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendEnv {
    /// The time.
    pub(crate) now: Instant,
    /// How far the stream has come.
    pub(crate) progress: Progress,
    /// The peer's right window edge, as offset.
    pub(crate) window_end: u64,
    /// Sizes of segments and GSO packets.
    pub(crate) sizes: SegmentSizes,
    /// Packets that congestion control permits now.
    pub(crate) allowance: u32,
    /// Segments per burst ([`burst_segments`]); 0: no limit.
    pub(crate) burst_segments: u32,
    /// Congestion window in packets.
    pub(crate) cwnd: u32,
    /// In recovery, or after a timeout.
    pub(crate) in_recovery: bool,
    /// Bytes of this connection in the local queue.
    pub(crate) local_queue_bytes: u32,
    /// Pacing rate.
    pub(crate) pacing_rate: Rate,
    /// Packets are paced at that rate.
    pub(crate) is_paced: bool,
    /// Smoothed round-trip time.
    pub(crate) srtt: Option<Duration>,
    /// When the first packet in flight was sent, and when a segment of any kind was last.
    pub(crate) sent_between: Option<(Instant, Instant)>,
    /// One burst in the middle of a write: it does not wait to become larger.
    pub(crate) is_within_write: bool,
}

/// What a probe of new data is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NewProbe {
    /// The peer's window, with one segment.
    OfWindow,
    /// A loss at the tail, with up to this many segments.
    OfLoss {
        /// One, or what the congestion window permits.
        segments: u32,
    },
}

/// A segment or GSO packet to send; [`Sender::on_sent`] confirms it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outgoing {
    /// Offset of its first byte.
    pub(crate) start: u64,
    /// Offset after its last byte; FIN is not counted.
    pub(crate) end: u64,
    /// Payload of each segment but the last; 0: it is one segment.
    pub(crate) gso_size: u16,
    /// PSH is set on the last segment.
    pub(crate) push: bool,
    /// FIN is set on the last segment.
    pub(crate) fin: bool,
}

impl Outgoing {
    /// Offset after it, a FIN counted.
    pub(crate) const fn sequence_end(&self) -> u64 {
        self.end + self.fin as u64
    }
}

/// Why nothing is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    /// The reason.
    pub(crate) limit: Limit,
}

/// The first unsent packet, and how much of it may be sent.
#[derive(Clone, Copy, Debug)]
struct Head {
    start: u64,
    /// Bytes in it.
    bytes: u64,
    /// Nothing was written after it.
    is_tail: bool,
    mss: u64,
    /// Bytes permitted by the peer's window and the budget.
    usable: u64,
    /// Which of the two is the smaller.
    usable_limit: Limit,
    /// Bytes that fit into the largest GSO packet allowed now; whole segments.
    burst_bytes: u64,
}

impl Sender {
    /// The next segment or GSO packet of new data, or FIN, or why there is none. Call it after each
    /// write, ACK, timer and option change until it refuses; it returns the same segment until
    /// [`Sender::on_sent`] confirms it.
    pub(crate) fn poll_segment(&mut self, env: &SendEnv) -> Result<Outgoing, Hold> {
        let was_idle = env.progress.is_quiet();
        self.round.was_idle.get_or_insert(was_idle);
        let segment = self.next_segment(env);
        let is_corked = matches!(segment, Err(Limit::Cork)) && was_idle;
        if !is_corked {
            self.cork_deadline = None;
        }
        self.is_corked = is_corked;
        segment.map_err(|limit| {
            self.round = super::Round::default();
            self.count_hold(limit);
            Hold { limit }
        })
    }

    /// Whether everything that was written, and the FIN where there is one, has been sent. It ends
    /// the round of [`Sender::poll_segment`].
    pub(crate) fn is_drained(&mut self, progress: &Progress) -> bool {
        let is_drained = self.ledger.unsent_packets() == 0 && !self.owes_fin(progress);
        if is_drained {
            self.round = super::Round::default();
            self.is_corked = false;
            self.cork_deadline = None;
        }
        is_drained
    }

    /// A probe of new data in spite of congestion window, Nagle's algorithm and cork: a zero-window
    /// probe, which may be a part of a segment and is pushed (Linux `tcp_write_wakeup`), or a
    /// tail-loss probe, whose first segment fits into the window, and which is pushed like other
    /// data (`tcp_send_loss_probe`).
    pub(crate) fn poll_probe(
        &mut self,
        progress: &Progress,
        window_end: u64,
        sizes: &SegmentSizes,
        probe: NewProbe,
    ) -> Option<Outgoing> {
        let (of_window, segments_max) = match probe {
            NewProbe::OfWindow => (true, 1),
            NewProbe::OfLoss { segments } => (false, u64::from(segments)),
        };
        let mss = u64::from(self.fit_segment_bytes(sizes));
        let most = mss * segments_max;
        let start = progress.data_sent();
        let is_closing = self.owes_fin(progress);
        let room = window_end.saturating_sub(start);
        if let Some(head_end) = self.ledger.head_end()
            && !of_window
        {
            self.ledger.grow_head(most.saturating_sub(head_end - start));
        }
        let bytes = match self.ledger.head_end() {
            Some(head_end) => (head_end - start).min(most),
            None if is_closing => 0,
            None => return None,
        };
        if room == 0 || (bytes.min(mss) > room && !of_window) {
            return None;
        }
        let bytes = bytes.min(room);
        let end = start + bytes;
        let is_chain = bytes > mss;
        Some(Outgoing {
            start,
            end,
            gso_size: if is_chain { mss as u16 } else { 0 },
            push: bytes > 0
                && match self.settings.small_writes.push {
                    Push::EachWrite => of_window || is_chain || self.ledger.is_written_end(end),
                    Push::BufferEmpty => of_window || end == self.end(),
                    Push::Never => false,
                },
            fin: is_closing && end == self.end() && bytes < room,
        })
    }

    /// A segment was sent for the first time.
    pub(crate) fn on_sent(&mut self, outgoing: &Outgoing) {
        let bytes = outgoing.end - outgoing.start;
        let mss = u64::from(self.segment_bytes);
        let segments = bytes.div_ceil(mss) as u32;
        // A window probe is pushed wherever it ends, also when it is retransmitted.
        let is_one = outgoing.gso_size == 0;
        let push = self.ledger.is_written_end(outgoing.end) || (is_one && outgoing.push);
        self.ledger.on_sent(outgoing, segments, push);
        self.is_fin_pushed |= outgoing.fin && outgoing.push;
        if bytes == 0 {
            return;
        }
        self.round.after_write = false;
        self.cork_deadline = None;
        self.sent.packets += 1;
        self.sent.segments += u64::from(segments);
        // Linux `tcp_minshall_update`.
        if !bytes.is_multiple_of(mss) {
            self.small_end = outgoing.end;
            self.sent.partial_segments += 1;
        }
    }

    /// Where the last short segment ends, for which Nagle's algorithm waits.
    pub(crate) const fn small_end(&self) -> u64 {
        self.small_end
    }

    /// Nagle's algorithm does not wait for what was sent since then.
    pub(crate) const fn restore_small_end(&mut self, end: u64) {
        self.small_end = end;
    }

    /// A FIN was retransmitted together with data that is pushed.
    pub(crate) const fn note_pushed_fin(&mut self) {
        self.is_fin_pushed = true;
    }

    /// Whether `start..end` is pushed when it is retransmitted in segments of `mss` bytes: BSD
    /// decides anew, others where a write ended, and Linux with each packet of several segments.
    pub(crate) fn retransmits_push(&self, start: u64, end: u64, mss: u32) -> bool {
        if start == end {
            return self.forms_packets() && self.is_fin_pushed;
        }
        match self.settings.small_writes.push {
            Push::Never => false,
            Push::BufferEmpty => end == self.end(),
            Push::EachWrite if self.forms_packets() && end - start > u64::from(mss) => true,
            Push::EachWrite => self.ledger.was_pushed_in(start, end),
        }
    }

    /// Payload of a full segment now. Only stacks that form packets when data is written fit it to
    /// small windows; the others use silly-window avoidance when they send.
    fn fit_segment_bytes(&mut self, sizes: &SegmentSizes) -> u32 {
        self.segment_bytes = if self.forms_packets() {
            sizes.bound_mss()
        } else {
            sizes.mss.max(1)
        };
        self.segment_bytes
    }

    fn next_segment(&mut self, env: &SendEnv) -> Result<Outgoing, Limit> {
        let mss = u64::from(self.fit_segment_bytes(&env.sizes));
        let Some(mut head_end) = self.ledger.head_end() else {
            return self.next_fin(env);
        };
        let start = env.progress.data_sent();
        let packets = self.packets_allowed(env)?;
        let (usable, usable_limit) = self.usable(env, mss);
        let burst_bytes = u64::from(self.segments_max(env, packets)) * mss;
        // Linux `tcp_grow_skb`, since 6.10.
        if head_end - start < burst_bytes {
            self.ledger.grow_head(burst_bytes - (head_end - start));
            head_end = self.ledger.head_end().expect("it only moves");
        }
        let bytes = head_end - start;
        let head = Head {
            start,
            bytes,
            is_tail: self.ledger.unsent_packets() == 1,
            mss,
            usable,
            usable_limit,
            burst_bytes,
        };
        self.check_window(&head, env)?;
        if let Some(limit) = self.deferral(&head, env) {
            self.waits.make().deferrals += 1;
            return Err(limit);
        }
        let bytes = self.segment_length(&head, env)?;
        self.check_local_queue(bytes, env)?;
        Ok(self.form(&head, bytes, env))
    }

    /// FIN by itself, once all data was sent.
    fn next_fin(&self, env: &SendEnv) -> Result<Outgoing, Limit> {
        if !self.owes_fin(&env.progress) {
            let is_waited_for = self.writer_waits || self.incomplete_sends() > 0;
            return Err(if is_waited_for {
                Limit::SendBuffer
            } else {
                Limit::Application
            });
        }
        let end = env.progress.data_sent();
        if self.forms_packets() {
            // In Linux a bare FIN needs room in both windows, as data does.
            self.packets_allowed(env)?;
            if env.window_end <= end {
                return Err(Limit::PeerWindow);
            }
        }
        Ok(Outgoing {
            start: end,
            end,
            gso_size: 0,
            push: false,
            fin: true,
        })
    }

    /// Packets that the congestion window permits in one GSO packet: Linux keeps half of it for
    /// later ones, so that ACKs come in between (`tcp_cwnd_test`).
    fn packets_allowed(&self, env: &SendEnv) -> Result<u32, Limit> {
        match env.allowance {
            0 if env.in_recovery => Err(Limit::Recovery),
            0 => Err(Limit::Congestion),
            allowance if self.forms_packets() => Ok(allowance.min((env.cwnd / 2).max(1))),
            allowance => Ok(allowance),
        }
    }

    fn segments_max(&self, env: &SendEnv, packets: u32) -> u32 {
        let burst = match env.burst_segments {
            0 => u32::MAX,
            segments => segments,
        };
        let gso = env.sizes.gso_max / self.segment_bytes;
        packets.min(burst).min(gso).max(1)
    }

    /// The urgent pointer of a segment from `start` on, where `next` is the end of what was sent:
    /// each segment before the urgent byte points to it, as far as 16 bits reach (RFC 9293 section
    /// 3.8.5; Linux `tcp_transmit_skb`).
    pub(crate) fn urgent_pointer(&self, start: u64, next: u64) -> Option<u16> {
        let ahead = self.urgent_end.get()?.checked_sub(start)?;
        match u16::try_from(ahead) {
            Ok(0) => None,
            Ok(ahead) => Some(ahead),
            Err(_) => (start + u64::from(u16::MAX) > next).then_some(u16::MAX),
        }
    }

    pub(super) fn is_urgent(&self, progress: &Progress) -> bool {
        self.urgent_end
            .get()
            .is_some_and(|urgent| urgent > progress.data_acked())
    }

    /// Whether a FIN follows the data that was not sent yet.
    fn owes_fin(&self, progress: &Progress) -> bool {
        self.has_fin() && !progress.is_fin_sent()
    }

    /// Bytes permitted by the peer's window and the budget on unacknowledged data, with the limit.
    fn usable(&self, env: &SendEnv, mss: u64) -> (u64, Limit) {
        let window = env.window_end.saturating_sub(env.progress.data_sent());
        let budget = self.budget(mss, &env.progress);
        if budget < window {
            (budget, Limit::UnackedBudget)
        } else {
            (window, Limit::PeerWindow)
        }
    }

    /// Bytes that may be added to the unacknowledged data (seed: `NetBurner`,
    /// `SetSocketUnackBuffers`). One segment may always be in flight, or the connection would be
    /// stuck.
    fn budget(&self, mss: u64, progress: &Progress) -> u64 {
        let Some(budget) = self.settings.send.unacked_budget.map(u64::from) else {
            return u64::MAX;
        };
        let left = match self.settings.send.accounting {
            Accounting::Payload | Accounting::Truesize { ratio: _ } => {
                budget.saturating_sub(progress.unacked_bytes())
            }
            // Each segment takes a buffer, however small it is.
            Accounting::Buffers { payload_bytes } => {
                let buffers = budget / u64::from(payload_bytes.max(1));
                buffers.saturating_sub(self.ledger.segments_out().into()) * mss
            }
        };
        if progress.is_quiet() {
            left.max(mss)
        } else {
            left
        }
    }

    /// Whether the next segment fits into the window and the budget.
    fn check_window(&self, head: &Head, env: &SendEnv) -> Result<(), Limit> {
        let segment = head.bytes.min(head.mss);
        if head.usable >= segment {
            return Ok(());
        }
        // RFC 9293 section 3.8.6.2.1: a part of a segment fills the window only where that is at
        // least half of the largest window ever. Linux leaves it to the probe timer.
        let is_large = head.usable > 0 && 2 * head.usable >= u64::from(env.sizes.window_max);
        if is_large && !self.forms_packets() && head.usable_limit == Limit::PeerWindow {
            return Ok(());
        }
        Err(head.usable_limit)
    }

    /// How many bytes to send: whole segments, and the rest after them if nothing holds it (rules
    /// 7.1 and 7.2, Linux `tcp_mss_split_point`).
    fn segment_length(&self, head: &Head, env: &SendEnv) -> Result<u64, Limit> {
        let fitting = head.bytes.min(head.usable);
        // A GSO packet cannot say in which of its segments urgent data ends.
        let is_urgent = self.is_urgent(&env.progress);
        let most = if is_urgent {
            head.mss
        } else {
            head.burst_bytes
        };
        if most <= fitting {
            return Ok(most);
        }
        let partial = fitting % head.mss;
        let whole = fitting - partial;
        if partial == 0 {
            return Ok(fitting);
        }
        let hold = if fitting == head.bytes {
            // Only the last packet can still grow.
            head.is_tail
                .then(|| self.tail_hold(partial, whole > 0, env))
                .flatten()
        } else if self.forms_packets() {
            // In the middle of a write small segments do not wait (Linux `tcp_push_one`).
            match env.is_within_write {
                true => None,
                false if self.is_corked_now() && !self.round.pushes => Some(head.usable_limit),
                false => self.nagle_hold(whole > 0, &env.progress),
            }
        } else {
            // The window cuts the segment, which is only allowed if the whole window is small.
            (whole > 0).then_some(head.usable_limit)
        };
        match hold {
            Some(limit) if whole == 0 => Err(limit),
            Some(_) => Ok(whole),
            None => Ok(fitting),
        }
    }

    /// Reason to defer a GSO packet until the next ACK, which will permit a larger one; `None`:
    /// send it (rule 6.6, Linux `tcp_tso_should_defer`).
    fn deferral(&self, head: &Head, env: &SendEnv) -> Option<Limit> {
        let waits = self.forms_packets() && !env.is_within_write && !env.in_recovery;
        if !waits || head.bytes <= head.mss {
            return None;
        }
        let (first_sent, last_sent) = env.sent_between?;
        let congestion = u64::from(env.allowance) * head.mss;
        let allowed = congestion.min(head.usable);
        let window = env.window_end.saturating_sub(env.progress.data_acked());
        let share = match self.settings.path.tso_win_divisor {
            0 => u64::MAX,
            divisor => window.min(u64::from(env.cwnd) * head.mss) / u64::from(divisor),
        };
        let srtt = env.srtt.unwrap_or(Duration::ZERO);
        let next_ack = (first_sent + srtt).since(env.now);
        let full_burst = match env.burst_segments {
            0 => env.sizes.gso_max / self.segment_bytes,
            segments => segments,
        };
        let leaves = env.now.since(last_sent) >= DEFER_MAX
            || allowed >= u64::from(full_burst.max(1)) * head.mss
            || (!head.is_tail && allowed >= head.bytes)
            || allowed >= share
            || next_ack > DEFER_MAX.min(srtt / 2);
        if leaves {
            return None;
        }
        if congestion < head.usable && congestion <= head.bytes {
            Some(Limit::Congestion)
        } else if congestion >= head.usable && head.usable <= head.bytes {
            Some(head.usable_limit)
        } else {
            // More from the writer would make it larger; the end of the stream never will.
            (!head.is_tail || !self.has_fin()).then_some(Limit::Application)
        }
    }

    /// Whether the local queue takes more (rule 6.7, Linux `tcp_small_queue_check`; rule 7.6,
    /// `tcp_should_autocork`).
    fn check_local_queue(&self, bytes: u64, env: &SendEnv) -> Result<(), Limit> {
        let queued = u64::from(env.local_queue_bytes);
        let has_more_out = self.ledger.packets_out() > 1;
        let most = u64::from(self.settings.path.local_queue_max);
        let limit = if self.forms_packets() {
            let by_rate = env.pacing_rate.bits_per_second() / 8 / RATE_PER_BURST;
            let limit = by_rate.max(2 * (bytes + PACKET_OVERHEAD_BYTES));
            if env.is_paced { limit } else { limit.min(most) }
        } else {
            most
        };
        let is_autocorked = self.settings.small_writes.autocork
            && self.round.after_write
            && !self.round.pushes
            && self.ledger.packets_out() > 0
            && self.ledger.tail_bytes(&env.progress) < u64::from(env.sizes.size_goal())
            && queued > self.ledger.tail_bytes(&env.progress) + PACKET_OVERHEAD_BYTES;
        if (queued > limit && has_more_out) || is_autocorked {
            return Err(Limit::Interface);
        }
        Ok(())
    }

    /// The first `bytes` of the head as a packet (rule 6.4).
    fn form(&self, head: &Head, bytes: u64, env: &SendEnv) -> Outgoing {
        let end = head.start + bytes;
        let segments = bytes.div_ceil(head.mss);
        let is_last = end == self.end();
        let room_for_fin = !self.forms_packets() || env.window_end > end;
        Outgoing {
            start: head.start,
            end,
            gso_size: if segments > 1 { head.mss as u16 } else { 0 },
            push: match self.settings.small_writes.push {
                Push::EachWrite => {
                    self.ledger.is_written_end(end) || (segments > 1 && self.forms_packets())
                }
                Push::BufferEmpty => is_last,
                Push::Never => false,
            },
            fin: self.owes_fin(&env.progress) && is_last && room_for_fin,
        }
    }

    fn count_hold(&mut self, limit: Limit) {
        match limit {
            Limit::Nagle => self.waits.make().nagle_holds += 1,
            Limit::Cork => self.waits.make().cork_holds += 1,
            Limit::Interface => self.waits.make().interface_holds += 1,
            _ => {}
        }
    }
}
