//! Runs that do not depend on each other, side by side.

use std::num::NonZeroUsize;
use std::thread;

/// What `run` makes of each item, in their order, on as many processors as there are.
pub(super) fn each<T: Sync, R: Send>(items: &[T], run: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let share = items.len().div_ceil(processors).max(1);
    thread::scope(|scope| {
        let threads: Vec<_> = items
            .chunks(share)
            .map(|items| scope.spawn(|| items.iter().map(&run).collect::<Vec<R>>()))
            .collect();
        let joined = threads.into_iter().map(|thread| {
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        joined.flatten().collect()
    })
}
