//! The names of settings that a script may use.

/// Names of settings of a socket, by which both engines know them.
const NAMES: &[&str] = &[
    "congestion",
    "cork",
    "defer_accept",
    "delack_max",
    "keepalive",
    "keepalive_interval",
    "keepalive_probes",
    "linger",
    "max_pacing_rate",
    "mss",
    "nodelay",
    "notsent_lowat",
    "quickack",
    "rcvbuf",
    "rcvlowat",
    "rto_max",
    "rto_min",
    "sndbuf",
    "syn_retries",
    "thin_linear",
    "user_timeout",
    "urgent_inline",
    "window_clamp",
];

/// What is wrong with a name of a setting, if anything.
#[must_use]
pub fn unknown_setting(name: &str) -> Option<String> {
    let known = NAMES.contains(&name);
    (!known).then(|| {
        format!(
            "there is no setting `{name}`; there are {}",
            NAMES.join(", ")
        )
    })
}
