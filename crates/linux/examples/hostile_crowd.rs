//! Many connections that mean no good, towards one server, for as long as it is told: silent
//! ones, ones that drip a byte now and then, ones that say something else, ones that show a made-up
//! token. Each that is closed is opened again. Prints how many there were.
//!
//! ```text
//! tcptailor serve &
//! cargo run --release -p tcptailor-linux --example hostile_crowd -- 127.0.0.1:5201 10000 20
//! ```
//! Arguments: address, connections at once, seconds, and how many source addresses of 127.0.0.0/8
//! they come from (default: 1000). More than 1000 connections need `ulimit -n`.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use linux::Clock;
use socket2::{Domain, Socket, Type};

/// What each kind of connection says first.
const WORDS: [&[u8]; 4] = [b"", b"t", b"GET / HTTP/1.1\r\n\r\n", b"\0aaaaaaaaaaaaaaaa"];
/// Time from drop to drop of those that drip.
const DRIP: Duration = Duration::from_secs(4);

struct Stranger {
    stream: TcpStream,
    dripped_at: base::Instant,
    drips: bool,
}

fn main() -> io::Result<()> {
    let mut words = std::env::args().skip(1);
    let mut number = |default: u32| match words.next() {
        None => Ok(default.to_string()),
        Some(word) => Ok::<_, io::Error>(word),
    };
    let invalid = |_| io::Error::from(ErrorKind::InvalidInput);
    let server: SocketAddr = number(0)?.parse().map_err(|_| ErrorKind::InvalidInput)?;
    let at_once: usize = number(10_000)?.parse().map_err(invalid)?;
    let seconds: u64 = number(20)?.parse().map_err(invalid)?;
    let sources: u32 = number(1000)?.parse().map_err(invalid)?;
    let end = Clock.now() + Duration::from_secs(seconds);
    let mut crowd: Vec<Stranger> = Vec::new();
    let (mut opened, mut closed, mut refused) = (0_u64, 0_u64, 0_u64);
    while Clock.now() < end {
        let missing = at_once.saturating_sub(crowd.len()).min(500);
        for _ in 0..missing {
            match open(server, opened, sources.max(1)) {
                Ok(stranger) => crowd.push(stranger),
                Err(_) => refused += 1,
            }
            opened += 1;
        }
        let before = crowd.len();
        let now = Clock.now();
        crowd.retain_mut(|one| one.is_open(now));
        closed += (before - crowd.len()) as u64;
        std::thread::sleep(Duration::from_millis(10));
    }
    println!(
        "{opened} connections, {closed} closed by the server, {refused} not made, {} open at the end",
        crowd.len()
    );
    Ok(())
}

/// The next one, from another address than the one before.
fn open(server: SocketAddr, index: u64, sources: u32) -> io::Result<Stranger> {
    let socket = Socket::new(Domain::for_address(server), Type::STREAM, None)?;
    if server.ip().is_loopback() && server.is_ipv4() {
        let host = 0x7f01_0001 + (index % u64::from(sources)) as u32;
        let source = SocketAddr::new(IpAddr::V4(Ipv4Addr::from(host)), 0);
        socket.bind(&source.into())?;
    }
    socket.connect_timeout(&server.into(), Duration::from_millis(200))?;
    let mut stream: TcpStream = socket.into();
    stream.set_nonblocking(true)?;
    let kind = (index / u64::from(sources) % WORDS.len() as u64) as usize;
    // The server may have hung up already.
    let _ = stream.write_all(WORDS[kind]);
    Ok(Stranger {
        stream,
        dripped_at: Clock.now(),
        drips: kind < 2,
    })
}

impl Stranger {
    fn is_open(&mut self, now: base::Instant) -> bool {
        if self.drips && now.since(self.dripped_at) >= DRIP {
            self.dripped_at = now;
            let _ = self.stream.write(b"c");
        }
        match self.stream.read(&mut [0; 256]) {
            Ok(0) => false,
            Ok(_) => true,
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        }
    }
}
