//! The first serial port (a PL011), asked in turn; its interrupt only wakes the processor.

use core::ptr::{read_volatile, write_volatile};

use cortex_m::interrupt::InterruptNumber;
use cortex_m::peripheral::NVIC;
use cortex_m_rt::exception;

/// Where the port's registers begin, and how far each is from there (PrimeCell UART PL011,
/// technical reference manual, section 3.2).
const PORT: usize = 0x4000_C000;
const DATA: usize = 0x000;
const FLAGS: usize = 0x018;
const LINE: usize = 0x02C;
const CONTROL: usize = 0x030;
const INTERRUPTS: usize = 0x038;

const FLAG_NOTHING_RECEIVED: u32 = 1 << 4;
const FLAG_SENDER_FULL: u32 = 1 << 5;
/// 8 bits, with queues of 16 bytes.
const LINE_8_BITS_QUEUED: u32 = 0b11 << 5 | 1 << 4;
/// The port on, in both directions.
const CONTROL_ON: u32 = 1 << 9 | 1 << 8 | 1;
/// Bytes have come, or a few have and no more follow.
const INTERRUPT_RECEIVED: u32 = 1 << 4 | 1 << 6;

/// Switches the clock of a port on (LM3S6965 data sheet, RCGC1).
const CLOCKS: usize = 0x400F_E104;

/// The port's place among the interrupts.
#[derive(Clone, Copy)]
struct Interrupt;

// SAFETY: the LM3S6965 has UART0 there.
unsafe impl InterruptNumber for Interrupt {
    fn number(self) -> u16 {
        5
    }
}

/// The serial port; there is one.
#[derive(Debug)]
pub struct Serial(());

impl Serial {
    /// Switches the port on. `_interrupts` proves exclusive control of them.
    #[must_use]
    pub fn start(_interrupts: NVIC) -> Self {
        write(CLOCKS, 1);
        write(PORT + LINE, LINE_8_BITS_QUEUED);
        write(PORT + CONTROL, CONTROL_ON);
        // SAFETY: no critical section depends on this interrupt being off.
        unsafe { NVIC::unmask(Interrupt) };
        Self(())
    }

    /// The next byte that came.
    pub fn poll_receive(&mut self) -> Option<u8> {
        if read(PORT + FLAGS) & FLAG_NOTHING_RECEIVED != 0 {
            return None;
        }
        Some(read(PORT + DATA) as u8)
    }

    /// Sends a byte, and waits where the port is busy.
    pub fn send(&mut self, byte: u8) {
        while read(PORT + FLAGS) & FLAG_SENDER_FULL != 0 {}
        write(PORT + DATA, byte.into());
    }

    /// Sleeps until a byte comes, or the next millisecond.
    pub fn sleep(&mut self) {
        // With interrupts off one that comes still ends the sleep, however early it is.
        cortex_m::interrupt::free(|_| {
            write(PORT + INTERRUPTS, INTERRUPT_RECEIVED);
            cortex_m::asm::wfi();
        });
    }
}

/// The port wants to be read, which the program does when it is awake.
#[exception]
unsafe fn DefaultHandler(_number: i16) {
    write(PORT + INTERRUPTS, 0);
}

fn read(register: usize) -> u32 {
    // SAFETY: only called with registers of this board, whose reading disturbs no memory.
    unsafe { read_volatile(register as *const u32) }
}

fn write(register: usize, value: u32) {
    // SAFETY: only called with registers of this board, whose writing disturbs no memory.
    unsafe { write_volatile(register as *mut u32, value) }
}
