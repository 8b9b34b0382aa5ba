//! Packets on a serial line (SLIP, RFC 1055).

use alloc::vec::Vec;

const END: u8 = 0xC0;
const ESCAPE: u8 = 0xDB;
const ESCAPED_END: u8 = 0xDC;
const ESCAPED_ESCAPE: u8 = 0xDD;

/// Sends a packet, a byte at a time. An END in front ends whatever noise came before.
pub fn encode(packet: &[u8], mut send: impl FnMut(u8)) {
    send(END);
    for byte in packet {
        match *byte {
            END => [ESCAPE, ESCAPED_END].map(&mut send),
            ESCAPE => [ESCAPE, ESCAPED_ESCAPE].map(&mut send),
            byte => {
                send(byte);
                continue;
            }
        };
    }
    send(END);
}

/// Makes packets of bytes.
#[derive(Debug)]
pub struct Decoder {
    packet: Vec<u8>,
    packet_bytes_max: usize,
    is_escaped: bool,
    is_too_long: bool,
    is_complete: bool,
}

impl Decoder {
    /// For packets of up to `packet_bytes_max`; longer ones are dropped.
    #[must_use]
    pub fn new(packet_bytes_max: usize) -> Self {
        Self {
            packet: Vec::with_capacity(packet_bytes_max),
            packet_bytes_max,
            is_escaped: false,
            is_too_long: false,
            is_complete: false,
        }
    }

    /// Whether `byte` completes a packet.
    #[must_use]
    pub fn completes(&self, byte: u8) -> bool {
        byte == END && !self.is_complete && !self.is_too_long && !self.packet.is_empty()
    }

    /// A byte came; returns the packet that it completes.
    pub fn handle_byte(&mut self, byte: u8) -> Option<&[u8]> {
        if core::mem::take(&mut self.is_complete) {
            self.packet.clear();
        }
        if byte == END {
            self.is_escaped = false;
            let is_whole = self.completes(byte);
            self.is_too_long = false;
            self.is_complete = true;
            return is_whole.then_some(&self.packet);
        }
        if byte == ESCAPE {
            self.is_escaped = true;
            return None;
        }
        let byte = match (core::mem::take(&mut self.is_escaped), byte) {
            (true, ESCAPED_END) => END,
            (true, ESCAPED_ESCAPE) => ESCAPE,
            // Anything else after an ESCAPE is a mistake of the sender; a checksum will tell.
            (_, byte) => byte,
        };
        if self.packet.len() < self.packet_bytes_max {
            self.packet.push(byte);
        } else {
            self.is_too_long = true;
        }
        None
    }
}
