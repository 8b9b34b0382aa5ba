//! Every threshold of the rules, with the reason for its value.
//!
//! They are anchored to flows that were measured on Linux 6.18 between two namespaces; change one
//! here, and the tables of `rules/tests.rs` tell which signatures it no longer separates.

use core::time::Duration;

// --- the data -----------------------------------------------------------------------------------

/// Samples that a timeline keeps, spread over the whole time: 40 s at 10 ms, and cheap to sort.
pub(crate) const SAMPLES_KEPT: usize = 4096;
/// Fewer samples give no verdict: of the flows held by their send buffer, two of twelve were caught
/// at a moment that looked otherwise, and twenty samples make such a majority unlikely.
pub(crate) const MIN_SAMPLES: usize = 20;
/// Shorter intervals give no verdict: a cork's 200 ms timer must fire several times in them.
pub(crate) const MIN_INTERVAL: Duration = Duration::from_millis(1000);
/// Timers fire late and first samples come late: this much of [`MIN_INTERVAL`] is enough.
pub(crate) const INTERVAL_SLACK: f64 = 0.8;
/// A flow should be seen for this many round trips; a verdict from less time is less sure.
pub(crate) const ROUND_TRIPS_WANTED: u32 = 20;
/// Least samples for a vote.
pub(crate) const MIN_VOTES: usize = 5;
/// Shorter pauses do not split an interval into bursts: Linux resets the window after an idle time
/// above the timeout, which is at least 200 ms.
pub(crate) const SHORTEST_GAP: Duration = Duration::from_millis(200);
/// A flow is one-way if the other direction carries less than this share of its payload.
pub(crate) const ONE_WAY_SHARE: f64 = 0.02;
/// A change that gives less than this factor becomes a note.
pub(crate) const WORTHWHILE_GAIN: f64 = 1.05;
/// Assumed rate of a path (bit/s) where a limited flow cannot show it.
pub(crate) const ASSUMED_PATH_BITS: u64 = 100_000_000;

/// A smaller round-trip time is one within a machine, where an ACK comes before any program has
/// run: programs take longer to wake up.
pub(crate) const LOCAL_RTT: Duration = Duration::from_micros(50);

// --- small writes -------------------------------------------------------------------------------

/// Measured: all samples of a stalled flow show the signature, none with `TCP_NODELAY`.
pub(crate) const STALL_SHARE: f64 = 0.5;
/// If the receiver answers at once, the segment is held for one of the two round trips of an
/// operation: half of the time at most.
pub(crate) const SERIALISED_SHARE: f64 = 0.3;
/// ... or less, where an operation has further round trips or its program thinks, and pieces wait
/// in each part of the watch (imaplib behind 5 ms, whose appends take three round trips: 0.23 to
/// 0.33).
pub(crate) const STEADY_SERIALISED_SHARE: f64 = 0.15;
/// A stall that comes and goes is there in each of this many parts of a watch, for this share of it
/// (rinetd before a client that delays its ACKs at times: 0.2 to 0.9 in parts of two seconds).
pub(crate) const STALL_PARTS: u32 = 4;
pub(crate) const STALL_PART_SHARE: f64 = 0.1;
/// Above, an ACK is delayed (40 ms and more; averages of 20 ms were seen); below, a round trip.
pub(crate) const DELAYED_ACK_QUEUE_DELAY: Duration = Duration::from_millis(10);
/// ... on longer paths half of the smallest round trip, up to this: less is jitter.
pub(crate) const DELAYED_ACK_ON_LONG_PATHS: Duration = Duration::from_millis(20);
/// Of the samples in which a piece waits for an ACK that is delayed by 40 ms, so many are later
/// than that on paths of up to 30 ms: 40 ms less 10 (or half a round trip), of 40 and a round trip.
pub(crate) const LATE_WAITS_SHARE: f64 = 0.33;
/// Shorter delays than Linux's are delayed ACKs where the path is so much shorter still: hosts with
/// timers of a few milliseconds.
pub(crate) const SHORT_DELAYED_ACK: Duration = Duration::from_millis(2);
/// ... this many times.
pub(crate) const SHORT_DELAYED_ACK_RTTS: u32 = 5;
/// An operation that waits for a delayed ACK takes no longer than its delay and this many kernel
/// ticks, beside the round trips (measured: 46 ms at 40 ms and a round trip of 1 ms).
pub(crate) const DELAYED_ACK_TICKS: u32 = 2;
/// Messages in more pieces are streams.
pub(crate) const MOST_PIECES: u64 = 8;
/// More packets out are a stream that Nagle merely coalesces (a paced writer had 34), not a stall.
pub(crate) const STALL_PKTS_OUT: u32 = 4;
/// ... unless nothing else is sent for half a round trip. A piece that waits for a whole one shows
/// that in a half of the looks, which come with the error of a kernel tick.
pub(crate) const LONG_MESSAGE_SILENCE: f64 = 0.35;
/// Delayed ACKs per second at the receiver that confirm a stall (25 at 40 ms, 5 at 200 ms).
pub(crate) const DELAYED_ACKS_PER_SECOND: f64 = 4.0;
/// Data waits with nothing in flight: only a cork does that for a third of the time.
pub(crate) const CORK_SHARE: f64 = 0.3;
/// ... and where the option is off, a mark of the last write (`MSG_MORE`) for most of it.
pub(crate) const MORE_SHARE: f64 = 0.6;
/// A pause that the cork's timer may end was seen to last this long; less, for coarse samples.
pub(crate) const CORK_PAUSE: Duration = Duration::from_millis(120);
/// Duration of the cork's timer at least (`TCP_RTO_MIN`); shorter pauses are the program's.
pub(crate) const CORK_TIMER: Duration = Duration::from_millis(200);
/// One such pause can be chance; this many are a timer.
pub(crate) const CORK_PAUSES: usize = 3;
/// More segments than these between two such pauses are a stream, not messages that wait.
pub(crate) const CORK_SEGMENTS: u64 = 10;

/// Two connections answer each other if a request leaves within this time of the answer: times
/// since sending and receiving are known to a kernel tick (4 ms at HZ=250).
pub(crate) const ANSWER_GAP: Duration = Duration::from_millis(6);
/// Share of the samples in which they do.
pub(crate) const ANSWER_SHARE: f64 = 0.6;
/// Operations per second that delayed ACKs leave: 5 at 200 ms, 25 at 40 ms, or 44 (measured) where
/// the timers of the two connections overlap; with some room.
pub(crate) const DELAYED_OPERATIONS: core::ops::Range<f64> = 2.0..60.0;

// --- receive window -----------------------------------------------------------------------------

/// Healthy flows were stopped by the window for 0.3 % of the time, limited ones for 40 to 98 %.
pub(crate) const WINDOW_SHARE: f64 = 0.2;
/// With less than this the share above has no meaning: jiffies of 4 ms.
pub(crate) const MIN_BUSY_SHARE: f64 = 0.02;
/// Unread data above this share of the buffer: measured 46 % with a slow reader, 0 otherwise.
pub(crate) const UNREAD_SHARE: f64 = 0.25;
/// Memory of received packets above this share of the buffer: measured 75 % with a slow reader.
pub(crate) const RECEIVE_MEMORY_SHARE: f64 = 0.5;
/// Share of the receiver's samples in which data has to lie unread.
pub(crate) const UNREAD_VOTES: f64 = 0.5;
/// A program that takes a fixed amount at a time and sleeps in between never catches up: so much of
/// the buffer is unread even right after it has read (measured: 17 %; 0 with a program that keeps
/// up, however seldom it reads).
pub(crate) const NEVER_READ_SHARE: f64 = 0.125;
/// ... in this share of the samples.
pub(crate) const NEVER_READ_VOTES: f64 = 0.9;
/// One whose buffer is never half full sleeps where so much of the time data lies unread while none
/// comes (measured: 0.38 and more of readers that sleep for some 30 ms, and less than 0.15 in each
/// recording of a prompt one).
pub(crate) const SLEEPS_SHARE: f64 = 0.3;
/// ... and so many times as much comes while the program reads as would in any such time (measured:
/// 2 and 3).
pub(crate) const FOLLOWS_READS: f64 = 1.5;
/// On a path longer than the program sleeps, much lies unread for two ticks and longer in this
/// share of the samples (0.21 to 0.39 of slow readers, at most 0.03 in each recording of a prompt
/// one).
pub(crate) const UNREAD_TICKS_SHARE: f64 = 0.2;
/// ... and so many times as much comes a round trip after an ACK as would in any such time (1.29 to
/// 1.61, where ACKs are due in two thirds of it).
pub(crate) const FOLLOWS_ACKS: f64 = 1.2;
/// From the sender alone: the window that a reader moves shrinks at least this often.
pub(crate) const WINDOW_SHRINKS_SHARE: f64 = 0.1;
/// From the sender alone: smaller changes of the window are rounding.
pub(crate) const WINDOW_SHRINKS_BY: f64 = 0.05;
/// ... so that a window holds still whose median is at least this share of the largest.
pub(crate) const HOLDS_STILL: f64 = 1.0 - WINDOW_SHRINKS_BY;
/// A buffer within this share of its sysctl has reached it.
pub(crate) const AT_CAP: f64 = 0.9;
/// A window without scaling.
pub(crate) const UNSCALED_WINDOW: u32 = 65_535;
/// Windows round down to whole segments: this much of 65535 has reached the end.
pub(crate) const UNSCALED_SHARE: f64 = 0.9;
/// A window-limited flow moves one window per round trip; from the receiver alone at least this
/// share of it must arrive.
pub(crate) const WINDOW_PER_RTT_SHARE: f64 = 0.6;
/// ... where the sender pauses, in bursts of at least so many windows.
pub(crate) const BURST_WINDOWS: u64 = 4;
/// ... which end where nothing comes for so many round trips.
pub(crate) const PAUSE_ROUND_TRIPS: u32 = 2;
/// Buffers are raised to at least this many times what they were: the need behind a limit is
/// unknown.
pub(crate) const GROWTH: u64 = 4;
/// Largest maximum that is proposed: enough for 10 Gbit/s and 200 ms, and it bounds one flow.
pub(crate) const LARGEST_BUFFER: u64 = 256 << 20;
/// Third value of `tcp_rmem` where nothing larger is needed: the kernel's own default.
pub(crate) const USUAL_RMEM_MAX: u64 = 6 << 20;
/// Third value of `tcp_wmem` where nothing larger is needed: the kernel's own default.
pub(crate) const USUAL_WMEM_MAX: u64 = 4 << 20;

/// A window that is this many times what the path holds stands in a queue of the path.
pub(crate) const WINDOW_QUEUE: f64 = 1.5;
/// ... and delays by at least this much: less is jitter.
pub(crate) const WINDOW_QUEUE_DELAY: Duration = Duration::from_millis(2);
/// ... with this many segments out: fewer wait for delayed ACKs.
pub(crate) const WINDOW_QUEUE_SEGMENTS: f64 = 8.0;
/// ... where ACKs come one after the other, as a queue lets segments out: in this share of the
/// samples the last one is not older than the time that the rate gives this many segments.
pub(crate) const ACKS_STEADY_SHARE: f64 = 0.6;
/// One ACK for every other segment, and twice the time for jitter.
pub(crate) const ACKS_STEADY_SEGMENTS: u64 = 4;
/// Amount in flight in all but one of this many samples.
pub(crate) const LEAST_OUT_PARTS: usize = 10;
/// With this many segments out the smoothed round-trip time tells of a queue alone: the kernel
/// averages over the last eight ACKs or so, of which a delayed one is a small part of all.
pub(crate) const SMOOTH_SEGMENTS: f64 = 100.0;
/// ... where ACKs come so steadily: the bottleneck is never idle.
pub(crate) const ACKS_FLOW_SHARE: f64 = 0.95;
/// In a capture, ACKs pause where none comes for what this many segments take at the mean rate,
pub(crate) const ACKS_PAUSE_SEGMENTS: u64 = 6;
/// ... and this share of the round trip,
pub(crate) const ACKS_PAUSE_RTTS: f64 = 0.125;
/// ... in this share of the looks (measured: 0.15 to 0.35 with a send buffer of half of what the
/// path holds, 0 to 0.03 where a queue stands).
pub(crate) const ACKS_PAUSE_SHARE: f64 = 0.1;
/// From the sender alone: a window below one segment for so long is a program that does not read
/// (a prompt one opens it within a round trip).
pub(crate) const CLOSED_ROUND_TRIPS: u32 = 4;
/// ... and at least for this long.
pub(crate) const CLOSED_TIME: Duration = Duration::from_millis(100);
/// ... in this share of the samples.
pub(crate) const CLOSED_SHARE: f64 = 0.2;
/// ... or for shorter times, where it opens to this many segments in between (measured: below one
/// segment in 7 to 36 % of the samples with readers that pause, in none with prompt ones, whose
/// buffers were as small).
pub(crate) const MOVING_WINDOW_SEGMENTS: u32 = 4;
/// ... or is 0, and stays so, in this share of the samples (measured: 0 with prompt readers, 2 to
/// 100 % with slow ones).
pub(crate) const SHUT_SHARE: f64 = 0.1;
/// A flow that the window stops for this share of its busy time has no other limit.
pub(crate) const MOSTLY_STOPPED: f64 = 0.7;
/// ... or, under BBR, for this share: half of the one round trip of eight in which it probes.
pub(crate) const PROBING_STOPPED: f64 = 0.06;
/// From the sender alone: ACKs as sparse as these come from a program that does not read. Measured
/// where the window stops the flow: 7 to 166 segments per ACK and at most 3 ACKs per round trip
/// with readers that are slow, 1.6 to 2.4 and 6.6 or more with prompt ones.
pub(crate) const SPARSE_ACKS_SEGMENTS: f64 = 6.0;
/// ... per round trip, of a window of at least
pub(crate) const SPARSE_ACKS_PER_RTT: f64 = 4.0;
/// ... this many segments: in a small one a few ACKs are all that there are.
pub(crate) const SPARSE_ACKS_WINDOW: u32 = 16;
/// ... and so late: Linux delays an ACK by 40 ms at least, half of that in the mean.
pub(crate) const SPARSE_ACKS_DELAY: Duration = Duration::from_millis(15);
/// Where each such ACK is for all that is in flight, of this many segments, a reader that sleeps
/// shows in smaller windows too: for 8 a prompt one sends four ACKs. (A queue of 15 packets on the
/// path limits the window of a sender to such a reader to 9 to 17 segments.)
pub(crate) const ACKED_AT_ONCE_WINDOW: u32 = 8;
/// A late ACK is one of the timer where it is for this share of what is in flight, or more.
pub(crate) const ACKED_AT_ONCE: f64 = 0.8;
/// An ACK for so many times what leaves as one packet is one that was kept back.
pub(crate) const HELD_ACK_PACKETS: f64 = 2.0;
/// Share of the time that delayed ACKs must take (the last look before each shows less of the wait
/// than there was).
pub(crate) const DELAYED_SHARE: f64 = 0.3;
/// From the sender alone: a prompt reader takes one window per round trip; one that takes less than
/// this share of it is slow.
pub(crate) const PROMPT_READER_SHARE: f64 = 0.5;

// --- send buffer --------------------------------------------------------------------------------

/// Measured: locked flows fired in 11 of 12 single snapshots, others in none of 15.
pub(crate) const SEND_BUFFER_SHARE: f64 = 0.5;
/// A writer that was stopped is woken when two thirds of the buffer are in use (measured 0.663 to
/// 0.666): a buffer that is known to be fixed counts as used up from there.
pub(crate) const WAKE_SHARE: f64 = 0.6;
/// Such a flow runs in cycles: while a tail held by Nagle lets it fill cwnd, it looks otherwise.
pub(crate) const FIXED_BUFFER_SHARE: f64 = 0.3;
/// ... or while its window, cut by an overflow, grows again (measured: 0.22 to 0.24 where the
/// buffer left 59 of 134 to 204 Mbit/s).
pub(crate) const FIXED_BUFFER_SHARE_CUT: f64 = 0.15;
/// A short transfer of this many fixed buffers is stopped by one for most of its time; the last
/// buffer of a smaller one stands full because nothing is left to write.
pub(crate) const BUFFERS_OF_A_TRANSFER: u64 = 8;
/// A buffer that may still grow counts as used up from here.
pub(crate) const FULL_BUFFER: f64 = 0.9;
/// The kernel's smallest send buffer, which `SO_SNDBUF` of 0 gives (`SOCK_MIN_SNDBUF`).
pub(crate) const SMALLEST_SNDBUF: u32 = 4608;
/// More in flight than this many bandwidth-delay products is a queue: a larger buffer only grows
/// it.
pub(crate) const QUEUED_BDPS: f64 = 2.5;
/// BBR with this many products of the path in flight has what it needs.
pub(crate) const BBR_BDPS: f64 = 1.2;
/// ... and at least this many segments: a window of so few cannot be called a queue.
pub(crate) const FEW_SEGMENTS: u64 = 4;
/// Memory that the kernel reserves per segment of MSS 1460 (`tcp_sndbuf_expand`).
pub(crate) const MEMORY_PER_SEGMENT: u64 = 2304;

// --- application --------------------------------------------------------------------------------

/// Share of samples with nothing left to send and room in every window.
pub(crate) const APP_SHARE: f64 = 0.5;
/// The share of the time that is the program's from which a path is not called full that carried
/// clearly more (measured: 0.80 to 0.95 where a program writes 16 kB a hundred times a second into
/// a queue of 40 packets, 0.3 at most where a path or a policer is the limit).
pub(crate) const PROGRAM_SHARE: f64 = 0.75;
/// A program that has nothing to send for this share of each quarter of a watch catches up.
pub(crate) const CAUGHT_UP: f64 = 0.1;
/// A request cannot return faster than the smallest round trip; delayed ACKs and thinking servers
/// raise the smoothed one, which therefore counts up to this many times the smallest.
pub(crate) const ROUND_TRIP_STRETCH: u32 = 2;
/// A program that uses this share of a core has no time left for larger writes.
pub(crate) const CPU_SHARE: f64 = 0.8;
/// Segments below this share of the MSS are small: 583 of 1448 with 16-byte writes.
pub(crate) const SMALL_SEGMENT: f64 = 0.6;
/// Fewer segments per second do not fill a core.
pub(crate) const MANY_SEGMENTS_PER_SECOND: f64 = 2000.0;
/// This many small segments per second fill a core whichever process is charged (a writer of 16
/// bytes with `TCP_NODELAY` sent 70 000 per second while the path's emulator had most of both
/// cores).
pub(crate) const FLOOD_SEGMENTS_PER_SECOND: f64 = 20_000.0;
/// Segments below this share of the MSS are single records: at least four would have fitted.
pub(crate) const RECORD_SEGMENT: f64 = 0.25;
/// From this many records per second on, a wait of some milliseconds joins several; fewer are
/// joined only at the price of a noticeable delay (a game at 60 per second, keystrokes).
pub(crate) const MANY_RECORDS_PER_SECOND: f64 = 1000.0;
/// Bytes of a block of records: "a little smaller than 8 K" (seed: Winsock, suggestion 1).
pub(crate) const RECORD_BLOCK_BYTES: f64 = 8000.0;
/// Less CPU time than this per payload byte (nanoseconds) is the price of large writes: 16-byte
/// writes cost 80, writes of 64 KB under 2.
pub(crate) const LARGE_WRITE_NANOS_PER_BYTE: f64 = 20.0;
/// Operations per round trip from which a flow is bound by it; lower, a program thinks.
pub(crate) const ROUND_TRIPS_BUSY: f64 = 0.7;
/// For so long Linux keeps the ACK of a question back that its program will answer
/// (`TCP_DELACK_MIN`; BSD 100 ms, Windows up to 200 ms).
pub(crate) const DELAYED_ACK: Duration = Duration::from_millis(40);
/// Waits for the other end in which it has acknowledged: a smaller share of them tells that no
/// timer of it fires, since a program that takes as long as a delayed ACK at times takes longer at
/// others.
pub(crate) const ACKED_WAITS: f64 = 0.05;
/// Operations per second below which the programs hardly talk.
pub(crate) const FEW_OPERATIONS: f64 = 1.0;
/// Times since something was sent or received are known to a kernel tick.
pub(crate) const TICK: Duration = Duration::from_millis(4);
/// A flow that reaches this share of a pacing rate is held by it (the rate counts headers too).
pub(crate) const PACED_SHARE: f64 = 0.85;
/// A stream whose segments have this share of the MSS in the mean has hardly an end of a write.
pub(crate) const PACED_SEGMENT: f64 = 0.98;
/// ... and BBR that fills a path has a queue of this share of the round trip (3 % losses: 6 %).
pub(crate) const PACED_QUEUE_SHARE: f64 = 0.03;
/// More packets out are no question and answer.
pub(crate) const REQUEST_PKTS: u32 = 10;

// --- start-up -----------------------------------------------------------------------------------

/// After a pause the window is at most this share of what it was.
pub(crate) const RESTART_SHARE: f64 = 0.5;
/// A restart that costs less than this share of a burst's time is not worth a setting.
pub(crate) const RESTART_COST: f64 = 0.15;
/// ... nor, in a stream without questions, one that costs less than this share of the time from
/// burst to burst (a rate limit in the server: 8 %; 500 kB each 3 s over 100 ms: 14 %).
pub(crate) const RESTART_COST_OF_STREAM: f64 = 0.1;
/// ... nor one that costs less than this.
pub(crate) const RESTART_TIME: Duration = Duration::from_millis(10);
/// Over less time, acknowledgments come at the pace at which they were merged (two samples,
/// mostly).
pub(crate) const TRAIN_TIME: Duration = Duration::from_millis(8);
/// Initial window of Linux and RFC 6928, in segments.
pub(crate) const INITIAL_WINDOW_PKTS: u64 = 10;
/// A connection that begins with this many has had its initial window raised.
pub(crate) const LARGE_INITIAL_WINDOW_PKTS: u32 = 20;
/// A transfer of fewer round trips gains little from a larger initial window (three, less a tick).
pub(crate) const STARTUP_ROUND_TRIPS: f64 = 2.8;
/// A connection that was busy for longer has left its start behind.
pub(crate) const SHORT_BUSY: Duration = Duration::from_secs(2);
/// The transfer takes this many times what the bottleneck rate would need (measured 1.7 to 3.7 with
/// 10 segments, 1.0 to 1.3 with 60).
pub(crate) const STARTUP_SLOWDOWN: f64 = 1.4;
/// While round trips take this many times the smallest one, the bottleneck is never idle.
pub(crate) const FULL_PATH_RTTS: u32 = 2;
/// A program's time shows over so many connections that carry a question each.
pub(crate) const THINKING_CONNECTIONS: usize = 5;
/// A question or an answer of more segments takes the network its time.
pub(crate) const QUESTION_SEGMENTS: u64 = 10;
/// This many short connections show a habit.
pub(crate) const SHORT_CONNECTIONS: usize = 2;
/// Bounds of the proposed initial window; 60 was measured, more risks a burst loss.
pub(crate) const PROPOSED_INITIAL_WINDOW: (u64, u64) = (20, 64);

// --- loss and queue -----------------------------------------------------------------------------

/// Less loss does not slow CUBIC down much; a healthy flow shows less between its queue overflows.
pub(crate) const LOSS_SHARE: f64 = 0.001;
/// No queue: the round-trip time is below this many times its minimum.
pub(crate) const NO_QUEUE: f64 = 1.25;
/// On short paths this much delay is scheduling and no queue.
pub(crate) const NO_QUEUE_SLACK: Duration = Duration::from_millis(1);
/// Random losses leave less than this share of the best rate (measured: 0.64 at most; 0.75 and more
/// where a queue of a few packets overflows).
pub(crate) const RANDOM_RATE: f64 = 0.7;
/// Share of samples without a queue from which loss is called random.
pub(crate) const NO_QUEUE_VOTES: f64 = 0.8;
/// The mean window of a loss-based congestion control is a mean, and losses come in bursts.
pub(crate) const RESPONSE_SLACK: f64 = 3.0;
/// Losses that take this many times the segments that random ones would at their rate come together
/// (measured: 0.8 to 1.4 times where losses are random, 0.3 to 9 % of the packets; 2.5 to 25 times
/// where a queue of 6 to 14 packets or a bucket of 10 kB overflows).
pub(crate) const COME_TOGETHER: f64 = 2.0;
/// Short queues leave at least this share of the best rate: a window is cut to a half of what the
/// path holds at worst (measured: 0.6 and more; 0.4 where a link loses many packets at a time).
pub(crate) const SHORT_QUEUE_RATE: f64 = 0.5;
/// If this share of the retransmissions came back as D-SACK, nothing was lost.
pub(crate) const SPURIOUS_SHARE: f64 = 0.5;
/// Below this rate a processor segments packets with ease.
pub(crate) const OFFLOAD_BITS: u64 = 1_000_000_000;
/// Fewer retransmissions are chance.
pub(crate) const MIN_RETRANSMISSIONS: u64 = 3;
/// Fewer drops are chance.
pub(crate) const MIN_LOCAL_DROPS: u64 = 2;
/// Fewer drops per packet sent do no harm.
pub(crate) const LOCAL_DROP_SHARE: f64 = 0.0001;
/// The kernel counts packets of up to this many segments at an interface: a link that sent fewer
/// than the flow's segments divided by it did not carry the flow.
pub(crate) const SEGMENTS_PER_PACKET: u64 = 64;
/// A transmit queue as Linux gives it to Ethernet, in packets.
pub(crate) const USUAL_TXQUEUELEN: u64 = 1000;
/// The least delay that is called a bloated queue. A normal buffer of 400 packets at 50 Mbit/s
/// adds 96 ms, a BBR flow's start-up on a deep one 102 ms; the bloated one added 199 ms.
pub(crate) const BLOAT_DELAY: Duration = Duration::from_millis(120);
/// And at least this many times the smallest round-trip time.
pub(crate) const BLOAT_RTTS: u32 = 2;
/// Share of samples with that delay.
pub(crate) const BLOAT_SHARE: f64 = 0.5;
/// Data arrives continuously if the last of it is not older than this part of a round trip.
pub(crate) const STEADY_PART: u32 = 4;
/// And in bulk if so many segments come in each round trip, and for each that is sent back.
pub(crate) const BULK_SEGMENTS: u64 = 5;
/// From the receiver alone: a queue stands where data that comes all the time is late by this share
/// of the shortest round trip (measured: 0.7 to 1.1 behind a queue of one bandwidth-delay product).
pub(crate) const STANDING_SHARE: f64 = 0.25;
/// ... and by two kernel ticks, in
pub(crate) const STANDING_TICKS: u32 = 2;
/// ... this share of the samples: a program that fills a queue at times only has its own pace.
pub(crate) const STANDING_VOTES: f64 = 0.9;
/// ... and behind a queue fewer segments than this share arrive out of order (each loss makes those
/// of one round trip so). Set when paths on which half of them do had been taken for full ones.
pub(crate) const STANDING_OUT_OF_ORDER: f64 = 0.2;

// --- path ---------------------------------------------------------------------------------------

/// Timeouts in a row that tell a dead path from a lost packet.
pub(crate) const DEAD_BACKOFF: u8 = 2;
/// Share of samples in which everything that is out counts as lost.
pub(crate) const DEAD_SHARE: f64 = 0.5;
/// Segments of at least this share of the MSS are full-sized.
pub(crate) const FULL_SEGMENT: f64 = 0.9;
/// A connection that had so many full segments acknowledged knew a path that passed them.
pub(crate) const PASSED_SEGMENTS: u64 = 10;
/// Loss at which a connection may get nothing through beside others (measured: 12 of 30 flows on 5
/// Mbit/s with a queue of 25 packets, beside others that lost 5 to 20 %).
pub(crate) const STARVING_LOSS: f64 = 0.03;
/// What a window would carry in each round trip is compared with what is carried up to so many
/// times as much: beyond, the window is not what decides.
pub(crate) const TELLING_FACTOR: f64 = 20.0;
/// A rate lasts that is reached over this part of the time, and over so many round trips.
pub(crate) const LASTING_PART: u32 = 8;
pub(crate) const LASTING_RTTS: u32 = 4;
/// The best of so many such times, or more, tells more than the mean does.
pub(crate) const LASTING_TIMES: u32 = 4;
/// Share of samples in which the sender has more than the path takes.
pub(crate) const FULL_SHARE: f64 = 0.5;
/// What is acknowledged in a shorter time is counted by too few looks and ticks of the kernel.
pub(crate) const DENSE_TIME_MIN: Duration = Duration::from_millis(20);
/// A rate within this share of the best that was ever delivered is the path's.
pub(crate) const FULL_RATE: f64 = 0.8;
/// A window that grew by this share from one half of a watch to the other shows whether more comes
/// of it: less is the saw of congestion control.
pub(crate) const GROWTH_SHOWN: f64 = 0.15;
/// ... of which at least this part shows in the rate, where the path has more.
pub(crate) const GROWTH_GAINS: f64 = 0.5;
/// A connection with longer gaps does not fill a path.
pub(crate) const FULL_BUSY: f64 = 0.8;
/// A queue that the flow has built raises its round trips by this share of the smallest one.
pub(crate) const QUEUE_SHARE: f64 = 0.1;
/// ... and by this much: less is scheduling.
pub(crate) const QUEUE_DELAY: Duration = Duration::from_micros(500);
/// A short queue shows in round trips that are longer where the congestion window is larger: least
/// correlation of the two that is not chance.
pub(crate) const QUEUE_CORRELATION: f64 = 0.5;
/// ... where the longest are longer than the shortest by this share of them.
pub(crate) const QUEUE_SPREAD: f64 = 0.02;
/// A path that drops without a queue delays by less than this share of the smallest round trip.
pub(crate) const POLICED_QUEUE_SHARE: f64 = 0.03;
/// ... or less than this.
pub(crate) const POLICED_QUEUE: Duration = Duration::from_micros(400);
/// ... and drops at least this share.
pub(crate) const POLICED_LOSS: f64 = 0.0005;
/// Wait of written data behind earlier data that people notice.
pub(crate) const UNSENT_BACKLOG: Duration = Duration::from_millis(200);
/// An end that sends data at least this often may be asking questions.
pub(crate) const QUESTIONS_PER_SECOND: f64 = 1.0;
/// A pause after which a box on the path may have forgotten the connection; the shortest timeouts
/// of NATs and firewalls are half a minute, and shorter ones are set by hand.
pub(crate) const IDLE_BEFORE_CUT: Duration = Duration::from_secs(5);
/// A connection that retransmits this share although packets were only reordered is slowed down by
/// that (measured: 7 % where every second packet is 60 ms late, and 6 of 100 Mbit/s; 0.1 % where
/// three of ten are 30 ms late, and the path is full).
pub(crate) const OVERTAKEN_RETRANSMISSIONS: f64 = 0.01;
/// ... with at least this many reordering events for each retransmission (measured: 0.25 where
/// windows are so small that several segments are retransmitted for one event).
pub(crate) const OVERTAKEN_EVENTS: f64 = 0.1;
/// ... where at least this share of what was retransmitted came back as D-SACK (measured: 0.44).
pub(crate) const OVERTAKEN_IN_VAIN: f64 = 0.25;
/// An ACK that is out for longer than this share of the time from the round trip to the
/// retransmission timeout (200 ms and more) is late in any case: 40 ms of delay are less.
pub(crate) const LATE_OF_RTO: f64 = 0.5;
/// Waits for lost packets show in this share of the samples, which see half of each (measured: 0.02
/// at most with one loss in a thousand or few operations, 0.14 with three in a hundred).
pub(crate) const LATE_SHARE: f64 = 0.06;
/// A window that has fallen to this share of its largest was cut: CUBIC goes to 0.7 of it, Reno to
/// a half.
pub(crate) const CUT: f64 = 0.8;
/// A path that drops at one rate cuts the window at one size: its deviation is below this share of
/// its mean (in virtual time: 0.03 at most where a short queue overflows, 0.12 to 0.5 where losses
/// are random).
pub(crate) const STEADY_CUTS: f64 = 0.08;
/// ... and below these for four cuts and each one more, where it shows that the path is full: few
/// random losses may cut at one size by chance (where each cut deviates by a quarter of the mean,
/// one of 200 watches has less than 0.033 for four cuts, 0.051, 0.066, and 0.078 for seven).
pub(crate) const STEADY_CUTS_SURE: [f64; 3] = [0.033, 0.05, 0.065];
/// ... from this many segments on: windows of fewer differ by less than the bounds from one random
/// loss to the next (2 % over 300 ms: seven at 6 segments each).
pub(crate) const CUT_SEGMENTS: f64 = 10.0;
/// A slow-start threshold that no loss has set (`TCP_INFINITE_SSTHRESH`), in segments.
pub(crate) const NO_THRESHOLD: u32 = i32::MAX as u32;
/// Segments below which no loss sets the threshold (RFC 5681 section 3.1, equation 4).
pub(crate) const SMALLEST_THRESHOLD: f64 = 2.0;
/// From this many losses on, the rates between them tell whether a path drops at one rate.
pub(crate) const ONE_RATE_LOSSES: usize = 4;
/// ... and from one fewer where this many segments are lost at a time.
pub(crate) const LOST_TOGETHER: f64 = 4.0;
/// Losses within this many round trips are one: a bucket that is empty stays so until the window is
/// cut, and a capture at the receiver sees each gap.
pub(crate) const LOSSES_TOGETHER_RTTS: u32 = 4;
/// These rates differ by this share of their median at most (measured: 0.04 where most paths drop
/// at one rate, 0.11 and more where losses are random).
pub(crate) const LOSSES_SPREAD: f64 = 0.06;
/// ... and by these where as many losses as [`ONE_RATE_LOSSES`], or one more, show that the path is
/// full: so few random ones may come at one rate by chance (where each rate deviates by 0.15, one
/// of 200 watches has less).
pub(crate) const LOSSES_SPREAD_SURE: [f64; 2] = [0.02, 0.05];
/// Losses come in large windows only where the mean share of what was sent in smaller ones is
/// beyond a half by this, divided by the root of their number (random losses in a simulation of
/// CUBIC and Reno, 0.03 to 3 % over 20 and 100 ms: one of a hundred watches has that).
pub(crate) const LARGE_WINDOWS: f64 = 0.9;
/// ... and may do so from this on, where the windows they cut deviate by less than that share of
/// them: then nothing shows that losses are random.
pub(crate) const LARGE_WINDOWS_MAYBE: f64 = 0.5;
/// From this many losses on, the round trips behind them tell of a full queue,
pub(crate) const QUEUE_GAPS: usize = 2;
/// ... where the mean share of others that are shorter is beyond a half by this, divided by the
/// root of their number (measured: 0.84 to 1 where a queue of 6 to 20 packets overflows, 0.5 at one
/// of 12, 0.26 to 0.33 where losses are random, since other ACKs may be delayed, 0.28 to 0.5 at a
/// policer).
pub(crate) const QUEUE_GAP_RANK: f64 = 0.66;
/// A socket sees a full queue behind losses where the mean round trip is then longer than this
/// share of those without a loss (measured: 0.91 to 0.99 where a queue of 6 to 20 packets or a
/// bucket of 10 to 20 kB overflows, 0.3 to 0.76 at policers, 0.26 to 0.69 where losses are random).
pub(crate) const QUEUE_LOSS_RANK: f64 = 0.85;
/// See [`LARGE_WINDOWS_MAYBE`].
pub(crate) const STEADY_CUTS_MAYBE: f64 = 0.12;
/// A program that waits for room keeps its send buffer filled by two thirds (measured: 0.67 at
/// least in 95 of 100 samples where one writes without a pause, 0.57 at most where it does not).
pub(crate) const SEND_ROOM: f64 = 0.6;
/// One that asks or answers leaves more room in this share of the samples, if it never waits.
pub(crate) const SEND_ROOM_SHARE: f64 = 0.95;
/// This many cuts at one size are no chance.
pub(crate) const CUTS: usize = 4;
/// Rates are compared over steps of a round trip, and at least this,
pub(crate) const STEADY_STEP: Duration = Duration::from_millis(30);
/// ... of which there are at least this many; of more than that the newest are taken.
pub(crate) const STEADY_STEPS: (u32, u32) = (12, 4096);
/// In a round trip with this share more than usual more is sent than the path carries, or it has
/// room (BBR sends a quarter more to find out).
pub(crate) const EXCESS_SENT: f64 = 0.1;
/// Largest share of the excess that arrives where the path bounds it.
pub(crate) const EXCESS_PASSED: f64 = 0.3;
/// ... as it does in this many round trips,
pub(crate) const EXCESS_ROUNDS: usize = 3;
/// ... and this share of those with more than usual (measured: 0.95 and more in front of a queue,
/// 0.21 to 0.69 in front of a policer, which fills up with tokens while BBR probes for the
/// round-trip time; 0.16 at most where a program, its buffer or a window is the limit).
pub(crate) const EXCESS_KEPT: f64 = 0.25;
/// BBR's probes show in round trips of at least this, of which looks see each one,
pub(crate) const PROBING_RTT: Duration = Duration::from_millis(15);
/// ... where this many round trips were seen, three cycles,
pub(crate) const PROBING_ROUNDS: usize = 24;
/// ... of which the longest are longer by this share (a quarter more is sent, for one of them;
/// measured: 0.17 behind a bottleneck, 0.03 at most where something else is the limit),
pub(crate) const PROBING_SWING: f64 = 0.08;
/// ... and come again after this many,
pub(crate) const PROBING_CYCLE: [usize; 4] = [7, 8, 9, 10];
/// ... with this correlation (measured: 0.8 to 0.95; 0.3 at most else, or the same after any time).
pub(crate) const PROBING_CORRELATION: f64 = 0.55;
/// Arrivals whose rates differ by less than this share of them, from the tenth part of the round
/// trips to the ninth, come at one rate (measured under BBR: 0.01 to 0.06 on full paths; with
/// CUBIC's window that only grows: 0.02).
pub(crate) const ONE_RATE_SPREAD: f64 = 0.06;
/// Round trips follow a window that deviates by at least this share of it,
pub(crate) const FOLLOWS_SPREAD: f64 = 0.01;
/// ... where their correlation is at least this (measured: 0.97 on full paths; 0.3 at most else),
pub(crate) const FOLLOWS_CORRELATION: f64 = 0.9;
/// ... and they grow by this share of what the window grows by: on a full path by as much.
pub(crate) const FOLLOWS_SLOPE: f64 = 0.7;

// --- host ---------------------------------------------------------------------------------------

/// From this share of the local ports on, the kernel hardly finds a free one (it tries half of them
/// first, by parity).
pub(crate) const PORTS_TAKEN: f64 = 0.95;
/// Fewer drops of what arrived are chance.
pub(crate) const RECEIVE_DROPS: u64 = 10;
/// Fewer drops per packet that arrived do no harm: as for losses on the path.
pub(crate) const RECEIVE_DROP_SHARE: f64 = 0.001;
/// Connection tracking that drops this many packets or connections in a watch has no room; single
/// ones are lost to races.
pub(crate) const CONNTRACK_DROPS: u64 = 10;
