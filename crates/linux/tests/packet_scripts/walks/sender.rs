//! A host that sends: its peer acknowledges, SACKs, writes, changes its window and ends.

use std::fmt::Write as _;

use base::Rng;
use packet_script::{Happening, Observed};

use super::draft::{Draft, pick};
use super::settings::disturb;

/// Steps of a walk.
const STEPS: u32 = 30;
/// How long after the last step it is watched.
const REST_MS: u64 = 900;

/// The script of the walk `seed`.
pub(super) fn script(seed: u64) -> String {
    walk(seed, "", false)
}

/// The walk of a host with these lines of settings; `is_disturbed`: they change on the way.
pub(super) fn walk(seed: u64, settings: &str, is_disturbed: bool) -> String {
    let mut walk = Walk::begin(seed, settings, is_disturbed);
    for _ in 0..STEPS {
        walk.step();
    }
    walk.draft.clock_ms += REST_MS;
    walk.look();
    walk.push("none");
    walk.draft.text
}

struct Walk {
    draft: Draft,
    mss: u64,
    has_sack: bool,
    /// The last byte that was written.
    written: u64,
    /// Ends of the segments that left, from our stack.
    sent_ends: Vec<u64>,
    /// What the peer acknowledged.
    acked: u64,
    /// Ends of what the peer sent: without a gap, and at most.
    peer_next: u64,
    peer_high: u64,
    window: u64,
    host_is_done: bool,
    peer_is_done: bool,
    /// Settings change, and routers report errors.
    is_disturbed: bool,
}

impl Walk {
    fn begin(seed: u64, settings: &str, is_disturbed: bool) -> Self {
        let mut rng = Rng::new(seed, "walk");
        let mss = pick(&mut rng, &[536, 1000, 1000, 1460]);
        let has_sack = rng.below(4) > 0;
        let mut text = format!("about  A walk at random: {seed}.\npeer mss {mss}");
        if !has_sack {
            text.push_str(" nosack");
        }
        if rng.below(3) == 0 {
            text.push_str(" nots");
        }
        let window = pick(&mut rng, &[3000, 20_000, 65_535]);
        let _ = writeln!(text, " win {window}");
        if rng.below(3) == 0 {
            text.push_str("set nodelay on\n");
        }
        text.push_str(settings);
        let side = pick(&mut rng, &["active", "passive"]);
        let _ = writeln!(text, "+0 established {side} rtt 20ms");
        Self {
            draft: Draft::new(rng, text),
            mss,
            has_sack,
            written: 0,
            sent_ends: vec![1],
            acked: 1,
            peer_next: 1,
            peer_high: 1,
            window,
            host_is_done: false,
            peer_is_done: false,
            is_disturbed,
        }
    }

    fn step(&mut self) {
        let waits = [0, 0, 0, 1, 5, 12, 20, 20, 45, 70, 150, 300, 700];
        self.draft.clock_ms += pick(&mut self.draft.rng, &waits);
        self.look();
        if self.is_disturbed && self.draft.one_in(7) {
            let sent = *self.sent_ends.last().expect("the SYN's end");
            disturb(&mut self.draft, self.acked, sent);
            return;
        }
        match self.draft.rng.below(20) {
            0..5 if !self.host_is_done => self.write(),
            0..8 => self.acknowledge(),
            8..13 if !self.peer_is_done => self.deliver(),
            8..15 => {
                let bytes = pick(&mut self.draft.rng, &[10, 1000, 20_000]);
                self.push(&format!("read {bytes} -> *"));
            }
            15 => self.change_window(),
            16 => self.set(),
            17 if self.draft.rng.below(3) == 0 && !self.host_is_done => {
                self.host_is_done = true;
                self.push("shutdown -> *");
            }
            18 if self.draft.rng.below(3) == 0 && !self.peer_is_done => self.end_peer(),
            19 => self.repeat(),
            _ => self.acknowledge(),
        }
    }

    fn look(&mut self) {
        self.sent_ends = self.draft.look().iter().filter_map(sent_end).collect();
        self.sent_ends.push(1);
        self.sent_ends.sort_unstable();
        self.sent_ends.dedup();
    }

    fn push(&mut self, step: &str) {
        self.draft.push(step);
    }

    fn write(&mut self) {
        let sizes = [
            1,
            10,
            100,
            100,
            self.mss - 1,
            self.mss,
            self.mss + 1,
            2 * self.mss,
        ];
        let bytes = match self.draft.rng.below(4) {
            0 => 1 + self.draft.rng.below(5 * self.mss),
            _ => pick(&mut self.draft.rng, &sizes),
        };
        let how = pick(
            &mut self.draft.rng,
            &["", "", "", "", "", "", " more", " urgent"],
        );
        self.written += bytes;
        self.push(&format!("write {bytes}{how} -> *"));
    }

    fn acknowledge(&mut self) {
        let ends: Vec<u64> = self
            .sent_ends
            .iter()
            .copied()
            .filter(|end| *end >= self.acked)
            .collect();
        let ack = match self.draft.rng.below(4) {
            0 => self.acked,
            1 => *ends.last().unwrap_or(&self.acked),
            _ if ends.is_empty() => self.acked,
            _ => pick(&mut self.draft.rng, &ends),
        };
        self.acked = ack;
        let behind: Vec<u64> = ends.into_iter().filter(|end| *end >= ack).collect();
        let mut line = format!("in ack {ack} win {}", self.window);
        if self.has_sack && behind.len() > 2 && self.draft.rng.below(2) == 0 {
            let from = 1 + self.draft.rng.below(behind.len() as u64 - 2) as usize;
            let to = from + 1 + self.draft.rng.below((behind.len() - from) as u64 - 1) as usize;
            let _ = write!(line, " sack {}..{}", behind[from], behind[to]);
        }
        self.push(&line);
    }

    fn deliver(&mut self) {
        let size = pick(&mut self.draft.rng, &[1, 100, 536, self.mss, self.mss]);
        let start = match self.draft.rng.below(5) {
            0 => self.peer_high + pick(&mut self.draft.rng, &[1, 100, self.mss]),
            1 => 1 + self.draft.rng.below(self.peer_high),
            _ => self.peer_next,
        };
        let end = start + size;
        let push = pick(&mut self.draft.rng, &["", " PSH"]);
        self.push(&format!(
            "in data {start}..{end}{push} ack {} win {}",
            self.acked, self.window
        ));
        if start <= self.peer_next {
            self.peer_next = self.peer_next.max(end);
        }
        self.peer_high = self.peer_high.max(end);
    }

    fn change_window(&mut self) {
        self.window = pick(
            &mut self.draft.rng,
            &[0, 100, 500, self.mss, 2 * self.mss, 10_000, 65_535],
        );
        self.push(&format!("in ack {} win {}", self.acked, self.window));
    }

    fn set(&mut self) {
        let what = [
            "nodelay on",
            "nodelay off",
            "cork on",
            "cork off",
            "quickack on",
            "quickack off",
        ];
        let what = pick(&mut self.draft.rng, &what);
        self.push(&format!("set {what}"));
    }

    /// The FIN comes in order and after all that the peer has sent.
    fn end_peer(&mut self) {
        if self.peer_next < self.peer_high {
            return;
        }
        self.peer_is_done = true;
        self.push(&format!(
            "in FIN seq {} ack {} win {}",
            self.peer_next, self.acked, self.window
        ));
    }

    /// A duplicate of an ACK, several times.
    fn repeat(&mut self) {
        for _ in 0..1 + self.draft.rng.below(3) {
            self.push(&format!("in ack {} win {}", self.acked, self.window));
        }
    }
}

/// The end of the data of a packet.
fn sent_end(one: &Observed) -> Option<u64> {
    let Happening::Sent(text) = &one.what else {
        return None;
    };
    let range = text.split("data ").nth(1)?.split(' ').next()?;
    range.split("..").nth(1)?.parse().ok()
}
