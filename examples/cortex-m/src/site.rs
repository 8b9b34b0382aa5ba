//! The pages of the web server (HTTP/1.1 as far as a browser and curl need it).

use alloc::format;
use alloc::string::String;
use bytes::Bytes;

use crate::memory::{MemoryUse, memory_use};

/// Bytes of the longest request; a longer one is refused.
pub const REQUEST_BYTES_MAX: usize = 1024;

const PAGE: &[u8] = include_bytes!("../page.html");
/// `/long` is the page so many times, more than the board has memory.
const LONG: usize = 128;

/// What is sent: a head, and then part of a page, or the page several times.
#[derive(Debug)]
pub struct Answer {
    /// The head, and what is not in flash.
    pub head: Bytes,
    /// A page in flash.
    page: &'static [u8],
    /// Bytes of it that were sent already, all repetitions counted.
    sent: usize,
    bytes: usize,
}

impl Answer {
    fn new(status: &str, kind: &str, page: &'static [u8], times: usize) -> Self {
        let bytes = page.len() * times;
        Self {
            head: head(status, kind, bytes).into(),
            page,
            sent: 0,
            bytes,
        }
    }

    /// The next bytes of the page; empty where all were sent.
    #[must_use]
    pub fn rest(&self) -> &'static [u8] {
        if self.sent == self.bytes {
            return &[];
        }
        &self.page[self.sent % self.page.len()..]
    }

    /// So many of [`rest`](Self::rest) were sent.
    pub fn on_sent(&mut self, bytes: usize) {
        self.sent += bytes;
    }
}

fn head(status: &str, kind: &str, bytes: usize) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {bytes}\r\n\
         Connection: close\r\n\r\n"
    )
}

/// The answer to a request; `None` where that is not complete yet.
#[must_use]
pub fn answer(request: &[u8]) -> Option<Answer> {
    let is_complete = request.windows(4).any(|end| end == b"\r\n\r\n");
    if !is_complete {
        let is_too_long = request.len() >= REQUEST_BYTES_MAX;
        return is_too_long.then(|| Answer::new("431 Too Long", "text/plain", b"", 1));
    }
    let html = "text/html; charset=utf-8";
    let mut words = request.split(|byte| *byte == b' ');
    Some(match (words.next(), words.next()) {
        (Some(b"GET"), Some(b"/")) => Answer::new("200 OK", html, PAGE, 1),
        (Some(b"GET"), Some(b"/long")) => Answer::new("200 OK", html, PAGE, LONG),
        (Some(b"GET"), Some(b"/memory")) => memory(),
        (Some(b"GET"), _) => Answer::new("404 Not Found", "text/plain", b"no such page\n", 1),
        _ => Answer::new("405 Method Not Allowed", "text/plain", b"only GET\n", 1),
    })
}

fn memory() -> Answer {
    let MemoryUse {
        heap,
        heap_peak,
        stack_peak,
        stack_size,
    } = memory_use();
    let text = format!(
        "heap {heap}\nheap_peak {heap_peak}\nstack_peak {stack_peak}\nstack_size {stack_size}\n"
    );
    let mut answer = Answer::new("200 OK", "text/plain", b"", 1);
    answer.head = (head("200 OK", "text/plain", text.len()) + &text).into();
    answer
}
