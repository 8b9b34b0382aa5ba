use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use base::FlowSample;
use base::settings::Held;

use super::*;
use crate::simulated::{Simulated, SimulatedError};
use crate::subject::Subject;

const TIMING: Timing = Timing {
    settle: Duration::from_secs(1),
    warm_up: Duration::from_secs(2),
    look: Duration::from_secs(2),
};

/// What a look at a fault on simulated hosts shows.
fn look_at(fault: &str) -> Look {
    let fault = lab::find_fault(fault).expect("a row of the table");
    look_at_trial(&fault.trial(), fault.warm_up)
}

fn look_at_trial(trial: &Trial, warm_up: Duration) -> Look {
    look_for(TIMING.look, trial, warm_up)
}

fn look_for(time: Duration, trial: &Trial, warm_up: Duration) -> Look {
    let engine = lab::Virtual::default();
    let session = engine.start(trial).expect("our stack has its settings");
    let stop = AtomicBool::new(false);
    let mut subject: Simulated<'_, SimulatedError> =
        Simulated::new(session, &stop, Box::new(|_, _, _| ()));
    subject.wait(warm_up).expect("nothing stops it");
    subject.look(time).expect("it runs")
}

fn place(look: &Look) -> Place {
    Place::of(look.here.flows[0].key)
}

fn twin_of(fault: &str) -> Twin {
    let look = look_at(fault);
    Twin::of(&look, place(&look)).expect("enough was seen")
}

fn tweak(end: End, knob: &str, to: &str) -> Tweak {
    let knob = base::find_knob(knob).expect("a knob");
    let to = knob.parse(to).expect("a value");
    Tweak { end, knob, to }
}

fn assert_near(what: &str, value: f64, expected: f64, share: f64) {
    let off = (value / expected - 1.0).abs();
    assert!(off <= share, "{what}: {value} instead of {expected}");
}

#[test]
fn a_full_path_is_found_with_its_rate_and_round_trip_time() {
    let twin = twin_of("bufferbloat");
    let path = twin.path_range();
    assert_near("rate", path.value, 10e6, 0.03);
    assert_near("round trip", twin.best.rtt, 0.02, 0.05);
    assert_eq!(twin.best.loss, [0.0; 2]);
    assert!(twin.self_check().holds(), "{:?}", twin.self_check());
}

#[test]
fn the_rate_of_a_path_shows_although_a_small_window_keeps_it_empty() {
    let twin = twin_of("rcvbuf-locked");
    let path = twin.path_range();
    assert!(twin.seen().goodput_bps() < 10e6);
    assert_near("rate", path.value, 50e6, 0.2);
    assert!(path.low <= 50e6 && 50e6 <= path.high, "{path:?}");
}

/// BBR sends what its buffer holds at a pace of its own, a quarter above what it found.
#[test]
fn the_pace_of_bbr_is_no_rate_of_the_link() {
    let fault = lab::find_fault("sndbuf-locked").expect("a row of the table");
    let mut trial = fault.trial();
    let bbr = KnobValue::Name("bbr".into());
    trial.client.settings.insert("congestion", bbr);
    let look = look_at_trial(&trial, fault.warm_up);
    let seen = Observables::of(&look, place(&look)).expect("enough was seen");
    assert!(seen.goodput_bps() < 20e6, "{}", seen.goodput_bps());
    assert!(seen.link_bps().is_none_or(|bps| bps > 45e6), "{seen:?}");
}

/// Nor is it where a program keeps more than its send buffer in flight, in long trains.
#[test]
fn nor_is_it_where_trains_are_long() {
    let fault = lab::find_fault("sndbuf-locked").expect("a row of the table");
    let mut trial = fault.trial();
    let bbr = KnobValue::Name("bbr".into());
    trial.client.settings.insert("congestion", bbr);
    let rate = base::Rate::from_bits_per_second(200_000_000);
    let queue = base::QueueLimit::Packets(700);
    trial.path = lab::PathSpec::emulated(rate, Duration::from_millis(40), queue);
    let (share, room_bytes) = (6000, 65_536);
    trial.client.held = Some(Held { share, room_bytes });
    let look = look_at_trial(&trial, fault.warm_up);
    let twin = Twin::of(&look, place(&look)).expect("enough was seen");
    assert_near("rate", twin.path_range().value, 200e6, 0.15);
}

#[test]
fn settings_of_both_ends_are_those_that_were_seen() {
    let twin = twin_of("rcvbuf-locked");
    let rcvbuf = twin.best.hosts.server.get("rcvbuf");
    assert_eq!(rcvbuf, Some(&KnobValue::Number(32 * 1024)));
    assert_eq!(twin.best.hosts.client.get("rcvbuf"), None);
    let congestion = twin.best.hosts.client.get("congestion");
    assert_eq!(congestion, Some(&KnobValue::Name("cubic".into())));
}

#[test]
fn a_new_connection_has_the_congestion_control_of_its_route() {
    let mut hosts = twin_of("random-loss").best.hosts;
    let bbr = KnobValue::Name("bbr".into());
    hosts.tweak(&Tweak {
        end: End::Client,
        knob: base::find_knob("route.congctl").expect("a knob"),
        to: bbr.clone(),
    });
    assert_eq!(hosts.client.get("congestion"), Some(&bbr));
}

/// 35 segments in 20 ms are 20 Mbit/s, however fast the link is.
#[test]
fn the_largest_of_windows_that_losses_cut_is_no_link() {
    let look = look_at("random-loss");
    let mut seen = Observables::of(&look, place(&look)).expect("connections");
    (seen.window_pkts, seen.window_high_pkts) = (Some(28.0), Some(35.0));
    (seen.min_rtt, seen.up.bps, seen.transport_share) = (Some(0.02), 12e6, Some(1.0));
    let mut check = |bps: f64, is_link: bool| {
        seen.crest = Some(super::arriving::DensestTrain {
            bps,
            time: 0.004,
            segments: bps / 8.0 * 0.004 / 1448.0,
            is_plateau: true,
        });
        assert_eq!(seen.link_bps().is_some(), is_link, "{bps}");
    };
    check(22e6, false);
    check(50e6, true);
}

/// Files of some megabytes, each on a connection of its own, are no exchanges of messages.
#[test]
fn long_transfers_on_connections_of_their_own_go_one_way() {
    let look = look_at("random-loss");
    let mut seen = Observables::of(&look, place(&look)).expect("connections");
    (seen.connections, seen.short_connections) = (0, 4);
    seen.down.segments_per_s = 8.0 / seen.span.as_secs_f64();
    seen.transport_share = None;
    let check = |seen: &Observables, seconds: f64, expected: bool| {
        let mut seen = seen.clone();
        seen.measure.transfer_us = Some((seconds * 1e6) as u64);
        assert_eq!(seen.is_one_way(), expected, "{seconds}");
    };
    check(&seen, 4.0, true);
    check(&seen, seen.min_rtt.expect("one") * 5.0, false);
    // 15 s with a part of the first file and of the last one, of 5 s and 3 MB each.
    seen.span = std::time::Duration::from_secs(15);
    (seen.measure.transfer_us, seen.up.bps) = (Some(5_000_000), 1000.0);
    (seen.down.bps, seen.down.segments_per_s) = (4.8e6, 400.0);
    seen.up.segments_per_s = 0.3;
    let pairs = observables::pairs(&look, place(&look));
    let told = traffic::workload(&seen, &pairs[0]).expect("traffic");
    assert!(
        matches!(&told, lab::Workload::ConnectRequestClose { response, .. }
            if response.0 == 3_000_000),
        "{told:?}"
    );
}

#[test]
fn traffic_is_told_by_what_the_connections_show() {
    let check = |fault: &str, expected: &str| {
        let look = look_at(fault);
        let place = place(&look);
        let seen = Observables::of(&look, place).expect("connections");
        let pairs = observables::pairs(&look, place);
        let workload = traffic::workload(&seen, &pairs[0]).expect("traffic");
        let shown = format!("{workload:?}");
        assert!(shown.starts_with(expected), "{fault}: {shown}");
    };
    check(
        "nagle",
        "WriteWriteRead { writes: 2, write_size: Bytes(100)",
    );
    check("cork", "WriteWriteRead { writes: 1, write_size: Bytes(100)");
    check(
        "healthy-request",
        "RequestResponse { request: Bytes(100), response: Bytes(1000)",
    );
    check("rcvbuf", "Bulk { direction: Up, flows: 1");
    check("app-limited", "Paced { rate: Rate(");
    check("slow-reader", "SlowReader {");
}

/// iperf3 has a connection for control beside the one that is limited.
#[test]
fn a_connection_for_control_is_no_second_flow() {
    let mut look = look_at("random-loss");
    let mut control = look.here.flows[0].clone();
    control.key.local.set_port(control.key.local.port() + 1);
    let quiet = |sample: Arc<FlowSample>| {
        Arc::new(FlowSample {
            bytes_acked: Some(200),
            bytes_received: Some(100),
            data_segs_out: Some(3),
            data_segs_in: Some(3),
            retrans_total_pkts: Some(0),
            ..(*sample).clone()
        })
    };
    control.samples = control.samples.iter().map(quiet).collect();
    look.here.flows.push(control);
    let seen = Observables::of(&look, place(&look)).expect("connections");
    assert_eq!(seen.connections, 1);
}

/// What the receiver of a stream sends back, such as the window updates of SSH and HTTP/2, answers
/// nothing while the sender always has more to send.
#[test]
fn a_stream_with_feedback_is_no_request() {
    for (fault, expected) in [
        ("random-loss", "Bulk {"),
        ("app-limited", "RequestResponse {"),
    ] {
        let mut look = look_at(fault);
        let began = look.here.began;
        for track in &mut look.here.flows {
            let with_feedback = |sample: Arc<FlowSample>| {
                let messages = sample.at.since(began).as_millis() as u64 / 50;
                Arc::new(FlowSample {
                    bytes_received: Some(messages * 60),
                    data_segs_in: Some(messages),
                    ..(*sample).clone()
                })
            };
            track.samples = track.samples.iter().map(with_feedback).collect();
        }
        let place = place(&look);
        let seen = Observables::of(&look, place).expect("connections");
        let pairs = observables::pairs(&look, place);
        let workload = traffic::workload(&seen, &pairs[0]).expect("traffic");
        let shown = format!("{workload:?}");
        assert!(
            shown.starts_with(expected),
            "{fault}: {shown}, {:?}",
            seen.transport_share
        );
    }
}

/// Writes that leave a part of a segment behind, which Nagle's algorithm holds all the time, of a
/// program that waits for room in its send buffer.
#[test]
fn a_full_buffer_whose_last_piece_is_held_is_a_streams() {
    let mut look = look_at("sndbuf-locked");
    for track in &mut look.here.flows {
        let held = |sample: Arc<FlowSample>| {
            Arc::new(FlowSample {
                nodelay: Some(false),
                notsent_bytes: Some(300),
                unacked_pkts: Some(20),
                cwnd_pkts: Some(100),
                wmem_queued_bytes: sample.sndbuf_bytes.map(|bytes| bytes / 10 * 7),
                ..(*sample).clone()
            })
        };
        track.samples = track.samples.iter().map(held).collect();
    }
    let place = place(&look);
    let seen = Observables::of(&look, place).expect("connections");
    let pairs = observables::pairs(&look, place);
    let told = traffic::workload(&seen, &pairs[0]).expect("traffic");
    assert!(
        matches!(told, lab::Workload::Bulk { .. }),
        "{told:?}, {:?}",
        seen.transport_share
    );
}

/// How much a fixed send buffer keeps in flight depends on how much its program writes at a time.
#[test]
fn a_twin_writes_as_much_at_a_time_as_keeps_in_flight_what_was_seen() {
    let fault = lab::find_fault("sndbuf-locked").expect("a row of the table");
    for size in [3000, 30_000, 200_000] {
        let mut trial = fault.trial();
        if let lab::Workload::Bulk { write_size, .. } = &mut trial.workload {
            *write_size = base::Bytes(size);
        }
        let look = look_at_trial(&trial, fault.warm_up);
        let twin = Twin::of(&look, place(&look)).expect("enough was seen");
        let check = twin.self_check();
        assert!(check.holds(), "{size}: {check:?}");
        let lift = [tweak(End::Client, "buf_lock", "0")];
        let told = twin.predict(&lift, Objective::Goodput, (false, TIMING));
        let told = told.unwrap_or_else(|why| panic!("{size}: {why}"));
        assert_eq!(told.rtt_us, None, "{size}: that of trains was compared");
    }
}

/// A program that asks for room before each write leaves a part of its send buffer empty, and one
/// whose writes are long exceeds it; what lifting its size gives is known all the same.
#[test]
fn what_is_gained_from_a_larger_buffer_is_known_however_much_of_it_is_held() {
    let lift = tweak(End::Client, "buf_lock", "0");
    let raise = tweak(End::Client, "net.ipv4.tcp_wmem", "4096 16384 4194304");
    let check = |fault: &str, held: u32, tweak: &Tweak, on_new: bool| {
        let fault = lab::find_fault(fault).expect("a row of the table");
        let mut trial = fault.trial();
        trial.client.held = Some(Held {
            share: held,
            room_bytes: 8192,
        });
        let look = look_at_trial(&trial, fault.warm_up);
        let twin = Twin::of(&look, place(&look)).expect("enough was seen");
        let self_check = twin.self_check();
        assert!(self_check.holds(), "{held}: {self_check:?}");
        let tweaks = core::slice::from_ref(tweak);
        let told = twin.predict(tweaks, Objective::Goodput, (on_new, TIMING));
        let (known, _) = Twin::given(&trial, TIMING).expect("a trial");
        let known = known.predict(tweaks, Objective::Goodput, (on_new, TIMING));
        let bps = |prediction: Result<Prediction, NoPrediction>| {
            let prediction = prediction.unwrap_or_else(|why| panic!("{held}: {why}"));
            prediction.goodput_bps.expect("a stream").value
        };
        assert_near(&format!("{held}"), bps(told), bps(known), 0.25);
    };
    for held in [640, 1000, 2000, 4000] {
        check("sndbuf-locked", held, &lift, false);
    }
    for held in [640, 1000, 4000] {
        check("tcp-wmem-max-cap", held, &raise, true);
    }
    check("tcp-wmem-max-cap", 2000, &raise, false);
}

/// SSH's receiver says each few round trips how far the sender may go on: a program that waits for
/// room in its send buffer does not wait for that.
#[test]
fn what_fills_its_send_buffer_waits_for_no_answer() {
    let look = look_at("sndbuf-locked");
    let mut seen = Observables::of(&look, place(&look)).expect("enough was seen");
    assert!(seen.fills_buffer && seen.measure.operations_per_s.is_none());
    seen.down.segments_per_s = 8.7;
    seen.transport_share = Some(0.94);
    assert!(seen.is_one_way());
    seen.fills_buffer = false;
    assert!(!seen.is_one_way());
}

/// Its window still grows: a twin that is looked at earlier in that carries less.
#[test]
fn a_connection_in_slow_start_has_the_age_that_it_had() {
    let satellite = lab::find_scenario("satellite").expect("built in");
    for cell in satellite.trials() {
        let mut trial = cell.trial;
        trial.workload.set_endless();
        let look = look_at_trial(&trial, Duration::from_secs(4));
        let twin = Twin::of(&look, place(&look)).expect("enough was seen");
        let check = twin.self_check();
        assert!(check.holds(), "{}: {check:?}", cell.id);
    }
}

#[test]
fn a_cure_is_predicted_within_fifteen_percent() {
    let check = |fault: &str, tweak: Tweak, on_new: bool| {
        let look = look_at(fault);
        let twin = Twin::of(&look, place(&look)).expect("enough was seen");
        let objective = look.measure.own_objective();
        let predicted = twin
            .predict(core::slice::from_ref(&tweak), objective, (on_new, TIMING))
            .unwrap_or_else(|why| panic!("{fault}: {why}"));
        let mut cured = lab::find_fault(fault).expect("a row").trial();
        let settings = match tweak.end {
            End::Client => &mut cured.client.settings,
            End::Server => &mut cured.server.settings,
        };
        settings.insert(tweak.knob.name, tweak.to);
        let after = look_at_trial(&cured, TIMING.warm_up).measure;
        let measured = after.value(objective).expect("it was measured");
        let range = predicted.range.expect("it was predicted");
        assert_near(fault, range.value, measured, 0.15);
        assert!(range.contains(measured), "{fault}: {range:?}, {measured}");
    };
    check(
        "nagle-delack-stall",
        tweak(End::Client, "nodelay", "on"),
        false,
    );
    check(
        "nagle-rtt-serialised",
        tweak(End::Client, "nodelay", "on"),
        false,
    );
    let wmem = tweak(End::Client, "net.ipv4.tcp_wmem", "4096 16384 4194304");
    check("tcp-wmem-max-cap", wmem, true);
    check(
        "initcwnd-too-small",
        tweak(End::Client, "route.initcwnd", "64"),
        true,
    );
}

/// No path that is much faster shows what was seen, so that the interval has the rate of this one,
/// although neither a full queue nor a train has shown it.
#[test]
fn a_rate_that_is_bounded_from_above_and_below_is_known() {
    let look = look_at("rmem-autotuning-off");
    let twin = Twin::of(&look, place(&look)).expect("enough was seen");
    let autotuning = [tweak(End::Server, "net.ipv4.tcp_moderate_rcvbuf", "on")];
    let told = twin.predict(&autotuning, Objective::Goodput, (true, TIMING));
    let told = told.unwrap_or_else(|why| panic!("{why}"));
    let mut cured = lab::find_fault("rmem-autotuning-off")
        .expect("a row")
        .trial();
    let knob = autotuning[0].knob.name;
    let to = autotuning[0].to.clone();
    cured.server.settings.insert(knob, to);
    let measured = look_at_trial(&cured, TIMING.warm_up).measure.goodput_bps as f64;
    let range = told.range.expect("a stream");
    assert!(range.contains(measured), "{range:?}: {measured}");
}

#[test]
fn a_bound_is_told_where_the_rate_of_the_path_did_not_show() {
    let fault = lab::find_fault("rcvbuf-locked").expect("a row of the table");
    let mut trial = fault.trial();
    // Two segments a round trip: trains are too short to tell anything.
    let window = KnobValue::Number(2048);
    trial.server.settings.insert("rcvbuf", window);
    let look = look_at_trial(&trial, fault.warm_up);
    let twin = Twin::of(&look, place(&look)).expect("enough was seen");
    let free = [tweak(End::Server, "buf_lock", "0")];
    let refused = twin.predict(&free, Objective::Goodput, (true, TIMING));
    let Err(NoPrediction::PathRate { at_least_bps }) = refused else {
        panic!("{refused:?}");
    };
    let carried = look.measure.goodput_bps as f64;
    assert!((carried..=50e6).contains(&at_least_bps), "{at_least_bps}");
}

/// Losses in a row are one loss for congestion control, which leaves larger windows than as many
/// losses one by one.
#[test]
fn losses_in_a_row_are_told_from_others() {
    let fault = lab::find_fault("random-loss").expect("a row of the table");
    let lost = base::Fraction::from_parts(10_000_000);
    let in_a_row = |in_a_row: f64| {
        let mut trial = fault.trial();
        trial.path = trial
            .path
            .with_losses([lost, base::Fraction::ZERO], in_a_row);
        // In two seconds there are too few of them.
        let look = look_for(5 * TIMING.look, &trial, fault.warm_up);
        let twin = Twin::of(&look, place(&look)).expect("enough was seen");
        assert!(twin.self_check().holds(), "{:?}", twin.self_check());
        twin.best.in_a_row
    };
    let (one, five) = (in_a_row(1.0), in_a_row(5.0));
    assert!(one < 1.6, "{one}");
    assert!((2.5..9.0).contains(&five), "{five}");
}

/// Where losses fall in a look decides of what it carries: one that lies among runs of the twin is
/// like one of them, and what follows need not be like it.
#[test]
fn a_look_with_losses_is_one_of_many() {
    let look = look_at("random-loss");
    let seen = Observables::of(&look, place(&look)).expect("enough was seen");
    let with = |lost_share: f64, share: f64| {
        let mut one = seen.clone();
        one.lost_share = lost_share;
        one.measure.goodput_bps = (seen.measure.goodput_bps as f64 * share) as u64;
        one
    };
    let runs: Vec<Observables> = (0..10)
        .map(|n| with(0.01, 0.9 + f64::from(n) / 10.0))
        .collect();
    let check = |lost_share, share| SelfCheck::of(&with(lost_share, share), &runs, false);
    assert!(check(0.01, 0.95).holds());
    assert_eq!(check(0.01, 0.95).residual("goodput"), 0.0);
    assert!(!check(0.0, 0.95).holds(), "nothing was lost");
    assert!(!check(0.01, 0.5).holds(), "none of them is like it");
    assert!(!SelfCheck::of(&with(0.01, 0.95), &runs[5..], false).holds());
}

/// Without the stall, messages cross a path of 3 us a hundred thousand times a second: what is
/// simulated of that is bounded, and the prediction says so.
#[test]
fn a_change_that_lets_millions_of_packets_pass_takes_no_longer() {
    let mut trial = lab::find_fault("nagle").expect("a row").trial();
    let rate = base::Rate::from_bits_per_second(20_000_000_000);
    let queue = base::QueueLimit::Packets(1000);
    trial.path = lab::PathSpec::emulated(rate, Duration::from_micros(3), queue);
    let (twin, _) = Twin::given(&trial, TIMING).expect("it runs");
    let nodelay = [tweak(End::Client, "nodelay", "on")];
    let told = twin.predict(&nodelay, Objective::Response, (false, TIMING));
    let told = told.expect("it holds");
    assert!(told.shortened, "{told:?}");
    assert!(told.response_us.expect("responses").value < 100.0);
    // A request waits for the answer to the one before: one in 5 us is more than programs do.
    let bytes = traffic::bytes_at_once(&twin.best.workload).expect("a dialogue");
    let goodput = told.goodput_bps.expect("it was compared");
    let most = bytes * 8.0 / 5e-6;
    assert!(
        goodput.low < most && goodput.high <= most * 1.000_001,
        "{goodput:?}: {most}"
    );
    let times = Times {
        packets_max: 10_000.0,
        ..twin.times
    };
    let runs = twin.best.run(1, times, (End::Client, true), &nodelay);
    let after = runs.expect("it runs").pop().expect("a look");
    let operations = after.measure.response_us.expect("responses").n;
    assert!(operations < 15_000, "{operations}");
}

/// A twin whose transfers take another time than those that were seen tells nothing of them.
#[test]
fn a_twin_has_to_have_the_metric_that_it_predicts() {
    let mut seen = Observables::of(&look_at("rcvbuf"), place(&look_at("rcvbuf"))).expect("seen");
    seen.measure.transfer_us = Some(867_000);
    let mut twin = seen.clone();
    let check = SelfCheck::of(&seen, core::slice::from_ref(&twin), false);
    assert!(check.holds());
    twin.measure.transfer_us = Some(559_000);
    let of = |objective| check.with_metric(objective, (&seen, core::slice::from_ref(&twin)));
    assert!(of(Objective::Goodput).holds());
    assert!(!of(Objective::Transfer).holds());
}

#[test]
fn a_far_end_that_lies_is_found_out() {
    let mut look = look_at("nagle-delack-stall");
    // The program says that its requests take a tenth of what its connection shows.
    let response = look.measure.response_us.as_mut().expect("operations");
    response.p50 /= 10;
    let twin = Twin::of(&look, place(&look)).expect("enough was seen");
    assert!(!twin.self_check().holds(), "{:?}", twin.self_check());
    let nodelay = [tweak(End::Client, "nodelay", "on")];
    let refused = twin.predict(&nodelay, Objective::Response, (false, TIMING));
    assert!(
        matches!(refused, Err(NoPrediction::SelfCheck(_))),
        "{refused:?}"
    );
}

#[test]
fn what_acts_at_an_end_that_was_not_seen_is_not_predicted() {
    let mut look = look_at("nagle-delack-stall");
    look.there = None;
    let twin = Twin::of(&look, place(&look)).expect("enough was seen");
    let far = [tweak(End::Server, "route.quickack", "on")];
    let refused = twin.predict(&far, Objective::Response, (true, TIMING));
    assert_eq!(refused.err(), Some(NoPrediction::FarEnd));
    let queue = [tweak(End::Client, "link.txqueuelen", "1000p")];
    let refused = twin.predict(&queue, Objective::LocalDrops, (false, TIMING));
    assert_eq!(
        refused.err(),
        Some(NoPrediction::Knob("link.txqueuelen".into()))
    );
}

#[test]
fn nothing_is_made_of_a_connection_that_carries_nothing() {
    let look = look_at("path-dead");
    let refused = Twin::of(&look, place(&look)).map(|twin| twin.self_check().clone());
    assert_eq!(refused.err(), Some(NoPrediction::Silent));
}

#[test]
fn a_trial_that_is_given_is_its_own_twin() {
    let trial = lab::find_fault("nagle").expect("a row").trial();
    let (twin, look) = Twin::given(&trial, TIMING).expect("it runs");
    assert!(twin.is_given());
    assert_eq!(twin.trial().path, trial.path);
    let before = look.measure.response_us.expect("operations").p50;
    let nodelay = [tweak(End::Client, "nodelay", "on")];
    let predicted = twin.predict(&nodelay, Objective::Response, (false, TIMING));
    let response = predicted.expect("it holds").response_us.expect("responses");
    assert!(
        before > 40_000 && response.value < 1_000.0,
        "{before} {response:?}"
    );
}

#[test]
fn a_round_trip_time_that_timestamps_rounded_down_is_not_taken() {
    let micros = Duration::from_micros;
    // Its smallest round-trip time in the first half of the look, then after a retransmission.
    let min_rtt = |first: Duration, then: Duration, smoothed: Duration| {
        let mut look = look_at("bufferbloat");
        let ends = [
            Some(&mut look.here),
            look.there.as_mut().map(|(there, _)| there),
        ];
        for recording in ends.into_iter().flatten() {
            let samples = recording.flows[0].samples.clone();
            let half = samples.len() / 2;
            recording.flows[0].samples = doctor::Samples::new();
            for (number, sample) in samples.iter().enumerate() {
                recording.flows[0].samples.push(base::FlowSample {
                    min_rtt: Some(if number < half { first } else { then }),
                    srtt: Some(smoothed),
                    ..(*sample).clone()
                });
            }
        }
        let seen = Observables::of(&look, place(&look)).expect("a connection");
        Duration::from_secs_f64(seen.min_rtt.expect("a time"))
    };
    assert_eq!(
        min_rtt(micros(7300), micros(7000), micros(9000)),
        micros(7300)
    );
    // All of the look is after it.
    assert_eq!(
        min_rtt(micros(7000), micros(7000), micros(7600)),
        micros(7600)
    );
    assert_eq!(
        min_rtt(micros(7000), micros(7000), micros(9000)),
        micros(8000)
    );
    assert_eq!(
        min_rtt(micros(7300), micros(7100), micros(9000)),
        micros(7100)
    );
}
