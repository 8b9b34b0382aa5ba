//! Stalls of small writes: what is one, and what it costs.

use super::*;

/// Data that arrives carries the ACKs: a queue makes the round trips long.
#[test]
fn no_timer_keeps_acks_back_while_data_arrives() {
    let mut scene = named("nagle x delayed ACK");
    for (since, stalls) in [(50, true), (2, false)] {
        scene.local = edited(&scene.local, |s| {
            s.since_data_received = Some(core::time::Duration::from_millis(since));
        });
        let found = ids(&report(&scene)).contains(&"nagle-delack-stall");
        assert_eq!(found, stalls, "the last data came {since} ms ago");
    }
}

/// Of a message in several segments all but the last are acknowledged at once.
#[test]
fn a_late_ack_of_the_last_segment_is_told_from_a_round_trip() {
    for (most, first) in [(40, "nagle-delack-stall"), (12, "nagle-rtt-serialised")] {
        let mut scene = named("nagle, quick ACKs");
        scene.local = edited(&scene.local, |s| {
            let waits = s.at.as_nanos() / 1_000_000 * 7 % most;
            s.since_data_sent = Some(core::time::Duration::from_millis(waits));
        });
        assert_eq!(ids(&report(&scene))[0], first, "up to {most} ms");
    }
}

/// Requests behind many others are held, and answers to these come meanwhile.
#[test]
fn a_piece_that_nobody_waits_for_is_no_stall() {
    let mut scene = named("nagle, quick ACKs");
    for (received, stalls) in [(9, true), (3, false)] {
        scene.local = edited(&scene.local, |s| {
            s.since_data_sent = Some(core::time::Duration::from_millis(8));
            s.since_data_received = Some(core::time::Duration::from_millis(received));
        });
        let found = ids(&report(&scene)).contains(&"nagle-rtt-serialised");
        assert_eq!(found, stalls, "the last data came {received} ms ago");
    }
}

/// Twenty kilobytes and their length, which are written apart, are fifteen segments.
#[test]
fn the_end_of_a_long_message_waits_as_that_of_a_short_one() {
    let mut scene = named("nagle, quick ACKs");
    for (most, answer, stalls) in [(12, 0, true), (12, 100, false), (5, 0, false)] {
        scene.local = edited(&scene.local, |s| {
            let sent = s.at.as_nanos() / 1_000_000 * 7 % most;
            (s.unacked_pkts, s.cwnd_pkts) = (Some(14), Some(28));
            s.since_data_sent = Some(core::time::Duration::from_millis(sent));
            s.since_data_received = Some(core::time::Duration::from_millis(sent + answer));
        });
        let found = ids(&report(&scene)).contains(&"nagle-rtt-serialised");
        assert_eq!(found, stalls, "{most} ms, answered {answer} ms before");
    }
}

/// Where the processors are busy, a piece may be held behind more segments than a stall shows by,
/// and be written long after the answer before it; `TCP_NODELAY` ends each of these waits.
#[test]
fn all_that_nagles_algorithm_holds_is_saved() {
    let saves = |scene: &Scene| {
        let told = report(scene)
            .verdicts
            .into_iter()
            .next()
            .expect("a verdict");
        assert_eq!(told.diagnosis.id, "nagle-rtt-serialised");
        told.saves.expect("it is arithmetic")
    };
    let mut scene = named("nagle, quick ACKs");
    let all = saves(&scene);
    let looks = core::cell::Cell::new(0_u32);
    scene.local = edited(&scene.local, |s| {
        looks.set(looks.get() + 1);
        if looks.get() % 5 < 2 {
            (s.unacked_pkts, s.cwnd_pkts) = (Some(8), Some(28));
            let sent = u64::from(looks.get()) * 7 % 12;
            s.since_data_sent = Some(core::time::Duration::from_millis(sent));
            s.since_data_received = Some(core::time::Duration::from_millis(sent + 40));
        }
    });
    let busy = saves(&scene);
    assert!((busy - all).abs() < 0.02, "{busy} in place of {all}");

    // A stream behind which nothing falls silent gathers pieces, and loses no time.
    scene.local = edited(&scene.local, |s| {
        if s.unacked_pkts == Some(8) {
            s.since_data_sent = Some(core::time::Duration::ZERO);
        }
    });
    let streams = saves(&scene);
    assert!((streams - 0.6 * all).abs() < 0.02, "{streams} of {all}");
}

/// Two segments in four seconds, of which one waited for the ACK of the other.
#[test]
fn a_control_connection_loses_no_time_to_speak_of() {
    let mut scene = named("nagle, quick ACKs");
    assert_eq!(ids(&report(&scene))[0], "nagle-rtt-serialised");
    scene.local = edited(&scene.local, |s| {
        s.data_segs_out = s.data_segs_out.map(|segments| segments / 4000);
    });
    assert!(!ids(&report(&scene)).contains(&"nagle-rtt-serialised"));
}
