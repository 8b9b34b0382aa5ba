//! A connection that stalls: its client writes each request in two pieces, then reads the answer.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::Duration;

const REPLY: usize = 100;

/// A client that writes its request in two pieces, and a server that answers, until it is dropped.
pub(crate) struct Conversation {
    pub(crate) client: TcpStream,
    threads: Vec<JoinHandle<()>>,
}

impl Conversation {
    /// Over both ends of one connection.
    pub(crate) fn between(client: TcpStream, mut server: TcpStream) -> Self {
        let mut speaker = client.try_clone().expect("a descriptor");
        let serving = thread::spawn(move || {
            let mut request = [0; 4 + REPLY];
            while server.read_exact(&mut request).is_ok()
                && server.write_all(&[b'r'; REPLY]).is_ok()
            {}
        });
        let speaking = thread::spawn(move || {
            let mut reply = [0; REPLY];
            while speaker.write_all(b"head").is_ok()
                && speaker.write_all(&[b'b'; REPLY]).is_ok()
                && speaker.read_exact(&mut reply).is_ok()
            {
                thread::sleep(Duration::from_millis(1));
            }
        });
        Self {
            client,
            threads: vec![serving, speaking],
        }
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        let _ = self.client.shutdown(Shutdown::Both);
        for thread in self.threads.drain(..) {
            thread.join().expect("the conversation ends");
        }
    }
}
