//! A stream of axum, without end.

use axum::{body::Body, body::Bytes, routing::get, Router};

async fn page() -> Body {
    static PIECE: [u8; 65536] = [b'x'; 65536];
    Body::from_stream(futures_util::stream::repeat_with(|| {
        Ok::<_, std::io::Error>(Bytes::from_static(&PIECE))
    }))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let port: u16 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(8080);
    let listener = tokio::net::TcpListener::bind(("0.0.0.0", port)).await?;
    axum::serve(listener, Router::new().route("/", get(page))).await
}
