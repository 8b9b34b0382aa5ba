//! Programs that pass on what they read: a proxy, a relay, a broker. One that cannot send reads no
//! faster, so that what it reads waits for the other connection.

use std::collections::BTreeMap;

use base::FlowSample;
use doctor::{Recording, Track};

/// Relayed data has the same rate, but for headers and buffered data.
const SAME_RATE: core::ops::RangeInclusive<f64> = 0.8..=1.25;
/// Share of the samples in which data waits to be sent, where it is the network that is waited for
/// (a program that is slow itself has nothing that waits).
const WAITS_SHARE: f64 = 0.5;
/// A send buffer in which a writer that was stopped is not woken yet (`sk_stream_write_space` wakes
/// at two thirds).
const STOPPED_SHARE: f64 = 0.6;

/// By process, the rates in bytes/s of connections on which it always has something to send.
#[derive(Debug)]
pub(crate) struct Relays(BTreeMap<u32, Vec<f64>>);

impl Relays {
    pub(crate) fn of(recording: &Recording) -> Self {
        let mut rates: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for track in &recording.flows {
            let Some(pid) = track.pid() else { continue };
            if let Some(rate) = rate(track, |s| s.bytes_acked).filter(|_| waits(track)) {
                rates.entry(pid).or_default().push(rate);
            }
        }
        Self(rates)
    }

    /// Whether its process reads on this connection what it cannot send as fast on another one.
    pub(crate) fn hold_up(&self, track: &Track) -> bool {
        let held = || {
            let rates = self.0.get(&track.pid()?)?;
            let read = rate(track, |s| s.bytes_received).filter(|read| *read > 0.0)?;
            Some(rates.iter().any(|sent| SAME_RATE.contains(&(sent / read))))
        };
        held() == Some(true)
    }
}

/// Bytes per second from the first look to the last, by one of the counters.
fn rate(track: &Track, counter: impl Fn(&FlowSample) -> Option<u64>) -> Option<f64> {
    let (first, last) = (track.samples.iter().next()?, track.samples.iter().last()?);
    let bytes = counter(&last)?.checked_sub(counter(&first)?)?;
    let time = last.at.since(first.at).as_secs_f64();
    (time > 0.0).then(|| bytes as f64 / time)
}

/// Whether data waits to be sent, or its buffer is full, most of the time.
fn waits(track: &Track) -> bool {
    let (mut seen, mut waited) = (0_u32, 0_u32);
    for sample in track.samples.iter() {
        let fills = sample
            .wmem_queued_bytes
            .zip(sample.sndbuf_bytes)
            .is_some_and(|(queued, buffer)| f64::from(queued) >= f64::from(buffer) * STOPPED_SHARE);
        seen += 1;
        waited += u32::from(fills || sample.notsent_bytes > Some(0));
    }
    seen > 0 && f64::from(waited) >= f64::from(seen) * WAITS_SHARE
}
