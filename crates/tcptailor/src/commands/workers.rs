//! Child processes that hold the connections where the process that was named holds none and
//! listens nowhere: what it has started works for itself.

use std::collections::{BTreeMap, BTreeSet};

use base::{FlowSample, human};
use linux::{NetnsHandle, ScanRequest, SockDiag, SocketOwners, supervise};

use super::watching::{netns_of_process, serving};
use crate::exit::Problem;

/// Workers that are told of, at most.
const TOLD_MAX: usize = 5;

/// Refuses a process that has no connection while its children have some; those of a server count
/// as its own.
///
/// # Errors
/// Names them.
pub(crate) fn check_has_connections(pid: u32) -> Result<(), Problem> {
    match of(pid).filter(|_| serving(pid).is_empty()) {
        Some(workers) => Err(
            Problem::failed(format!("process {pid} has no TCP connection"))
                .hint(format!("its child processes have: {workers}")),
        ),
        None => Ok(()),
    }
}

/// `2 connections of 4128 (nginx), 1 of 4127 (nginx)`: children of a process that has no connection
/// itself, those with most first; `None` where it has, or none of them has.
pub(crate) fn of(pid: u32) -> Option<String> {
    let owners = SocketOwners::of_processes([pid]);
    let descendants = supervise::descendants(pid);
    let children = SocketOwners::of_processes(descendants.iter().copied());
    let mut counts: BTreeMap<(u32, String), u64> = BTreeMap::new();
    for socket in sockets_of(pid, &descendants)? {
        let inode = socket.inode.unwrap_or_default();
        if !owners.of(inode).is_empty() {
            return None;
        }
        for owner in children.of(inode) {
            let process = &owner.process;
            *counts
                .entry((process.pid, process.command.clone()))
                .or_default() += 1;
        }
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|&(_, connections)| std::cmp::Reverse(connections));
    let (first, rest) = counts.split_first()?;
    let mut told = vec![format!(
        "{} of {} ({})",
        human::count(first.1, "connection"),
        first.0.0,
        first.0.1
    )];
    let others = rest.iter().take(TOLD_MAX - 1);
    told.extend(
        others.map(|((pid, command), connections)| format!("{connections} of {pid} ({command})")),
    );
    if counts.len() > TOLD_MAX {
        told.push(format!("{} more", counts.len() - TOLD_MAX));
    }
    Some(told.join(", "))
}

/// All TCP sockets of the namespaces that these processes are in: a child may have been started in
/// another one, as by `ip netns exec`. `None` where those of `pid` cannot be listed.
fn sockets_of(pid: u32, descendants: &BTreeSet<u32>) -> Option<Vec<FlowSample>> {
    let name = |pid: u32| std::fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    let list = |pid: u32| {
        let netns = NetnsHandle::open(&netns_of_process(pid)).ok()?;
        let mut sockets = SockDiag::open_in(&netns).ok()?;
        sockets.scan(&ScanRequest::default()).ok()
    };
    let mut seen = BTreeSet::from([name(pid)]);
    let mut sockets = list(pid)?;
    for child in descendants {
        if seen.insert(name(*child)) {
            sockets.extend(list(*child).unwrap_or_default());
        }
    }
    Some(sockets)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::OwnedFd;
    use std::process::{Command, Stdio};

    use super::*;

    /// A shell that has handed its connection on to a child.
    #[test]
    fn who_has_the_connections_of_a_server_is_told() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let client = TcpStream::connect(listener.local_addr().expect("its own")).expect("loopback");
        let (accepted, _) = listener.accept().expect("one waits");
        let mut shell = Command::new("sh")
            .args([
                "-c",
                "exec 3<&0 0</dev/null; cat <&3 3<&- & echo $!; exec 3<&-; wait",
            ])
            .stdin(OwnedFd::from(accepted))
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let mut line = String::new();
        let stdout = shell.stdout.take().expect("piped");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).expect("text");
        let worker: u32 = line.trim().parse().expect("a number");
        // The shell closes its own descriptor just behind that line.
        let told = (0..100).find_map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            of(shell.id()).filter(|told| told.contains("(cat)"))
        });
        let expected = format!("1 connection of {worker} (cat)");
        assert_eq!(told.as_deref(), Some(expected.as_str()));
        assert_eq!(of(worker), None, "it has one itself");
        let refused = check_has_connections(shell.id()).expect_err("it has none");
        assert!(
            refused.to_string().contains("has no TCP connection"),
            "{refused}"
        );
        drop(client);
        shell.wait().expect("cat ends with its input");
    }
}
