//! The measured signatures, and which diagnosis each must give first.

mod builders;
mod random;
mod scenes;
mod stalls;

use crate::verdict::Side;
use crate::{DIAGNOSES, Observation, Report, Timeline, diagnose};
use base::{KnobValue, Live};
use builders::Scene;
use scenes::scenes;

use super::*;

fn report(scene: &Scene) -> Report {
    let siblings: Vec<&Timeline> = scene.siblings.iter().collect();
    diagnose(&Observation {
        local: &scene.local,
        remote: scene.remote.as_ref(),
        siblings: &siblings,
        host: scene.host.as_ref(),
        remote_host: scene.remote_host.as_ref(),
        interface: scene.interface,
        remote_interface: scene.remote_interface,
        hosts_answer_elsewhere: scene.hosts_answer_elsewhere,
        ..Observation::of(&scene.local)
    })
}

fn ids(report: &Report) -> Vec<&'static str> {
    report
        .verdicts
        .iter()
        .map(|verdict| verdict.diagnosis.id)
        .collect()
}

fn named(name: &str) -> Scene {
    scenes()
        .into_iter()
        .find(|scene| scene.name == name)
        .expect("a scene")
}

#[test]
fn each_signature_gives_its_diagnosis_first() {
    let mut wrong = Vec::new();
    for scene in scenes() {
        let report = report(&scene);
        if ids(&report).first().copied() != scene.expected {
            wrong.push(format!(
                "{}: expected {:?}, got {:?} {:?}",
                scene.name,
                scene.expected,
                ids(&report),
                report.unknown
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_diagnosis_of_a_flow_has_a_signature() {
    let of_flows = DIAGNOSES
        .iter()
        .filter(|row| matches!(row.rule, Rule::Flow(_)));
    for diagnosis in of_flows {
        let has_scene = scenes()
            .iter()
            .any(|scene| scene.expected == Some(diagnosis.id));
        assert!(has_scene, "{}", diagnosis.id);
    }
    assert!(
        DIAGNOSES.is_sorted_by_key(|row| row.stage),
        "the table is in order of stages"
    );
}

#[test]
fn healthy_flows_give_no_finding_whatever_is_hidden() {
    for mut scene in scenes().into_iter().filter(|scene| scene.healthy) {
        for hide in [|_: &mut Scene| (), hide_remote, hide_hosts, hide_options] {
            hide(&mut scene);
            let report = report(&scene);
            let finding = report.verdicts.iter().find(|v| v.diagnosis.is_finding());
            assert!(
                finding.is_none(),
                "{}: {:?}",
                scene.name,
                finding.map(|v| v.diagnosis.id)
            );
        }
    }
}

/// What is hidden may cost the verdict, or its confidence, but must not give another finding.
#[test]
fn a_fault_of_which_less_is_seen_is_not_taken_for_another() {
    let alike = |expected: &str, found: &str| {
        let one_of = |group: &[&str]| group.contains(&expected) && group.contains(&found);
        expected == found
            // From the sender alone the limits of the window look alike.
            || one_of(&["rcvbuf-locked", "tcp-rmem-max-cap"])
            // A small buffer, where nothing tells that its program did not set it.
            || one_of(&["rcvbuf-locked", "peer-window"])
            || one_of(&["slow-reader", "cpu-bound"])
            || one_of(&["sndbuf-locked", "tcp-wmem-max-cap"])
            || one_of(&["nagle-delack-stall", "two-one-way-connections"])
            || (expected == "local-qdisc-drops" && found == "random-loss")
    };
    for hide in [hide_remote, hide_hosts, hide_options] {
        for mut scene in scenes() {
            hide(&mut scene);
            let report = report(&scene);
            let Some(main) = report.main().filter(|main| main.diagnosis.is_finding()) else {
                continue;
            };
            let expected = scene.expected.unwrap_or("none");
            assert!(
                alike(expected, main.diagnosis.id),
                "{}: {}",
                scene.name,
                main.diagnosis.id
            );
        }
    }
}

/// A sender that begins may lose a part of its first windows, and nothing after that.
#[test]
fn losses_of_the_beginning_are_not_random() {
    let mut scene = named("loss, CUBIC");
    assert_eq!(ids(&report(&scene))[0], "random-loss");
    scene.local = edited(&scene.local, |s| {
        let begun = s.at.since(base::Instant::ZERO).as_millis().min(500);
        s.retrans_total_pkts = Some(begun as u64);
    });
    assert!(!ids(&report(&scene)).contains(&"random-loss"));
}

fn hide_remote(scene: &mut Scene) {
    scene.remote = None;
    scene.remote_host = None;
}

fn hide_hosts(scene: &mut Scene) {
    scene.host = None;
    scene.remote_host = None;
}

/// As without the right to look into other programs' sockets.
fn hide_options(scene: &mut Scene) {
    fn strip(timeline: &Timeline) -> Timeline {
        let mut stripped = Timeline::new();
        for sample in timeline.samples() {
            let mut sample = sample.clone();
            sample.nodelay = None;
            sample.cork = None;
            sample.sndbuf_locked = None;
            sample.rcvbuf_locked = None;
            sample.owner_cpu_time = None;
            stripped.push(sample);
        }
        stripped
    }
    scene.local = strip(&scene.local);
    scene.remote = scene.remote.as_ref().map(strip);
}

#[test]
fn from_the_other_end_the_answer_is_the_same_and_the_sides_are_swapped() {
    let mut seen = 0;
    for scene in scenes() {
        let (Some(remote), true) = (scene.remote.clone(), scene.siblings.is_empty()) else {
            continue;
        };
        let there = report(&Scene {
            local: remote,
            remote: Some(scene.local.clone()),
            host: scene.remote_host.clone(),
            remote_host: scene.host.clone(),
            interface: scene.remote_interface,
            remote_interface: scene.interface,
            ..named(scene.name)
        });
        let here = report(&scene);
        assert_eq!(ids(&there), ids(&here), "{}", scene.name);
        for (a, b) in here.verdicts.iter().zip(&there.verdicts) {
            for (a, b) in a.proposals.iter().zip(&b.proposals) {
                assert_ne!(a.side, b.side, "{}: {}", scene.name, a.knob.name);
                assert_eq!(a.knob.name, b.knob.name);
                seen += 1;
            }
        }
    }
    assert!(seen > 10, "most scenes have proposals");
}

#[test]
fn verdicts_are_complete() {
    for scene in scenes() {
        for verdict in report(&scene).verdicts {
            let id = verdict.diagnosis.id;
            assert!(
                (0.0..=1.0).contains(&verdict.share),
                "{id}: share {}",
                verdict.share
            );
            assert!(verdict.evidence.len() >= 2, "{id}: evidence");
            assert!(
                verdict.remark.ends_with('.'),
                "{id}: remark `{}`",
                verdict.remark
            );
            assert!(
                verdict.proposals.is_sorted_by_key(|p| p.knob.scope),
                "{id}: smallest first"
            );
            for proposal in &verdict.proposals {
                proposal
                    .knob
                    .check(&proposal.to)
                    .expect("a value that the knob takes");
                assert!(!proposal.risk.is_empty());
            }
            if verdict.proposals.is_empty() {
                let says_why = ["No TCP setting helps, because", "In the program", "Needs a"];
                assert!(
                    says_why.iter().any(|why| verdict.remark.contains(why)),
                    "{id}"
                );
            }
            if !verdict.diagnosis.is_finding() {
                assert!(verdict.proposals.is_empty(), "{id}: nothing to tune");
            }
        }
    }
}

/// What the main verdict on a scene proposes: side, knob, value, and when it takes effect.
fn check_proposals(name: &str, expected: &[(Side, &str, &str, Live)]) {
    let report = report(&named(name));
    let main = report.main().expect("a verdict");
    let found: Vec<_> = main
        .proposals
        .iter()
        .map(|p| (p.side, p.knob.name, p.to.to_string(), p.live))
        .collect();
    let expected: Vec<_> = expected
        .iter()
        .map(|(side, knob, to, live)| (*side, *knob, to.to_string(), *live))
        .collect();
    assert_eq!(found, expected, "{name}");
}

#[test]
fn proposals_for_small_writes_and_the_receive_buffer() {
    use Live::{Now, Reconnect, Restart};
    use Side::{Local, Remote};
    let check = check_proposals;
    check(
        "nagle x delayed ACK",
        &[
            (Local, "nodelay", "on", Now),
            (Remote, "route.quickack", "on", Now),
        ],
    );
    check("nagle, quick ACKs", &[(Local, "nodelay", "on", Now)]);
    check("cork", &[(Local, "cork", "off", Now)]);
    check(
        "quotes",
        &[
            (Local, "nodelay", "on", Now),
            (Remote, "nodelay", "on", Now),
        ],
    );
    check(
        "rcvbuf on the listener",
        &[(Remote, "buf_lock", "0", Restart)],
    );
    check("rcvbuf on the socket", &[(Remote, "buf_lock", "0", Now)]);
    check("rcvbuf shrunk", &[(Remote, "buf_lock", "0", Restart)]);
    check(
        "tcp_rmem",
        &[(Remote, "net.ipv4.tcp_rmem", "4096 65536 6291456", Now)],
    );
    check(
        "scaling off",
        &[(Local, "net.ipv4.tcp_window_scaling", "on", Reconnect)],
    );
    check("slow reader", &[]);
}

#[test]
fn proposals_for_the_send_buffer_and_the_path() {
    use Live::{Now, Reconnect};
    use Side::{Local, Remote};
    let check = check_proposals;
    check("sndbuf 32768", &[(Local, "buf_lock", "0", Now)]);
    check("sndbuf 0", &[(Local, "buf_lock", "0", Now)]);
    check(
        "tcp_wmem",
        &[(Local, "net.ipv4.tcp_wmem", "4096 16384 4194304", Now)],
    );
    check("16-byte writes, nodelay", &[(Local, "nodelay", "off", Now)]);
    check("16-byte writes, nagle", &[]);
    check(
        "loss, CUBIC",
        &[
            (Local, "congestion", "bbr", Now),
            (Local, "route.congctl", "bbr", Reconnect),
        ],
    );
    check(
        "DSL, CUBIC",
        &[
            (Local, "congestion", "bbr", Now),
            (Local, "route.congctl", "bbr", Reconnect),
        ],
    );
    check(
        "short txqueuelen",
        &[(Local, "link.txqueuelen", "1000", Now)],
    );
    check(
        "black hole",
        &[(Local, "net.ipv4.tcp_mtu_probing", "1", Now)],
    );
    check(
        "bursts",
        &[(Local, "net.ipv4.tcp_slow_start_after_idle", "off", Now)],
    );
    check(
        "short connections",
        &[
            (Local, "route.initcwnd", "64", Reconnect),
            (Remote, "route.initrwnd", "64", Reconnect),
        ],
    );
    check("SACK off", &[(Local, "net.ipv4.tcp_sack", "on", Reconnect)]);
}

#[test]
fn the_other_lock_is_kept() {
    let mut scene = named("sndbuf 32768");
    scene.local = edited(&scene.local, |s| s.rcvbuf_locked = Some(true));
    let report = report(&scene);
    let main = report.main().expect("a verdict");
    assert_eq!(main.proposals[0].to, KnobValue::Number(2));
}

/// Autotuning that is switched on, or given more room, grows a window only when more is read in a
/// round trip than in any before (`tcp_rcv_space_adjust`).
#[test]
fn a_window_grows_on_an_open_connection_that_never_read_more_than_its_window() {
    let live = |scene: &str, id: &str, most_read: u32| {
        let mut scene = named(scene);
        scene.remote = scene
            .remote
            .map(|remote| edited(&remote, |s| s.rcv_space_bytes = Some(most_read)));
        let report = report(&scene);
        let main = report.main().expect("a verdict");
        assert_eq!(main.diagnosis.id, id);
        main.proposals[0].live
    };
    for (scene, id) in [
        ("autotuning off", "rmem-autotuning-off"),
        ("tcp_rmem", "tcp-rmem-max-cap"),
    ] {
        assert_eq!(live(scene, id, 14_600), Live::Now);
        assert_eq!(live(scene, id, 1_000_000), Live::Reconnect);
        // All that comes in a round trip was read in one already.
        let windows = named(scene).local;
        let window = windows.samples().filter_map(|s| s.snd_wnd_bytes).max();
        assert_eq!(live(scene, id, window.expect("seen")), Live::Reconnect);
    }
}

/// Of a burst that restarts in slow start its round trip stays.
#[test]
fn what_a_change_saves_is_less_than_all() {
    for (scene, least) in [("bursts", 0.1), ("short connections", 0.1)] {
        let report = report(&named(scene));
        let main = report.main().expect("a verdict");
        let saves = main.saves.expect("it is arithmetic");
        assert!((least..0.95).contains(&saves), "{scene}: {saves}");
    }
}

fn edited(timeline: &Timeline, edit: impl Fn(&mut base::FlowSample)) -> Timeline {
    let mut changed = Timeline::new();
    for sample in timeline.samples() {
        let mut sample = sample.clone();
        edit(&mut sample);
        changed.push(sample);
    }
    changed
}

#[test]
fn answers_behind_a_backlog_are_told_of() {
    let check = |questions: u64, unsent: u32, told: bool| {
        let mut scene = named("healthy CUBIC");
        let began = scene.local.first().expect("a sample").at;
        scene.local = edited(&scene.local, |s| {
            s.data_segs_in = Some(s.at.since(began).as_secs() * questions);
            s.notsent_bytes = Some(unsent);
        });
        let report = report(&scene);
        let main = report.main().expect("a verdict");
        assert_eq!(main.diagnosis.id, "path-full");
        assert_eq!(main.remark.contains("TCP_NOTSENT_LOWAT"), told);
    };
    check(5, 2_400_000, true);
    check(0, 2_400_000, false);
    check(5, 100_000, false);
}

/// A signature that fits two diagnoses gets these verdicts.
fn check_conflict(name: &str, edit: fn(&mut Scene), expected: &[&str]) {
    let mut scene = named(name);
    edit(&mut scene);
    let report = report(&scene);
    assert_eq!(ids(&report), expected, "{name} {:?}", report.unknown);
}

#[test]
fn conflicts_of_stalls_windows_and_buffers_are_decided() {
    let check = check_conflict;
    // A stall beats what `app_limited` says, and the send buffer.
    check(
        "nagle x delayed ACK",
        |scene| scene.local = edited(&scene.local, |s| s.delivery_app_limited = Some(true)),
        &["nagle-delack-stall"],
    );
    // A slow reader beats every receive buffer, also a locked one, also without scaling.
    check(
        "slow reader",
        |scene| {
            let remote = scene.remote.take().expect("seen");
            scene.remote = Some(edited(&remote, |s| s.rcvbuf_locked = Some(true)));
            scene.local = edited(&scene.local, |s| s.window_scaling = Some(false));
        },
        &["slow-reader"],
    );
    // While the window decides, nothing is said of queues.
    check(
        "rcvbuf on the socket",
        |scene| {
            scene.local = edited(&scene.local, |s| {
                s.srtt = Some(core::time::Duration::from_millis(400));
                s.notsent_bytes = Some(1_000_000);
            });
        },
        &["rcvbuf-locked"],
    );
    // An unlocked buffer that has not reached its sysctl is growing, or clamped otherwise.
    check(
        "rcvbuf on the socket",
        |scene| {
            let remote = scene.remote.take().expect("seen");
            scene.remote = Some(edited(&remote, |s| s.rcvbuf_locked = Some(false)));
        },
        &["peer-window"],
    );
    // `w >= tb` alone proves nothing.
    check(
        "healthy CUBIC",
        |scene| {
            scene.local = edited(&scene.local, |s| {
                s.wmem_queued_bytes = s.sndbuf_bytes.map(|b| b + b / 8);
            });
        },
        &["path-full"],
    );
}

#[test]
fn conflicts_of_losses_and_queues_are_decided() {
    let check = check_conflict;
    // Retransmissions that came back as D-SACK void the loss verdict.
    check(
        "loss, CUBIC",
        |scene| {
            scene.local = edited(&scene.local, |s| {
                s.dsack_dups = s.retrans_total_pkts.map(|n| n * 3 / 4);
            });
        },
        &[],
    );
    // Where there are more D-SACKs than retransmissions, the path itself doubles packets.
    check(
        "loss, CUBIC",
        |scene| {
            scene.local = edited(&scene.local, |s| {
                s.dsack_dups = s.retrans_total_pkts.map(|n| n * 2);
            });
        },
        &["random-loss"],
    );
    // Loss with a standing queue is not random.
    check(
        "loss, CUBIC",
        |scene| {
            scene.local = edited(&scene.local, |s| {
                s.srtt = Some(core::time::Duration::from_millis(70));
            });
        },
        &["path-full"],
    );
    // Round trips over a longer way are not a queue if packets are only reordered.
    check(
        "loss, CUBIC",
        |scene| {
            scene.local = edited(&scene.local, |s| {
                s.srtt = Some(core::time::Duration::from_millis(70));
                s.dsack_dups = s.retrans_total_pkts.map(|n| n / 2);
                s.reord_seen = s.retrans_total_pkts.map(|n| n * 4);
                s.bytes_retrans = s.bytes_sent.map(|n| n / 14);
            });
        },
        &["reordering"],
    );
    // Bufferbloat is not a limit: the path is.
    check("DSL, CUBIC", |_| (), &["bufferbloat", "path-full"]);
    // A locked buffer on a path that is full anyway.
    check(
        "DSL, CUBIC",
        |scene| {
            scene.local = edited(&scene.local, |s| {
                s.sndbuf_locked = Some(true);
                s.sndbuf_bytes = Some(262_144);
                s.wmem_queued_bytes = Some(300_000);
                s.notsent_bytes = Some(0);
            });
        },
        &["bufferbloat", "path-full"],
    );
}

#[test]
fn next_limits_are_computed() {
    let check = |name: &str, what: &str, bits: std::ops::Range<u64>| {
        let report = report(&named(name));
        let next = report
            .main()
            .and_then(|main| main.next.clone())
            .expect("a next limit");
        assert!(next.what.starts_with(what), "{name}: {}", next.what);
        let rate = next.rate.map_or(0, base::Rate::bits_per_second);
        assert!(bits.contains(&rate), "{name}: {rate}");
    };
    // Not the scale of this connection, 65535 bytes per 40 ms: the next one agrees on its own.
    check(
        "rcvbuf on the listener",
        "at most 839 Mbit/s (tcp_wmem of the sender",
        838_000_000..840_000_000,
    );
    check("loss, CUBIC", "at least ", 30_000_000..60_000_000);
    check("nagle x delayed ACK", "one round trip per operation", 0..1);
}

/// Within a machine the kernel acknowledges in a few microseconds, and no program answers so soon.
#[test]
fn a_round_trip_of_programs_is_not_that_of_their_kernel() {
    let next = |min_rtt_us: u64| {
        let mut scene = named("nagle x delayed ACK");
        let min_rtt = core::time::Duration::from_micros(min_rtt_us);
        scene.local = edited(&scene.local, |s| s.min_rtt = Some(min_rtt));
        let next = report(&scene).main().and_then(|main| main.next.clone());
        next.expect("a next limit").what
    };
    assert_eq!(next(3), "one round trip per operation: at least 3 us");
    assert_eq!(next(300), "one round trip per operation: 300 us");
}

#[test]
fn too_little_data_is_said() {
    let short: Vec<base::FlowSample> = named("healthy CUBIC")
        .local
        .samples()
        .take(5)
        .cloned()
        .collect();
    let mut local = Timeline::new();
    short.into_iter().for_each(|sample| local.push(sample));
    let report = diagnose(&Observation::of(&local));
    assert_eq!(ids(&report), [""; 0]);
    assert!(
        report
            .unknown
            .is_some_and(|why| why.starts_with("too few samples: 5 in 0.2 s"))
    );

    let report = diagnose(&Observation::of(&Timeline::new()));
    assert!(
        report
            .unknown
            .is_some_and(|why| why.starts_with("too few samples"))
    );
}

#[test]
fn data_that_cannot_be_true_gives_no_verdict() {
    let mut local = named("healthy CUBIC").local;
    let mut broken = local.last().expect("samples").clone();
    broken.at += core::time::Duration::from_millis(50);
    broken.bytes_acked = Some(1);
    local.push(broken);
    let report = diagnose(&Observation::of(&local));
    assert!(
        report
            .unknown
            .is_some_and(|why| why.contains("bytes_acked went backwards"))
    );
}

#[test]
fn a_receiver_alone_tells_of_its_own_buffers() {
    let check = |name: &str, expected: Option<&str>| {
        let scene = named(name);
        let report = diagnose(&Observation {
            host: scene.remote_host.as_ref(),
            ..Observation::of(scene.remote.as_ref().expect("seen"))
        });
        assert_eq!(
            ids(&report).first().copied(),
            expected,
            "{name}: {:?}",
            report.unknown
        );
    };
    check("slow reader", Some("slow-reader"));
    check("reader that sleeps", Some("slow-reader"));
    check("rcvbuf on the socket", Some("rcvbuf-locked"));
    check("tcp_rmem", Some("tcp-rmem-max-cap"));
    check("healthy CUBIC", None);
    check("loss, CUBIC", None);
}

#[test]
fn evidence_is_told_with_its_units() {
    let report = report(&named("nagle x delayed ACK"));
    let main = report.main().expect("a verdict");
    assert_eq!(main.confidence, Confidence::High);
    assert_eq!(main.limit, Some(base::Limit::Nagle));
    let rows: Vec<_> = main
        .evidence
        .iter()
        .map(|row| (row.field, row.observed.as_str(), row.expected.as_str()))
        .collect();
    assert_eq!(
        rows,
        [
            (
                "notsent_bytes",
                "100 bytes held with data in flight, in 100 % of the samples",
                "less than one segment (1448 bytes), in 50 % or more",
            ),
            ("srtt - min_rtt", "21.7 ms", "at least 10.0 ms"),
            ("nodelay", "off", "off"),
            (
                "TcpExtDelayedACKs",
                "21.0 per second",
                "at least 4 per second"
            ),
        ]
    );
}

#[test]
fn a_host_is_judged_by_its_listeners_and_ports() {
    use base::{HostSample, Instant, ListenerSample, PortUse};
    let check = |queue: u32, overflows: u64, taken: u32, expected: &[&str]| {
        let mut host = crate::HostTimeline::new();
        for look in 0..5_u64 {
            let listener = ListenerSample {
                local: "10.0.0.1:80".parse().unwrap(),
                cookie: 1,
                queue_pkts: queue,
                backlog_pkts: 2,
            };
            host.push(HostSample {
                at: Instant::from_nanos(look),
                listeners: vec![listener],
                ports: Some(PortUse {
                    remote: "10.0.0.2:80".parse().unwrap(),
                    taken,
                    range: 100,
                }),
                counters: [
                    ("TcpExtListenOverflows".into(), look * overflows),
                    ("TcpExtTCPReqQFullDrop".into(), look * overflows),
                    ("TcpExtTCPMemoryPressures".into(), 7),
                ]
                .into(),
                ..HostSample::default()
            });
        }
        let found = crate::diagnose_host(&host);
        let ids: Vec<&str> = found.iter().map(|verdict| verdict.diagnosis.id).collect();
        assert_eq!(ids, expected, "{queue} {overflows} {taken}");
    };
    check(0, 0, 10, &[]);
    check(2, 0, 94, &[]);
    check(3, 0, 10, &["accept-queue-full"]);
    check(0, 1, 10, &["accept-queue-full"]);
    check(0, 0, 95, &["ports-exhausted"]);
}
