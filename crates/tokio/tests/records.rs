//! Joined records: what arrives at the other end, and when.

mod cable;

use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_channel::mpsc;
use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _, stream};
use tcptailor_tokio::RecordWriter;
use tcptailor_tokio::base::records::BatchSpec;
use tokio::io::{AsyncReadExt, AsyncWrite, duplex};
use tokio::time::{Instant, sleep, timeout};

use cable::{connected, kind, nets, run};

const DELAY: Duration = Duration::from_millis(5);
/// A grain of the runtime's timers.
const GRAIN: Duration = Duration::from_millis(1);

#[test]
fn ten_thousand_records_arrive_as_they_were_written_ws22() {
    run(async {
        let nets = nets();
        let (client, mut server) = connected(&nets).await?;
        let writing = async {
            let mut writer = RecordWriter::new(client, BatchSpec::new(DELAY).with_count_header());
            for index in 0..10_000_u32 {
                let record = [index.to_le_bytes().as_slice(), &[b'x'; 96]].concat();
                writer.write(&record).await?;
            }
            assert_eq!(writer.pending(), 0, "the last block is full");
            writer.shutdown().await
        };
        let mut received = Vec::new();
        let (written, read) = tokio::join!(writing, server.read_to_end(&mut received));
        written?;
        read?;
        let mut expected = Vec::new();
        for index in 0..10_000_u32 {
            if index % 80 == 0 {
                expected.extend(80_u32.to_be_bytes());
            }
            expected.extend(index.to_le_bytes());
            expected.extend([b'x'; 96]);
        }
        assert!(received == expected);
        Ok(())
    });
}

#[test]
fn a_record_waits_as_long_as_it_may_and_no_longer() {
    run(async {
        let nets = nets();
        let (client, mut server) = connected(&nets).await?;
        let (mut sender, records) = mpsc::channel::<Vec<u8>>(8);
        let task = tokio::spawn(async move {
            let mut writer = RecordWriter::new(client, BatchSpec::new(DELAY));
            writer.write_from(records).await?;
            writer.shutdown().await
        });
        let mut received = [0; 3];
        for _ in 0..3 {
            let begin = Instant::now();
            sender.send(b"abc".to_vec()).await.expect("it reads");
            server.read_exact(&mut received).await?;
            let waited = begin.elapsed();
            assert!((DELAY..=DELAY + 2 * GRAIN).contains(&waited), "{waited:?}");
            sleep(DELAY * 7).await;
        }
        // A full block waits for nothing.
        let begin = Instant::now();
        sender.send(vec![1; 8000]).await.expect("it reads");
        server.read_exact(&mut [0; 8000]).await?;
        assert!(begin.elapsed() < DELAY, "{:?}", begin.elapsed());
        // The end does not either.
        sender.send(b"end".to_vec()).await.expect("it reads");
        let begin = Instant::now();
        drop(sender);
        let mut rest = Vec::new();
        server.read_to_end(&mut rest).await?;
        assert_eq!(rest, b"end");
        assert!(begin.elapsed() < DELAY, "{:?}", begin.elapsed());
        task.await.expect("no panic")
    });
}

#[test]
fn a_full_channel_does_not_keep_a_due_block() {
    run(async {
        let endless = stream::repeat(b"r").then(|record| sleep(GRAIN).map(move |()| record));
        let (near, mut far) = duplex(1 << 20);
        let mut writer = RecordWriter::new(near, BatchSpec::new(DELAY));
        let begin = Instant::now();
        let writing = timeout(DELAY * 4, writer.write_from(Box::pin(endless)));
        let first = async {
            let read = far.read_u8().await;
            (read, begin.elapsed())
        };
        let (ended, (read, after)) = tokio::join!(writing, first);
        assert!(ended.is_err(), "records come for ever");
        assert_eq!(read?, b'r');
        assert!(after <= DELAY + 2 * GRAIN, "{after:?}");
        Ok(())
    });
}

#[test]
fn a_record_beyond_the_block_is_one_of_its_own() {
    run(async {
        let nets = nets();
        let (client, mut server) = connected(&nets).await?;
        let spec = BatchSpec::new(DELAY).with_bytes_max(10).with_count_header();
        let long = vec![7; 300_000];
        let writing = async {
            let mut writer = RecordWriter::new(client, spec);
            for record in [&b"a"[..], b"b", &long, b"c"] {
                writer.write(record).await?;
            }
            writer.shutdown().await
        };
        let mut received = Vec::new();
        let (written, read) = tokio::join!(writing, server.read_to_end(&mut received));
        written?;
        read?;
        let blocks = [b"\0\0\0\x02ab\0\0\0\x01", &long[..], b"\0\0\0\x01c"];
        assert!(received == blocks.concat());
        Ok(())
    });
}

#[test]
fn a_call_that_is_given_up_loses_and_repeats_nothing() {
    run(async {
        // Room for three bytes: every block is cut.
        let (near, mut far) = duplex(3);
        let mut writer = RecordWriter::new(near, BatchSpec::new(DELAY).with_bytes_max(4));
        writer.write(b"abcd").await?;
        assert_eq!(writer.pending(), 1, "taken, and not yet written");
        let refused = writer.write(b"e").now_or_never();
        assert!(refused.is_none(), "it waits, and is given up: not taken");
        assert!(writer.flush().now_or_never().is_none());
        let reading = async {
            let mut received = [0; 5];
            far.read_exact(&mut received).await.map(|_| received)
        };
        let writing = async {
            writer.write(b"f").await?;
            writer.flush().await
        };
        let (received, written) = tokio::join!(reading, writing);
        written?;
        assert_eq!(&received?, b"abcdf");
        Ok(())
    });
}

#[test]
fn a_drop_writes_nothing_and_finish_everything() {
    run(async {
        let (near, mut far) = duplex(100);
        let mut writer = RecordWriter::new(near, BatchSpec::new(DELAY));
        writer.write(b"lost").await?;
        drop(writer);
        let mut received = Vec::new();
        far.read_to_end(&mut received).await?;
        assert_eq!(received, b"");

        let mut writer = RecordWriter::new(Vec::new(), BatchSpec::new(DELAY));
        writer.write(b"kept").await?;
        assert_eq!(writer.finish().await?, b"kept");
        Ok(())
    });
}

/// Fails, or takes nothing.
struct Broken(Option<ErrorKind>);

impl AsyncWrite for Broken {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(self.0.map_or(Ok(0), |kind| Err(kind.into())))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Takes three bytes, fails once, and takes the rest.
#[derive(Default)]
struct Stumbles {
    calls: Vec<Vec<u8>>,
    failed: bool,
}

impl AsyncWrite for Stumbles {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let taken = match (self.calls.len(), self.failed) {
            (0, _) => 3,
            (_, false) => {
                self.failed = true;
                return Poll::Ready(Err(ErrorKind::TimedOut.into()));
            }
            (_, true) => bytes.len(),
        };
        self.calls.push(bytes[..taken].to_vec());
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Takes everything at once, and needs two calls to flush it.
#[derive(Default)]
struct Slow {
    asked: bool,
    flushed: bool,
}

impl AsyncWrite for Slow {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.asked {
            self.flushed = true;
            return Poll::Ready(Ok(()));
        }
        self.asked = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[test]
fn a_flush_that_was_given_up_goes_on_with_the_next() {
    run(async {
        let spec = BatchSpec::new(Duration::ZERO);
        let mut writer = RecordWriter::new(Slow::default(), spec);
        // The block is taken at once, and the flush is not awaited.
        writer.write(b"a record").await?;
        assert_eq!((writer.pending(), writer.writer().flushed), (0, false));
        timeout(DELAY, writer.flush_when_due())
            .await
            .expect("there is something to flush")?;
        assert!(writer.writer().flushed);
        Ok(())
    });
}

#[test]
fn what_stays_after_an_error_is_written_once() {
    run(async {
        let spec = BatchSpec::new(DELAY).with_bytes_max(4);
        let mut writer = RecordWriter::new(Stumbles::default(), spec);
        assert_eq!(kind(writer.write(b"abcd").await), Some(ErrorKind::TimedOut));
        assert_eq!(writer.pending(), 1, "it stays");
        writer.write(b"e").await?;
        writer.flush().await?;
        assert_eq!(writer.writer().calls, [&b"abc"[..], b"d", b"e"]);
        Ok(())
    });
}

#[test]
fn errors_of_the_stream_are_told() {
    run(async {
        let broken = ErrorKind::BrokenPipe;
        let mut writer = RecordWriter::new(Broken(Some(broken)), BatchSpec::new(DELAY));
        writer.write(b"waits").await?;
        assert_eq!(kind(writer.flush_when_due().await), Some(broken));
        let mut writer = RecordWriter::new(Broken(Some(broken)), BatchSpec::new(Duration::ZERO));
        assert_eq!(kind(writer.write(b"leaves at once").await), Some(broken));
        let mut writer = RecordWriter::new(Broken(None), BatchSpec::new(DELAY));
        writer.write(b"waits").await?;
        assert_eq!(kind(writer.shutdown().await), Some(ErrorKind::WriteZero));
        Ok(())
    });
}
