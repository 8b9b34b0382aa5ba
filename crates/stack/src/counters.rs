//! Counters of a host. Every drop and every special event has a counter.

/// Counters of a host since it began; `nstat`'s name in brackets where Linux has the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Segments that came in, those of GSO packets one by one (`TcpInSegs`).
    pub segments_in: u64,
    /// Segments that went out (`TcpOutSegs`).
    pub segments_out: u64,
    /// Of these, segments with payload, including those of closed connections.
    pub data_segments_out: u64,
    /// Of these, retransmissions (`TcpRetransSegs`).
    pub segments_retransmitted: u64,
    /// Packets for an address that is not the host's.
    pub not_for_us: u64,
    /// Packets dropped because the local queue was full.
    pub local_queue_drops: u64,
    /// Bare ACKs that a newer one replaced before the driver took them.
    pub acks_superseded: u64,
    /// Connections opened by us (`TcpActiveOpens`).
    pub active_opens: u64,
    /// Connections opened by others (`TcpPassiveOpens`).
    pub passive_opens: u64,
    /// Attempts that failed (`TcpAttemptFails`).
    pub attempt_fails: u64,
    /// Established connections that were reset (`TcpEstabResets`).
    pub established_resets: u64,
    /// Resets that we sent (`TcpOutRsts`).
    pub resets_sent: u64,
    /// Segments to ports without a listener.
    pub no_socket: u64,
    /// Answers (resets, challenge ACKs) that the rate limit held back (`TcpExtTCPACKSkipped*`).
    pub answers_suppressed: u64,
    /// Challenge ACKs (RFC 5961) (`TcpExtTCPChallengeACK`).
    pub challenge_acks: u64,
    /// SYN inside the window of a connection (`TcpExtTCPSYNChallenge`).
    pub syn_challenges: u64,
    /// Segments with an old timestamp (RFC 7323 section 5) (`TcpExtPAWSEstab`).
    pub paws_rejected: u64,
    /// Segments outside the window.
    pub out_of_window: u64,
    /// Segments without ACK on an established connection.
    pub without_ack: u64,
    /// ACKs of data that was never sent (RFC 5961 section 5).
    pub ack_of_unsent: u64,
    /// ACKs older than the largest window (RFC 5961 section 5).
    pub ack_too_old: u64,
    /// Data that arrived after the application had closed (`TcpExtTCPAbortOnData`).
    pub data_after_close: u64,
    /// SYNs dropped because too many connections were half open.
    pub syn_backlog_drops: u64,
    /// SYNs or handshake ACKs dropped because the accept queue was full (`TcpExtListenOverflows`).
    pub accept_overflows: u64,
    /// SYN cookies sent (`TcpExtSyncookiesSent`).
    pub cookies_sent: u64,
    /// Valid SYN cookies received (`TcpExtSyncookiesRecv`).
    pub cookies_accepted: u64,
    /// Invalid SYN cookies received (`TcpExtSyncookiesFailed`).
    pub cookies_failed: u64,
    /// Connections in TIME-WAIT that a new SYN replaced.
    pub time_wait_reused: u64,
    /// Connections that were closed without TIME-WAIT, because too many were in it
    /// (`TcpExtTCPTimeWaitOverflow`).
    pub time_wait_overflows: u64,
    /// Connections refused because the host has as many as it may have.
    pub too_many_connections: u64,
    /// Segments dropped because the pool of buffers was empty: received data and SYNs, and segments
    /// without data to be sent.
    pub pool_drops: u64,
    /// Segments with data dropped because the host's memory was used up.
    pub memory_drops: u64,
    /// Writes that were refused or cut short because the host's memory was used up.
    pub memory_write_refusals: u64,
    /// Closed connections that were reset because the host's memory was used up
    /// (`TcpExtTCPAbortOnMemory`).
    pub memory_resets: u64,
    /// Out-of-order packets that connections dropped for others of the host (`TcpExtOfoPruned`
    /// counts the times).
    pub reclaimed: u64,
    /// Zero-window probes sent (`TcpExtTCPWinProbe`).
    pub window_probes: u64,
    /// Keepalive probes sent (`TcpExtTCPKeepAlive`).
    pub keepalive_probes: u64,
    /// Connections that timed out (`TcpExtTCPAbortOnTimeout`).
    pub timed_out: u64,
    /// ICMP errors about our connections.
    pub icmp_errors: u64,
    /// Of these, errors that quote a sequence number outside of the flight (RFC 5927).
    pub icmp_ignored: u64,
    /// ICMP reports that a packet was too big.
    pub too_big: u64,
}
