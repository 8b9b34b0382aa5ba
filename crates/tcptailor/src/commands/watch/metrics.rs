//! The metrics: a table that says what each means, and the text format of Prometheus (version
//! 0.0.4), which every collector reads.
//!
//! The format is a line for each value; a library for it would not bring the table, from which
//! `docs/watch.md` is checked. Values are written by names that are looked up in the table, so that
//! none can be exposed that is not described.

use std::fmt::Write;

/// Type of a metric for collectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Summary,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Summary => "summary",
        }
    }
}

/// A metric.
#[derive(Debug)]
pub(super) struct Metric {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// Names of its labels, in the order in which they are written.
    pub(super) labels: &'static [&'static str],
    pub(super) help: &'static str,
}

macro_rules! metrics {
    ($($kind:ident $name:ident [$($label:literal),*] $help:literal;)*) => {
        &[$(Metric {
            name: stringify!($name),
            kind: Kind::$kind,
            labels: &[$($label),*],
            help: $help,
        }),*]
    };
}

/// All of them, in the order in which they are exposed.
pub(super) const METRICS: &[Metric] = metrics![
    Counter tcptailor_limit_seconds_total ["service", "limit"]
        "Time for which a limit held senders back, summed over connections that carry data.";
    Gauge tcptailor_connections ["service", "state"]
        "Connections in the last round by verdict.";
    Gauge tcptailor_finding_connections ["service", "diagnosis"]
        "Connections with this finding in the last round; of the host as a whole 1.";
    Counter tcptailor_findings_total ["diagnosis"]
        "Findings that began.";
    Counter tcptailor_sent_bytes_total ["service"]
        "Payload sent, retransmissions included.";
    Counter tcptailor_received_bytes_total ["service"]
        "Payload received in order.";
    Counter tcptailor_sent_segments_total ["service"]
        "Segments with payload sent, retransmissions included.";
    Counter tcptailor_retransmitted_segments_total ["service"]
        "Segments retransmitted.";
    Summary tcptailor_rtt_seconds ["service"]
        "Smoothed round-trip times of connections that carry data: quantiles of the last round, \
         sum and count of all rounds.";
    Gauge tcptailor_accept_queue_connections ["listener"]
        "Largest accept queue among the samples of the last round.";
    Gauge tcptailor_accept_queue_limit_connections ["listener"]
        "Most connections that the accept queue can hold: the backlog of listen().";
    Counter tcptailor_accept_queue_overflows_total []
        "Connections that found an accept queue full (TcpExtListenOverflows).";
    Counter tcptailor_accept_queue_drops_total []
        "Connections dropped at listeners for any reason (TcpExtListenDrops).";
    Counter tcptailor_rounds_total []
        "Rounds: all connections sampled for some seconds, then diagnosed.";
    Gauge tcptailor_last_round_timestamp_seconds []
        "When the last round ended, since 1970-01-01 UTC.";
    Gauge tcptailor_round_interval_seconds []
        "Time from the start of a round to the start of the next.";
    Gauge tcptailor_round_interval_planned_seconds []
        "Planned time from the start of the last round to the start of the next: --every, or longer \
         where --max-cpu asks for it.";
    Gauge tcptailor_round_interval_min_seconds []
        "Shortest such interval: --every.";
    Gauge tcptailor_cpu_ratio []
        "CPU time of tcptailor over the last round interval, in cores.";
    Gauge tcptailor_cpu_budget_ratio []
        "Upper bound of tcptailor_cpu_ratio, in cores: --max-cpu.";
    Gauge tcptailor_left_out_connections []
        "Connections that were not watched in the last round because there were too many.";
    Gauge tcptailor_unseen_processes []
        "Processes whose sockets cannot be inspected for lack of permission.";
    Gauge tcptailor_network_namespaces ["state"]
        "Network namespaces in the last round.";
    Counter tcptailor_http_requests_total ["code"]
        "Requests to this endpoint by the status of the answer.";
    Counter tcptailor_http_dropped_connections_total []
        "Connections to this endpoint closed before a complete response: too slow or too many.";
    Gauge tcptailor_build_info ["version"]
        "1; the version of tcptailor is a label.";
    Counter process_cpu_seconds_total []
        "CPU time of this process, user and system.";
    Gauge process_resident_memory_bytes []
        "Resident memory of this process.";
    Gauge process_start_time_seconds []
        "When this process began, since 1970-01-01 UTC.";
];

/// The media type of the format.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Values as text.
#[derive(Debug, Default)]
pub(super) struct Exposition {
    text: String,
}

impl Exposition {
    /// Appends the values of a metric, each with those of its labels. A metric without values is
    /// left out.
    ///
    /// # Panics
    /// Where the table has no such metric, or it has another number of labels.
    pub(super) fn values<'l, const L: usize>(
        &mut self,
        name: &str,
        values: impl IntoIterator<Item = ([&'l str; L], f64)>,
    ) {
        let metric = find(name);
        assert_eq!(metric.labels.len(), L, "the labels of {name}");
        let mut values = values.into_iter().peekable();
        if values.peek().is_some() {
            self.head(metric);
        }
        for (labels, value) in values {
            let labels = metric.labels.iter().copied().zip(labels);
            self.line(name, labels, value);
        }
    }

    /// Appends one value of a metric without labels.
    pub(super) fn value(&mut self, name: &str, value: f64) {
        self.values(name, [([], value)]);
    }

    /// Appends summaries of a metric with one label: for each value of it quantiles where they are
    /// known, sum and count.
    pub(super) fn summaries<'l>(
        &mut self,
        name: &str,
        summaries: impl IntoIterator<Item = (&'l str, Summary)>,
    ) {
        let metric = find(name);
        let mut summaries = summaries.into_iter().peekable();
        if summaries.peek().is_some() {
            self.head(metric);
        }
        for (label, summary) in summaries {
            let own = (metric.labels[0], label);
            for (quantile, value) in QUANTILES
                .iter()
                .zip(summary.quantiles.into_iter().flatten())
            {
                self.line(name, [own, ("quantile", quantile.0)], value);
            }
            self.line(&format!("{name}_sum"), [own], summary.sum);
            self.line(&format!("{name}_count"), [own], summary.count as f64);
        }
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }

    fn head(&mut self, metric: &Metric) {
        let Metric {
            name, kind, help, ..
        } = metric;
        // The table's texts have no backslash and no line end.
        let _ = writeln!(self.text, "# HELP {name} {help}");
        let _ = writeln!(self.text, "# TYPE {name} {}", kind.name());
    }

    fn line<'l>(
        &mut self,
        name: &str,
        labels: impl IntoIterator<Item = (&'static str, &'l str)>,
        value: f64,
    ) {
        self.text.push_str(name);
        let mut before = '{';
        for (label, text) in labels {
            let _ = write!(self.text, "{before}{label}=\"");
            push_escaped(&mut self.text, text);
            self.text.push('"');
            before = ',';
        }
        if before == ',' {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }
}

/// Summary of many values.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Summary {
    /// Values of [`QUANTILES`]; `None` without recent values.
    pub(super) quantiles: Option<[f64; QUANTILES.len()]>,
    pub(super) sum: f64,
    pub(super) count: u64,
}

/// The quantiles of summaries, as the label is written and as a share.
pub(super) const QUANTILES: [(&str, f64); 3] = [("0.5", 0.5), ("0.9", 0.9), ("0.99", 0.99)];

fn find(name: &str) -> &'static Metric {
    let found = METRICS.iter().find(|metric| metric.name == name);
    found.unwrap_or_else(|| panic!("{name} is not in the table of metrics"))
}

/// The value of a label: backslash, quotation mark and line end are escaped, other control
/// characters replaced.
fn push_escaped(text: &mut String, value: &str) {
    for c in value.chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            c if base::is_obeyed(c) => text.push(char::REPLACEMENT_CHARACTER),
            c => text.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_help_type_and_escaped_labels() {
        let mut exposition = Exposition::default();
        exposition.values(
            "tcptailor_sent_bytes_total",
            [(["a\\b\"c\nd\u{1b}e:1"], 3.0), (["other"], 1.5e12)],
        );
        exposition.value("tcptailor_cpu_ratio", 0.0125);
        exposition.values::<1>("tcptailor_sent_segments_total", []);
        assert_eq!(
            exposition.into_text(),
            "# HELP tcptailor_sent_bytes_total Payload sent, retransmissions included.\n\
             # TYPE tcptailor_sent_bytes_total counter\n\
             tcptailor_sent_bytes_total{service=\"a\\\\b\\\"c\\nd\u{fffd}e:1\"} 3\n\
             tcptailor_sent_bytes_total{service=\"other\"} 1500000000000\n\
             # HELP tcptailor_cpu_ratio CPU time of tcptailor over the last round interval, in cores.\n\
             # TYPE tcptailor_cpu_ratio gauge\n\
             tcptailor_cpu_ratio 0.0125\n"
        );
    }

    #[test]
    fn a_summary_has_quantiles_sum_and_count() {
        let mut exposition = Exposition::default();
        let summary = |quantiles| Summary {
            quantiles,
            sum: 0.5,
            count: 7,
        };
        exposition.summaries(
            "tcptailor_rtt_seconds",
            [
                ("a:1", summary(Some([0.01, 0.02, 0.03]))),
                ("b:2", summary(None)),
            ],
        );
        let text = exposition.into_text();
        let (_, values) = text.split_once(" summary\n").expect("a type");
        assert_eq!(
            values,
            "tcptailor_rtt_seconds{service=\"a:1\",quantile=\"0.5\"} 0.01\n\
             tcptailor_rtt_seconds{service=\"a:1\",quantile=\"0.9\"} 0.02\n\
             tcptailor_rtt_seconds{service=\"a:1\",quantile=\"0.99\"} 0.03\n\
             tcptailor_rtt_seconds_sum{service=\"a:1\"} 0.5\n\
             tcptailor_rtt_seconds_count{service=\"a:1\"} 7\n\
             tcptailor_rtt_seconds_sum{service=\"b:2\"} 0.5\n\
             tcptailor_rtt_seconds_count{service=\"b:2\"} 7\n"
        );
    }

    /// <https://prometheus.io/docs/practices/naming/>: counters end in `_total` and others do not,
    /// units are base units and stand in the name.
    #[test]
    fn names_are_as_prometheus_wants_them() {
        for Metric {
            name, kind, help, ..
        } in METRICS
        {
            assert!(
                name.chars().all(|c| c.is_ascii_lowercase() || c == '_'),
                "{name}"
            );
            assert_eq!(*kind == Kind::Counter, name.ends_with("_total"), "{name}");
            assert!(!help.contains(['\\', '\n']), "{name}");
            for other in ["_ms", "_us", "milli", "percent", "_kb", "_bits"] {
                assert!(!name.contains(other), "{name}");
            }
            assert_eq!(
                METRICS.iter().filter(|other| other.name == *name).count(),
                1
            );
        }
    }

    /// `docs/watch.md` has a row for each metric, with its type, its labels and its meaning.
    #[test]
    fn each_metric_is_documented_and_no_other() {
        let document = include_str!("../../../../../docs/watch.md");
        let rows: Vec<&str> = document
            .lines()
            .filter(|line| line.starts_with("| `tcptailor_") || line.starts_with("| `process_"))
            .collect();
        let expected: Vec<String> = METRICS.iter().map(row).collect();
        assert_eq!(
            rows,
            expected,
            "docs/watch.md should have\n{}",
            expected.join("\n")
        );
    }

    /// Rules and dashboard ask for metrics that exist.
    #[test]
    fn rules_and_dashboard_name_metrics_of_the_table() {
        for text in [
            include_str!("../../../../../dist/watch/rules.yml"),
            include_str!("../../../../../dist/watch/dashboard.json"),
        ] {
            let is_part = |c: char| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit();
            let words = text.split(|c: char| !is_part(c) && c != ':');
            let mut named = 0;
            for word in words.filter(|word| word.starts_with("tcptailor_")) {
                let is_known = METRICS.iter().any(|metric| metric.name == word);
                assert!(is_known, "{word} is not in the table of metrics");
                named += 1;
            }
            assert!(named > 5);
        }
    }

    fn row(metric: &Metric) -> String {
        let labels: Vec<String> = metric
            .labels
            .iter()
            .map(|name| format!("`{name}`"))
            .collect();
        format!(
            "| `{}` | {} | {} | {} |",
            metric.name,
            metric.kind.name(),
            labels.join(", "),
            metric.help
        )
    }
}
