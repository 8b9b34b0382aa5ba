//! Which descriptors are corked by us, and what is held in them.
//!
//! A word of atomics per descriptor and a bit map of those with something held, so that a look over
//! all of them costs a handful of loads where nothing is.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Descriptors that are looked after; those above keep their `TCP_NODELAY` and are not corked.
pub(crate) const DESCRIPTORS: usize = 65_536;

const BITS: usize = 64;
const WORDS: usize = DESCRIPTORS / BITS;
const SUMMARY: usize = WORDS / BITS;

/// Set in the state of a descriptor that is one of several of the same connection.
const COPIED: u32 = 1 << 31;

/// Per descriptor: 0 where it is none of ours, else 1 and the writes since the last flush.
static STATES: [AtomicU32; DESCRIPTORS] = [const { AtomicU32::new(0) }; DESCRIPTORS];
/// A bit per descriptor that may hold something.
static HELD: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];
/// A bit per word of `HELD` that is not 0.
static HELD_WORDS: [AtomicU64; SUMMARY] = [const { AtomicU64::new(0) }; SUMMARY];

fn state(fd: i32) -> Option<&'static AtomicU32> {
    STATES.get(usize::try_from(fd).ok()?)
}

/// Takes a descriptor on; `false` where it is above the table.
pub(crate) fn adopt(fd: i32) -> bool {
    state(fd).is_some_and(|state| {
        // What was held stays held: it may be adopted already.
        let _ = state.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed);
        true
    })
}

/// Lets a descriptor go; whether it was ours.
pub(crate) fn forget(fd: i32) -> bool {
    take_held(fd);
    state(fd).is_some_and(|state| state.swap(0, Ordering::Relaxed) != 0)
}

/// Whether it is ours.
pub(crate) fn is_ours(fd: i32) -> bool {
    state(fd).is_some_and(|state| state.load(Ordering::Relaxed) != 0)
}

/// Notes that `copy` is the same connection as `fd`, where that is ours.
pub(crate) fn copy(fd: i32, copy: i32) {
    if let (Some(from), Some(to)) = (state(fd), state(copy))
        && from.load(Ordering::Relaxed) != 0
    {
        from.fetch_or(COPIED, Ordering::Relaxed);
        to.store(COPIED | 1, Ordering::Relaxed);
    }
}

/// Whether another descriptor may be the same connection.
pub(crate) fn is_copied(fd: i32) -> bool {
    state(fd).is_some_and(|state| state.load(Ordering::Relaxed) & COPIED != 0)
}

/// Counts a write; `None` where the descriptor is none of ours, else the writes since the flush.
pub(crate) fn on_written(fd: i32) -> Option<u32> {
    let state = state(fd)?;
    // A program that only writes may come to the end of the numbers; it stays there.
    let more = |state: u32| match state & !COPIED {
        0 => None,
        writes => Some((state & COPIED) | (writes + 1).min(COPIED - 1)),
    };
    let counted = state.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    let writes = counted.ok()? & !COPIED;
    let (word, bit) = place(fd)?;
    HELD[word].fetch_or(bit, Ordering::Relaxed);
    HELD_WORDS[word / BITS].fetch_or(1 << (word % BITS), Ordering::Relaxed);
    Some(writes)
}

/// Takes the mark of a descriptor; whether something was held.
pub(crate) fn take_held(fd: i32) -> bool {
    let Some((word, bit)) = place(fd) else {
        return false;
    };
    if let Some(state) = state(fd) {
        let _ = state.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |state| {
            (state & !COPIED > 1).then_some((state & COPIED) | 1)
        });
    }
    HELD[word].load(Ordering::Relaxed) & bit != 0
        && HELD[word].fetch_and(!bit, Ordering::Relaxed) & bit != 0
}

/// Calls `flush` for each descriptor that holds something.
pub(crate) fn for_each_held(mut flush: impl FnMut(i32)) {
    for (index, summary) in HELD_WORDS.iter().enumerate() {
        if summary.load(Ordering::Relaxed) == 0 {
            continue;
        }
        let mut words = summary.swap(0, Ordering::Relaxed);
        while words != 0 {
            let word = index * BITS + words.trailing_zeros() as usize;
            words &= words - 1;
            let mut held = HELD[word].load(Ordering::Relaxed);
            while held != 0 {
                let fd = word * BITS + held.trailing_zeros() as usize;
                held &= held - 1;
                // Below `DESCRIPTORS`, so it fits.
                flush(fd as i32);
            }
        }
    }
}

fn place(fd: i32) -> Option<(usize, u64)> {
    let fd = usize::try_from(fd).ok()?;
    (fd < DESCRIPTORS).then_some((fd / BITS, 1 << (fd % BITS)))
}
