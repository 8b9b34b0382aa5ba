mod mistakes;

use core::time::Duration;
use std::sync::LazyLock;

use base::{Bytes, Fraction, KnobValue, QueueLimit, Rate};
use link::{Loss, Reorder, TooBig};
use proptest::prelude::*;

use super::*;
use crate::trial::PathSpec;
use crate::workload::{
    Amount, Completion, Direction, Quotes, Records, SizeRange, Workload, WriteMethod,
};

const HEAD: &str = "name = \"test\"\nabout = \"A test.\"\n";
const PATH: &str = "[path]\nkind = \"loopback\"\n";
const WORKLOAD: &str = "[workload]\nkind = \"bulk\"\nduration = \"1s\"\n";

/// A scenario of a loopback path and this text.
fn parse(text: &str) -> Result<Scenario, Vec<Diagnostic>> {
    let with = |table: &str, part: &'static str| if text.contains(table) { "" } else { part };
    let (path, workload) = (with("[path]", PATH), with("[workload]", WORKLOAD));
    // Bare keys of `text` belong to the top; so it comes first.
    Scenario::parse("test.toml", &format!("{HEAD}{text}\n{path}{workload}"))
}

fn shown(result: Result<Scenario, Vec<Diagnostic>>) -> String {
    match result {
        Ok(_) => "fine".into(),
        Err(list) => list
            .iter()
            .map(|d| d.to_string())
            .collect::<Vec<_>>()
            .join("\n"),
    }
}

fn only(text: &str) -> Trial {
    let scenario = parse(text).unwrap_or_else(|list| panic!("{}", shown(Err(list))));
    let mut cells = scenario.trials();
    assert_eq!(cells.len(), 1);
    cells.remove(0).trial
}

fn links(text: &str) -> (link::LinkSpec, link::LinkSpec) {
    match only(&format!("[path]\nkind = \"emulated\"\n{text}")).path {
        PathSpec::Emulated {
            forward, reverse, ..
        } => (forward, reverse),
        other => panic!("{other:?}"),
    }
}

const EVERYTHING_OF_A_PATH: &str = r#"
rate = "50mbit"
rtt = "41ms"
queue = "2bdp"
loss = "1%"
jitter = "2ms"
reorder = { share = "2%", hold = "1ms" }
duplicate = "0.1%"
link_mtu = "1400"
too_big = "vanish"
overhead = "38B"
[path.forward]
rate = "5mbit"
queue = "100p"
delay = "1ms"
[path.reverse]
loss = { good_to_bad = "0.5%", bad_to_good = "20%" }
trace = "1s 50mbit, 500ms 5mbit"
"#;

#[test]
fn a_path_has_two_directions() {
    let ms = Duration::from_millis;
    let part = Fraction::from_parts;
    let (forward, reverse) = links(EVERYTHING_OF_A_PATH);
    let both = link::LinkSpec {
        rate: "50mbit".parse().ok(),
        jitter: ms(2),
        loss: Loss::Random(part(10_000_000)),
        reorder: Some(Reorder {
            share: part(20_000_000),
            hold: ms(1),
        }),
        duplicate: part(1_000_000),
        mtu: Some(Bytes(1400)),
        too_big: TooBig::Vanish,
        overhead_bytes: 38,
        ..link::LinkSpec::ideal()
    };
    assert_eq!(
        forward,
        link::LinkSpec {
            rate: "5mbit".parse().ok(),
            delay: ms(1),
            queue: QueueLimit::Packets(100),
            ..both.clone()
        }
    );
    assert_eq!(
        reverse,
        link::LinkSpec {
            delay: Duration::from_micros(20_500),
            // 2 * 50 Mbit/s * 21.5 ms
            queue: QueueLimit::Bytes(Bytes(268_750)),
            loss: Loss::GilbertElliott {
                good_to_bad: part(5_000_000),
                bad_to_good: part(200_000_000),
                loss_good: Fraction::ZERO,
                loss_bad: Fraction::ONE,
            },
            rate_trace: vec![
                (ms(1000), "50mbit".parse().unwrap()),
                (ms(500), "5mbit".parse().unwrap())
            ],
            ..both
        }
    );
}

#[test]
fn queues_are_read_in_packets_bytes_and_bdps() {
    let check = |text: &str, expected: QueueLimit| {
        assert_eq!(links(text).0.queue, expected, "{text}");
    };
    check("", QueueLimit::Packets(1000));
    check("queue = \"250p\"", QueueLimit::Packets(250));
    check("queue = \"64KiB\"", QueueLimit::Bytes(Bytes(65_536)));
    let path = "rate = \"8mbit\"\nrtt = \"10ms\"\n";
    check(
        &format!("{path}queue = \"1bdp\""),
        QueueLimit::Bytes(Bytes(10_000)),
    );
    check(
        &format!("{path}queue = \"0.25bdp\""),
        QueueLimit::Bytes(Bytes(2_500)),
    );
    check(
        &format!("{path}queue = \"0.1bdp\""),
        QueueLimit::Bytes(Bytes(1_500)),
    );
}

#[test]
fn other_paths() {
    assert_eq!(only("").path, PathSpec::Loopback);
    let veth = only("[path]\nkind = \"veth\"\nmtu = \"9000\"").path;
    assert_eq!(veth, PathSpec::Veth { mtu: Bytes(9000) });
    let ipv6 = only("[path]\nkind = \"emulated\"\nipv6 = true").path;
    assert!(matches!(
        ipv6,
        PathSpec::Emulated {
            ipv6: true,
            mtu: Bytes(1500),
            ..
        }
    ));
    let text = "[path]\nkind = \"emulated\"\nrate = \"20mbit\"\nrtt = \"5ms\"\nqueue = \"9p\"";
    let simple = PathSpec::emulated(
        "20mbit".parse().unwrap(),
        Duration::from_millis(5),
        QueueLimit::Packets(9),
    );
    assert_eq!(only(text).path, simple);
    assert_eq!(simple.rtt(), Duration::from_millis(5));
}

const SECOND: Amount = Amount::Time(Duration::from_secs(1));

/// A table of a workload, and what it means.
static WORKLOADS: LazyLock<Vec<(&str, Workload)>> = LazyLock::new(|| {
    vec![
        (
            "kind='bulk'\ndirection='both'\nflows=4\nwrite_size='1kB'\nbytes='1MiB'",
            Workload::Bulk {
                direction: Direction::Both,
                flows: 4,
                write_size: Bytes(1000),
                unacked: None,
                amount: Amount::Bytes(Bytes(1 << 20)),
            },
        ),
        (
            "kind='bulk'\nunacked='32KiB'\nduration='1s'",
            Workload::Bulk {
                direction: Direction::Up,
                flows: 1,
                write_size: Bytes(64 << 10),
                unacked: Some(Bytes(32 << 10)),
                amount: SECOND,
            },
        ),
        (
            "kind='request-response'\nrequest='1B'\nresponse=200\noperations=9",
            Workload::RequestResponse {
                request: Bytes(1),
                response: Bytes(200),
                flows: 1,
                amount: Amount::Operations(9),
            },
        ),
        (
            "kind='connect-request-close'\nrequest='1B'\nresponse='2B'\nduration='1s'",
            Workload::ConnectRequestClose {
                request: Bytes(1),
                response: Bytes(2),
                amount: SECOND,
            },
        ),
        (
            "kind='write-write-read'\nwrite_size='100B'\nreply='2B'\nmethod='msg-more'\nduration='1s'",
            Workload::WriteWriteRead {
                writes: 2,
                write_size: Bytes(100),
                pieces: Vec::new(),
                reply: Bytes(2),
                method: WriteMethod::MsgMore,
                amount: SECOND,
                uncork_after: Duration::ZERO,
            },
        ),
        (
            "kind='write-write-read'\nwrites=1\nwrite_size='10B'\nreply='2B'\nmethod='cork'\n\
         uncork_after='10ms'\nduration='1s'",
            Workload::WriteWriteRead {
                writes: 1,
                write_size: Bytes(10),
                pieces: Vec::new(),
                reply: Bytes(2),
                method: WriteMethod::Cork,
                amount: SECOND,
                uncork_after: Duration::from_millis(10),
            },
        ),
        (
            "kind='records'\nrecord='100B'\nper_second=5\ncompletion='acknowledged'\nduration='1s'",
            Workload::Records(Records {
                seed: 1,
                per_second: Some(5),
                completion: Completion::Acknowledged,
                ..Records::new(Bytes(100), SECOND)
            }),
        ),
        (
            "kind='records'\nrecord='20B..100B'\njoined=80\nheader='4B'\nnon_blocking='on'\n\
         outstanding=2\n\
         read_size='200B'\nread_pause='60ms'\nduration='1s'",
            Workload::Records(Records {
                record: SizeRange {
                    min: Bytes(20),
                    max: Bytes(100),
                },
                seed: 1,
                joined: 80,
                header: Bytes(4),
                non_blocking: true,
                outstanding: 2,
                read_size: Some(Bytes(200)),
                read_pause: Duration::from_millis(60),
                ..Records::new(Bytes(1), SECOND)
            }),
        ),
        (
            "kind='quotes'\nwrites=3\nwrite_size='1B'\nreply='2B'\ndelayed_acks=true\nduration='1s'",
            Workload::Quotes(Quotes {
                writes: 3,
                delayed_acks: true,
                ..Quotes::new(Bytes(1), Bytes(2), SECOND)
            }),
        ),
        (
            "kind='quotes'\nwrites=1\nwrite_size='8B'\nreply='32B'\njoined=10\none_connection='on'\n\
         duration='1s'",
            Workload::Quotes(Quotes {
                joined: 10,
                one_connection: true,
                ..Quotes::new(Bytes(8), Bytes(32), SECOND)
            }),
        ),
        (
            "kind='bursts'\nburst='1MB'\nidle='500ms'\nreconnect='on'\noperations=3",
            Workload::Bursts {
                burst: Bytes(1_000_000),
                idle: Duration::from_millis(500),
                reconnect: true,
                amount: Amount::Operations(3),
            },
        ),
        (
            "kind='slow-reader'\nread_size='4KiB'\nevery='10ms'\nduration='1s'",
            Workload::SlowReader {
                read_size: Bytes(4096),
                every: Duration::from_millis(10),
                amount: SECOND,
            },
        ),
        (
            "kind='paced'\nrate='5mbit'\nduration='1s'",
            Workload::Paced {
                rate: Rate::from_bits_per_second(5_000_000),
                write_size: Bytes(65_536),
                amount: SECOND,
            },
        ),
    ]
});

#[test]
fn each_kind_of_workload_is_read() {
    for (text, expected) in WORKLOADS.iter() {
        let found = only(&format!("[workload]\n{text}")).workload;
        assert_eq!(found, *expected, "{text}");
    }
}

#[test]
fn pieces_may_differ_in_size() {
    let kind = "[workload]\nkind='write-write-read'\nreply='2B'\nduration='1s'\n";
    let found = only(&format!("{kind}pieces='6B 24B'\nmethod='cork-sendfile'")).workload;
    assert_eq!(found.message_bytes(), Some(30));
    let Workload::WriteWriteRead { pieces, method, .. } = found else {
        panic!("{found:?}");
    };
    assert_eq!(pieces, [Bytes(6), Bytes(24)]);
    assert_eq!(method, WriteMethod::CorkSendfile);
    let refused = |keys: &str, expected: &str| {
        let list = shown(parse(&format!("{kind}{keys}")));
        assert!(list.contains(expected), "{list}");
    };
    refused("pieces='6B 24B'\nwrites=3", "pieces is given too");
    refused("pieces='6B 0B'", "0B");
    refused("pieces=''", "1 to 1000 sizes");
}

#[test]
fn knobs_are_read_however_their_names_are_written() {
    let trial = only(
        "client.nodelay = true\nclient.route.initcwnd = 20\nserver.congestion = 'bbr'\n\
         client.net.ipv4.tcp_rmem = '4096 65536 65536'\nserver.'net.ipv4.tcp_sack' = 'off'",
    );
    let client: Vec<_> = trial.client.settings.into_iter().collect();
    assert_eq!(
        client,
        [
            (
                "net.ipv4.tcp_rmem",
                KnobValue::Triple([4096, 65_536, 65_536])
            ),
            ("nodelay", KnobValue::Flag(true)),
            ("route.initcwnd", KnobValue::Number(20)),
        ]
    );
    let server: Vec<_> = trial.server.settings.into_iter().collect();
    assert_eq!(
        server,
        [
            ("congestion", KnobValue::Name("bbr".into())),
            ("net.ipv4.tcp_sack", KnobValue::Flag(false)),
        ]
    );
}

const SWEEP: &str = r#"
[path]
kind = "emulated"
rtt = "40ms"
loss = { good_to_bad = "1%", bad_to_good = "25%" }
[[variant]]
name = "plain"
[[variant]]
name = "other"
path.loss = "1%"
path.delay = "7ms"
workload.kind = "records"
workload.record = "10B"
workload.operations = 3
[sweep]
seed = [1, 2]
client.nodelay = ["off", "on"]
"#;

#[test]
fn variants_and_sweeps_make_cells() {
    let scenario = parse(SWEEP).unwrap_or_else(|list| panic!("{}", shown(Err(list))));
    let cells = scenario.trials();
    let ids: Vec<&str> = cells.iter().map(|cell| cell.id.as_str()).collect();
    assert_eq!(
        ids,
        [
            "test/plain/seed=1/client.nodelay=off",
            "test/plain/seed=1/client.nodelay=on",
            "test/plain/seed=2/client.nodelay=off",
            "test/plain/seed=2/client.nodelay=on",
            "test/other/seed=1/client.nodelay=off",
            "test/other/seed=1/client.nodelay=on",
            "test/other/seed=2/client.nodelay=off",
            "test/other/seed=2/client.nodelay=on",
        ]
    );
    assert_eq!(cells[3].trial.seed, 2);
    assert_eq!(cells[3].run(5).seed, 7);
    assert_eq!(cells[3].variant.as_deref(), Some("plain"));
    assert_eq!(cells[3].axes[1], ("client.nodelay".into(), "on".into()));
    assert_eq!(
        cells[3].trial.client.settings["nodelay"],
        KnobValue::Flag(true)
    );
    // Overrides replace what they make meaningless.
    let PathSpec::Emulated { forward, .. } = &cells[4].trial.path else {
        panic!("emulated")
    };
    assert_eq!(forward.loss, Loss::Random(Fraction::from_parts(10_000_000)));
    assert_eq!(forward.delay, Duration::from_millis(7));
    assert!(matches!(cells[4].trial.workload, Workload::Records { .. }));
    assert!(matches!(cells[0].trial.workload, Workload::Bulk { .. }));
}

#[test]
fn values_that_are_written_in_two_ways_are_two_cells() {
    let scenario =
        parse("[sweep]\nworkload.duration = ['1s', '1000ms']").expect("a valid scenario");
    let ids: Vec<String> = scenario.trials().into_iter().map(|cell| cell.id).collect();
    assert_eq!(
        ids,
        ["test/workload.duration=1s", "test/workload.duration=1000ms"]
    );
}

#[test]
fn settings_from_the_command_line_win() {
    let mut scenario = parse(SWEEP).expect("a valid scenario");
    let mut set = |key: &str, value: &str| match scenario.set(key, value) {
        Ok(()) => format!("{} cells", scenario.trials().len()),
        Err(list) => shown(Err(list)),
    };
    assert_eq!(set("path.rtt", "80ms"), "8 cells");
    assert_eq!(set("seed", "9"), "4 cells");
    assert_eq!(set("runs", "3"), "4 cells");
    assert_eq!(
        set("runs", "0"),
        "runs: 0 is out of range; the range is 1 to 1000"
    );
    assert_eq!(
        set("path.rtt", "80"),
        "--set: path.rtt: `80` has no unit; write for example `40ms`"
    );
    assert_eq!(
        set("path.rrt", "80ms"),
        "--set: unknown key in [path] of kind `emulated`: `rrt`; did you mean `rtt`?"
    );
    assert_eq!(
        set("client.nodlay", "on"),
        "--set: client: unknown knob `nodlay`; did you mean `nodelay`?"
    );
    assert_eq!(
        set("pth.rtt", "80ms"),
        "--set: unknown table `pth`; did you mean `path`?"
    );
    assert_eq!(
        set("rtt", "80ms"),
        "--set: unknown key `rtt`; did you mean `path.rtt`?"
    );
    assert_eq!(
        set("nodelay", "on"),
        "--set: unknown key `nodelay`; did you mean `client.nodelay` or `server.nodelay`?"
    );
    assert_eq!(set("quux", "1"), "--set: unknown key `quux`");
    let cell = scenario.trials().remove(2);
    assert_eq!((cell.trial.seed, scenario.runs), (9, 3));
    assert_eq!(cell.trial.path.rtt(), Duration::from_millis(80));
    // Another kind of path begins anew.
    let mut scenario = crate::find_scenario("lossy-wan").expect("built in");
    scenario
        .set("path.kind", "loopback")
        .expect("a path without keys");
    assert_eq!(scenario.trials()[0].trial.path, PathSpec::Loopback);
}

#[test]
fn claims_are_read() {
    let scenario = parse(
        "[[variant]]\nname = 'a'\n[[expect]]\nmetric = 'goodput_bps'\nvariant = 'a'\n\
         min = '45mbit'\nreason = 'why'\n[[expect]]\nmetric = 'response_p99_us'\nmax = '2ms'",
    )
    .expect("a valid scenario");
    let claim = &scenario.expectations[0];
    assert_eq!(
        (claim.metric, claim.min, claim.max),
        (Metric::GoodputBps, Some(45e6), None)
    );
    assert_eq!(
        (claim.variant.as_deref(), claim.reason.as_str()),
        (Some("a"), "why")
    );
    assert_eq!(scenario.expectations[1].max, Some(2_000.0));
}

#[test]
fn all_mistakes_of_a_file_are_reported_at_once() {
    insta::assert_snapshot!(shown(Scenario::parse("bad.toml", TEN_MISTAKES)));
}

const TEN_MISTAKES: &str = r#"name = "ten-mistakes"
about = "Each line below is wrong in its own way."
sed = 1

[path]
kind = "emulated"
rate = "50mbps"
rtt = 40
que = "250p"
loss = "0.1"
mtu = = "1500"

[client]
nodlay = "on"
sndbuf = "64K"

[workload]
kind = "bulk"
direction = "upward"

[[expect]]
metric = "goodput_bps"
min = "45"
"#;

proptest! {
    #[test]
    fn hostile_text_is_an_error_and_no_panic(text in "\\PC{0,200}") {
        if let Err(list) = Scenario::parse("x", &text) {
            prop_assert!(!list.is_empty() && list.len() <= DIAGNOSTICS_MAX + 1);
        }
    }

    #[test]
    fn a_damaged_scenario_is_an_error_or_fine(
        index in 0..crate::BUILTIN_SCENARIOS.len(), at: prop::sample::Index, junk in "\\PC{0,12}",
        cut in 0_usize..20,
    ) {
        let mut text = crate::BUILTIN_SCENARIOS[index].1.to_owned();
        let from = at.index(text.len());
        let to = (from + cut).min(text.len());
        text.replace_range(from..to, &junk);
        match Scenario::parse("x", &text) {
            Ok(scenario) => prop_assert!(!scenario.trials().is_empty()),
            Err(list) => prop_assert!(!list.is_empty()),
        }
    }

    #[test]
    fn any_value_of_any_key_is_an_error_or_fine(
        index in 0..crate::BUILTIN_SCENARIOS.len(),
        key in "(path|client|server|workload)\\.(forward\\.)?\
        (kind|rate|rtt|delay|queue|loss|jitter|mtu|trace|nodelay|sndbuf|bytes|flows|duration)",
        value in "([0-9]{1,25}(\\.[0-9]{0,12})?(p|bdp|mbit|gbit|ms|s|h|%|B|GiB)?|\\PC{0,9})",
    ) {
        let (name, _) = crate::BUILTIN_SCENARIOS[index];
        let mut scenario = crate::find_scenario(name).expect("a built-in scenario");
        if let Err(list) = scenario.set(&key, &value) {
            prop_assert!(!list.is_empty());
        }
        for cell in scenario.trials() {
            if let PathSpec::Emulated { forward, reverse, .. } = cell.trial.path {
                prop_assert_eq!(forward.check(), Ok(()));
                prop_assert_eq!(reverse.check(), Ok(()));
            }
        }
    }
}

const EXPERIMENT: &str = r#"
runs = 5
[experiment]
ids = "R1 R14"
document = "cork"
class = "value"
claim = "Each exchange takes the time of a delayed ACK."
engines = "virtual, kernel"
corrections = "D-R1 D-R6"
[[published]]
variant = "plain"
metric = "response_p50_us"
value = "40.013ms"
text = "400129.781250 ms for 10000"
[path]
kind = "emulated"
rate = "10mbit"
rtt = "5ms"
queue = "100p"
[client]
nodelay = "off"
[[variant]]
name = "plain"
[[variant]]
name = "nodelay"
client.nodelay = "on"
on.kernel.path.rtt = "30ms"
[[variant]]
name = "virtual-only"
engines = "virtual"
[on.kernel.path]
rtt = "20ms"
[quick]
runs = 1
engines = "virtual"
[quick.path]
queue = "7p"
[[expect]]
metric = "response_p50_us"
variant = "plain"
over = "nodelay"
min = 100
engines = "kernel"
reason = "the timer is all that there is"
[[expect]]
metric = "limit.nagle"
variant = "plain"
min = "90%"
"#;

#[test]
fn an_experiment_says_what_was_published() {
    let scenario = parse(EXPERIMENT).expect("a valid scenario");
    let experiment = scenario.experiment.as_ref().expect("it is one");
    assert_eq!(experiment.ids, ["R1", "R14"]);
    assert_eq!(experiment.document, "cork");
    assert_eq!(experiment.class, Class::Value);
    assert_eq!(
        experiment.engines,
        [EngineName::Virtual, EngineName::Kernel]
    );
    assert_eq!(experiment.corrections, ["D-R1", "D-R6"]);
    assert_eq!(experiment.published[0].value, 40_013.0);
    let ratio = &scenario.expectations[0];
    assert_eq!(
        (ratio.over.as_deref(), ratio.min),
        (Some("nodelay"), Some(100.0))
    );
    assert!(ratio.applies_on(EngineName::Kernel) && !ratio.applies_on(EngineName::Tun));
    assert_eq!(scenario.expectations[1].min, Some(0.9));
}

/// RTTs in milliseconds of all cells.
fn rtts(scenario: &Scenario) -> Vec<u128> {
    let cells = scenario.trials();
    let rtt = |cell: &Cell| cell.trial.path.rtt().as_millis();
    cells.iter().map(rtt).collect()
}

#[test]
fn overrides_count_on_their_occasion() {
    let scenario = parse(EXPERIMENT).expect("a valid scenario");
    let plain = rtts(&scenario)[0];
    assert_eq!(rtts(&scenario), [plain; 3]);
    assert_eq!(rtts(&scenario.on(EngineName::Virtual)), [plain; 3]);
    assert_eq!(rtts(&scenario.on(EngineName::Kernel)), [20, 30]);
    let quick = scenario.on(EngineName::Kernel).quick();
    assert_eq!((scenario.runs, quick.runs), (5, 1));
    assert_eq!(rtts(&quick), [20, 30]);
    let queue = |scenario: &Scenario| match &scenario.trials()[0].trial.path {
        PathSpec::Emulated { forward, .. } => forward.queue,
        other => panic!("{other:?}"),
    };
    assert_eq!(queue(&quick), QueueLimit::Packets(7));
    assert_ne!(queue(&scenario), QueueLimit::Packets(7));
}
