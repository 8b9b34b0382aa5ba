use super::*;
use alloc::vec::Vec;
use proptest::prelude::*;

const NOW: Instant = Instant::from_nanos(1_000_000_000);

fn path(mtu_probing: MtuProbing) -> Path {
    Path {
        pmtu_discovery: true,
        pmtu_confirm: true,
        mtu_probing,
        mtu_base: 1076,
        gso_max: 65_536,
        tso_min_segments: 2,
        tso_rtt_log: 9,
        tso_win_divisor: 3,
        local_queue_max: 1 << 20,
        hop_limit: 64,
    }
}

fn v4(mtu_probing: MtuProbing) -> MtuState {
    MtuState::new(NOW, &path(mtu_probing), 1500, 20)
}

const fn report(mtu: u32) -> TooBig {
    TooBig {
        mtu,
        quoted: 1000,
        una: 1000,
        next: 5000,
    }
}

const fn plenty() -> ProbeConditions {
    ProbeConditions {
        is_open: true,
        cwnd: 20,
        in_flight: 3,
        reordering: 3,
        unsent_bytes: 1 << 20,
        window_bytes: 1 << 20,
        mss: 1024,
    }
}

/// Probes a path that swallows what exceeds `passes`; the sizes probed.
fn search(state: &mut MtuState, passes: u16) -> Vec<u16> {
    let mut sizes = Vec::new();
    while let Some(size) = state.probe_size(NOW, &plenty()) {
        sizes.push(size);
        state.on_probe_sent(size, 7, 7 + u64::from(size));
        assert_eq!(state.probe(), Some((7, 7 + u64::from(size))));
        assert_eq!(
            state.probe_size(NOW, &plenty()),
            None,
            "one probe at a time"
        );
        if size <= passes {
            state.on_probe_acked();
        } else {
            state.on_probe_lost();
        }
        assert!(sizes.len() < 20, "{sizes:?} never ends");
    }
    sizes
}

#[test]
fn rule_10_4_a_black_hole_at_1400_ends_at_mss_1347() {
    let mut state = v4(MtuProbing::BlackHole);
    assert_eq!((state.mtu(), state.mss_limit()), (1500, 1460));
    for timeouts in 0..4 {
        assert!(
            !state.on_timeouts(NOW, timeouts, timeouts >= 4),
            "{timeouts} timeouts"
        );
    }
    assert!(state.on_timeouts(NOW, 4, true));
    // `tcp_base_mss` 1024 and 12 bytes of timestamps.
    assert_eq!(state.mss_limit(), 1024 + 12);
    let sizes = search(&mut state, 1400);
    assert_eq!(sizes, [1288, 1394, 1447, 1420, 1406, 1399]);
    // Three of them passed: TCPMTUPSuccess 3.
    assert_eq!(state.mss_limit(), 1347 + 12);
}

#[test]
fn more_timeouts_halve_the_packets_down_to_a_floor() {
    let mut state = v4(MtuProbing::BlackHole);
    let sizes: Vec<u16> = (4..12)
        .map(|timeouts| {
            state.on_timeouts(NOW, timeouts, timeouts >= 4);
            state.mss_limit()
        })
        .collect();
    assert_eq!(sizes, [1036, 518, 259, 129, 64, 48, 48, 48]);
    assert!(
        !state.on_timeouts(NOW, 12, true),
        "no smaller than the floor"
    );
    let mut v6 = MtuState::new(NOW, &path(MtuProbing::BlackHole), 1500, 40);
    for timeouts in 4..12 {
        v6.on_timeouts(NOW, timeouts, timeouts >= 4);
    }
    assert_eq!(v6.mtu(), 1280);
    let mut off = v4(MtuProbing::Off);
    assert!(!off.on_timeouts(NOW, 15, true));
    assert_eq!(off.mtu(), 1500);
}

#[test]
fn always_begins_at_the_base_and_searches_up() {
    let mut state = v4(MtuProbing::Always);
    assert_eq!(state.mtu(), 1076);
    search(&mut state, 1500);
    assert!(state.mtu() > 1500 - 8, "{}", state.mtu());
    let mut small = MtuState::new(NOW, &path(MtuProbing::Always), 600, 20);
    assert_eq!(small.mtu(), 600);
    assert_eq!(small.probe_size(NOW, &plenty()), None);
    let mut state = v4(MtuProbing::Off);
    state.configure(NOW, &path(MtuProbing::Always));
    assert_eq!(state.mtu(), 1076);
    state.configure(NOW, &path(MtuProbing::Off));
    assert_eq!(state.mtu(), 1500);
}

#[test]
fn probes_leave_only_where_their_loss_will_be_seen() {
    let needed = 1248 + 4 * 1024;
    let check = |change: fn(&mut ProbeConditions), expected| {
        let mut conditions = plenty();
        conditions.unsent_bytes = 1248 + 4 * 1024;
        change(&mut conditions);
        let size = v4(MtuProbing::Always).probe_size(NOW, &conditions);
        assert_eq!(size, expected, "{conditions:?}");
    };
    assert_eq!(needed, 5344);
    check(|_| {}, Some(1288));
    check(|conditions| conditions.is_open = false, None);
    check(|conditions| conditions.cwnd = 10, None);
    check(|conditions| conditions.in_flight = 19, None);
    check(|conditions| conditions.in_flight = 18, Some(1288));
    check(|conditions| conditions.unsent_bytes = 5343, None);
    check(|conditions| conditions.window_bytes = 5343, None);
    check(|conditions| conditions.reordering = 4, None);
}

#[test]
fn an_unknown_fate_is_tried_again_twice() {
    let mut state = v4(MtuProbing::Always);
    let mut next = || {
        let size = state.probe_size(NOW, &plenty()).unwrap();
        state.on_probe_sent(size, 1, 2);
        state.on_probe_unknown();
        state.on_probe_unknown();
        size
    };
    assert_eq!([next(), next(), next(), next()], [1288, 1288, 1288, 1181]);
    assert_eq!(state.mtu(), 1076);
}

#[test]
fn larger_packets_are_tried_again_after_ten_minutes() {
    let mut state = v4(MtuProbing::Always);
    search(&mut state, 1400);
    assert_eq!(state.mtu(), 1399);
    let later = NOW + SEARCH_AGAIN;
    let just_before = later - Duration::from_nanos(1);
    assert_eq!(state.probe_size(just_before, &plenty()), None);
    assert_eq!(state.probe_size(just_before, &plenty()), None);
    assert_eq!(state.probe_size(later, &plenty()), None);
    assert_eq!(state.probe_size(later, &plenty()), Some(1449));
    assert_eq!(state.mtu(), 1399);
}

#[test]
fn icmp_lowers_the_mtu_and_is_forgotten_after_ten_minutes() {
    let mut state = v4(MtuProbing::Off);
    assert!(state.on_too_big(NOW, &report(1400)));
    assert_eq!((state.mtu(), state.dont_fragment()), (1400, true));
    assert!(!state.on_too_big(NOW, &report(1400)), "no news");
    assert!(!state.on_too_big(NOW, &report(1450)), "it only lowers");
    assert_eq!(state.mtu(), 1400);
    let due = state.next_search().unwrap();
    assert_eq!(due, NOW + SEARCH_AGAIN);
    assert!(!state.on_search_due(due - Duration::from_nanos(1)));
    assert!(state.on_search_due(due));
    assert_eq!((state.mtu(), state.next_search()), (1500, None));
    state.on_too_big(due, &report(1300));
    let off = Path {
        pmtu_discovery: false,
        ..path(MtuProbing::Off)
    };
    state.configure(due, &off);
    assert_eq!((state.mtu(), state.dont_fragment()), (1500, false));
}

#[test]
fn forged_icmp_does_nothing() {
    let check = |name: &str, change: fn(&mut MtuState, &mut TooBig)| {
        let mut state = v4(MtuProbing::Off);
        let mut forged = report(600);
        change(&mut state, &mut forged);
        assert!(!state.on_too_big(NOW, &forged), "{name}");
        assert_eq!(state.mtu(), 1500, "{name}");
        state
    };
    check("acknowledged", |_, forged| forged.quoted = 999);
    check("not yet sent", |_, forged| forged.quoted = 5001);
    check("switched off", |state, _| {
        state.configure(
            NOW,
            &Path {
                pmtu_discovery: false,
                ..path(MtuProbing::Off)
            },
        );
    });
    check("too large", |_, forged| forged.mtu = u32::MAX);
    // RFC 5927 section 7.2: such packets have passed.
    let mut state = check("smaller than what passed", |state, _| {
        state.on_acked(1000, 1500);
    });
    state.on_acked(1001, 1500);
    assert!(
        !state.on_timeouts(NOW, 1, false),
        "the quoted segment was acknowledged"
    );
    assert_eq!(state.mtu(), 1500);
}

#[test]
fn a_smaller_path_is_believed_when_the_quoted_segment_times_out() {
    let mut state = v4(MtuProbing::Off);
    state.on_acked(1000, 1500);
    assert!(!state.on_too_big(NOW, &report(1300)));
    assert!(!state.on_timeouts(NOW, 0, false));
    assert!(state.on_timeouts(NOW, 1, false));
    assert_eq!(state.mtu(), 1300);
    assert!(!state.on_timeouts(NOW, 2, false));
}

#[test]
fn without_confirmation_a_smaller_path_is_believed_at_once() {
    let settings = Path {
        pmtu_confirm: false,
        ..path(MtuProbing::Off)
    };
    let mut state = MtuState::new(NOW, &settings, 1500, 20);
    state.on_acked(1000, 1500);
    assert!(state.on_too_big(NOW, &report(1300)));
    assert_eq!(state.mtu(), 1300);
}

#[test]
fn no_report_makes_packets_tiny() {
    let mut state = v4(MtuProbing::Off);
    assert!(state.on_too_big(NOW, &report(68)));
    assert_eq!((state.mtu(), state.dont_fragment()), (552, false));
    let mut state = MtuState::new(NOW, &path(MtuProbing::Off), 1500, 40);
    assert!(!state.on_too_big(NOW, &report(576)));
    assert_eq!((state.mtu(), state.dont_fragment()), (1500, true));
    assert!(state.on_too_big(NOW, &report(1280)));
    assert_eq!((state.mtu(), state.dont_fragment()), (1280, true));
}

#[test]
fn routers_that_state_nothing_lead_down_the_plateaus() {
    let mut state = MtuState::new(NOW, &path(MtuProbing::Off), 9000, 20);
    let mut sizes = Vec::new();
    while state.on_too_big(NOW, &report(0)) {
        sizes.push(state.mtu());
    }
    assert_eq!(sizes, [8166, 4352, 2002, 1492, 1006, 552]);
    assert!(state.dont_fragment());
}

#[test]
fn icmp_bounds_the_search() {
    let mut state = v4(MtuProbing::Always);
    let size = state.probe_size(NOW, &plenty()).unwrap();
    state.on_probe_sent(size, 1000, 2000);
    assert!(!state.on_too_big(NOW, &report(1200)), "the MTU stays");
    state.on_probe_lost();
    assert_eq!(state.mtu(), 1076);
    assert_eq!(state.probe_size(NOW, &plenty()), Some(1138));
    assert!(state.on_too_big(NOW, &report(1000)));
    assert_eq!(
        (state.mtu(), state.probe_size(NOW, &plenty())),
        (1000, None)
    );
}

#[test]
fn the_peer_limits() {
    let mut state = v4(MtuProbing::Off);
    state.limit_by_peer(1000);
    assert_eq!((state.mtu(), state.mss_limit()), (1040, 1000));
    state.limit_by_peer(u16::MAX);
    assert_eq!(state.mss_limit(), 1000);
    state.limit_by_peer(0);
    assert_eq!(state.mss_limit(), 48);
}

proptest! {
    /// Whatever is claimed, the MTU stays between the floor and the interface, and a search ends.
    #[test]
    fn bounds_hold(
        steps in prop::collection::vec((0_u8..8, any::<u16>(), any::<u16>()), 0..60),
        mtu in 68_u16..,
        base: u16,
        is_v6: bool,
        probing in prop::sample::select(&[
            MtuProbing::Off, MtuProbing::BlackHole, MtuProbing::Always,
        ]),
    ) {
        let settings = Path { mtu_base: base, ..path(probing) };
        let mut state = MtuState::new(NOW, &settings, mtu, if is_v6 { 40 } else { 20 });
        let least = mtu.min(if is_v6 { 1280 } else { 88 });
        for (step, a, b) in steps {
            match step {
                0 => { state.on_too_big(NOW, &report(a.into())); }
                1 => { state.on_timeouts(NOW, u32::from(a) % 8, a % 8 >= 4); }
                2 => state.on_acked(a.into(), b.min(mtu)),
                3 => state.on_probe_acked(),
                4 => state.on_probe_lost(),
                5 => state.on_probe_unknown(),
                6 => { state.on_search_due(NOW + Duration::from_secs(a.into())); }
                _ => if let Some(size) = state.probe_size(NOW, &plenty()) {
                    prop_assert!(state.mtu() < size && size <= mtu);
                    state.on_probe_sent(size, 1, 2);
                },
            }
            prop_assert!((least..=mtu).contains(&state.mtu()), "{state:?}");
        }
    }
}

#[test]
fn only_a_probe_that_left_took_something() {
    let mut state = v4(MtuProbing::Always);
    let size = state.probe_size(NOW, &plenty()).expect("a probe is due");
    state.will_take(400, 9000);
    assert_eq!(state.taken(), None);
    state.on_probe_sent(size, 7, 9000);
    assert_eq!(state.taken(), Some((400, 9000)));
    state.will_take(300, 12_000);
    assert_eq!(state.taken(), Some((400, 9000)));
    state.forget_taken();
    assert_eq!(state.taken(), None);
}
