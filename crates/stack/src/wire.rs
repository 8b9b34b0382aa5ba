//! Packets as bytes: for TUN devices and capture files.
//!
//! Translates between `Packet` and the packets of the wire, whole IP packets with or without the
//! virtio header of a TUN device in front. It knows no connection and decides nothing about
//! addresses: what is well-formed is decoded, and the host looks whether it concerns it.
//!
//! What a `Packet` has no field for is lost: DSCP, flow label, IP options, extension headers, TCP
//! options unknown here.
//!
//! ```
//! use tcptailor_stack::{Body, EcnMark, Packet, Segment, wire};
//!
//! let packet = Packet {
//!     source: [10, 0, 0, 1].into(),
//!     destination: [10, 0, 0, 2].into(),
//!     ecn: EcnMark::NotEct,
//!     dont_fragment: true,
//!     hop_limit: 64,
//!     not_before: base::Instant::ZERO,
//!     body: Body::Tcp(Segment { destination_port: 80, ..Segment::default() }),
//! };
//! let mut bytes = Vec::new();
//! wire::encode(&packet, &mut bytes)?;
//! assert_eq!(bytes.len(), 40);
//! assert_eq!(wire::decode(&bytes.into(), None), Ok(packet));
//! # Ok::<(), wire::EncodeError>(())
//! ```

mod decode;
mod encode;
mod icmp;

pub use decode::{WireError, decode, decode_tun, decode_with};
pub use encode::{EncodeError, encode, encode_tun, encode_tun_headers};

#[cfg(test)]
mod tests;
