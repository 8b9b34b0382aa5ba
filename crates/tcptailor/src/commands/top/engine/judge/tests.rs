//! Recordings of the corpus, played as windows that follow each other, judged in both ways: each
//! connection in each window, and only those that the judge thinks are to be judged.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use base::{FlowKey, FlowSample};
use doctor::Samples;
use doctor::recording::file;
use flate2::bufread::MultiGzDecoder;

use super::*;
use crate::commands::diagnose::service;

/// One connection of each plays in its turn.
const PLAYED: [&str; 12] = [
    "bbr-curl-25ms.client.rec",
    "bbr-chunks.client.rec",
    "aria2-policed.server.rec",
    "apache-sndbuf-16k.server.rec",
    "aria2-rmem-cap.server.rec",
    "apache-wget.server.rec",
    "aiohttp-stream.server.rec",
    "axel-no-autotuning.server.rec",
    "batches-of-100k.client.rec",
    "asks-between-sleeps.client.rec",
    "aria2-limit.server.rec",
    "aiohttp-wmem-cap.server.rec",
];
/// Connections of each service.
const EACH: u64 = 18;
/// Of the looks of a recording, which come each 10 ms, one in this many is there.
const TOP_LOOKS: usize = 10;
/// A service does the same for this many windows.
const STEADY: usize = 5;
const WINDOWS: usize = 16;

/// What is said of each service: its answers with the number of connections, and its findings.
type Said = BTreeMap<String, BTreeMap<&'static str, usize>>;

fn recording(name: &str) -> Recording {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/recordings");
    let packed = BufReader::new(File::open(Path::new(folder).join(name)).expect("a recording"));
    let mut text: Box<dyn BufRead> = Box::new(BufReader::new(MultiGzDecoder::new(packed)));
    file::read(&mut text).expect("a recording").0
}

/// The connection that carried most.
fn main_track(recording: &Recording) -> Track {
    let carried = |track: &&Track| {
        let counted = |read: fn(&FlowSample) -> Option<u64>| {
            let both = track.samples.first().and_then(read);
            let both = both.zip(track.samples.last().and_then(read));
            both.map_or(0, |(old, new)| new.saturating_sub(old))
        };
        counted(|s| s.bytes_acked) + counted(|s| s.bytes_received)
    };
    let open = recording.flows.iter().filter(|track| !track.ended);
    open.max_by_key(carried).expect("a connection").clone()
}

/// That connection as one of another service; of its looks only each this many.
fn played(track: &Track, service: u16, cookie: u64, looks: usize) -> Track {
    let key = FlowKey {
        local: ([10, 1, 0, 1], 20_000 + cookie as u16).into(),
        remote: ([10, 2, 0, service as u8], 100 + service).into(),
    };
    let all = track.samples.iter().step_by(TOP_LOOKS);
    let last = all.len() - 1;
    let mut samples = Samples::new();
    let mut stands_for = 0;
    for (at, sample) in all.enumerate() {
        stands_for += 1;
        if at > 1 && at < last && at % looks != 0 {
            continue;
        }
        samples.push(FlowSample {
            key,
            cookie: Some(cookie),
            looks: std::mem::take(&mut stands_for),
            ..FlowSample::clone(&sample)
        });
    }
    Track {
        key,
        cookie,
        samples,
        ..track.clone()
    }
}

fn said(document: &Document) -> Said {
    let mut said = Said::new();
    for flow in &document.flows {
        let answers = said.entry(flow.remote.ip().to_string()).or_default();
        *answers.entry(service::answer_id(flow)).or_default() += flow.connections;
        for verdict in flow.verdicts.iter().skip(1).filter(|one| one.finding) {
            *answers.entry(verdict.id).or_default() += flow.connections;
        }
    }
    said
}

#[test]
fn who_goes_on_as_before_is_judged_seldom_and_what_is_said_stays_right() {
    let recordings: Vec<Recording> = PLAYED.into_iter().map(recording).collect();
    let tracks: Vec<Track> = recordings.iter().map(main_track).collect();
    let (began, ended) = (recordings[0].began, recordings[0].ended);
    let (filter, shown) = (Filter::default(), BTreeSet::from([3, 50]));
    let mut judge = Judge::default();
    let (mut before, mut judged, mut late) = (Said::new(), 0, 0);
    for window in 0..WINDOWS {
        let (mut all, mut few) = (Vec::new(), Vec::new());
        for service in 0..tracks.len() {
            // Another one of them changes with each window.
            let turn = (window + service) / STEADY;
            let track = &tracks[(service + turn) % tracks.len()];
            for number in 0..EACH {
                let cookie = service as u64 * EACH + number + 1;
                let looks = if judge.rests(cookie, &shown) { 4 } else { 1 };
                judged += usize::from(looks == 1);
                all.push(played(track, service as u16, cookie, 1));
                few.push(played(track, service as u16, cookie, looks));
            }
        }
        let of = |flows| Recording {
            flows,
            hosts: recordings[0].hosts.clone(),
            began,
            ended,
            ..Recording::default()
        };
        let (all, few) = (of(all), of(few));
        let every = said(&Judge::default().judge(&all, &Netns::Own, &filter, &shown));
        let some = said(&judge.judge(&few, &Netns::Own, &filter, &shown));
        assert_eq!(some.len(), tracks.len());
        for (service, answers) in &some {
            let is_late = before.get(service) == Some(answers);
            late += usize::from(*answers != every[service]);
            assert!(
                *answers == every[service] || is_late,
                "window {window}, {service}: {answers:?} instead of {:?}",
                every[service]
            );
        }
        before = every;
    }
    let whole = WINDOWS * tracks.len() * EACH as usize;
    println!("{judged} of {whole} with all looks, {late} answers of services a window late");
    assert!(judged * 3 < whole * 2, "{judged} of {whole}");
}

#[test]
fn few_connections_are_judged_each_time() {
    let recording = recording(PLAYED[0]);
    let mut judge = Judge::default();
    let (filter, shown) = (Filter::default(), BTreeSet::new());
    judge.judge(&recording, &Netns::Own, &filter, &shown);
    let mut flows = recording.flows.iter();
    assert!(!flows.any(|track| judge.rests(track.cookie, &shown)));
}
