//! What a scenario claims to come out.

use super::metric::Metric;
use crate::engine::EngineName;
use crate::outcome::Outcome;
use crate::show::{outside, unit_name};

/// A claim: a number lies between two limits.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    /// About what.
    pub metric: Metric,
    /// For which variant; `None` for all.
    pub variant: Option<String>,
    /// The claim is about the number divided by that of this variant, at the same point of the
    /// sweep.
    pub over: Option<String>,
    /// On which engines; empty for all.
    pub engines: Vec<EngineName>,
    /// Smallest value that is right, in the unit of the metric; a bare number with `over`.
    pub min: Option<f64>,
    /// Largest value that is right, in the same unit.
    pub max: Option<f64>,
    /// Why it is claimed.
    pub reason: String,
}

impl Expectation {
    /// Whether it is about trials of `variant`, and about itself rather than a ratio.
    #[must_use]
    pub fn applies_to(&self, variant: Option<&str>) -> bool {
        self.variant.is_none() || self.variant.as_deref() == variant
    }

    /// Of its bounds: `bit/s`, `us`, `bytes`, `share`, `ratio`, or empty for things.
    #[must_use]
    pub fn unit(&self) -> &'static str {
        unit_name(self.metric, self.over.is_some())
    }

    /// Whether it is about this engine.
    #[must_use]
    pub fn applies_on(&self, engine: EngineName) -> bool {
        self.engines.is_empty() || self.engines.contains(&engine)
    }

    /// Whether the outcome of a trial of `variant` is as claimed. Claims about other variants hold,
    /// and so do those about a ratio of two.
    ///
    /// # Errors
    /// One sentence with what was claimed, what came out, and the reason.
    pub fn check(&self, variant: Option<&str>, outcome: &Outcome) -> Result<(), String> {
        if self.over.is_some() || !self.applies_to(variant) {
            return Ok(());
        }
        self.check_value(self.metric.of(outcome))
    }

    /// Whether a value of the metric, such as the median of several runs, is as claimed; `None`
    /// where it was not measured. With `over` the value is the ratio.
    ///
    /// # Errors
    /// One sentence with what was claimed, what came out, and the reason.
    pub fn check_value(&self, value: Option<f64>) -> Result<(), String> {
        let mut name = self.metric.name().into_owned();
        if let Some(over) = &self.over {
            name.push_str(" over that of ");
            name.push_str(over);
        }
        let because = if self.reason.is_empty() {
            "no reason given"
        } else {
            &self.reason
        };
        let Some(value) = value else {
            return Err(format!(
                "{name} was not measured, but is claimed ({because})"
            ));
        };
        match outside(self.unit(), value, (self.min, self.max)) {
            Some(wrong) => Err(format!("{name} {wrong} ({because})")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_holds_or_says_why_not() {
        let claim = Expectation {
            metric: Metric::GoodputBps,
            variant: Some("nodelay".into()),
            over: None,
            engines: Vec::new(),
            min: Some(100.0),
            max: Some(200.0),
            reason: "the rate".into(),
        };
        let check = |variant: Option<&str>, goodput_bps: u64, expected: &str| {
            let outcome = Outcome {
                goodput_bps,
                ..Outcome::default()
            };
            let said = claim.check(variant, &outcome).err().unwrap_or_default();
            assert_eq!(said, expected);
        };
        check(Some("nodelay"), 100, "");
        check(Some("nodelay"), 200, "");
        check(
            Some("nodelay"),
            99,
            "goodput_bps is 99 bit/s, claimed at least 100 bit/s (the rate)",
        );
        check(
            Some("nodelay"),
            201,
            "goodput_bps is 201 bit/s, claimed at most 200 bit/s (the rate)",
        );
        check(Some("other"), 99, "");
        check(None, 99, "");
        let ratio = Expectation {
            over: Some("cork".into()),
            min: Some(2.5),
            max: None,
            ..claim.clone()
        };
        assert_eq!(
            ratio.check_value(Some(2.4)).unwrap_err(),
            "goodput_bps over that of cork is 2.40, claimed at least 2.50 (the rate)"
        );
        let claim = Expectation {
            metric: Metric::ResponseP50Us,
            variant: None,
            ..claim
        };
        assert!(
            claim
                .check(None, &Outcome::default())
                .unwrap_err()
                .contains("not measured")
        );
    }
}
