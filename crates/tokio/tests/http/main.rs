//! hyper, client and server, HTTP/1.1 and HTTP/2, unchanged on sockets of ours: in memory, and
//! with the kernel's TCP and curl at the other end.

mod kernel;
mod memory;
#[path = "../namespace/mod.rs"]
mod namespace;

use std::convert::Infallible;
use std::io;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};

/// What hyper runs on.
pub(crate) trait Connection: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Connection for T {}

/// Bytes that tell their place in the body.
pub(crate) fn body_of(bytes: usize) -> Bytes {
    (0..bytes).map(|at| (at % 251) as u8).collect()
}

/// `GET /N` is a body of N bytes, `POST` is the body of the request.
async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().trim_start_matches('/').to_owned();
    let (status, body) = match (request.method(), path.parse()) {
        (&Method::GET, Ok(bytes)) => (StatusCode::OK, body_of(bytes)),
        (&Method::POST, _) => match request.into_body().collect().await {
            Ok(body) => (StatusCode::OK, body.to_bytes()),
            Err(_) => (StatusCode::BAD_REQUEST, Bytes::new()),
        },
        _ => (StatusCode::NOT_FOUND, Bytes::new()),
    };
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    Ok(response)
}

/// Serves one connection, of whichever version the client begins with.
pub(crate) async fn serve(connection: impl Connection) -> io::Result<()> {
    let server = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
    server
        .serve_connection(TokioIo::new(connection), service_fn(answer))
        .await
        .map_err(io::Error::other)
}

/// Makes all `requests` on one connection, at once where the version allows it, and compares the
/// answers.
pub(crate) async fn check(connection: impl Connection, version: Version) -> hyper::Result<()> {
    let sizes = [0, 1, 1000, 100_000, 3_000_000];
    let io = TokioIo::new(connection);
    if version == Version::HTTP_2 {
        let (sender, driver) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await?;
        let driver = tokio::spawn(driver);
        let mut exchanges = tokio::task::JoinSet::new();
        for bytes in sizes {
            for request in requests(bytes) {
                let mut sender = sender.clone();
                exchanges
                    .spawn(async move { judge(bytes, sender.send_request(request).await?).await });
            }
        }
        while let Some(exchange) = exchanges.join_next().await {
            exchange.expect("no panic")?;
        }
        drop(sender);
        return driver.await.expect("no panic");
    }
    let (mut sender, driver) = hyper::client::conn::http1::handshake(io).await?;
    let driver = tokio::spawn(driver);
    for bytes in sizes {
        for request in requests(bytes) {
            judge(bytes, sender.send_request(request).await?).await?;
        }
    }
    drop(sender);
    driver.await.expect("no panic")
}

fn requests(bytes: usize) -> [Request<Full<Bytes>>; 2] {
    let get = Request::get(format!("http://host/{bytes}")).body(Full::default());
    let post = Request::post("http://host/").body(Full::new(body_of(bytes)));
    [get, post].map(|request| request.expect("a request"))
}

async fn judge(bytes: usize, response: Response<Incoming>) -> hyper::Result<()> {
    assert_eq!(response.status(), StatusCode::OK);
    let body = response.into_body().collect().await?.to_bytes();
    assert!(body == body_of(bytes), "{} bytes for {bytes}", body.len());
    Ok(())
}
