//! The user's terminal.

use std::io::stdin;

use rustix::termios::{QueueSelector, tcflush};

/// Forgets what was typed on the terminal of the standard input and not read yet. Does nothing
/// where that is not a terminal.
pub fn discard_typed() {
    // tcflush(3): ENOTTY where it is none.
    tcflush(stdin(), QueueSelector::IFlush).ok();
}
