//! What becomes of sockets whose TUN device is taken away.

mod namespace;

use std::io::{self, ErrorKind, Read as _};
use std::net::SocketAddr;
use std::time::Duration;

use linux::netlink::link;
use tcptailor_tokio::{TcpListener, TcpStream};
use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;

use namespace::{KERNEL, OURS, TUN, ip};

/// Long enough that the driver has nothing left to look at.
const QUIET: Duration = Duration::from_secs(2);

#[tokio::test]
async fn a_listener_alone_hears_that_its_device_is_taken_away() -> io::Result<()> {
    let Some((namespace, tun)) = namespace::namespace() else {
        return Ok(());
    };
    let net = namespace::net(tun)?;
    let listener = TcpListener::bind(&net, "0.0.0.0:80").await?;
    let deleted = async {
        tokio::time::sleep(QUIET).await;
        let deleted = namespace.handle().run(|| link::delete(TUN));
        deleted.expect("ours").expect("it is there");
    };
    let hear = async { tokio::join!(listener.accept(), deleted) };
    let (accepted, ()) = timeout(Duration::from_secs(30), hear)
        .await
        .expect("it hears of it");
    assert_eq!(
        accepted.err().map(|error| error.kind()),
        Some(ErrorKind::NetworkDown)
    );
    Ok(())
}

#[tokio::test]
async fn sockets_fail_whose_device_is_taken_away() -> io::Result<()> {
    let Some((namespace, tun)) = namespace::namespace() else {
        return Ok(());
    };
    let net = namespace::net(tun)?;
    let inside = namespace.handle();
    let kernel = inside
        .run(|| std::net::TcpListener::bind(SocketAddr::new(ip(KERNEL[0]), 0)))
        .expect("ours")?;
    let stream = TcpStream::connect(&net, kernel.local_addr()?).await?;
    let listener = TcpListener::bind(&net, "0.0.0.0:80").await?;
    let deleted = async {
        tokio::task::yield_now().await;
        inside
            .run(|| link::delete(TUN))
            .expect("ours")
            .expect("it is there");
    };
    let hear = async { tokio::join!(stream.read_chunk(1), listener.accept(), deleted) };
    let (read, accepted, ()) = timeout(Duration::from_secs(30), hear)
        .await
        .expect("they hear of it");
    let error = read.expect_err("nothing was sent");
    assert_eq!(error.kind(), ErrorKind::NetworkDown);
    assert!(error.to_string().contains(TUN), "{error}");
    let error = accepted.expect_err("nobody connected");
    assert_eq!(error.kind(), ErrorKind::NetworkDown);
    let again = TcpStream::connect(&net, "10.77.0.1:80").await;
    let error = again.expect_err("nothing moves packets");
    assert_eq!(error.kind(), ErrorKind::NetworkDown);
    Ok(())
}

#[tokio::test]
async fn a_host_follows_the_mtu_of_its_device() -> io::Result<()> {
    let Some((namespace, tun)) = namespace::namespace() else {
        return Ok(());
    };
    let net = namespace::net(tun)?;
    let inside = namespace.handle();
    let kernel = inside
        .run(|| std::net::TcpListener::bind(SocketAddr::new(ip(KERNEL[0]), 0)))
        .expect("ours")?;
    let mut stream = TcpStream::connect(&net, kernel.local_addr()?).await?;
    let mss = |stream: &TcpStream| stream.sample().and_then(|sample| sample.snd_mss_bytes);
    assert_eq!(mss(&stream), Some(1500 - 52));
    inside
        .run(|| link::set_mtu(TUN, 1000))
        .expect("ours")
        .expect("it is there");
    let follows = async {
        while mss(&stream) != Some(1000 - 52) {
            stream.write_all(b"x").await?;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    };
    timeout(Duration::from_secs(30), follows)
        .await
        .expect("it follows")
}

/// Connections that one call breaks: more than it sends packets of by itself.
const BROKEN: usize = 100;

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_one_call_does_not_send_leaves_all_the_same() -> io::Result<()> {
    let Some((namespace, tun)) = namespace::namespace() else {
        return Ok(());
    };
    let net = namespace::net(tun)?;
    let listener = TcpListener::bind(&net, (OURS[0], 80)).await?;
    // The driver has a thread of its own.
    let clients = namespace.handle().run(|| {
        let connect = |_| std::net::TcpStream::connect((OURS[0], 80));
        (0..BROKEN).map(connect).collect::<io::Result<Vec<_>>>()
    });
    drop(listener);
    for mut client in clients.expect("ours")? {
        // Sooner than a timer of the host that would send them by the way.
        client.set_read_timeout(Some(Duration::from_secs(2)))?;
        let read = client.read(&mut [0; 1]);
        let error = read.expect_err("nobody accepted it");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
    }
    net.wait_idle().await
}
