//! A change of a socket ends with its connection. Where another one has taken its place, with the
//! same limit, a change that outlives connections is tried: that of the listener, or of the route.

use base::{Change, Target};
use doctor::Services;

use crate::candidate::{Name, candidates};
use crate::observed::Answered;
use crate::subject::{Look, Subject};

/// Notes whether `answered` is such a connection, and there is a change that was not tried yet.
pub(super) fn note<S: Subject + ?Sized>(
    answered: &mut Answered<'_, '_>,
    look: &Look,
    (kept, done): (&[Change], &[Name]),
    subject: &mut S,
) -> Result<(), S::Error> {
    if answered.actionable().is_none() || !follows_a_changed_one(answered, look, kept) {
        return Ok(());
    }
    answered.is_followed = true;
    let can_reconnect = subject.can_reconnect();
    let found = candidates(answered, subject)?.unwrap_or_default();
    let mut left = found.iter();
    answered.is_followed = left.any(|candidate| candidate.is_left((kept, done), can_reconnect));
    Ok(())
}

/// Whether a connection has taken the place of one whose socket alone was changed, and which is
/// gone: a change of its own would end as that one did, so that one which lasts is tried.
fn follows_a_changed_one(answered: &Answered<'_, '_>, look: &Look, kept: &[Change]) -> bool {
    let place = answered.case.place();
    let services = Services::of(&look.here);
    let is_open = |cookie: u64| {
        let mut flows = look.here.flows.iter();
        flows.any(|track| track.cookie == cookie && !track.ended)
    };
    kept.iter().any(|change| match &change.target {
        Target::Socket { cookie, key, .. } => services.place(*key) == place && !is_open(*cookie),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use base::{FlowKey, FlowSample, Instant, KnobValue, Netns};
    use doctor::{Recording, Track};

    use super::*;

    /// To one server, seen for a second.
    fn track(cookie: u16, ended: bool) -> Track {
        let key = FlowKey {
            local: ([10, 0, 0, 1], 50_000 + cookie).into(),
            remote: ([10, 0, 0, 2], 443).into(),
        };
        let look = |tenth: u32| {
            let at = Instant::ZERO + Duration::from_millis(100) * tenth;
            std::sync::Arc::new(FlowSample::empty(at, key))
        };
        Track {
            key,
            cookie: cookie.into(),
            owners: Vec::new(),
            samples: (1..11).map(look).collect(),
            ended,
            interface: None,
            options_error: None,
        }
    }

    #[test]
    fn a_connection_follows_one_that_was_changed_and_is_gone() {
        let check = |flows: Vec<Track>, remote_port: u16, expected: bool| {
            let mut key = track(1, false).key;
            key.remote.set_port(remote_port);
            let kept = [Change {
                target: Target::Socket {
                    netns: Netns::Own,
                    pid: 7,
                    cookie: 1,
                    key,
                },
                knob: "congestion".into(),
                to: KnobValue::Name("bbr".into()),
            }];
            let recording = Recording {
                flows,
                ended: Instant::ZERO + Duration::from_secs(1),
                ..Recording::default()
            };
            let look = Look::new((recording, Netns::Own), None, |_| lab::Measure::default());
            let follows = look.observed(|observed| {
                let answers = observed.answers(|track| track.cookie == 2);
                let answered = answers.first().expect("it was seen");
                let nothing = follows_a_changed_one(answered, &look, &[]);
                assert!(!nothing, "nothing was changed");
                follows_a_changed_one(answered, &look, &kept)
            });
            assert_eq!(follows, expected, "to port {remote_port}");
        };
        check(vec![track(2, false)], 443, true);
        check(vec![track(1, true), track(2, false)], 443, true);
        check(vec![track(1, false), track(2, false)], 443, false);
        check(vec![track(2, false)], 5432, false);
    }
}
