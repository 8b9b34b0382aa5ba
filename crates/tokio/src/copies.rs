//! Reused memory into which written data is copied: asking the allocator for each write costs more
//! than the copy if it returns pages to the kernel in between.

use std::io::IoSlice;
use std::sync::{Mutex, PoisonError};

use bytes::{Bytes, BytesMut};

/// Most bytes of one write that are copied at once. A copy that does not fit into the send buffer
/// is wasted, so this is little more than one packet holds.
const COPY_BYTES_MAX: usize = 64 << 10;

/// Shorter copies have memory of their own: a few bytes that wait for their acknowledgement are not
/// to hold a whole slab.
const SMALL_BYTES: usize = 16 << 10;

/// One byte more than is ever cut: what remains of a slab is the handle by which it is used again.
const SLAB_BYTES: usize = 4 * COPY_BYTES_MAX + 1;

/// Slabs that are kept for reuse.
const SLABS_MAX: usize = 32;

/// Slabs that copies are cut from, and that are used again when all of these are gone.
#[derive(Debug, Default)]
pub(crate) struct Copies(Mutex<Slabs>);

#[derive(Debug, Default)]
struct Slabs {
    slab: BytesMut,
    retired: Vec<BytesMut>,
}

impl Copies {
    /// Copies the front of `slices`.
    pub(crate) fn of(&self, slices: &[IoSlice<'_>]) -> Bytes {
        let total: usize = slices.iter().map(|slice| slice.len()).sum();
        let bytes = total.min(COPY_BYTES_MAX);
        let mut copy = if bytes < SMALL_BYTES {
            BytesMut::with_capacity(bytes)
        } else {
            let mut slabs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            slabs.cut(bytes)
        };
        for slice in slices {
            let room = bytes - copy.len();
            copy.extend_from_slice(&slice[..slice.len().min(room)]);
        }
        copy.freeze()
    }
}

impl Slabs {
    /// Memory for `bytes`.
    fn cut(&mut self, bytes: usize) -> BytesMut {
        if self.slab.capacity() < bytes {
            let free = self
                .retired
                .iter_mut()
                .position(|slab| slab.try_reclaim(SLAB_BYTES));
            let next = match free {
                Some(index) => self.retired.swap_remove(index),
                None => BytesMut::with_capacity(SLAB_BYTES),
            };
            let used = std::mem::replace(&mut self.slab, next);
            if used.capacity() > 0 && self.retired.len() < SLABS_MAX {
                self.retired.push(used);
            }
        }
        let rest = self.slab.split_off(bytes);
        std::mem::replace(&mut self.slab, rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_the_front_of_the_slices_and_slabs_are_used_again() {
        let copies = Copies::default();
        let check = |lengths: &[usize]| {
            let data: Vec<Vec<u8>> = lengths
                .iter()
                .zip(1..)
                .map(|(&length, fill)| vec![fill; length])
                .collect();
            let slices: Vec<IoSlice<'_>> = data.iter().map(|data| IoSlice::new(data)).collect();
            let mut expected = data.concat();
            expected.truncate(COPY_BYTES_MAX);
            let copy = copies.of(&slices);
            assert!(copy == expected, "{lengths:?}");
            copy
        };
        check(&[3, 0, 4]);
        check(&[SMALL_BYTES, 1]);
        check(&[COPY_BYTES_MAX - 1, 2, 9]);
        let retired = || copies.0.lock().map(|slabs| slabs.retired.len());
        let kept: Vec<Bytes> = (0..20).map(|_| check(&[COPY_BYTES_MAX])).collect();
        drop(kept);
        let kept = retired().expect("no panic");
        assert!(kept >= 4, "{kept} slabs of 4 copies each");
        for _ in 0..200 {
            check(&[COPY_BYTES_MAX]);
            check(&[50_000]);
        }
        assert_eq!(retired().expect("no panic"), kept, "no other slabs");
    }
}
