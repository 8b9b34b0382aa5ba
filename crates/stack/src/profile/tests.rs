use alloc::string::ToString;

use base::settings::{Accounting, BufferSize, Completion, Nagle, Push, SizeRule, SocketSettings};

use super::*;

#[test]
fn every_profile_is_found_by_its_own_name() {
    for (name, profile) in PROFILES.iter().chain(BUILDS) {
        let profile = profile();
        assert_eq!(profile.name, *name);
        assert!(profile.about.ends_with('.'), "{name}");
        assert_eq!(find(name), Ok(profile));
    }
}

#[test]
fn an_unknown_profile_is_answered_with_the_nearest() {
    let check = |name: &str, expected: &str| {
        let message = find(name).expect_err("unknown").to_string();
        assert!(message.contains(expected), "{message}");
    };
    check(
        "linux_6_17",
        "unknown profile `linux_6_17`; did you mean `linux_6_1",
    );
    check("freebsd", "did you mean `freebsd_14`?");
    check("netburnr", "did you mean `netburner`?");
    check("os2", "there are linux_6_18, linux_6_12");
}

/// What must hold between the values of any profile.
#[test]
fn the_values_of_a_profile_agree_with_each_other() {
    for (name, profile) in PROFILES {
        let Profile {
            settings, system, ..
        } = profile();
        for buffer in [&settings.send.buffer, &settings.recv.buffer] {
            let BufferSize {
                min,
                initial,
                max,
                request_max,
                fixed,
                rule,
            } = buffer;
            assert!(min <= initial && initial <= max, "{name}: {buffer:?}");
            assert!(min <= request_max, "{name}: {buffer:?}");
            assert_eq!(*fixed, None, "{name}: only an application fixes a buffer");
            assert_eq!(
                *rule == SizeRule::Fixed,
                initial == max,
                "{name}: {buffer:?}"
            );
        }
        let acks = &settings.acks;
        assert!(
            acks.delay_min <= acks.delay && acks.delay <= acks.delay_max,
            "{name}"
        );
        let recovery = &settings.recovery;
        assert!(recovery.rto_min <= recovery.rto_initial, "{name}");
        assert!(recovery.rto_initial <= recovery.rto_max, "{name}");
        assert!(settings.congestion.initial_window >= 1, "{name}");
        assert!(system.ports.0 < system.ports.1, "{name}");
        if !settings.options.window_scaling {
            assert!(settings.recv.buffer.max <= 65_535, "{name}");
        }
        assert!(!settings.options.dsack || settings.options.sack, "{name}");
    }
}

/// Values that the papers print, one line each.
#[test]
fn profiles_hold_the_published_values() {
    let sizes = |settings: &SocketSettings| {
        let of = |buffer: &BufferSize| (buffer.initial, buffer.max, buffer.request_max);
        (of(&settings.send.buffer), of(&settings.recv.buffer))
    };
    let check = |profile: Profile, send: (u32, u32, u32), recv: (u32, u32, u32)| {
        assert_eq!(sizes(&profile.settings), (send, recv), "{}", profile.name);
    };
    const MIB: u32 = 1 << 20;
    // DC11; B1 is its first value each.
    check(
        linux_6_18(),
        (16_384, 4 * MIB, 4 * MIB),
        (131_072, 32 * MIB, 4 * MIB),
    );
    check(
        linux_6_12(),
        (16_384, 4 * MIB, 212_992),
        (131_072, 6 * MIB, 212_992),
    );
    // DC10.
    check(
        linux_2019(),
        (16_384, 4 * MIB, 212_992),
        (87_380, 6 * MIB, 212_992),
    );
    // FB3 to FB10.
    check(
        freebsd_2006(),
        (32_768, 262_144, 262_144),
        (65_536, 262_144, 262_144),
    );
    check(
        freebsd_14(),
        (32_768, 2 * MIB, 2 * MIB),
        (65_536, 2 * MIB, 2 * MIB),
    );
    // WS9, WS47.
    check(
        winsock(),
        (8192, 8192, i32::MAX as u32),
        (17_520, 17_520, 65_535),
    );
    // NB18, NB22, NB59: 5 or 3 of at most 43 buffers of 1460 bytes.
    check(netburner(), (7300, 7300, 62_780), (7300, 7300, 62_780));
    check(netburner_2009(), (4380, 4380, 62_780), (4380, 4380, 62_780));
    let pool = netburner().system.pool.expect("NetBurner has a pool");
    assert_eq!((pool.buffers, pool.buffer_bytes), (256, 1548)); // NB5, NB6
}

#[test]
fn presets_turn_small_writes_as_the_recipes_say() {
    let check = |profile: Profile, preset: fn(&mut SocketSettings), expected: (Nagle, Push)| {
        let mut settings = profile.settings;
        preset(&mut settings);
        let small = &settings.small_writes;
        assert_eq!((small.nagle, small.push), expected, "{}", profile.name);
        assert!(!small.cork);
    };
    // NB34, NB35, NB2.
    check(
        netburner(),
        preset::interactive,
        (Nagle::Off, Push::EachWrite),
    );
    check(netburner(), preset::bulk, (Nagle::Rfc896, Push::Never));
    check(
        netburner(),
        preset::balanced,
        (Nagle::Rfc896, Push::EachWrite),
    );
    check(
        freebsd_14(),
        preset::interactive,
        (Nagle::Off, Push::BufferEmpty),
    );
    check(linux_6_18(), preset::bulk, (Nagle::Minshall, Push::Never));
    let there_and_back = |settings: &mut SocketSettings| {
        preset::interactive(settings);
        preset::bulk(settings);
        preset::balanced(settings);
    };
    check(
        linux_6_18(),
        there_and_back,
        (Nagle::Minshall, Push::EachWrite),
    );
    check(winsock(), there_and_back, (Nagle::Rfc896, Push::EachWrite));
}

#[test]
fn buffers_are_counted_in_packets_and_kept_within_the_profile() {
    let check = |buffers: u32, lossy: bool, expected: (u32, u32, u32, u32)| {
        let mut settings = netburner().settings;
        preset::netburner(&mut settings, buffers, lossy);
        let found = (
            settings.send.buffer.fixed,
            settings.send.unacked_budget,
            settings.recv.buffer.fixed,
            settings.recv.out_of_order_budget,
        );
        let (send, unacked, recv, out_of_order) = expected;
        let expected = (Some(send), Some(unacked), Some(recv), Some(out_of_order));
        assert_eq!(found, expected, "{buffers} buffers");
    };
    check(20, false, (29_200, 29_200, 29_200, 7300)); // NB64
    check(20, true, (29_200, 29_200, 29_200, 27_740)); // NB20: 19
    check(40, true, (58_400, 58_400, 58_400, 56_940)); // NB41
    check(1, false, (7300, 7300, 7300, 7300)); // NB15: 5 to 43
    check(1000, false, (62_780, 62_780, 62_780, 7300));
    check(u32::MAX, true, (62_780, 62_780, 62_780, 61_320));
}

#[test]
fn only_netburner_counts_buffers_and_only_winsock_completes_by_quota() {
    for (name, profile) in PROFILES {
        let settings = profile().settings;
        let counts_buffers = matches!(settings.recv.accounting, Accounting::Buffers { .. });
        assert_eq!(counts_buffers, name.starts_with("netburner"), "{name}");
        let by_quota = settings.send.completion == Completion::Winsock;
        assert_eq!(by_quota, *name == "winsock", "{name}");
    }
}
