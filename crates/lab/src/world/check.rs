//! Conservation: what must be true of every world at any time.

use super::World;
use crate::app::{App, Program};

impl<A: App> World<A> {
    /// Checks that no packet and no buffer was made or lost.
    ///
    /// # Panics
    /// Where one was: a bug, and the numbers that show it.
    pub fn check_packets(&mut self) {
        self.settle_arrivals();
        let (mut taken, mut delivered) = (0, 0);
        for hop in &mut self.net.hops {
            hop.link.advance(self.net.now);
            let stats = hop.link.stats();
            assert_eq!(stats.sent, hop.taken, "packets handed to a link");
            assert_eq!(
                stats.sent + stats.duplicated,
                stats.delivered + stats.dropped() + stats.inside,
                "packets of a link: {stats:?}"
            );
            taken += hop.taken;
            delivered += stats.delivered;
        }
        let counts = self.net.counts;
        let sim_hosts = || self.nodes.iter().filter_map(|node| node.sim_host.as_ref());
        // Reports that a host got about its own first link came out of no link.
        assert!(
            counts.sent + counts.reported + delivered >= taken + counts.lost,
            "{taken} packets came into links: {counts:?}"
        );
        assert!(
            counts.received <= delivered + counts.reported,
            "{delivered} packets came out of links: {counts:?}"
        );
        for sim_host in sim_hosts() {
            let pool = sim_host.host.pool();
            let held: u32 = pool
                .by_owner
                .iter()
                .map(|owner| owner.received + owner.sent)
                .sum();
            assert_eq!(
                pool.free + held,
                pool.buffers,
                "buffers of a pool: {pool:?}"
            );
        }
        for rx_queue in &self.net.rx_queues {
            assert!(rx_queue.backlog_segments() <= counts.received);
        }
    }
}

impl World<Program> {
    /// Checks that what programs read is what other programs wrote, to the last byte where a
    /// stream has ended. That the bytes are the right ones is checked at each read.
    ///
    /// # Panics
    /// Where bytes were made or lost.
    pub fn check_streams(&self) {
        let accounts = self.nodes.iter().filter_map(|node| {
            let sim_host = node.sim_host.as_ref()?;
            Some(sim_host.app.as_ref()?.accounts(&sim_host.host))
        });
        let accounts: Vec<_> = accounts.collect();
        for ((local, remote), own) in accounts.iter().flatten() {
            let peer = accounts.iter().find_map(|of| of.get(&(*remote, *local)));
            let Some(peer) = peer else {
                continue;
            };
            let ends = format!(
                "{remote} to {local} at {:?}: {peer:?}, {own:?}",
                self.net.now
            );
            // The byte that names a role is none of the payload.
            assert!(
                own.read + own.unread <= peer.written + 1,
                "bytes made: {ends}"
            );
            let acknowledged = peer.written.saturating_sub(peer.unacked);
            assert!(acknowledged <= own.read + own.unread, "bytes lost: {ends}");
            if own.saw_end {
                assert_eq!(own.read, peer.written, "bytes lost: {ends}");
            }
        }
    }

    /// All checks.
    ///
    /// # Panics
    /// Where one fails.
    pub fn check(&mut self) {
        self.check_packets();
        self.check_streams();
    }
}
