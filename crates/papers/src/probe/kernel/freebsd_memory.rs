//! Memory used on this kernel by 1000 idle connections and a busy one, with fixed buffers and with
//! automatic ones (experiment F10).
//!
//! A buffer's size is a limit here: nothing is reserved, and memory is charged for what packets
//! occupy. So beside the limits this tells what is charged, in a namespace of its own over
//! loopback, where the busy connection writes to a reader that does not read until both buffers
//! are full, which is the most that it can ever cost.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};

use base::FlowSample;
use linux::calls::OpenFiles;
use linux::netlink::link;
use linux::{Error, LabNetns, Result, ScanRequest, SockDiag};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::probe::Figures;

/// The busy one among them.
const CONNECTIONS: usize = 1001;
/// MTU of a local network.
const MTU: u32 = 1500;
/// Requested buffer size, which the kernel doubles: limits of 256 KiB, within the usual `wmem_max`.
const ASKED_BYTES: usize = 128 << 10;
/// Open files: both ends of each connection, and others of this process.
const FILES: u64 = 2 * CONNECTIONS as u64 + 500;
/// A writer that got nowhere for this long has filled both buffers.
const STUCK: Duration = Duration::from_millis(300);
/// More than both buffers ever hold.
const BYTES_MAX: u64 = 256 << 20;
const CHUNK_BYTES: usize = 64 << 10;
/// Unit of the field in `/proc/net/sockstat`.
const PAGE_BYTES: u64 = 4096;

/// Counts at the end that writes, but for the memory of all sockets.
pub(crate) fn run(_seed: u64, stop: &AtomicBool) -> Result<Figures> {
    let _files = OpenFiles::at_least(FILES, &format!("{CONNECTIONS} connections"))?;
    let [netns] = LabNetns::create(["memory"])?;
    netns.handle().run(|| {
        link::set_up("lo")?;
        // With segments of 64 KB, buffers that size themselves would begin thirty times as large.
        link::set_mtu("lo", MTU)?;
        let fixed = measure(Some(ASKED_BYTES), stop)?;
        let automatic = measure(None, stop)?;
        Ok(figures(&fixed, &automatic))
    })?
}

fn figures(fixed: &Costs, automatic: &Costs) -> Figures {
    let bytes = |bytes: u64| bytes as f64;
    let grown_bytes = automatic.full_limits.saturating_sub(automatic.idle_limits);
    Figures::from([
        ("connections", CONNECTIONS as f64),
        ("fixed_reserved_bytes", bytes(fixed.full_limits)),
        ("automatic_start_bytes", bytes(automatic.idle_limits)),
        ("automatic_reserved_bytes", bytes(automatic.full_limits)),
        ("automatic_grown_bytes", bytes(grown_bytes)),
        (
            "reserved_ratio",
            bytes(fixed.full_limits) / bytes(automatic.full_limits.max(1)),
        ),
        (
            "idle_used_bytes",
            bytes(fixed.idle_used.max(automatic.idle_used)),
        ),
        ("fixed_used_max_bytes", bytes(fixed.full_used)),
        ("automatic_used_max_bytes", bytes(automatic.full_used)),
        (
            "idle_charged_bytes",
            bytes(fixed.idle_charged.max(automatic.idle_charged)),
        ),
        ("fixed_charged_bytes", bytes(fixed.full_charged)),
        ("automatic_charged_bytes", bytes(automatic.full_charged)),
    ])
}

/// Memory cost of a set of connections.
#[derive(Debug, Default)]
struct Costs {
    /// Sizes of both buffers of every connection while all are idle, and when the busy one is full.
    idle_limits: u64,
    full_limits: u64,
    /// Memory of their packets when idle (`skmeminfo`).
    idle_used: u64,
    full_used: u64,
    /// Additional charge of all sockets of this machine (`/proc/net/sockstat`): includes other
    /// programs, and is counted in batches of 1 MiB per processor (`SK_MEMORY_PCPU_RESERVE`), in
    /// which a single connection may not show.
    idle_charged: u64,
    full_charged: u64,
}

fn measure(asked: Option<usize>, stop: &AtomicBool) -> Result<Costs> {
    let before = charged_bytes()?;
    let (listener, address) = listen(asked)?;
    let mut pairs = Vec::with_capacity(CONNECTIONS);
    for _ in 0..CONNECTIONS {
        if stop.load(Ordering::Relaxed) {
            return Err(Error::Peer("interrupted".into()));
        }
        let client = connect(asked, address)?;
        let (server, _) = listener.accept().map_err(Error::os("accept"))?;
        pairs.push((client, server));
    }
    let mut diag = SockDiag::open()?;
    let (idle_limits, idle_used) = look(&mut diag, address)?;
    let idle_charged = charged_bytes()?.saturating_sub(before);
    let (client, server) = &mut pairs[0];
    let written = fill(client).map_err(Error::os("fill a connection"))?;
    let (full_limits, full_used) = look(&mut diag, address)?;
    let full_charged = charged_bytes()?.saturating_sub(before);
    drain(client, server, written)?;
    Ok(Costs {
        idle_limits,
        full_limits,
        idle_used,
        full_used,
        idle_charged,
        full_charged,
    })
}

fn listen(asked: Option<usize>) -> Result<(TcpListener, SocketAddr)> {
    let socket = socket(asked)?;
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let listener = socket
        .bind(&any.into())
        .and_then(|()| socket.listen(CONNECTIONS as i32))
        .map(|()| TcpListener::from(socket));
    let listener = listener.map_err(Error::os("listen on loopback"))?;
    let address = listener.local_addr().map_err(Error::os("getsockname"))?;
    Ok((listener, address))
}

fn connect(asked: Option<usize>, address: SocketAddr) -> Result<TcpStream> {
    let socket = socket(asked)?;
    socket
        .connect(&address.into())
        .map_err(Error::os("connect over loopback"))?;
    Ok(socket.into())
}

/// A socket whose buffers are fixed where `asked` says so; accepted ones inherit that.
fn socket(asked: Option<usize>) -> Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))
        .map_err(Error::os("open a socket"))?;
    if let Some(bytes) = asked {
        socket
            .set_send_buffer_size(bytes)
            .and_then(|()| socket.set_recv_buffer_size(bytes))
            .map_err(Error::os("set SO_SNDBUF and SO_RCVBUF"))?;
    }
    Ok(socket)
}

/// Sizes of the buffers of all connections to `address`, and what their packets occupy: at the end
/// that connected the first, at both ends the second.
fn look(diag: &mut SockDiag, address: SocketAddr) -> Result<(u64, u64)> {
    let samples = diag.scan(&ScanRequest::default())?;
    let (mut limits, mut used) = (0, 0);
    for sample in &samples {
        let ends = [sample.key.local, sample.key.remote];
        let is_ours = ends.iter().any(|end| end.port() == address.port());
        if is_ours && sample.key.remote.port() == address.port() {
            limits += both(sample, |it| [it.sndbuf_bytes, it.rcvbuf_bytes]);
        }
        if is_ours && sample.key.remote.port() != 0 {
            used += both(sample, |it| [it.wmem_queued_bytes, it.rmem_bytes]);
        }
    }
    Ok((limits, used))
}

fn both(sample: &FlowSample, of: impl Fn(&FlowSample) -> [Option<u32>; 2]) -> u64 {
    of(sample).into_iter().flatten().map(u64::from).sum()
}

/// Writes until nothing more is taken; how much was.
fn fill(mut client: &TcpStream) -> io::Result<u64> {
    SockRef::from(client).set_write_timeout(Some(STUCK))?;
    let chunk = vec![0x5a; CHUNK_BYTES];
    let mut written = 0;
    while written < BYTES_MAX {
        match client.write(&chunk) {
            Ok(taken) => written += taken as u64,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(written)
}

/// Reads all of it, so that the next measurement begins with nothing.
fn drain(client: &TcpStream, mut server: &TcpStream, written: u64) -> Result<()> {
    let failed = |source| Error::os("read what was written")(source);
    client.shutdown(Shutdown::Write).map_err(failed)?;
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut read = 0;
    loop {
        match server.read(&mut buffer).map_err(failed)? {
            0 => break,
            got => read += got as u64,
        }
    }
    if read == written {
        Ok(())
    } else {
        let what = format!("{written} bytes were written and {read} arrived");
        Err(Error::Peer(what))
    }
}

/// Memory that the kernel has charged for TCP, on the whole machine.
fn charged_bytes() -> Result<u64> {
    const SOCKSTAT: &str = "/proc/net/sockstat";
    let text = std::fs::read_to_string(SOCKSTAT).map_err(Error::os(format!("read {SOCKSTAT}")))?;
    pages_of(&text)
        .map(|pages| pages * PAGE_BYTES)
        .ok_or_else(|| Error::Unsupported {
            what: format!("the memory of TCP in {SOCKSTAT}"),
            hint: "it stands in its line `TCP:` as `mem`, in pages".into(),
        })
}

fn pages_of(sockstat: &str) -> Option<u64> {
    let line = sockstat
        .lines()
        .find_map(|line| line.strip_prefix("TCP:"))?;
    let mut words = line.split_whitespace();
    words.find(|word| *word == "mem")?;
    words.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_of_tcp_are_found() {
        let text = "sockets: used 10\nTCP: inuse 5 orphan 0 tw 2 alloc 7 mem 39\nUDP: mem 2\n";
        assert_eq!(pages_of(text), Some(39));
        assert_eq!(pages_of("sockets: used 10\n"), None);
        assert_eq!(pages_of("TCP: inuse 5 mem\n"), None);
    }
}
