//! The bytes are the options of a TCP segment.

use base::tcp::{TcpOption, TcpOptions};

/// Options are read one after the other to an end, and writing them gives what was read.
pub(crate) fn check(bytes: &[u8]) {
    let read: Vec<TcpOption<'_>> = TcpOptions::new(bytes).collect();
    assert!(read.len() <= bytes.len(), "each option takes a byte");
    let mut written = Vec::new();
    for option in &read {
        if let TcpOption::Unknown { data, .. } | TcpOption::FastOpen(data) = option
            && data.len() > 38
        {
            // Longer than any header has room for: read from more than a header.
            return;
        }
        option.write(&mut written);
    }
    assert!(bytes.starts_with(&written), "{bytes:?} became {written:?}");
    let again: Vec<TcpOption<'_>> = TcpOptions::new(&written).collect();
    assert_eq!(again, read);
}
