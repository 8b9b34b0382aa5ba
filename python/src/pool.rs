//! Runs on several threads, while the interpreter is free and signals are heard.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;

use crate::wrong;

/// How often it is asked, at least, whether a signal came.
const ASK_EVERY: Duration = Duration::from_millis(50);
/// Most threads of one call.
const JOBS_MAX: usize = 1024;

/// How many threads work: as many as the user says, else one for each processor.
///
/// # Errors
/// A sentence, if that is not a number of threads.
pub(crate) fn threads(jobs: Option<usize>) -> PyResult<usize> {
    match jobs {
        None => Ok(thread::available_parallelism().map_or(1, usize::from)),
        Some(jobs @ 1..=JOBS_MAX) => Ok(jobs),
        Some(jobs) => Err(wrong(format!("jobs={jobs}: the range is 1 to {JOBS_MAX}"))),
    }
}

/// Calls `work` with each number below `count`, on several threads, and returns what it gave in the
/// order of the numbers. The flag that it is handed is set where it is to end early.
///
/// # Errors
/// What a signal raised, such as `KeyboardInterrupt`.
pub(crate) fn each<T: Send>(
    py: Python<'_>,
    threads: usize,
    count: usize,
    work: impl Fn(usize, &AtomicBool) -> T + Sync,
) -> PyResult<Vec<T>> {
    let (stop, next) = (AtomicBool::new(false), AtomicUsize::new(0));
    py.detach(|| {
        thread::scope(|scope| {
            let (sender, results) = mpsc::channel();
            for _ in 0..threads.min(count) {
                let sender = sender.clone();
                let (stop, next, work) = (&stop, &next, &work);
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        if at >= count || sender.send((at, work(at, stop))).is_err() {
                            break;
                        }
                    }
                });
            }
            drop(sender);
            collect(&results, count, &stop)
        })
    })
}

/// Waits until all threads have ended.
fn collect<T>(results: &Receiver<(usize, T)>, count: usize, stop: &AtomicBool) -> PyResult<Vec<T>> {
    let mut done: Vec<Option<T>> = (0..count).map(|_| None).collect();
    let mut signal = Ok(());
    loop {
        match results.recv_timeout(ASK_EVERY) {
            Ok((at, result)) => done[at] = Some(result),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if signal.is_ok() {
            signal = asked();
            stop.store(signal.is_err(), Ordering::Relaxed);
        }
    }
    signal.map(|()| done.into_iter().flatten().collect())
}

/// Whether a signal came that the main thread of Python is to hear of.
///
/// # Errors
/// What it raised.
pub(crate) fn asked() -> PyResult<()> {
    Python::attach(|py| py.check_signals())
}
