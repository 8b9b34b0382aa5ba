//! Packets of a connection: a time-sequence plot, and its retransmissions.

use capture::{FlowTrace, RetransmissionKind};
use page::{AckedTo, Cell, Part, Retransmitted, Sequence, Span, Table, Tone};

/// Retransmissions that are listed.
const LISTED_MAX: usize = 100;

/// Plots of one connection.
pub(super) fn parts(trace: &FlowTrace) -> Vec<Part> {
    let counted: u64 = trace.counts.iter().sum();
    let drawn = trace.retransmissions.len() as u64;
    let mut parts = vec![Part::Sequence(Box::new(sequence(trace)))];
    if counted > drawn {
        let text = format!("{drawn} of {counted} retransmissions are drawn: the first ones.");
        parts.push(Part::Note(Tone::Doubt, text));
    }
    parts.push(Part::Table(numbers(trace)));
    if drawn > 0 {
        let table = Part::Table(retransmissions(trace));
        let title = match drawn as usize > LISTED_MAX {
            true => format!("The first {LISTED_MAX} retransmissions"),
            false => "Retransmissions, one by one".into(),
        };
        parts.push(Part::Fold(title, vec![table]));
    }
    parts
}

fn sequence(trace: &FlowTrace) -> Sequence {
    let seconds = |at: base::Instant| at.since(trace.began).as_secs_f64();
    let sent = trace.sent.iter().map(|span| Span {
        begin_s: seconds(span.begin),
        end_s: seconds(span.end),
        from: span.from,
        to: span.to,
    });
    let acked = trace.acked.iter().map(|acked| AckedTo {
        at_s: seconds(acked.at),
        to: acked.to,
        edge: acked.edge,
    });
    let kinds = RetransmissionKind::ALL.into_iter().zip(trace.counts);
    let kinds = kinds.filter(|(_, count)| *count > 0);
    let retransmitted = kinds.map(|(kind, count)| {
        let of_kind = trace.retransmissions.iter();
        let of_kind = of_kind.filter(|again| again.kind == kind);
        Retransmitted {
            kind: kind.name(),
            count,
            spans: of_kind
                .map(|again| Span {
                    begin_s: seconds(again.at),
                    end_s: seconds(again.at),
                    from: again.from,
                    to: again.to,
                })
                .collect(),
        }
    });
    Sequence {
        title: format!(
            "Bytes from {} to {} over time, as the capture saw them",
            trace.key.local, trace.key.remote
        ),
        sent: sent.collect(),
        acked: acked.collect(),
        retransmitted: retransmitted.collect(),
    }
}

/// Counters of this direction, as in `--write-flows`.
fn numbers(trace: &FlowTrace) -> Table {
    let flow = &trace.summary.forward;
    let count = |name: &str, number: u64| (name.to_owned(), "", number);
    let rows = [
        ("payload".to_owned(), "bytes", flow.payload_bytes),
        count("segments with payload", flow.data_segments),
        count("retransmitted segments", flow.retransmissions),
        count("of these fast retransmissions", flow.fast_retransmissions),
        count("of these first ones after a timeout", flow.timeouts),
        count("of these tail-loss probes", flow.tail_probes),
        count(
            "needless, as reported by the receiver (D-SACK)",
            flow.needless_retransmissions,
        ),
        count("reordered before the capture", flow.reordered_segments),
        count("zero windows", flow.zero_windows),
        count("delayed ACKs (20 ms or more)", flow.delayed_acks),
    ];
    let rows = rows.into_iter().map(|(name, unit, number)| {
        vec![Cell::text(name), Cell::number(unit, Some(number as f64))]
    });
    Table {
        caption: "Counted in this direction".into(),
        head: ["", "number"].map(Into::into).into(),
        rows: rows.collect(),
    }
}

fn retransmissions(trace: &FlowTrace) -> Table {
    let listed = trace.retransmissions.iter().take(LISTED_MAX);
    let row = |again: &capture::Retransmission| {
        let at = again.at.since(trace.began).as_secs_f64() * 1e6;
        vec![
            Cell::number("us", Some(at.round())),
            Cell::number("", Some(again.from as f64)),
            Cell::number("", Some(again.to as f64)),
            Cell::text(again.kind.name()),
        ]
    };
    Table {
        caption: "Times are since the first packet of the connection.".into(),
        head: ["at", "from byte", "to byte", "kind"]
            .map(Into::into)
            .into(),
        rows: listed.map(row).collect(),
    }
}
