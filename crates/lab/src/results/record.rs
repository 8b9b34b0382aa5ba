//! One finished run, as a line of JSON.

use core::fmt;
use core::hash::Hasher;
use core::str::FromStr;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher13;

use super::manifest::{Planned, SweepPlan};
use crate::outcome::Outcome;

/// Names a run: the same wherever and whenever it is made. Sixteen digits of base 16 as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct RunId(pub u64);

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl From<RunId> for String {
    fn from(id: RunId) -> Self {
        id.to_string()
    }
}

impl FromStr for RunId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = u64::from_str_radix(text, 16)
            .ok()
            .filter(|_| text.len() == 16);
        number
            .map(Self)
            .ok_or_else(|| format!("`{text}` is not an id of a run"))
    }
}

impl TryFrom<String> for RunId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// A finished run. In virtual time all of it follows from the id.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Which run.
    pub id: RunId,
    /// Number of the cell, from 0.
    pub index: u64,
    /// Name of the cell.
    pub cell: String,
    /// Its variant.
    pub variant: Option<String>,
    /// Keys and values of the sweep.
    pub axes: BTreeMap<String, String>,
    /// From 0.
    pub run: u32,
    /// Seed of this run.
    pub seed: u64,
    /// When it was over, by the clock of its host; a label, and absent where time is virtual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Outcome of the run, without its series, which is most of the text and can be recomputed in
    /// virtual time.
    pub outcome: Outcome,
}

impl Record {
    /// Record of a planned run.
    #[must_use]
    pub fn new(planned: &Planned, outcome: Outcome, at: Option<String>) -> Self {
        let Planned {
            id,
            index,
            run,
            cell,
            trial,
            problems: _,
        } = planned;
        Self {
            id: *id,
            index: *index,
            cell: cell.id.clone(),
            variant: cell.variant.clone(),
            axes: cell.axes.iter().cloned().collect(),
            run: *run,
            seed: trial.seed,
            at,
            outcome: Outcome {
                series: Vec::new(),
                ..outcome
            },
        }
    }

    /// As a line, with its end.
    ///
    /// # Panics
    /// Never: numbers of an outcome are finite.
    #[must_use]
    pub fn to_line(&self) -> String {
        let mut line = serde_json::to_string(self).expect("an outcome is plain data");
        line.push('\n');
        line
    }

    /// Usability of its numbers.
    #[must_use]
    pub fn worth(&self) -> Usability {
        match (self.outcome.is_usable(), &self.at) {
            (true, _) => Usability::Usable,
            // Only runs in real time have a date.
            (false, Some(_)) => Usability::Retry,
            (false, None) => Usability::Never,
        }
    }

    /// Digest of everything but the date: equal for two records of the same run with the same
    /// outcome.
    ///
    /// # Panics
    /// Never; see [`Record::to_line`].
    #[must_use]
    pub fn digest(&self) -> u64 {
        let Self {
            id,
            index,
            cell,
            variant,
            axes,
            run,
            seed,
            at: _,
            outcome,
        } = self;
        let said = (id, index, cell, variant, axes, run, seed, outcome);
        let text = serde_json::to_string(&said).expect("an outcome is plain data");
        let mut hasher = SipHasher13::new();
        hasher.write(text.as_bytes());
        hasher.finish()
    }

    /// Whether the sweep has this run. One of another sweep may lie in its folder, under the same
    /// number.
    #[must_use]
    pub fn is_of(&self, plan: &SweepPlan) -> bool {
        plan.id_at(self.place()) == Some(self.id)
    }

    /// Sort key in a joined file.
    #[must_use]
    pub const fn place(&self) -> (u64, u32) {
        (self.index, self.run)
    }
}

/// Usability of a run's numbers; of several records of one run the greatest counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Usability {
    /// They are invalid, and another try may give valid ones: it was run in real time.
    Retry,
    /// They are invalid and stay so: in virtual time a run is the same each time.
    Never,
    /// They are valid.
    Usable,
}

impl Usability {
    /// Whether two records of one run, with this usability and `other`, must agree.
    #[must_use]
    pub fn repeats(self, other: Self) -> bool {
        self != Self::Retry && other != Self::Retry
    }
}

/// A line of a file of outcomes.
#[derive(Clone, Debug, PartialEq)]
pub enum Line {
    /// A finished run.
    Whole(Box<Record>),
    /// The last one, without its end: its writer was killed, or the disk was full. The run counts
    /// as not made.
    Torn,
}

/// Reads a line with its end, as `read_line` of a reader gives it; only the last has none.
///
/// # Errors
/// One sentence, if it is not a result although it was written to its end.
pub fn read_line(line: &str) -> Result<Line, String> {
    let Some(text) = line.strip_suffix('\n') else {
        return Ok(Line::Torn);
    };
    match serde_json::from_str(text) {
        Ok(record) => Ok(Line::Whole(record)),
        Err(error) => Err(format!(
            "is not a result ({error}); delete that line, and its run is made again with --resume"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::super::manifest::SweepPlan;
    use super::super::manifest::tests::manifest;
    use super::*;

    fn record() -> Record {
        let plan = SweepPlan::new(&manifest(&["path.rtt=1ms,2ms"])).expect("a valid sweep");
        let outcome = Outcome {
            goodput_bps: 5,
            series: vec![crate::Point::default()],
            ..Outcome::default()
        };
        Record::new(&plan.at(3), outcome, None)
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let one = record();
        let line = one.to_line();
        assert_eq!(read_line(&line), Ok(Line::Whole(Box::new(one.clone()))));
        assert_eq!(one.cell, "lan-wwr/nodelay/path.rtt=2ms");
        assert_eq!(line.matches('\n').count(), 1);
        assert!(!line.contains("\"at\""), "virtual time has no date");
        assert!(one.outcome.series.is_empty());
    }

    #[test]
    fn a_digest_is_of_all_but_the_date() {
        let one = record();
        let check = |change: fn(&mut Record), same: bool| {
            let mut other = one.clone();
            change(&mut other);
            assert_eq!(one.digest() == other.digest(), same, "{other:?}");
        };
        check(|_| (), true);
        check(|record| record.at = Some("1970".into()), true);
        check(|record| record.run += 1, false);
        check(|record| record.outcome.goodput_bps += 1, false);
        // What no table shows.
        check(|record| record.outcome.forward.delivered += 1, false);
        let text = one.to_line();
        let Ok(Line::Whole(read)) = read_line(&text) else {
            unreachable!("it was written whole");
        };
        assert_eq!(read.digest(), one.digest());
    }

    #[test]
    fn a_record_is_of_the_sweep_that_has_its_id() {
        let plan = SweepPlan::new(&manifest(&["path.rtt=1ms,2ms"])).expect("a valid sweep");
        let one = record();
        assert!(one.is_of(&plan));
        let check = |change: fn(&mut Record)| {
            let mut other = one.clone();
            change(&mut other);
            assert!(!other.is_of(&plan), "{other:?}");
        };
        check(|record| record.run = 7);
        check(|record| record.index = 1 << 40);
        check(|record| record.index += 1);
        check(|record| record.id.0 += 1);
    }

    #[test]
    fn a_torn_line_is_no_mistake_and_a_wrong_one_is() {
        let line = record().to_line();
        for end in 0..line.len() {
            assert_eq!(read_line(&line[..end]), Ok(Line::Torn), "{end}");
        }
        for wrong in ["\n", "{}\n", "null\n", "\0\0\0\n"] {
            let told = read_line(wrong).expect_err("no result");
            assert!(told.contains("delete that line"), "{told}");
        }
        let other = line.replace(&record().id.to_string(), "12");
        assert!(read_line(&other).is_err(), "an id has sixteen digits");
    }
}
