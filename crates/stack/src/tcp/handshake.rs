//! The handshake: active, passive, and both at once (RFC 9293 section 3.5).

use alloc::boxed::Box;
use core::time::Duration;

use base::settings::{Ecn, LinuxVersion, SocketSettings};
use base::tcp::TcpFlags;
use base::{Instant, SeqNum};

use super::timers::time_of_timeouts;
use super::{Connection, Opening, PeerWindow, RecvSequence, State, SynReceived, SynSent, Timer};
use crate::host::{Event, Failure, RateLimit, Shared};
use crate::packet::{EcnMark, Segment, SegmentOptions, option_bytes};
use crate::recv::Agreed;
use crate::trace::TraceEvent;

/// Two jiffies of Linux at HZ 1000, for timers without ticks.
const SYN_AGAIN_MIN: Duration = Duration::from_millis(2);

/// MSS of a peer over IPv6 that announces none: the smallest MTU less the headers (RFC 9293 section
/// 3.7.1).
const MSS_DEFAULT_V6: u16 = 1220;

/// Linux `TCP_RTO_MAX`.
const RTO_MAX_OF_SYN_ACK: Duration = Duration::from_secs(120);

/// Most timeouts of a SYN-ACK for which data may be awaited (Linux keeps them in a byte).
const DEFERRED_MAX: u32 = 255;

/// Largest shift of a window (RFC 7323 section 2.3).
const WINDOW_SCALE_MAX: u8 = 14;

impl Connection {
    /// Opens a connection: sends the SYN.
    pub(crate) fn connect(now: Instant, shared: &mut Shared, opening: &Opening<'_>) -> Box<Self> {
        let state = State::SynSent(SynSent {
            since: now,
            retransmits: 0,
        });
        let mut connection = Box::new(Self::new(now, shared, opening, state));
        shared.counters.active_opens += 1;
        connection.send_syn(now, shared);
        connection.arm_handshake(now, shared, 0);
        connection
    }

    /// Answers a SYN that came to a listener.
    pub(crate) fn accept_syn(
        now: Instant,
        shared: &mut Shared,
        opening: &Opening<'_>,
        syn: &Segment,
    ) -> Box<Self> {
        let mut connection = Self::of_listener(now, shared, opening, syn, 0);
        connection.send_syn_ack(now, shared);
        connection.arm_handshake(now, shared, 0);
        connection
    }

    /// Rebuilds a connection from the ACK of a SYN cookie (RFC 4987 section 3.6). `syn` is the SYN
    /// as far as the cookie remembers it.
    pub(crate) fn accept_cookie(
        now: Instant,
        shared: &mut Shared,
        opening: &Opening<'_>,
        syn: &Segment,
    ) -> Box<Self> {
        // The time of the SYN-ACK is not known: no round-trip sample.
        let mut connection = Self::of_listener(now, shared, opening, syn, 1);
        let before = connection.timestamp(now).wrapping_sub(1);
        if let State::SynReceived(state) = &mut connection.state {
            state.answered = before;
        }
        // Linux counts it in segments of the peer's size here (`cookie_v4_check`).
        let segment = match connection.linux() {
            Some(_) => connection.size.peer_mss(),
            None => connection.agreed.advmss,
        };
        connection.recv.first_window(segment);
        connection.arm_handshake(now, shared, 0);
        connection
    }

    /// A connection of a listener that has processed the peer's SYN. `retransmits`: how often our
    /// SYN-ACK counts as retransmitted.
    fn of_listener(
        now: Instant,
        shared: &mut Shared,
        opening: &Opening<'_>,
        syn: &Segment,
        retransmits: u32,
    ) -> Box<Self> {
        let state = State::SynReceived(SynReceived {
            since: now,
            retransmits,
            timeouts: retransmits,
            closing: false,
            is_acked: false,
            answered: 0,
        });
        let mut connection = Box::new(Self::new(now, shared, opening, state));
        if opening.settings.options.accept_window_zero {
            connection.recv.hold_window();
        }
        connection.take_syn(now, shared, syn);
        connection
    }

    /// Processes the peer's SYN (RFC 9293 section 3.10.7.3).
    fn take_syn(&mut self, now: Instant, shared: &Shared, syn: &Segment) {
        let SocketSettings { options, .. } = &*self.settings;
        let SegmentOptions {
            mss,
            window_scale,
            sack_permitted,
            timestamps,
            sack: _,
        } = syn.options;
        let agreed_timestamps = options.timestamps && timestamps.is_some();
        self.irs = RecvSequence::new(syn.seq);
        // An MSS of 0 is ignored (Linux `tcp_parse_options`).
        let (default, ip_header) = match self.remote.is_ipv4() {
            true => (options.default_mss, 20),
            false => (options.default_mss.max(MSS_DEFAULT_V6), 40),
        };
        let peer_mss = mss.filter(|mss| *mss > 0).unwrap_or(default);
        // A bound of our own is taken for the peer's from here on (Linux `tcp_parse_options`).
        let own = options.mss.filter(|_| self.linux().is_some());
        self.size
            .limit_by_peer(own.map_or(peer_mss, |own| peer_mss.min(own)));
        // Who has connected has announced it with its SYN.
        let announced = match self.socket.is_passive() {
            true => self.announced_mss_of_path(shared),
            false => self.agreed.advmss,
        };
        self.agreed = Agreed {
            sack: options.sack && sack_permitted,
            timestamps: agreed_timestamps,
            window_scaling: options.window_scaling && window_scale.is_some(),
            advmss: 0,
            send_mss: 0,
            headers: ip_header + 20 + option_bytes(agreed_timestamps) as u8,
        };
        if self.linux().is_some() {
            // Who has connected counts what its SYN offered (`tcp_connect_init`).
            let is_answer = syn.flags.contains(TcpFlags::ACK);
            let expected = self.agreed.timestamps || is_answer && options.timestamps;
            self.size.add_options(self.agreed.timestamps, expected);
        }
        self.agreed.advmss = announced - option_bytes(self.agreed.timestamps);
        self.agreed.send_mss = self.mss();
        let scale = match (self.agreed.window_scaling, window_scale) {
            (true, Some(scale)) => scale.min(WINDOW_SCALE_MAX),
            _ => 0,
        };
        if let Some(timestamps) = timestamps.filter(|_| agreed_timestamps) {
            self.clocks.take(now, timestamps.value);
        }
        // RFC 3168 section 6.1.1: a SYN requests ECN with both flags, a SYN-ACK accepts with one.
        let (ece, cwr) = (
            syn.flags.contains(TcpFlags::ECE),
            syn.flags.contains(TcpFlags::CWR),
        );
        let is_answer = syn.flags.contains(TcpFlags::ACK);
        let ecn = self.settings.options.ecn;
        self.ecn.agree(match is_answer {
            true => ece && !cwr && ecn == Ecn::Request,
            false => ece && cwr && ecn != Ecn::Off,
        });
        self.window = PeerWindow::of_syn(syn.window, scale);
    }

    fn send_syn(&mut self, now: Instant, shared: &mut Shared) {
        let mut flags = TcpFlags::SYN;
        let is_first = matches!(self.state, State::SynSent(state) if state.retransmits == 0);
        if self.settings.options.ecn == Ecn::Request && is_first {
            flags |= TcpFlags::ECE | TcpFlags::CWR;
        }
        let mss = self.announced_mss(shared);
        let announced = self.announced_mss_of_path(shared);
        self.agreed.advmss = announced;
        let options = &self.settings.options;
        let offer = Agreed {
            sack: options.sack,
            timestamps: options.timestamps,
            window_scaling: options.window_scaling,
            advmss: mss,
            send_mss: mss,
            headers: 0,
        };
        let segment = self.syn_segment(now, flags, announced, &offer);
        self.emit(now, shared, segment, EcnMark::NotEct, Instant::ZERO);
    }

    /// Answers the peer's SYN, for the first time or again.
    pub(super) fn send_syn_ack(&mut self, now: Instant, shared: &mut Shared) {
        let mut flags = TcpFlags::SYN | TcpFlags::ACK;
        if self.ecn.is_agreed() {
            flags |= TcpFlags::ECE;
        }
        let mut offer = self.agreed;
        if !self.socket.is_passive() && self.linux().is_some() {
            // It repeats our SYN with all its options (Linux `tcp_send_synack`).
            let options = &self.settings.options;
            offer.sack = options.sack;
            offer.timestamps = options.timestamps;
        }
        let clock = self.timestamp(now);
        if let State::SynReceived(state) = &mut self.state {
            state.answered = clock;
        }
        let announced = self.announced_mss_of_path(shared);
        let segment = self.syn_segment(now, flags, announced, &offer);
        self.emit(now, shared, segment, EcnMark::NotEct, Instant::ZERO);
    }

    /// The peer retransmitted its SYN: answers with our SYN-ACK (Linux `tcp_rtx_synack`), and
    /// restarts its timeout (`tcp_check_req`).
    pub(super) fn answer_duplicate_syn(&mut self, now: Instant, shared: &mut Shared) {
        let mut timeouts = 0;
        if let State::SynReceived(state) = &mut self.state {
            timeouts = state.timeouts;
            self.traffic.on_duplicate_syn();
        }
        self.send_syn_ack(now, shared);
        if self.is_half_open() && self.linux().is_some() {
            self.arm_handshake(now, shared, timeouts);
        }
    }

    /// A SYN or SYN-ACK that announces `announced`, which passes, and names the options of `offer`.
    fn syn_segment(
        &mut self,
        now: Instant,
        flags: TcpFlags,
        announced: u32,
        offer: &Agreed,
    ) -> Segment {
        let Agreed {
            sack,
            timestamps,
            window_scaling,
            advmss,
            send_mss: _,
            headers: _,
        } = *offer;
        let is_answer = flags.contains(TcpFlags::ACK);
        let is_crossed = is_answer && !self.socket.is_passive() && self.linux().is_some();
        // It was offered before, with our SYN or what was sent since.
        let is_offered = is_crossed || matches!(self.state, State::FinWait1(_));
        let window = match is_offered {
            true => self.recv.current_window(),
            false => self.recv.first_window(advmss),
        };
        Segment {
            source_port: self.local.port(),
            destination_port: self.remote.port(),
            seq: self.iss.number(0),
            ack: if is_answer {
                self.irs.number(1)
            } else {
                SeqNum::default()
            },
            flags,
            window: window.min(u32::from(u16::MAX)) as u16,
            options: SegmentOptions {
                mss: Some(announced.min(u32::from(u16::MAX)) as u16),
                window_scale: window_scaling.then(|| self.recv.window_scale()),
                sack_permitted: sack,
                timestamps: timestamps.then(|| self.clocks.option(now)),
                sack: None,
            },
            ..Segment::default()
        }
    }

    /// RFC 9293 section 3.10.7.3.
    pub(super) fn handle_in_syn_sent(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        state: SynSent,
        segment: &Segment,
    ) {
        let flags = segment.flags;
        let has_ack = flags.contains(TcpFlags::ACK);
        let acks_syn = has_ack && self.iss.offset(segment.ack, 1) == 1;
        if acks_syn && self.echoes_another(now, state.since, segment) {
            shared.reset_in_reply(now, self.local(), self.remote(), segment);
            return;
        }
        if has_ack && !acks_syn {
            // `reset_in_reply` does not answer resets.
            shared.reset_in_reply(now, self.local(), self.remote(), segment);
            if state.retransmits == 0 {
                // Linux tcp_rcv_synsent_state_process: the peer's old connection is gone now, so
                // the SYN is retransmitted once.
                let soon = (shared.tick.tick() * 2).max(SYN_AGAIN_MIN);
                let due = shared.tick.expiry(now, soon);
                self.timers.set(Timer::Handshake, Some(due));
            }
            return;
        }
        if flags.contains(TcpFlags::RST) {
            if acks_syn {
                self.fail(now, shared, Failure::Refused);
            }
            return;
        }
        if !flags.contains(TcpFlags::SYN) {
            return;
        }
        self.take_syn(now, shared, segment);
        if !has_ack {
            self.cross(now, shared, state);
            return;
        }
        let rtt = self.handshake_rtt(now, state.since, state.retransmits, segment);
        let lost = self.lost_of(state.since, state.retransmits, segment);
        self.establish(now, shared, rtt, lost);
        self.traffic.on_ack_received(now);
        self.socket.report(shared, Event::Connected);
        if self.settings.life.defer_accept.is_some() {
            self.recv.delay_first_ack(now);
        } else {
            // Rule 8.8: nothing waits to be sent yet, so the handshake's last ACK is not delayed.
            self.recv.force_ack();
        }
        self.output(now, shared);
    }

    /// Two SYNs crossed: ours is retransmitted with an ACK.
    #[cold]
    fn cross(&mut self, now: Instant, shared: &mut Shared, state: SynSent) {
        // Our SYN is retransmitted with an ACK: the window stays, the time is new.
        let linear = match self.linux() {
            // Its timeout was not doubled by them, nor is it now (`tcp_retransmit_timer`).
            Some(_) => self.settings.life.syn_linear_timeouts,
            None => 0,
        };
        self.state = State::SynReceived(SynReceived {
            since: now,
            retransmits: state.retransmits,
            timeouts: state.retransmits.saturating_sub(linear),
            closing: false,
            is_acked: false,
            answered: 0,
        });
        if self.linux().is_some() {
            // Our SYN has offered it; that stands (Linux `tcp_rcv_synsent_state_process`).
            self.agreed.window_scaling = self.settings.options.window_scaling;
            // The time in which it must be answered goes on from the first SYN.
            self.stall.begin(state.since);
        }
        self.send_syn_ack(now, shared);
        if self.linux().is_none() {
            // Linux keeps the timer of the SYN running.
            self.arm_handshake(now, shared, state.retransmits);
        }
    }

    /// Whether a bare ACK of our SYN-ACK is dropped because the listener waits for data (Linux
    /// `tcp_check_req`).
    pub(super) fn defers_accept(&mut self, segment: &Segment) -> bool {
        let timeouts_max = self.timeouts_deferred();
        match &mut self.state {
            State::SynReceived(state)
                if state.timeouts < timeouts_max && segment.sequence_bytes() == 0 =>
            {
                state.is_acked = true;
                true
            }
            _ => false,
        }
    }

    /// Timeouts of a SYN-ACK that fit into the time for which the listener waits for data (Linux
    /// `secs_to_retrans`).
    fn timeouts_deferred(&self) -> u32 {
        let Some(wait) = self.settings.life.defer_accept else {
            return 0;
        };
        if !self.socket.is_passive() {
            return 0;
        }
        let recovery = &self.settings.recovery;
        let (mut timeouts, mut timeout) = (1, recovery.rto_initial);
        let mut lasts = timeout;
        while wait > lasts && timeouts < DEFERRED_MAX {
            timeouts += 1;
            timeout = (timeout * 2).min(recovery.rto_max);
            lasts += timeout;
        }
        timeouts
    }

    /// The ACK of our SYN-ACK arrived.
    #[inline(never)]
    pub(super) fn finish_passive(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        state: SynReceived,
        segment: &Segment,
    ) {
        let duplicates = u32::try_from(self.traffic.duplicate_syns()).unwrap_or(u32::MAX);
        let retransmits = state.retransmits.saturating_add(duplicates);
        let rtt = self.handshake_rtt(now, state.since, retransmits, segment);
        // Only retransmissions after a timeout count as losses. Where SYNs crossed, Linux undoes
        // what they did (`tcp_packet_delayed` once `tcp_clean_rtx_queue` has seen the SYN).
        let is_undone = !self.socket.is_passive() && self.linux().is_some();
        let lost = match state.retransmits {
            0 => 0,
            _ if is_undone => 0,
            _ => self.lost_of(state.since, retransmits, segment),
        };
        if self.linux().is_some() {
            // By the window of this ACK (`tcp_initialize_rcv_mss`); where SYNs crossed, that of the
            // peer's counts, too.
            let window = self.window.of_segment(segment);
            let window = match self.socket.is_passive() {
                true => window,
                false => window.max(self.window.max()),
            };
            self.agreed.send_mss = self.mss_for_window(window);
        }
        self.establish(now, shared, rtt, lost);
        if self.socket.is_passive() {
            // The first window that counts is that of this ACK.
            if self.linux().is_some() {
                self.window.forget_max();
                self.size.defer_search();
                self.resize();
            }
            self.traffic.forget_answers(segment);
            if self.linux().is_some() {
                // The rate limit of the half-open connection ends with it (`tcp_oow_rate_limited`).
                self.challenges = RateLimit::default();
            }
            shared.counters.passive_opens += 1;
        } else {
            if self.linux().is_some() {
                self.recovery.on_crossed_syn();
                if state.retransmits > 0 {
                    self.recovery.on_lost_syn();
                }
                if segment.flags.contains(TcpFlags::SYN) {
                    self.window.scale_crossed(segment.window);
                }
            }
            self.socket.report(shared, Event::Connected);
        }
    }

    /// Karn's algorithm (RFC 6298 section 3): a retransmitted segment gives no sample, unless
    /// timestamps identify which one was answered.
    fn handshake_rtt(
        &self,
        now: Instant,
        since: Instant,
        retransmits: u32,
        segment: &Segment,
    ) -> Option<Duration> {
        if retransmits == 0 {
            return Some(now.since(since));
        }
        let echo = segment.options.timestamps?.echo;
        self.echoed_rtt(now, echo)
    }

    /// How many of our SYNs or SYN-ACKs were lost, of `retransmits` that were retransmitted: none
    /// where the first one is answered (Linux `tcp_try_undo_spurious_syn`).
    fn lost_of(&self, since: Instant, retransmits: u32, segment: &Segment) -> u32 {
        let echo = segment.options.timestamps.map(|timestamps| timestamps.echo);
        let is_first = self.agreed.timestamps && echo == Some(self.timestamp(since));
        if is_first { 0 } else { retransmits }
    }

    /// Whether a segment echoes a timestamp outside of those of our SYN-ACKs (Linux
    /// `tcp_check_req`, since 6.15).
    pub(super) fn echoes_no_syn_ack(&self, segment: &Segment) -> bool {
        let State::SynReceived(state) = self.state else {
            return false;
        };
        let echo = segment.options.timestamps.map_or(0, |it| it.echo);
        let is_checked = self
            .linux()
            .is_some_and(|version| version > LinuxVersion::V6_12)
            && self.agreed.timestamps;
        let first = self.timestamp(state.since);
        let lasted = state.answered.wrapping_sub(first);
        is_checked && echo != 0 && echo.wrapping_sub(first) > lasted
    }

    /// Whether a segment echoes a timestamp that none of our SYNs had: it belongs to another
    /// connection (Linux `tcp_rcv_synsent_state_process`).
    fn echoes_another(&self, now: Instant, since: Instant, segment: &Segment) -> bool {
        let first = self.timestamp(since);
        let echoed = segment.options.timestamps.map(|timestamps| timestamps.echo);
        self.settings.options.timestamps
            && self.linux().is_some()
            && echoed.is_some_and(|echo| {
                echo != 0 && echo.wrapping_sub(first) > self.timestamp(now).wrapping_sub(first)
            })
    }

    /// Both ends may send from here on. `rtt`: of the SYN, where it was acknowledged.
    pub(super) fn establish(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        rtt: Option<Duration>,
        syns_lost: u32,
    ) {
        self.timers.stop(Timer::Handshake);
        self.timers.stop(Timer::User);
        self.stall.end();
        let has_crossed = matches!(self.state, State::SynReceived(_));
        let retransmits = match self.state {
            State::SynSent(state) => state.retransmits,
            State::SynReceived(state) => state.retransmits,
            _ => 0,
        };
        self.state = self.state.on_syn_acked();
        if !matches!(self.state, State::Established(_)) {
            // The application shut its side down meanwhile.
            self.send.close();
        }
        self.recovery
            .set_options(self.agreed.sack, self.agreed.timestamps);
        self.resize();
        self.recovery.on_established(now, rtt, syns_lost);
        if !self.socket.is_passive() && self.linux().is_some() {
            // A small window bounds it already (`tcp_initialize_rcv_mss`).
            if !has_crossed {
                self.agreed.send_mss = self.fitted_mss();
            }
            if syns_lost > 0 {
                self.recovery.on_lost_syn();
            }
            if let Some(rtt) = rtt.filter(|_| retransmits == 0) {
                self.recovery.on_syn_delivered(now, rtt);
            }
        }
        self.recv.on_established(now, &self.agreed);
        if has_crossed && !self.socket.is_passive() && self.linux().is_some() {
            self.recv.forget_pace();
        }
        if !self.socket.is_passive() && self.window.scale() > 0 {
            // Linux tcp_finish_connect.
            self.recv.stop_predicting();
        }
        let env = self.send_memory_env(false);
        self.send.on_established(&env);
        self.last_ack_sent = self.recv.next();
        self.pacer.start(now);
        self.held.begin(now);
        self.arm_keepalive(now, shared);
        let state = self.state.name();
        shared.tell(now, Some(self.socket.id()), || TraceEvent::State(state));
    }

    fn arm_handshake(&mut self, now: Instant, shared: &Shared, retransmits: u32) {
        let life = &self.settings.life;
        // Rule 11.2: the first SYNs are retransmitted in constant intervals, then these double.
        let linear = match self.state {
            State::SynSent(_) => life.syn_linear_timeouts,
            _ => 0,
        };
        let doublings = retransmits.saturating_sub(linear).min(16);
        let interval = self
            .settings
            .recovery
            .rto_initial
            .saturating_mul(1 << doublings);
        // Until 6.18 Linux bounds the timeout of a listener's SYN-ACK by a constant.
        let is_of_listener = self.socket.is_passive() && self.linux().is_some();
        let longest = match is_of_listener {
            true => RTO_MAX_OF_SYN_ACK,
            false => self.settings.recovery.rto_max,
        };
        let interval = interval.min(longest);
        self.timers
            .set(Timer::Handshake, Some(shared.tick.expiry(now, interval)));
        if let State::SynSent(state) = self.state
            && retransmits > 0
        {
            // The user timeout counts from the first SYN on, but fires only after the first timeout
            // (Linux `retransmits_timed_out`).
            self.stall.begin(state.since);
        } else if !self.has_crossed() || self.linux().is_none() {
            return;
        }
        if retransmits > 0 {
            self.awaits_timeout = false;
            self.timers.stop(Timer::User);
            self.arm_user(now, shared);
        }
    }

    /// Whether two SYNs crossed, and ours is not acknowledged.
    fn has_crossed(&self) -> bool {
        matches!(self.state, State::SynReceived(_)) && !self.socket.is_passive()
    }

    /// Whether a SYN that crossed the peer's may be retransmitted once more: as often as a SYN in
    /// Linux, without the retransmissions in constant intervals (`tcp_write_timeout`).
    fn may_repeat_crossed(&mut self, now: Instant, retransmits: u32) -> bool {
        let longest = self.longest_attempt();
        retransmits < self.settings.life.syn_retries
            && (retransmits == 0 || self.stall.lasts(now) < longest)
    }

    /// How long SYNs go unanswered at most: in Linux also as long as the retransmissions of
    /// `TCP_SYNCNT` take that double from the first one on (`retransmits_timed_out`).
    fn longest_attempt(&self) -> Duration {
        let life = &self.settings.life;
        let of_retransmissions = || {
            let recovery = &self.settings.recovery;
            time_of_timeouts(life.syn_retries, recovery.rto_initial, recovery.rto_max)
        };
        match (life.user_timeout, self.linux()) {
            (Some(longest), _) => longest,
            (None, Some(_)) => of_retransmissions(),
            (None, None) => Duration::MAX,
        }
    }

    /// SYN or SYN-ACK was not answered.
    pub(super) fn on_handshake_timeout(&mut self, now: Instant, shared: &mut Shared) {
        let deferred = self.timeouts_deferred();
        let longest = self.longest_attempt();
        let may_repeat_crossed = match self.state {
            State::SynReceived(state) if self.has_crossed() && self.linux().is_some() => {
                Some(self.may_repeat_crossed(now, state.retransmits))
            }
            _ => None,
        };
        let life = &self.settings.life;
        let timeouts = match &mut self.state {
            State::SynSent(state)
                if state.retransmits < life.syn_retries + life.syn_linear_timeouts
                    && now.since(state.since) < longest =>
            {
                state.retransmits += 1;
                state.retransmits
            }
            State::SynReceived(state)
                if may_repeat_crossed.unwrap_or(state.timeouts < life.synack_retries)
                    || state.is_acked && state.timeouts < deferred =>
            {
                state.timeouts += 1;
                if state.is_acked && state.timeouts < deferred {
                    // The peer has answered: nothing is retransmitted until the last timeout (Linux
                    // `syn_ack_recalc`).
                    let timeouts = state.timeouts;
                    self.traffic.on_deferred_timeout();
                    self.arm_handshake(now, shared, timeouts);
                    return;
                }
                state.retransmits += 1;
                state.timeouts
            }
            State::SynSent(_) | State::SynReceived(_) => {
                self.give_up(now, shared);
                return;
            }
            _ => {
                self.on_late_syn_timeout(now, shared);
                return;
            }
        };
        self.traffic.on_handshake_retransmit();
        if matches!(self.state, State::SynSent(_)) {
            if self.linux().is_some() && self.settings.options.ecn == Ecn::Request {
                // The window is smaller now, which is told when ECN is agreed (`tcp_enter_loss`).
                self.recovery.owe_cwr();
            }
            self.send_syn(now, shared);
        } else {
            self.send_syn_ack(now, shared);
        }
        self.arm_handshake(now, shared, timeouts);
    }
}
