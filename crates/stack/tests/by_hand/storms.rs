//! Two hosts that answer each other: a forged segment to each of them must not set off a storm of
//! ACKs (RFC 5961 section 7, RFC 9293 section 3.10.7.4).

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use base::{Instant, TcpState};
use tcptailor_stack::profile::{self, Profile};
use tcptailor_stack::{Body, Host, HostConfig, ListenOptions, Packet, Segment, SocketId};

use crate::hand::{ACK, millis};

const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

/// Two hosts with a connection, a millisecond apart.
struct Pair {
    now: Instant,
    hosts: [Host; 2],
    ids: [SocketId; 2],
    /// On their way to each.
    coming: [Vec<Packet>; 2],
    /// The last segment of each.
    last: [Option<Packet>; 2],
    sent: u64,
}

impl Pair {
    fn new(mut profile: Profile) -> Self {
        profile.settings.life.keepalive = None;
        let mut server = Host::new(HostConfig::of(&profile, SERVER, 1));
        let mut client = Host::new(HostConfig::of(&profile, CLIENT, 2));
        let now = Instant::from_nanos(1_000_000_000);
        let local = SocketAddr::new(SERVER, 80);
        let listener = server
            .listen(local, ListenOptions::of(&profile))
            .expect("the port is free");
        let id = client
            .connect(now, local, profile.settings)
            .expect("the host has ports");
        let mut pair = Self {
            now,
            hosts: [server, client],
            ids: [id, id],
            coming: [Vec::new(), Vec::new()],
            last: [None, None],
            sent: 0,
        };
        pair.pass(10);
        let accepted = pair.hosts[0].accept(pair.now, listener);
        pair.ids[0] = accepted.expect("it is established");
        // Something of each has arrived.
        for end in 0..2 {
            let written = pair.hosts[end].write(pair.now, pair.ids[end], b"hello");
            assert_eq!(written, Ok(5));
            pair.pass(100);
            let other = 1 - end;
            let read = pair.hosts[other].read(pair.now, pair.ids[other], &mut [0; 10]);
            assert_eq!(read, Ok(5));
        }
        pair.pass(1000);
        pair.sent = 0;
        pair
    }

    fn pass(&mut self, milliseconds: u64) {
        for _ in 0..milliseconds {
            for end in 0..2 {
                let host = &mut self.hosts[end];
                for packet in std::mem::take(&mut self.coming[end]) {
                    host.handle_packet(self.now, packet);
                }
                if host.poll_timeout().is_some_and(|due| due <= self.now) {
                    host.handle_timeout(self.now);
                }
                while let Some(packet) = host.poll_transmit(self.now) {
                    self.sent += 1;
                    self.last[end] = Some(packet.clone());
                    self.coming[1 - end].push(packet);
                }
            }
            self.now += millis(1);
        }
    }

    /// Data in the name of each end comes to the other, which believes it.
    fn forge(&mut self) {
        for end in 0..2 {
            let mut packet = self.last[end].clone().expect("it has sent something");
            let Body::Tcp(last) = packet.body else {
                unreachable!("nobody sends anything else");
            };
            packet.body = Body::Tcp(Segment {
                seq: last.seq + last.sequence_bytes(),
                flags: ACK,
                payload: bytes::Bytes::from_static(&[b'!'; 100]).into(),
                ..last
            });
            self.coming[1 - end].push(packet);
        }
    }

    fn are_established(&self) -> bool {
        (0..2).all(|end| {
            let sample = self.hosts[end].sample(self.now, self.ids[end]);
            sample.is_some_and(|sample| sample.state == Some(TcpState::Established))
        })
    }
}

/// Each ACK of what was never sent is outside what the other takes, and its answer, too. By the
/// limits of the profiles, written down before the first run: in 10 seconds twice a second and
/// end in Linux (`tcp_invalid_ratelimit`), and in none more than ten times.
#[test]
fn two_hosts_that_disagree_do_not_storm() {
    let check = |profile: Profile, most: u64| {
        let name = profile.name;
        let mut pair = Pair::new(profile);
        assert!(pair.are_established(), "{name}");
        pair.forge();
        pair.pass(10_000);
        assert!(pair.sent > 2, "{name}: they do not agree and say so");
        assert!(pair.sent <= most, "{name}: {} of {most}", pair.sent);
    };
    check(profile::linux_6_18(), 60);
    check(profile::freebsd_14(), 210);
    check(profile::winsock(), 210);
    check(profile::textbook(), 210);
}
