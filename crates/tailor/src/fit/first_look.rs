//! The first look of a fit: as long as it takes to see what the program does.

use doctor::Track;

use super::{Work, timing};
use crate::candidate::needs_new_connections;
use crate::observed::{Answered, Observed};
use crate::subject::{Look, Subject};

impl<S: Subject + ?Sized> Work<'_, S> {
    /// The first look. A longer one where nothing moves in it (the program may be in a pause),
    /// where it is too short for a finding to be sure or holds few losses, and where only new
    /// connections take the change.
    pub(super) fn first_look(&mut self) -> Result<Look, S::Error> {
        let look = self.look(self.options.observe)?;
        let subject = &*self.subject;
        let wants = |track: &Track| subject.wants(track);
        let silent = timing::pause_of(&look, wants).filter(|pause| *pause > self.options.observe);
        // A look may show only two blocks with pauses between them, which is too few.
        let between = || {
            let says = |observed: &Observed<'_>| {
                let answers = observed.answers(wants);
                answers
                    .iter()
                    .any(|answered| answered.actionable().is_some())
            };
            let pause = timing::pause_between_blocks(&look, wants, self.options.observe)?;
            (!look.observed(says)).then_some(pause)
        };
        if let Some(pause) = silent.or_else(between).filter(|_| !self.options.dry_run) {
            return self.look(timing::past(pause, self.options.observe));
        }
        // Of long round trips a look may hold too few for a finding to be sure, and of connections
        // that follow each other the end of one and the beginning of the next.
        let short = look.observed(|observed| {
            let answers = observed.answers(wants);
            let unsure = answers.iter().find(|answered| answered.is_unsure());
            let longer = unsure.and_then(|one| timing::longer(one, self.options.observe));
            let may_tell = |first: &&Answered<'_, '_>| {
                first.is_unsure() && first.comes_and_goes() && !first.is_for_the_other_end()
            };
            let first = answers.first().filter(may_tell);
            longer.or_else(|| first.map(|_| self.options.observe * timing::LOOKS_TO_BE_SURE))
        });
        if let Some(time) = short {
            return self.look(time);
        }
        // Few losses do not show whether a queue dropped them.
        let has_few_losses = look.observed(|observed| {
            let answers = observed.answers(wants);
            let is_told = answers.iter().any(|answered| {
                answered
                    .main()
                    .is_some_and(|main| main.diagnosis.is_finding())
            });
            !is_told && answers.iter().any(timing::has_few_losses)
        });
        if has_few_losses {
            return self.look(self.options.observe * timing::LOOKS_FOR_LOSSES);
        }
        match self.needs_new_connections(&look)? {
            true => self.look(timing::RENEWAL),
            false => Ok(look),
        }
    }

    /// Whether all that is to be done is for new connections, of which the look has seen none: the
    /// program may open one seldom, as a client that downloads one file after the other.
    fn needs_new_connections(&mut self, look: &Look) -> Result<bool, S::Error> {
        let subject = &mut *self.subject;
        let can_wait = !self.options.dry_run && !subject.can_reconnect();
        look.observed(|observed| {
            let answers = observed.answers(|track| subject.wants(track));
            match answers.first().filter(|_| can_wait) {
                Some(first) => needs_new_connections(first, subject),
                None => Ok(false),
            }
        })
    }
}
