//! One connection: joins its sending half, its receiving half and loss recovery.
//!
//! The sending half ([`Sender`]), the receiving half ([`Receiver`]) and loss recovery
//! ([`LossRecovery`]) know nothing of each other and nothing of headers. A [`Connection`] reads
//! headers ([`incoming`]), tells the halves what arrived, asks them what to send, and writes
//! headers ([`outgoing`]). Sequence numbers become offsets here and nowhere else.
//!
//! Everything else has a file of its own with private fields: how much data a segment carries
//! ([`size`]), what the halves are told of what was sent ([`ledger`]), the peer's window, clocks,
//! ECN, probes, pacing, waits and counters. What is not TCP belongs to the [`Socket`]. Consequences
//! for the host are returned to it ([`Effects`]).

mod application;
mod clocks;
mod closing;
mod configure;
pub(crate) mod counters;
mod ecn;
mod effects;
mod end;
mod handshake;
mod held;
mod incoming;
mod late_syn;
mod ledger;
mod local_queue;
mod memory;
mod outgoing;
mod pacing;
mod peer_window;
mod predict;
mod probe;
mod record;
mod request;
mod sequence;
mod size;
mod state;
mod tell;
mod timer;
mod timers;
mod traffic;

use core::net::SocketAddr;

use base::settings::{LinuxVersion, SizeRule, SocketSettings};
use base::{Instant, SeqNum};

use crate::Arc;
use crate::host::{RateLimit, Shared, Socket, SocketId};
use crate::rare::Rare;
use crate::recovery::LossRecovery;
use crate::recv::{Agreed, Env, Receiver};
use crate::send::{SendMemoryEnv, Sender};
use clocks::Clocks;
use closing::Failures;
use ecn::EcnState;
pub(crate) use effects::{Effects, Next, Opened};
use end::End;
use held::Held;
use local_queue::LocalQueue;
use pacing::Pacer;
use peer_window::PeerWindow;
use probe::Probes;
pub use record::Arrived;
use sequence::{RecvSequence, SendSequence};
use size::SizeLimits;
use state::{State, SynReceived, SynSent};
use timer::{Timer, TimerTable};
use timers::Stall;
use traffic::Traffic;

/// One TCP connection.
#[derive(Debug)]
pub(crate) struct Connection {
    /// State outside of TCP: owner, and waits.
    socket: Socket,
    local: End,
    remote: End,
    /// Shared with others until they change.
    settings: Arc<SocketSettings>,
    state: State,
    send: Sender,
    recv: Receiver,
    recovery: LossRecovery,
    timers: TimerTable,
    size: SizeLimits,
    /// Our sequence numbers, and the peer's.
    iss: SendSequence,
    irs: RecvSequence,
    agreed: Agreed,
    window: PeerWindow,
    clocks: Clocks,
    ecn: EcnState,
    probes: Probes,
    traffic: Traffic,
    held: Held,
    /// Offset that the last segment we sent acknowledged (`Last.ACK.sent`, RFC 7323 section 4.3).
    last_ack_sent: u64,
    pacer: Pacer,
    /// Challenge ACKs and answers to out-of-window segments.
    challenges: RateLimit,
    stall: Stall,
    /// The user timeout was changed since the last timeout.
    awaits_timeout: bool,
    /// Values last reported to a trace.
    told: Rare<tell::Told>,
    failures: Failures,
    local_queue: LocalQueue,
}

/// Parameters of a new connection.
#[derive(Debug)]
pub(crate) struct Opening<'a> {
    pub(crate) id: SocketId,
    /// The listener that it came to.
    pub(crate) listener: Option<SocketId>,
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    pub(crate) iss: SeqNum,
    pub(crate) timestamp_offset: u32,
    pub(crate) settings: &'a Arc<SocketSettings>,
}

impl Connection {
    fn new(now: Instant, shared: &mut Shared, opening: &Opening<'_>, state: State) -> Self {
        let Opening {
            id,
            listener,
            local,
            remote,
            iss,
            timestamp_offset,
            settings,
        } = *opening;
        let size = SizeLimits::new(now, settings, shared.mtu, remote.is_ipv4());
        let controller = shared.controller(remote, &settings.congestion);
        let mss = u32::from(settings.options.default_mss);
        Self {
            socket: Socket::new(id, listener),
            local: local.into(),
            remote: remote.into(),
            state,
            send: Sender::new(settings),
            recv: Receiver::new(settings, shared.tick),
            recovery: LossRecovery::new(settings, mss, controller, shared.tick),
            timers: TimerTable::new(),
            size,
            iss: SendSequence::new(iss),
            irs: RecvSequence::default(),
            agreed: Agreed {
                sack: false,
                timestamps: false,
                window_scaling: false,
                advmss: mss,
                send_mss: mss,
                headers: 0,
            },
            window: PeerWindow::default(),
            clocks: Clocks::new(timestamp_offset),
            ecn: EcnState::default(),
            probes: Probes::default(),
            traffic: Traffic::default(),
            held: Held::new(now),
            last_ack_sent: 0,
            pacer: Pacer::new(),
            challenges: RateLimit::default(),
            stall: Stall::default(),
            awaits_timeout: false,
            told: Rare::NONE,
            failures: Failures::default(),
            local_queue: LocalQueue::default(),
            settings: Arc::clone(settings),
        }
    }

    /// The version of Linux whose behaviour this connection follows, if any.
    fn linux(&self) -> Option<LinuxVersion> {
        match self.settings.recv.buffer.rule {
            SizeRule::Linux(version) => Some(version),
            _ => None,
        }
    }

    /// State of the sending half that the receiving half needs.
    fn recv_env(&self, is_tight: bool) -> Env {
        let rtt = self.recovery.rtt();
        Env {
            srtt_micros: rtt.srtt_micros(),
            rto: rtt.rto(),
            is_tight,
        }
    }

    /// Input to the sizing of the send buffer; `is_tight`: the host is short of memory.
    fn send_memory_env(&self, is_tight: bool) -> SendMemoryEnv {
        SendMemoryEnv {
            cwnd: self.recovery.window().cwnd,
            reordering: self.recovery.reordering(),
            in_flight: self.recovery.in_flight(),
            mss: self.mss(),
            peer_mss: self.size.peer_mss(),
            window: self.window.bytes(),
            cc_windows: self.recovery.cc().send_buffer_windows(),
            is_tight,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An end of an idle connection shall take at most 2048 bytes of memory. Beside this there are
    /// 128 of Cubic, 52 of queues (half of those of either end), 84 of the host's tables, and 8 of
    /// the allocator, which counts in 16 bytes. `cargo bench --bench many` has the sum.
    const CONNECTION_BYTES_MAX: usize = 1728;

    #[test]
    fn an_idle_connection_is_small() {
        let parts = [
            ("connection", size_of::<Connection>()),
            ("send", size_of::<Sender>()),
            ("recv", size_of::<Receiver>()),
            ("recovery", size_of::<LossRecovery>()),
            ("size", size_of::<SizeLimits>()),
        ];
        assert!(size_of::<Connection>() <= CONNECTION_BYTES_MAX, "{parts:?}");
    }
}
