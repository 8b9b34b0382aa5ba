//! Runs that do not depend on each other, side by side.

use std::iter;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Maps `run` over the items, in order, on all processors.
pub(super) fn each<T: Sync, R: Send>(items: &[T], run: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let next = AtomicUsize::new(0);
    // Runs differ in length: a thread that is ready takes the next.
    let some = || {
        let taken = iter::from_fn(|| {
            let at = next.fetch_add(1, Ordering::Relaxed);
            items.get(at).map(|item| (at, run(item)))
        });
        taken.collect::<Vec<(usize, R)>>()
    };
    let mut all = thread::scope(|scope| {
        let threads: Vec<_> = (0..processors.min(items.len()))
            .map(|_| scope.spawn(some))
            .collect();
        let joined = threads.into_iter().map(|thread| {
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        joined.flatten().collect::<Vec<_>>()
    });
    all.sort_unstable_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, result)| result).collect()
}
