//! One mistake at a time, and the sentence that names it and where it is.

use super::*;

/// A text with one mistake, and what is said about it.
const MISTAKES: &[(&str, &str)] = &[
    (
        "runs = 0",
        "test.toml:3:8: runs: 0 is out of range; the range is 1 to 1000",
    ),
    (
        "variant = 3",
        "test.toml:3:1: variant: write tables headed `[[variant]]`",
    ),
    (
        "sweep = 3",
        "test.toml:3:1: sweep: write a table headed `[sweep]`",
    ),
    (
        "[path]\nkind = 'emulated'\nrate = 5",
        "test.toml:5:8: path.rate: `5` has no unit; write for example `25mbit`",
    ),
    (
        "[path]\nkind = 'emulated'\nrtt = '4ms'\ndelay = '2ms'",
        "test.toml:6:9: path.delay: path.rtt is given too; write one of them",
    ),
    (
        "[path]\nkind = 'emulated'\nqueue = '2bdp'",
        "test.toml:5:9: path.queue: `2bdp` needs a rate and a round-trip time; write for example \
         `1000p`",
    ),
    (
        "[path]\nkind = 'emulated'\nipv6 = true\nmtu = '1279'",
        "test.toml:6:7: path.mtu: 1279B is out of range; the range is 1280B to 65535B",
    ),
    (
        "[path]\nkind = 'emulated'\njitter = '2h'",
        "test.toml:3:2: path: a jitter of 7200s is longer than the limit of 3600s",
    ),
    (
        "[path]\nkind = 'veth'\nrate = '5mbit'",
        "test.toml:5:1: unknown key in [path] of kind `veth`: `rate`",
    ),
    (
        "[workload]\nkind = 'bulk'\nduration = '1s'\nbytes = '1MB'",
        "test.toml:6:9: workload.bytes: workload.duration is given too; write one of them",
    ),
    (
        "[workload]\nkind = 'bulk'\noperations = 4",
        "test.toml:5:14: workload.operations: this kind has no operations; write `duration` or \
         `bytes`",
    ),
    (
        "[workload]\nkind = 'bulk'",
        "test.toml:3:2: workload.duration is missing; write for example `duration = \"5s\"`",
    ),
    (
        "client.net.ipv4.tcp_sack = 1\nclient.'net.ipv4'.tcp_sack = 1",
        "test.toml:4:19: client.net.ipv4.tcp_sack is given twice",
    ),
    (
        "[sweep]\npath.rtt = '1ms'",
        "test.toml:4:12: path.rtt: write a list such as `[\"1ms\", \"10ms\"]`",
    ),
    (
        "[sweep]\nseed = [1]\n'seed' = [2]",
        "test.toml:5:1: duplicate key",
    ),
    (
        "[sweep]\nseed = [1, 2]\n'workload.duration' = ['1s', '2s', ' 1s']",
        "test.toml:5:36: workload.duration: 1s is there twice; name it once",
    ),
    (
        "[sweep]\nclient.nodelay = [true,\n  'on']",
        "test.toml:5:3: client.nodelay: on is there twice; name it once",
    ),
    (
        "[on.kernel.sweep]\nseed = [1, 2, 1]",
        "test.toml:4:15: seed: 1 is there twice; name it once",
    ),
    (
        "[quick.sweep]\n'workload.bytes' = ['1MiB']\nworkload.bytes = ['2MiB']",
        "test.toml:4:1: sweep: workload.bytes is given twice",
    ),
    (
        "[quick.sweep]\nseed = [1, 1]",
        "test.toml:4:12: seed: 1 is there twice; name it once",
    ),
    (
        "[[variant]]\nname = 'a'\n[[variant]]\nname = 'a'",
        "test.toml:1:1: two variants are named `a`",
    ),
    (
        "[[expect]]\nmetric = 'goodput'\nmin = '5mbit'",
        "test.toml:4:10: metric: unknown `goodput`; did you mean `goodput_bps`? There are \
         goodput_bps, duration_us, operations, operations_per_second, response_p50_us, \
         response_p90_us, response_p99_us, response_max_us, stalled_share, stall_max_us, \
         data_segments, retransmitted_segments, segments_per_operation, rtt_mean_us, \
         rtt_p99_us, forward_dropped_segments, reverse_dropped_segments, \
         forward_queue_bytes_max, reverse_queue_bytes_max",
    ),
];

#[test]
fn single_mistakes() {
    for (text, expected) in MISTAKES {
        assert_eq!(shown(parse(text)), *expected, "{text}");
    }
}

#[test]
fn what_is_too_large_is_refused() {
    let many: Vec<String> = (1..=101).map(|n| n.to_string()).collect();
    let many = many.join(",");
    assert_eq!(
        shown(parse(&format!(
            "[sweep]\nseed = [{many}]\nclient.nodelay = [{many}]"
        ))),
        "test.toml:4:9: the sweep makes more than 10000 trials, or very long ones; split it",
    );
    assert_eq!(
        shown(Scenario::parse("x.toml", &" ".repeat(300_000))),
        "x.toml:1:1: the file has more than 262144 bytes"
    );
}

#[test]
fn mistakes_of_an_experiment_are_told() {
    let check = |from: &str, to: &str, expected: &str| {
        let text = EXPERIMENT.replacen(from, to, 1);
        assert_ne!(text, EXPERIMENT, "`{from}` is there");
        let said = shown(parse(&text));
        assert!(said.contains(expected), "{said}");
    };
    check("class = \"value\"\n", "", "experiment: write `class");
    check(
        "\"virtual, kernel\"",
        "\"virtaul\"",
        "unknown engine `virtaul`",
    );
    check("min = 100", "min = \"100ms\"", "not a number");
    check("variant = \"plain\"\nover", "over", "write `variant` too");
    check(
        "over = \"nodelay\"",
        "over = \"nodelai\"",
        "did you mean `nodelay`?",
    );
    check(
        "[on.kernel.path]",
        "[on.kernal.path]",
        "unknown engine `kernal`",
    );
    check("queue = \"7p\"", "queue = \"7x\"", "path.queue");
    check("limit.nagle", "limit.nagel", "did you mean `nagle`?");
    check(
        "metric = \"response_p50_us\"\nvalue",
        "value",
        "published: write `metric`",
    );
}
