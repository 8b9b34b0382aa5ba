//! Two hosts with a cable between them, in virtual time.

use std::future::Future;
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::time::Duration;

use tcptailor_tokio::stack::{HostConfig, profile};
use tcptailor_tokio::{Net, TcpListener, TcpStream};
use tokio::time::timeout;

pub(crate) const A: &str = "10.0.0.1";
pub(crate) const B: &str = "10.0.0.2";
pub(crate) const B6: &str = "fd00::2";

/// A host of two addresses, as Linux has it.
pub(crate) fn host(addr: &str, addr6: &str) -> HostConfig {
    let mut config = HostConfig::of(&profile::linux_6_18(), ip(addr), 1);
    config.addrs.push(ip(addr6));
    config
}

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// Two hosts and a cable between them.
pub(crate) fn nets() -> [Net; 2] {
    Net::pair([host(A, "fd00::1"), host(B, B6)])
}

/// A client at `a` and the server's end of its connection at `b`.
pub(crate) async fn connected([a, b]: &[Net; 2]) -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind(b, (B, 80)).await?;
    let client = TcpStream::connect(a, (B, 80)).await?;
    let (server, _) = listener.accept().await?;
    Ok((client, server))
}

/// Runs a test on one thread, with a clock that jumps; no task may be left after it.
pub(crate) fn run(test: impl Future<Output = io::Result<()>>) {
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

pub(crate) fn kind<T>(result: io::Result<T>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}
