//! What clients do, and how they know that it was right.

use std::io::{self, ErrorKind};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use tcptailor_tokio::base::Rng;
use tcptailor_tokio::{Net, OwnedReadHalf, OwnedWriteHalf, TcpStream};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use crate::Tally;

const SERVER: &str = "10.0.0.2:80";
const NOBODY: &str = "10.0.0.2:81";

/// One connection, or an attempt at one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exchange {
    kind: Kind,
    bytes: u64,
    /// Reads and writes are given up after this many microseconds and tried again; 0: never.
    timeout_us: u64,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// All of it there and back. The half that writes is dropped when it is done.
    Whole,
    /// The client breaks the connection in the middle.
    Breaks,
    /// The client drops both halves in the middle, with data on the way to it.
    Leaves,
    /// No task waits for the connection.
    GivesUp,
    /// No server is there.
    Refused,
}

impl Exchange {
    pub(crate) fn drawn(rng: &mut Rng) -> Self {
        let kind = match rng.below(10) {
            0 => Kind::Breaks,
            1 => Kind::Leaves,
            2 => Kind::GivesUp,
            3 => Kind::Refused,
            _ => Kind::Whole,
        };
        let most = [1, 100, 10_000, 300_000][rng.below(4) as usize];
        Self {
            kind,
            bytes: rng.below(most) + 1,
            timeout_us: [0, 0, 20, 300][rng.below(4) as usize],
        }
    }

    /// # Panics
    /// Where something arrives that was not sent, or something is missing.
    pub(crate) async fn run(&self, net: &Net, rng: &mut Rng, tally: &Tally) {
        match self.kind {
            Kind::Refused => {
                let refused = TcpStream::connect(net, NOBODY).await;
                let kind = refused.err().map(|error| error.kind());
                assert_eq!(kind, Some(ErrorKind::ConnectionRefused));
                return;
            }
            Kind::GivesUp => {
                let time = Duration::from_micros(rng.below(200));
                let attempt = timeout(time, TcpStream::connect(net, SERVER)).await;
                Tally::add(&tally.given_up, u64::from(attempt.is_err()));
                return;
            }
            _ => {}
        }
        let stream = TcpStream::connect(net, SERVER).await.expect("a server");
        let key = rng.next_u64() as u8;
        let is_whole = match self.kind {
            Kind::Breaks => {
                stream.set_zero_linger().expect("open");
                false
            }
            kind => matches!(kind, Kind::Whole),
        };
        let read_bytes = if is_whole {
            u64::MAX
        } else {
            rng.below(self.bytes)
        };
        let (reads, writes) = stream.into_split();
        let mut of_writer = Rng::new(rng.next_u64(), "writer");
        let writer = self.write(writes, key, &mut of_writer);
        let reader = self.read(reads, key, read_bytes, tally);
        if is_whole {
            let (written, read) = tokio::join!(writer, reader);
            written.expect("all is written");
            assert_eq!(read.expect("all is read"), self.bytes, "{self:?}");
        } else {
            // What is not done yet is dropped where it stands.
            tokio::select! {
                read = reader => drop(read.expect("the server reads")),
                written = writer => written.expect("the server reads"),
            }
            Tally::add(&tally.broken, 1);
        }
    }

    /// Writes a pattern in pieces of any size, and ends the stream.
    async fn write(&self, mut writes: OwnedWriteHalf, key: u8, rng: &mut Rng) -> io::Result<()> {
        let mut at = 0;
        while at < self.bytes {
            let size = (rng.below(70_000) + 1).min(self.bytes - at);
            let mut piece = Bytes::from_iter((at..at + size).map(|place| pattern(key, place)));
            while !piece.is_empty() {
                match rng.below(3) {
                    0 => {
                        let written = self.patiently(writes.write(&piece)).await;
                        piece.advance(written.transpose()?.unwrap_or(0));
                    }
                    1 => {
                        let _ = self
                            .patiently(writes.write_chunk(&mut piece))
                            .await
                            .transpose()?;
                    }
                    _ => {
                        let _ = self
                            .patiently(writes.write_buf(&mut piece))
                            .await
                            .transpose()?;
                    }
                }
            }
            at += size;
        }
        Ok(())
    }

    /// Reads until the end, or until `bytes`; returns how many there were.
    async fn read(
        &self,
        mut reads: OwnedReadHalf,
        key: u8,
        bytes: u64,
        tally: &Tally,
    ) -> io::Result<u64> {
        let mut at = 0;
        let mut buffer = vec![0; 10_000];
        while at < bytes {
            let read = match self.patiently(reads.read(&mut buffer)).await {
                None => {
                    Tally::add(&tally.cancelled, 1);
                    continue;
                }
                Some(read) => read?,
            };
            for &byte in &buffer[..read] {
                assert_eq!(byte, pattern(key, at), "byte {at} of {self:?}");
                at += 1;
            }
            Tally::add(&tally.bytes, read as u64);
            if read == 0 {
                break;
            }
        }
        Ok(at)
    }

    /// Drops a future after the timeout of this exchange.
    async fn patiently<F: Future>(&self, future: F) -> Option<F::Output> {
        if self.timeout_us == 0 {
            return Some(future.await);
        }
        let limit = Duration::from_micros(self.timeout_us);
        timeout(limit, future).await.ok()
    }
}

/// Byte `place` of the stream `key`.
fn pattern(key: u8, place: u64) -> u8 {
    (place ^ (place >> 8) ^ (place >> 16)) as u8 ^ key
}
