//! Our TCP as sockets of the tokio runtime: what is written for `tokio::net` runs on a host of our
//! own, over a TUN device or any stream and sink of packets.
//!
//! A [`Net`] is one host: addresses, settings, and where its packets go. Sockets belong to one, so
//! the calls that make them take it as their first argument; the others have the names and meanings
//! of those of `tokio::net`:
//!
//! | `tokio::net` | here |
//! |---|---|
//! | `TcpStream::connect(addr)` | [`TcpStream::connect(&net, addr)`](TcpStream::connect) |
//! | `TcpListener::bind(addr)` | [`TcpListener::bind(&net, addr)`](TcpListener::bind) |
//! | `TcpSocket::new_v4()`, `new_v6()` | [`TcpSocket::new(&net)`](TcpSocket::new) |
//!
//! Missing is what only a descriptor of the kernel has (`from_std`, `into_std`, `as_raw_fd`,
//! `try_io`, `async_io`, `bind_device`); of a stream `linger` and any `set_linger` but
//! [that of zero](TcpStream::set_zero_linger); of a listener `ttl`; of a [`TcpSocket`] `reuseport`,
//! `linger`, `tos` and `tclass_v6` with what sets them, `local_addr`, `take_error`, and `keepalive`
//! and what tells the sizes of buffers other than as [knobs](base::KNOBS).
//!
//! What the kernel does not have is here: every [knob](TcpStream::set_knob) on the open connection,
//! [why it waits](TcpStream::limit), reading and writing [without](TcpStream::read_chunk)
//! [copying](TcpStream::write_chunk).
//!
//! ```
//! use tcptailor_tokio::stack::{HostConfig, profile};
//! use tcptailor_tokio::{Net, TcpListener, TcpStream};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! # fn main() -> std::io::Result<()> {
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let linux = profile::linux_6_18();
//! let host = |addr: [u8; 4]| HostConfig::of(&linux, addr.into(), 1);
//! let [here, there] = Net::pair([host([10, 0, 0, 1]), host([10, 0, 0, 2])]);
//!
//! let listener = TcpListener::bind(&there, "10.0.0.2:80").await?;
//! let mut client = TcpStream::connect(&here, "10.0.0.2:80").await?;
//! let (mut server, peer) = listener.accept().await?;
//! assert_eq!(peer, client.local_addr()?);
//!
//! client.write_all(b"hello").await?;
//! drop(client);
//! let mut text = String::new();
//! server.read_to_string(&mut text).await?;
//! assert_eq!(text, "hello");
//! # Ok(())
//! # })
//! # }
//! ```
//!
//! Before a program ends its runtime, [`Net::wait_idle`] waits until what its streams wrote is
//! delivered.
//!
//! On a TUN device it is `Net::over_tun(config, Tun::create("stack0")?)`, with an unpredictable
//! secret ([`random_secret`]); see the examples `services` and `proxy`.
//!
//! Not here: a clock (the runtime's is used, so that paused time is the host's time too, with a
//! grain of one millisecond for timers), threads, and I/O beside that of the runtime and of
//! [`Tun`].
#![forbid(unsafe_code)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod copies;
mod driver;
mod entry;
mod error;
mod io;
mod listener;
mod net;
mod options;
mod packets;
mod random;
mod record_writer;
mod socket;
mod split;
mod state;
mod stream;
mod time;
mod tun;
mod waiters;

pub use base;
pub use listener::TcpListener;
pub use net::Net;
pub use options::TcpSocket;
pub use random::{random_secret, random_seed};
pub use record_writer::RecordWriter;
pub use split::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, WriteHalf};
pub use stack;
pub use stream::TcpStream;
pub use tun::Tun;
