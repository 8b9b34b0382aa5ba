//! The packet scripts on the kernel: each in a network namespace of its own, behind a TUN device
//! whose other end is the script. Needs `CAP_SYS_ADMIN`; without it the test says that it was
//! skipped, and fails instead where `REQUIRE_KERNEL` is set.
//!
//! `PACKET_SCRIPT=nagle/` runs those with that in their path, each once.

#[path = "../asking/mod.rs"]
mod asking;
mod host;
mod socket;
mod tun;
mod wire;
mod witness;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use stack::packet_script::{Engine, PacketScript, run};

use host::KernelHost;
use witness::Witness;

/// Scripts that run at once; they wait most of the time.
const THREADS: usize = 48;
/// The machine is shared: a script that fails is tried again, for what fails each time is wrong.
const FAILURES: usize = 8;
/// How often a script is tried in all, where processors are away at each failure.
const ATTEMPTS: usize = 32;
/// Names those that are to run, by a part of their path.
const CHOSEN: &str = "PACKET_SCRIPT";

#[test]
fn scripts_hold_on_the_kernel() {
    if let Err(why) = host::may_run() {
        return asking::skip(why);
    }
    let wanted = std::env::var(CHOSEN).unwrap_or_default();
    let failures_max = if wanted.is_empty() { FAILURES } else { 1 };
    let all = scripts();
    let mut chosen: Vec<&(String, PacketScript)> = all
        .iter()
        .filter(|(name, script)| name.contains(&wanted) && script.runs_on(Engine::Kernel))
        .collect();
    if chosen.iter().any(|(_, script)| host::needs_ip(script)) && asking::witness("ip").is_none() {
        chosen.retain(|(_, script)| !host::needs_ip(script));
    }
    assert!(!chosen.is_empty(), "no script has `{wanted}` in its path");
    let next = AtomicUsize::new(0);
    let tried = Mutex::new(Vec::new());
    let witness = Witness::default();
    witness.look_during(|| {
        std::thread::scope(|scope| {
            for _ in 0..THREADS.min(chosen.len()) {
                scope.spawn(|| {
                    let chosen_next = || chosen.get(next.fetch_add(1, Ordering::Relaxed));
                    while let Some((name, script)) = chosen_next() {
                        let row = (name, attempt(script, failures_max, &witness));
                        tried.lock().expect("nobody panics with it").push(row);
                    }
                });
            }
        });
    });
    report(tried.into_inner().expect("nobody panics with it"));
}

/// How the attempts at a script ended.
struct Tried {
    repeated: usize,
    ending: Ending,
}

enum Ending {
    Holds,
    Fails(String),
    /// It failed each time, but while processors were away.
    SaysNothing,
}

fn report(mut tried: Vec<(&String, Tried)>) {
    tried.sort_by_key(|(name, _)| *name);
    let (mut failures, mut untold) = (Vec::new(), Vec::new());
    for (name, row) in &tried {
        match &row.ending {
            Ending::Holds => {}
            Ending::Fails(why) => failures.push(format!("{name}:{why}")),
            Ending::SaysNothing => untold.push(name.as_str()),
        }
    }
    println!(
        "{} scripts, {} repeated, {} failed",
        tried.len(),
        tried.iter().map(|(_, row)| row.repeated).sum::<usize>(),
        failures.len()
    );
    if !untold.is_empty() {
        let names = untold.join(", ");
        println!("nothing is said of {names}: processors were away at each attempt");
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Tries a script until it holds.
fn attempt(script: &PacketScript, failures_max: usize, witness: &Witness) -> Tried {
    let mut failures = 0;
    for repeated in 0..ATTEMPTS {
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
        let ending = match outcome {
            Ok(()) => Ending::Holds,
            Err(_) if witness.saw_absence_since(began) => continue,
            Err(why) => {
                failures += 1;
                if failures < failures_max {
                    continue;
                }
                Ending::Fails(why)
            }
        };
        return Tried { repeated, ending };
    }
    Tried {
        repeated: ATTEMPTS - 1,
        ending: Ending::SaysNothing,
    }
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
