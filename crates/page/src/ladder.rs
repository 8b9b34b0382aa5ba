//! Packets between two hosts as a ladder: time runs down, a line for each host, an arrow for each
//! packet. Steps are even; what matters is the order, and the time stands beside each.

use maud::{Markup, html};

use super::frame::{self, LEFT, LETTER, RIGHT, n};

/// Height of a packet's row.
const STEP: f64 = 28.0;
/// By which an arrow falls.
const FALL: f64 = 10.0;
/// The first packet.
const TOP: f64 = 40.0;
/// Half the width of a head.
const HEAD: f64 = 4.5;

/// Diagram of packets between two hosts over time.
#[derive(Clone, Debug, Default)]
pub struct Ladder {
    /// Title.
    pub title: String,
    /// The two hosts, left and right.
    pub hosts: [String; 2],
    /// From the first to the last.
    pub rungs: Vec<Rung>,
}

/// A packet, or a time without one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rung {
    /// When it is sent.
    pub time: String,
    /// By which host; `None` where nothing is sent.
    pub from: Option<usize>,
    /// Description.
    pub words: String,
}

impl Ladder {
    pub(super) fn render(&self) -> Markup {
        let lines = [LEFT + 8.0, RIGHT - 8.0];
        let bottom = TOP + STEP * self.rungs.len() as f64;
        let inside = html! {
            @for (x, host) in lines.iter().zip(&self.hosts) {
                @let half = host.chars().count() as f64 * LETTER / 2.0;
                text.mid x=(n(x.min(RIGHT - half))) y="16" { (host) }
                line.axis x1=(n(*x)) x2=(n(*x)) y1="22" y2=(n(bottom)) {}
            }
            @for (index, rung) in self.rungs.iter().enumerate() {
                (draw(rung, lines, TOP + STEP * index as f64))
            }
        };
        frame::picture(&self.title, &self.words(), bottom + 6.0, &inside)
    }

    /// The same for who cannot see it.
    fn words(&self) -> String {
        let rungs = self.rungs.iter().map(|rung| {
            let from = rung.from.and_then(|from| self.hosts.get(from));
            match from {
                Some(host) => format!("{} {host}: {}", rung.time, rung.words),
                None => rung.words.clone(),
            }
        });
        rungs.collect::<Vec<_>>().join("; ")
    }
}

fn draw(rung: &Rung, lines: [f64; 2], y: f64) -> Markup {
    let middle = f64::midpoint(lines[0], lines[1]);
    let Some(from) = rung.from.filter(|from| *from < 2) else {
        return html! {
            @for x in lines {
                line.silence x1=(n(x)) x2=(n(x)) y1=(n(y - 8.0)) y2=(n(y + 12.0)) {}
            }
            text.muted.mid x=(n(middle)) y=(n(y + 5.0)) { (rung.words) }
        };
    };
    let (begin, end) = (lines[from], lines[1 - from]);
    let back = if end > begin { -2.0 * HEAD } else { 2.0 * HEAD };
    let (neck, foot) = (end + back, y + FALL);
    let head = format!(
        "M{},{}L{},{}L{},{}Z",
        n(end),
        n(foot),
        n(neck),
        n(foot - HEAD),
        n(neck),
        n(foot + HEAD)
    );
    html! {
        text.muted.end x=(n(LEFT - 6.0)) y=(n(y + 4.0)) { (rung.time) }
        g class=(format!("c{from}")) {
            line.arrow x1=(n(begin)) x2=(n(neck)) y1=(n(y)) y2=(n(foot)) {}
            path.head d=(head) {}
        }
        text.mid.on-line x=(n(middle)) y=(n(y + FALL / 2.0 - 4.0)) { (rung.words) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_and_silences_are_drawn_and_told() {
        let rung = |time: &str, from, words: &str| Rung {
            time: time.into(),
            from,
            words: words.into(),
        };
        let ladder = Ladder {
            title: "a stall".into(),
            hosts: ["client".into(), "server".into()],
            rungs: vec![
                rung("0", Some(0), "57 bytes"),
                rung("", None, "200 ms without a packet"),
                rung("200 ms", Some(1), "ACK 58"),
            ],
        };
        let words = "0 client: 57 bytes; 200 ms without a packet; 200 ms server: ACK 58";
        let svg = ladder.render().into_string();
        assert!(svg.contains(words), "{svg}");
        assert_eq!(svg.matches("line class=\"arrow\"").count(), 2);
        assert_eq!(svg.matches("line class=\"silence\"").count(), 2);
    }
}
