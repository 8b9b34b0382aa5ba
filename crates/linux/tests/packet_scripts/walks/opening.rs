//! Opening and closing: odd options, what is repeated, out of range or out of order, resets, and
//! both ends that close.

use base::Rng;
use packet_script::{Happening, Observed};

use super::draft::{Draft, pick};

const STEPS: u32 = 22;
const REST_MS: u64 = 900;
const WAITS_MS: &[u64] = &[0, 0, 1, 5, 20, 45, 150, 300, 600];

/// The script of the walk `seed`.
pub(super) fn script(seed: u64) -> String {
    let rng = Rng::new(seed, "opening");
    let text = format!("about  An opening and closing at random: {seed}.\n");
    let mut walk = Walk {
        draft: Draft::new(rng, text),
        options: String::new(),
        next: 1,
        sent: 1,
        is_open: false,
        is_let_go: false,
    };
    walk.open();
    for _ in 0..STEPS {
        walk.step();
    }
    walk.draft.end(REST_MS)
}

struct Walk {
    draft: Draft,
    /// Of the peer's SYN.
    options: String,
    /// End of what the peer sent in order.
    next: u64,
    /// End of what our stack sent.
    sent: u64,
    /// The application has the connection.
    is_open: bool,
    /// It has let it go, or a new one may have come.
    is_let_go: bool,
}

impl Walk {
    fn wait(&mut self) {
        let seen = self.draft.wait(WAITS_MS);
        self.sent = seen.iter().filter_map(sent_end).max().unwrap_or(1).max(1);
        self.is_open |= seen.iter().any(is_accepted);
    }

    fn draw_options(&mut self) {
        let rng = &mut self.draft.rng;
        let mut options = format!(" win {}", pick(rng, &[0, 500, 20_000, 65_535]));
        if rng.below(6) > 0 {
            let mss = pick(rng, &[1, 48, 100, 536, 1460, 1460, 9000]);
            options.push_str(&format!(" mss {mss}"));
        }
        if rng.below(3) > 0 {
            options.push_str(" sackok");
        }
        if rng.below(3) > 0 {
            options.push_str(" ts");
        }
        if rng.below(3) > 0 {
            let shift = pick(rng, &[0, 2, 7, 14, 15]);
            options.push_str(&format!(" wscale {shift}"));
        }
        self.options = options;
    }

    fn open(&mut self) {
        self.draw_options();
        self.draft.clock_ms = 0;
        if self.draft.one_in(2) {
            self.is_open = true;
            self.draft.push("connect -> *");
            self.draft.clock_ms = 20;
            self.answer_syn();
        } else {
            self.draft.push("listen");
            self.syn();
            self.draft.clock_ms = 20;
            self.answer_syn_ack();
            self.draft.push("accept -> *");
        }
    }

    fn syn(&mut self) {
        let data = self.draft.pick(&["", "", "", "", " data 0..10"]);
        let line = format!("in SYN{data}{}", self.options);
        self.draft.push(&line);
    }

    /// Up to two packets that are not waited for.
    fn send_odd(&mut self, odd: &[&str]) {
        for _ in 0..self.draft.rng.below(3) {
            let line = self.draft.pick(odd);
            let line = match line.contains("SYN") {
                true => format!("{line}{}", self.options),
                false => line.to_owned(),
            };
            self.draft.push(&line);
            self.wait();
        }
    }

    /// What comes to who has sent a SYN; at last mostly what it waits for.
    fn answer_syn(&mut self) {
        let options = self.options.clone();
        let odd = [
            "in ack 0 seq 5",
            "in ack 1 seq 0",
            "in ack 2 seq 5",
            "in RST seq 0",
            "in RST seq 0 ack 0",
            "in RST seq 0 ack 2",
            "in FIN seq 0",
            "in FIN seq 0 ack 1",
            "in data 1..11 ack 1",
            "in SYN ack 0",
            "in SYN ack 2",
        ];
        self.send_odd(&odd);
        if self.draft.one_in(3) {
            self.syn();
            self.wait();
            if self.draft.one_in(2) {
                self.draft.push("in ack 1 seq 1");
                return;
            }
        }
        let data = self.draft.pick(&["", "", "", " FIN", " data 0..10"]);
        let line = format!("in SYN{data} ack 1{options}");
        self.draft.push(&line);
    }

    /// What comes to who has sent a SYN-ACK.
    fn answer_syn_ack(&mut self) {
        let odd = [
            "in ack 0 seq 1",
            "in ack 2 seq 1",
            "in ack 1 seq 0",
            "in ack 1 seq 2",
            "in data 1..11",
            "in data 11..21 ack 1",
            "in RST seq 2",
            "in RST seq 0",
            "in FIN seq 1",
            "in SYN",
            "in SYN ack 1",
            "in SYN seq 5",
        ];
        self.send_odd(&odd);
        let line = self.draft.pick(&[
            "in ack 1 seq 1",
            "in ack 1 seq 1",
            "in data 1..11 ack 1",
            "in FIN seq 1 ack 1",
            "in FIN data 1..11 ack 1",
        ]);
        self.next = match line {
            "in data 1..11 ack 1" => 11,
            "in FIN seq 1 ack 1" => 2,
            "in FIN data 1..11 ack 1" => 12,
            _ => 1,
        };
        self.draft.push(line);
    }

    fn step(&mut self) {
        self.wait();
        let calls = self.is_open && !self.is_let_go;
        match self.draft.rng.below(20) {
            0..3 if calls => {
                let bytes = self.draft.pick(&[1, 100, 3000]);
                self.draft.push(&format!("write {bytes} -> *"));
            }
            3 if calls => {
                let bytes = self.draft.pick(&[5, 20_000]);
                self.draft.push(&format!("read {bytes} -> *"));
            }
            4 if calls => {
                let how = self.draft.pick(&["", " read", " both"]);
                self.draft.push(&format!("shutdown{how} -> *"));
            }
            5 if calls => {
                if self.draft.one_in(4) {
                    self.draft.push("set linger 0s");
                }
                self.is_let_go = true;
                self.draft.push("close");
            }
            0..8 => {
                let line = format!("in ack {} seq {}", self.sent, self.next);
                self.draft.push(&line);
            }
            8..11 => self.data(),
            11..13 => self.fin(),
            13 => self.odd_ack(),
            14 if self.draft.one_in(2) => self.reset(),
            15 => {
                let at = self.draft.pick(&["", " ack 1", " seq 50", " ack 1 seq 3"]);
                let line = format!("in SYN{at}{}", self.options);
                self.draft.push(&line);
            }
            16 if self.is_let_go && self.draft.one_in(2) => {
                let line = format!("in SYN new{}", self.options);
                self.draft.push(&line);
                self.next = 1;
            }
            _ => {
                let line = format!("in ack {} seq {}", self.sent, self.next);
                self.draft.push(&line);
            }
        }
    }

    fn data(&mut self) {
        let size = self.draft.pick(&[1, 100, 1000]);
        let start = self.next + self.draft.pick(&[0, 0, 0, 1, 100]);
        let end = start + size;
        let ack = self.sent;
        self.draft
            .push(&format!("in data {start}..{end} ack {ack}"));
        if start == self.next {
            self.next = end;
        }
    }

    fn fin(&mut self) {
        let seq = self.next + self.draft.pick(&[0, 0, 0, 0, 1, 100]);
        let ack = self.draft.pick(&[self.sent, self.sent, self.sent, 1]);
        self.draft.push(&format!("in FIN seq {seq} ack {ack}"));
        if seq == self.next {
            self.next += 1;
        }
    }

    fn odd_ack(&mut self) {
        let sent = self.sent as i64;
        let ack = sent + self.draft.pick(&[1, 100, 100_000, -1, -5000, -100_000]);
        let bytes = self.draft.pick(&[0, 0, 10]);
        let next = self.next;
        let line = match bytes {
            0 => format!("in ack {ack} seq {next}"),
            _ => format!("in data {next}..{} ack {ack}", next + bytes),
        };
        self.draft.push(&line);
    }

    fn reset(&mut self) {
        let away = self.draft.pick(&[0, 1, 100, -1, -100, 70_000]);
        let seq = self.next as i64 + away;
        let ack = match self.draft.one_in(3) {
            true => format!(" ack {}", self.sent),
            false => String::new(),
        };
        self.draft.push(&format!("in RST seq {seq}{ack}"));
    }
}

fn is_accepted(one: &Observed) -> bool {
    matches!(&one.what, Happening::Called(text) if text == "Accept -> Done")
}

/// The end of a packet of the host, its FIN included.
fn sent_end(one: &Observed) -> Option<u64> {
    let Happening::Sent(text) = &one.what else {
        return None;
    };
    let word = |name: &str| text.split(name).nth(1)?.split(' ').next();
    let fin = u64::from(text.contains("FIN"));
    let end = match word("data ") {
        Some(range) => range.split("..").nth(1)?.parse().ok()?,
        None => word("seq ").and_then(|seq| seq.parse().ok()).unwrap_or(0),
    };
    Some(end + fin)
}
