//! The packet scripts on the kernel: each in a network namespace of its own, behind a TUN device
//! whose other end is the script. Needs `CAP_SYS_ADMIN`; without it the test says that it was
//! skipped, and fails instead where `REQUIRE_KERNEL` is set.
//!
//! A script must hold in its first two tries, or in three of four. A try during which a processor
//! was away is not a result, whatever came of it, and is repeated. What fails beside the other
//! scripts, which keep the kernel's timers waiting too, is judged anew beside few, and then alone.
//! `PACKET_SCRIPT=nagle/` runs those with that in their path, and prints how each did. `walks` has
//! scripts that are drawn.

#[path = "../asking/mod.rs"]
mod asking;
mod host;
mod socket;
mod tun;
mod walks;
mod wire;
mod witness;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use packet_script::{Engine, PacketScript, run};

use host::KernelHost;
use witness::Witness;

/// Scripts that run at once; they wait most of the time.
const THREADS: usize = 48;
/// The same of those that failed beside so many: a neighbour that is busy makes hundreds fail.
const THREADS_ANEW: usize = 8;
/// This many tries hold where none fails. Most of a try is the kernel's work for its namespace.
const HELD_AT_ONCE: usize = 2;
/// This many hold otherwise, of [`TRIES`] that count.
const HELD_MIN: usize = 3;
/// Tries that count, at most: what is settled is not tried any more.
const TRIES: usize = 4;
/// How often a script is tried in all, where processors are away each time, and for how long: on a
/// machine where they are away each second, none of several seconds would ever count.
const ATTEMPTS: usize = 32;
const TIME_MAX: Duration = Duration::from_secs(90);
/// Names those that are to run, by a part of their path.
const CHOSEN: &str = "PACKET_SCRIPT";

#[test]
fn scripts_hold_on_the_kernel() {
    if let Err(why) = host::may_run() {
        return asking::skip(why);
    }
    let wanted = std::env::var(CHOSEN).unwrap_or_default();
    let all = scripts();
    let mut chosen: Vec<&(String, PacketScript)> = all
        .iter()
        .filter(|(name, script)| name.contains(&wanted) && script.runs_on(Engine::Kernel))
        .collect();
    if chosen.iter().any(|(_, script)| host::needs_ip(script)) && asking::witness("ip").is_none() {
        chosen.retain(|(_, script)| !host::needs_ip(script));
    }
    assert!(!chosen.is_empty(), "no script has `{wanted}` in its path");
    let mut settled = Vec::new();
    let mut open = chosen;
    // A script whose packets come within a tick of a bound holds in some tries, and what Linux does
    // otherwise in none.
    for (threads, round) in [
        (THREADS, "beside others"),
        (THREADS_ANEW, "beside few"),
        (1, ""),
    ] {
        let tried = attempt_all(&open, threads);
        let fails = |row: &Row<'_>| matches!(row.1.ending(), Some(Ending::Fails));
        let (failed, held): (Vec<_>, Vec<_>) = tried.into_iter().partition(fails);
        settled.extend(held);
        if threads == 1 || failed.is_empty() {
            settled.extend(failed);
            break;
        }
        for ((name, _), row) in &failed {
            println!("{name} failed {round}: {}", row.failed.join("\n"));
        }
        open = failed.into_iter().map(|(script, _)| script).collect();
    }
    report(settled, !wanted.is_empty());
}

/// A script, and how its tries ended.
type Row<'s> = (&'s (String, PacketScript), Tried);

/// Tries scripts until they are settled, so many at once.
fn attempt_all<'s>(scripts: &[&'s (String, PacketScript)], threads: usize) -> Vec<Row<'s>> {
    let next = AtomicUsize::new(0);
    let tried = Mutex::new(Vec::new());
    let witness = Witness::default();
    witness.look_during(|| {
        std::thread::scope(|scope| {
            for _ in 0..threads.min(scripts.len()) {
                scope.spawn(|| {
                    let next_script = || scripts.get(next.fetch_add(1, Ordering::Relaxed));
                    while let Some(&script) = next_script() {
                        let row = (script, attempt(&script.1, &witness));
                        tried.lock().expect("nobody panics with it").push(row);
                    }
                });
            }
        });
    });
    tried.into_inner().expect("nobody panics with it")
}

/// How the tries of a script ended.
#[derive(Debug, Default)]
struct Tried {
    /// Tries that count and held.
    held: usize,
    /// Why each of those that count and did not hold failed.
    failed: Vec<String>,
    /// Tries during which a processor was away.
    uncounted: usize,
    /// These took too long in all.
    is_over: bool,
}

enum Ending {
    Holds,
    Fails,
    /// Processors were away too often.
    SaysNothing,
}

impl Tried {
    fn ending(&self) -> Option<Ending> {
        let wanted = match self.failed.is_empty() {
            true => HELD_AT_ONCE,
            false => HELD_MIN,
        };
        if self.held >= wanted {
            Some(Ending::Holds)
        } else if self.failed.len() > TRIES - HELD_MIN {
            Some(Ending::Fails)
        } else if self.is_over || self.held + self.failed.len() + self.uncounted >= ATTEMPTS {
            Some(Ending::SaysNothing)
        } else {
            None
        }
    }

    fn counted(&self) -> usize {
        self.held + self.failed.len()
    }
}

fn report(mut tried: Vec<Row<'_>>, is_told: bool) {
    tried.sort_by_key(|((name, _), _)| name);
    let (mut failures, mut untold) = (Vec::new(), Vec::new());
    for ((name, _), row) in &tried {
        let (held, counted) = (row.held, row.counted());
        if is_told || !row.failed.is_empty() {
            println!("{name}: held in {held} of {counted} tries");
        }
        match row.ending() {
            Some(Ending::Holds) => {}
            Some(Ending::SaysNothing) => untold.push(name.as_str()),
            Some(Ending::Fails) | None => failures.push(format!(
                "{name}: held in {held} of {counted} tries: {}",
                row.failed.join("\n")
            )),
        }
    }
    let sum = |of: fn(&Tried) -> usize| tried.iter().map(|(_, row)| of(row)).sum::<usize>();
    let (held, counted) = (sum(|row| row.held), sum(Tried::counted));
    println!(
        "{} scripts held in {held} of {counted} tries ({:.1} %); {} more do not count",
        tried.len(),
        100.0 * held as f64 / counted.max(1) as f64,
        sum(|row| row.uncounted),
    );
    if !untold.is_empty() {
        let names = untold.join(", ");
        println!("nothing is said of {names}: processors were away too often");
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Tries a script until it is settled.
fn attempt(script: &PacketScript, witness: &Witness) -> Tried {
    let mut tried = Tried::default();
    let since = Instant::now();
    while tried.ending().is_none() {
        let began = Instant::now();
        // In a thread of its own, which takes its namespace with it.
        let outcome = std::thread::scope(|scope| {
            let play = || {
                let mut host = KernelHost::create(&script.setup)?;
                run(script, &mut host).map_err(|failure| failure.to_string())
            };
            scope
                .spawn(play)
                .join()
                .unwrap_or_else(|_| Err("it panicked".into()))
        });
        match outcome {
            _ if witness.saw_absence_since(began) => tried.uncounted += 1,
            Ok(()) => tried.held += 1,
            Err(why) => tried.failed.push(why),
        }
        tried.is_over = tried.uncounted > 0 && since.elapsed() > TIME_MAX;
    }
    tried
}

/// Every script, by its path below `crates/stack/scripts`.
fn scripts() -> Vec<(String, PacketScript)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../stack/scripts");
    let mut files = Vec::new();
    find(&root, &mut files);
    files.sort();
    let mut mistakes = Vec::new();
    let mut found = Vec::new();
    for path in files {
        let name = path
            .strip_prefix(&root)
            .expect("below it")
            .display()
            .to_string();
        let text = std::fs::read_to_string(&path).expect("it was listed");
        match PacketScript::parse(&name, &text) {
            Ok(script) => found.push((name, script)),
            Err(wrong) => mistakes.extend(wrong.iter().map(ToString::to_string)),
        }
    }
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
    found
}

fn find(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).expect("a directory of scripts") {
        let path = entry.expect("its entry").path();
        if path.is_dir() {
            find(&path, files);
        } else if path
            .extension()
            .is_some_and(|extension| extension == "script")
        {
            files.push(path);
        }
    }
}
