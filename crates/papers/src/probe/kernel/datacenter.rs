//! The datacenter paper on the kernel: which setting bounds a receive buffer, and a series beside
//! the count of its bytes.
//!
//! `net.core.rmem_max` belongs to the whole machine and cannot be written in a namespace, so it is
//! not raised: `SO_RCVBUFFORCE`, which does not ask it, shows what a larger one would allow.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use base::{QueueLimit, Rate};
use lab::PathSpec;
use linux::kernel::RealTime;
use linux::{Error, LabPath, Result, calls, own_program, sysctl};
use socket2::SockRef;

use crate::probe::Figures;
use crate::probe::datacenter::{series_figures, series_trial};

/// The trial of the series, on the kernel at both ends.
pub(crate) fn series(seed: u64, stop: &AtomicBool) -> Result<Figures> {
    let engine = RealTime {
        exe: own_program()?,
        is_watched: false,
        stack: None,
    };
    let outcome = engine.run(&series_trial(seed), stop, &mut |_| ())?;
    Ok(series_figures(&outcome))
}

/// `tcp_rmem` whose last number is below and far above what the path needs.
const SMALL: &str = "4096 131072 262144";
const LARGE: &str = "4096 131072 33554432";
/// Payload of one transfer: some hundred round trips of the path.
const TRANSFER_BYTES: usize = 40 << 20;
const PIECE_BYTES: usize = 64 << 10;
/// Nothing on this path takes longer.
const TIMEOUT: Duration = Duration::from_secs(20);

/// How the receiver comes to its buffer.
#[derive(Clone, Copy)]
enum Buffer {
    Autotuned,
    Asked(usize),
    Forced(usize),
}

/// The bound of a receive buffer, by the way in which it is set.
pub(crate) fn rmem_max(seed: u64, stop: &AtomicBool) -> Result<Figures> {
    let path = PathSpec::emulated(
        Rate::from_bits_per_second(1_000_000_000),
        Duration::from_micros(1490),
        QueueLimit::Packets(1000),
    );
    let path = LabPath::create(&path, seed)?;
    let limit = path.b().run(|| sysctl::read("net.core.rmem_max"))??;
    let limit: usize = limit.parse().map_err(|_| Error::Unsupported {
        what: "the kernel parameter net.core.rmem_max".into(),
        hint: format!("it reads `{limit}`"),
    })?;
    let request = limit.saturating_mul(2);
    let measure = |tcp_rmem: &str, buffer| -> Result<f64> {
        path.b()
            .run(|| sysctl::write("net.ipv4.tcp_rmem", tcp_rmem))??;
        Ok(transfer(&path, buffer, stop)? as f64)
    };
    let asked = measure(LARGE, Buffer::Asked(request))?;
    let asked_small = measure(SMALL, Buffer::Asked(request))?;
    let forced = measure(SMALL, Buffer::Forced(request))?;
    Ok(Figures::from([
        ("autotuned_small_bytes", measure(SMALL, Buffer::Autotuned)?),
        ("autotuned_large_bytes", measure(LARGE, Buffer::Autotuned)?),
        ("asked_over_rmem_max", asked / limit as f64),
        (
            "asked_over_rmem_max_with_small_tcp_rmem",
            asked_small / limit as f64,
        ),
        ("forced_over_asked", forced / asked),
    ]))
}

/// Sends from A to B and returns the receive buffer that the connection has at its end.
fn transfer(path: &LabPath, buffer: Buffer, stop: &AtomicBool) -> Result<usize> {
    let at = |op: &'static str| Error::os(op);
    let listener = path
        .b()
        .run(|| TcpListener::bind(SocketAddr::new(path.b_addr(), 0)))?
        .map_err(at("listening on the lab path"))?;
    let address = listener
        .local_addr()
        .map_err(at("the address of a socket"))?;
    match buffer {
        Buffer::Autotuned => {}
        Buffer::Asked(bytes) => SockRef::from(&listener)
            .set_recv_buffer_size(bytes)
            .map_err(at("SO_RCVBUF"))?,
        Buffer::Forced(bytes) => calls::force_receive_buffer(&listener, bytes)?,
    }
    let client = path
        .a()
        .run(|| TcpStream::connect_timeout(&address, TIMEOUT))?
        .map_err(at("connecting over the lab path"))?;
    let (server, _) = listener.accept().map_err(at("accepting a connection"))?;
    for stream in [&client, &server] {
        stream
            .set_read_timeout(Some(TIMEOUT))
            .map_err(at("SO_RCVTIMEO"))?;
        stream
            .set_write_timeout(Some(TIMEOUT))
            .map_err(at("SO_SNDTIMEO"))?;
    }
    let (sent, received) = std::thread::scope(|scope| {
        let sender = scope.spawn(move || send(client, stop));
        let received = receive(&server);
        let sent = sender.join();
        (
            sent.unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            received,
        )
    });
    sent.and(received)
        .map_err(at("sending over the lab path"))?;
    SockRef::from(&server)
        .recv_buffer_size()
        .map_err(at("SO_RCVBUF"))
}

/// Takes the stream, so that its end is the end of the transfer.
fn send(mut stream: TcpStream, stop: &AtomicBool) -> std::io::Result<()> {
    let piece = vec![0_u8; PIECE_BYTES];
    for _ in 0..TRANSFER_BYTES / PIECE_BYTES {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        stream.write_all(&piece)?;
    }
    Ok(())
}

fn receive(mut stream: &TcpStream) -> std::io::Result<()> {
    let mut piece = vec![0_u8; PIECE_BYTES];
    while stream.read(&mut piece)? > 0 {}
    Ok(())
}
