use serde_json::Value;

use super::answer;

const STALL: &str = r#"
name = "stall"
about = "Two small writes and an answer."
[path]
kind = "emulated"
rate = "100mbit"
rtt = "1ms"
[workload]
kind = "write-write-read"
write_size = "100B"
reply = "100B"
duration = "3s"
[[variant]]
name = "nagle"
[[variant]]
name = "nodelay"
client.nodelay = "on"
"#;

fn answered(scenario: &str) -> Value {
    serde_json::from_str(&answer(scenario)).expect("JSON")
}

#[test]
fn a_stall_is_seen_named_and_mended() {
    let told = answered(STALL);
    let variants = told["variants"].as_array().expect("variants");
    let p50 = |at: usize| variants[at]["outcome"]["response_us"]["p50"].as_u64();
    assert!(p50(0) >= Some(40_000), "{:?}", p50(0));
    assert!(p50(1) < Some(3_000), "{:?}", p50(1));
    let finding = &variants[0]["findings"][0];
    assert_eq!(finding["id"], "nagle-delack-stall");
    assert_eq!(finding["changes"][0]["knob"], "nodelay");
    assert_eq!(finding["changes"][0]["host"], "client");
    let others = variants[1]["findings"].as_array().expect("findings");
    assert!(
        others.iter().all(|told| told["is_finding"] == false),
        "{others:?}"
    );
}

/// It is the run of the command line, to the bit.
#[test]
fn the_outcome_is_that_of_the_virtual_engine() {
    let told = answer(STALL);
    let scenario = lab::Scenario::parse("scenario", STALL).expect("a scenario");
    for cell in scenario.trials() {
        let stop = core::sync::atomic::AtomicBool::new(false);
        let outcome = lab::Virtual::default().run(&cell.run(0), &stop, &mut |_| {});
        let outcome = serde_json::to_string(&outcome).expect("data");
        assert!(told.contains(&outcome), "{}", cell.id);
    }
}

#[test]
fn every_packet_arrives_a_delay_later_or_is_lost() {
    let told = answered(
        r#"
        name = "lossy"
        about = "A download that loses packets."
        [path]
        kind = "emulated"
        rate = "20mbit"
        rtt = "20ms"
        loss = "1%"
        [workload]
        kind = "bulk"
        direction = "down"
        bytes = "1MB"
        "#,
    );
    let variant = &told["variants"][0];
    let packets = variant["packets"]["shown"].as_array().expect("packets");
    assert_eq!(variant["packets"]["left_out"], 0);
    let outcome = &variant["outcome"];
    let dropped = |way: &str| outcome[way]["dropped_segments"].as_u64().expect("a count");
    // A GSO packet loses some of its segments. A path keeps the order of packets, so that what was
    // sent before one that arrived is lost, and the rest may be in flight as the run ends.
    let newest = |from_client: bool| {
        let arrived = packets.iter().filter(|packet| {
            packet["from_client"] == from_client && !packet["arrived_us"].is_null()
        });
        arrived
            .filter_map(|packet| packet["sent_us"].as_u64())
            .max()
    };
    let newest = [newest(false), newest(true)];
    let mut lost = [0, 0];
    for packet in packets {
        let missing = match packet["bytes"].as_u64() {
            Some(0) => u64::from(packet["arrived_us"].is_null()),
            _ => packet["missing"].as_u64().expect("bytes").div_ceil(1448),
        };
        let way = usize::from(packet["from_client"] == true);
        let may_be_in_flight = packet["sent_us"].as_u64() > newest[way];
        lost[usize::from(may_be_in_flight)] += missing;
    }
    let [certain, open] = lost;
    let dropped = dropped("forward") + dropped("reverse");
    assert!(dropped > 5, "{dropped}");
    assert!(
        (certain..=certain + open).contains(&dropped),
        "{dropped} of {certain} and {open}"
    );
    let sent_again = packets
        .iter()
        .filter(|packet| packet["is_retransmission"] == true);
    let sent_again = sent_again.count() as u64;
    assert_eq!(
        outcome["sender"]["retransmitted_segments"].as_u64(),
        Some(sent_again)
    );
    for packet in packets
        .iter()
        .filter(|packet| !packet["arrived_us"].is_null())
    {
        let took = packet["arrived_us"].as_u64().expect("a time")
            - packet["sent_us"].as_u64().expect("a time");
        assert!(took >= 10_000, "{packet}");
    }
}

#[test]
fn mistakes_are_told_as_on_the_command_line() {
    let told = answered("name = \"x\"\nabout = \"x\"\n[path]\nkind = \"tin cans\"\n");
    let mistakes = told["mistakes"].as_array().expect("mistakes");
    assert!(!mistakes.is_empty());
    assert!(told["variants"].as_array().expect("none").is_empty());
    let text = mistakes[0]["text"].as_str().expect("a text");
    assert!(text.starts_with("scenario:"), "{text}");
}

/// A page must not hang on what a user asks for.
#[test]
fn a_run_without_end_is_ended_and_says_so() {
    let told = answered(
        r#"
        name = "long"
        about = "Too much for a page."
        [path]
        kind = "emulated"
        rate = "10gbit"
        rtt = "10ms"
        [workload]
        kind = "bulk"
        direction = "up"
        duration = "1h"
        "#,
    );
    let caveats = &told["variants"][0]["outcome"]["caveats"];
    assert_eq!(caveats[0]["caveat"], "ended-early", "{caveats}");
}

/// One packet in a thousand is lost by chance, and the link is half empty.
#[test]
fn a_path_that_loses_packets_is_not_called_full() {
    for seed in 1..=5 {
        let told = answered(&format!(
            r#"
            name = "lossy"
            about = "Random losses on a long path."
            seed = {seed}
            [path]
            kind = "emulated"
            rate = "50mbit"
            rtt = "80ms"
            loss = "0.1%"
            queue = "100p"
            [client]
            congestion = "cubic"
            [workload]
            kind = "bulk"
            direction = "up"
            duration = "8s"
            "#
        ));
        let variant = &told["variants"][0];
        let goodput = variant["outcome"]["goodput_bps"].as_u64().expect("a rate");
        assert!(goodput < 40_000_000, "{goodput}");
        let findings = variant["findings"].as_array().expect("findings");
        let is_full = findings.iter().any(|told| told["id"] == "path-full");
        assert!(!is_full, "seed {seed}, {goodput}: {findings:#?}");
    }
}
