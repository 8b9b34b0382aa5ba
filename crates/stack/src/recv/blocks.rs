//! Memory that Linux takes for a received packet: whole blocks of its allocator.
//!
//! The rule for packets that come over a TUN device, measured on Linux 6.18 packet by packet
//! (docs/linux-tcp.md, vectors B19 to B22). A packet that fits into a page is one block: room in
//! front, the packet, and the information that others share. Of a larger one the head is such a
//! block and the rest is whole pages. Other devices take other blocks; for them the settings have a
//! ratio.

/// Descriptor of a packet (`sk_buff`).
const DESCRIPTOR_BYTES: u32 = 256;
/// Shared information at the end of each block (`skb_shared_info`).
const SHARED_BYTES: u32 = 320;
/// Headroom of a driver before a packet (`NET_SKB_PAD`).
const FRONT_BYTES: u32 = 64;
/// Parts of a block are whole cache lines.
const LINE_BYTES: u32 = 64;
/// Small blocks have a size of their own (`SKB_SMALL_HEAD_SIZE` with headers of up to 256 bytes);
/// larger ones are powers of two.
const SMALL_BLOCK_BYTES: u32 = 576;
const PAGE_BYTES: u32 = 4096;

/// Memory of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Blocks {
    /// All that is charged.
    pub(super) charge: u32,
    /// Unused bytes after the data, where the data of the next packet may go.
    pub(super) room: u16,
}

/// A block that `bytes` and the shared information fit into.
const fn block_bytes(bytes: u32) -> u32 {
    let bytes = bytes.next_multiple_of(LINE_BYTES) + SHARED_BYTES;
    if bytes <= SMALL_BLOCK_BYTES {
        SMALL_BLOCK_BYTES
    } else {
        bytes.next_power_of_two()
    }
}

/// Memory of a packet of `payload` bytes behind `headers`, which stands for several segments if
/// `is_merged` (`tun_get_user`, `alloc_skb_with_frags`).
pub(super) const fn of_packet(headers: u32, payload: u32, is_merged: bool) -> Blocks {
    let bytes = FRONT_BYTES + headers + payload;
    if bytes < PAGE_BYTES {
        let block = block_bytes(bytes);
        return Blocks {
            charge: DESCRIPTOR_BYTES + block,
            room: (block - SHARED_BYTES - bytes) as u16,
        };
    }
    // The device knows the length of the headers of a merged packet, and puts only those into the
    // first block.
    let head = if is_merged {
        FRONT_BYTES + headers
    } else {
        PAGE_BYTES - SHARED_BYTES
    };
    let pages = (bytes - head).next_multiple_of(PAGE_BYTES);
    Blocks {
        charge: DESCRIPTOR_BYTES + block_bytes(head) + pages,
        room: 0,
    }
}

/// Memory of collapsed data (`tcp_collapse`).
pub(super) const fn of_copy(payload: u32) -> Blocks {
    let block = block_bytes(payload);
    Blocks {
        charge: DESCRIPTOR_BYTES + block,
        room: (block - SHARED_BYTES - payload) as u16,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Vectors B19 and B20, read from `SO_MEMINFO` with the packet unread.
    #[test]
    fn b19_b20_packets_are_charged_their_blocks() {
        let measured = [
            (1, 832),
            (140, 832),
            (141, 1280),
            (588, 1280),
            (589, 2304),
            (1448, 2304),
            (1612, 2304),
            (1613, 4352),
            (3660, 4352),
            (3661, 8448),
            (4000, 8448),
            (5000, 8448),
            (8948, 12_544),
        ];
        for (payload, charge) in measured {
            assert_eq!(of_packet(52, payload, false).charge, charge, "{payload}");
        }
        assert_eq!(of_packet(40, 152, false).charge, 832);
    }

    /// The ratios that were measured on merged packets (rule 3.1): 170, 205 and 232.
    #[test]
    fn merged_packets_have_the_measured_ratios() {
        let ratio = |mss: u32, segments: u32| {
            let payload = mss * segments;
            payload * 256 / of_packet(52, payload, true).charge
        };
        assert_eq!(ratio(1448, 2), 170);
        assert_eq!(ratio(1448, 5), 205);
        assert_eq!(ratio(8948, 3), 232);
    }
}
