use super::*;
use crate::Observation;
use crate::rules::application::app_limited;
use crate::rules::path::{path_full, policed};
use base::FlowKey;

const MSS: u32 = 1448;
const RTT: Duration = Duration::from_millis(40);

/// As [`probing_by`], with the same share each time.
fn probing(passes: f64) -> Timeline {
    probing_by(|_| passes)
}

/// Samples every 10 ms of a capture of 8 s. In one round trip of eight a quarter more is sent, and
/// less in the next one; the share that `passes` gives for this cycle arrives as it is sent, the
/// rest at one rate.
fn probing_by(passes: impl Fn(u32) -> f64) -> Timeline {
    let key = FlowKey {
        local: ([10, 0, 0, 1], 40_000).into(),
        remote: ([10, 0, 0, 2], 5001).into(),
    };
    let mut timeline = Timeline::new();
    let (mut sent, mut acked) = (0.0, 0.0);
    for look in 0..800_u32 {
        let at = Instant::ZERO + Duration::from_millis(10) * look;
        let gain = match look / 4 % 8 {
            0 => 0.25,
            1 => -0.25,
            _ => 0.0,
        };
        sent += f64::from(MSS) * 40.0 * (1.0 + gain);
        acked += f64::from(MSS) * 40.0 * (1.0 + gain * passes(look / 32));
        timeline.push(FlowSample {
            source: Source::Capture,
            snd_mss_bytes: Some(MSS),
            min_rtt: Some(RTT),
            bytes_sent: Some(sent as u64),
            bytes_acked: Some(acked as u64),
            data_segs_out: Some(sent as u64 / u64::from(MSS)),
            ..FlowSample::empty(at, key)
        });
    }
    timeline
}

fn is_full(timeline: &Timeline) -> bool {
    arrives_at_one_rate(&crate::observation::sender_view(&Observation::of(timeline)))
}

#[test]
fn what_arrives_at_one_rate_however_it_is_sent_fills_a_path() {
    assert!(is_full(&probing(0.0)));
    assert!(is_full(&probing(0.2)));
    assert!(!is_full(&probing(1.0)), "a path with room passes all");
}

#[test]
fn arrivals_are_steady_behind_a_queue() {
    assert!(arrives_steadily(&probing(0.0)));
    assert!(!arrives_steadily(&probing(1.0)));
}

#[test]
fn a_policer_passes_what_it_has_tokens_for() {
    let every = |count: u32| probing_by(move |cycle| f64::from(u8::from(cycle % count != 0)));
    assert!(is_full(&every(2)));
    assert!(!is_full(&every(7)), "a loss now and then is none");
}

#[test]
fn what_arrives_behind_a_gap_has_arrived() {
    let mut timeline = Timeline::new();
    for (look, sample) in (0..800_u64).zip(probing(0.0).samples()) {
        // In every other fifth of a second a gap holds all ACKs up.
        let held = (look / 20 % 2) * (look % 20) * 40;
        let held = u32::try_from(held).expect("some hundreds");
        timeline.push(FlowSample {
            sacked_pkts: Some(held),
            bytes_acked: Some(sample.bytes_acked.unwrap_or(0) - u64::from(held * MSS)),
            ..sample.clone()
        });
    }
    assert!(is_full(&timeline));
}

/// As [`probing`] of nothing that arrives faster, with all of it written and sent, this long ago in
/// every other look, and this best rate (46 Mbit/s are sent).
fn written(pause: Duration, best_mbit: u64) -> Timeline {
    let mut timeline = Timeline::new();
    for (look, sample) in (0..800_u32).zip(probing(0.0).samples()) {
        timeline.push(FlowSample {
            srtt: Some(RTT),
            bytes_sent: sample.bytes_sent.map(|sent| sent + u64::from(170 * MSS)),
            delivery_rate: Some(base::Rate::from_bits_per_second(best_mbit * 1_000_000)),
            since_data_sent: Some(pause * (look % 2)),
            notsent_bytes: Some(0),
            unacked_pkts: Some(170),
            cwnd_pkts: Some(400),
            ..sample.clone()
        });
    }
    timeline
}

#[test]
fn a_program_that_has_nothing_to_send_nearly_always_fills_no_path() {
    let told = |pause_ms: u64, best_mbit: u64| {
        let timeline = written(Duration::from_millis(pause_ms), best_mbit);
        let seen = Observation::of(&timeline);
        let view = crate::observation::sender_view(&seen);
        (app_limited(&view).is_some(), path_full(&view).is_some())
    };
    assert_eq!(told(8, 110), (true, false), "blocks");
    assert_eq!(told(0, 110), (false, true), "BBR, as far as packets tell");
    assert_eq!(told(8, 50), (false, true), "all that the path gave");
}

/// Arrivals behind the bottleneck, all at one rate. In one round trip of `period`, round trips
/// are longer by this share, and shorter again in the next.
fn behind(period: u32, share: f64) -> Timeline {
    let mut timeline = Timeline::new();
    let looks = probing(0.0);
    for (look, sample) in (0..800_u32).zip(looks.samples()) {
        let extra = match look / 4 % period {
            0 => share,
            1 => share / 2.0,
            _ => 0.0,
        };
        timeline.push(FlowSample {
            bytes_sent: sample.bytes_acked,
            last_rtt: Some(RTT.mul_f64(1.0 + extra)),
            ..sample.clone()
        });
    }
    timeline
}

#[test]
fn round_trips_that_are_longer_in_one_of_eight_are_those_of_a_queue() {
    let probes = |timeline: &Timeline| {
        let seen = Observation::of(timeline);
        round_trips_probe(&crate::observation::sender_view(&seen))
    };
    assert!(probes(&behind(8, 0.2)));
    assert!(!is_full(&behind(8, 0.2)), "nothing shows in what is sent");
    assert!(!probes(&behind(8, 0.02)), "no queue");
    for period in [3, 4, 13] {
        assert!(!probes(&behind(period, 0.2)), "another cycle: {period}");
    }
    assert!(!probes(&behind(1, 0.2)), "all of them are as long");
}

/// ACKs come for 20 ms, beginning at `from`, and pause for as long.
fn in_trains(from: Duration, port: u16) -> Timeline {
    let mut timeline = Timeline::new();
    for sample in probing(0.0).samples() {
        let local = ([10, 0, 0, 1], port).into();
        let phase = (sample.at + from).since(Instant::ZERO).as_millis() % 40;
        let pause = Duration::from_millis(phase.saturating_sub(20) as u64);
        timeline.push(FlowSample {
            key: FlowKey {
                local,
                ..sample.key
            },
            unacked_pkts: Some(40),
            since_ack_received: Some(pause),
            ..sample.clone()
        });
    }
    timeline
}

#[test]
fn a_path_is_not_idle_while_acks_come_on_a_connection_beside() {
    let own = in_trains(Duration::ZERO, 40_000);
    let pauses = |others: &[&Timeline]| {
        let seen = Observation {
            siblings: others,
            ..Observation::of(&own)
        };
        crate::observation::sender_view(&seen).acks_pause()
    };
    assert!(pauses(&[]));
    let (apart, same) = (
        in_trains(Duration::from_millis(20), 40_001),
        in_trains(Duration::ZERO, 40_002),
    );
    assert!(!pauses(&[&apart]));
    assert!(pauses(&[&same]), "both pause together");
    let mut done = Timeline::new();
    for sample in apart.samples() {
        done.push(FlowSample {
            unacked_pkts: Some(0),
            ..sample.clone()
        });
    }
    assert!(pauses(&[&done]), "nothing is in flight beside");
}

/// The same with nothing left to send and room in each window.
fn written_out(timeline: &Timeline) -> Timeline {
    let mut told = Timeline::new();
    for sample in timeline.samples() {
        told.push(FlowSample {
            notsent_bytes: Some(0),
            unacked_pkts: Some(10),
            cwnd_pkts: Some(40),
            ..sample.clone()
        });
    }
    told
}

#[test]
fn full_segments_that_pass_at_one_rate_are_not_told_to_be_a_programs() {
    let told = |timeline: &Timeline| {
        let timeline = written_out(timeline);
        let seen = Observation::of(&timeline);
        let view = crate::observation::sender_view(&seen);
        (leaves_at_one_rate(&view), app_limited(&view).is_some())
    };
    assert_eq!(told(&behind(8, 0.0)), (true, false));
    assert_eq!(told(&probing(1.0)), (false, true));
    let mut sockets = Timeline::new();
    for sample in behind(8, 0.0).samples() {
        sockets.push(FlowSample {
            source: Source::SockDiag,
            ..sample.clone()
        });
    }
    assert_eq!(told(&sockets), (false, true));
}

/// The window grows by a tenth in 8 s, and round trips grow by this share of that.
fn growing(share: f64) -> Timeline {
    let mut timeline = Timeline::new();
    for (look, sample) in (0..800).zip(probing(0.0).samples()) {
        let grown = f64::from(look) / 8000.0;
        timeline.push(FlowSample {
            cwnd_pkts: Some((1000.0 * (1.0 + grown)) as u32),
            srtt: Some(RTT.mul_f64(1.0 + grown * share)),
            ..sample.clone()
        });
    }
    timeline
}

#[test]
fn round_trips_that_grow_with_the_window_are_those_of_a_queue() {
    let follow = |timeline: &Timeline| {
        let seen = Observation::of(timeline);
        round_trips_follow_window(&crate::observation::sender_view(&seen))
    };
    assert!(follow(&growing(1.0)));
    assert!(!follow(&growing(0.5)), "more is in flight, and arrives");
    assert!(!follow(&growing(0.0)));
}

/// Samples every 10 ms of 8 s in which this many segments are delivered per second from one loss to
/// the next, once a second.
fn losing(rates: [u64; 8]) -> Timeline {
    let mut timeline = Timeline::new();
    let mut delivered = 0.0;
    for (look, sample) in (0..800_usize).zip(probing(0.0).samples()) {
        delivered += rates[look / 100] as f64 / 100.0;
        let repairs = look % 100 < 5 && look >= 100;
        timeline.push(FlowSample {
            delivered_pkts: Some(delivered as u64),
            retrans_total_pkts: Some((look / 100) as u64),
            congestion_state: Some(match repairs {
                true => CongestionState::Recovery,
                false => CongestionState::Open,
            }),
            ..sample.clone()
        });
    }
    timeline
}

#[test]
fn what_passes_the_same_from_each_loss_to_the_next_drops_at_one_rate() {
    let drops = |timeline: &Timeline| {
        let seen = Observation::of(timeline);
        drops_at_one_rate(&crate::observation::sender_view(&seen)).map(|(losses, _)| losses)
    };
    assert_eq!(
        drops(&losing([900, 1000, 1010, 990, 1000, 1000, 990, 1010])),
        Some(7)
    );
    let by_chance = losing([1000, 700, 900, 1300, 800, 1000, 600, 1100]);
    assert_eq!(drops(&by_chance), None);
}

#[test]
fn losses_within_a_few_round_trips_are_one() {
    let once = losing([1000; 8]);
    let mut twice = Timeline::new();
    for (look, sample) in once.samples().enumerate() {
        // Again 80 ms after each.
        let again = look >= 100 && (8..12).contains(&(look % 100));
        twice.push(FlowSample {
            srtt: Some(RTT),
            congestion_state: match again {
                true => Some(CongestionState::Recovery),
                false => sample.congestion_state,
            },
            ..sample.clone()
        });
    }
    assert_eq!(losses(&once).len(), 7);
    assert_eq!(losses(&twice), losses(&once));
}

#[test]
fn connections_to_one_host_share_what_is_dropped_at_one_rate() {
    let (mut own, mut other) = ([1000; 8], [1000; 8]);
    for (second, less) in [100, 300, 0, 250, 400, 150, 350, 50]
        .into_iter()
        .enumerate()
    {
        (own[second], other[second]) = (1000 - less, 1000 + less);
    }
    let (own, mut beside) = (losing(own), Timeline::new());
    for sample in losing(other).samples() {
        let key = FlowKey {
            local: ([10, 0, 0, 1], 40_001).into(),
            ..sample.key
        };
        beside.push(FlowSample {
            key,
            ..sample.clone()
        });
    }
    let alone = Observation::of(&own);
    assert_eq!(
        drops_at_one_rate(&crate::observation::sender_view(&alone)),
        None
    );
    let siblings = [&beside];
    let together = Observation {
        siblings: &siblings,
        ..Observation::of(&own)
    };
    assert!(drops_at_one_rate(&crate::observation::sender_view(&together)).is_some());
}

/// BBR loses packets once a second, when its round trips are longer by this share for a tenth of
/// it, or (`is_random`) at any other time.
fn probing_into(share: f64, is_random: bool) -> Timeline {
    let mut timeline = Timeline::new();
    for (look, sample) in (0..800_u64).zip(losing([1000; 8]).samples()) {
        let probes = (look + if is_random { look / 100 * 30 } else { 5 }) % 100 < 12;
        timeline.push(FlowSample {
            source: Source::SockDiag,
            congestion: Some("bbr".into()),
            cwnd_pkts: Some(200),
            unacked_pkts: Some(120),
            notsent_bytes: Some(1_000_000),
            srtt: Some(RTT.mul_f64(if probes { 1.0 + share } else { 1.002 })),
            bytes_retrans: sample
                .retrans_total_pkts
                .map(|pkts| pkts * 30 * u64::from(MSS)),
            ..sample.clone()
        });
    }
    timeline
}

#[test]
fn a_short_queue_that_bbr_fills_when_it_probes_is_no_policer() {
    let told = |timeline: &Timeline| {
        let seen = Observation::of(timeline);
        let view = crate::observation::sender_view(&seen);
        (probes_overflow(&view), policed(&view).is_some())
    };
    assert_eq!(told(&probing_into(0.2, false)), (true, false));
    assert_eq!(told(&probing_into(0.001, false)), (false, true), "no queue");
    assert!(!told(&probing_into(0.2, true)).0, "at any time");
}

#[test]
fn steps_are_bounded() {
    let end = Instant::ZERO + Duration::from_secs(1 << 32);
    let all = steps(end, Duration::from_secs(1 << 31), Duration::from_millis(30));
    let all = all.expect("enough of them");
    assert_eq!(all.len(), STEADY_STEPS.1 as usize + 1);
    assert_eq!(all.last(), Some(&end));
    assert_eq!(steps(end, RTT * 5, RTT), None);
}

/// Samples every 40 ms of a window that grows by a segment each time, and by 30 % less behind a
/// loss; losses come where `is_lost` says so for the look and its window.
fn sawtooth(is_lost: impl Fn(u32, u32) -> bool) -> Timeline {
    let key = FlowKey {
        local: ([10, 0, 0, 1], 40_000).into(),
        remote: ([10, 0, 0, 2], 5001).into(),
    };
    let (mut timeline, mut window, mut delivered) = (Timeline::new(), 40_u32, 0);
    for look in 0..400_u32 {
        let repairs = is_lost(look, window);
        delivered += u64::from(window);
        timeline.push(FlowSample {
            cwnd_pkts: Some(window),
            ssthresh_pkts: Some(30),
            delivered_pkts: Some(delivered),
            srtt: Some(RTT),
            congestion_state: Some(if repairs {
                CongestionState::Recovery
            } else {
                CongestionState::Open
            }),
            ..FlowSample::empty(Instant::ZERO + RTT * look, key)
        });
        window = if repairs { window * 7 / 10 } else { window + 1 };
    }
    timeline
}

#[test]
fn losses_in_large_windows_are_those_of_a_path_that_is_full() {
    let told = |timeline: &Timeline| {
        drops_large_windows(&crate::observation::sender_view(&Observation::of(timeline)))
    };
    let policed = told(&sawtooth(|_, window| window > 60));
    assert!(
        policed.is_some_and(|(count, share)| count >= 10 && share > 0.9),
        "{policed:?}"
    );
    // Whatever the window is.
    let chance = |look: u32| look.wrapping_mul(2_654_435_761) >> 16;
    let random = told(&sawtooth(|look, window| chance(look) % 1500 < window));
    assert_eq!(random, None);
}

/// Six losses, behind each of which a packet took longer than this share of the others.
fn dropping(share: f64, starts: bool) -> Timeline {
    let key = FlowKey {
        local: ([10, 0, 0, 1], 40_000).into(),
        remote: ([10, 0, 0, 2], 5001).into(),
    };
    let mut timeline = Timeline::new();
    for look in 0..80_u64 {
        // Those of a start fall into its first quarter.
        let gaps = if starts { look.min(6) } else { look * 6 / 79 };
        let threshold = if look == 0 { 1 << 31 } else { 40 };
        timeline.push(FlowSample {
            source: Source::Capture,
            ssthresh_pkts: Some(threshold),
            gaps: Some(gaps),
            gap_ranks: Some((gaps as f64 * share * 1000.0) as u64),
            ..FlowSample::empty(Instant::from_nanos(look * 100_000_000), key)
        });
    }
    timeline
}

#[test]
fn what_comes_behind_drops_of_a_queue_has_waited() {
    assert!(drops_behind_queue(&dropping(0.9, false)).is_some());
    assert_eq!(drops_behind_queue(&dropping(0.5, false)), None, "random");
    assert_eq!(drops_behind_queue(&dropping(0.9, true)), None, "a start");
}
