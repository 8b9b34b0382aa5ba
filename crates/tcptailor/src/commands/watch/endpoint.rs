//! Responses of the endpoint: the text of the last round, and what is read at the moment.

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base::Instant;
use linux::http::{HttpCounts, HttpServer, Page, Status};

use super::metrics::{CONTENT_TYPE, Exposition};

/// Time without any progress after which the watch counts as stuck.
const LATE: Duration = Duration::from_secs(300);

/// What there is, for who comes with a browser.
const START: &str = "\
<!DOCTYPE html>
<html lang=\"en\"><head><meta charset=\"utf-8\"><title>tcptailor watch</title></head><body>
<h1>tcptailor watch VERSION</h1>
<ul>
<li><a href=\"/metrics\">/metrics</a>: what limits the connections of this machine, for Prometheus</li>
<li><a href=\"/healthz\">/healthz</a>: 200 while rounds are made in time, 503 otherwise</li>
</ul>
<p><code>tcptailor watch --html FILE</code> also writes a page of the last hours.
<code>tcptailor diagnose</code> tells what to do about a finding.</p>
</body></html>
";

/// State that rounds hand to the thread that answers requests.
#[derive(Debug)]
struct Shared {
    /// The metrics of the last round, as text.
    rounds: String,
    /// When there should be progress again at the latest.
    due: Instant,
    /// The interval that the last round asked for.
    planned: Option<Duration>,
    /// The last interval of rounds, and the CPU time in it.
    cost: Option<(Duration, Duration)>,
}

/// The pages.
#[derive(Debug)]
pub(super) struct Endpoint {
    shared: Mutex<Shared>,
    counts: HttpCounts,
    every: Duration,
    budget: f64,
    /// In seconds since 1970.
    started_unix_s: f64,
}

impl Endpoint {
    pub(super) fn new(every: Duration, budget: f64) -> Self {
        Self {
            shared: Mutex::new(Shared {
                rounds: String::new(),
                due: linux::Clock.now() + LATE,
                planned: None,
                cost: None,
            }),
            counts: HttpCounts::default(),
            every,
            budget,
            started_unix_s: linux::Clock.unix_millis() as f64 / 1e3,
        }
    }

    /// Answers until `over`.
    pub(super) fn serve(&self, server: &HttpServer, over: &AtomicBool) -> linux::Result<()> {
        server.run(over, &self.counts, &|path| self.page(path))
    }

    /// From now on the metrics of rounds are these.
    pub(super) fn publish(&self, text: String) {
        self.shared().rounds = text;
    }

    /// A part of a round is done at `now`: a round over many connections may take long.
    pub(super) fn note_progress(&self, now: Instant) {
        self.shared().due = now + LATE;
    }

    /// The next round begins `interval` after the last one, which began at `began`.
    pub(super) fn expect_next(&self, began: Instant, interval: Duration) {
        let mut shared = self.shared();
        shared.due = began + interval + LATE;
        shared.planned = Some(interval);
    }

    /// Cost of the last interval.
    pub(super) fn note_cost(&self, interval: Duration, cpu: Duration) {
        self.shared().cost = Some((interval, cpu));
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn page(&self, path: &str) -> Option<Page> {
        match path {
            "/metrics" => Some(Page {
                status: Status::Ok,
                content_type: CONTENT_TYPE,
                body: self.metrics(),
            }),
            "/healthz" => Some(self.health(linux::Clock.now())),
            "/" => Some(Page {
                status: Status::Ok,
                content_type: "text/html; charset=utf-8",
                body: START.replace("VERSION", env!("CARGO_PKG_VERSION")),
            }),
            _ => None,
        }
    }

    fn health(&self, now: Instant) -> Page {
        let is_late = now > self.shared().due;
        let (status, body) = if is_late {
            (Status::Unavailable, "the last round is overdue\n")
        } else {
            (Status::Ok, "ok\n")
        };
        Page {
            status,
            content_type: "text/plain; charset=utf-8",
            body: body.into(),
        }
    }

    fn metrics(&self) -> String {
        let (mut text, cost, planned) = {
            let shared = self.shared();
            (shared.rounds.clone(), shared.cost, shared.planned)
        };
        let mut own = Exposition::default();
        if let Some(planned) = planned {
            own.value(
                "tcptailor_round_interval_planned_seconds",
                planned.as_secs_f64(),
            );
        }
        if let Some((interval, cpu)) = cost {
            own.value("tcptailor_round_interval_seconds", interval.as_secs_f64());
            let ratio = cpu.as_secs_f64() / interval.as_secs_f64().max(f64::MIN_POSITIVE);
            own.value("tcptailor_cpu_ratio", ratio);
        }
        own.value(
            "tcptailor_round_interval_min_seconds",
            self.every.as_secs_f64(),
        );
        own.value("tcptailor_cpu_budget_ratio", self.budget);
        let codes =
            Status::ALL.map(|status| (status.code().to_string(), self.counts.answered(status)));
        let answered = codes
            .iter()
            .map(|(code, number)| ([code.as_str()], *number as f64));
        own.values("tcptailor_http_requests_total", answered);
        let dropped = self.counts.dropped() as f64;
        own.value("tcptailor_http_dropped_connections_total", dropped);
        let version = env!("CARGO_PKG_VERSION");
        own.values("tcptailor_build_info", [([version], 1.0)]);
        let cpu_s = super::own_cpu_time().as_secs_f64();
        own.value("process_cpu_seconds_total", cpu_s);
        if let Some(bytes) = resident_bytes() {
            own.value("process_resident_memory_bytes", bytes as f64);
        }
        own.value("process_start_time_seconds", self.started_unix_s);
        text.push_str(&own.into_text());
        text
    }
}

/// Resident memory of this process (proc_pid_status(5), `VmRSS`).
pub(super) fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let rest = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_that_is_stuck_is_not_healthy() {
        let endpoint = Endpoint::new(Duration::from_secs(15), 0.02);
        let began = linux::Clock.now();
        let check = |at_s: u64, expected: Status| {
            let now = began + Duration::from_secs(at_s);
            assert_eq!(endpoint.health(now).status, expected, "after {at_s} s");
        };
        check(0, Status::Ok);
        check(301, Status::Unavailable);
        // A long first round that goes on.
        endpoint.note_progress(began + Duration::from_secs(290));
        check(580, Status::Ok);
        check(591, Status::Unavailable);
        // The budget asks for a long pause.
        endpoint.expect_next(began, Duration::from_secs(3000));
        check(3290, Status::Ok);
        check(3301, Status::Unavailable);
        let text = endpoint.metrics();
        let planned = "\ntcptailor_round_interval_planned_seconds 3000\n";
        assert!(text.contains(planned), "{text}");
    }

    #[test]
    fn the_own_cost_is_told_before_the_first_round() {
        let endpoint = Endpoint::new(Duration::from_secs(15), 0.02);
        let text = endpoint.metrics();
        assert!(text.contains("\nprocess_resident_memory_bytes "), "{text}");
        assert!(
            text.contains("\ntcptailor_cpu_budget_ratio 0.02\n"),
            "{text}"
        );
        assert!(!text.contains("\ntcptailor_cpu_ratio "), "{text}");
        let start = endpoint.page("/").expect("a page of what there is");
        for path in ["/metrics", "/healthz"] {
            assert!(start.body.contains(&format!("href=\"{path}\"")), "{path}");
            assert!(endpoint.page(path).is_some(), "{path}");
        }
        assert!(endpoint.page("/more").is_none());
    }
}
