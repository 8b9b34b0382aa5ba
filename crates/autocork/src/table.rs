//! Descriptors corked by us, and the data held in them.
//!
//! A word of atomics per descriptor and a bit map of those with something held, so that a look over
//! all of them costs a handful of loads where nothing is.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Descriptors that are looked after; those above keep their `TCP_NODELAY` and are not corked.
pub(crate) const DESCRIPTORS: usize = 65_536;

const BITS: usize = 64;
const WORDS: usize = DESCRIPTORS / BITS;
const SUMMARY: usize = WORDS / BITS;

/// Set in the state of a descriptor that is one of several of the same file.
const COPIED: u32 = 1 << 31;
/// Set in the state of a connection that the program corks itself, until it is closed.
const PROGRAMS: u32 = 1 << 30;
/// 0 where the descriptor is none of ours, else 1 and the writes since the last flush.
const WRITES: u32 = PROGRAMS - 1;

/// Per descriptor: `COPIED`, and either `PROGRAMS` or `WRITES`.
static STATES: [AtomicU32; DESCRIPTORS] = [const { AtomicU32::new(0) }; DESCRIPTORS];
/// A bit per descriptor that may hold something.
static HELD: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];
/// A bit per word of `HELD` that is not 0.
static HELD_WORDS: [AtomicU64; SUMMARY] = [const { AtomicU64::new(0) }; SUMMARY];

fn state(fd: i32) -> Option<&'static AtomicU32> {
    STATES.get(usize::try_from(fd).ok()?)
}

fn load(fd: i32) -> u32 {
    state(fd).map_or(0, |state| state.load(Ordering::Acquire))
}

/// Takes a descriptor on; `false` where it is ours already, the program corks it itself, or it is
/// above the table.
pub(crate) fn adopt(fd: i32) -> bool {
    change(fd, |state| (state & !COPIED == 0).then_some(state | 1))
}

/// Leaves a connection to the program until it is closed.
pub(crate) fn leave_to_program(fd: i32) {
    change(fd, |state| Some((state & COPIED) | PROGRAMS));
    take_held(fd);
}

/// Lets a connection go that stays open.
pub(crate) fn release(fd: i32) {
    change(fd, |state| (state & WRITES != 0).then_some(state & !WRITES));
    take_held(fd);
}

/// Forgets all about a descriptor; whether it was ours.
pub(crate) fn forget(fd: i32) -> bool {
    let before = state(fd).map_or(0, |state| state.swap(0, Ordering::AcqRel));
    take_held(fd);
    before & WRITES != 0
}

/// Whether anything is noted of it.
pub(crate) fn is_known(fd: i32) -> bool {
    load(fd) != 0
}

/// Whether it is ours.
pub(crate) fn is_ours(fd: i32) -> bool {
    load(fd) & WRITES != 0
}

/// Whether the program corks it itself.
pub(crate) fn is_programs(fd: i32) -> bool {
    load(fd) & PROGRAMS != 0
}

/// Notes that `copy` is the same file as `fd`.
pub(crate) fn copy(fd: i32, copy: i32) {
    if let (Some(from), Some(to)) = (state(fd), state(copy)) {
        let before = from.fetch_or(COPIED, Ordering::AcqRel);
        let ours = u32::from(before & WRITES != 0);
        to.store(COPIED | (before & PROGRAMS) | ours, Ordering::Release);
    }
}

/// Whether another descriptor may be the same connection.
pub(crate) fn is_copied(fd: i32) -> bool {
    load(fd) & COPIED != 0
}

/// Calls `work` for each descriptor of which there are copies. It looks at the whole table.
pub(crate) fn for_each_copied(mut work: impl FnMut(i32)) {
    for (fd, state) in STATES.iter().enumerate() {
        if state.load(Ordering::Acquire) & COPIED != 0 {
            // Below `DESCRIPTORS`, so it fits.
            work(fd as i32);
        }
    }
}

/// Changes a state as `to` says; whether it did.
fn change(fd: i32, to: impl FnMut(u32) -> Option<u32>) -> bool {
    let (set, get) = (Ordering::AcqRel, Ordering::Acquire);
    state(fd).is_some_and(|state| state.fetch_update(set, get, to).is_ok())
}

/// Counts a write; `None` where the descriptor is none of ours, else the writes since the flush.
pub(crate) fn on_written(fd: i32) -> Option<u32> {
    let state = state(fd)?;
    // A program that only writes may come to the end of the numbers; it stays there.
    let more = |state: u32| match state & WRITES {
        0 | WRITES => None,
        _ => Some(state + 1),
    };
    let counted = state.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    let writes = counted.unwrap_or_else(|same| same) & WRITES;
    if writes == 0 {
        return None;
    }
    let (word, bit) = place(fd)?;
    HELD[word].fetch_or(bit, Ordering::Relaxed);
    // A thread that sees this bit sees the one before it: see `for_each_held`.
    HELD_WORDS[word / BITS].fetch_or(1 << (word % BITS), Ordering::Release);
    Some(writes)
}

/// Takes the mark of a descriptor; whether something was held.
pub(crate) fn take_held(fd: i32) -> bool {
    let Some((word, bit)) = place(fd) else {
        return false;
    };
    change(fd, |state| {
        (state & WRITES > 1).then_some((state & !WRITES) | 1)
    });
    HELD[word].load(Ordering::Relaxed) & bit != 0
        && HELD[word].fetch_and(!bit, Ordering::Relaxed) & bit != 0
}

/// Whether something may be held.
pub(crate) fn holds_something() -> bool {
    let mut words = HELD_WORDS.iter();
    words.any(|summary| summary.load(Ordering::Relaxed) != 0)
}

/// Calls `flush` for each descriptor that holds something.
pub(crate) fn for_each_held(mut flush: impl FnMut(i32)) {
    for (index, summary) in HELD_WORDS.iter().enumerate() {
        if summary.load(Ordering::Relaxed) == 0 {
            continue;
        }
        // Taken before the words are read: a mark that is set meanwhile is found by the next look.
        let mut words = summary.swap(0, Ordering::AcqRel);
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
