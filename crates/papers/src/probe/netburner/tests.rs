//! The exact figures of each probe, in virtual time.

use super::super::{Figures, Probe};
use super::*;

/// Runs a probe, and compares these figures of it; a probe gives all that it announces.
fn check(probe: Probe, expected: &[(&str, f64)]) -> Figures {
    let figures = probe.run.expect("in virtual time")(1);
    let announced: Vec<&str> = probe.figures.to_vec();
    for name in &announced {
        let value = figures.get(name);
        assert!(
            value.is_some_and(|value| value.is_finite()),
            "{name}: {value:?}"
        );
    }
    assert_eq!(figures.len(), announced.len());
    for (name, value) in expected {
        assert_eq!(figures[name], *value, "{name}");
    }
    figures
}

#[test]
fn n6_hung_clients_empty_the_pool() {
    let figures = check(
        POOL,
        &[
            ("free_at_start", 256.0),
            ("held_by_each", 10.0),
            ("free_after_25", 6.0),
            ("free_after_26", 0.0),
            ("free_after_60", 0.0),
            ("culprits", 26.0),
            ("held_by_culprits", 256.0),
            ("limit_is_pool", 1.0),
            ("new_connections", 0.0),
            ("acked_bytes", 0.0),
            ("free_after_abort", 256.0),
            ("new_connections_after_abort", 1.0),
            ("acked_bytes_after_abort", 100.0),
            ("low_watermark", 0.0),
            ("free_after_giving_up", 256.0),
            ("new_connections_after_giving_up", 1.0),
            ("free_after_51_with_5", 1.0),
            ("free_after_52_with_5", 0.0),
        ],
    );
    // NB57, NB58: 12 retransmissions, each after twice the time of the last one, at most 64 s.
    let waits = (0..13).map(|doubled| (0.5 * f64::from(1 << doubled)).min(64.0));
    let expected = 1e6 * waits.sum::<f64>();
    let took = figures["given_up_after_us"];
    assert!(
        (took - expected).abs() < 1e6,
        "{took} against {expected}, but for ticks"
    );
}

#[test]
fn a_lossy_path_empties_the_pool() {
    let figures = check(
        LOSSY_POOL,
        &[
            ("clean_refused", 0.0),
            ("lossy_low_watermark", 0.0),
            ("lossy_free_at_end", 256.0),
        ],
    );
    assert!(figures["clean_low_watermark"] > 128.0);
    assert!(figures["lossy_refused"] > 0.0);
    assert!(figures["lossy_delivered_bytes"] < figures["clean_delivered_bytes"]);
}

#[test]
fn n7a_options_decide_when_a_byte_leaves() {
    let figures = check(
        TELNET,
        &[
            ("nonagle_push_segments", 1500.0),
            ("nonagle_push_psh", 1500.0),
            ("nonagle_nopush_segments_before_clear", 1.0),
            ("nonagle_nopush_first_bytes", 1460.0),
            ("nonagle_nopush_psh_before_clear", 0.0),
            ("nonagle_nopush_after_clear_bytes", 40.0),
            ("nagle_nopush_segments_before_clear", 1.0),
            ("nagle_nopush_first_bytes", 1460.0),
            ("nagle_nopush_after_clear_bytes", 40.0),
        ],
    );
    // 55 bytes take 17.6 us at 25 Mbit/s.
    assert_eq!(figures["nonagle_push_latency_min_us"], 20_017.6);
    assert_eq!(figures["nonagle_push_latency_max_us"], 20_017.6);
    assert!(figures["nagle_push_gap_min_us"] >= 40_000.0);
    assert_eq!(figures["nagle_push_psh"], figures["nagle_push_segments"]);
}

#[test]
fn n7b_after_the_last_write_is_never_slower() {
    let figures = check(
        NOPUSH,
        &[
            ("tail_bytes", 720.0),
            ("after_small_segments", 1.0),
            ("after_tail_bytes", 720.0),
            ("before_small_segments", 2.0),
            ("before_extra_bytes", 1180.0),
            ("before_last_bytes", 1000.0),
            ("never_small_segments", 0.0),
            ("never_held_bytes", 720.0),
            ("never_limit_is_cork", 1.0),
            ("at_full_speed_small_segments", 1.0),
            ("at_full_speed_tail_bytes", 720.0),
        ],
    );
    assert!(figures["after_last_byte_us"] < figures["before_last_byte_us"]);
}

#[test]
fn n8_writes_return_what_was_taken() {
    check(
        WRITE,
        &[
            ("write_first_bytes", 7300.0),
            ("write_second_bytes", 7300.0),
            ("write_third_waits", 1.0),
            ("writeall_bytes", 20_480.0),
            ("writeall_left_at_first_bytes", 5880.0),
            ("received_bytes", 20_480.0),
            ("write_after_reset_tells", 1.0),
            ("writeall_after_reset_tells", 1.0),
            ("writeall_returned_before_reset_bytes", 100.0),
            ("call_after_buffered_writeall_tells", 1.0),
        ],
    );
}

#[test]
fn n10_programs_fill_their_links() {
    let speed = check(SPEED, &[("lan_ticks", 60.0), ("wan_ticks", 60.0)]);
    assert!(speed["lan_bps"] > 90e6 && speed["wan_bps"] > 22e6);
    let stress = check(STRESS, &[]);
    for name in ["lan_responses_per_second", "wan_responses_per_second"] {
        let by_select = name.replace("responses", "select_responses");
        assert_eq!(stress[name], stress[&*by_select]);
    }
}
