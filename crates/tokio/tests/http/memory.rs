//! Two hosts of ours, in virtual time.

use std::io;

use hyper::Version;
use tcptailor_tokio::stack::{HostConfig, profile};
use tcptailor_tokio::{Net, TcpListener, TcpStream};

use crate::{check, serve};

#[tokio::test(start_paused = true)]
async fn both_versions_between_two_hosts_of_ours() -> io::Result<()> {
    let host = |addr: [u8; 4]| HostConfig::of(&profile::linux_6_18(), addr.into(), 1);
    let [here, there] = Net::pair([host([10, 0, 0, 1]), host([10, 0, 0, 2])]);
    let listener = TcpListener::bind(&there, "10.0.0.2:80").await?;
    let addr = listener.local_addr()?;
    let server = tokio::spawn(async move {
        for _ in 0..2 {
            serve(listener.accept().await?.0).await?;
        }
        Ok::<_, io::Error>(())
    });
    for version in [Version::HTTP_11, Version::HTTP_2] {
        let connection = TcpStream::connect(&here, addr).await?;
        check(connection, version).await.map_err(io::Error::other)?;
    }
    server.await??;
    here.wait_idle().await?;
    there.wait_idle().await
}
