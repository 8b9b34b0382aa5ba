//! What peers that leave gaps cost in memory that is really there, and what is left for others.
//!
//! One test in a program of its own: the memory of a process is counted, which tests that run
//! beside it would change.

#[path = "by_hand/hand.rs"]
#[expect(dead_code, reason = "the tests by hand use the rest")]
mod hand;

use base::TcpState;
use hand::{ACK, Bench, Peer, with_mss};
use tcptailor_stack::profile::{self, Profile};
use tcptailor_stack::{MemoryBudget, SocketId};

/// Peers that attack.
const PEERS: u16 = 48;
/// What each connection may keep by itself.
const BUFFER_BYTES: u32 = 4 << 20;
/// What the host may keep.
const BUDGET: MemoryBudget = MemoryBudget {
    pressure_bytes: 6 << 20,
    max_bytes: 8 << 20,
};

#[test]
fn gaps_cost_no_more_than_the_host_may_keep() {
    let profiles = [profile::linux_6_18(), profile::freebsd_14()];
    let start = resident_bytes();
    let cost_of = |profile, budget| attack(profile, budget).saturating_sub(start);
    for profile in &profiles {
        let cost = cost_of(profile, BUDGET);
        println!("{}: {} KiB", profile.name, cost >> 10);
        assert!(
            cost < BUDGET.max_bytes + (4 << 20),
            "{}: {cost}",
            profile.name
        );
    }
    // Without a budget the same costs much more: the attack is one.
    let cost = cost_of(&profiles[0], MemoryBudget::UNLIMITED);
    println!("unlimited: {} KiB", cost >> 10);
    assert!(cost > 4 * BUDGET.max_bytes);
}

/// Peers that send single bytes with gaps between them, and a connection that still works then.
/// Returns what the process takes when it takes most.
fn attack(profile: &Profile, budget: MemoryBudget) -> u64 {
    let mut profile = profile.clone();
    profile.system.memory = budget;
    profile.settings.recv.buffer.fixed = Some(BUFFER_BYTES);
    let mut bench = Bench::new(&profile);
    let listener = bench.listen(&profile);
    let mut peers: Vec<(Peer, SocketId)> = Vec::new();
    for port in 0..PEERS {
        let mut peer = Peer::new(4000 + port);
        let id = peer.open(&mut bench, listener, with_mss(1460));
        peers.push((peer, id));
    }
    for gap in 0..4_000 {
        for (peer, _) in &peers {
            bench.send(peer.at(2 + 2 * gap, ACK, b"x"));
        }
    }
    let most = resident_bytes();
    assert!(bench.host.memory_bytes() <= budget.max_bytes);
    check_others(&mut bench, listener);
    for (_, id) in &peers {
        assert_eq!(bench.state(*id), Some(TcpState::Established));
        bench.host.abort(bench.now, *id);
    }
    assert_eq!(bench.host.memory_bytes(), 0);
    most
}

/// A connection that begins under attack gets its data, also over a gap.
fn check_others(bench: &mut Bench, listener: SocketId) {
    let mut peer = Peer::new(8000);
    let id = peer.open(bench, listener, with_mss(1460));
    for _ in 0..20 {
        bench.send(peer.at(1460, ACK, &[2; 1460]));
        bench.send(peer.at(0, ACK, &[1; 1460]));
        // The first time others have not given yet.
        bench.send(peer.at(1460, ACK, &[2; 1460]));
        assert_eq!(bench.read(id).len(), 2920);
        peer.seq += 2920;
    }
    bench.host.abort(bench.now, id);
}

fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("a Linux system");
    let pages = text.split(' ').nth(1).expect("the second number");
    pages.parse::<u64>().expect("a number") * 4096
}
