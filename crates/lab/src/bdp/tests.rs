use super::*;

fn demand(rate: &str, rtt: &str, mtu: u64) -> Demand {
    let rate = rate.parse().expect("a rate");
    let rtt = base::parse_duration(rtt).expect("a time");
    Demand::new(rate, rtt, Bytes(mtu)).expect("a path")
}

/// A host of 2026: Linux 6.18 as it comes.
fn today() -> HostLimits {
    HostLimits {
        rmem: [4096, 131_072, 33_554_432],
        wmem: [4096, 16_384, 4_194_304],
        rmem_max: Some(4_194_304),
        wmem_max: Some(4_194_304),
        moderate_rcvbuf: true,
        window_scaling: true,
        receive_ratio: 0.5,
        queue_pkts: None,
    }
}

#[test]
fn the_papers_products_come_out() {
    let check = |rate, rtt, bits, bytes, packets: [u64; 2]| {
        let path = demand(rate, rtt, 1500);
        assert_eq!((path.bits(), path.bytes()), (bits, bytes), "{rate} {rtt}");
        let shown = [1500, 10_000].map(|mtu| path.packets(Bytes(mtu)));
        assert_eq!(shown, packets, "{rate} {rtt}");
    };
    check("1gbit", "0.12ms", 120_000, 15_000, [10, 2]);
    check("1gbit", "1.49ms", 1_490_000, 186_250, [125, 19]);
    check("10gbit", "1.58ms", 15_800_000, 1_975_000, [1317, 198]);
    check("10mbit", "30ms", 300_000, 37_500, [25, 4]);
    check("1bit", "1ms", 0, 0, [1, 1]);
}

#[test]
fn a_window_is_a_rate() {
    let check = |rate, rtt, window, bps: u64| {
        let shown = demand(rate, rtt, 1500).rate_of_window(window);
        assert_eq!(shown.bits_per_second(), bps, "{rate} {rtt} {window}");
    };
    // What the paper says of 501 Mbit/s needs 93311 bytes, more than its default.
    check("1gbit", "1.49ms", 93_311, 500_998_657);
    check("1gbit", "1.49ms", PAPER_BUFFER_BYTES, 469_154_362);
    check("1gbit", "1.49ms", 65_535, 351_865_771);
    check("10gbit", "1.58ms", PAPER_BUFFER_BYTES, 442_430_379);
    // A window above the product fills the path, and no more.
    check("1gbit", "0.12ms", PAPER_BUFFER_BYTES, 1_000_000_000);
}

#[test]
fn impossible_paths_are_refused() {
    let check = |rate: u64, rtt_ms: u64, mtu: u64, expected: &str| {
        let rate = Rate::from_bits_per_second(rate);
        let error = Demand::new(rate, Duration::from_millis(rtt_ms), Bytes(mtu));
        let message = error.expect_err(expected).to_string();
        assert!(message.contains(expected), "{message}");
    };
    check(0, 1, 1500, "a rate of 0");
    check(1, 0, 1500, "at most 1h");
    check(1, 3_600_001, 1500, "at most 1h");
    check(1, 1, 67, "an MTU of 67");
    check(1, 1, 65_536, "68 to 65535");
    check(u64::MAX, 3_600_000, 1500, "more bytes than any host has");
}

#[test]
fn each_limit_is_held_against_what_is_needed() {
    let show = |path: Demand, limits: &HostLimits| -> Vec<String> {
        let rows = path.rows(limits);
        let line = |row: &LimitRow| format!("{} {}", row.setting, row.standing.name());
        rows.iter()
            .filter(|row| row.standing != Standing::Enough)
            .map(line)
            .collect()
    };
    let check = |path, limits: &HostLimits, expected: &[&str]| {
        assert_eq!(show(path, limits), expected, "{path:?}");
    };
    // Nothing to tune at home, and nothing at 10 Gbit/s either with today's maxima.
    check(demand("1gbit", "0.12ms", 1500), &today(), &[]);
    check(
        demand("10gbit", "1.58ms", 1500),
        &today(),
        &["net.ipv4.tcp_rmem[1] no limit"],
    );
    // Ten times as far: the send buffer is first.
    check(
        demand("10gbit", "15.8ms", 1500),
        &today(),
        &[
            "net.ipv4.tcp_rmem[1] no limit",
            "net.ipv4.tcp_rmem[2] below",
            "net.core.rmem_max below, if asked",
            "net.ipv4.tcp_wmem[2] below",
            "net.core.wmem_max below, if asked",
        ],
    );
    let fixed = HostLimits {
        moderate_rcvbuf: false,
        window_scaling: false,
        queue_pkts: Some(1000),
        ..today()
    };
    check(
        demand("10gbit", "1.58ms", 1500),
        &fixed,
        &[
            "net.ipv4.tcp_moderate_rcvbuf below",
            "net.ipv4.tcp_rmem[1] below",
            "net.ipv4.tcp_window_scaling below",
            "queue below, if slowest",
        ],
    );
    // 198 packets of 10000 bytes fit.
    check(
        demand("10gbit", "1.58ms", 10_000),
        &HostLimits {
            queue_pkts: Some(1000),
            ..today()
        },
        &["net.ipv4.tcp_rmem[1] no limit"],
    );
    check(
        demand("1gbit", "0.12ms", 1500),
        &fixed,
        &["net.ipv4.tcp_moderate_rcvbuf no limit"],
    );
}

#[test]
fn proposals_are_made_where_something_is_below_and_satisfy_the_path() {
    let check = |path: Demand, limits: &HostLimits, expected: &[&str]| {
        let made = proposals(&path.rows(limits), limits);
        let shown: Vec<String> = made.iter().map(|(k, v)| format!("{k} = {v}")).collect();
        assert_eq!(shown, expected);
        let mut changed = limits.clone();
        for (setting, value) in made {
            match (setting, value) {
                ("net.ipv4.tcp_rmem", KnobValue::Triple(rmem)) => changed.rmem = rmem,
                ("net.ipv4.tcp_wmem", KnobValue::Triple(wmem)) => changed.wmem = wmem,
                ("net.ipv4.tcp_moderate_rcvbuf", KnobValue::Flag(on)) => {
                    changed.moderate_rcvbuf = on;
                }
                ("net.ipv4.tcp_window_scaling", KnobValue::Flag(on)) => changed.window_scaling = on,
                other => panic!("{other:?}"),
            }
        }
        let after = path.rows(&changed);
        assert!(after.iter().all(|row| row.standing != Standing::Below));
        let reach = path.reach(&changed);
        assert_eq!((reach.send, reach.receive), (path.rate(), path.rate()));
    };
    check(demand("10gbit", "1.58ms", 1500), &today(), &[]);
    check(
        demand("10gbit", "15.8ms", 1500),
        &today(),
        &[
            "net.ipv4.tcp_rmem = 4096 131072 134217728",
            "net.ipv4.tcp_wmem = 4096 16384 67108864",
        ],
    );
    // As the paper's hosts were, if autotuning had been off.
    let paper = HostLimits {
        rmem: [4096, PAPER_BUFFER_BYTES, 6_291_456],
        moderate_rcvbuf: false,
        ..today()
    };
    check(
        demand("10gbit", "1.58ms", 1500),
        &paper,
        &["net.ipv4.tcp_moderate_rcvbuf = on"],
    );
    let old = HostLimits {
        rmem: [4096, PAPER_BUFFER_BYTES, 262_144],
        window_scaling: false,
        ..paper
    };
    check(
        demand("10gbit", "1.58ms", 1500),
        &old,
        &[
            "net.ipv4.tcp_moderate_rcvbuf = on",
            "net.ipv4.tcp_rmem = 4096 87380 8388608",
            "net.ipv4.tcp_window_scaling = on",
        ],
    );
}

#[test]
fn proposals_are_values_that_the_settings_take() {
    let check = |rate, rtt, limits: &HostLimits, connections, expected: &[&str]| {
        let path = demand(rate, rtt, 1500);
        assert_eq!(path.connections(limits), connections, "{rate} {rtt}");
        let made = proposals(&path.rows(limits), limits);
        let shown: Vec<String> = made.iter().map(|(k, v)| format!("{k} = {v}")).collect();
        assert_eq!(shown, expected, "{rate} {rtt}");
        let mut changed = limits.clone();
        for (setting, value) in made {
            let knob = find_knob(setting).expect("a knob");
            knob.check_for_linux(&value).expect("a value of it");
            match (setting, value) {
                (RMEM, KnobValue::Triple(rmem)) => changed.rmem = rmem,
                (WMEM, KnobValue::Triple(wmem)) => changed.wmem = wmem,
                other => panic!("{other:?}"),
            }
        }
        // Once they are followed there are no more proposals, and this many connections fill the
        // path.
        let after = path.rows(&changed);
        assert!(after.iter().all(|row| row.standing != Standing::Below));
        let Reach { send, receive } = path.reach(&changed);
        let each = send.bits_per_second().min(receive.bits_per_second());
        let path = path.rate().bits_per_second();
        assert!(each * connections >= path, "{each} of {path}");
        assert!(each * (connections - 1) < path, "{each} of {path}");
    };
    let largest = [
        "net.ipv4.tcp_rmem = 4096 131072 2147483647",
        "net.ipv4.tcp_wmem = 4096 16384 2147483647",
    ];
    check("10gbit", "300ms", &today(), 1, &largest);
    check("400gbit", "100ms", &today(), 5, &largest);
    // The largest window is 65535 << 14 bytes.
    check("8589803520bit", "1s", &today(), 1, &largest);
    check("8589803528bit", "1s", &today(), 2, &largest);
    // Where memory counts for less, even the largest buffer holds no such window.
    let sparing = HostLimits {
        receive_ratio: 0.25,
        ..today()
    };
    check("8589803520bit", "1s", &sparing, 2, &largest);
    let generous = HostLimits {
        receive_ratio: 0.95,
        rmem: [4096, 131_072, 2_147_483_647],
        ..today()
    };
    check("100gbit", "1s", &generous, 12, &largest[1..]);
}

#[test]
fn the_reach_follows_from_window_and_memory() {
    let check = |limits: &HostLimits, rtt, send: u64, receive: u64| {
        let reach = demand("100gbit", rtt, 1500).reach(limits);
        let mbit = |rate: Rate| rate.bits_per_second() / 1_000_000;
        assert_eq!((mbit(reach.send), mbit(reach.receive)), (send, receive));
    };
    check(&today(), "1.58ms", 13_980, 84_947);
    check(&today(), "40ms", 552, 3355);
    let fixed = HostLimits {
        rmem: [4096, PAPER_BUFFER_BYTES, 6_291_456],
        moderate_rcvbuf: false,
        ..today()
    };
    check(&fixed, "1.58ms", 13_980, 221);
}

#[test]
fn the_ratio_is_that_of_the_kernel() {
    let check = |kernel, scale, expected: f64| {
        assert_eq!(
            receive_ratio(kernel, scale),
            expected,
            "{kernel:?} {scale:?}"
        );
    };
    check((6, 18), Some(1), 0.5);
    check((6, 6), Some(2), 0.5);
    check((5, 15), Some(1), 0.5);
    check((5, 15), Some(2), 0.75);
    check((5, 15), Some(-2), 0.25);
    check((5, 15), Some(0), 1.0);
    check((5, 15), None, 0.5);
    check((5, 15), Some(99), 0.5);
}

#[test]
fn presets_are_paths() {
    for preset in PRESETS {
        let rate = Rate::from_bits_per_second(preset.rate_bps);
        let rtt = Duration::from_micros(preset.rtt_us);
        Demand::new(rate, rtt, Bytes(1500)).expect(preset.name);
    }
}
