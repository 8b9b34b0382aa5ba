use super::*;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

/// Nanoseconds and bytes.
type Packets = Vec<(u64, Vec<u8>)>;
/// Nanoseconds, interface, original bytes and bytes.
type Found = Vec<(u64, u32, u32, Vec<u8>)>;

fn pcap(packets: &Packets, snap_bytes: u32) -> Vec<u8> {
    let mut writer = Writer::pcap(Vec::new())
        .unwrap()
        .with_snap_bytes(snap_bytes);
    for (nanos, bytes) in packets {
        writer.write(0, Instant::from_nanos(*nanos), bytes).unwrap();
    }
    writer.finish().unwrap()
}

fn pcapng(packets: &Packets, snap_bytes: u32) -> Vec<u8> {
    let mut writer = Writer::pcapng(Vec::new(), &["client", "server"])
        .unwrap()
        .with_snap_bytes(snap_bytes);
    for (index, (nanos, bytes)) in packets.iter().enumerate() {
        let at = Instant::from_nanos(*nanos);
        writer.write(index as u32 % 2, at, bytes).unwrap();
    }
    writer.finish().unwrap()
}

/// Reads to the end or the first error; gives the packets and where and whether it failed.
fn read(file: &[u8]) -> (Found, u64, Result<(), PcapError>) {
    let mut reader = match Reader::new(file) {
        Ok(reader) => reader,
        Err(error) => return (vec![], 0, Err(error)),
    };
    let mut packets = vec![];
    while let Some(packet) = reader.next_packet() {
        match packet {
            Ok(p) => packets.push((
                p.at.as_nanos(),
                p.interface,
                p.original_bytes,
                p.bytes.to_vec(),
            )),
            Err(error) => {
                assert!(reader.next_packet().is_none());
                return (packets, reader.position(), Err(error));
            }
        }
    }
    (packets, reader.position(), Ok(()))
}

fn packets() -> impl Strategy<Value = Packets> {
    // pcap ends in 2106.
    let nanos = 0..4_294_967_296_000_000_000_u64;
    prop::collection::vec((nanos, prop::collection::vec(any::<u8>(), 0..200)), 0..20)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_is_read(packets in packets(), snap_bytes in 0_u32..300) {
        let expected = |interfaces: u32| -> Vec<_> {
            let expect = |(index, (nanos, bytes)): (usize, &(u64, Vec<u8>))| {
                let kept = bytes[..bytes.len().min(snap_bytes as usize)].to_vec();
                (*nanos, index as u32 % interfaces, bytes.len() as u32, kept)
            };
            packets.iter().enumerate().map(expect).collect()
        };
        let pcap = (pcap(&packets, snap_bytes), 1);
        for (file, interfaces) in [pcap, (pcapng(&packets, snap_bytes), 2)] {
            let (found, position, result) = read(&file);
            prop_assert!(result.is_ok(), "{result:?}");
            prop_assert_eq!(position, file.len() as u64);
            prop_assert_eq!(found, expected(interfaces));
        }
    }

    #[test]
    fn a_cut_file_gives_what_stands_in_front_of_the_cut(
        packets in packets(),
        cut: prop::sample::Index,
    ) {
        for file in [pcap(&packets, 1000), pcapng(&packets, 1000)] {
            let cut = cut.index(file.len());
            let (found, position, result) = read(&file[..cut]);
            prop_assert!(found.len() <= packets.len());
            prop_assert!(position <= cut as u64);
            if let Err(error) = result {
                prop_assert_eq!(error.at, position);
            } else {
                prop_assert_eq!(position, cut as u64);
            }
        }
    }

    #[test]
    fn mutated_files_end_in_packets_or_an_error(
        packets in packets(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        for mut file in [pcap(&packets, 1000), pcapng(&packets, 1000)] {
            for (at, value) in &changes {
                let at = at.index(file.len());
                file[at] = *value;
            }
            let (found, position, _) = read(&file);
            prop_assert!(position <= file.len() as u64);
            let bytes: usize = found.iter().map(|packet| packet.3.len()).sum();
            prop_assert!(bytes <= file.len());
        }
    }

    #[test]
    fn any_bytes_behind_a_good_head_end_in_packets_or_an_error(tail: Vec<u8>) {
        for mut file in [pcap(&vec![], 1000), pcapng(&vec![], 1000)] {
            file.extend_from_slice(&tail);
            let (_, position, _) = read(&file);
            prop_assert!(position <= file.len() as u64);
        }
    }

    #[test]
    fn link_headers_of_any_bytes_come_off(bytes: Vec<u8>, link in 0_u32..300) {
        let packet = CapturedPacket {
            at: Instant::ZERO,
            interface: 0,
            link: LinkType::from_number(link),
            original_bytes: 0,
            bytes: &bytes,
        };
        prop_assert!(packet.ip().is_none_or(|ip| bytes.ends_with(ip)));
    }
}

/// A pcapng file, big-endian, of these blocks (type and body).
fn blocks(blocks: &[(u32, &[u8])]) -> Vec<u8> {
    let mut file = vec![];
    let section = [
        &0x1a2b_3c4d_u32.to_be_bytes()[..],
        &[0, 1, 0, 0],
        &[0xff; 8],
    ]
    .concat();
    for (kind, body) in [(0x0a0d_0d0a, &section[..])].iter().chain(blocks) {
        let length = (body.len() as u32 + 12).to_be_bytes();
        file.extend([&kind.to_be_bytes()[..], &length, body, &length].concat());
    }
    file
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

#[test]
fn times_are_in_the_units_of_their_interface() {
    let check = |options: &[u8], units: u64, expected_nanos: u64| {
        let interface = [&words(&[101 << 16, 0])[..], options].concat();
        let packet = words(&[0, (units >> 32) as u32, units as u32, 4, 9, 0x4500_0001]);
        let file = blocks(&[(1, &interface), (6, &packet)]);
        let (found, _, result) = read(&file);
        result.unwrap();
        assert_eq!(found, [(expected_nanos, 0, 9, vec![0x45, 0, 0, 1])]);
    };
    check(&[], 1_500_000, 1_500_000_000);
    check(&[0, 9, 0, 1, 9, 0, 0, 0, 0, 0, 0, 0], 7, 7);
    check(&[0, 9, 0, 1, 3, 0, 0, 0, 0, 0, 0, 0], 7, 7_000_000);
    check(&[0, 9, 0, 1, 0x81, 0, 0, 0, 0, 0, 0, 0], 3, 1_500_000_000);
    check(&[0, 9, 0, 1, 0x7f, 0, 0, 0, 0, 0, 0, 0], u64::MAX, 0);
    check(&[0, 9, 0, 1, 0xff, 0, 0, 0, 0, 0, 0, 0], u64::MAX, 0);
    // The end of time.
    let last = crate::Instant::MAX.as_nanos();
    check(&[0, 9, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0], u64::MAX, last);
    let offset = [0, 14, 0, 8, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0];
    check(&offset, 1, 2_000_001_000);
}

#[test]
fn older_packet_blocks_are_read() {
    let interface = words(&[1 << 16, 6]);
    let simple = words(&[10, 0x0102_0304, 0x0506_0708]);
    let obsolete = words(&[0x0000_0005, 0, 1, 2, 3, 0x0a0b_0c0d]);
    let file = blocks(&[(1, &interface), (3, &simple), (77, &[1; 8]), (2, &obsolete)]);
    let (found, position, result) = read(&file);
    result.unwrap();
    assert_eq!(position, file.len() as u64);
    let expected = [
        (0, 0, 10, vec![1, 2, 3, 4, 5, 6]),
        (1000, 0, 3, vec![10, 11]),
    ];
    assert_eq!(found, expected);
}

#[test]
fn errors_say_where_and_what() {
    let check = |file: &[u8], at: u64, text: &str| {
        let (_, _, result) = read(file);
        let error = result.unwrap_err();
        assert_eq!(error.at, at, "{error}");
        assert!(error.to_string().contains(text), "{error}");
    };
    check(b"", 0, "neither pcap nor pcapng");
    check(&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0], 0, "decompress");
    let packets = vec![(1, vec![1; 10]), (2, vec![2; 10])];
    let file = pcap(&packets, 1000);
    check(&file[..file.len() - 1], 24 + 26, "ends within a packet");
    let mut huge = file.clone();
    huge[32..36].copy_from_slice(&u32::MAX.to_le_bytes());
    check(&huge, 24, "more than 8 MB");
    let mut huge = pcapng(&packets, 1000);
    huge[4..8].copy_from_slice(&0xffff_fffc_u32.to_le_bytes());
    check(&huge, 0, "more than 8 MB");
    huge[4..8].copy_from_slice(&0_u32.to_le_bytes());
    check(&huge, 0, "impossible length");
    let interface = words(&[101 << 16, 0]);
    let packet = words(&[1, 0, 0, 0, 0]);
    check(&blocks(&[(6, &packet)]), 28, "not described");
    check(
        &blocks(&[(1, &interface), (6, &packet)]),
        48,
        "not described",
    );
    check(&blocks(&[(1, &interface), (6, &[0; 8])]), 48, "too short");
    let long = words(&[0, 0, 0, 5, 5, 0]);
    check(
        &blocks(&[(1, &interface), (6, &long)]),
        48,
        "longer than its block",
    );
    let many = vec![(1, &interface[..]); 4097];
    check(&blocks(&many), 28 + 4096 * 20, "4096 interfaces");
}

#[test]
fn writer_refuses_what_the_format_cannot_say() {
    let mut writer = Writer::pcap(Vec::new()).unwrap();
    let error = writer.write(0, Instant::MAX, &[1]).unwrap_err();
    assert!(error.to_string().contains("write pcapng"), "{error}");
    let mut writer = Writer::pcapng(Vec::new(), &["only"]).unwrap();
    assert!(writer.write(0, Instant::MAX, &[1]).is_ok());
    let error = writer.write(1, Instant::MAX, &[1]).unwrap_err();
    assert!(error.to_string().contains("not described"), "{error}");
}

#[test]
fn ip_is_found_behind_the_link() {
    let check = |link, header: &[u8], expected: bool| {
        let bytes = [header, &[0x45, 0]].concat();
        let packet = CapturedPacket {
            at: Instant::ZERO,
            interface: 0,
            link,
            original_bytes: 0,
            bytes: &bytes,
        };
        assert_eq!(packet.ip(), expected.then_some(&[0x45, 0][..]), "{link:?}");
    };
    let ether = |types: &[u8]| [&[0; 12][..], types].concat();
    check(LinkType::Raw, &[], true);
    check(LinkType::Null, &[2, 0, 0, 0], true);
    check(LinkType::Ethernet, &ether(&[8, 0]), true);
    check(
        LinkType::Ethernet,
        &ether(&[0x81, 0, 0, 5, 0x86, 0xdd]),
        true,
    );
    check(LinkType::Ethernet, &ether(&[8, 6]), false);
    check(LinkType::LinuxSll, &[&[0; 14][..], &[8, 0]].concat(), true);
    check(LinkType::LinuxSll2, &[&[8, 0][..], &[0; 18]].concat(), true);
    check(LinkType::Other(147), &[], false);
}
