//! The last counters of connections, as the kernel reports them when it closes a socket.
//!
//! The kernel keeps only this many of these messages for us. Where every connection counts, however
//! short, a thread takes them all the time, whatever the watch is busy with.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base::FlowSample;

use crate::clock::Clock;
use crate::sock_diag::ClosedSockets;

/// How often the thread takes what there is.
const TAKEN_EVERY: Duration = Duration::from_millis(1);
/// Connections that wait for the watch, at most; it takes them with each look.
const WAITING_MAX: usize = 20_000;

/// Connections that were closed.
#[derive(Debug)]
pub(super) struct Closing {
    shared: Arc<Mutex<Waiting>>,
    is_over: Arc<AtomicBool>,
}

#[derive(Debug)]
struct Waiting {
    sockets: ClosedSockets,
    samples: Vec<FlowSample>,
}

impl Closing {
    /// Listens in the calling thread's namespace, with a thread of its own where that is wanted;
    /// `None` where the kernel does not let us.
    pub(super) fn open(with_thread: bool) -> Option<Self> {
        let waiting = Waiting {
            sockets: ClosedSockets::open().ok()?,
            samples: Vec::new(),
        };
        let closing = Self {
            shared: Arc::new(Mutex::new(waiting)),
            is_over: Arc::new(AtomicBool::new(false)),
        };
        if with_thread {
            let (shared, is_over) = (Arc::clone(&closing.shared), Arc::clone(&closing.is_over));
            let take_all = move || {
                while !is_over.load(Ordering::Relaxed) {
                    lock(&shared).hear();
                    std::thread::sleep(TAKEN_EVERY);
                }
            };
            let thread = std::thread::Builder::new().name("closing".into());
            // Without it some are lost in a flood.
            let _ = thread.spawn(take_all);
        }
        Some(closing)
    }

    /// Connections closed since the last call.
    pub(super) fn take(&self) -> Vec<FlowSample> {
        let mut waiting = lock(&self.shared);
        waiting.hear();
        std::mem::take(&mut waiting.samples)
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

impl Waiting {
    fn hear(&mut self) {
        self.samples.extend(self.sockets.take(Clock.now()));
        self.samples.truncate(WAITING_MAX);
    }
}

fn lock(shared: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    // Samples are complete even if a thread panicked.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
