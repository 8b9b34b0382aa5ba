//! A run while it is on: a line per interval, put together from what both ends report.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use base::{Limit, Rate, human};
use lab::{Direction, Workload};
use linux::Role;
use linux::workload::{Interval, Phase, Sending, Totals};
use serde::Serialize;
use std::time::Duration;

use crate::output::{self, Output};

/// One interval of a run, of both ends.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Row {
    /// End of the interval since the beginning of the run, warm-up included.
    pub(super) end_s: f64,
    pub(super) phase: Phase,
    /// Payload that arrived at the server, and here.
    pub(super) up_bps: Option<u64>,
    pub(super) down_bps: Option<u64>,
    pub(super) operations_per_s: Option<f64>,
    pub(super) response_p50_us: Option<u64>,
    pub(super) response_p99_us: Option<u64>,
    /// How this end and the server sent.
    pub(super) up: Option<Sending>,
    pub(super) down: Option<Sending>,
}

/// Columns shown for each interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Payload one way.
    Up,
    Down,
    Both,
    /// Operations.
    Operations,
}

/// The reports of both ends, in pairs: each end cuts time from its own start in the same way.
pub(super) struct Live<'l> {
    kind: Kind,
    /// Destination of lines during the run, where they are wanted.
    output: Option<&'l Output>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    client: VecDeque<Interval>,
    server: VecDeque<Interval>,
    client_ended: f64,
    rows: Vec<Row>,
    printed: usize,
    longest_ns: u64,
}

impl<'l> Live<'l> {
    pub(super) fn new(workload: &Workload, output: Option<&'l Output>) -> Self {
        let kind = match workload {
            Workload::Bulk {
                direction: Direction::Down,
                ..
            } => Kind::Down,
            Workload::Bulk {
                direction: Direction::Both,
                ..
            } => Kind::Both,
            Workload::Bulk { .. } | Workload::SlowReader { .. } | Workload::Paced { .. } => {
                Kind::Up
            }
            _ => Kind::Operations,
        };
        Self {
            kind,
            output,
            state: Mutex::default(),
        }
    }

    /// Takes a report of one end in.
    pub(super) fn handle_interval(&self, role: Role, interval: &Interval) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match role {
            Role::Client => state.client.push_back(interval.clone()),
            Role::Server => state.server.push_back(interval.clone()),
        }
        while !state.client.is_empty() && !state.server.is_empty() {
            let pair = (state.client.pop_front(), state.server.pop_front());
            self.keep(&mut state, pair);
        }
    }

    /// The rows of a run that is over. An end may have reported once more than the other.
    pub(super) fn finish(self) -> Vec<Row> {
        let mut state = self
            .state
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        // The rest of the client alone: of the server's no time here is known.
        while let Some(client) = state.client.pop_front() {
            let row = self.kind.row(state.client_ended, Some(&client), None);
            state.client_ended = row.end_s;
            state.rows.push(row);
        }
        state.rows
    }

    fn keep(&self, state: &mut State, (client, server): (Option<Interval>, Option<Interval>)) {
        let row = self
            .kind
            .row(state.client_ended, client.as_ref(), server.as_ref());
        state.client_ended = row.end_s;
        let length_ns = client.map_or(0, |interval| interval.length_ns);
        state.longest_ns = state.longest_ns.max(length_ns);
        // Neither of what was still in flight at the end, nor of a sliver at the end.
        let is_shown = row.phase != Phase::After && length_ns >= state.longest_ns / 2;
        if let Some(output) = self.output.filter(|_| is_shown) {
            // The summary says whether stdout can be written.
            if state.printed == 0 {
                let _ = output.line(self.kind.header(output::columns()));
            }
            state.printed += 1;
            let _ = output.line(self.kind.line(&row, output::columns()));
        }
        state.rows.push(row);
    }
}

fn bps(bytes: u64, interval: &Interval) -> u64 {
    Rate::of(bytes, Duration::from_nanos(interval.length_ns)).bits_per_second()
}

impl Kind {
    fn row(self, began_s: f64, client: Option<&Interval>, server: Option<&Interval>) -> Row {
        let length_s = client.map_or(0.0, |one| one.length_ns as f64 / 1e9);
        let mut row = Row {
            end_s: ((began_s + length_s) * 1e9).round() / 1e9,
            phase: client.map_or(Phase::After, |one| one.phase),
            up_bps: server.map(|one| bps(one.received_bytes, one)),
            down_bps: client.map(|one| bps(one.received_bytes, one)),
            operations_per_s: None,
            response_p50_us: None,
            response_p99_us: None,
            up: client.and_then(|one| one.sending),
            down: server.and_then(|one| one.sending),
        };
        match self {
            Self::Up => row.down_bps = None,
            Self::Down => row.up_bps = None,
            Self::Both => {}
            Self::Operations => {
                let mut totals = Totals::default();
                client.into_iter().for_each(|one| totals.add(one));
                let times = totals.response_us();
                row.operations_per_s = Some(totals.operations_per_s());
                row.response_p50_us = times.map(|times| times.p50);
                row.response_p99_us = times.map(|times| times.p99);
            }
        }
        row
    }

    /// Names and widths of the columns, the most needed first.
    const fn columns(self) -> &'static [(&'static str, usize)] {
        match self {
            Self::Up | Self::Down => &[
                ("TIME", 7),
                ("GOODPUT", 11),
                ("RETR", 6),
                ("RTT", 8),
                ("CWND", 9),
                ("LIMIT", 11),
            ],
            Self::Both => &[
                ("TIME", 7),
                ("UP", 11),
                ("DOWN", 11),
                ("RETR UP", 7),
                ("RETR DOWN", 9),
                ("RTT", 8),
                ("CWND UP", 9),
            ],
            Self::Operations => &[
                ("TIME", 7),
                ("RATE", 9),
                ("P50", 8),
                ("P99", 8),
                ("RETR", 6),
                ("RTT", 8),
            ],
        }
    }

    fn header(self, width: usize) -> String {
        let names = self.columns().iter().map(|(name, _)| (*name).to_owned());
        self.arranged(names.collect(), width)
    }

    fn line(self, row: &Row, width: usize) -> String {
        let unknown = || "-".to_owned();
        let rate = |bps: Option<u64>| bps.map_or_else(unknown, human::bps);
        let time = |us: Option<u64>| us.map_or_else(unknown, human::micros);
        let size = |bytes: Option<u64>| bytes.map_or_else(unknown, human::bytes);
        let sender = match self {
            Self::Down => row.down,
            _ => row.up,
        };
        let retransmitted = |sending: Option<Sending>| {
            sending.map_or_else(unknown, |it| it.retransmitted_segments.to_string())
        };
        let mut cells = vec![format!("{:.1} s", row.end_s)];
        match self {
            Self::Both => cells.extend([
                rate(row.up_bps),
                rate(row.down_bps),
                retransmitted(row.up),
                retransmitted(row.down),
            ]),
            Self::Operations => cells.extend([
                row.operations_per_s
                    .map_or_else(unknown, |rate| format!("{rate:.1}/s")),
                time(row.response_p50_us),
                time(row.response_p99_us),
                retransmitted(sender),
            ]),
            Self::Up => cells.extend([rate(row.up_bps), retransmitted(sender)]),
            Self::Down => cells.extend([rate(row.down_bps), retransmitted(sender)]),
        }
        cells.push(time(sender.and_then(|it| it.rtt_us)));
        cells.push(size(sender.and_then(|it| it.cwnd_bytes)));
        let limit = sender.and_then(|it| it.limit);
        cells.push(limit.map_or_else(unknown, |limit: Limit| limit.name().to_owned()));
        let mut line = self.arranged(cells, width);
        if row.phase == Phase::Warmup {
            line.push_str("  (omitted)");
        }
        line
    }

    /// As many columns as there is room for.
    fn arranged(self, cells: Vec<String>, width: usize) -> String {
        let mut line = String::new();
        for ((_, column), cell) in self.columns().iter().zip(cells) {
            let gap = if line.is_empty() { "" } else { "  " };
            let text = format!("{gap}{cell:>column$}");
            if !line.is_empty() && line.chars().count() + text.chars().count() > width {
                break;
            }
            line.push_str(&text);
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(ms: u64, received_bytes: u64, phase: Phase) -> Interval {
        Interval {
            end_ns: 0,
            length_ns: ms * 1_000_000,
            phase,
            received_bytes,
            sent_bytes: 0,
            operations: 0,
            responses_ns: Default::default(),
            sending: Some(Sending {
                retransmitted_segments: 3,
                rtt_us: Some(41_200),
                cwnd_bytes: Some(1_310_720),
                limit: Some(Limit::PeerWindow),
            }),
        }
    }

    #[test]
    fn reports_of_both_ends_make_one_line() {
        let live = Live::new(&bulk(Direction::Up), None);
        live.handle_interval(Role::Server, &interval(1000, 1_000_000, Phase::Warmup));
        live.handle_interval(Role::Server, &interval(1000, 2_000_000, Phase::Measured));
        assert!(live.state.lock().expect("no panic").rows.is_empty());
        live.handle_interval(Role::Client, &interval(1000, 7, Phase::Warmup));
        live.handle_interval(Role::Client, &interval(1000, 7, Phase::Measured));
        live.handle_interval(Role::Client, &interval(10, 7, Phase::After));
        let rows = live.finish();
        let shown: Vec<_> = rows
            .iter()
            .map(|row| (row.end_s, row.up_bps, row.down_bps))
            .collect();
        let expected = [
            (1.0, Some(8_000_000), None),
            (2.0, Some(16_000_000), None),
            (2.01, None, None),
        ];
        assert_eq!(shown, expected);
        assert_eq!(
            Kind::Up.line(&rows[0], 100),
            "  1.0 s  8.00 Mbit/s       3   41.2 ms   1.25 MiB  peer-window  (omitted)"
        );
    }

    fn bulk(direction: Direction) -> Workload {
        Workload::Bulk {
            direction,
            flows: 1,
            write_size: base::Bytes(1),
            unacked: None,
            amount: lab::Amount::Operations(1),
        }
    }

    #[test]
    fn a_narrow_terminal_has_fewer_columns_and_whole_ones() {
        let row = |kind: Kind| {
            let both = interval(1000, 1_000_000_000, Phase::Measured);
            kind.row(0.0, Some(&both), Some(&both))
        };
        for kind in [Kind::Up, Kind::Down, Kind::Both, Kind::Operations] {
            for width in [20, 40, 60, 80] {
                let (header, line) = (kind.header(width), kind.line(&row(kind), width));
                assert!(line.chars().count() <= width, "{line}");
                let names = header
                    .split("  ")
                    .filter(|part| !part.trim().is_empty())
                    .count();
                let cells = line
                    .split("  ")
                    .filter(|part| !part.trim().is_empty())
                    .count();
                assert_eq!(names, cells, "{width}:\n{header}\n{line}");
            }
        }
        assert_eq!(Kind::Up.line(&row(Kind::Up), 20), "  1.0 s  8.00 Gbit/s");
    }
}
