//! What a net does with what it is given, and with what it has left at its end: over slow sinks,
//! streams that are not packets, and when all its handles are dropped.

mod cable;

use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_channel::mpsc;
use futures_util::{Sink, SinkExt as _, StreamExt as _, sink, stream};
use tcptailor_tokio::base::KnobValue;
use tcptailor_tokio::stack::Packet;
use tcptailor_tokio::{Net, TcpListener, TcpStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};

use cable::{A, B, B6, connected, host, kind, nets, run};

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
        // A hundred resets wait for the sink, and all handles of their net are dropped.
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
fn a_sink_that_takes_nothing_does_not_keep_a_net_for_ever() {
    run(async {
        let is_gone = Arc::new(AtomicBool::new(false));
        let gone = Arc::clone(&is_gone);
        let never = sink::unfold(Gone(gone), |gone, _packet: Packet| async move {
            std::future::pending::<()>().await;
            Ok::<_, io::Error>(gone)
        });
        let a = Net::over_packets(host(A, "fd00::1"), stream::pending(), never);
        let attempt = TcpStream::connect(&a, (B, 80));
        assert!(timeout(Duration::from_secs(1), attempt).await.is_err());
        drop(a);
        sleep(Duration::from_secs(50)).await;
        assert!(!is_gone.load(Ordering::Relaxed), "it may go on yet");
        sleep(Duration::from_secs(20)).await;
        assert!(is_gone.load(Ordering::Relaxed));
        Ok(())
    });
}

/// Says when it is dropped.
struct Gone(Arc<AtomicBool>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
