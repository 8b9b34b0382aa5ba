//! Timestamps that are old, ahead or missing, ECN, windows that shrink and shut, and keepalive
//! probes.

use base::Rng;
use packet_script::{Happening, Observed};

use super::draft::Draft;

const STEPS: u32 = 26;
const REST_MS: u64 = 1500;
/// The peer's clock at the start, in milliseconds.
const PEER_CLOCK: u64 = 100_000;

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
    has_timestamps: bool,
    has_ecn: bool,
    next: u64,
    acked: u64,
    sent: u64,
    window: u64,
}

impl Walk {
    fn begin(seed: u64) -> Self {
        let mut rng = Rng::new(seed, "clocks");
        let (has_timestamps, has_ecn) = (rng.below(4) > 0, rng.below(2) == 0);
        let mut text = format!("about  Odd clocks at random: {seed}.\n");
        if rng.below(3) == 0 {
            text.push_str("set keepalive 1s\nset keepalive_interval 1s\n");
        }
        let ecn = if has_ecn { " ECE CWR" } else { "" };
        let ts = if has_timestamps { " ts" } else { "" };
        text.push_str(&format!(
            "+0 listen\n@0ms in SYN{ecn} win 20000 mss 1000 sackok{ts} wscale 0\n\
             @20ms in ack 1 win 20000\n@20ms accept\n"
        ));
        Self {
            draft: Draft::new(rng, text),
            has_timestamps,
            has_ecn,
            next: 1,
            acked: 1,
            sent: 1,
            window: 20_000,
        }
    }

    fn step(&mut self) {
        let waits = [0, 0, 0, 1, 5, 20, 45, 70, 150, 300, 700, 1500];
        let seen = self.draft.wait(&waits);
        self.sent = seen.iter().filter_map(sent_end).max().unwrap_or(1);
        match self.draft.rng.below(16) {
            0..4 => {
                let bytes = self.draft.pick(&[1, 100, 1000, 3000, 5000]);
                self.draft.push(&format!("write {bytes} -> *"));
            }
            4..8 => {
                self.acked = self.draft.pick(&[self.acked, self.sent, self.sent]);
                self.acknowledge();
            }
            8..10 => {
                self.window = self.draft.pick(&[0, 0, 100, 500, 2000, 20_000]);
                self.acknowledge();
            }
            10..14 => self.data(),
            14 => {
                let bytes = self.draft.pick(&[10, 20_000]);
                self.draft.push(&format!("read {bytes} -> *"));
            }
            _ => {
                // A probe of the peer: the byte before the next one, or none.
                let seq = self.next - 1;
                let end = self.draft.pick(&[seq, seq + 1]);
                let what = match end == seq || seq == 0 {
                    true => format!("seq {seq}"),
                    false => format!("data {seq}..{end}"),
                };
                let line = format!("in {what} ack {} win {}", self.acked, self.window);
                self.draft.push(&line);
            }
        }
    }

    /// Timestamps and ECN of a packet.
    fn marks(&mut self) -> String {
        let mut words = String::new();
        if self.has_timestamps {
            let now = PEER_CLOCK + self.draft.clock_ms;
            let draft = &mut self.draft;
            match draft.rng.below(8) {
                0 => words.push_str(" nots"),
                1 => words.push_str(&format!(" ts {}", now - draft.pick(&[1, 20, 500, 50_000]))),
                2 => words.push_str(&format!(" ts {}", now + draft.pick(&[5, 50]))),
                3 => words.push_str(&format!(" ts {now} echo {}", draft.pick(&[0, 1]))),
                _ => {}
            }
        }
        if self.has_ecn && self.draft.one_in(3) {
            words.push_str(
                self.draft
                    .pick(&[" ECE", " CWR", " ECE CWR", " ce", " ect0"]),
            );
        }
        words
    }

    fn acknowledge(&mut self) {
        let marks = self.marks();
        let (ack, win) = (self.acked, self.window);
        self.draft.push(&format!("in ack {ack} win {win}{marks}"));
    }

    fn data(&mut self) {
        let size = self.draft.pick(&[1, 100, 1000]);
        let away = self.draft.pick(&[0, 0, 0, 0, 1000]);
        let start = match self.draft.one_in(6) {
            true => self.next.saturating_sub(size).max(1),
            false => self.next + away,
        };
        let end = start + size;
        let marks = self.marks();
        let (ack, win) = (self.acked, self.window);
        let line = format!("in data {start}..{end} ack {ack} win {win}{marks}");
        self.draft.push(&line);
        // With an old timestamp it is not taken, and its number is used again.
        let is_odd = marks.contains(" ts ") || marks.contains("nots");
        if start <= self.next && !is_odd {
            self.next = self.next.max(end);
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
