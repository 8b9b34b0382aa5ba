//! What a program that embeds the stack relies on: the short form of a host, counters, and
//! congestion control of its own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use base::Instant;
use base::settings::{Congestion, CongestionName, Nagle};
use bytes::Bytes;
use link::LinkSpec;
use tcptailor_stack::cc::{AckSample, CongestionControl, Controllers, SSTHRESH_INFINITE, Window};
use tcptailor_stack::{Config, Host, HostConfig, ListenOptions, Secret, WriteFlags, profile};

use crate::common::{PORT, Pair, client_ip, server_addr, server_ip};

/// A window of this many packets, whatever happens.
#[derive(Debug)]
struct Constant {
    packets: u32,
    acks: Arc<AtomicU32>,
}

impl CongestionControl for Constant {
    fn name(&self) -> &'static str {
        "constant"
    }

    fn on_start(&mut self, window: &mut Window, _now: Instant) {
        window.cwnd = self.packets;
    }

    fn on_ack(&mut self, window: &mut Window, _ack: &AckSample) {
        self.acks.fetch_add(1, Ordering::Relaxed);
        window.cwnd = self.packets;
    }

    fn on_congestion(&mut self, _window: &Window, _now: Instant) -> u32 {
        SSTHRESH_INFINITE
    }

    fn on_timeout(&mut self, window: &mut Window, _now: Instant) {
        window.cwnd = self.packets;
    }

    fn wants_validation(&self) -> bool {
        false
    }
}

/// A constant window towards port 5000, and what the settings name towards all others.
#[derive(Debug)]
struct ToOnePort {
    acks: Arc<AtomicU32>,
}

impl Controllers for ToOnePort {
    fn make(
        &mut self,
        remote: SocketAddr,
        _settings: &Congestion,
    ) -> Option<Box<dyn CongestionControl>> {
        (remote.port() == PORT).then(|| {
            let acks = Arc::clone(&self.acks);
            Box::new(Constant { packets: 4, acks }) as _
        })
    }
}

/// Sends `bytes` from the client, and returns how long it takes.
fn transfer(pair: &mut Pair, bytes: usize) -> Duration {
    let linux = profile::linux_6_18();
    let (sender, receiver) = pair.connect(&linux, &linux);
    let (begin, mut unsent, mut read) = (pair.now, Bytes::from(vec![7; bytes]), 0);
    while read < bytes {
        let written =
            pair.client
                .write_chunk(pair.now, sender, unsent.clone(), WriteFlags::default());
        unsent = unsent.slice(written.unwrap_or(0)..);
        if let Ok(data) = pair.server.read_chunks(pair.now, receiver, usize::MAX) {
            read += data.len() as usize;
        }
        assert!(pair.step(), "it stands still after {read} bytes");
    }
    pair.now.since(begin)
}

fn path() -> LinkSpec {
    let mut spec = LinkSpec::ideal();
    spec.delay = Duration::from_millis(50);
    spec
}

#[test]
fn congestion_control_of_a_program_decides_how_much_is_out() {
    let linux = profile::linux_6_18();
    let mut pair = Pair::new(&linux, &linux, &path(), 1);
    let acks = Arc::new(AtomicU32::new(0));
    let controllers = ToOnePort {
        acks: Arc::clone(&acks),
    };
    pair.client.set_controllers(Box::new(controllers));
    // 40 packets, 4 in each round trip of 100 ms; the last round needs no answer.
    let took = transfer(&mut pair, 40 * 1448);
    assert!(
        (Duration::from_millis(950)..Duration::from_millis(1100)).contains(&took),
        "{took:?}"
    );
    assert!(acks.load(Ordering::Relaxed) >= 10);

    let id = pair.client.sockets().next().expect("the connection");
    let sample = pair.client.sample(pair.now, id).expect("it lives");
    assert_eq!(sample.cwnd_pkts, Some(4));
}

#[test]
fn other_connections_have_what_their_settings_name() {
    let linux = profile::linux_6_18();
    let acks = Arc::new(AtomicU32::new(0));
    let mut host = Host::new(HostConfig::of(&linux, client_ip(), 1));
    host.set_controllers(Box::new(ToOnePort { acks }));
    let mut remote = server_addr();
    for (port, expected) in [(PORT, "constant"), (80, "cubic")] {
        remote.set_port(port);
        let id = host
            .connect(Instant::ZERO, remote, linux.settings.clone())
            .expect("a free port");
        let sample = host.sample(Instant::ZERO, id).expect("it lives");
        assert_eq!(sample.congestion.as_deref(), Some(expected), "port {port}");
    }
}

#[test]
fn the_short_form_sets_what_it_says_and_is_linux_beside_that() {
    let mut config = Config::new(client_ip(), Secret([9; 16]));
    let plain = HostConfig::from(config.clone());
    let mut linux = profile::linux_6_18();
    linux.settings.path.pmtu_confirm = true;
    assert_eq!(plain.settings, linux.settings);
    assert_eq!((plain.system.hz, plain.system.coarse_above_ticks), (0, 0));

    config.congestion = CongestionName::Bbr;
    config.nodelay = true;
    config.keepalive = Some(Duration::from_secs(60));
    config.send_buffer_bytes_max = 30_000;
    config.recv_buffer_bytes_max = 20_000;
    config.connections_max = 3;
    let set = HostConfig::from(config);
    assert_eq!(set.settings.congestion.name, CongestionName::Bbr);
    assert_eq!(set.settings.small_writes.nagle, Nagle::Off);
    assert_eq!(set.settings.life.keepalive, Some(Duration::from_secs(60)));
    let (send, recv) = (&set.settings.send.buffer, &set.settings.recv.buffer);
    assert_eq!((send.initial, send.max), (16_384, 30_000));
    assert_eq!((recv.initial, recv.max), (20_000, 20_000));
    assert_eq!(set.system.connections_max, 3);
}

#[test]
fn two_hosts_of_the_short_form_talk_and_count() {
    let linux = profile::linux_6_18();
    let mut pair = Pair::new(&linux, &linux, &path(), 1);
    pair.client = Host::new(Config::new(client_ip(), Secret([1; 16])));
    pair.server = Host::new(Config::new(server_ip(), Secret([2; 16])));
    let settings = pair.client.default_settings().clone();
    assert_eq!(ListenOptions::new(settings.clone()).settings, settings);
    // Ten segments at once, then twice as many: two round trips after the handshake.
    let took = transfer(&mut pair, 30 * 1448);
    assert!(took < Duration::from_millis(300), "{took:?}");
    let id = pair.client.sockets().next().expect("the connection");
    let counted = pair.client.connection_counters(id).expect("it lives");
    assert_eq!(counted.send.segments, 30);
    assert_eq!(counted.recovery.retransmitted_packets, 0);
    let receiver = pair.server.sockets().last().expect("the connection");
    let counted = pair.server.connection_counters(receiver);
    assert_eq!(counted.expect("it lives").recv.bytes, 30 * 1448);
}
