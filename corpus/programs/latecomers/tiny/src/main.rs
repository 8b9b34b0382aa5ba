//! Answers each request of tiny_http with a page of so many bytes.
use std::error::Error;

use tiny_http::{Response, Server};

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut args = std::env::args().skip(1);
    let mut number = || args.next().ok_or("PORT BYTES");
    let port: u16 = number()?.parse()?;
    let bytes: usize = number()?.parse()?;
    let server = Server::http(("0.0.0.0", port))?;
    for request in server.incoming_requests() {
        // A client that has gone away is not waited for.
        let _ = request.respond(Response::from_data(vec![b'x'; bytes]));
    }
    Ok(())
}
