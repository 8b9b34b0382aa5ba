//! A host of ours on a TUN device, and the kernel's TCP at the other end.

use std::io;
use std::net::SocketAddr;
use std::process::{Command, Output};

use hyper::Version;
use linux::LabNetns;
use tcptailor_tokio::{TcpListener, TcpStream};

use crate::namespace::{KERNEL, asking, ip, namespace, net};
use crate::{body_of, check, serve};

#[tokio::test]
async fn our_client_talks_to_a_server_on_kernel_sockets() -> io::Result<()> {
    let Some((namespace, tun)) = namespace() else {
        return Ok(());
    };
    let net = net(tun)?;
    for kernel in KERNEL {
        let at = SocketAddr::new(ip(kernel), 0);
        let listener = namespace
            .handle()
            .run(|| std::net::TcpListener::bind(at))
            .expect("ours")?;
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let at = listener.local_addr()?;
        let server = tokio::spawn(async move {
            for _ in 0..2 {
                serve(listener.accept().await?.0).await?;
            }
            Ok::<_, io::Error>(())
        });
        for version in [Version::HTTP_11, Version::HTTP_2] {
            let connection = TcpStream::connect(&net, at).await?;
            check(connection, version).await.map_err(io::Error::other)?;
        }
        server.await??;
    }
    net.wait_idle().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curl_talks_to_our_server() -> io::Result<()> {
    let Some((namespace, tun)) = namespace() else {
        return Ok(());
    };
    if asking::witness("curl").is_none() {
        return Ok(());
    }
    let net = net(tun)?;
    let mut servers = tokio::task::JoinSet::new();
    for at in ["10.77.0.2:80", "[fd77::2]:80"] {
        let listener = TcpListener::bind(&net, at).await?;
        servers.spawn(async move {
            loop {
                let Ok((connection, _)) = listener.accept().await else {
                    return;
                };
                tokio::spawn(serve(connection));
            }
        });
    }
    let body = body_of(5_000_000);
    let folder = tempfile::tempdir()?;
    let upload = folder.path().join("upload");
    std::fs::write(&upload, &body)?;
    let upload = format!("@{}", upload.display());
    for host in ["10.77.0.2", "[fd77::2]"] {
        for version in ["--http1.1", "--http2-prior-knowledge"] {
            let get = format!("http://{host}/{}", body.len());
            let downloaded = curl(&namespace, &[version, &get]).await?;
            assert_is(&downloaded, &body);
            let post = format!("http://{host}/");
            let echoed = curl(&namespace, &[version, "--data-binary", &upload, &post]).await?;
            assert_is(&echoed, &body);
            let refused = curl(&namespace, &[version, &format!("http://{host}:81/")]).await?;
            // CURLE_COULDNT_CONNECT
            assert_eq!(refused.status.code(), Some(7));
        }
    }
    servers.shutdown().await;
    Ok(())
}

/// What curl printed is this.
fn assert_is(output: &Output, body: &[u8]) {
    let length = output.stdout.len();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.stdout == body,
        "{length} bytes, {}: {said}",
        output.status
    );
}

/// Runs curl inside the namespace, without holding a thread of the runtime.
async fn curl(namespace: &LabNetns, arguments: &[&str]) -> io::Result<Output> {
    let mut command = Command::new("curl");
    command.args(["-sS", "--globoff", "--max-time", "60"]);
    command.args(arguments);
    tokio::task::block_in_place(|| namespace.handle().run(|| command.output()).expect("ours"))
}
