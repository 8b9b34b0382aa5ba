//! What the firmwares share: the board (an LM3S6965, a Cortex-M3 with 64 KiB of RAM, as QEMU has
//! it), packets on its serial line, and the pages of its web server. No TCP.
#![no_std]

extern crate alloc;

mod clock;
mod memory;
mod panic;
mod serial;
mod site;
mod slip;

pub use clock::Clock;
pub use memory::{HEAP_BYTES, MemoryUse, memory_use, start_heap};
pub use serial::Serial;
pub use site::{Answer, REQUEST_BYTES_MAX, answer};
pub use slip::{Decoder, encode};

/// Ports of the two services.
pub const ECHO_PORT: u16 = 7;
/// The web server's.
pub const WEB_PORT: u16 = 80;
/// Our address on the serial line.
pub const ADDRESS: [u8; 4] = [10, 79, 0, 2];
/// Bytes of the largest packet on the line.
pub const MTU: u16 = 1500;
