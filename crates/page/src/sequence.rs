//! Bytes sent and acknowledged over time: a time-sequence plot, with what was retransmitted marked
//! by its kind.

use base::human;
use maud::{Markup, html};

use super::frame::{self, LEFT, RIGHT, n};
use super::lines::{mark, mark_class};
use super::scale::Scale;

const HEIGHT: f64 = 320.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = HEIGHT - 46.0;
/// A window may reach so far beyond the last byte that was sent; what is beyond does not show.
const ABOVE_SHARE: f64 = 0.2;
/// Colours and dashes of the lines, and the colours from which on marks have theirs.
const ACKED: usize = 2;
const EDGE: usize = 1;
const MARKS_FROM: usize = 3;

/// One direction of a connection.
#[derive(Clone, Debug, Default)]
pub struct Sequence {
    /// Above the picture.
    pub title: String,
    /// Data sent for the first time, in order of time.
    pub sent: Vec<Span>,
    /// ACKs of the receiver, in order of time.
    pub acked: Vec<AckedTo>,
    /// Retransmitted data, by kind.
    pub retransmitted: Vec<Retransmitted>,
}

/// Bytes that were sent one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Span {
    /// When the first was sent, in seconds since the plot begins.
    pub begin_s: f64,
    /// When the last was sent.
    pub end_s: f64,
    /// Bytes before them.
    pub from: u64,
    /// Bytes up to the last of them.
    pub to: u64,
}

/// Data acknowledged and window offered by a receiver at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AckedTo {
    /// When, in seconds since the plot begins.
    pub at_s: f64,
    /// Bytes that it had acknowledged.
    pub to: u64,
    /// Bytes up to the end of its window; `None` where the scale of that is not known.
    pub edge: Option<u64>,
}

/// Retransmissions of one kind.
#[derive(Clone, Debug, Default)]
pub struct Retransmitted {
    /// In words.
    pub kind: &'static str,
    /// How many there were, those that are not drawn too.
    pub count: u64,
    /// Spans to draw.
    pub spans: Vec<Span>,
}

impl Sequence {
    /// The picture; a word where nothing was sent.
    pub(super) fn render(&self) -> Markup {
        if self.sent.is_empty() {
            return html! { p.note { "No payload was sent." } };
        }
        let (x, y) = self.scales();
        let has_edge = self.acked.iter().any(|acked| edge_of(acked, &y).is_some());
        let inside = html! {
            (frame::vertical(&y, "bytes"))
            (frame::horizontal(&x, "s", BOTTOM))
            text.muted.mid x=(n((LEFT + RIGHT) / 2.0)) y=(n(HEIGHT - 6.0)) { "seconds" }
            g class=(format!("c{EDGE}")) {
                path class=(frame::curve_class(EDGE)) d=(self.edge_line(&x, &y)) {}
            }
            g class=(format!("c{ACKED}")) {
                path class=(frame::curve_class(ACKED)) d=(self.acked_line(&x, &y)) {}
            }
            g.c0 { path class=(frame::curve_class(0)) d=(sent_lines(&self.sent, &x, &y)) {} }
            @for (index, kind) in self.retransmitted.iter().enumerate() {
                g class=(format!("c{}", (MARKS_FROM + index) % 6)) {
                    path class=(mark_class(1 + index)) d=(marks(index, &kind.spans, &x, &y)) {}
                }
            }
        };
        html! {
            (frame::picture(&self.title, &self.words(), HEIGHT, &inside))
            (self.legend(has_edge))
        }
    }

    fn scales(&self) -> (Scale, Scale) {
        let sent = self.sent.iter().map(|span| span.end_s);
        let times = sent.chain(self.acked.iter().map(|acked| acked.at_s));
        let x = Scale::new(times, false, (LEFT, RIGHT));
        let all = self.sent_bytes() as f64;
        let edges = self.acked.iter().filter_map(|acked| acked.edge);
        let edge = edges.max().unwrap_or(0) as f64;
        let top = all.max(edge.min(all * (1.0 + ABOVE_SHARE)));
        let y = Scale::new([top].into_iter(), false, (BOTTOM, TOP));
        (x, y.for_unit("bytes").rounded())
    }

    fn sent_bytes(&self) -> u64 {
        self.sent.iter().map(|span| span.to).max().unwrap_or(0)
    }

    /// Steps: what is acknowledged stays so until more is.
    fn acked_line(&self, x: &Scale, y: &Scale) -> String {
        let places = self.acked.iter().map(|acked| {
            let place = y.at(acked.to as f64);
            (x.at(acked.at_s), y.holds(acked.to as f64).then_some(place))
        });
        steps(places)
    }

    fn edge_line(&self, x: &Scale, y: &Scale) -> String {
        let places = self.acked.iter();
        steps(places.map(|acked| (x.at(acked.at_s), edge_of(acked, y))))
    }

    fn legend(&self, has_edge: bool) -> Markup {
        let nothing = html! {};
        html! {
            ul.legend {
                li { (frame::key(0, &nothing)) "sent" }
                li { (frame::key(ACKED, &nothing)) "acknowledged" }
                @if has_edge {
                    li { (frame::key(EDGE, &nothing)) "end of the receiver's window" }
                }
                @for (index, kind) in self.retransmitted.iter().enumerate() {
                    li {
                        svg.key viewBox="0 0 36 14" aria-hidden="true" {
                            g class=(format!("c{}", (MARKS_FROM + index) % 6)) {
                                path class=(mark_class(1 + index)) d=(mark(index, (18.0, 7.0))) {}
                            }
                        }
                        (kind.kind) " " (kind.count)
                    }
                }
            }
        }
    }

    /// The same for who cannot see it.
    fn words(&self) -> String {
        let acked = self.acked.iter().map(|acked| acked.to).max().unwrap_or(0);
        let kinds = self.retransmitted.iter();
        let kinds: Vec<String> = kinds
            .map(|kind| format!("{} {}", kind.kind, kind.count))
            .collect();
        let kinds = match kinds.is_empty() {
            true => "nothing".into(),
            false => kinds.join(", "),
        };
        format!(
            "Bytes over time: {} sent, {} acknowledged. Retransmitted: {kinds}.",
            human::bytes(self.sent_bytes()),
            human::bytes(acked)
        )
    }
}

/// The place of the end of a window, where the picture has it.
fn edge_of(acked: &AckedTo, y: &Scale) -> Option<f64> {
    let edge = acked.edge? as f64;
    y.holds(edge).then(|| y.at(edge))
}

fn sent_lines(sent: &[Span], x: &Scale, y: &Scale) -> String {
    let line = |span: &Span| {
        let (begin, end) = (x.at(span.begin_s), x.at(span.end_s));
        let (from, to) = (y.at(span.from as f64), y.at(span.to as f64));
        format!("M{},{}L{},{}", n(begin), n(from), n(end), n(to))
    };
    sent.iter().map(line).collect()
}

/// A line that goes across, then up; it is parted where a place is not known.
fn steps(places: impl Iterator<Item = (f64, Option<f64>)>) -> String {
    let mut line = String::new();
    let mut is_begun = false;
    for (x, y) in places {
        let Some(y) = y else {
            is_begun = false;
            continue;
        };
        line.push_str(&match is_begun {
            true => format!("H{}V{}", n(x), n(y)),
            false => format!("M{},{}", n(x), n(y)),
        });
        is_begun = true;
    }
    line
}

/// All marks of one kind, each at the middle of its bytes.
fn marks(index: usize, spans: &[Span], x: &Scale, y: &Scale) -> String {
    let place = |span: &Span| {
        let middle = (span.from as f64 + span.to as f64) / 2.0;
        (x.at(span.begin_s), y.at(middle))
    };
    spans.iter().map(|span| mark(index, place(span))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(begin_s: f64, end_s: f64, from: u64, to: u64) -> Span {
        Span {
            begin_s,
            end_s,
            from,
            to,
        }
    }

    fn acked(at_s: f64, to: u64, edge: Option<u64>) -> AckedTo {
        AckedTo { at_s, to, edge }
    }

    #[test]
    fn lines_and_marks_are_those_of_the_bytes() {
        let sequence = Sequence {
            sent: vec![span(0.0, 1.0, 0, 1000), span(2.0, 2.0, 1000, 2000)],
            acked: vec![acked(1.0, 1000, Some(2000)), acked(3.0, 2000, None)],
            retransmitted: vec![Retransmitted {
                kind: "fast retransmission",
                count: 5,
                spans: vec![span(2.0, 2.0, 0, 1000)],
            }],
            ..Sequence::default()
        };
        let page = sequence.render().into_string();
        assert_eq!(page.matches("<path class=\"curve").count(), 3, "{page}");
        assert_eq!(
            page.matches("<path class=\"ring").count(),
            2,
            "the mark and its key"
        );
        for told in [
            "fast retransmission 5",
            "end of the receiver's window",
            "1.95 KiB sent, 1.95 KiB acknowledged",
        ] {
            assert!(page.contains(told), "{told}: {page}");
        }
        let places = [
            (0.0, Some(9.0)),
            (1.0, None),
            (2.0, Some(5.0)),
            (3.0, Some(4.0)),
        ];
        assert_eq!(steps(places.into_iter()), "M0,9M2,5H3V4");
    }

    #[test]
    fn a_window_far_above_leaves_the_bytes_their_room() {
        let sequence = Sequence {
            sent: vec![span(0.0, 1.0, 0, 1024)],
            acked: vec![acked(1.0, 1024, Some(4 << 20))],
            ..Sequence::default()
        };
        let (_, y) = sequence.scales();
        assert!(y.holds(1024.0) && !y.holds(4096.0));
        let page = sequence.render().into_string();
        assert!(!page.contains("receiver's window"), "{page}");
        let nothing = Sequence::default().render().into_string();
        assert!(nothing.contains("No payload"), "{nothing}");
    }
}
