//! Sockets of two hosts with a cable between them, in virtual time.

use std::future::{Future, poll_fn};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use bytes::Bytes;
use futures_channel::mpsc;
use futures_util::{Sink, SinkExt as _, StreamExt as _, sink, stream};
use tcptailor_tokio::base::{KnobValue, Limit};
use tcptailor_tokio::stack::{HostConfig, Packet, profile};
use tcptailor_tokio::{Net, TcpListener, TcpSocket, TcpStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest, ReadBuf};
use tokio::time::{sleep, timeout};

const A: &str = "10.0.0.1";
const B: &str = "10.0.0.2";
const B6: &str = "fd00::2";

fn host(addr: &str, addr6: &str) -> HostConfig {
    let mut config = HostConfig::of(&profile::linux_6_18(), ip(addr), 1);
    config.addrs.push(ip(addr6));
    config
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn nets() -> [Net; 2] {
    Net::pair([host(A, "fd00::1"), host(B, B6)])
}

/// A client at `a` and the server's end of its connection at `b`.
async fn connected([a, b]: &[Net; 2]) -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind(b, (B, 80)).await?;
    let client = TcpStream::connect(a, (B, 80)).await?;
    let (server, _) = listener.accept().await?;
    Ok((client, server))
}

/// Runs a test on one thread, with a clock that jumps; no task may be left after it.
fn run(test: impl Future<Output = io::Result<()>>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        timeout(Duration::from_secs(100_000), test)
            .await
            .expect("nothing hangs")
            .expect("no error");
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    });
    assert_eq!(runtime.metrics().num_alive_tasks(), 0);
}

fn kind<T>(result: io::Result<T>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}

/// A task that nobody needs to wake.
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
fn what_was_written_is_delivered_after_the_drop() {
    run(async {
        let nets = nets();
        let (mut client, mut server) = connected(&nets).await?;
        let sent = vec![1; 40_000];
        client.write_all(&sent).await?;
        drop(client);
        let mut received = Vec::new();
        server.read_to_end(&mut received).await?;
        assert!(received == sent);
        drop(server);
        nets[0].wait_idle().await
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
fn sockets_keep_their_net() {
    run(async {
        let nets = nets();
        let (mut client, mut server) = connected(&nets).await?;
        drop(nets);
        client.write_all(b"x").await?;
        assert_eq!(server.read(&mut [0; 2]).await?, 1);
        Ok(())
    });
}

#[test]
fn sockets_fail_where_nothing_moves_their_packets() {
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime")
    };
    let first = runtime();
    let (mut client, server) = first
        .block_on(async { connected(&nets()).await })
        .expect("two ends");
    drop(first);
    let second = runtime();
    let read = second.block_on(client.read(&mut [0; 1]));
    assert_eq!(kind(read), Some(ErrorKind::NetworkDown));
    let connect = second.block_on(TcpStream::connect(server.net(), (A, 80)));
    assert_eq!(kind(connect), Some(ErrorKind::NetworkDown));
    drop((client, server));
}

#[test]
fn a_sink_that_is_full_holds_packets_back() {
    run(async {
        // A packet each 3 ms from A to B, whatever A would like to send.
        let (to_path, mut from_a) = mpsc::channel(1);
        let (mut to_b, at_b) = mpsc::channel(1);
        let (to_a, from_b) = mpsc::channel(100);
        let path = tokio::spawn(async move {
            while let Some(packet) = from_a.next().await {
                sleep(Duration::from_millis(3)).await;
                if to_b.send(packet).await.is_err() {
                    return;
                }
            }
        });
        let net = |config, outgoing: mpsc::Sender<Packet>, incoming: mpsc::Receiver<Packet>| {
            let outgoing = outgoing.sink_map_err(io::Error::other);
            Net::over_packets(config, incoming.map(Ok), outgoing)
        };
        let a = net(host(A, "fd00::1"), to_path, from_b);
        let nets = [a, net(host(B, B6), to_a, at_b)];
        let (mut client, mut server) = connected(&nets).await?;
        client.set_knob("pacing_rate_max", &KnobValue::Number(1_000_000_000))?;
        let sent = vec![5; 400_000];
        let mut received = Vec::new();
        let (written, read) = tokio::join!(
            async {
                client.write_all(&sent).await?;
                client.shutdown().await
            },
            server.read_to_end(&mut received)
        );
        written?;
        read?;
        assert!(received == sent);
        drop((client, server, nets));
        path.await?;
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
fn a_flood_of_garbage_leaves_others_their_turn() {
    run(async {
        let polled = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&polled);
        let garbage = stream::repeat_with(move || {
            // Who takes all of it at once does not get away with it.
            let end = count.fetch_add(1, Ordering::Relaxed) > 100_000;
            let garbage = Bytes::from_static(b"this is no packet");
            (!end).then_some(garbage).ok_or(ErrorKind::Other.into())
        });
        let nowhere = sink::drain().sink_map_err(|never| match never {});
        let net = Net::over_bytes(host(A, "fd00::1"), garbage, nowhere);
        tokio::task::yield_now().await;
        let before = polled.load(Ordering::Relaxed);
        assert!((1..1000).contains(&before), "{before} in one turn");
        drop(net);
        Ok(())
    });
}

#[test]
fn a_write_after_a_shutdown_does_not_wait_for_room() {
    run(async {
        let nets = nets();
        let (client, server) = connected(&nets).await?;
        let (reads, writes) = client.into_split();
        // Nobody reads.
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

/// Passes packets on, one each millisecond, and says when it was closed.
struct Slow {
    next: mpsc::Sender<Packet>,
    is_closed: Arc<AtomicBool>,
}

fn slow(slow: Slow) -> impl Sink<Packet, Error = io::Error> {
    let Slow { next, is_closed } = slow;
    let sink = sink::unfold(next, |mut next, packet| async move {
        sleep(Duration::from_millis(1)).await;
        next.send(packet).await.map_err(io::Error::other)?;
        Ok(next)
    });
    Closing(Box::pin(sink), is_closed)
}

/// A sink that says when it was closed.
struct Closing<S>(Pin<Box<S>>, Arc<AtomicBool>);

impl<S: Sink<Packet>> Sink<Packet> for Closing<S> {
    type Error = S::Error;

    fn poll_ready(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.as_mut().poll_ready(cx)
    }

    fn start_send(mut self: Pin<&mut Self>, packet: Packet) -> Result<(), S::Error> {
        self.0.as_mut().start_send(packet)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.as_mut().poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.1.store(true, Ordering::Relaxed);
        self.0.as_mut().poll_close(cx)
    }
}

#[test]
fn the_last_packets_of_a_net_leave_and_its_sink_is_closed() {
    run(async {
        let (next, at_b) = mpsc::channel(1);
        let (to_a, from_b) = mpsc::channel(100);
        let is_closed = Arc::new(AtomicBool::new(false));
        let outgoing = slow(Slow {
            next,
            is_closed: Arc::clone(&is_closed),
        });
        let a = Net::over_packets(host(A, "fd00::1"), from_b.map(Ok), outgoing);
        let to_a = to_a.sink_map_err(io::Error::other);
        let b = Net::over_packets(host(B, B6), at_b.map(Ok), to_a);
        let listener = TcpListener::bind(&b, (B, 80)).await?;
        let mut pairs = Vec::new();
        for _ in 0..100 {
            let client = TcpStream::connect(&a, (B, 80)).await?;
            client.set_zero_linger()?;
            pairs.push((client, listener.accept().await?.0));
        }
        let (clients, servers): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
        // A hundred resets wait for the sink, and nobody holds their net any more.
        drop((clients, a));
        for mut server in servers {
            let read = server.read(&mut [0; 1]).await;
            assert_eq!(kind(read), Some(ErrorKind::ConnectionReset));
        }
        sleep(Duration::from_millis(10)).await;
        assert!(is_closed.load(Ordering::Relaxed));
        Ok(())
    });
}

#[test]
fn a_net_is_idle_when_its_last_packet_has_left() {
    run(async {
        let (next, at_b) = mpsc::channel(1);
        let (to_a, from_b) = mpsc::channel(100);
        let outgoing = slow(Slow {
            next,
            is_closed: Arc::default(),
        });
        let a = Net::over_packets(host(A, "fd00::1"), from_b.map(Ok), outgoing);
        let to_a = to_a.sink_map_err(io::Error::other);
        let nets = [a, Net::over_packets(host(B, B6), at_b.map(Ok), to_a)];
        let (client, mut server) = connected(&nets).await?;
        client.set_zero_linger()?;
        drop(client);
        nets[0].wait_idle().await?;
        // Nothing but the other host's own turn is between the reset and its socket.
        let read = timeout(Duration::from_micros(1), server.read(&mut [0; 1])).await?;
        assert_eq!(kind(read), Some(ErrorKind::ConnectionReset));
        Ok(())
    });
}

#[test]
fn what_was_written_is_delivered_though_nobody_holds_the_net() {
    run(async {
        let [a, b] = nets();
        let listener = TcpListener::bind(&b, (B, 80)).await?;
        let mut client = TcpStream::connect(&a, (B, 80)).await?;
        let (mut server, _) = listener.accept().await?;
        // Several round trips, by the windows of either side.
        let sent = vec![1; 1 << 20];
        let (written, ()) = tokio::join!(
            async {
                client.write_all(&sent).await?;
                drop((client, a));
                Ok::<_, io::Error>(())
            },
            async {
                let mut received = vec![0; 1 << 20];
                server.read_exact(&mut received).await.expect("all arrives");
                assert!(received == sent);
            }
        );
        written?;
        assert_eq!(server.read(&mut [0; 1]).await?, 0);
        Ok(())
    });
}

#[test]
fn who_does_not_answer_does_not_keep_a_net_for_ever() {
    run(async {
        let (to_nobody, mut at_nobody) = mpsc::channel(1000);
        let (to_b, at_b) = mpsc::channel(1000);
        let (to_a, from_b) = mpsc::channel(1000);
        let is_cut = Arc::new(AtomicBool::new(false));
        let cut = Arc::clone(&is_cut);
        let path = tokio::spawn(async move {
            let mut to_b: mpsc::Sender<Packet> = to_b;
            while let Some(packet) = at_nobody.next().await {
                if !cut.load(Ordering::Relaxed) && to_b.send(packet).await.is_err() {
                    return;
                }
            }
        });
        let net = |config, outgoing: mpsc::Sender<Packet>, incoming: mpsc::Receiver<Packet>| {
            let outgoing = outgoing.sink_map_err(io::Error::other);
            Net::over_packets(config, incoming.map(Ok), outgoing)
        };
        let a = net(host(A, "fd00::1"), to_nobody, from_b);
        let nets = [a, net(host(B, B6), to_a, at_b)];
        let (mut client, server) = connected(&nets).await?;
        is_cut.store(true, Ordering::Relaxed);
        client.write_all(b"nobody hears this").await?;
        let [a, b] = nets;
        let began = tokio::time::Instant::now();
        drop((client, a));
        // Its sink goes when its task ends.
        path.await?;
        let took = began.elapsed().as_secs();
        assert!((59..=66).contains(&took), "{took} s");
        drop((server, b));
        Ok(())
    });
}

#[test]
fn a_path_may_get_another_mtu() {
    run(async {
        let nets = nets();
        let (client, server) = connected(&nets).await?;
        let mss = || client.sample().and_then(|sample| sample.snd_mss_bytes);
        assert_eq!(mss(), Some(1500 - 52));
        nets[0].set_mtu(1000)?;
        assert_eq!(mss(), Some(1000 - 52));
        drop(server);
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
