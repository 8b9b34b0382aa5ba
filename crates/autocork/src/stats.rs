//! Counters, printed as one line at the end of the process, and the bound on held writes. Both are
//! asked for by environment variables, which are read when the library is loaded.

use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Asks for the line on stderr, with any value but `0`.
const STATS: &CStr = c"TCPTAILOR_AUTOCORK_STATS";
/// Most writes that are held of one connection; none where it is unset.
const MAX: &CStr = c"TCPTAILOR_AUTOCORK_MAX";

static WANTED: AtomicBool = AtomicBool::new(false);
static HELD_MAX: AtomicU32 = AtomicU32::new(u32::MAX);

/// Connections that were corked.
pub(crate) static CORKED: Counter = Counter::new(b"corked");
/// Writes to them.
pub(crate) static WRITES: Counter = Counter::new(b" writes");
/// Times that something held was let go.
pub(crate) static FLUSHES: Counter = Counter::new(b" flushes");

/// A number with its name.
pub(crate) struct Counter {
    name: &'static [u8],
    value: AtomicU64,
}

impl Counter {
    const fn new(name: &'static [u8]) -> Self {
        Self {
            name,
            value: AtomicU64::new(0),
        }
    }

    pub(crate) fn count(&self) {
        self.value.fetch_add(1, Ordering::Relaxed);
    }
}

/// Writes that may be held of one connection.
pub(crate) fn held_max() -> u32 {
    HELD_MAX.load(Ordering::Relaxed)
}

#[used]
#[unsafe(link_section = ".init_array")]
static ON_LOAD: extern "C" fn() = on_load;
#[used]
#[unsafe(link_section = ".fini_array")]
static ON_EXIT: extern "C" fn() = on_exit;

extern "C" fn on_load() {
    crate::process::on_load();
    let wanted = value_of(STATS).is_some_and(|value| value != c"0");
    WANTED.store(wanted, Ordering::Relaxed);
    let number = value_of(MAX).and_then(|value| value.to_str().ok()?.parse().ok());
    if let Some(number) = number.filter(|&number: &u32| number > 0) {
        HELD_MAX.store(number, Ordering::Relaxed);
    }
}

fn value_of(name: &CStr) -> Option<&'static CStr> {
    // SAFETY: the name ends with a zero.
    let value: *const c_char = unsafe { libc::getenv(name.as_ptr()) };
    // SAFETY: the environment's strings end with a zero, and do not change while libraries are
    // loaded.
    (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) })
}

extern "C" fn on_exit() {
    if !WANTED.load(Ordering::Relaxed) {
        return;
    }
    let mut line = Line::default();
    line.push(b"tcptailor-autocork: ");
    for counter in [&CORKED, &WRITES, &FLUSHES] {
        line.push(counter.name);
        line.push(b" ");
        line.push_number(counter.value.load(Ordering::Relaxed));
    }
    line.push(b"\n");
    // SAFETY: the bytes are live. The program's stderr may be closed; then the line is lost.
    let _ = unsafe {
        libc::syscall(
            libc::SYS_write,
            libc::STDERR_FILENO,
            line.bytes.as_ptr(),
            line.length,
        )
    };
}

/// Text on the stack.
struct Line {
    bytes: [u8; 160],
    length: usize,
}

impl Default for Line {
    fn default() -> Self {
        Self {
            bytes: [0; 160],
            length: 0,
        }
    }
}

impl Line {
    fn push(&mut self, text: &[u8]) {
        for (to, from) in self.bytes.iter_mut().skip(self.length).zip(text) {
            *to = *from;
            self.length += 1;
        }
    }

    fn push_number(&mut self, number: u64) {
        let mut digits = [0; 20];
        let mut at = digits.len();
        let mut left = number;
        loop {
            at -= 1;
            digits[at] = b'0' + (left % 10) as u8;
            left /= 10;
            if left == 0 {
                break;
            }
        }
        self.push(&digits[at..]);
    }
}
