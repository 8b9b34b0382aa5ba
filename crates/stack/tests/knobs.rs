//! Every knob of `base::KNOBS` against the settings of every profile.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use base::knob::Kind;
use base::settings::{Accounting, Nagle, SizeRule, SocketSettings, Validation};
use base::{KNOBS, Knob, KnobError, KnobValue, Rate, Scope, find_knob};
use tcptailor_stack::profile::{self, PROFILES};

/// A value for each knob of the stack, in the order of the table. `other`: a flag or a choice is
/// moved from where the profile has it.
const TRIED: &[(&str, &str)] = &[
    ("nodelay", "other"),
    ("cork", "on"),
    ("congestion", "bbr"),
    ("sndbuf", "60000B"),
    ("rcvbuf", "60000B"),
    ("buf_lock", "3"),
    ("notsent_lowat", "16KiB"),
    ("delack_max", "70ms"),
    ("mss", "1000B"),
    ("nagle", "other"),
    ("half_window", "other"),
    ("push", "other"),
    ("nopush", "other"),
    ("cork_ceiling", "70ms"),
    ("delayed_ack", "other"),
    ("delayed_ack_every", "13"),
    ("delayed_ack_counts", "other"),
    ("delayed_ack_timer", "70ms"),
    ("delayed_ack_min", "30ms"),
    ("delayed_ack_tick", "100ms"),
    ("quick_acks", "7"),
    ("pingpong_threshold", "3"),
    ("ack_on_read", "other"),
    ("sack_compress_delay", "2ms"),
    ("sack_compress_percent", "34"),
    ("sack_compress_count", "45"),
    ("window_update_segments", "4"),
    ("challenge_acks", "77"),
    ("send_buffer", "12345B"),
    ("send_buffer_initial", "12345B"),
    ("send_buffer_max", "123456B"),
    ("send_buffer_auto", "other"),
    ("send_buffer_rule", "other"),
    ("send_buffer_step", "12345B"),
    ("send_buffer_auto_lowat", "other"),
    ("send_accounting", "other"),
    ("send_truesize_ratio", "99"),
    ("send_buffer_payload", "1000B"),
    ("send_completion", "other"),
    ("unacked_budget", "12345B"),
    ("tx_buffers", "11"),
    ("unack_buffers", "11"),
    ("recv_buffer", "12345B"),
    ("recv_buffer_initial", "12345B"),
    ("recv_buffer_max", "123456B"),
    ("recv_buffer_rule", "other"),
    ("recv_buffer_step", "12345B"),
    ("recv_accounting", "other"),
    ("recv_truesize_ratio", "99"),
    ("recv_buffer_payload", "1000B"),
    ("out_of_order_budget", "12345B"),
    ("rcvlowat", "12345B"),
    ("rx_buffers", "11"),
    ("out_of_order_buffers", "11"),
    ("dsack", "other"),
    ("ecn", "request"),
    ("default_mss", "1000B"),
    ("window_clamp", "12345B"),
    ("accept_window_zero", "other"),
    ("loss_detection", "other"),
    ("dupack_threshold", "4"),
    ("tail_loss_probe", "other"),
    ("prr", "other"),
    ("frto", "other"),
    ("undo", "other"),
    ("limited_transmit", "other"),
    ("rto_initial", "2s"),
    ("rto_max", "30s"),
    ("rto_rule", "other"),
    ("hystart", "plusplus"),
    ("cwnd_validation", "rfc7661"),
    ("pacing", "on"),
    ("pacing_rate_max", "25mbit"),
    ("pacing_ss_percent", "201"),
    ("pacing_ca_percent", "121"),
    ("byte_counting", "other"),
    ("pmtu_discovery", "other"),
    ("pmtu_confirm", "other"),
    ("mtu_base", "1000B"),
    ("gso_max", "12345B"),
    ("tso_min_segments", "3"),
    ("tso_rtt_log", "8"),
    ("tso_win_divisor", "4"),
    ("local_queue_max", "12345B"),
    ("hop_limit", "77"),
    ("syn_retries", "77"),
    ("syn_linear_timeouts", "7"),
    ("synack_retries", "77"),
    ("defer_accept", "30s"),
    ("retries", "77"),
    ("retries_timeout", "30s"),
    ("user_timeout", "30s"),
    ("keepalive", "30s"),
    ("keepalive_interval", "30s"),
    ("keepalive_probes", "77"),
    ("fin_timeout", "30s"),
    ("time_wait", "30s"),
    ("time_wait_reuse", "other"),
    ("unreachable_ends_opening", "other"),
    ("route.quickack", "on"),
    ("route.initcwnd", "77"),
    ("route.initrwnd", "77"),
    ("route.congctl", "bbr"),
    ("route.advmss", "1000B"),
    ("route.rto_min", "5ms"),
    ("net.ipv4.tcp_rmem", "1234B 12345B 123456B"),
    ("net.ipv4.tcp_wmem", "1234B 12345B 123456B"),
    ("net.ipv4.tcp_window_scaling", "other"),
    ("net.ipv4.tcp_sack", "other"),
    ("net.ipv4.tcp_timestamps", "other"),
    ("net.ipv4.tcp_slow_start_after_idle", "other"),
    ("net.ipv4.tcp_mtu_probing", "1"),
    ("net.ipv4.tcp_moderate_rcvbuf", "other"),
    ("net.ipv4.tcp_autocorking", "other"),
    ("net.core.rmem_max", "123456B"),
    ("net.core.wmem_max", "123456B"),
];

/// Knobs that are no setting of a connection of our stack.
const NOT_IN_STACK: &[&str] = &[
    "quickack", // an event, not a setting: the kernel clears it by itself
    "route.mtu",
    "link.mtu",        // `HostConfig::mtu`
    "link.txqueuelen", // `HostSettings::txqueuelen`
    "qdisc.limit",
    "net.ipv4.tcp_no_metrics_save",
    "net.core.rmem_default", // no memory of TCP
    "net.core.wmem_default",
];

#[test]
fn every_knob_of_the_stack_is_tried_and_no_other() {
    let names = |in_stack: bool| -> Vec<&str> {
        let rows = KNOBS.iter().filter(|knob| knob.stack.is_some() == in_stack);
        rows.map(|knob| knob.name).collect()
    };
    let tried: Vec<&str> = TRIED.iter().map(|(name, _)| *name).collect();
    assert_eq!(tried, names(true));
    assert_eq!(NOT_IN_STACK, names(false));
}

/// A value that was read can be set again and changes nothing, in every profile.
#[test]
fn what_is_read_can_be_set() {
    for (name, profile) in PROFILES {
        let settings = profile().settings;
        for knob in KNOBS.iter().filter(|knob| knob.stack.is_some()) {
            let value = knob.get(&settings).expect("a knob of the stack");
            let text = knob.format(&value);
            let mut again = settings.clone();
            match knob.parse(&text) {
                // What these settings do not have, such as the step of a rule without one.
                Err(_) => assert_eq!(text, "none", "{name}: {}", knob.name),
                Ok(parsed) => {
                    assert_eq!(parsed, value, "{name}: {}", knob.name);
                    let result = knob.set(&mut again, &parsed);
                    assert_eq!(result, Ok(()), "{name}: {} = {text}", knob.name);
                    assert_eq!(again, settings, "{name}: {} = {text}", knob.name);
                }
            }
        }
    }
}

/// Fields that no knob sets.
const WITHOUT_KNOB: &[&str] = &[
    "acks.follows_pace", // of a profile
    "send.held",         // of a program, which only `lab::HostSpec` has
];

/// Every field of the settings has a knob but for these.
#[test]
fn every_setting_is_reached_by_a_knob() {
    let mut reached = BTreeSet::new();
    let mut all = BTreeSet::new();
    for (_, profile) in PROFILES {
        let start = profile().settings;
        all.extend(fields(&start).into_keys());
        for (name, text) in TRIED {
            let mut settings = start.clone();
            turn(&mut settings, knob(name), text);
            let after = fields(&settings);
            let changed = fields(&start)
                .into_iter()
                .filter(|(field, value)| after.get(field) != Some(value));
            reached.extend(changed.map(|(field, _)| field));
        }
    }
    let unreachable: Vec<&String> = all.difference(&reached).collect();
    assert_eq!(unreachable, WITHOUT_KNOB);
    assert!(all.len() > 80, "{all:#?}");
}

#[test]
fn a_value_out_of_range_is_refused_with_the_range() {
    let check = |name: &str, text: &str, expected: &str| {
        let mut settings = profile::linux_6_18().settings;
        assert_eq!(set(&mut settings, name, text), expected);
        assert_eq!(settings, profile::linux_6_18().settings, "{name}");
    };
    check(
        "delack_max",
        "1ms",
        "delack_max: 1ms is out of range; the range is 2ms to 200ms",
    );
    check(
        "route.initcwnd",
        "0",
        "route.initcwnd: 0 is out of range; the range is 1 to 65535",
    );
    check(
        "gso_max",
        "1MiB",
        "gso_max: 1MiB is out of range; the range is 0B to 64KiB",
    );
    check(
        "nagle",
        "on",
        "nagle: `on` is none of off, rfc896, minshall",
    );
    check(
        "congestion",
        "vegas",
        "congestion: `vegas` is none of reno, cubic, bbr, none",
    );
    check(
        "send_buffer_step",
        "8KiB",
        "send_buffer_step: only FreeBSD's rules grow in steps; choose one of them first",
    );
    check(
        "quickack",
        "on",
        "quickack: it is a setting of Linux; a connection of tcptailor's own stack has none",
    );
}

/// Rule 5.3, vectors B2 to B5.
#[test]
fn linux_doubles_what_is_asked_for() {
    let check = |asked: u64, sndbuf: u32, rcvbuf: u32| {
        let mut settings = profile::linux_6_18().settings;
        for name in ["sndbuf", "rcvbuf"] {
            let result = knob(name).set(&mut settings, &KnobValue::Number(asked));
            assert_eq!(result, Ok(()), "{name} = {asked}");
        }
        let fixed = (settings.send.buffer.fixed, settings.recv.buffer.fixed);
        assert_eq!(fixed, (Some(sndbuf), Some(rcvbuf)), "{asked}");
        assert_eq!(set(&mut settings, "buf_lock", "0"), "0");
        assert_eq!(settings, profile::linux_6_18().settings);
    };
    check(0, 4608, 2304); // B2
    check(1000, 4608, 2304); // B3
    check(100_000, 200_000, 200_000); // B4
    check(100_000_000, 8_388_608, 8_388_608); // B5
}

/// B1.
#[test]
fn a_new_socket_of_linux_has_its_default_buffers() {
    let settings = profile::linux_6_18().settings;
    assert_eq!(settings.recv.buffer.initial, 131_072);
    assert_eq!(settings.send.buffer.initial, 16_384);
}

#[test]
fn other_stacks_give_what_is_asked_for_or_refuse() {
    let check = |profile: &str, name: &str, text: &str, expected: &str| {
        let mut settings = profile::find(profile).expect("a profile").settings;
        assert_eq!(set(&mut settings, name, text), expected, "{profile}");
    };
    check("winsock", "sndbuf", "0B", "0B"); // WS12
    check("freebsd_2006", "sndbuf", "32KiB", "32KiB"); // F1
    check(
        "freebsd_2006",
        "sndbuf",
        "1MiB",
        "sndbuf: 1048576 is out of range; with these settings it is 1 to 262144 bytes",
    );
    check("netburner", "rcvbuf", "30000B", "29200B"); // whole buffers
    check("netburner", "rx_buffers", "43", "43"); // NB18
    check(
        "netburner",
        "SetSocketRxBuffers",
        "44",
        "rx_buffers: 44 is out of range; with these settings it is 5 to 43 buffers", // NB15
    );
    check("netburner", "SetSocketTxBuffers", "20", "20"); // NB22
    check("netburner", "setsocketackbuffers", "20", "20"); // NB24
    check("netburner", "SetSocketUnackBuffers", "20", "20"); // NB23
    check("netburner", "SetOutOfOrderBuffers", "0", "0"); // NB19, N5
    check("netburner_2009", "unack_buffers", "3", "3"); // NB59
    check("winsock", "TcpAckFrequency", "1", "1"); // WS36
}

/// The names that the seeds and other stacks use.
#[test]
fn aliases_reach_the_settings_that_they_are_about() {
    let mut settings = profile::freebsd_2006().settings;
    for (name, text) in [
        ("net.inet.tcp.sendbuf_inc", "4KiB"),  // FB4
        ("net.inet.tcp.sendbuf_max", "1MiB"),  // FB5
        ("net.inet.tcp.recvbuf_inc", "32KiB"), // FB7
        ("net.inet.tcp.recvbuf_max", "2MiB"),  // FB8
        ("net.inet.tcp.sendspace", "64KiB"),   // FB10
    ] {
        assert_eq!(set(&mut settings, name, text), text, "{name}");
    }
    let (send, recv) = (&settings.send.buffer, &settings.recv.buffer);
    assert_eq!(send.rule, SizeRule::FreeBsd2006 { step: 4096 });
    assert_eq!(recv.rule, SizeRule::FreeBsd2006 { step: 32_768 });
    assert_eq!((send.initial, send.max), (65_536, 1 << 20));
    assert_eq!(recv.max, 2 << 20);
    assert_eq!((send.request_max, recv.request_max), (1 << 20, 2 << 20)); // FB13
    set(&mut settings, "net.inet.tcp.sendbuf_auto_lowat", "on"); // FB14
    assert!(settings.send.auto_lowat);
    set(&mut settings, "net.inet.tcp.recvspace", "32KiB"); // FB10
    assert_eq!(settings.recv.buffer.initial, 32_768);
    set(&mut settings, "net.inet.tcp.delayed_ack", "off"); // FB32
    assert!(settings.acks.always_quick);
    set(&mut settings, "net.inet.tcp.delacktime", "30ms"); // FB32
    assert_eq!(settings.acks.delay, Duration::from_millis(30));
    set(&mut settings, "recv_buffer_rule", "freebsd_2017"); // FB17
    let step = 32_768;
    assert_eq!(settings.recv.buffer.rule, SizeRule::FreeBsd2017 { step });
    set(&mut settings, "net.inet.tcp.sendbuf_auto", "off"); // FB3
    set(&mut settings, "net.inet.tcp.recvbuf_auto", "off"); // FB6
    assert_eq!(settings.send.buffer.rule, SizeRule::Fixed);
    assert_eq!(settings.recv.buffer.rule, SizeRule::Fixed);

    let mut settings = profile::netburner().settings;
    let start = settings.clone();
    set(&mut settings, "SO_NONAGLE", "on"); // NB27
    assert_eq!(settings.small_writes.nagle, Nagle::Off);
    set(&mut settings, "SO_NONAGLE", "off"); // NB28
    assert_eq!(settings, start);
    assert_eq!(set(&mut settings, "SO_NOPUSH", "on"), "on"); // NB29
    assert_eq!(set(&mut settings, "SO_NOPUSH", "off"), "off"); // NB30
    assert_eq!(settings, start);
}

#[test]
fn values_that_belong_together_move_together() {
    let mut settings = profile::linux_6_18().settings;
    set(&mut settings, "delack_max", "5ms");
    let acks = &settings.acks;
    let all = [acks.delay_min, acks.delay, acks.delay_max];
    // The pace of data goes on to decide below it (Linux `tcp_delack_max`).
    assert_eq!(all, [40, 40, 5].map(Duration::from_millis));
    set(&mut settings, "delayed_ack_timer", "7ms");
    assert_eq!(settings.acks.delay_max, Duration::from_millis(7));
    // A fixed timer is what it may be at most.
    let mut freebsd = profile::freebsd_14().settings;
    set(&mut freebsd, "delack_max", "5ms");
    let acks = &freebsd.acks;
    let all = [acks.delay_min, acks.delay, acks.delay_max];
    assert_eq!(all, [Duration::from_millis(5); 3]);

    set(&mut settings, "delayed_ack_counts", "packets");
    assert_eq!(set(&mut settings, "delayed_ack_every", "2"), "2");

    set(&mut settings, "net.ipv4.tcp_slow_start_after_idle", "off");
    assert!(!settings.congestion.slow_start_after_idle);
    // An unused window still does not grow.
    assert_eq!(settings.congestion.validation, Validation::Linux);

    set(&mut settings, "recv_buffer_max", "64KiB");
    assert_eq!(settings.recv.buffer.initial, 65_536);

    set(&mut settings, "pacing_rate_max", "25mbit");
    let rate = Rate::from_bits_per_second(25_000_000);
    assert_eq!(settings.congestion.pacing_rate_max, Some(rate));
    assert_eq!(set(&mut settings, "sack_compress_delay", "none"), "none");
    assert_eq!(settings.acks.compress, None);
    assert_eq!(set(&mut settings, "recv_truesize_ratio", "none"), "none");
    assert_eq!(
        settings.recv.accounting,
        Accounting::Truesize { ratio: None }
    );
}

#[test]
fn what_linux_has_not_is_told_from_what_it_has() {
    let none = KnobValue::Name("none".into());
    for knob in KNOBS.iter().filter(|knob| knob.stack.is_some()) {
        let value = match knob.get(&profile::linux_6_18().settings) {
            Ok(value) if value != none => value,
            _ => continue,
        };
        let expected = match knob.linux {
            Some(_) => Ok(()),
            None => Err(KnobError::NotInLinux { knob: knob.name }),
        };
        assert_eq!(knob.check_for_linux(&value), expected, "{}", knob.name);
        assert!(knob.linux.is_some() || knob.scope == Scope::Socket);
    }
    for name in ["sndbuf", "rcvbuf", "mss", "route.initrwnd", "route.advmss"] {
        let error = knob(name).check_for_linux(&none).expect_err(name);
        assert!(error.to_string().contains("Linux has no `none`"), "{error}");
    }
}

fn knob(name: &str) -> &'static Knob {
    find_knob(name).expect("a knob")
}

/// Sets `name` to `text`; what is read back, or what went wrong.
fn set(settings: &mut SocketSettings, name: &str, text: &str) -> String {
    let knob = knob(name);
    let result = knob
        .parse(text)
        .and_then(|value| knob.set(settings, &value))
        .and_then(|()| knob.get(settings));
    match result {
        Ok(value) => knob.format(&value),
        Err(error) => error.to_string(),
    }
}

/// Sets a knob to a value of [`TRIED`] and reads it back. What these settings cannot have, such as
/// the step of a rule without one, must be refused and change nothing.
fn turn(settings: &mut SocketSettings, knob: &Knob, text: &str) {
    let start = settings.clone();
    let text = match text {
        "other" => other(knob, settings),
        text => text.into(),
    };
    let value = knob.parse(&text).expect("a value of the knob");
    match knob.set(settings, &value) {
        // NetBurner rounds bytes down to whole buffers.
        Ok(()) if matches!(knob.name, "sndbuf" | "rcvbuf") => {}
        Ok(()) => assert_eq!(knob.get(settings), Ok(value), "{}", knob.name),
        Err(error) => {
            assert!(matches!(error, KnobError::Invalid { .. }), "{error}");
            assert_eq!(*settings, start, "{error}");
        }
    }
}

/// A value other than the present one.
fn other(knob: &Knob, settings: &SocketSettings) -> String {
    match (knob.kind, knob.get(settings).expect("a knob of the stack")) {
        (Kind::Flag, KnobValue::Flag(on)) => (if on { "off" } else { "on" }).into(),
        (Kind::Choice(names), KnobValue::Name(present)) => {
            let next = names.iter().find(|name| **name != present);
            (*next.expect("two names")).into()
        }
        (Kind::Count, KnobValue::Number(number)) => u64::from(number == 0).to_string(),
        _ => panic!("{} is neither a flag nor a choice", knob.name),
    }
}

/// The fields of settings by their paths: `small_writes.nagle` is `Minshall`. What stands in a
/// variant counts as a field of its own.
fn fields(settings: &SocketSettings) -> BTreeMap<String, String> {
    let mut fields = BTreeMap::new();
    let mut path: Vec<&str> = Vec::new();
    let text = format!("{settings:#?}");
    for line in text.lines() {
        let content = line.trim().trim_end_matches(',');
        let depth = (line.len() - line.trim_start().len()) / 4;
        if depth == 0 || content.starts_with(['}', ')', ']']) {
            continue;
        }
        path.truncate(depth - 1);
        let (name, value) = content.split_once(": ").unwrap_or(("value", content));
        path.push(name);
        // A group is not a field.
        if !value.ends_with('{') {
            fields.insert(path.join("."), value.into());
        }
    }
    fields
}
