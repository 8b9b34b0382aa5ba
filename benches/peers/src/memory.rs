//! What connections cost in memory.

use std::fs;

use anyhow::Context;

/// What the kernel keeps of each socket, one object of each kind. Only the first kind is counted,
/// as other programs make files and directory entries all the time. Packets are not among them:
/// the kernel accounts for these with the buffers.
const SOCKET_SLABS: [&str; 4] = ["TCP", "sock_inode_cache", "filp", "dentry"];
const PAGE_BYTES: f64 = 4096.0;

/// Bytes: of a process what is its own (the proportional set size of `smaps_rollup`), or of the
/// kernel the objects of sockets and the buffers of all TCP.
pub(crate) fn used(pid: u32, kernel: bool) -> anyhow::Result<f64> {
    if kernel {
        kernel_used()
    } else {
        process_used(pid)
    }
}

fn process_used(pid: u32) -> anyhow::Result<f64> {
    let path = format!("/proc/{pid}/smaps_rollup");
    let text = fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    let kib = line.and_then(|rest| rest.trim().strip_suffix("kB"));
    Ok(number(kib, &path)? * 1024.0)
}

fn kernel_used() -> anyhow::Result<f64> {
    let path = "/proc/slabinfo";
    let text = fs::read_to_string(path).with_context(|| format!("reading {path}"))?;
    let (mut sockets, mut bytes_each) = (0.0, 0.0);
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let name = words.next().unwrap_or_default();
        if SOCKET_SLABS.contains(&name) {
            let active = number(words.next(), path)?;
            bytes_each += number(words.nth(1), path)?;
            if name == "TCP" {
                sockets = active;
            }
        }
    }
    let bytes = sockets * bytes_each;
    let path = "/proc/net/sockstat";
    let text = fs::read_to_string(path).with_context(|| format!("reading {path}"))?;
    let tcp = text.lines().find_map(|line| line.strip_prefix("TCP:"));
    let pages = tcp.and_then(|rest| {
        rest.split_whitespace()
            .skip_while(|word| *word != "mem")
            .nth(1)
    });
    Ok(bytes + number(pages, path)? * PAGE_BYTES)
}

fn number(text: Option<&str>, path: &str) -> anyhow::Result<f64> {
    let number = text.and_then(|text| text.trim().parse().ok());
    number.with_context(|| format!("{path} looks different from what this program knows"))
}
