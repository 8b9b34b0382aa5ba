//! What happens where the firmware is wrong: it says so to the debugger, or to QEMU, and ends.

use core::panic::PanicInfo;

use cortex_m_rt::{ExceptionFrame, exception};
use cortex_m_semihosting::{debug, heprintln};

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    cortex_m::interrupt::disable();
    heprintln!("{}", info);
    end()
}

#[exception]
unsafe fn HardFault(_frame: &ExceptionFrame) -> ! {
    heprintln!("hard fault");
    end()
}

fn end() -> ! {
    loop {
        debug::exit(debug::EXIT_FAILURE);
    }
}
