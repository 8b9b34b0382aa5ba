//! Sends a file over a lossy link in virtual time, and prints each wait of the sender and why.

use base::{Instant, Limit};
use bytes::Bytes;
use core::time::Duration;
use link::{Link, LinkSpec, Loss};
use tcptailor_stack::{Host, HostConfig, ListenOptions, WriteFlags, profile};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let name = std::env::args().nth(1).unwrap_or("Cargo.lock".into());
    let file = Bytes::from(std::fs::read(&name)?);
    let (mut unsent, mut arrived, mut now) = (file.clone(), Vec::new(), Instant::ZERO);
    let profile = profile::linux_6_18();
    let mut a = Host::new(HostConfig::of(&profile, [10, 0, 0, 1].into(), 1));
    let mut b = Host::new(HostConfig::of(&profile, [10, 0, 0, 2].into(), 2));
    let (mut spec, loss) = (LinkSpec::ideal(), Loss::Random("2%".parse()?));
    (spec.rate, spec.delay, spec.loss) = (Some("25mbit".parse()?), Duration::from_millis(20), loss);
    let (mut forward, mut reverse) = (Link::new(spec.clone(), 1)?, Link::new(spec, 2)?);
    let here = ([10, 0, 0, 2], 80).into();
    let listener = b.listen(here, ListenOptions::of(&profile))?;
    let (client, mut server) = (a.connect(now, here, profile.settings)?, None);
    let mut waited = (Limit::Handshake, now);
    while arrived.len() < file.len() {
        // The programs: write what fits, read what is there.
        let written = a.write_chunk(now, client, unsent.clone(), WriteFlags::default());
        unsent = unsent.slice(written.unwrap_or(0)..);
        server = server.or_else(|| b.accept(now, listener));
        if let Some(Ok(data)) = server.map(|id| b.read_chunks(now, id, usize::MAX)) {
            arrived.extend(data.to_vec());
        }
        // The packets: onto the links, and off them when their time has come.
        while let Some(packet) = a.poll_transmit(now) {
            assert!(forward.handle_packet(now, packet).dropped == 0);
        }
        while let Some(packet) = b.poll_transmit(now) {
            assert!(reverse.handle_packet(now, packet).dropped == 0);
        }
        let limit = a.limit(now, client).map_or(waited.0, |wait| wait.limit);
        if limit != waited.0 {
            println!("{:>12?}  {}", now.since(waited.1), waited.0);
            waited = (limit, now);
        }
        // The time: jumps to whatever is next.
        let links = [forward.poll_timeout(), reverse.poll_timeout()];
        let hosts = [a.poll_timeout(), b.poll_timeout()];
        let next = links.into_iter().chain(hosts).flatten().min();
        now = now.max(next.ok_or("nothing happens any more")?);
        while let Some(packet) = forward.poll_deliver(now) {
            b.handle_packet(now, packet);
        }
        while let Some(packet) = reverse.poll_deliver(now) {
            a.handle_packet(now, packet);
        }
        a.handle_timeout(now);
        b.handle_timeout(now);
    }
    let took = now.since(Instant::ZERO);
    println!("{name} in {took:?}, intact: {}", arrived == file);
    Ok(())
}
