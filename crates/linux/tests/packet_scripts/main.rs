//! The packet scripts on the kernel: each in a network namespace of its own, behind a TUN device
//! whose other end is the script. Needs `CAP_SYS_ADMIN`; without it the test says that it was
//! skipped, and fails instead where `REQUIRE_KERNEL` is set.
//!
//! `PACKET_SCRIPT=nagle/` runs those with that in their path, each once.

mod host;
mod socket;
mod tun;
mod wire;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use lab::packet_script::{Engine, PacketScript, run};

use host::KernelHost;

/// Scripts that run at once; they wait most of the time.
const THREADS: usize = 48;
/// The machine is shared: a script that fails is tried again, for what fails each time is wrong.
const ATTEMPTS: usize = 8;
/// Names those that are to run, by a part of their path.
const CHOSEN: &str = "PACKET_SCRIPT";

#[test]
fn scripts_hold_on_the_kernel() {
    if let Err(why) = host::may_run() {
        assert!(
            std::env::var_os("REQUIRE_KERNEL").is_none(),
            "skipped: {why}"
        );
        println!("skipped: {why}");
        return;
    }
    let wanted = std::env::var(CHOSEN).unwrap_or_default();
    let attempts = if wanted.is_empty() { ATTEMPTS } else { 1 };
    let all = scripts();
    let chosen: Vec<&(String, PacketScript)> = all
        .iter()
        .filter(|(name, script)| name.contains(&wanted) && script.runs_on(Engine::Kernel))
        .collect();
    assert!(!chosen.is_empty(), "no script has `{wanted}` in its path");
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    let again = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..THREADS.min(chosen.len()) {
            scope.spawn(|| {
                while let Some((name, script)) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (tried, outcome) = attempt(script, attempts);
                    again.fetch_add(tried - 1, Ordering::Relaxed);
                    if let Err(why) = outcome {
                        let text = format!("{name}:{why}");
                        failures.lock().expect("nobody panics with it").push(text);
                    }
                }
            });
        }
    });
    let mut failures = failures.into_inner().expect("nobody panics with it");
    failures.sort();
    let repeated = again.into_inner();
    println!(
        "{} scripts, {repeated} repeated, {} failed",
        chosen.len(),
        failures.len()
    );
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The outcome of the first attempt that holds, or of the last, and how many there were.
fn attempt(script: &PacketScript, attempts: usize) -> (usize, Result<(), String>) {
    let mut outcome = Ok(());
    for number in 1..=attempts {
        // In a thread of its own, which takes its namespace with it.
        outcome = std::thread::scope(|scope| {
            let play = || {
                let mut host = KernelHost::create(&script.setup)?;
                run(script, &mut host).map_err(|failure| failure.to_string())
            };
            scope
                .spawn(play)
                .join()
                .unwrap_or_else(|_| Err("it panicked".into()))
        });
        if outcome.is_ok() {
            return (number, outcome);
        }
    }
    (attempts, outcome)
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
