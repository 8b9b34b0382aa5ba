//! A host that receives: data in and out of order, twice, beyond the window; the application reads
//! in pieces, from a small buffer or late. Nothing is urgent: our stack has no mark at which reads
//! stop.

use base::Rng;

use super::draft::{Draft, pick};

const STEPS: u32 = 30;
const REST_MS: u64 = 600;

/// The script of the walk `seed`.
pub(super) fn script(seed: u64) -> String {
    let mut walk = Walk::begin(seed);
    for _ in 0..STEPS {
        walk.step();
    }
    walk.draft.end(REST_MS)
}

struct Walk {
    draft: Draft,
    mss: u64,
    /// Ends of what the peer sent: without a gap, and at most.
    next: u64,
    high: u64,
    /// What was written.
    written: u64,
    is_done: bool,
}

impl Walk {
    fn begin(seed: u64) -> Self {
        let mut rng = Rng::new(seed, "receiver");
        let mss = pick(&mut rng, &[536, 1000, 1460]);
        let mut text = format!("about  A receiver at random: {seed}.\npeer mss {mss}");
        for word in ["nosack", "nots", "nowscale"] {
            if rng.below(4) == 0 {
                text.push(' ');
                text.push_str(word);
            }
        }
        text.push('\n');
        let buffer = pick(&mut rng, &[0, 0, 3000, 10_000, 30_000]);
        if buffer > 0 {
            text.push_str(&format!("set rcvbuf {buffer}\n"));
        }
        if rng.below(4) == 0 {
            let low = pick(&mut rng, &[10, 2000, 10_000]);
            text.push_str(&format!("set rcvlowat {low}\n"));
        }
        let side = pick(&mut rng, &["active", "passive"]);
        text.push_str(&format!("+0 established {side} rtt 20ms\n"));
        Self {
            draft: Draft::new(rng, text),
            mss,
            next: 1,
            high: 1,
            written: 1,
            is_done: false,
        }
    }

    fn step(&mut self) {
        self.draft
            .wait(&[0, 0, 0, 0, 1, 5, 12, 20, 45, 70, 150, 300]);
        match self.draft.rng.below(20) {
            0..5 => self.in_order(),
            5..7 => self.train(),
            7..9 => self.beyond(),
            9..11 => self.again(),
            11 => self.far(),
            12..15 => {
                let bytes = self.draft.pick(&[1, 10, 700, 3000, 100_000]);
                self.draft.push(&format!("read {bytes} -> *"));
            }
            15 => {
                let what = [
                    "quickack on",
                    "quickack off",
                    "rcvlowat 1",
                    "rcvlowat 3000",
                    "rcvbuf 5000",
                    "rcvbuf 40000",
                ];
                let what = self.draft.pick(&what);
                self.draft.push(&format!("set {what}"));
            }
            16 => {
                let bytes = self.draft.pick(&[1, 100]);
                self.written += bytes;
                self.draft.push(&format!("write {bytes} -> *"));
            }
            17 => self.in_order(),
            18 if self.draft.one_in(3) && !self.is_done && self.next == self.high => {
                self.is_done = true;
                let next = self.next;
                self.draft.push(&format!("in FIN seq {next} ack 1"));
            }
            _ => {
                let ack = self.written;
                self.draft.push(&format!("in ack {ack} seq {}", self.next));
            }
        }
    }

    fn size(&mut self) -> u64 {
        let mss = self.mss;
        self.draft.pick(&[1, 10, 100, mss - 1, mss, mss, mss])
    }

    fn deliver(&mut self, start: u64, end: u64) {
        let push = self.draft.pick(&["", "", " PSH"]);
        let line = format!("in data {start}..{end}{push} ack 1");
        self.draft.push(&line);
        if start <= self.next {
            self.next = self.next.max(end);
        }
        self.high = self.high.max(end);
    }

    fn in_order(&mut self) {
        if self.is_done {
            return;
        }
        let size = self.size();
        self.deliver(self.next, self.next + size);
    }

    /// Several full segments at once.
    fn train(&mut self) {
        for _ in 0..2 + self.draft.rng.below(5) {
            if !self.is_done {
                self.deliver(self.next, self.next + self.mss);
            }
        }
    }

    /// Behind a gap, or in one.
    fn beyond(&mut self) {
        if self.is_done {
            return;
        }
        let size = self.size();
        let gap = self.draft.pick(&[1, 100, self.mss, 2 * self.mss]);
        let from = self.draft.pick(&[self.next, self.high, self.high]);
        self.deliver(from + gap, from + gap + size);
    }

    /// What came before, wholly or partly.
    fn again(&mut self) {
        let size = self.size();
        let start = 1 + self.draft.rng.below(self.high);
        let end = (start + size).min(self.high);
        if start < end {
            self.deliver(start, end);
        }
    }

    /// Far beyond the window.
    fn far(&mut self) {
        let far = self.draft.pick(&[20_000, 70_000, 300_000]);
        let start = self.next + far;
        let line = format!("in data {start}..{} ack 1", start + 100);
        self.draft.push(&line);
    }
}
