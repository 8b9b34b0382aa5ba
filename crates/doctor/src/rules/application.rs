//! The program is the limit: it computes, it waits for an answer, or it has nothing to say.

use base::{FlowSample, KnobValue, Limit, Live, Source, human};
use core::time::Duration;

use super::draft::{Draft, Remedy, high_if, of_programs};
use super::loss::random_loss;
use super::receive_window::unread_share;
use super::short::ShortConnections;
use super::steady::{arrives_at_one_rate, leaves_at_one_rate};
use super::thresholds::{
    ACKED_WAITS, ACKS_PAUSE_SHARE, APP_SHARE, CAUGHT_UP, CPU_SHARE, DELAYED_ACK, DELAYED_ACK_TICKS,
    FEW_OPERATIONS, FLOOD_SEGMENTS_PER_SECOND, FULL_RATE, INITIAL_WINDOW_PKTS,
    LARGE_WRITE_NANOS_PER_BYTE, MANY_RECORDS_PER_SECOND, MANY_SEGMENTS_PER_SECOND, OFFLOAD_BITS,
    PACED_QUEUE_SHARE, PACED_SEGMENT, PACED_SHARE, PROGRAM_SHARE, QUEUE_DELAY, QUEUE_SHARE,
    RECORD_BLOCK_BYTES, RECORD_SEGMENT, REQUEST_PKTS, ROUND_TRIP_STRETCH, ROUND_TRIPS_BUSY,
    SHORTEST_GAP, SMALL_SEGMENT, TICK, UNREAD_VOTES,
};
use crate::observation::only_sends;
use crate::shares::Shares;
use crate::timeline::{Timeline, cwnd_room_pkts, fills_sndbuf, ratio_of_times, window_room_bytes};
use crate::verdict::{Confidence, NextLimit, Side, Verdict};
use crate::view::{View, least_pause};

/// A whole core goes into writes of a few bytes.
pub(crate) fn small_writes_cpu(view: &View<'_>) -> Option<Verdict> {
    let sender = view.sender?;
    if only_sends(sender) != Some(true) {
        return None;
    }
    let seconds = sender.interval().as_secs_f64();
    let cpu = view.cpu_share(Some(sender));
    let cpu_time = cpu.and_then(|_| sender.counted_time(|s| s.owner_cpu_time));
    let mss = sender.mss_bytes()?;
    let segment = sender.segment_bytes()?;
    let segments = sender.counted(|s| s.data_segs_out)? as f64 / seconds;
    let acked = sender.counted(|s| s.bytes_acked)?.max(1) as f64;
    let per_byte = cpu_time.map(|time| time.as_nanos() as f64 / acked);
    let is_small = (segment as f64) < f64::from(mss) * SMALL_SEGMENT;
    let uses_a_core = cpu.is_some_and(|cpu| cpu >= CPU_SHARE);
    // Full segments do not tell of the writes in them, and a processor has other work too.
    let confidence = match () {
        () if !is_small => return None,
        () if uses_a_core && segments >= MANY_SEGMENTS_PER_SECOND => Confidence::High,
        () if segments >= FLOOD_SEGMENTS_PER_SECOND => Confidence::Medium,
        () => return None,
    };
    let mut draft = Draft::new("small-writes-cpu", 1.0, confidence)
        .row(
            "bytes_sent / data_segs_out",
            format!(
                "{} per segment, {segments:.0} segments per second",
                human::count(segment, "byte")
            ),
            format!("{} in a full segment", human::count(mss, "byte")),
        )
        .row_if(
            "owner_cpu_time",
            cpu.map(|cpu| format!("{} of a core", human::share(cpu))),
            format!("below {} of a core", human::share(CPU_SHARE)),
        )
        .row_if(
            "owner_cpu_time / bytes_acked",
            per_byte.map(|price| format!("{price:.0} ns per byte")),
            format!("below {LARGE_WRITE_NANOS_PER_BYTE:.0} ns per byte with large writes"),
        );
    let nodelay = view.sent(|s| s.nodelay);
    if nodelay != Some(false) {
        draft = draft.propose(view.sender_side, gather());
    }
    Some(draft.remark(
        "In the program: a buffered writer, writev, or a cork around a batch; each system call \
         costs about a microsecond, however little it writes.",
    ))
}

fn gather() -> Remedy {
    Remedy {
        knob: "nodelay",
        to: KnobValue::Flag(false),
        live: Live::Now,
        risk: "latency: a partial segment may wait for an ACK",
    }
}

/// Records without answers, each in a segment of its own: Microsoft KB 214397, case 1.
///
/// The sender has nothing to wait for, so neither the windows nor Nagle's algorithm join them.
pub(crate) fn unbatched_records(view: &View<'_>) -> Option<Verdict> {
    let sender = view.sender?;
    if only_sends(sender) != Some(true) {
        return None;
    }
    let seconds = sender.interval().as_secs_f64();
    let acked = sender.counted(|s| s.bytes_acked)? as f64 / seconds;
    let segments = sender.counted(|s| s.data_segs_out)? as f64 / seconds;
    let (segment, mss) = (sender.segment_bytes()?, sender.mss_bytes()?);
    let is_record = (segment as f64) < f64::from(mss) * RECORD_SEGMENT;
    let idle = sender.idle_share().unwrap_or(0.0);
    let waits = nothing_waits_share(sender).map_or(idle, |waits| idle + (1.0 - idle) * waits);
    if !is_record || segments < MANY_RECORDS_PER_SECOND || waits < APP_SHARE {
        return None;
    }
    let marked = sender.vote_of_all(|s| s.delivery_app_limited);
    let confidence = high_if(marked.is_some_and(|marked| marked >= APP_SHARE));
    let (blocks, each) = (
        acked / RECORD_BLOCK_BYTES,
        RECORD_BLOCK_BYTES / f64::from(mss),
    );
    let packets = (blocks * each.ceil()).max(1.0);
    Some(
        Draft::new("unbatched-records", waits, confidence)
            .row(
                "bytes_sent / data_segs_out",
                format!(
                    "{} per segment, {segments:.0} segments per second",
                    human::count(segment, "byte")
                ),
                format!("{} in a full segment", human::count(mss, "byte")),
            )
            .row(
                "notsent_bytes",
                format!("nothing unsent, in {} of the samples", human::share(waits)),
                "more than a segment if TCP were the limit",
            )
            .row(
                "data_segs_in",
                "no answers",
                "one per operation if a response were awaited",
            )
            .row_if("nodelay", view.sent(|s| s.nodelay).map(human::flag), "any")
            .next(Some(NextLimit {
                what: format!("{packets:.0} segments per second in blocks of 8000 bytes"),
                rate: None,
            }))
            .remark(
                "No TCP setting fixes it. In the program: collect records into blocks of a little \
                 less than 8 KiB and write each with one call, when it is full or when its oldest \
                 record has waited for some milliseconds.",
            ),
    )
}

/// The end that is seen, where it is, and others there: questions and answers look alike from both,
/// although one of them is the larger.
fn asking_or_answering<'a>(view: &View<'a>) -> Option<(&'a Timeline, Side, &'a [&'a Timeline])> {
    match (view.sender, view.receiver) {
        (Some(sender), _) => Some((sender, view.sender_side, view.sender_siblings)),
        (None, receiver) => Some((receiver?, view.receiver_side(), view.siblings)),
    }
}

/// A question, an answer, and nothing in between but the path.
pub(crate) fn round_trip_bound(view: &View<'_>) -> Option<Verdict> {
    let (sender, _, beside) = asking_or_answering(view)?;
    if let Some(short) = ShortConnections::of(sender, beside) {
        return round_trips_of_connections(sender, &short);
    }
    let out = sender.counted(|s| s.data_segs_out)?;
    let back = sender.counted(|s| s.data_segs_in)?;
    let (srtt, min_rtt) = (sender.srtt()?, sender.min_rtt()?);
    let path_is_late = path_is_late(sender);
    let rtt = match path_is_late {
        true => srtt,
        false => srtt.min(min_rtt.saturating_mul(ROUND_TRIP_STRETCH)),
    };
    let round_trips = sender.interval().as_secs_f64() / rtt.as_secs_f64();
    let per_round_trip = out.min(back) as f64 / round_trips;
    // More than one question a round trip are asked ahead, and where much comes back their end does
    // not see what limits that (HTTP/2, SFTP, NFS).
    let asks_ahead = per_round_trip > f64::from(ROUND_TRIP_STRETCH)
        && back as f64 > round_trips * f64::from(REQUEST_PKTS);
    let small = sender
        .vote(|s| Some(s.unacked_pkts? <= REQUEST_PKTS && s.notsent_bytes? < s.snd_mss_bytes?))?;
    let acks_are_delayed = view.acks_are_late() == Some(true) && !path_is_late;
    if per_round_trip < ROUND_TRIPS_BUSY
        || small < APP_SHARE
        || acks_are_delayed
        || (view.sender.is_none() && asks_ahead)
    {
        return None;
    }
    let operations = out.min(back) as f64 / sender.interval().as_secs_f64();
    let (srtt, min_rtt) = (human::time(srtt), human::time(min_rtt));
    let shown = path_is_late.then(|| format!("{srtt}, and {min_rtt} at best"));
    let small = human::share(small);
    Some(
        Draft::new(
            "round-trip-bound",
            per_round_trip.min(1.0),
            Confidence::Medium,
        )
        .row(
            "data_segs_in",
            format!("{operations:.0} operations per second"),
            format!("one per round trip of {}", human::time(rtt)),
        )
        .row(
            "unacked_pkts",
            format!("at most {REQUEST_PKTS} in {small} of the samples"),
            "more where data sets the rate",
        )
        .row_if("srtt", shown, "close to the smallest one without a queue")
        .next(Some(NextLimit {
            what: "the number of requests in flight".into(),
            rate: None,
        }))
        .remark(if path_is_late {
            BY_A_QUEUE
        } else {
            BY_ROUND_TRIPS
        }),
    )
}

const BY_ROUND_TRIPS: &str = "No TCP setting helps, because each operation already takes one round \
    trip. In the program: several requests at once, fewer and larger ones, or a closer server.";
const BY_A_QUEUE: &str = "No TCP setting helps, because each operation takes one round trip, most of \
    which is a queue on the path that other traffic fills, or a longer way: look for a connection \
    with bufferbloat. In the program: several requests at once.";

/// Whether the path itself takes that much longer than it could: nothing that is waited for was
/// acknowledged meanwhile, and no delayed ACK takes this long.
fn path_is_late(timeline: &Timeline) -> bool {
    let is_late = || {
        let (srtt, min_rtt) = (timeline.srtt()?, timeline.min_rtt()?);
        let delay = srtt.saturating_sub(min_rtt);
        let delayed_ack = DELAYED_ACK + TICK * DELAYED_ACK_TICKS;
        Some(delay > delayed_ack && !other_end_has_it(timeline)?)
    };
    is_late() == Some(true)
}

/// Whether what is waited for has reached the other end, in a share of the waits that tells: its
/// program is at work then. Its kernel acknowledges a question by itself where the program takes
/// longer than [`DELAYED_ACK`].
fn other_end_has_it(timeline: &Timeline) -> Option<bool> {
    let round_trip = timeline.min_rtt()? + TICK;
    let waits = timeline.vote_of_all(|s| waits_for_other_end(s, round_trip))?;
    let acked = timeline
        .vote_of_all(|s| Some(waits_for_other_end(s, round_trip)? && s.unacked_pkts? == 0))?;
    Some(acked >= waits * ACKED_WAITS)
}

/// Whether the last thing that happened was that data left, and more than a round trip ago. While
/// data waits to be sent, no program is waited for.
fn waits_for_other_end(s: &FlowSample, round_trip: Duration) -> Option<bool> {
    let (sent, received) = since_data(s)?;
    Some(s.notsent_bytes? == 0 && sent <= received + TICK && sent >= round_trip)
}

/// Times since data was sent and received.
fn since_data(s: &FlowSample) -> Option<(Duration, Duration)> {
    Some((s.since_data_sent?, s.since_data_received?))
}

/// A handshake, a question and an answer on each connection, and nothing between them but the path.
fn round_trips_of_connections(one: &Timeline, short: &ShortConnections) -> Option<Verdict> {
    let rtt = one.min_rtt()?;
    // A wait of only one kernel tick cannot be distinguished from a program's own time.
    if short.network < APP_SHARE || rtt < TICK * 2 {
        return None;
    }
    Some(
        Draft::new("round-trip-bound", short.network, Confidence::Medium)
            .row(
                "state, since_data_sent",
                format!(
                    "waiting for the network in {} of the samples",
                    human::share(short.network)
                ),
                "waiting for a program, if one were slow",
            )
            .row(
                "data_segs_in",
                short.shown(),
                "fewer of them, with many requests each",
            )
            .row("min_rtt", human::time(rtt), "the least time of a request")
            .next(Some(NextLimit {
                what: "one round trip per request, without the handshake".into(),
                rate: None,
            }))
            .remark(
                "No TCP setting helps, because each connection takes one round trip for the \
                 handshake and one for the response. In the program: keep connections open for \
                 several requests (keep-alive, a pool), or a closer server.",
            ),
    )
}

/// Questions and answers with a pause before each that is not a round trip: on one connection, or
/// on many that carry one question each.
pub(crate) fn application_thinks(view: &View<'_>) -> Option<Verdict> {
    let (timeline, side, beside) = asking_or_answering(view)?;
    if view.sender.is_none() && !view.sender_accepted() && comes_in_bursts(timeline) == Some(true) {
        return None;
    }
    let thinking = match ShortConnections::of(timeline, beside) {
        Some(short) => Thinking::of_short(&short),
        None => Thinking::of_one(timeline)?,
    };
    if thinking.here + thinking.there < APP_SHARE {
        return None;
    }
    let (where_, share) = if thinking.here >= thinking.there {
        (side, thinking.here)
    } else {
        (side.other(), thinking.there)
    };
    if where_ == view.sender_side && is_stream(view, timeline) == Some(true) {
        return None;
    }
    let who = match where_ {
        Side::Local => "the program here",
        Side::Remote => "the program at the other end",
    };
    let all = thinking.here + thinking.there;
    Some(
        Draft::new("application-thinks", all, Confidence::Medium)
            .row("data_segs_in", thinking.operations, thinking.without)
            .row(
                "since_data_sent, since_data_received",
                format!(
                    "waiting for {who} in {} of the samples",
                    human::share(share)
                ),
                "waiting for the network, if programs answered at once",
            )
            .remark(format!(
                "No TCP setting helps, because {who} takes most of the time between request and \
                 response. In the program: several requests at once, or less work per request.",
            )),
    )
}

/// Whether the end that opened the connection sends large blocks, and hardly anything comes back:
/// what does come back acknowledges them (the windows of an ssh channel), and is not a request for
/// its program.
fn is_stream(view: &View<'_>, timeline: &Timeline) -> Option<bool> {
    let (out, back) = (
        timeline.counted(|s| s.data_segs_out)?,
        timeline.counted(|s| s.data_segs_in)?,
    );
    let (sent, answers) = match view.sender {
        Some(_) => (out, back),
        None => (back, out),
    };
    Some(sent > answers * 2 * INITIAL_WINDOW_PKTS && !view.sender_accepted())
}

/// Whether blocks arrive after pauses in which their sender's window may have been reset: who is
/// asked by them sees neither that window nor what the sender waits for.
fn comes_in_bursts(timeline: &Timeline) -> Option<bool> {
    let (arrived, answers) = (
        timeline.counted(|s| s.data_segs_in)?,
        timeline.counted(|s| s.data_segs_out)?,
    );
    let pause = timeline.largest(|s| s.since_data_received)?;
    Some(arrived > answers * 2 * INITIAL_WINDOW_PKTS && pause >= SHORTEST_GAP)
}

/// For how much of the time a program is waited for, and which.
struct Thinking {
    here: f64,
    there: f64,
    /// How many questions are answered.
    operations: String,
    /// ... and without a program's time.
    without: String,
}

impl Thinking {
    fn of_one(timeline: &Timeline) -> Option<Self> {
        let out = timeline.counted(|s| s.data_segs_out)?;
        let back = timeline.counted(|s| s.data_segs_in)?;
        let rtt = timeline.min_rtt()?;
        let operations = out.min(back) as f64 / timeline.interval().as_secs_f64();
        if operations < FEW_OPERATIONS {
            return None;
        }
        let (here, there) = thinking_shares(timeline, operations)?;
        Some(Self {
            here,
            there,
            operations: format!("{operations:.0} operations per second"),
            without: format!(
                "one per round trip of {}, if programs answered at once",
                of_programs(rtt)
            ),
        })
    }

    fn of_short(short: &ShortConnections) -> Self {
        Self {
            here: short.here,
            there: short.there,
            operations: short.shown(),
            without: "answered after a round trip, if the program answered at once".into(),
        }
    }
}

/// Shares of the samples in which the last thing that happened was that data arrived here (and the
/// program here has not answered yet), and that data left (and more than a round trip ago, so that
/// the other end's program has it). What takes a kernel tick only cannot be seen. Where the other
/// end never acknowledges before it answers, its program takes no longer than its ACK would have
/// been delayed; what is waited for beyond that is the path.
fn thinking_shares(timeline: &Timeline, operations: f64) -> Option<(f64, f64)> {
    let round_trip = timeline.min_rtt()? + TICK;
    let here = unanswered_share(timeline)?;
    let there = timeline.vote_of_all(|s| waits_for_other_end(s, round_trip))?;
    let most = match other_end_has_it(timeline) {
        Some(false) => operations * DELAYED_ACK.as_secs_f64(),
        _ => 1.0,
    };
    Some((here, there.min(most)))
}

/// Share of the time in which data has arrived here that was not answered yet. Between the segments
/// of a long message the network takes its time: there a program is at work where none came for
/// longer than a round trip, and that began with the last one.
pub(super) fn unanswered_share(timeline: &Timeline) -> Option<f64> {
    let arrived = timeline.counted(|s| s.data_segs_in)?;
    let answers = timeline.counted(|s| s.data_segs_out)?;
    let in_pieces = arrived >= answers * 2;
    let pause = match in_pieces {
        true => timeline.min_rtt()? + TICK,
        false => TICK,
    };
    let share = timeline.vote_of_all(|s| {
        let (sent, received) = since_data(s)?;
        Some(s.notsent_bytes? == 0 && received + TICK < sent && received >= pause)
    })?;
    let messages = answers as f64 / timeline.interval().as_secs_f64();
    let began = match in_pieces {
        true => messages * pause.as_secs_f64(),
        false => 0.0,
    };
    Some(share + share.min(began))
}

/// The program sets a rate for its packets, and the flow reaches it.
pub(crate) fn paced(view: &View<'_>) -> Option<Verdict> {
    let sender = view.sender?;
    let bound = view.sent(|s| s.max_pacing_rate)?;
    let rate = sender.rate()?;
    let reached = rate.bits_per_second() as f64 / bound.bits_per_second().max(1) as f64;
    if reached < PACED_SHARE {
        return None;
    }
    Some(
        Draft::new(
            "paced",
            sender.busy_share().unwrap_or(1.0),
            Confidence::High,
        )
        .row(
            "max_pacing_rate",
            human::rate(bound),
            "none, or above what the path carries",
        )
        .row("bytes_acked", human::rate(rate), "below the pacing rate")
        .remark(
            "No TCP setting helps, because this rate was set (SO_MAX_PACING_RATE): if it is \
                 too low, raise it in the program.",
        ),
    )
}

/// The program at one end is at the limit of its CPU core, where that is why data waits.
pub(crate) fn cpu_bound(view: &View<'_>) -> Option<Verdict> {
    let busy = |end| view.cpu_share(end).filter(|cpu| *cpu >= CPU_SHARE);
    let reads_slowly = || unread_share(view).is_some_and(|share| share >= UNREAD_VOTES);
    let writes_slowly = || {
        let waits = view.sender.and_then(nothing_waits_share);
        view.sender.and_then(only_sends) == Some(true)
            && waits.is_some_and(|share| share >= APP_SHARE)
            && small_writes_cpu(view).is_none()
    };
    let (cpu, side, share) = if let Some(cpu) = busy(view.receiver).filter(|_| reads_slowly()) {
        (cpu, view.receiver_side(), unread_share(view)?)
    } else {
        let cpu = busy(view.sender).filter(|_| writes_slowly())?;
        (cpu, view.sender_side, nothing_waits_share(view.sender?)?)
    };
    let (who, does) = match side {
        Side::Local => ("the program here", "here"),
        Side::Remote => ("the program at the other end", "at the other end"),
    };
    Some(
        Draft::new("cpu-bound", share, Confidence::Medium)
            .row(
                "owner_cpu_time",
                format!("{} of a CPU core, {does}", human::share(cpu)),
                format!(
                    "below {} if the program were not the limit",
                    human::share(CPU_SHARE)
                ),
            )
            .row_if(
                "bytes_acked",
                view.rate().map(human::rate),
                "what the path carries",
            )
            .remark(format!(
                "No TCP setting helps, because {who} is at the limit of its CPU core. In the \
                 program: larger reads and writes, or more threads with a connection each.",
            )),
    )
}

/// The processor cuts what it sends into packets by itself, although the card could, and that takes
/// the time that the connection lacks.
pub(crate) fn segmentation_offload_off(view: &View<'_>) -> Option<Verdict> {
    let sender = view.sender?;
    let interface = view.sender_interface?;
    let rate = view.rate()?;
    if view.sender_host?.tso(interface) != Some(false) || rate.bits_per_second() < OFFLOAD_BITS {
        return None;
    }
    let cpu = view
        .cpu_share(Some(sender))
        .filter(|cpu| *cpu >= CPU_SHARE)?;
    Some(
        Draft::new("segmentation-offload-off", cpu.min(1.0), Confidence::High)
            .row("tso", format!("off at {interface}"), "on")
            .row(
                "owner_cpu_time",
                format!("{} of a CPU core", human::share(cpu)),
                format!("below {}", human::share(CPU_SHARE)),
            )
            .row("bytes_acked", human::rate(rate), "what the path carries")
            .remark(format!(
                "Needs a setting of the interface: ethtool -K {interface} tso on gso on. Where it was \
                 disabled because of a defect of the network card or its driver, gso alone saves \
                 most of the CPU time.",
            )),
    )
}

/// Everything that was written is sent, and the windows have room.
pub(crate) fn app_limited(view: &View<'_>) -> Option<Verdict> {
    let sender = view.sender?;
    let idle = sender.idle_share().unwrap_or(0.0);
    let waits = nothing_waits_share(sender);
    let share = waits.map_or(idle, |waits| idle + (1.0 - idle) * waits);
    if share < APP_SHARE && !catches_up(view) {
        return writes_ahead(view);
    }
    // A program that keeps more in flight than the path carries is not what it waits for.
    let fills_path = (view.stands_in_queue() && !program_sets_rate(view))
        || may_be_paced(view)
        || (arrives_at_one_rate(view) && !program_sets_rate(view))
        || (leaves_at_one_rate(view) && sends_in_blocks(sender) != Some(true));
    if fills_path && !view.has_gaps() {
        return None;
    }
    let marked = sender.vote_of_all(|s| s.delivery_app_limited);
    let confidence = high_if(marked.is_some_and(|marked| marked >= APP_SHARE) || idle >= APP_SHARE);
    Some(
        Draft::new("app-limited", share, confidence)
            .row(
                "notsent_bytes",
                format!(
                    "nothing unsent, in {} of the active samples",
                    human::share(waits.unwrap_or(1.0))
                ),
                "more than a segment if TCP were the limit",
            )
            .row(
                "unacked_pkts",
                format!(
                    "nothing in flight and nothing to send in {} of the samples",
                    human::share(idle)
                ),
                "0 % if the program wrote all the time",
            )
            .row_if(
                "busy_time",
                busy_text(sender),
                "100 % if the program wrote all the time",
            )
            .remark(
                "No TCP setting helps, because TCP has nothing to send: look at what the \
                 program does between its writes.",
            ),
    )
}

/// Whether all that a program wrote has arrived repeatedly, in each quarter of the watch, and it
/// had nothing more: blocks may wait for the path, and lose packets in a short queue, but in the
/// long run as much passes as is written. Random losses make each of them slower, and can be
/// mended.
fn catches_up(view: &View<'_>) -> bool {
    let catches = || {
        let sender = view
            .sender
            .filter(|sender| only_sends(sender) == Some(true))?;
        let (begin, quarter) = (sender.first()?.at, sender.interval() / 4);
        let idle_in = |number: u32| {
            let (from, to) = (begin + quarter * number, begin + quarter * (number + 1));
            sender.idle_share_between(from, to)
        };
        let gaps = (0..4).all(|number| idle_in(number).is_some_and(|idle| idle >= CAUGHT_UP));
        Some(gaps && random_loss(view).is_none())
    };
    catches() == Some(true)
}

/// A program that writes blocks at a rate of its own: something waits to be sent nearly always, and
/// there is room for more of it. Where a queue stands, or a window is closed, that is the answer.
fn writes_ahead(view: &View<'_>) -> Option<Verdict> {
    let sender = view.sender?;
    let queue = QUEUE_DELAY.max(sender.min_rtt()?.mul_f64(QUEUE_SHARE));
    let is_stream = only_sends(sender) == Some(true) && view.rate()?.bits_per_second() > 0;
    if !is_stream || sender.queue_delay()? >= queue || !view.leaves_send_room() {
        return None;
    }
    let filled = sender.median(|s| s.wmem_queued_bytes)?;
    let buffer = sender.median(|s| s.sndbuf_bytes)?;
    Some(
        Draft::new("app-limited", 1.0, Confidence::Medium)
            .row(
                "wmem_queued_bytes",
                format!("{} in the median", human::count(filled, "byte")),
                format!(
                    "two thirds of the send buffer ({}) and more if the program waited for room",
                    human::count(buffer, "byte")
                ),
            )
            .row_if(
                "bytes_acked",
                view.rate().map(human::rate),
                "more, if the program wrote more",
            )
            .remark(
                "No TCP setting helps, because the program sets the rate: what it writes is \
                 sent before its send buffer is full.",
            ),
    )
}

/// Whether packets alone were seen, all of them full and behind a queue: so leaves what a program
/// writes seldom, and what BBR paces always.
fn may_be_paced(view: &View<'_>) -> bool {
    let is_paced = || {
        let sender = view.sender?;
        let (segment, mss) = (sender.segment_bytes()? as f64, sender.mss_bytes()?);
        let queue = QUEUE_DELAY.max(sender.min_rtt()?.mul_f64(PACED_QUEUE_SHARE));
        let is_full = segment >= f64::from(mss) * PACED_SEGMENT;
        let is_capture = sender.last()?.source == Source::Capture;
        let is_queued = sender.queue_delay()? >= queue;
        Some(is_capture && is_full && is_queued && sends_in_blocks(sender) != Some(true))
    };
    is_paced() == Some(true)
}

/// Whether the path carries clearly more than the flow gets, and nothing waits to be sent nearly
/// all of the time: then losses, and round trips in which more was sent, are those of blocks. In a
/// capture these have to show, for nothing seems to wait either in front of BBR, which paces.
pub(crate) fn program_sets_rate(view: &View<'_>) -> bool {
    let sets = || {
        let sender = view.sender?;
        let is_capture = sender.last()?.source == Source::Capture;
        let rate = view.rate()?;
        let best = sender.dense_rate().max(sender.best_rate())?;
        let reached = rate.bits_per_second() as f64 / best.bits_per_second().max(1) as f64;
        let may_pace = is_capture && sends_in_blocks(sender) != Some(true);
        // The end of a block that Nagle's algorithm holds is less than a segment: nothing waits.
        let of_program = || {
            let shares = Shares::of_timeline(sender)?;
            let is_stream = only_sends(sender) == Some(true);
            let held = shares.get(Limit::Nagle);
            Some(shares.get(Limit::Application) + if is_stream { held } else { 0.0 })
        };
        Some(reached < FULL_RATE && !may_pace && of_program()? >= PROGRAM_SHARE)
    };
    sets() == Some(true)
}

/// Whether nothing is sent for longer than pacing waits between two segments, repeatedly: each
/// write is sent at once, and fills a queue for a short time.
fn sends_in_blocks(sender: &Timeline) -> Option<bool> {
    let bound = least_pause(sender)?;
    let pauses = sender.vote(|s| Some(s.since_data_sent? >= bound))?;
    Some(pauses >= ACKS_PAUSE_SHARE)
}

fn busy_text(sender: &Timeline) -> Option<String> {
    let busy = sender.counted_time(|s| s.busy_time)?;
    ratio_of_times(busy, sender.interval()).map(|share| human::share(share) + " of the time")
}

/// Share of active samples in which less than a segment waits and nothing but the program stops.
fn nothing_waits_share(sender: &Timeline) -> Option<f64> {
    sender.vote(|s: &FlowSample| {
        let mss = s.snd_mss_bytes?;
        let has_window = window_room_bytes(s).is_none_or(|room| room > u64::from(mss));
        Some(s.notsent_bytes? < mss && cwnd_room_pkts(s)? >= 2 && has_window && !fills_sndbuf(s))
    })
}

#[cfg(test)]
mod tests {
    use base::{FlowKey, Instant};

    use super::*;
    use crate::Observation;

    /// Samples every 10 ms of a capture of full segments behind a queue, of which the program has
    /// written all, and of which none left for this many of each five looks.
    fn captured(silent: u32) -> Timeline {
        let key = FlowKey {
            local: ([10, 0, 0, 1], 40_000).into(),
            remote: ([10, 0, 0, 2], 5001).into(),
        };
        let mut timeline = Timeline::new();
        for look in 0..400_u32 {
            let at = Instant::ZERO + Duration::from_millis(10) * look;
            let silence = (look % 5).saturating_sub(4 - silent) * 10;
            timeline.push(FlowSample {
                source: Source::Capture,
                snd_mss_bytes: Some(1448),
                min_rtt: Some(Duration::from_millis(50)),
                srtt: Some(Duration::from_millis(54)),
                since_data_sent: Some(Duration::from_millis(silence.into())),
                bytes_sent: Some(u64::from(look / 5) * 72_400),
                bytes_acked: Some(u64::from(look / 5) * 72_400),
                data_segs_out: Some(u64::from(look / 5) * 50),
                notsent_bytes: Some(0),
                unacked_pkts: Some(50),
                cwnd_pkts: Some(110),
                ..FlowSample::empty(at, key)
            });
        }
        timeline
    }

    /// Samples every 10 ms of a program that only writes, of each ten of which this many see
    /// nothing to send, this many all of it sent, and the others more than the window lets out.
    fn writes(idle: u32, sent: u32) -> Timeline {
        let key = FlowKey {
            local: ([10, 0, 0, 1], 40_000).into(),
            remote: ([10, 0, 0, 2], 5001).into(),
        };
        let mut timeline = Timeline::new();
        for look in 0..400_u32 {
            let (phase, passed) = (look % 10, u64::from(look) * 10);
            timeline.push(FlowSample {
                snd_mss_bytes: Some(1448),
                min_rtt: Some(Duration::from_millis(30)),
                srtt: Some(Duration::from_millis(30)),
                bytes_sent: Some(passed * 1448),
                bytes_acked: Some(passed * 1448),
                bytes_retrans: Some(0),
                retrans_total_pkts: Some(0),
                data_segs_out: Some(passed),
                data_segs_in: Some(0),
                bytes_received: Some(0),
                notsent_bytes: Some(if phase < idle + sent { 0 } else { 40_000 }),
                unacked_pkts: Some(if phase < idle { 0 } else { 20 }),
                cwnd_pkts: Some(if phase < idle + sent { 40 } else { 20 }),
                ..FlowSample::empty(Instant::ZERO + Duration::from_millis(10) * look, key)
            });
        }
        timeline
    }

    #[test]
    fn a_program_that_has_nothing_to_send_repeatedly_sets_the_rate() {
        let told = |idle: u32, sent: u32| {
            let timeline = writes(idle, sent);
            let seen = Observation::of(&timeline);
            let said = app_limited(&crate::observation::sender_view(&seen));
            said.map(|verdict| (verdict.share * 100.0).round())
        };
        assert_eq!(told(4, 2), Some(60.0), "both together");
        assert_eq!(told(2, 1), Some(30.0), "it catches up");
        assert_eq!(told(0, 4), None, "it always has more");
    }

    #[test]
    fn what_leaves_in_blocks_is_not_paced() {
        let told = |silent: u32| {
            let timeline = captured(silent);
            let seen = Observation::of(&timeline);
            app_limited(&crate::observation::sender_view(&seen)).is_some()
        };
        assert!(told(4), "a block each 50 ms");
        assert!(!told(0), "BBR, as far as packets tell");
    }

    /// Samples every 10 ms of the sender of blocks of 114 segments each 110 ms, for each of which a
    /// segment comes back after 40 ms.
    fn blocks(port: u16) -> Timeline {
        let key = FlowKey {
            local: ([10, 0, 0, 1], port).into(),
            remote: ([10, 0, 0, 2], 45_001).into(),
        };
        let mut timeline = Timeline::new();
        for look in 0..400_u64 {
            let (block, phase) = (look / 11 + 1, look % 11 * 10);
            let answered = block - u64::from(phase < 40);
            let silence = if phase < 40 { phase + 70 } else { phase - 40 };
            timeline.push(FlowSample {
                snd_mss_bytes: Some(1448),
                min_rtt: Some(Duration::from_millis(30)),
                srtt: Some(Duration::from_millis(30)),
                bytes_sent: Some(block * 164_000),
                bytes_acked: Some(answered * 164_000),
                data_segs_out: Some(block * 114),
                data_segs_in: Some(answered),
                bytes_received: Some(answered * 36),
                since_data_sent: Some(Duration::from_millis(phase)),
                since_data_received: Some(Duration::from_millis(silence)),
                notsent_bytes: Some(0),
                unacked_pkts: Some(if phase < 40 { 114 } else { 0 }),
                cwnd_pkts: Some(200),
                ..FlowSample::empty(Instant::ZERO + Duration::from_millis(10) * look as u32, key)
            });
        }
        timeline
    }

    #[test]
    fn what_comes_back_for_blocks_of_a_stream_is_no_question() {
        let told = |timeline: &Timeline| {
            let report = crate::diagnose(&Observation::of(timeline));
            report.main().map(|verdict| verdict.diagnosis.id)
        };
        let uploads = blocks(45_002);
        assert_eq!(told(&uploads), Some("app-limited"));
        assert_eq!(told(&blocks(80)), Some("application-thinks"), "a server");
    }
}
