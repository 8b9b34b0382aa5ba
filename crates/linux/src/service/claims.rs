//! Checks a server's report on a run against the observations of this end: nothing arrives that was
//! not sent, and nothing in no time.

use std::time::Duration;

use base::{Bytes, Instant, human};

use super::channel::harmless;
use crate::error::{Error, Result};
use crate::workload::{Interval, Summary};

/// A server counts a write when it has arrived, this end when the call has returned: this much of
/// each connection may be in between.
const UNCOUNTED_BYTES: u64 = 1 << 20;
/// A server's clock starts and stops at other instants than this end's: what it received may have
/// come in this much less time than it was sent in, a share and some more, and never in less than a
/// quarter.
const TIME_SHARE: f64 = 0.8;
const TIME_SLACK_S: f64 = 0.5;
const TIME_SHARE_MIN: f64 = 0.25;
/// Shortest run whose rate is checked: in shorter ones, scheduling decides which end saw how much;
/// excessive rates there are no lie, and are capped.
const LONG_S: f64 = 2.0;

/// Reports of a server while a run is on.
#[derive(Debug)]
pub(super) struct Claims {
    began: Instant,
    connections: u64,
    received_bytes: u64,
    length: Duration,
}

impl Claims {
    /// Limits for a run that begins now with this number of connections.
    pub(super) const fn new(now: Instant, connections: u64) -> Self {
        Self {
            began: now,
            connections,
            received_bytes: 0,
            length: Duration::ZERO,
        }
    }

    /// Takes a report in. `sent_bytes` is what this end has sent so far.
    ///
    /// # Errors
    /// [`Error::Peer`] where it cannot be so.
    pub(super) fn handle_interval(
        &mut self,
        interval: &Interval,
        sent_bytes: u64,
        now: Instant,
    ) -> Result<()> {
        self.received_bytes = self.received_bytes.saturating_add(interval.received_bytes);
        self.length = self
            .length
            .saturating_add(Duration::from_nanos(interval.length_ns));
        check_received(
            self.received_bytes,
            sent_bytes.saturating_add(UNCOUNTED_BYTES.saturating_mul(self.connections)),
        )?;
        let passed = now.since(self.began);
        if self.length > passed + Duration::from_secs(2) {
            return Err(impossible(&format!(
                "the server reports {} of a run that began {} ago",
                human::time(self.length),
                human::time(passed)
            )));
        }
        Ok(())
    }
}

/// A summary of the server that agrees with this end's, fit to be shown.
///
/// # Errors
/// [`Error::Peer`] where it cannot be so.
pub(super) fn checked(server: Summary, client: &Summary, connections: u64) -> Result<Summary> {
    /// A year; far above every limit of time.
    const SECONDS_MAX: f64 = 366.0 * 86_400.0;
    let (ours, theirs) = (&client.measured, &server.measured);
    if !(0.0..=SECONDS_MAX).contains(&theirs.duration_s) {
        return Err(impossible("the server reports a run of impossible length"));
    }
    // A write that was cut off at the end is counted at neither end, although a part has arrived.
    let uncounted = UNCOUNTED_BYTES.saturating_mul(connections);
    check_received(
        server.all_received_bytes,
        client.all_sent_bytes.saturating_add(uncounted),
    )?;
    check_received(theirs.received_bytes, server.all_received_bytes)?;
    if client.all_received_bytes > server.all_sent_bytes.saturating_add(uncounted) {
        return Err(impossible(&format!(
            "the server reports that it sent {}, and {} have arrived",
            human::bytes(server.all_sent_bytes),
            human::bytes(client.all_received_bytes)
        )));
    }
    let least_s = (ours.duration_s * TIME_SHARE - TIME_SLACK_S)
        .max(ours.duration_s * TIME_SHARE_MIN)
        .max(1e-6);
    // The time in which so much could have come at the highest rate that is believed.
    let needed_s = match client.all_sent_bytes {
        0 => 0.0,
        sent => theirs.received_bytes as f64 / sent as f64 * least_s,
    };
    let is_too_fast = theirs.duration_s < needed_s;
    if is_too_fast && ours.duration_s >= LONG_S {
        let bps = |bytes: u64, s: f64| human::bps((bytes as f64 * 8.0 / s.max(1e-9)) as u64);
        return Err(impossible(&format!(
            "the server reports {}, and only {} were sent",
            bps(theirs.received_bytes, theirs.duration_s),
            bps(client.all_sent_bytes, ours.duration_s)
        )));
    }
    let mut server = server;
    if is_too_fast {
        server.measured.duration_s = needed_s;
    }
    Ok(Summary {
        congestion: harmless(&server.congestion),
        ..server
    })
}

fn check_received(received: u64, sent: u64) -> Result<()> {
    if received <= sent {
        return Ok(());
    }
    Err(impossible(&format!(
        "the server reports that it received {}, and at most {} were sent",
        Bytes(received),
        Bytes(sent)
    )))
}

fn impossible(what: &str) -> Error {
    Error::Peer(format!("{what}: its figures cannot be trusted"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Phase, ResponseCounts, Totals};

    fn summary(duration_s: f64, received: u64, sent: u64) -> Summary {
        Summary {
            measured: Totals {
                duration_s,
                received_bytes: received,
                sent_bytes: sent,
                ..Totals::default()
            },
            all_received_bytes: received,
            all_sent_bytes: sent,
            congestion: "cu\u{1b}bic".into(),
            ..Summary::default()
        }
    }

    #[test]
    fn a_summary_is_believed_where_it_is_possible() {
        let client = summary(10.0, 0, 1_000_000);
        let check = |server: Summary, client: &Summary, expected: Option<&str>| {
            let shown = checked(server.clone(), client, 0).map_err(|error| error.to_string());
            match (shown, expected) {
                (Ok(shown), None) => assert_eq!(shown.congestion, "cu\u{fffd}bic"),
                (Err(message), Some(expected)) => assert!(message.contains(expected), "{message}"),
                (shown, _) => panic!("{server:?}: {shown:?}"),
            }
        };
        check(summary(10.0, 1_000_000, 0), &client, None);
        check(summary(9.0, 900_000, 0), &client, None);
        check(
            summary(10.0, 1_000_001, 0),
            &client,
            Some("at most 1000000B were sent"),
        );
        check(
            summary(0.001, 1_000_000, 0),
            &client,
            Some("only 800 kbit/s were sent"),
        );
        check(summary(7.0, 1_000_000, 0), &client, Some("only 800 kbit/s"));
        // A short one is cut more coarsely, and is never told as faster than it can have been.
        let short = summary(0.016, 0, 1_000_000);
        check(summary(0.005, 1_000_000, 0), &short, None);
        let told = checked(summary(3.43e-6, 1_000_000, 0), &short, 0).expect("it is short");
        assert_eq!(told.measured.duration_s, 0.004);
        check(
            summary(10.0, 0, 5),
            &summary(10.0, 6, 0),
            Some("have arrived"),
        );
        for length in [1e300, -1.0, f64::NAN, f64::INFINITY] {
            check(summary(length, 0, 0), &client, Some("impossible length"));
        }
        let mut parts = summary(10.0, 10, 0);
        parts.measured.received_bytes = 11;
        check(parts, &client, Some("cannot be trusted"));
    }

    #[test]
    fn reports_are_held_against_what_was_sent_so_far() {
        let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        let interval = |ms: u64, received_bytes| Interval {
            end_ns: 0,
            length_ns: ms * 1_000_000,
            phase: Phase::Measured,
            received_bytes,
            sent_bytes: 0,
            operations: 0,
            responses_ns: ResponseCounts::default(),
            sending: None,
        };
        let mut claims = Claims::new(at(0), 1);
        let mut report = |ms, received, sent, now| {
            let outcome = claims.handle_interval(&interval(ms, received), sent, at(now));
            outcome.is_ok()
        };
        assert!(report(100, 1000, 1000, 100));
        assert!(
            report(100, UNCOUNTED_BYTES, 1000, 200),
            "it may be in between"
        );
        assert!(!report(100, 1, 1000, 300));
        assert!(
            !report(10_000, 0, 1 << 40, 400),
            "of a time that has not passed"
        );
    }
}
