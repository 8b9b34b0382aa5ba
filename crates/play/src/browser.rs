//! Functions for the page: memory for a text, and the answer to it.
//!
//! A text goes in by [`text_of`] and comes out of [`run`] at the address that it returns: its
//! length in bytes, four of them with the lowest first, then UTF-8. Plain numbers are all that
//! crosses, so that no generated code stands between the page and this.
#![expect(
    unsafe_code,
    reason = "what other programs load is called by address, as `extern \"C\"`"
)]

use std::cell::RefCell;

thread_local! {
    /// Text exchanged with the page, in both directions; a page has one thread.
    static TEXT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Makes room for a text of this many bytes and returns where it goes.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn text_of(bytes: u32) -> *mut u8 {
    TEXT.with_borrow_mut(|text| {
        text.clear();
        text.resize(bytes as usize, 0);
        text.as_mut_ptr()
    })
}

/// Runs the scenario that was written, and returns where the answer is.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn run() -> *const u8 {
    let scenario = TEXT.take();
    let answer = crate::answer(&String::from_utf8_lossy(&scenario));
    let length = u32::try_from(answer.len()).unwrap_or(u32::MAX);
    TEXT.with_borrow_mut(|text| {
        text.extend(length.to_le_bytes());
        text.extend(answer.into_bytes());
        text.as_ptr()
    })
}
