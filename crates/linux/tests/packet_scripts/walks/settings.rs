//! A host with other settings than usual: a sender as in the other walks, or one over a path. On
//! the way settings change, and routers report errors.

use base::Rng;

use super::draft::{Draft, pick};
use super::{path, sender};

/// Settings of the host, its socket or its route, as they stand before a walk.
const SETTINGS: &[&str] = &[
    "mtu 1000",
    "mtu 9000",
    "route initcwnd 2",
    "route initcwnd 30",
    "set congestion reno",
    "set keepalive 1s",
    "set mss 500",
    "set notsent_lowat 3000",
    "set rcvbuf 5000",
    "set rto_max 1s",
    "set sndbuf 5000",
    "set sndbuf 30000",
    "set user_timeout 2s",
    "set window_clamp 3000",
    "sysctl tcp_dsack 0",
    "sysctl tcp_early_retrans 0",
    "sysctl tcp_frto 0",
    "sysctl tcp_mtu_probing 1",
    "sysctl tcp_mtu_probing 2",
    "sysctl tcp_reordering 6",
    "sysctl tcp_retries2 4",
    "sysctl tcp_rmem 4096 8192 65536",
    "sysctl tcp_sack 0",
    "sysctl tcp_slow_start_after_idle 0",
    "sysctl tcp_timestamps 0",
    "sysctl tcp_tso_win_divisor 1",
    "sysctl tcp_window_scaling 0",
    "sysctl tcp_wmem 4096 8192 20000",
];

/// What may change on the way.
const CHANGES: &[&str] = &[
    "set notsent_lowat 1000",
    "set rcvbuf 20000",
    "set rto_max 1s",
    "set sndbuf 5000",
    "set sndbuf 60000",
    "set user_timeout 3s",
];

/// The first of them say nothing of sizes.
const SOFT: usize = 5;
const ERRORS: &[&str] = &[
    "host-unreachable",
    "net-unreachable",
    "port-unreachable",
    "protocol-unreachable",
    "time-exceeded",
    "too-big 600",
    "too-big 1000",
    "too-big 1300",
];

/// The script of the walk `seed`.
pub(super) fn script(seed: u64) -> String {
    let mut rng = Rng::new(seed, "settings");
    let mut chosen: Vec<&str> = (0..1 + rng.below(3))
        .map(|_| pick(&mut rng, SETTINGS))
        .collect();
    // The first value of a setting counts.
    let name = |line: &&str| line.rsplit_once(' ').expect("a value").0.to_owned();
    let mut names = std::collections::BTreeSet::new();
    chosen.retain(|line| names.insert(name(line)));
    let lines: String = chosen.iter().map(|line| format!("{line}\n")).collect();
    match rng.below(2) {
        0 => sender::walk(seed, &lines, true),
        _ => path::walk(seed, &lines),
    }
}

/// Changes a setting of the connection, or lets a router report an error of what was sent from
/// `acked` to `sent`.
pub(super) fn disturb(draft: &mut Draft, acked: u64, sent: u64) {
    match draft.rng.below(8) {
        // The same bound once more would be set anew by the kernel, where ours sees no change.
        0 => {
            let bound = 1500 + draft.rng.below(8000);
            draft.push(&format!("set window_clamp {bound}"));
            return;
        }
        1..4 => {
            let change = draft.pick(CHANGES);
            draft.push(change);
            return;
        }
        _ => {}
    }
    // What was too big and has passed all the same is doubted, against Linux.
    let error = match acked {
        1 => draft.pick(ERRORS),
        _ => draft.pick(&ERRORS[..SOFT]),
    };
    let seq = acked + draft.rng.below(sent.saturating_sub(acked) + 1);
    draft.push(&format!("in icmp {error} seq {seq}"));
}
