//! Small records over the loopback interface of this machine, in three ways: each sent by itself
//! and awaited, each sent by itself, and joined to blocks.
//!
//! ```sh
//! cargo run --release -p tcptailor-linux --example join_records
//! ```

use std::error::Error;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::thread;
use std::time::{Duration, Instant};

use base::records::BatchSpec;
use base::{FlowKey, FlowSample, KnobValue, find_knob};
use linux::{Clock, RecordWriter, SockDiag, sockopt};

/// Bytes of a record.
const RECORD: [u8; 100] = [b'r'; 100];
/// Longest time that a record waits for others.
const DELAY: Duration = Duration::from_millis(5);

/// One way to send this many records.
type Send = fn(TcpStream, usize) -> Result<TcpStream, Box<dyn Error>>;

fn main() -> Result<(), Box<dyn Error>> {
    println!(
        "{:<32} {:>9} {:>12} {:>14}",
        "", "RECORDS", "PER SECOND", "PER SEGMENT"
    );
    compare("each by itself, awaited", 200, awaited)?;
    compare("each by itself, TCP_NODELAY", 100_000, one_by_one)?;
    compare("joined to blocks of 8000 bytes", 100_000, joined)
}

/// Sends records to a reader that delays its ACKs, and tells how that went.
fn compare(name: &str, records: usize, send: Send) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let client = TcpStream::connect(listener.local_addr()?)?;
    let (mut server, _) = listener.accept()?;
    let bytes = records * RECORD.len();
    let reader = thread::spawn(move || -> Result<Instant, linux::Error> {
        let quickack = find_knob("quickack").map_err(|e| linux::Error::Peer(e.to_string()))?;
        let (mut left, mut buffer) = (bytes, vec![0; 64 << 10]);
        while left > 0 {
            // The kernel acknowledges what is read at once; stacks without that are meant here.
            sockopt::write(server.as_fd(), quickack, &KnobValue::Flag(false))?;
            left -= match server.read(&mut buffer) {
                Ok(got) if got > 0 => got,
                _ => return Err(linux::Error::Peer(format!("{left} bytes are missing"))),
            };
        }
        Ok(Instant::now())
    });
    let begin = Instant::now();
    let client = send(client, records)?;
    let segments = acknowledged(&client)?.data_segs_out.unwrap_or(0);
    let end = reader.join().map_err(|_| "the reader panicked")??;
    let per_segment = records as f64 / segments.max(1) as f64;
    let per_second = records as f64 / end.duration_since(begin).as_secs_f64();
    println!("{name:<32} {records:>9} {per_second:>12.0} {per_segment:>14.1}");
    Ok(())
}

/// What a send buffer of zero means on Winsock (case 1 of Microsoft KB 214397).
fn awaited(mut client: TcpStream, records: usize) -> Result<TcpStream, Box<dyn Error>> {
    for _ in 0..records {
        client.write_all(&RECORD)?;
        acknowledged(&client)?;
    }
    Ok(client)
}

fn one_by_one(mut client: TcpStream, records: usize) -> Result<TcpStream, Box<dyn Error>> {
    client.set_nodelay(true)?;
    for _ in 0..records {
        client.write_all(&RECORD)?;
    }
    Ok(client)
}

fn joined(client: TcpStream, records: usize) -> Result<TcpStream, Box<dyn Error>> {
    let mut writer = RecordWriter::new(client, BatchSpec::new(DELAY));
    for _ in 0..records {
        writer.write(&RECORD)?;
    }
    Ok(writer.finish()?)
}

/// Waits until all that was written is acknowledged; a look at the connection then.
fn acknowledged(client: &TcpStream) -> Result<FlowSample, Box<dyn Error>> {
    let key = FlowKey {
        local: client.local_addr()?,
        remote: client.peer_addr()?,
    };
    let mut kernel = SockDiag::open()?;
    loop {
        let sample = kernel.sample_one(Clock.now(), key, None)?;
        let sample = sample.ok_or("the connection is gone")?;
        if sample.unacked_pkts == Some(0) && sample.notsent_bytes == Some(0) {
            return Ok(sample);
        }
        thread::sleep(Duration::from_micros(50));
    }
}
