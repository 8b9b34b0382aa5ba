//! Packets of several places in one capture file.

use core::cell::RefCell;
use std::io::Write;
use std::rc::Rc;

use base::Instant;
use base::pcap::{PcapError, Writer};
use stack::{Packet, wire};

use super::tap::Tap;

/// A capture of a world: a pcapng file with an interface for each place.
///
/// What goes wrong while the world runs is told by [`Capture::finish`]; nothing more is written
/// then. GSO packets are shown whole, as captures in front of segmentation show them.
pub struct Capture<W: Write> {
    shared: Rc<RefCell<Shared<W>>>,
}

struct Shared<W: Write> {
    writer: Writer<W>,
    /// The packet that is being written.
    bytes: Vec<u8>,
    failure: Option<PcapError>,
}

/// One place of a capture.
struct Point<W: Write> {
    shared: Rc<RefCell<Shared<W>>>,
    interface: u32,
}

impl<W: Write + 'static> Capture<W> {
    /// A file with one interface for each of `places`.
    ///
    /// # Errors
    /// Where its head cannot be written.
    pub fn new(output: W, places: &[&str]) -> Result<Self, PcapError> {
        let shared = Shared {
            writer: Writer::pcapng(output, places)?,
            bytes: Vec::new(),
            failure: None,
        };
        Ok(Self {
            shared: Rc::new(RefCell::new(shared)),
        })
    }

    /// Writes what passes there as seen by the interface of this number, from 0.
    #[must_use]
    pub fn tap(&self, interface: u32) -> Box<dyn Tap> {
        Box::new(Point {
            shared: Rc::clone(&self.shared),
            interface,
        })
    }

    /// Ends the file. The worlds that it looked at must have ended.
    ///
    /// # Errors
    /// The first that occurred in writing.
    ///
    /// # Panics
    /// Where a tap is still in use.
    pub fn finish(self) -> Result<W, PcapError> {
        let shared = Rc::into_inner(self.shared).expect("its taps went with their world");
        let Shared {
            writer,
            bytes: _,
            failure,
        } = shared.into_inner();
        match failure {
            Some(failure) => Err(failure),
            None => writer.finish(),
        }
    }
}

impl<W: Write> Tap for Point<W> {
    fn on_packet(&mut self, at: Instant, packet: &Packet) {
        let Shared {
            writer,
            bytes,
            failure,
        } = &mut *self.shared.borrow_mut();
        bytes.clear();
        // What has no form on the wire cannot be shown; only made-up packets have none.
        if failure.is_none() && wire::encode(packet, bytes).is_ok() {
            *failure = writer.write(self.interface, at, bytes).err();
        }
    }
}

impl<W: Write> core::fmt::Debug for Capture<W> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Capture").finish_non_exhaustive()
    }
}

impl<W: Write> core::fmt::Debug for Point<W> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Point")
            .field("interface", &self.interface)
            .finish_non_exhaustive()
    }
}
