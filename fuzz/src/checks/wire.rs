//! The bytes are a packet of a TUN device: a virtio header and an IP packet.

use base::{VirtioHeader, WirePacket as _};
use bytes::Bytes;
use stack::{Body, Packet, wire};

/// What is decoded can be encoded, and then decoded to the same.
pub(crate) fn check(bytes: &[u8]) {
    let bytes = Bytes::copy_from_slice(bytes);
    if let Ok(packet) = wire::decode(&bytes, None) {
        check_packet(&packet);
    }
    if let Ok(packet) = wire::decode_tun(&bytes) {
        check_packet(&packet);
    }
    // A device that vouches for all checksums lets more through.
    let vouching = VirtioHeader {
        flags: VirtioHeader::DATA_VALID,
        ..VirtioHeader::default()
    };
    if let Ok(packet) = wire::decode(&bytes, Some(vouching)) {
        check_packet(&packet);
    }
}

fn check_packet(packet: &Packet) {
    assert!(packet.segments() >= 1);
    assert!(u64::from(packet.largest_segment_bytes()) <= packet.wire_bytes());
    if let Body::Tcp(segment) = &packet.body {
        assert!(segment.gso_size == 0 || u32::from(segment.gso_size) < segment.payload.len());
    }
    // Our order of options may need more padding than theirs, and a packet of 64 KiB has no length.
    let mut bytes = Vec::new();
    if wire::encode_tun(packet, &mut bytes).is_ok() {
        let again = wire::decode_tun(&bytes.into());
        assert_eq!(again.as_ref(), Ok(packet));
    }
    let mut bytes = Vec::new();
    if wire::encode(packet, &mut bytes).is_ok() {
        assert!(wire::decode(&bytes.into(), None).is_ok());
    }
    if packet.segments() > 1 {
        let mut head = packet.duplicate();
        let tail = head.split_off(packet.segments() / 2);
        assert_eq!(head.segments() + tail.segments(), packet.segments());
    }
}
