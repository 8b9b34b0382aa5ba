//! When the machine's processors were away: taken by a neighbour of the host, or by other work. A
//! script that failed meanwhile is not evidence about the kernel.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How often each processor is looked for.
const INTERVAL: Duration = Duration::from_millis(1);
/// From this on an absence is noted: scripts allow the kernel a few milliseconds, and its timers
/// have ticks of 4 ms.
const WORTH_NOTING: Duration = Duration::from_millis(3);

/// Looks for each processor all the time.
#[derive(Debug, Default)]
pub(crate) struct Witness {
    /// When a processor came back that had been away.
    absences: Mutex<Vec<Instant>>,
    is_over: AtomicBool,
}

impl Witness {
    /// What `work` returns; meanwhile each processor is looked for.
    pub(crate) fn look_during<R>(&self, work: impl FnOnce() -> R) -> R {
        let count = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            for processor in 0..count {
                scope.spawn(move || self.look_for(processor));
            }
            // Also where the work panics: the scope waits for those who look.
            let _over = Over(&self.is_over);
            work()
        })
    }

    /// Whether a processor was away at any time since then.
    pub(crate) fn saw_absence_since(&self, then: Instant) -> bool {
        // The absence that ends now is noted by its processor's next look.
        thread::sleep(2 * INTERVAL);
        let absences = self.absences.lock().expect("nobody panics with it");
        absences.iter().any(|back| *back >= then)
    }

    fn look_for(&self, processor: usize) {
        stay_on(processor);
        super::host::become_realtime();
        while !self.is_over.load(Ordering::Relaxed) {
            let before = Instant::now();
            thread::sleep(INTERVAL);
            let now = Instant::now();
            if now - before > INTERVAL + WORTH_NOTING {
                let mut absences = self.absences.lock().expect("nobody panics with it");
                absences.push(now);
            }
        }
    }
}

/// Tells those who look that it is over.
struct Over<'w>(&'w AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Keeps the calling thread on one processor. Where that is refused, it sees less.
fn stay_on(processor: usize) {
    // SAFETY: all-zero bytes are an empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is valid, and the macro ignores processors beyond its size.
    unsafe { libc::CPU_SET(processor, &mut set) };
    // SAFETY: the set outlives the call; 0 means the calling thread.
    unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
}
