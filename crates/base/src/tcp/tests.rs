use super::*;
use crate::ip::{IpPacket, Ipv4Header, Ipv6Header};
use alloc::vec;
use core::net::{Ipv4Addr, Ipv6Addr};
use etherparse::{TcpHeaderSlice, TcpOptionElement, TcpSlice};
use proptest::prelude::*;

/// An option that owns its bytes.
#[derive(Clone, Debug)]
enum Owned {
    Fixed(TcpOption<'static>),
    FastOpen(Vec<u8>),
    Unknown(u8, Vec<u8>),
}

impl Owned {
    fn borrow(&self) -> TcpOption<'_> {
        match self {
            Self::Fixed(option) => *option,
            Self::FastOpen(cookie) => TcpOption::FastOpen(cookie),
            Self::Unknown(kind, data) => TcpOption::Unknown { kind: *kind, data },
        }
    }
}

fn sack_blocks() -> impl Strategy<Value = SackBlocks> {
    prop::collection::vec(any::<(u32, u32)>(), 1..=SackBlocks::MAX).prop_map(|blocks| {
        let blocks: Vec<_> = blocks
            .iter()
            .map(|&(start, end)| (SeqNum::new(start), SeqNum::new(end)))
            .collect();
        SackBlocks::new(&blocks)
    })
}

fn option() -> impl Strategy<Value = Owned> {
    let data = || prop::collection::vec(any::<u8>(), 0..12);
    prop_oneof![
        Just(Owned::Fixed(TcpOption::Nop)),
        any::<u16>().prop_map(|mss| Owned::Fixed(TcpOption::Mss(mss))),
        any::<u8>().prop_map(|shift| Owned::Fixed(TcpOption::WindowScale(shift))),
        Just(Owned::Fixed(TcpOption::SackPermitted)),
        sack_blocks().prop_map(|blocks| Owned::Fixed(TcpOption::Sack(blocks))),
        any::<(u32, u32)>()
            .prop_map(|(value, echo)| Owned::Fixed(TcpOption::Timestamps { value, echo })),
        data().prop_map(Owned::FastOpen),
        (35_u8.., data()).prop_map(|(kind, data)| Owned::Unknown(kind, data)),
    ]
}

/// As many as fit a header.
fn options() -> impl Strategy<Value = Vec<Owned>> {
    prop::collection::vec(option(), 0..6).prop_map(|options| {
        let mut bytes = vec![];
        let fits = |option: &Owned| {
            option.borrow().write(&mut bytes);
            bytes.len() <= 40
        };
        options.into_iter().take_while(fits).collect()
    })
}

fn header() -> impl Strategy<Value = TcpHeader> {
    any::<(u16, u16, u32, u32, u16, u16, u16)>().prop_map(
        |(source_port, destination_port, seq, ack, flags, window, urgent)| TcpHeader {
            source_port,
            destination_port,
            seq: SeqNum::new(seq),
            ack: SeqNum::new(ack),
            flags: TcpFlags::from_bits(flags),
            window,
            urgent,
        },
    )
}

fn read(segment: &TcpSegment<'_>) -> TcpHeader {
    TcpHeader {
        source_port: segment.source_port(),
        destination_port: segment.destination_port(),
        seq: segment.seq(),
        ack: segment.ack(),
        flags: segment.flags(),
        window: segment.window(),
        urgent: segment.urgent(),
    }
}

fn ip(is_v4: bool) -> IpHeader {
    if is_v4 {
        let (source, destination) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        IpHeader::V4(Ipv4Header::new(source, destination, protocol::TCP))
    } else {
        let (source, destination) = (Ipv6Addr::from(1), Ipv6Addr::from(2));
        IpHeader::V6(Ipv6Header::new(source, destination, protocol::TCP))
    }
}

proptest! {
    #[test]
    fn packets_round_trip_and_another_library_agrees(
        header in header(),
        options in options(),
        payload in prop::collection::vec(any::<u8>(), 0..300),
        is_v4: bool,
    ) {
        let ip = ip(is_v4);
        let options: Vec<_> = options.iter().map(Owned::borrow).collect();
        let mut bytes = vec![];
        header.write_packet(&ip, &options, &payload, &mut bytes);
        let packet = IpPacket::parse(&bytes).unwrap();
        let segment = TcpSegment::parse(packet.payload()).unwrap();
        prop_assert_eq!(read(&segment), header);
        prop_assert_eq!(segment.payload(), payload);
        prop_assert_eq!(segment.options().collect::<Vec<_>>(), options);
        prop_assert!(segment.checksum_is_right(ip.ends()));
        let flipped = (ip.ends().1, IpAddr::from([9, 9, 9, 9]));
        prop_assert!(!segment.checksum_is_right(flipped));

        let theirs = TcpSlice::from_slice(packet.payload()).unwrap();
        let checksum = match ip {
            IpHeader::V4(ip) => {
                theirs.calc_checksum_ipv4(ip.source.octets(), ip.destination.octets())
            }
            IpHeader::V6(ip) => {
                theirs.calc_checksum_ipv6(ip.source.octets(), ip.destination.octets())
            }
        };
        prop_assert_eq!(checksum.unwrap(), segment.checksum());
        let flags = [
            (TcpFlags::FIN, theirs.fin()), (TcpFlags::SYN, theirs.syn()),
            (TcpFlags::RST, theirs.rst()), (TcpFlags::PSH, theirs.psh()),
            (TcpFlags::ACK, theirs.ack()), (TcpFlags::URG, theirs.urg()),
            (TcpFlags::ECE, theirs.ece()), (TcpFlags::CWR, theirs.cwr()),
            (TcpFlags::AE, theirs.ns()),
        ];
        for (flag, is_set) in flags {
            prop_assert_eq!(header.flags.contains(flag), is_set, "{}", flag);
        }
        prop_assert_eq!(theirs.sequence_number(), header.seq.number());
        prop_assert_eq!(theirs.acknowledgment_number(), header.ack.number());
        prop_assert_eq!(theirs.window_size(), header.window);
        prop_assert_eq!(theirs.urgent_pointer(), header.urgent);
    }

    #[test]
    fn any_bytes_are_a_segment_or_an_error(mut bytes: Vec<u8>, words in 0_u8..16) {
        if let Some(byte) = bytes.get_mut(12) {
            *byte = words << 4;
        }
        let parsed = TcpSegment::parse(&bytes);
        prop_assert_eq!(parsed.is_ok(), TcpHeaderSlice::from_slice(&bytes).is_ok());
        if let Ok(segment) = parsed {
            prop_assert!(segment.options().count() <= 40);
            prop_assert!(segment.header_bytes() + segment.payload().len() == bytes.len());
            let _ = (read(&segment), segment.checksum());
            let _ = (segment.timestamps(), segment.sack_blocks());
        }
    }

    /// Up to the first option on which the other library gives up, both see the same.
    #[test]
    fn options_are_read_as_another_library_reads_them(
        bytes in prop::collection::vec(prop_oneof![0_u8..12, any::<u8>()], 0..40)
    ) {
        let mut ours = TcpOptions::new(&bytes);
        for theirs in etherparse::TcpOptionsIterator::from_slice(&bytes).map_while(Result::ok) {
            let expected = match theirs {
                TcpOptionElement::Noop => TcpOption::Nop,
                TcpOptionElement::MaximumSegmentSize(mss) => TcpOption::Mss(mss),
                TcpOptionElement::WindowScale(shift) => TcpOption::WindowScale(shift),
                TcpOptionElement::SelectiveAcknowledgementPermitted => TcpOption::SackPermitted,
                TcpOptionElement::SelectiveAcknowledgement(first, rest) => {
                    let rest = rest.into_iter().flatten();
                    let blocks: Vec<_> = core::iter::once(first)
                        .chain(rest)
                        .map(|(start, end)| (SeqNum::new(start), SeqNum::new(end)))
                        .collect();
                    TcpOption::Sack(SackBlocks::new(&blocks))
                }
                TcpOptionElement::Timestamp(value, echo) => TcpOption::Timestamps { value, echo },
            };
            prop_assert_eq!(ours.next(), Some(expected));
        }
    }
}

#[test]
fn broken_options_end_the_list_and_odd_ones_stay_raw() {
    let check = |bytes: &[u8], expected: &[TcpOption<'_>]| {
        assert_eq!(TcpOptions::new(bytes).collect::<Vec<_>>(), expected);
    };
    check(&[1, 0, 1], &[TcpOption::Nop]);
    check(&[1, 2], &[TcpOption::Nop]);
    check(&[1, 2, 0], &[TcpOption::Nop]);
    check(&[1, 2, 1, 1], &[TcpOption::Nop]);
    check(&[1, 2, 4, 5], &[TcpOption::Nop]);
    let odd = TcpOption::Unknown {
        kind: 2,
        data: &[5],
    };
    check(&[2, 3, 5, 1], &[odd, TcpOption::Nop]);
    let five_blocks = [[5, 42].as_slice(), &[0; 40]].concat();
    let odd = TcpOption::Unknown {
        kind: 5,
        data: &five_blocks[2..],
    };
    check(&five_blocks, &[odd]);
    let cookie = TcpOption::FastOpen(&[1, 2, 3, 4]);
    check(&[34, 6, 1, 2, 3, 4], &[cookie]);
}

#[test]
#[should_panic(expected = "options take 44 bytes")]
fn too_many_options_are_a_bug() {
    TcpHeader::default().write(&[TcpOption::Nop; 41], &mut vec![]);
}
