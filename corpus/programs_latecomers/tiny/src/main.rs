//! Answers each request of tiny_http with a page of so many bytes.
use tiny_http::{Response, Server};

fn main() {
    let mut args = std::env::args().skip(1);
    let port: u16 = args.next().expect("as the situation starts it").parse().expect("as the situation starts it");
    let bytes: usize = args.next().expect("as the situation starts it").parse().expect("as the situation starts it");
    let server = Server::http(("0.0.0.0", port)).expect("as the situation starts it");
    for request in server.incoming_requests() {
        let _ = request.respond(Response::from_data(vec![b'x'; bytes]));
    }
}
