//! A host that sends much over a path that loses, reorders and duplicates packets: its peer
//! acknowledges what arrives as a receiver does, with SACK blocks and D-SACKs.

use std::fmt::Write as _;

use base::Rng;
use packet_script::{Happening, Observed};

use super::draft::{Draft, pick};

/// ACKs of a walk.
const STEPS: u32 = 90;
const REST_MS: u64 = 900;
/// Data takes longer than the handshake, so that no sample of a retransmission is below the least
/// one by chance.
const SLOWER_MS: u64 = 3;
/// SACK blocks that an ACK has room for, with timestamps.
const BLOCKS_MAX: usize = 3;

/// The script of the walk `seed`.
pub(super) fn script(seed: u64) -> String {
    walk(seed, "")
}

/// The walk of a host with these lines of settings.
pub(super) fn walk(seed: u64, settings: &str) -> String {
    let mut walk = Walk::begin(seed, settings);
    for _ in 0..STEPS {
        if !walk.step() {
            break;
        }
    }
    walk.draft.end(REST_MS)
}

/// Data on its way.
struct Arrival {
    at_ms: u64,
    start: u64,
    end: u64,
}

struct Walk {
    draft: Draft,
    has_sack: bool,
    rtt_ms: u64,
    /// Of a hundred packets.
    lost: u64,
    reordered: u64,
    duplicated: u64,
    lost_acks: u64,
    /// Packets of our stack that the path has seen.
    seen: usize,
    arrivals: Vec<Arrival>,
    /// The end of what arrived without a gap.
    next: u64,
    /// What arrived behind gaps, the latest first.
    blocks: Vec<(u64, u64)>,
    writes: u32,
    /// An ACK of every segment; otherwise of every second in order.
    is_quick: bool,
    held: bool,
}

impl Walk {
    fn begin(seed: u64, settings: &str) -> Self {
        let mut rng = Rng::new(seed, "path");
        let mss = pick(&mut rng, &[1000, 1460]);
        let has_sack = rng.below(5) > 0;
        let rtt_ms = pick(&mut rng, &[21, 43, 99]);
        let mut text = format!("about  A path at random: {seed}.\n");
        if rng.below(2) == 0 {
            text.push_str("set congestion reno\n");
        }
        let _ = write!(text, "peer mss {mss}");
        if !has_sack {
            text.push_str(" nosack");
        }
        if rng.below(4) == 0 {
            text.push_str(" nots");
        }
        let _ = write!(text, "\n{settings}+0 established passive rtt {rtt_ms}ms\n");
        Self {
            has_sack,
            rtt_ms,
            lost: pick(&mut rng, &[0, 3, 10, 30]),
            reordered: pick(&mut rng, &[0, 0, 5, 20]),
            duplicated: pick(&mut rng, &[0, 0, 0, 5]),
            lost_acks: pick(&mut rng, &[0, 0, 0, 20]),
            seen: 0,
            arrivals: Vec::new(),
            next: 1,
            blocks: Vec::new(),
            writes: 1 + rng.below(4) as u32,
            is_quick: rng.below(2) == 0,
            held: false,
            draft: Draft::new(rng, text),
        }
    }

    fn has_chance(&mut self, of_hundred: u64) -> bool {
        self.draft.rng.below(100) < of_hundred
    }

    /// False at the end: nothing is on its way, and nothing more will be written.
    fn step(&mut self) -> bool {
        self.send();
        let first = self.arrivals.iter().enumerate();
        let Some((index, at_ms)) = first
            .map(|(index, one)| (index, one.at_ms))
            .min_by_key(|one| (one.1, one.0))
        else {
            return self.write();
        };
        if self.writes > 0 && self.has_chance(2) {
            self.write();
            return true;
        }
        if at_ms > self.draft.clock_ms {
            // Until then more may leave, and a timer may be near.
            self.draft.clock_ms = at_ms;
            self.send();
        }
        let arrival = self.arrivals.remove(index);
        self.deliver(&arrival);
        true
    }

    fn write(&mut self) -> bool {
        if self.writes == 0 {
            // What was lost last comes by a timer.
            self.draft.clock_ms += 400;
            self.send();
            return !self.arrivals.is_empty();
        }
        self.writes -= 1;
        let wait = self.draft.pick(&[0, 0, 5, 300]);
        self.draft.clock_ms += wait;
        self.send();
        let bytes = self.draft.pick(&[1448, 5000, 10_000, 14_480, 30_000]);
        self.draft.push(&format!("write {bytes} -> *"));
        true
    }

    /// Puts what our stack has sent on the path.
    fn send(&mut self) {
        let seen = self.draft.look();
        let sent: Vec<_> = seen.iter().filter_map(sent_data).collect();
        for (at_ms, start, end) in sent.into_iter().skip(self.seen) {
            self.seen += 1;
            for _ in 0..1 + u32::from(self.has_chance(self.duplicated)) {
                if self.has_chance(self.lost) {
                    continue;
                }
                let late = match self.has_chance(self.reordered) {
                    true => self.draft.pick(&[2, 6, 15]),
                    false => 0,
                };
                let at_ms = (at_ms + self.rtt_ms + SLOWER_MS + late).max(self.draft.clock_ms);
                self.arrivals.push(Arrival { at_ms, start, end });
            }
        }
    }

    /// The peer takes what arrives and acknowledges.
    fn deliver(&mut self, arrival: &Arrival) {
        let (start, end) = (arrival.start, arrival.end);
        let is_known = |block: &&(u64, u64)| block.0 <= start && end <= block.1;
        let is_twice = end <= self.next || self.blocks.iter().any(|block| is_known(&block));
        let is_in_order = start <= self.next && self.blocks.is_empty() && !is_twice;
        if start <= self.next {
            self.next = self.next.max(end);
        } else if !is_twice {
            self.insert(start, end);
        }
        while let Some(at) = self.blocks.iter().position(|one| one.0 <= self.next) {
            self.next = self.next.max(self.blocks.remove(at).1);
        }
        if is_in_order && !self.is_quick && !self.held {
            self.held = true;
            return;
        }
        self.held = false;
        if self.has_chance(self.lost_acks) {
            return;
        }
        let mut line = format!("in ack {}", self.next);
        let mut blocks = self.blocks.clone();
        if is_twice {
            blocks.insert(0, (start, end));
        }
        if self.has_sack && !blocks.is_empty() {
            line.push_str(" sack");
            for (start, end) in blocks.iter().take(BLOCKS_MAX) {
                let _ = write!(line, " {start}..{end}");
            }
        }
        self.draft.push(&line);
    }

    fn insert(&mut self, mut start: u64, mut end: u64) {
        self.blocks.retain(|&(from, to)| {
            let is_apart = to < start || end < from;
            if !is_apart {
                (start, end) = (start.min(from), end.max(to));
            }
            is_apart
        });
        self.blocks.insert(0, (start, end));
    }
}

/// When data left, in whole milliseconds, and its numbers.
fn sent_data(one: &Observed) -> Option<(u64, u64, u64)> {
    let Happening::Sent(text) = &one.what else {
        return None;
    };
    let range = text.split("data ").nth(1)?.split(' ').next()?;
    let (start, end) = range.split_once("..")?;
    let at_ms = one.at.as_micros().div_ceil(1000) as u64;
    Some((at_ms, start.parse().ok()?, end.parse().ok()?))
}
