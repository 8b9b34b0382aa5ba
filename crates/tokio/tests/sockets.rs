//! Sockets of two hosts with a cable between them, in virtual time.

mod cable;

use std::future::{Future, poll_fn};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use bytes::Bytes;
use tcptailor_tokio::base::{KnobValue, Limit};
use tcptailor_tokio::{Net, TcpListener, TcpSocket, TcpStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest, ReadBuf};
use tokio::time::{sleep, timeout};

use cable::{A, B, B6, connected, host, ip, kind, nets, run};

/// A task that never needs to be woken.
struct Nobody;

impl Wake for Nobody {
    fn wake(self: Arc<Self>) {}
}

/// Has a future wait, and drops it; whether anything of it stays behind that would wake its task.
fn stays_behind(waiting: impl Future) -> bool {
    let task = Arc::new(Nobody);
    let waker = Waker::from(Arc::clone(&task));
    {
        let mut waiting = pin!(waiting);
        let polled = waiting.as_mut().poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending(), "it has to wait");
        // The one above, and one at least in the list of those who wait.
        assert!(Arc::strong_count(&task) > 2);
    }
    drop(waker);
    Arc::strong_count(&task) > 1
}

#[test]
fn bytes_go_both_ways_over_both_ip_versions() {
    run(async {
        let [a, b] = nets();
        for to in [B, B6] {
            let listener = TcpListener::bind(&b, (to, 0)).await?;
            let addr = listener.local_addr()?;
            assert_ne!(addr.port(), 0);
            let mut client = TcpStream::connect(&a, addr).await?;
            let (mut server, peer) = listener.accept().await?;
            assert_eq!((server.peer_addr()?, client.peer_addr()?), (peer, addr));
            assert_eq!(client.local_addr()?, peer);
            let sent: Vec<u8> = (0..3_000_000_u32).map(|n| (n >> 3) as u8).collect();
            let (written, received) = tokio::join!(
                async {
                    client.write_all(&sent).await?;
                    client.shutdown().await
                },
                async {
                    let mut received = Vec::new();
                    server.read_to_end(&mut received).await?;
                    server.write_all(b"thanks").await?;
                    Ok::<_, io::Error>(received)
                }
            );
            written?;
            assert!(received? == sent);
            drop(server);
            let mut answer = String::new();
            client.read_to_string(&mut answer).await?;
            assert_eq!(answer, "thanks");
        }
        a.wait_idle().await?;
        b.wait_idle().await?;
        assert_eq!(a.host(|host| host.sockets().count()), 0);
        assert_eq!(b.host(|host| host.sockets().count()), 0);
        Ok(())
    });
}

#[test]
fn errors_are_those_of_the_kernel() {
    run(async {
        let nets = nets();
        let [a, b] = &nets;
        let refused = TcpStream::connect(a, (B, 81)).await;
        assert_eq!(kind(refused), Some(ErrorKind::ConnectionRefused));
        let silent = TcpStream::connect(a, ("10.0.0.9", 80)).await;
        assert_eq!(kind(silent), Some(ErrorKind::TimedOut));
        let first = TcpListener::bind(b, (B, 82)).await?;
        let second = TcpListener::bind(b, (B, 82)).await;
        assert_eq!(kind(second), Some(ErrorKind::AddrInUse));
        drop(first);
        TcpListener::bind(b, (B, 82)).await?;
        let foreign = TcpListener::bind(b, (A, 80)).await;
        assert_eq!(kind(foreign), Some(ErrorKind::AddrNotAvailable));

        let (mut client, server) = connected(&nets).await?;
        server.set_zero_linger()?;
        drop(server);
        let read = client.read(&mut [0; 10]).await;
        assert_eq!(kind(read), Some(ErrorKind::ConnectionReset));
        // It is said once; then the stream has ended.
        assert!(client.take_error()?.is_none());
        assert_eq!(client.read(&mut [0; 10]).await?, 0);
        assert!(client.read_chunk(10).await?.is_empty());
        let write = client.write(b"x").await;
        assert_eq!(kind(write), Some(ErrorKind::BrokenPipe));
        client.shutdown().await?;

        let (mut client, server) = connected(&nets).await?;
        client.shutdown().await?;
        let write = client.write(b"x").await;
        assert_eq!(kind(write), Some(ErrorKind::BrokenPipe));
        drop(server);
        Ok(())
    });
}

#[test]
fn unread_data_makes_a_drop_a_reset() {
    run(async {
        let nets = nets();
        for peeks in [false, true] {
            let (mut client, server) = connected(&nets).await?;
            client.write_all(b"nobody reads this").await?;
            server.readable().await?;
            if peeks {
                assert_eq!(server.peek(&mut [0; 100]).await?, 17);
            }
            drop(server);
            let read = client.read(&mut [0; 10]).await;
            assert_eq!(kind(read), Some(ErrorKind::ConnectionReset), "{peeks}");
        }
        Ok(())
    });
}

#[test]
fn a_writer_waits_for_its_reader() {
    run(async {
        let nets = nets();
        let (mut client, mut server) = connected(&nets).await?;
        let data = vec![7; 64 << 20];
        let whole = client.write_all(&data);
        assert!(timeout(Duration::from_secs(60), whole).await.is_err());
        // The peer's window is zero: its size, not ours, is what waits.
        assert_eq!(
            client.limit().map(|wait| wait.limit),
            Some(Limit::PeerWindow)
        );
        assert_eq!(kind(client.try_write(b"x")), Some(ErrorKind::WouldBlock));
        let reader =
            tokio::spawn(async move { tokio::io::copy(&mut server, &mut tokio::io::sink()).await });
        client.writable().await?;
        client.write_all(&data).await?;
        drop(client);
        assert!(reader.await?? > 64 << 20);
        Ok(())
    });
}

#[test]
fn readiness_is_of_any_number_of_tasks_and_may_be_given_up() {
    run(async {
        let nets = nets();
        let (mut client, server) = connected(&nets).await?;
        assert_eq!(
            kind(server.try_read(&mut [0; 4])),
            Some(ErrorKind::WouldBlock)
        );
        for _ in 0..1000 {
            let given_up = timeout(Duration::from_micros(1), server.readable()).await;
            assert!(given_up.is_err());
        }
        assert!(!stays_behind(server.readable()));
        let both = server
            .ready(Interest::READABLE | Interest::WRITABLE)
            .await?;
        assert!(both.is_writable() && !both.is_readable());
        let (one, other, sent) = tokio::join!(server.readable(), server.readable(), async {
            sleep(Duration::from_millis(1)).await;
            client.write_all(b"x").await
        });
        for ended in [one, other, sent] {
            ended?;
        }
        assert_eq!(server.try_read(&mut [0; 4])?, 1);
        drop(client);
        server.readable().await?;
        assert_eq!(server.try_read(&mut [0; 4])?, 0);
        Ok(())
    });
}

#[test]
fn peeking_takes_nothing() {
    run(async {
        let nets = nets();
        let (mut client, mut server) = connected(&nets).await?;
        client.write_all(b"abc").await?;
        let mut seen = [0; 8];
        assert_eq!(server.peek(&mut seen[..2]).await?, 2);
        client.write_all(b"def").await?;
        sleep(Duration::from_millis(1)).await;
        assert_eq!(server.peek(&mut seen).await?, 6);
        assert_eq!(&seen[..6], b"abcdef");
        let mut read = [0; 6];
        server.read_exact(&mut read).await?;
        assert_eq!(&read, b"abcdef");
        drop(client);
        assert_eq!(server.peek(&mut seen).await?, 0);
        let mut into = ReadBuf::new(&mut seen);
        assert_eq!(poll_fn(|cx| server.poll_peek(cx, &mut into)).await?, 0);
        poll_fn(|cx| server.poll_read_ready(cx)).await?;
        poll_fn(|cx| server.poll_write_ready(cx)).await
    });
}

#[test]
fn chunks_are_not_copied() {
    run(async {
        let nets = nets();
        let (client, server) = connected(&nets).await?;
        let mut chunk = Bytes::from(vec![9; 100_000]);
        let memory = chunk.as_ptr_range();
        let mut received = 0;
        while received < 100_000 {
            if !chunk.is_empty() {
                client.write_chunk(&mut chunk).await?;
            }
            let slice = server.read_chunk(1 << 20).await?;
            assert!(memory.contains(&slice.as_ptr()));
            received += slice.len();
        }
        drop(client);
        assert!(server.read_chunk(1).await?.is_empty());
        Ok(())
    });
}

#[test]
fn halves_go_to_two_tasks_and_come_together_again() {
    run(async {
        let nets = nets();
        let (client, server) = connected(&nets).await?;
        let (mut reads, mut writes) = server.into_split();
        let echo = tokio::spawn(async move {
            tokio::io::copy(&mut reads, &mut writes).await?;
            Ok::<_, io::Error>(reads)
        });
        let (reads, mut writes) = client.into_split();
        writes.write_all(b"there and back").await?;
        let mut client = reads.reunite(writes).expect("halves of one stream");
        let mut back = [0; 14];
        client.read_exact(&mut back).await?;
        assert_eq!(&back, b"there and back");
        let (mut reads, writes) = client.into_split();
        // The peer's copy ends, and its half that wrote is dropped.
        drop(writes);
        assert_eq!(reads.read(&mut back).await?, 0);
        let of_other = echo.await??;
        let (_, writes) = connected(&nets).await?.0.into_split();
        assert!(of_other.reunite(writes).is_err());
        Ok(())
    });
}

#[test]
fn knobs_are_turned_before_and_after() {
    run(async {
        let [a, b] = nets();
        let socket = TcpSocket::new(&a);
        socket.set_knob("mss", &KnobValue::Number(1000))?;
        socket.set_nodelay(true)?;
        socket.bind("10.0.0.1:5555".parse().expect("an address"))?;
        let bad = socket.set_knob("mms", &KnobValue::Number(1000));
        assert_eq!(kind(bad), Some(ErrorKind::InvalidInput));
        let listener = TcpListener::bind(&b, "0.0.0.0:80").await?;
        let to: SocketAddr = (ip(B), 80).into();
        let client = socket.connect(to).await?;
        let (server, peer) = listener.accept().await?;
        assert_eq!(peer.port(), 5555);
        assert!(client.nodelay()? && !server.nodelay()?);
        server.set_nodelay(true)?;
        assert!(server.nodelay()?);
        client.set_ttl(9)?;
        assert_eq!(client.ttl()?, 9);
        let sample = server.sample().expect("a connection");
        assert_eq!(sample.snd_mss_bytes, Some(1000 - 12));
        Ok(())
    });
}

#[test]
fn slices_are_one_write() {
    run(async {
        let nets = nets();
        let (mut client, mut server) = connected(&nets).await?;
        let slices = [
            IoSlice::new(b"one "),
            IoSlice::new(b""),
            IoSlice::new(b"write"),
        ];
        assert_eq!(client.write_vectored(&slices).await?, 9);
        let mut read = [0; 20];
        assert_eq!(server.read(&mut read).await?, 9);
        assert_eq!(&read[..9], b"one write");
        Ok(())
    });
}

#[test]
fn a_dropped_future_has_done_nothing() {
    run(async {
        let nets = nets();
        let [a, b] = &nets;
        // An attempt that is given up leaves no socket.
        {
            let attempt = pin!(TcpStream::connect(a, ("10.0.0.9", 80)));
            assert!(timeout(Duration::from_secs(1), attempt).await.is_err());
        }
        assert_eq!(a.host(|host| host.sockets().count()), 0);
        // Nor is a connection lost when an accept is given up.
        let listener = TcpListener::bind(b, (B, 80)).await?;
        assert!(
            timeout(Duration::from_secs(1), listener.accept())
                .await
                .is_err()
        );
        let client = TcpStream::connect(a, (B, 80)).await?;
        let (server, _) = listener.accept().await?;
        assert!(!stays_behind(listener.accept()));
        assert!(!stays_behind(server.peek(&mut [0; 10])));
        assert!(!stays_behind(server.read_chunk(10)));
        assert!(!stays_behind(a.wait_idle()));
        client.try_write(b"kept")?;
        assert_eq!(&server.read_chunk(100).await?[..], b"kept");
        Ok(())
    });
}

#[test]
fn a_host_of_any_address_stands_for_all_others() {
    run(async {
        let mut all = host(B, B6);
        all.system.any_address = true;
        let [a, b] = Net::pair([host(A, "fd00::1"), all]);
        let listener = TcpListener::bind(&b, "0.0.0.0:0").await?;
        for addr in ["198.51.100.7:80", "203.0.113.9:443"] {
            let client = TcpStream::connect(&a, addr).await?;
            let (server, _) = listener.accept().await?;
            assert_eq!(server.local_addr()?, client.peer_addr()?);
            assert_eq!(server.local_addr()?.to_string(), addr);
        }
        Ok(())
    });
}

#[test]
fn paced_data_keep_their_rate() {
    run(async {
        let nets = nets();
        let (mut client, mut server) = connected(&nets).await?;
        // 12.5 bytes per microsecond: a packet each 120 us, far below a tick of the runtime.
        client.set_knob("pacing_rate_max", &KnobValue::Number(100_000_000))?;
        let began = tokio::time::Instant::now();
        let writer = async {
            client.write_all(&vec![0; 12_500_000]).await?;
            client.shutdown().await
        };
        let reader = async {
            let mut buffer = vec![0; 1 << 20];
            while server.read(&mut buffer).await? > 0 {}
            Ok::<_, io::Error>(began.elapsed())
        };
        let (written, took) = tokio::join!(writer, reader);
        written?;
        let seconds = took?.as_secs_f64();
        assert!((0.95..1.10).contains(&seconds), "{seconds} s for one");
        Ok(())
    });
}

#[test]
fn a_write_after_a_shutdown_does_not_wait_for_room() {
    run(async {
        let nets = nets();
        let (client, server) = connected(&nets).await?;
        let (reads, writes) = client.into_split();
        // The peer does not read.
        let mut chunk = Bytes::from(vec![7; 64 << 20]);
        while timeout(Duration::from_secs(60), writes.write_chunk(&mut chunk))
            .await
            .is_ok()
        {}
        let (waited, ()) = tokio::join!(reads.write_chunk(&mut chunk), async {
            sleep(Duration::from_secs(1)).await;
            drop(writes);
        });
        assert_eq!(kind(waited), Some(ErrorKind::BrokenPipe));
        let write = reads.write_chunk(&mut chunk);
        let write = timeout(Duration::from_secs(1), write).await?;
        assert_eq!(kind(write), Some(ErrorKind::BrokenPipe));
        drop(server);
        Ok(())
    });
}

#[test]
fn a_path_may_get_another_mtu() {
    run(async {
        let nets = nets();
        let (client, mut server) = connected(&nets).await?;
        let mss = || client.sample().and_then(|sample| sample.snd_mss_bytes);
        assert_eq!(mss(), Some(1500 - 52));
        nets[0].set_mtu(1000)?;
        assert_eq!(mss(), Some(1000 - 52));
        assert_eq!(kind(nets[0].set_mtu(67)), Some(ErrorKind::InvalidInput));
        nets[0].set_mtu(68)?;
        client.try_write(&[7; 10_000])?;
        drop(client);
        let mut received = Vec::new();
        server.read_to_end(&mut received).await?;
        assert_eq!(received, [7; 10_000]);
        Ok(())
    });
}

#[test]
fn a_connection_that_has_ended_is_known_until_it_is_dropped() {
    run(async {
        let nets = nets();
        let (mut client, server) = connected(&nets).await?;
        let ends = (client.local_addr()?, client.peer_addr()?);
        assert!(client.limit().is_some());
        server.set_zero_linger()?;
        drop(server);
        client.readable().await?;
        let ready = client.ready(Interest::READABLE | Interest::WRITABLE | Interest::ERROR);
        let ready = ready.await?;
        assert!(ready.is_read_closed() && ready.is_write_closed() && ready.is_error());
        let read = client.read(&mut [0; 1]).await;
        assert_eq!(kind(read), Some(ErrorKind::ConnectionReset));
        assert!(client.limit().is_none() && client.sample().is_some());
        assert_eq!((client.local_addr()?, client.peer_addr()?), ends);
        assert!(!client.nodelay()?);
        Ok(())
    });
}

#[test]
fn a_read_fills_buffers_of_any_kind() {
    run(async {
        let nets = nets();
        let (mut client, server) = connected(&nets).await?;
        client.write_all(b"several slices and more").await?;
        server.readable().await?;
        let (mut one, mut two) = ([0; 7], [0; 8]);
        let mut slices = [IoSliceMut::new(&mut one), IoSliceMut::new(&mut two)];
        assert_eq!(server.try_read_vectored(&mut slices)?, 15);
        assert_eq!((&one, &two), (b"several", b" slices "));
        let mut rest = Vec::from(b"now: ");
        assert_eq!(server.try_read_buf(&mut rest)?, 8);
        assert_eq!(rest, b"now: and more");
        let again = server.try_read_buf(&mut rest);
        assert_eq!(kind(again), Some(ErrorKind::WouldBlock));
        drop(client);
        let end = server.ready(Interest::READABLE).await?;
        assert!(end.is_read_closed());
        assert_eq!(server.try_read_buf(&mut rest)?, 0);
        Ok(())
    });
}
