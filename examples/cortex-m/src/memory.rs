//! The heap, and how much of it and of the stack was ever in use.

use core::alloc::{GlobalAlloc, Layout};
use core::mem::MaybeUninit;
use core::ptr::addr_of_mut;
use core::sync::atomic::{AtomicUsize, Ordering};

use embedded_alloc::LlffHeap;

/// Bytes of the heap: what 64 KiB of RAM leave beside the stack.
pub const HEAP_BYTES: usize = 50 * 1024;

#[unsafe(link_section = ".uninit.heap")]
static mut HEAP: [MaybeUninit<u8>; HEAP_BYTES] = [MaybeUninit::uninit(); HEAP_BYTES];

#[global_allocator]
static ALLOCATOR: Counted = Counted {
    heap: LlffHeap::empty(),
    peak: AtomicUsize::new(0),
};

/// An allocator that remembers the most that was in use.
struct Counted {
    heap: LlffHeap,
    peak: AtomicUsize,
}

// SAFETY: what it hands out and takes back is the inner allocator's.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        let memory = unsafe { self.heap.alloc(layout) };
        // There is one thread, and no interrupt allocates.
        let peak = self.peak.load(Ordering::Relaxed).max(self.heap.used());
        self.peak.store(peak, Ordering::Relaxed);
        memory
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { self.heap.dealloc(memory, layout) }
    }
}

/// Makes the heap usable; call it once, before anything is allocated.
pub fn start_heap() {
    // SAFETY: called once, and no other code uses that memory.
    unsafe { ALLOCATOR.heap.init(addr_of_mut!(HEAP) as usize, HEAP_BYTES) }
}

/// Memory in use, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct MemoryUse {
    /// Of the heap, now.
    pub heap: usize,
    /// Of the heap, at most.
    pub heap_peak: usize,
    /// Of the stack, at most.
    pub stack_peak: usize,
    /// Of the stack, what there is.
    pub stack_size: usize,
}

/// How much memory is in use, and was.
#[must_use]
pub fn memory_use() -> MemoryUse {
    unsafe extern "C" {
        static mut _stack_start: u32;
        static mut _stack_end: u32;
    }
    // The start-up code painted the stack; what still has that colour was never used.
    let top = addr_of_mut!(_stack_start);
    let bottom = addr_of_mut!(_stack_end);
    let mut used = bottom.cast_const();
    // SAFETY: the linker's symbols are the bounds of the stack, which is whole words of RAM.
    while used < top && unsafe { used.read_volatile() } == cortex_m_rt::STACK_PAINT_VALUE {
        used = used.wrapping_add(1);
    }
    MemoryUse {
        heap: ALLOCATOR.heap.used(),
        heap_peak: ALLOCATOR.peak.load(Ordering::Relaxed),
        stack_peak: top as usize - used as usize,
        stack_size: top as usize - bottom as usize,
    }
}
