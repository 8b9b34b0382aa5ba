//! One direction of a flow, as the rules see it: who sends, who receives, and what follows.

use base::{FlowSample, Instant, Rate, Source};
use core::cell::OnceCell;
use core::time::Duration;

use crate::case::Place;
use crate::host_timeline::HostTimeline;
use crate::rules::receive_window;
use crate::rules::steady::to_same_host;
use crate::rules::thresholds::{
    ACKS_FLOW_SHARE, ACKS_PAUSE_RTTS, ACKS_PAUSE_SEGMENTS, ACKS_PAUSE_SHARE, ACKS_STEADY_SEGMENTS,
    ACKS_STEADY_SHARE, APP_SHARE, ASSUMED_PATH_BITS, DELAYED_ACK_ON_LONG_PATHS,
    DELAYED_ACK_QUEUE_DELAY, FULL_BUSY, FULL_SHARE, GROWTH, GROWTH_GAINS, GROWTH_SHOWN,
    LEAST_OUT_PARTS, MIN_BUSY_SHARE, MIN_RETRANSMISSIONS, PROBING_STOPPED, QUEUE_DELAY,
    QUEUE_SHARE, SEND_ROOM, SEND_ROOM_SHARE, SHORT_DELAYED_ACK, SHORT_DELAYED_ACK_RTTS,
    SMOOTH_SEGMENTS, TICK, UNREAD_VOTES, UNSCALED_WINDOW, WINDOW_QUEUE, WINDOW_QUEUE_DELAY,
    WINDOW_QUEUE_SEGMENTS, WINDOW_SHARE, WORTHWHILE_GAIN,
};
use crate::timeline::{Timeline, cwnd_room_pkts, ratio_of_times, window_room_bytes};
use crate::verdict::Side;

/// The shortest pause that is one: at this sender's rate segments and their ACKs follow each other
/// sooner.
pub(crate) fn least_pause(sender: &Timeline) -> Option<Duration> {
    let bytes = u64::from(sender.mss_bytes()?) * ACKS_PAUSE_SEGMENTS;
    let rate = sender.rate().filter(|rate| rate.bits_per_second() > 0)?;
    let of_path = sender.min_rtt()?.mul_f64(ACKS_PAUSE_RTTS);
    Some(rate.serialize(bytes, 0).0.max(TICK).max(of_path))
}

/// The sender and the receiver of the payload, each as far as it was visible.
#[derive(Debug)]
pub(crate) struct View<'a> {
    pub(crate) sender: Option<&'a Timeline>,
    pub(crate) receiver: Option<&'a Timeline>,
    /// Sockets beside this flow's on the observed host.
    pub(crate) siblings: &'a [&'a Timeline],
    /// The same on the sender's host, where they are known.
    pub(crate) sender_siblings: &'a [&'a Timeline],
    pub(crate) sender_host: Option<&'a HostTimeline>,
    pub(crate) receiver_host: Option<&'a HostTimeline>,
    /// Name of the interface through which the sender sends.
    pub(crate) sender_interface: Option<&'a str>,
    /// The observed process has other connections that carry data.
    pub(crate) shares_process: bool,
    /// Answers arrive on another connection between the same two hosts.
    pub(crate) hosts_answer_elsewhere: bool,
    /// How long other connections of the same service were watched that give the same verdict.
    pub(crate) seen_alike: Duration,
    /// Side on which the sender is, for the caller.
    pub(crate) sender_side: Side,
    /// Answer of [`arrives_at_one_rate`](crate::rules::steady::arrives_at_one_rate), for which
    /// several rules ask: it takes many connections beside this one to find it.
    pub(crate) at_one_rate: OnceCell<bool>,
    /// The same of [`drops_at_one_rate`](crate::rules::steady::drops_at_one_rate).
    pub(crate) drops_at_one_rate: OnceCell<Option<(usize, f64)>>,
}

impl View<'_> {
    /// The timeline on which verdicts are based.
    pub(crate) fn main_timeline(&self) -> Option<&Timeline> {
        self.sender.or(self.receiver)
    }

    /// Whether the sender's end accepted the connection, so that what it receives are questions; by
    /// its ports where nothing tells who opened it.
    pub(crate) fn sender_accepted(&self) -> bool {
        let by_sender = self
            .sender
            .and_then(Timeline::opened_here)
            .map(|opened| !opened);
        let by_receiver = self.receiver.and_then(Timeline::opened_here);
        let by_port = || {
            let key = self.main_timeline()?.key()?;
            let is_service = matches!(Place::of(key), Place::Listening(_));
            Some(is_service == self.sender.is_some())
        };
        by_sender.or(by_receiver).or_else(by_port).unwrap_or(false)
    }

    /// The newest value at the sender.
    pub(crate) fn sent<T>(&self, read: impl Fn(&FlowSample) -> Option<T>) -> Option<T> {
        self.sender?.latest(read)
    }

    /// The newest value at the receiver.
    pub(crate) fn received<T>(&self, read: impl Fn(&FlowSample) -> Option<T>) -> Option<T> {
        self.receiver?.latest(read)
    }

    pub(crate) fn receiver_side(&self) -> Side {
        self.sender_side.other()
    }

    /// Payload per second, from whichever end counted it.
    pub(crate) fn rate(&self) -> Option<Rate> {
        self.sender
            .and_then(Timeline::rate)
            .or_else(|| self.receiver?.receive_rate())
    }

    /// Share of the busy time in which the peer's window stopped the sender.
    pub(crate) fn rwnd_share(&self) -> Option<f64> {
        let sender = self.sender?;
        let busy = sender.busy_share()?;
        (busy >= MIN_BUSY_SHARE).then(|| sender.rwnd_share())?
    }

    /// Whether the peer's window decides; then nothing may be said of congestion or application
    /// from the same interval. A program that is silent most of the time may fill a window at each
    /// of its bursts, and loses no time to speak of.
    pub(crate) fn window_bound(&self) -> bool {
        let busy = self.sender.and_then(Timeline::busy_share).unwrap_or(1.0);
        let costs = |share: f64| share * busy >= 1.0 - 1.0 / WORTHWHILE_GAIN;
        let stops = |share: f64| share > WINDOW_SHARE || self.window_sets_pace();
        self.rwnd_share()
            .is_some_and(|share| stops(share) && costs(share))
            && !self.repairs_without_sack()
            && !self.stands_in_queue()
    }

    /// Whether BBR has taken the rate of the reading program for that of the path.
    pub(crate) fn reader_sets_pace(&self) -> bool {
        self.sender.is_some_and(receive_window::reader_sets_pace)
    }

    /// The same, or that of the peer's window: it stops the sender only where that probes for more,
    /// and no queue stands, as one does on a path that is full.
    pub(crate) fn window_sets_pace(&self) -> bool {
        let stops = || {
            self.rwnd_share()
                .is_some_and(|share| share >= PROBING_STOPPED)
        };
        self.reader_sets_pace() || (self.is_bbr() && stops() && self.has_no_queue())
    }

    /// Whether round trips are about as short as the shortest.
    pub(crate) fn has_no_queue(&self) -> bool {
        let delay = self.sender.and_then(Timeline::queue_delay);
        let pair = delay.zip(self.min_rtt());
        pair.is_some_and(|(delay, min_rtt)| delay < QUEUE_DELAY.max(min_rtt.mul_f64(QUEUE_SHARE)))
    }

    /// Whether much more is in flight than the path carries, and stands in a queue: more, or a
    /// larger window, would only make the queue longer. Few segments wait for delayed ACKs, not in
    /// a queue.
    pub(crate) fn stands_in_queue(&self) -> bool {
        let exceeds = self.exceeds_path(WINDOW_QUEUE_SEGMENTS, WINDOW_QUEUE);
        (exceeds && !self.stands_at_reader()) || self.many_stand_in_queue()
    }

    /// Whether what is in flight waits for the receiving program: it lies unread there, or, where
    /// that end is not seen, the window opens and closes. On a short path the times of ACKs do not
    /// tell.
    fn stands_at_reader(&self) -> bool {
        let by_window = || self.sender.is_some_and(receive_window::window_moves);
        match receive_window::unread_share(self) {
            Some(unread) => unread >= UNREAD_VOTES,
            None => by_window(),
        }
    }

    /// The same of so many segments that one late ACK is lost in the mean, and a short queue shows:
    /// where ACKs come without a pause, for a sender that stops and goes fills a queue with each of
    /// its bursts too.
    pub(crate) fn many_stand_in_queue(&self) -> bool {
        let flows = || {
            let sender = self.sender?;
            let no_pause = |s: &FlowSample| Some(s.since_ack_received? < TICK * 2);
            Some(sender.min_rtt()? >= TICK * 4 && sender.vote(no_pause)? >= ACKS_FLOW_SHARE)
        };
        flows() == Some(true) && self.exceeds_path(SMOOTH_SEGMENTS, 1.0 + QUEUE_SHARE)
    }

    /// Whether at least this many segments are in flight, and this many times what the path holds,
    /// and round trips are as much longer.
    fn exceeds_path(&self, segments_min: f64, times: f64) -> bool {
        let exceeds = || {
            let sender = self.sender?;
            let (srtt, min_rtt) = (sender.srtt()?, sender.min_rtt()?);
            let out = sender.median(FlowSample::bytes_out)? as f64;
            let segments = out / f64::from(sender.mss_bytes()?);
            let carried = sender.rate()?.bdp_bytes(min_rtt) as f64;
            // A queue stands: what the path holds is always in flight. Where a window opens and
            // closes, nothing is for a part of the time, however late ACKs are.
            let least = sender.above_share(LEAST_OUT_PARTS, FlowSample::bytes_out)? as f64;
            Some(
                segments >= segments_min
                    && out >= carried * times
                    && least >= carried
                    && srtt >= min_rtt.mul_f64(times)
                    && srtt - min_rtt >= WINDOW_QUEUE_DELAY
                    && self.acks_come_steadily(),
            )
        };
        exceeds().unwrap_or(false)
    }

    /// Whether ACKs come one after the other, as a queue lets segments out. A reader that takes
    /// much at a time acknowledges much at a time: round trips are as long then, and nothing waits
    /// in a queue. If unknown, they do.
    fn acks_come_steadily(&self) -> bool {
        let steady = || {
            let sender = self.sender?;
            let bytes = u64::from(sender.mss_bytes()?) * ACKS_STEADY_SEGMENTS;
            let rate = sender.rate().filter(|rate| rate.bits_per_second() > 0)?;
            let bound = rate.serialize(bytes, 0).0.max(TICK * 2);
            sender.vote(|s| Some(s.since_ack_received? < bound))
        };
        steady().is_none_or(|share| share >= ACKS_STEADY_SHARE)
    }

    /// Whether there are times in which nothing is in flight: a path with these is not full.
    pub(crate) fn has_gaps(&self) -> bool {
        self.sender.is_some_and(|sender| {
            sender.busy_share().is_some_and(|busy| busy < FULL_BUSY)
                || sender
                    .idle_share()
                    .is_some_and(|idle| idle > 1.0 - FULL_BUSY)
        })
    }

    /// Whether the sender has more than its congestion window lets out, in most samples.
    pub(crate) fn fills_cwnd(&self) -> bool {
        let full = |sender: &Timeline| {
            sender.vote(|s| Some(s.notsent_bytes? >= s.snd_mss_bytes? || cwnd_room_pkts(s)? < 2))
        };
        self.sender
            .and_then(full)
            .is_some_and(|share| share >= FULL_SHARE)
    }

    /// Whether a larger window brought more: from one half of the watch to the other the window
    /// grew, the rate with it, and nothing was lost. A full path gives no more, however long it
    /// makes the round trips.
    pub(crate) fn still_grows(&self) -> bool {
        let grows = || {
            let sender = self.sender.filter(|_| !self.is_bbr())?;
            let middle = sender.first()?.at + sender.interval() / 2;
            let half = |of_later: bool| {
                let half = || {
                    sender
                        .samples()
                        .filter(move |s| (s.at >= middle) == of_later)
                };
                let (first, last) = (half().next()?, half().next_back()?);
                let acked = last.bytes_acked?.checked_sub(first.bytes_acked?)? as f64;
                let mut windows: Vec<u32> = half().filter_map(|s| s.cwnd_pkts).collect();
                windows.sort_unstable();
                let window = f64::from(*windows.get(windows.len() / 2)?);
                Some((window, acked / last.at.since(first.at).as_secs_f64()))
            };
            let ((window, rate), (later_window, later_rate)) = (half(false)?, half(true)?);
            let (grown, gained) = (later_window / window - 1.0, later_rate / rate - 1.0);
            let is_clean = self.retransmitted_pkts()? == 0;
            Some(is_clean && grown >= GROWTH_SHOWN && gained >= grown * GROWTH_GAINS)
        };
        grows() == Some(true)
    }

    /// Whether packets alone were seen, and what is in flight falls to less than half of what the
    /// path carries in a round trip, repeatedly: a congestion window that is cut leaves half of it
    /// or more (RFC 5681 section 3.1, RFC 9438 section 4.6), while a program that waits for its
    /// send buffer writes when that has drained. The beginning of a connection is left out.
    pub(crate) fn stops_and_goes(&self) -> bool {
        let stops = || {
            let sender = self.sender?;
            let middle = sender.first()?.at + sender.interval() / 2;
            let of_later = |s: &FlowSample| s.bytes_out().filter(|_| s.at >= middle);
            let least = sender.above_share(LEAST_OUT_PARTS, of_later)?;
            let carried = sender.rate()?.bdp_bytes(sender.min_rtt()?);
            Some(sender.last()?.source == Source::Capture && least < carried / 2)
        };
        stops() == Some(true)
    }

    /// Whether this is a capture in which ACKs come in trains with pauses between: the path is idle
    /// in the pauses, and trains wait in no standing queue, but in one that each of them builds and
    /// leaves empty. A sender limited to this much in flight (a send buffer) sends like that,
    /// however much the path carries. While ACKs come on another connection to the same host, the
    /// path is not idle. The beginning of a connection is left out.
    pub(crate) fn acks_pause(&self) -> bool {
        let pause = || {
            let sender = self.sender?;
            let middle = sender.first()?.at + sender.interval() / 2;
            let bound = least_pause(sender)?;
            if sender.last()?.source != Source::Capture {
                return None;
            }
            let pauses = |is_busy: &dyn Fn(Instant) -> bool| {
                let share = sender.vote(|s| {
                    (s.at >= middle).then_some(())?;
                    Some(s.since_ack_received? >= bound && !is_busy(s.at))
                })?;
                Some(share >= ACKS_PAUSE_SHARE)
            };
            // Others are looked at only where it matters: there may be many.
            if pauses(&|_| false) != Some(true) {
                return None;
            }
            let beside: Vec<&Timeline> = to_same_host(self, sender).collect();
            pauses(&|at| {
                let mut beside = beside.iter();
                beside.any(|other| {
                    let last = other.courses.last_ack(other, at);
                    last.is_some_and(|last| at.since(last) < bound)
                })
            })
        };
        pause() == Some(true)
    }

    /// Share of the samples in which packets leave the sending host more slowly than every window
    /// allows, where that is most: TCP keeps about a millisecond's worth of them in the host's own
    /// queue and waits for these (`tcp_small_queue_check`), so that neither round trips nor losses
    /// tell of the interface, or of the shaper at it, that is the bottleneck. Packets that are
    /// paced wait there too, for their time.
    pub(crate) fn interface_share(&self) -> Option<f64> {
        if self.is_bbr() || self.sent(|s| s.max_pacing_rate).is_some() {
            return None;
        }
        let share = self.sender?.vote(|s| {
            let mss = s.snd_mss_bytes?;
            let has_windows = cwnd_room_pkts(s)? >= 2 && window_room_bytes(s)? >= u64::from(mss);
            Some(has_windows && s.notsent_bytes? >= mss && s.local_queue_bytes? > mss)
        })?;
        (share >= FULL_SHARE).then_some(share)
    }

    /// Whether the program leaves room in its send buffer, so that it does not wait for TCP,
    /// however much of what it wrote has to wait: the kernel wakes a program that waits for room
    /// once a third of the buffer is free (`sk_stream_write_space`), and one that has more to
    /// write fills it again. With `TCP_NOTSENT_LOWAT` it is woken later. Who answers leaves room
    /// behind each answer; a stream that does so most of the time makes up for the rest.
    pub(crate) fn leaves_send_room(&self) -> bool {
        let leaves = || {
            let sender = self.sender?;
            sender.vote(|s| {
                let filled = f64::from(s.wmem_queued_bytes?) / f64::from(s.sndbuf_bytes?.max(1));
                Some(filled < SEND_ROOM)
            })
        };
        let holds_back = self.sent(|s| s.notsent_lowat_bytes).is_some();
        let answers = self.sender.and_then(|s| s.counted(|s| s.data_segs_in)) != Some(0);
        let enough = match answers {
            true => SEND_ROOM_SHARE,
            false => APP_SHARE,
        };
        !holds_back && leaves().is_some_and(|share| share >= enough)
    }

    /// Share of a processor that the program at one end used, where the connection is all that it
    /// does.
    pub(crate) fn cpu_share(&self, end: Option<&Timeline>) -> Option<f64> {
        if self.shares_process {
            return None;
        }
        let end = end?;
        ratio_of_times(end.counted_time(|s| s.owner_cpu_time)?, end.interval())
    }

    /// Without SACK a burst of losses is repaired one segment per round trip, and meanwhile every
    /// window and buffer on the way fills: these are consequences, not causes.
    pub(crate) fn repairs_without_sack(&self) -> bool {
        self.sent(|s| s.sack) == Some(false)
            && self.retransmitted_pkts().unwrap_or(0) >= MIN_RETRANSMISSIONS
    }

    pub(crate) fn retransmitted_pkts(&self) -> Option<u64> {
        self.sender?.counted(|s| s.retrans_total_pkts)
    }

    /// BBR keeps its own model of the path: rules on cwnd and ssthresh do not apply.
    pub(crate) fn is_bbr(&self) -> bool {
        self.sent(|s| s.congestion.as_deref().map(|name| name.starts_with("bbr")))
            .unwrap_or(false)
    }

    pub(crate) fn min_rtt(&self) -> Option<Duration> {
        let of_receiver = || self.receiver?.smallest(|s| s.min_rtt.or(s.rcv_rtt));
        self.sender
            .and_then(Timeline::min_rtt)
            .or_else(of_receiver)
            .filter(|rtt| !rtt.is_zero())
    }

    /// Whether round trips take so much longer than they could that ACKs must be delayed.
    pub(crate) fn acks_are_late(&self) -> Option<bool> {
        self.is_late(self.sender?.queue_delay()?)
    }

    /// Whether an ACK that comes this long after the smallest round trip was delayed.
    pub(crate) fn is_late(&self, delay: Duration) -> Option<bool> {
        let min_rtt = self.min_rtt()?;
        Some(
            delay >= (min_rtt / 2).clamp(DELAYED_ACK_QUEUE_DELAY, DELAYED_ACK_ON_LONG_PATHS)
                || (delay >= SHORT_DELAYED_ACK && delay >= min_rtt * SHORT_DELAYED_ACK_RTTS),
        )
    }

    /// Window scale of the receiver.
    pub(crate) fn window_scale(&self) -> Option<u8> {
        self.received(|s| s.rcv_wscale)
            .or_else(|| self.sent(|s| s.snd_wscale))
    }

    /// Largest window that the receiver can ever offer on this connection, in bytes.
    pub(crate) fn window_ceiling(&self) -> Option<u64> {
        if self.scaling_agreed() == Some(false) {
            return Some(u64::from(UNSCALED_WINDOW));
        }
        // RFC 7323 section 2.3: a scale above 14 counts as 14.
        Some(u64::from(UNSCALED_WINDOW) << self.window_scale()?.min(14))
    }

    pub(crate) fn scaling_agreed(&self) -> Option<bool> {
        self.sent(|s| s.window_scaling)
            .or_else(|| self.received(|s| s.window_scaling))
    }

    /// Largest window that the receiver offered, in bytes; that of the later half of the interval
    /// where it holds still there.
    pub(crate) fn window_offered(&self) -> Option<u64> {
        self.sender
            .and_then(|sender| sender.largest_that_holds(|s| s.snd_wnd_bytes))
            .or_else(|| {
                self.receiver?
                    .largest_that_holds(|s| s.rcv_wnd_bytes.or(s.rcv_ssthresh_bytes))
            })
            // Without scaling the receiver's own figure goes on above what it can say.
            .map(|window| u64::from(window).min(self.window_ceiling().unwrap_or(u64::MAX)))
    }

    /// Bytes in flight that this path should get where a limit of `present` bytes hides what it
    /// could carry: some times the present, what it ever delivered, or a usual path of that length.
    pub(crate) fn needed_bytes(&self, present: u64) -> u64 {
        let shown = self.sender.and_then(Timeline::bdp_bytes).unwrap_or(0);
        let assumed = Rate::from_bits_per_second(ASSUMED_PATH_BITS)
            .bdp_bytes(self.min_rtt().unwrap_or_default());
        present.saturating_mul(GROWTH).max(shown).max(assumed)
    }

    /// `net.ipv4.tcp_rmem` of the receiving host.
    pub(crate) fn tcp_rmem(&self) -> Option<[u64; 3]> {
        self.receiver_host?.sysctl_triple("net.ipv4.tcp_rmem")
    }

    /// `net.ipv4.tcp_wmem` of the sending host.
    pub(crate) fn tcp_wmem(&self) -> Option<[u64; 3]> {
        self.sender_host?.sysctl_triple("net.ipv4.tcp_wmem")
    }
}
