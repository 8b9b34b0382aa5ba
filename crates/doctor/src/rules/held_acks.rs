//! ACKs that the receiver's kernel keeps back because its program sleeps: they make the round trip
//! longer, and a small congestion window stops the sender meanwhile.

use core::time::Duration;

use base::{FlowSample, human};

use super::draft::Draft;
use super::receive_window::{READS_SLOWLY, is_bbr};
use super::thresholds::{
    ACKED_AT_ONCE_WINDOW, DELAYED_ACK, DELAYED_ACK_TICKS, FOLLOWS_ACKS, FULL_SHARE,
    HELD_ACK_PACKETS, SPARSE_ACKS_DELAY, SPARSE_ACKS_PER_RTT, SPARSE_ACKS_SEGMENTS,
    SPARSE_ACKS_WINDOW, TICK, UNREAD_TICKS_SHARE,
};
use crate::timeline::{Timeline, cwnd_room_pkts, ratio_of_times};
use crate::verdict::{Confidence, Verdict};

/// How a receiver acknowledges data that goes one way.
pub(super) struct AckPattern {
    /// Segments for each ACK.
    pub(super) segments: f64,
    /// ACKs in each round trip in which something was sent.
    per_round_trip: f64,
    /// Round trips beyond the shortest one.
    pub(super) late: Duration,
}

impl AckPattern {
    pub(super) fn of(sender: &Timeline) -> Option<Self> {
        if sender.counted(|s| s.data_segs_in)? > 0 {
            return None;
        }
        let acks = sender.counted(|s| s.segs_in)?.max(1) as f64;
        let busy = sender.interval().mul_f64(sender.busy_share()?);
        Some(Self {
            segments: sender.counted(|s| s.data_segs_out)? as f64 / acks,
            per_round_trip: acks * sender.srtt()?.as_secs_f64() / busy.as_secs_f64().max(1e-6),
            late: sender.queue_delay()?,
        })
    }

    /// Whether ACKs are few and late.
    pub(super) fn is_sparse(&self) -> bool {
        self.segments >= SPARSE_ACKS_SEGMENTS
            && self.per_round_trip <= SPARSE_ACKS_PER_RTT
            && self.late >= SPARSE_ACKS_DELAY
    }
}

/// The congestion window is small, after a loss in a short queue, and the receiving program sleeps:
/// the window stops the sender for as long as ACKs are kept back, a few for many segments each in a
/// round trip. A queue on the path lets every second segment through with an ACK of its own, but
/// for segments that left as one packet (`tcp_tso_autosize`), which a shaper may hold together.
pub(super) fn seen_by_sender(sender: &Timeline) -> Option<Verdict> {
    let acks = AckPattern::of(sender)?;
    let timer = DELAYED_ACK + TICK * DELAYED_ACK_TICKS;
    // A window that no loss keeps small grows until the receiver's stops it.
    let loses = sender.counted(|s| s.retrans_total_pkts)? > 0;
    if is_bbr(sender) || !loses || acks.late > timer {
        return None;
    }
    let window = sender.median(|s| s.cwnd_pkts)?;
    let together = f64::from(segments_of_a_packet(sender)?) * HELD_ACK_PACKETS;
    let share =
        sender.vote(|s| Some(cwnd_room_pkts(s)? < 2 && s.notsent_bytes? >= s.snd_mss_bytes?))?;
    let is_held = acks.is_sparse()
        && acks.segments >= together
        && window >= SPARSE_ACKS_WINDOW
        && share >= FULL_SHARE;
    is_held.then(|| {
        Draft::new("slow-reader", share, Confidence::Medium)
            .row(
                "segs_in",
                format!(
                    "an ACK for {:.0} segments, {} late in the median",
                    acks.segments,
                    human::time(acks.late)
                ),
                "an ACK for every second segment, at once",
            )
            .row(
                "cwnd_pkts",
                format!(
                    "full, with more to send, in {} of the samples",
                    human::share(share)
                ),
                "grows where ACKs come at once",
            )
            .remark(READS_SLOWLY)
    })
}

/// Segments that a sender on Linux hands to its interface as one packet: what its pace takes in a
/// millisecond, and more on paths of less than a few milliseconds (`tcp_tso_autosize`).
fn segments_of_a_packet(sender: &Timeline) -> Option<u32> {
    let pace = sender.median(|s| s.pacing_rate)?.bits_per_second() as f64 / 8192.0;
    let halvings = sender.min_rtt()?.as_micros() >> 9;
    let near = if halvings < 32 {
        65_536_u32 >> halvings
    } else {
        0
    };
    Some(
        ((pace + f64::from(near)) / f64::from(sender.mss_bytes()?.max(1)))
            .ceil()
            .max(2.0) as u32,
    )
}

/// The same as [`seen_by_sender`] at the receiver, on paths longer than its program sleeps: much
/// lies unread for ticks after it came, the kernel keeps ACKs back meanwhile, and new data comes a
/// round trip after each of them, and hardly at other times.
pub(super) fn seen_by_receiver(receiver: &Timeline) -> Option<Verdict> {
    // Of a program that answers, requests follow the answers.
    if receiver.counted(|s| s.data_segs_out)? > 0 {
        return None;
    }
    let (min_rtt, mss) = (receiver.min_rtt()?, receiver.mss_bytes()?);
    let least = mss.saturating_mul(ACKED_AT_ONCE_WINDOW);
    let arrived = receiver.counted(|s| s.data_segs_in)? as f64;
    let acks = receiver.counted(|s| s.segs_out)?.max(1) as f64;
    let round_trips = receiver.interval().as_secs_f64() / min_rtt.as_secs_f64().max(1e-6);
    let is_sparse =
        arrived / acks >= SPARSE_ACKS_SEGMENTS && acks / round_trips <= SPARSE_ACKS_PER_RTT;
    let unread = receiver
        .vote_of_all(|s| Some(s.unread_bytes? >= least && s.since_data_received? >= TICK * 2))?;
    let (follows, of_time) = comes_after_acks(receiver, min_rtt)?;
    (is_sparse && unread >= UNREAD_TICKS_SHARE && follows >= FOLLOWS_ACKS * of_time).then(|| {
        Draft::new("slow-reader", unread, Confidence::Medium)
            .row(
                "unread_bytes",
                format!(
                    "{} and more for some milliseconds in {} of the samples",
                    human::count(u64::from(least), "byte"),
                    human::share(unread)
                ),
                "close to 0 with a prompt reader",
            )
            .row(
                "segs_out",
                format!(
                    "an ACK for {:.0} segments; {} of the data comes in the {} of the time that is \
                     a round trip after one",
                    arrived / acks,
                    human::share(follows),
                    human::share(of_time)
                ),
                "an ACK for every second segment, at once",
            )
            .remark(READS_SLOWLY)
    })
}

/// Which share of the data comes a round trip after an ACK, and which share of the time that is.
fn comes_after_acks(receiver: &Timeline, min_rtt: Duration) -> Option<(f64, f64)> {
    let samples: Vec<&FlowSample> = receiver.samples().collect();
    let pairs = || samples.windows(2).map(|pair| (pair[0], pair[1]));
    let acked = pairs().filter(|(before, after)| after.segs_out > before.segs_out);
    let mut due = acked
        .map(|(before, after)| (before.at + min_rtt, after.at + min_rtt + TICK))
        .peekable();
    let (mut came, mut came_due) = (0_u64, 0_u64);
    let mut time_due = Duration::ZERO;
    for (before, after) in pairs() {
        while due.next_if(|(_, end)| *end < before.at).is_some() {}
        let arrived = after.bytes_received?.checked_sub(before.bytes_received?)?;
        came = came.saturating_add(arrived);
        if due.peek().is_some_and(|(begin, _)| *begin < after.at) {
            came_due = came_due.saturating_add(arrived);
            time_due += after.at.since(before.at);
        }
    }
    let of_time = ratio_of_times(time_due, receiver.interval())?;
    Some((came_due as f64 / came.max(1) as f64, of_time))
}

#[cfg(test)]
mod tests {
    use base::{FlowKey, Instant, Rate};

    use super::*;
    use crate::Observation;

    fn key() -> FlowKey {
        FlowKey {
            local: ([10, 0, 0, 1], 80).into(),
            remote: ([10, 0, 0, 2], 40_000).into(),
        }
    }

    /// Samples every 10 ms of a window of 40 segments over a path of 58 ms, with losses at times,
    /// of which each ACK is for so many segments: those of 90 ms, the median of the round trips.
    fn sends(per_ack: u64, min_rtt_ms: u64, segments_per_loss: u64) -> Timeline {
        let mut timeline = Timeline::new();
        for look in 0..400_u64 {
            let at = Instant::ZERO + Duration::from_millis(10 * look);
            let segments = look * 40 / 9;
            timeline.push(FlowSample {
                snd_mss_bytes: Some(1448),
                snd_wnd_bytes: Some(1_136_640),
                congestion: Some("cubic".into()),
                min_rtt: Some(Duration::from_millis(min_rtt_ms)),
                srtt: Some(Duration::from_millis(min_rtt_ms + 24)),
                unacked_pkts: Some(40),
                cwnd_pkts: Some(40),
                ssthresh_pkts: Some(25),
                notsent_bytes: Some(500_000),
                pacing_rate: Some(Rate::from_bits_per_second(7_700_000)),
                bytes_acked: Some(segments * 1448),
                bytes_sent: Some(segments * 1448 + 40 * 1448),
                bytes_retrans: Some(segments * 13),
                retrans_total_pkts: Some(segments / segments_per_loss),
                data_segs_in: Some(0),
                data_segs_out: Some(segments),
                segs_in: Some(segments / per_ack),
                busy_time: Some(Duration::from_millis(10 * look)),
                rwnd_limited_time: Some(Duration::ZERO),
                sndbuf_limited_time: Some(Duration::ZERO),
                ..FlowSample::empty(at, key())
            });
        }
        timeline
    }

    fn told(timeline: &Timeline) -> Option<&'static str> {
        let report = crate::diagnose(&Observation::of(timeline));
        report.main().map(|verdict| verdict.diagnosis.id)
    }

    #[test]
    fn a_few_late_acks_for_all_of_a_small_window_are_those_of_a_sleeping_reader() {
        assert_eq!(told(&sends(12, 58, 110)), Some("slow-reader"));
        assert_ne!(told(&sends(2, 58, 110)), Some("slow-reader"), "a queue");
        let lossless = told(&sends(12, 58, u64::MAX));
        assert_ne!(
            lossless,
            Some("slow-reader"),
            "a path that holds ACKs together"
        );
        // A shaper holds packets of 44 segments together where the path is that short.
        assert_ne!(
            told(&sends(44, 0, 110)),
            Some("slow-reader"),
            "one packet each"
        );
    }

    /// Samples every 10 ms of a program that reads each 50 ms what came over a path of 60 ms: 28
    /// segments, a round trip after the ACK for those before, or a few in each look.
    fn receives(after_acks: bool, answers: bool) -> Timeline {
        let (mut timeline, mut unread, mut received) = (Timeline::new(), 0_u32, 0_u64);
        for look in 0..400_u64 {
            let phase = look % 5;
            if phase == 0 {
                unread = 0;
            }
            // The ACK leaves with the read; what it lets go is here 60 ms later.
            let comes = match (after_acks, phase) {
                (true, 1) => 28 * 1448,
                (true, _) => 0,
                (false, _) => 6 * 1448,
            };
            (unread, received) = (unread + comes, received + u64::from(comes));
            let quiet = if after_acks {
                10 * ((phase + 4) % 5)
            } else {
                0
            };
            timeline.push(FlowSample {
                snd_mss_bytes: Some(1448),
                min_rtt: Some(Duration::from_millis(60)),
                rcv_rtt: Some(Duration::from_millis(60)),
                rcvbuf_bytes: Some(1_800_000),
                rmem_bytes: Some(unread * 2),
                unread_bytes: Some(unread),
                bytes_received: Some(received),
                data_segs_in: Some(received / 1448),
                data_segs_out: Some(u64::from(answers) * look / 5),
                segs_out: Some(look / 5),
                since_data_received: Some(Duration::from_millis(quiet)),
                ..FlowSample::empty(Instant::ZERO + Duration::from_millis(10 * look), key())
            });
        }
        timeline
    }

    #[test]
    fn data_that_lies_unread_and_comes_a_round_trip_after_acks_waits_for_the_reader() {
        assert_eq!(told(&receives(true, false)), Some("slow-reader"));
        assert_eq!(told(&receives(false, false)), None, "it comes anyway");
        assert_ne!(told(&receives(true, true)), Some("slow-reader"), "requests");
    }
}
