//! The descendants of this process, as they come and go.

use std::collections::BTreeSet;
use std::fs;

/// Processes below this one that are looked at, at most: a fork bomb is not followed to its end.
const PROCESSES_MAX: usize = 10_000;

/// Adds every process that descends from `ancestor` now to those that were seen before. Those whose
/// parents have ended are found below the process that has taken them over, which is `ancestor`
/// itself where it is a subreaper (prctl(2)).
pub(super) fn add_descendants(ancestor: u32, seen: &mut BTreeSet<u32>) {
    let mut open = vec![ancestor];
    let mut looked_at = BTreeSet::new();
    while let Some(pid) = open.pop() {
        if !looked_at.insert(pid) || looked_at.len() > PROCESSES_MAX {
            continue;
        }
        let children = children(pid);
        seen.extend(&children);
        open.extend(children);
    }
}

/// The children of all threads of a process (proc(5), `/proc/PID/task/TID/children`).
fn children(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task"));
    let threads = threads.into_iter().flatten().flatten();
    let lists =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| {
            let numbers = list
                .split_ascii_whitespace()
                .filter_map(|word| word.parse().ok());
            numbers.collect::<Vec<u32>>()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::process::{Command, Stdio};

    #[test]
    fn grandchildren_are_found() {
        let mut shell = Command::new("sh")
            // A job in the background reads nothing unless it is told from where.
            .args(["-c", "exec 3<&0; cat <&3 & echo $!; cat <&3; wait"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let mut number = String::new();
        let mut stdout = shell.stdout.take().expect("piped");
        while !number.ends_with('\n') {
            let mut byte = [0];
            stdout.read_exact(&mut byte).expect("a line");
            number.push(char::from(byte[0]));
        }
        let mut seen = BTreeSet::new();
        add_descendants(std::process::id(), &mut seen);
        let below = {
            let mut seen = BTreeSet::new();
            add_descendants(shell.id(), &mut seen);
            seen
        };
        drop(shell.stdin.take());
        shell.wait().expect("our child");
        let grandchild: u32 = number.trim().parse().expect("a number");
        assert!(seen.contains(&shell.id()), "{seen:?}");
        assert!(seen.contains(&grandchild), "{seen:?}");
        assert!(below.contains(&grandchild), "{below:?}");
        assert!(!below.contains(&shell.id()), "{below:?}");
    }
}
