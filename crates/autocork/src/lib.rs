//! A library to preload (`LD_PRELOAD`) into a program that asks for `TCP_NODELAY` and then writes
//! its messages in pieces.
//!
//! Where the program sets `TCP_NODELAY` on a connection, `TCP_CORK` is set too, so that the kernel
//! joins the pieces. What was written leaves when the program turns to something else: before it
//! reads from that connection, the cork is taken out and put in again; before it waits in `poll`,
//! `select` or `epoll_wait`, that is done for each connection with something held. Where neither
//! comes, the kernel lets a held piece go after its own ceiling of about 200 ms.
//!
//! Sockets that the program did not ask `TCP_NODELAY` for are left alone, and so is, until it is
//! closed, one that it corks itself. What the program sees of each call is what the C library
//! returned, `errno` included. Nothing here allocates, locks, logs or panics; the one line of
//! `TCPTAILOR_AUTOCORK_STATS` is written when the process ends.
//!
//! It does not reach programs without the dynamic C library, calls that the C library makes within
//! itself (`FILE` streams on sockets), and descriptors above `table::DESCRIPTORS`.

mod hooks;
mod process;
mod real;
mod stats;
mod table;
