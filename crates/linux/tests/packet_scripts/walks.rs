//! Walks at random: scripts that nobody wrote. What the application calls and what the peer sends
//! is drawn; our stack and the kernel are compared, packet by packet.
//!
//! A walk keeps away from the moments at which a timer fires, whose order with what comes in would
//! be chance on the kernel. It begins with a handshake and draws from what the connection did on
//! our stack so far, so that acknowledgments are of data that was sent.

use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base::Rng;
use packet_script::{Happening, Observed, PacketScript, StackHost, observe};

use super::host::KernelHost;

/// Steps of a walk.
const STEPS: u32 = 30;
/// The script's clock after the handshake.
const BEGIN_MS: u64 = 60;
/// A timer of our stack and the kernel's may be a tick and the machine's slack apart, and one part
/// in so many of the time that a measured round trip and backoff have added up to.
const TIMER_APART_MS: u64 = 9;
const TIMER_APART_PART: u64 = 16;
/// How long after the last step it is watched.
const REST_MS: u64 = 900;

/// What the kernel does in a walk.
fn walk_on_kernel(script: &PacketScript) -> Vec<Observed> {
    let play = || {
        let mut host = KernelHost::create(&script.setup)?;
        observe(script, &mut host)
    };
    // In a thread of its own, which takes its namespace with it.
    let seen = std::thread::scope(|scope| scope.spawn(play).join());
    let seen = seen.expect("a walk that panics is a mistake of the test");
    seen.expect("a walk that the kernel can play")
}

/// How a walk ended.
enum Walked {
    Agrees,
    Differs(String),
    /// The kernel did not do the same twice.
    SaysNothing,
}

/// How often a walk is tried on the kernel.
const WALK_TRIES: usize = 6;

/// Compares our stack and the kernel. What differs must be the same on the kernel twice: a walk
/// lasts seconds, in which a processor may well be away.
fn walk(seed: u64) -> Walked {
    let text = script(seed);
    let script = parse(&text);
    let ours = on_stack(&script);
    let mut others: Vec<Vec<Observed>> = Vec::new();
    for _ in 0..WALK_TRIES {
        let theirs = walk_on_kernel(&script);
        let Some(why) = difference(&ours, &theirs) else {
            return Walked::Agrees;
        };
        let is_same = |other: &Vec<Observed>| difference(other, &theirs).is_none();
        if others.iter().any(is_same) {
            return Walked::Differs(format!("{text}{why}"));
        }
        others.push(theirs);
    }
    Walked::SaysNothing
}

/// Seeds that are walked where `WALKS` names no others, as in `WALKS=300..600`.
const WALKS: Range<u64> = 0..100;
/// This many of a hundred walks may differ: docs/behaviours.md says in what.
const DIFFERENT_MAX: usize = 30;
/// Walks at once; they wait most of the time.
const THREADS: usize = 48;

#[test]
fn random_walks_agree_with_the_kernel() {
    if let Err(why) = super::host::may_run() {
        return super::asking::skip(why);
    }
    let seeds = chosen_walks();
    let next = AtomicU64::new(seeds.start);
    let walked = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        break;
                    }
                    let row = (seed, walk(seed));
                    walked.lock().expect("nobody panics with it").push(row);
                }
            });
        }
    });
    let mut walked = walked.into_inner().expect("nobody panics with it");
    walked.sort_by_key(|(seed, _)| *seed);
    let (mut differ, mut settled) = (Vec::new(), 0);
    for (seed, how) in &walked {
        match how {
            Walked::Agrees => settled += 1,
            Walked::Differs(how) => {
                settled += 1;
                differ.push(*seed);
                println!("walk {seed} differs:\n{how}");
            }
            Walked::SaysNothing => println!("nothing is said of walk {seed}"),
        }
    }
    let report = format!("{} of {settled} walks differ: {differ:?}", differ.len());
    println!("{report}");
    // A kernel that never does the same twice says nothing of us.
    assert!(2 * settled >= walked.len(), "{report}");
    assert!(100 * differ.len() <= DIFFERENT_MAX * settled, "{report}");
}

fn chosen_walks() -> Range<u64> {
    let Ok(text) = std::env::var("WALKS") else {
        return WALKS;
    };
    let parsed = text
        .split_once("..")
        .and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    parsed.unwrap_or_else(|| panic!("WALKS is {text}, not like 300..600"))
}

/// The script of the walk `seed`.
fn script(seed: u64) -> String {
    let mut walk = Walk::begin(seed);
    for _ in 0..STEPS {
        walk.step();
    }
    walk.clock_ms += REST_MS;
    walk.look();
    walk.push("none");
    walk.text
}

struct Walk {
    rng: Rng,
    text: String,
    clock_ms: u64,
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
}

impl Walk {
    fn begin(seed: u64) -> Self {
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
        let side = pick(&mut rng, &["active", "passive"]);
        let _ = writeln!(text, "+0 established {side} rtt 20ms");
        Self {
            rng,
            text,
            clock_ms: BEGIN_MS,
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
        }
    }

    fn push(&mut self, step: &str) {
        let _ = writeln!(self.text, "@{}ms {step}", self.clock_ms);
    }

    fn step(&mut self) {
        let waits = [0, 0, 0, 1, 5, 12, 20, 20, 45, 70, 150, 300, 700];
        self.clock_ms += pick(&mut self.rng, &waits);
        self.look();
        match self.rng.below(20) {
            0..5 if !self.host_is_done => self.write(),
            0..8 => self.acknowledge(),
            8..13 if !self.peer_is_done => self.deliver(),
            8..15 => {
                let bytes = pick(&mut self.rng, &[10, 1000, 20_000]);
                self.push(&format!("read {bytes} -> *"));
            }
            15 => self.change_window(),
            16 => self.set(),
            17 if self.rng.below(3) == 0 && !self.host_is_done => {
                self.host_is_done = true;
                self.push("shutdown -> *");
            }
            18 if self.rng.below(3) == 0 && !self.peer_is_done => self.end_peer(),
            19 => self.repeat(),
            _ => self.acknowledge(),
        }
    }

    /// Sees what our stack has done by now, and moves on where a timer is near.
    fn look(&mut self) {
        for _ in 0..20 {
            let seen = self.observed();
            self.sent_ends = seen.iter().filter_map(sent_end).collect();
            self.sent_ends.push(1);
            self.sent_ends.sort_unstable();
            self.sent_ends.dedup();
            let near = |at: &u64| self.clock_ms.abs_diff(*at) < apart_ms(*at);
            match timers_ms(&seen).into_iter().rfind(near) {
                Some(at) => self.clock_ms = at + apart_ms(at),
                None => return,
            }
        }
    }

    fn observed(&self) -> Vec<Observed> {
        let until = self.clock_ms + apart_ms(self.clock_ms);
        let text = format!("{}@{until}ms none\n", self.text);
        on_stack(&parse(&text))
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
        let bytes = match self.rng.below(4) {
            0 => 1 + self.rng.below(5 * self.mss),
            _ => pick(&mut self.rng, &sizes),
        };
        let how = pick(&mut self.rng, &["", "", "", "", "", "", " more", " urgent"]);
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
        let ack = match self.rng.below(4) {
            0 => self.acked,
            1 => *ends.last().unwrap_or(&self.acked),
            _ if ends.is_empty() => self.acked,
            _ => pick(&mut self.rng, &ends),
        };
        self.acked = ack;
        let behind: Vec<u64> = ends.into_iter().filter(|end| *end >= ack).collect();
        let mut line = format!("in ack {ack} win {}", self.window);
        if self.has_sack && behind.len() > 2 && self.rng.below(2) == 0 {
            let from = 1 + self.rng.below(behind.len() as u64 - 2) as usize;
            let to = from + 1 + self.rng.below((behind.len() - from) as u64 - 1) as usize;
            let _ = write!(line, " sack {}..{}", behind[from], behind[to]);
        }
        self.push(&line);
    }

    fn deliver(&mut self) {
        let size = pick(&mut self.rng, &[1, 100, 536, self.mss, self.mss]);
        let start = match self.rng.below(5) {
            0 => self.peer_high + pick(&mut self.rng, &[1, 100, self.mss]),
            1 => 1 + self.rng.below(self.peer_high),
            _ => self.peer_next,
        };
        let end = start + size;
        let push = pick(&mut self.rng, &["", " PSH"]);
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
            &mut self.rng,
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
        let what = pick(&mut self.rng, &what);
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
        for _ in 0..1 + self.rng.below(3) {
            self.push(&format!("in ack {} win {}", self.acked, self.window));
        }
    }
}

/// How far apart a timer of the two may be that fires so late in the walk.
const fn apart_ms(at_ms: u64) -> u64 {
    TIMER_APART_MS + at_ms / TIMER_APART_PART
}

/// What a walk is on our stack.
fn on_stack(script: &PacketScript) -> Vec<Observed> {
    let mut host = StackHost::new(&script.setup).expect("a setup that our stack has");
    observe(script, &mut host).expect("a script that our stack can play")
}

/// A walk as a script.
fn parse(text: &str) -> PacketScript {
    PacketScript::parse("walk", text).unwrap_or_else(|wrong| panic!("{wrong:?}\n{text}"))
}

/// The first difference between what the two did; `None`: there is none but the lateness of
/// timers.
fn difference(ours: &[Observed], theirs: &[Observed]) -> Option<String> {
    for at in 0..ours.len().max(theirs.len()) {
        let (Some(one), Some(other)) = (ours.get(at), theirs.get(at)) else {
            return Some(told(ours, theirs, at));
        };
        let apart = one.at.abs_diff(other.at).as_millis() as u64;
        let is_close = apart <= apart_ms(one.at.as_millis() as u64);
        let counts = matches!(one.what, Happening::Sent(_));
        if !is_equal(&one.what, &other.what) || counts && !is_close {
            return Some(told(ours, theirs, at));
        }
    }
    None
}

/// The second shutdown of a socket fails on the kernel where the connection is over; our hosts
/// have forgotten it.
fn is_equal(ours: &Happening, theirs: &Happening) -> bool {
    match (ours, theirs) {
        (Happening::Called(ours), Happening::Called(theirs)) => {
            ours == theirs || ours.starts_with("Shutdown")
        }
        _ => ours == theirs,
    }
}

fn told(ours: &[Observed], theirs: &[Observed], at: usize) -> String {
    let lines = |seen: &[Observed]| {
        let from = at.saturating_sub(6).min(seen.len());
        let to = (at + 4).min(seen.len());
        let line = |one: &Observed| format!("    {:?} {:?}\n", one.at, one.what);
        seen[from..to].iter().map(line).collect::<String>()
    };
    format!("  ours:\n{}  kernel:\n{}", lines(ours), lines(theirs))
}

/// When packets left that no step called for.
fn timers_ms(seen: &[Observed]) -> Vec<u64> {
    let mut step = Duration::ZERO;
    let mut found = Vec::new();
    for one in seen {
        match one.what {
            Happening::Sent(_) if one.at > step => found.push(one.at.as_millis() as u64),
            Happening::Sent(_) => {}
            _ => step = one.at,
        }
    }
    found
}

/// The end of the data of a packet.
fn sent_end(one: &Observed) -> Option<u64> {
    let Happening::Sent(text) = &one.what else {
        return None;
    };
    let range = text.split("data ").nth(1)?.split(' ').next()?;
    range.split("..").nth(1)?.parse().ok()
}

fn pick<T: Copy>(rng: &mut Rng, from: &[T]) -> T {
    from[rng.below(from.len() as u64) as usize]
}
