//! The self-check: a twin that does not reproduce the observations predicts nothing.

use serde::Serialize;

use super::observables::{Observables, percentile};

/// Largest difference of goodput, as a share of what was seen. The stack agrees with the kernel to
/// 15 % in nine of ten cases, so that a twin which is off by more has another cause.
pub const GOODPUT_TOLERANCE: f64 = 0.15;
/// The same where response times are compared too: the goodput of operations that follow each other
/// is their mean, in which the few that wait for a processor count in full; no virtual host waits.
pub const MEAN_TOLERANCE: f64 = 0.3;
/// Tolerance of the median response time.
pub const RESPONSE_TOLERANCE: f64 = 0.15;
/// Tolerance of the round-trip time, plus a time that hosts may add: a virtual host never waits for
/// a processor.
pub const RTT_TOLERANCE: f64 = 0.25;
const RTT_SLACK: f64 = 300e-6;
/// The same of a response time.
const RESPONSE_SLACK: f64 = 60e-6;

/// One number, observed and of the twin.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// Name of the quantity.
    pub what: &'static str,
    /// Bit/s, or seconds.
    pub seen: f64,
    /// The median of several runs.
    pub twin: f64,
    /// Difference as a share of what was seen.
    pub error: f64,
    /// Whether that is within the tolerance.
    pub ok: bool,
}

/// How far a twin agrees with what was seen.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SelfCheck {
    /// The numbers that both have.
    pub compared: Vec<Compared>,
}

impl SelfCheck {
    pub(super) fn of(seen: &Observables, twin: &[Observables]) -> Self {
        let mut compared = Vec::new();
        let mut add =
            |what, read: &dyn Fn(&Observables) -> Option<f64>, tolerance: f64, slack: f64| {
                let values = twin.iter().filter_map(read).collect();
                let pair = read(seen).zip(percentile(values, 0.5));
                if let Some((seen, twin)) = pair.filter(|(seen, _)| *seen > 0.0) {
                    let off = (twin - seen).abs();
                    compared.push(Compared {
                        what,
                        seen,
                        twin,
                        error: off / seen,
                        ok: off <= tolerance * seen + slack,
                    });
                }
            };
        let of_goodput = match seen.response() {
            Some(_) => MEAN_TOLERANCE,
            None => GOODPUT_TOLERANCE,
        };
        add("goodput", &|s| Some(s.goodput_bps()), of_goodput, 0.0);
        add(
            "median response time",
            &Observables::response,
            RESPONSE_TOLERANCE,
            RESPONSE_SLACK,
        );
        add(
            "smoothed round-trip time",
            &|s| s.srtt,
            RTT_TOLERANCE,
            RTT_SLACK,
        );
        Self { compared }
    }

    /// Whether the twin may predict.
    #[must_use]
    pub fn holds(&self) -> bool {
        !self.compared.is_empty() && self.compared.iter().all(|compared| compared.ok)
    }

    /// The error of one number; 0 where it was not compared.
    #[must_use]
    pub fn residual(&self, what: &str) -> f64 {
        let mut all = self.compared.iter();
        all.find(|compared| compared.what == what)
            .map_or(0.0, |compared| compared.error)
    }
}
