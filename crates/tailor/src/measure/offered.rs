//! Load that a program offers, measured such that a better TCP does not raise it.
//!
//! A program that waits for answers asks more often when they come sooner: its requests per second
//! are a result. How much it sends for each answer is its own choice. Of one that hears nothing
//! back and pauses by itself, the payload per second is; of one that never pauses, nothing is
//! known, and the connection carries as much as it can.

use std::time::Duration;

use base::FlowSample;
use lab::Offered;

use super::{Carried, Flows, Track, counted, nanos};

/// Fewer answers than this in a look are no mean of anything.
const ANSWERS_MIN: u64 = 3;
/// A program whose connection is busy for a larger share of the time does not pause.
const BUSY_SHARE_MAX: f64 = 0.9;

pub(super) fn load(flows: &Flows<'_>) -> Option<Offered> {
    let is_download = flows.is_download();
    let main = flows.main();
    let answers: u64 = flows
        .tracks
        .iter()
        .map(|track| {
            counted(track, flows.was_open(track), |sample| match is_download {
                true => sample.data_segs_out,
                false => sample.data_segs_in,
            })
        })
        .sum();
    if main.bytes == 0 {
        return None;
    }
    if answers >= ANSWERS_MIN {
        return Some(Offered::PerAnswer(main.bytes as f64 / answers as f64));
    }
    // When the other end sends, it is not visible here whether it could have sent more.
    if is_download {
        return None;
    }
    let (mut watched, mut by_pausing) = (0.0, 0);
    for track in &flows.tracks {
        let [Some(first), Some(last)] = [track.samples.first(), track.samples.last()] else {
            continue;
        };
        // Of connections of which only the end was seen, nothing is known, and one that carries
        // nothing, as for control, does not make a pause of the time in which another is busy.
        let sent = Carried::sent(track, flows.was_open(track));
        let seen = last.at.since(first.at).as_secs_f64();
        if sent.bytes == 0 || seen == 0.0 {
            continue;
        }
        watched += seen;
        let pauses = sent.time.as_secs_f64() < BUSY_SHARE_MAX * seen;
        if pauses || is_caught_up(track, flows.was_open(track), seen) {
            by_pausing += sent.bytes;
        }
    }
    let pauses = watched > 0.0 && 2 * by_pausing >= main.bytes;
    pauses.then(|| Offered::PerSecond(main.bytes as f64 / watched))
}

/// Whether nothing waits to be sent, nearly always, and the program does not wait for room either:
/// TCP keeps up with it.
fn is_caught_up(track: &Track, was_open: bool, watched: f64) -> bool {
    let (mut looks, mut waiting) = (0_u32, 0_u32);
    for sample in track.samples.iter() {
        looks += sample.looks;
        let segment = sample.snd_mss_bytes.unwrap_or(1).max(1);
        if sample.notsent_bytes.is_none_or(|bytes| bytes >= segment) {
            waiting += sample.looks;
        }
    }
    let limited = |sample: &FlowSample| sample.sndbuf_limited_time.map(nanos);
    let blocked = counted(track, was_open, limited);
    let most = 1.0 - BUSY_SHARE_MAX;
    f64::from(waiting) <= most * f64::from(looks)
        && Duration::from_nanos(blocked).as_secs_f64() <= most * watched
}
