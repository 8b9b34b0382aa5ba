//! Trying a change that the user names, although no diagnosis proposes it.

use doctor::{Confidence, Objective, Proposal};

use super::timing::timing;
use super::{Finding, FitEvent, FitOptions, Tell, Tried, Work};
use crate::candidate::of_proposals;
use crate::subject::Subject;

/// In place of the id of a diagnosis.
const GIVEN: &str = "given";

/// Tries `proposals` on what matters most on `subject`, judged by `objective`, with and without
/// them as [`fit`](super::fit) does; of several scopes the smallest. `None` where they cannot be
/// made from here.
///
/// # Errors
/// Those of the subject; what is not kept by then is undone.
pub fn fit_given<S: Subject + ?Sized>(
    subject: &mut S,
    options: &FitOptions,
    (objective, proposals): (Objective, &[Proposal]),
    tell: &mut Tell<'_, S>,
) -> Result<Option<Tried>, S::Error> {
    let mut work = Work::new(subject, options, tell);
    let done = work.given(objective, proposals);
    work.undone_on_error(done)
}

impl<S: Subject + ?Sized> Work<'_, S> {
    fn given(
        &mut self,
        objective: Objective,
        proposals: &[Proposal],
    ) -> Result<Option<Tried>, S::Error> {
        let look = self.first_look()?;
        let (options, subject) = (self.options, &mut *self.subject);
        let found = look.observed(|observed| {
            let answers = observed.answers(|track| subject.wants(track));
            let can_reconnect = subject.can_reconnect();
            for answered in &answers {
                let found = of_proposals(proposals, (GIVEN, objective), answered, subject)?;
                let mut found = found.into_iter();
                let first = found.find(|candidate| candidate.design(can_reconnect).is_some());
                if let Some(candidate) = first {
                    return Ok(Some((candidate, timing(answered, options))));
                }
            }
            Ok(None)
        })?;
        let Some((candidate, timing)) = found else {
            return Ok(None);
        };
        let finding = Finding {
            diagnosis: GIVEN,
            sentence: "A change that was asked for.",
            limit: None,
            share: 1.0,
            confidence: Confidence::High,
            evidence: Vec::new(),
        };
        let tried = self.try_out(&finding, timing, &candidate)?;
        (self.tell)(self.subject, FitEvent::Tried(&tried))?;
        Ok(Some(tried))
    }
}
