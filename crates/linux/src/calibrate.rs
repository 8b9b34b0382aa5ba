//! Measures the time of system calls, copies, wake-ups and packets on this machine: the numbers by
//! which a host in virtual time costs time.
//!
//! Everything is measured between two threads of this process, over sockets that have no path
//! between them. A number is the median over batches: what a neighbour of this machine takes away
//! falls on few of them.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use base::Instant;
use lab::app::HostCosts;

use crate::clock::Clock;
use crate::error::{Error, Result};

/// Batches of each number.
const BATCHES: usize = 41;
/// Operations of a batch.
const BATCH: u32 = 200;
/// Size of a small copy, whose time is subtracted to obtain the time of the call itself.
const SMALL_BYTES: usize = 1024;
const LARGE_BYTES: usize = 64 * 1024;

/// Measures a host in the terms of [`HostCosts`], except `taking in each wire packet` of a merged
/// one: between two sockets of one host, nothing is cut or merged.
///
/// # Errors
/// Where the kernel refuses sockets or threads.
pub fn calibrate() -> Result<HostCosts> {
    let failed = |source: io::Error| Error::Os {
        op: "measuring what sockets of this machine take".into(),
        source,
    };
    let system_call = system_call().map_err(failed)?;
    let [small, large] = [SMALL_BYTES, LARGE_BYTES].map(copying);
    let (small, large) = (small.map_err(failed)?, large.map_err(failed)?);
    // Both the writer and the reader copy.
    let kib = u32::try_from((LARGE_BYTES - SMALL_BYTES) / 1024).expect("few");
    let copy_kib = large.saturating_sub(small) / (2 * kib);
    let [alone, waiting] = there_and_back().map_err(failed)?.map(|time| time / 2);
    // What is left is the work of TCP, and of what lies below it, at both ends.
    let packet = alone.saturating_sub(2 * system_call) / 2;
    Ok(HostCosts {
        wake: waiting.saturating_sub(alone),
        system_call,
        copy_kib,
        receive_packet: packet,
        send_packet: packet,
        ..HostCosts::linux()
    })
}

/// The median over batches of what one operation of a batch takes.
fn median(mut batch: impl FnMut() -> io::Result<()>) -> io::Result<Duration> {
    let [median] = medians(|_| batch())?;
    Ok(median)
}

/// The same of `N` kinds of batches, which are told their number. They take turns, so that what a
/// neighbour of this machine takes away for long is taken from all.
fn medians<const N: usize>(
    mut batch: impl FnMut(usize) -> io::Result<()>,
) -> io::Result<[Duration; N]> {
    let mut times = [const { Vec::new() }; N];
    // The first ones warm up caches and processors.
    for round in 0..=BATCHES {
        for (kind, times) in times.iter_mut().enumerate() {
            let began: Instant = Clock.now();
            batch(kind)?;
            let time = Clock.now().since(began) / BATCH;
            if round > 0 {
                times.push(time);
            }
        }
    }
    Ok(times.map(|mut times| {
        times.sort_unstable();
        times[BATCHES / 2]
    }))
}

/// A call that does nothing but ask a connection for what is not there.
fn system_call() -> io::Result<Duration> {
    let (mut one, _other) = tcp_pair()?;
    one.set_nonblocking(true)?;
    median(|| {
        for _ in 0..BATCH {
            match one.read(&mut [0]) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
                Ok(_) => return Err(io::Error::other("data where none was sent")),
            }
        }
        Ok(())
    })
}

/// Writing this much and reading it, in one thread.
fn copying(bytes: usize) -> io::Result<Duration> {
    let (mut one, mut other) = UnixStream::pair()?;
    let (sent, mut got) = (vec![7; bytes], vec![0; bytes]);
    median(|| {
        for _ in 0..BATCH {
            one.write_all(&sent)?;
            other.read_exact(&mut got)?;
        }
        Ok(())
    })
}

/// One byte over TCP to the other end and one back: by one thread, which never waits, and between
/// two, of which one waits.
///
/// Both are over TCP: a kernel wakes the reader of a Unix socket on the writer's processor, and
/// that of a connection on another one, which takes several times as long where it idles.
fn there_and_back() -> io::Result<[Duration; 2]> {
    let (mut one, mut other) = tcp_pair()?;
    let (mut asking, answering) = tcp_pair()?;
    thread::scope(|scope| {
        scope.spawn(move || answer(answering));
        let asked = medians(|kind| match kind {
            0 => alone(&mut one, &mut other),
            _ => ask(&mut asking),
        });
        // The other end sees the end of its connection.
        drop(asking);
        asked
    })
}

/// A batch of bytes there and back, at both ends by this thread.
fn alone(one: &mut TcpStream, other: &mut TcpStream) -> io::Result<()> {
    for _ in 0..BATCH {
        one.write_all(&[1])?;
        other.read_exact(&mut [0])?;
        other.write_all(&[1])?;
        one.read_exact(&mut [0])?;
    }
    Ok(())
}

/// A batch of bytes, each answered before the next.
fn ask(stream: &mut TcpStream) -> io::Result<()> {
    for _ in 0..BATCH {
        stream.write_all(&[1])?;
        stream.read_exact(&mut [0])?;
    }
    Ok(())
}

fn answer(mut stream: TcpStream) {
    while stream.read_exact(&mut [0]).is_ok() && stream.write_all(&[1]).is_ok() {}
}

fn tcp_pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let one = TcpStream::connect(listener.local_addr()?)?;
    let (other, _) = listener.accept()?;
    one.set_nodelay(true)?;
    other.set_nodelay(true)?;
    Ok((one, other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_of_the_order_of_a_machine() {
        let costs = calibrate().expect("loopback is there");
        let within = |what: &str, time: Duration, most: Duration| {
            assert!(!time.is_zero() && time < most, "{what}: {time:?}");
        };
        let micros = Duration::from_micros;
        within("system call", costs.system_call, micros(100));
        within("copy", costs.copy_kib, micros(20));
        within("wake", costs.wake, micros(5000));
        within("packet", costs.send_packet, micros(200));
        assert_eq!(costs.receive_segment, HostCosts::linux().receive_segment);
    }
}
