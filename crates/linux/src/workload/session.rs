//! One end of a running workload: its flows, when to stop, and the reading of the meters every
//! interval.
//!
//! Flows run on threads of their own and hold a [`Ticket`] each. The thread that called
//! [`Session::watch`] cuts time into intervals, ends the warm-up and the measured time, and pulls
//! sockets from under flows that do not end within a grace period.

use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::Scope;
use std::time::Duration;

use base::Instant;
use lab::SenderOutcome;
use rustix::net::{Shutdown, shutdown};

use super::measure::{Ended, Interval, Meter, Phase, ResponseCounts, Responses, Sending, Summary};
use super::sent::Sent;
use crate::clock::Clock;
use crate::error::Error;

/// Time that flows have after the end to finish operations in progress; then they are reset, so
/// that nothing of this run disturbs the next one.
const GRACE: Duration = Duration::from_secs(1);

/// One end of one run of a workload. It can be stopped from any thread.
#[derive(Debug, Default)]
pub struct Session {
    stopping: AtomicBool,
    measuring: AtomicBool,
    over: AtomicBool,
    /// Payload bytes that may still pass, in both directions together.
    budget: Option<AtomicU64>,
    /// Payload bytes so far.
    sent: AtomicU64,
    received: AtomicU64,
    /// When payload was read last in the time that counts, and the longest time between two reads,
    /// in nanoseconds; 0 for never.
    last_received: AtomicU64,
    silence_max: AtomicU64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Running flows.
    open: usize,
    /// More flows may come.
    accepting: bool,
    /// Since the first flow that the watcher has not seen yet.
    busy_since: Option<Instant>,
    /// When the last flow ended.
    idle_since: Instant,
    stopped_at: Option<Instant>,
    aborted: bool,
    ended: Ended,
    failure: Option<Error>,
    meters: Vec<Arc<Meter>>,
    streams: Vec<Weak<TcpStream>>,
    /// Counters of closed connections.
    closed: Sent,
    /// Counters at the last look.
    looked_at: Sent,
    /// Counters at the end of warm-up, and at the end of the measured time.
    sent_before: Sent,
    sent_until: Option<Sent>,
    listener: Option<Arc<TcpListener>>,
}

/// How time is cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    /// Time that does not count.
    pub(crate) warmup: Duration,
    /// Time that counts; `None` up to the end of the last flow.
    pub(crate) time: Option<Duration>,
    /// Sampling interval.
    pub(crate) interval: Duration,
    /// Whether flows are stopped when the measured time is over.
    pub(crate) stop_at_end: bool,
}

/// A running flow; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Ticket<'s>(&'s Session);

/// Why [`Session::wait`] returned.
enum Wake {
    /// The last flow ended then.
    Idle(Instant),
    /// The deadline, or the session was told to stop.
    Look(Instant),
}

impl Session {
    /// A session without a limit of bytes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A session that is cut off when this much payload has passed, both directions together.
    #[must_use]
    pub fn with_byte_limit(bytes: u64) -> Self {
        Self {
            budget: Some(AtomicU64::new(bytes)),
            ..Self::default()
        }
    }

    /// Ends the run: flows finish the operation in progress, for at most a second.
    pub fn stop(&self) {
        self.end(Ended::Stopped, None);
    }

    /// Ends the run with an error, which the run then returns.
    pub fn fail(&self, failure: Error) {
        self.end(Ended::Stopped, Some(failure));
    }

    /// Error that ended the run, once.
    pub(crate) fn take_failure(&self) -> Option<Error> {
        self.lock().failure.take()
    }

    /// Whether the end was reached or told.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Whether the warm-up is over.
    pub(crate) fn is_measuring(&self) -> bool {
        self.measuring.load(Ordering::Relaxed)
    }

    /// Whether the measured time is over: a connection may break then without being a failure.
    pub(crate) fn is_over(&self) -> bool {
        self.is_stopping() || self.over.load(Ordering::Relaxed)
    }

    /// Payload that this end has handed to the kernel so far, in bytes.
    #[must_use]
    pub fn sent_bytes(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Payload of both directions so far, in bytes.
    #[must_use]
    pub fn passed_bytes(&self) -> u64 {
        self.sent_bytes()
            .wrapping_add(self.received.load(Ordering::Relaxed))
    }

    pub(crate) fn on_sent(&self, bytes: u64) {
        self.sent.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn on_received(&self, bytes: u64) {
        self.received.fetch_add(bytes, Ordering::Relaxed);
        if bytes > 0 && self.is_measuring() && !self.is_over() {
            let now = Clock.now().as_nanos();
            let last = self.last_received.swap(now, Ordering::Relaxed);
            if last > 0 {
                let silence = now.saturating_sub(last);
                self.silence_max.fetch_max(silence, Ordering::Relaxed);
            }
        }
    }

    /// Longest time between two reads of payload in the time that counts, in microseconds.
    pub(crate) fn silence_max_us(&self) -> Option<u64> {
        let nanos = self.silence_max.load(Ordering::Relaxed);
        (nanos > 0).then_some(nanos / 1_000)
    }

    /// Takes `bytes` from the limit; at its end the session is cut off and this is `false`.
    pub(crate) fn spend(&self, bytes: u64) -> bool {
        let Some(budget) = &self.budget else {
            return true;
        };
        let left = budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            left.checked_sub(bytes)
        });
        if left.is_err() {
            self.end(Ended::ByteLimit, None);
            self.abort();
        }
        left.is_ok()
    }

    /// Waits until then; `false` where the session ends first.
    pub(crate) fn sleep_until(&self, deadline: Instant) -> bool {
        let mut state = self.lock();
        while !self.is_stopping() {
            let left = deadline.since(Clock.now());
            if left.is_zero() {
                return true;
            }
            state = self.wait_for(state, left);
        }
        false
    }

    /// Must come before the first flow: without a warm-up, amounts count from the first byte on.
    pub(crate) fn prepare(&self, schedule: &Schedule) {
        self.measuring
            .store(schedule.warmup.is_zero(), Ordering::Relaxed);
    }

    /// Announces a flow.
    pub(crate) fn enter(&self) -> Ticket<'_> {
        let mut state = self.lock();
        state.open += 1;
        if state.open == 1 {
            state.busy_since = Some(Clock.now());
            self.changed.notify_all();
        }
        Ticket(self)
    }

    /// Whether more flows may come although none is running.
    pub(crate) fn set_accepting(&self, accepting: bool) {
        self.lock().accepting = accepting;
        self.changed.notify_all();
    }

    /// Makes the counters of a flow.
    pub(crate) fn meter(&self) -> Arc<Meter> {
        let meter = Arc::new(Meter::default());
        self.lock().meters.push(Arc::clone(&meter));
        meter
    }

    /// Remembers a socket that must be cut off with the session.
    pub(crate) fn watch_stream(&self, stream: &Arc<TcpStream>) {
        let mut state = self.lock();
        state.streams.retain(|stream| stream.strong_count() > 0);
        state.streams.push(Arc::downgrade(stream));
        if state.aborted {
            cut_off(stream);
        }
    }

    /// Counts what a connection sent that is about to be closed.
    pub(crate) fn on_closing(&self, stream: &Arc<TcpStream>) {
        let sent = Sent::of(stream);
        let mut state = self.lock();
        // From here on it is counted as closed, and only so.
        let is_other = |open: &Weak<TcpStream>| open.as_ptr() != Arc::as_ptr(stream);
        state.streams.retain(is_other);
        state.closed = state.closed.plus(sent);
    }

    /// Counters over the measured time, once all flows are gone.
    pub(crate) fn sent(&self) -> Option<SenderOutcome> {
        let state = self.lock();
        let until = state.sent_until.unwrap_or(state.closed);
        until.since(state.sent_before)
    }

    /// Remembers the listener that waits for flows of this session; stopping wakes its `accept`.
    pub(crate) fn watch_listener(&self, listener: &Arc<TcpListener>) {
        let mut state = self.lock();
        state.listener = Some(Arc::clone(listener));
        if self.is_stopping() {
            wake_accept(listener);
        }
    }

    /// Cuts time into intervals until all flows have ended and no more may come.
    ///
    /// # Errors
    /// What a flow or [`Session::fail`] left.
    pub(crate) fn watch(
        &self,
        schedule: &Schedule,
        on_interval: &mut dyn FnMut(&Interval),
    ) -> Result<Summary, Error> {
        let mut summary = Summary::default();
        let mut started = None;
        let mut last = Instant::ZERO;
        while let Some(busy_since) = self.wait_until_busy() {
            let started = *started.get_or_insert(busy_since);
            last = last.max(busy_since);
            loop {
                let wake = self.wait(
                    schedule.next_cut(started, last),
                    self.end_of(schedule, started),
                );
                let (Wake::Idle(now) | Wake::Look(now)) = wake;
                let phase = schedule.phase(started, self.end_of(schedule, started), last);
                if let Some(interval) = self.look(last, now, phase) {
                    summary.add(&interval);
                    on_interval(&interval);
                }
                last = last.max(now);
                if matches!(wake, Wake::Idle(_)) {
                    break;
                }
                self.on_time(schedule, started, now);
            }
        }
        summary.ended = self.lock().ended;
        self.take_failure().map_or(Ok(summary), Err)
    }

    fn end(&self, ended: Ended, failure: Option<Error>) {
        let mut state = self.lock();
        state.failure = state.failure.take().or(failure);
        if state.stopped_at.is_none() {
            state.stopped_at = Some(Clock.now());
            state.ended = ended;
        }
        self.stopping.store(true, Ordering::Relaxed);
        if let Some(listener) = state.listener.take() {
            wake_accept(&listener);
        }
        self.changed.notify_all();
    }

    fn abort(&self) {
        let mut state = self.lock();
        state.aborted = true;
        state
            .streams
            .iter()
            .filter_map(Weak::upgrade)
            .for_each(|stream| cut_off(&stream));
    }

    /// Handles a boundary of the schedule: the end of the warm-up, of the run, or of the grace
    /// period.
    fn on_time(&self, schedule: &Schedule, started: Instant, now: Instant) {
        if now >= started + schedule.warmup && !self.measuring.swap(true, Ordering::Relaxed) {
            let mut state = self.lock();
            state.sent_before = state.sent_so_far();
        }
        if schedule
            .time
            .is_some_and(|time| now >= started + schedule.warmup + time)
        {
            let mut state = self.lock();
            if state.sent_until.is_none() {
                state.sent_until = Some(state.sent_so_far());
            }
        }
        let Some(stopped_at) = self.lock().stopped_at else {
            let over = schedule
                .time
                .is_some_and(|time| now >= started + schedule.warmup + time);
            self.over.store(over, Ordering::Relaxed);
            if over && schedule.stop_at_end {
                self.end(Ended::Complete, None);
            }
            return;
        };
        if now >= stopped_at + GRACE {
            self.abort();
        }
    }

    /// The end of the measured time, as far as it is known.
    fn end_of(&self, schedule: &Schedule, started: Instant) -> Instant {
        let planned = schedule
            .time
            .map_or(Instant::MAX, |time| started + schedule.warmup + time);
        planned.min(self.lock().stopped_at.unwrap_or(Instant::MAX))
    }

    fn look(&self, from: Instant, to: Instant, phase: Phase) -> Option<Interval> {
        let mut interval = Interval {
            end_ns: to.as_nanos(),
            length_ns: u64::try_from(to.since(from).as_nanos()).unwrap_or(u64::MAX),
            phase,
            received_bytes: 0,
            sent_bytes: 0,
            operations: 0,
            responses_ns: ResponseCounts::default(),
            sending: None,
        };
        let mut times = Responses::default();
        let mut state = self.lock();
        for meter in &state.meters {
            meter.take_into(&mut interval, &mut times);
        }
        // A meter that only this list holds belonged to a flow that has ended.
        state.meters.retain(|meter| Arc::strong_count(meter) > 1);
        interval.sending = state.sending(interval.length_ns);
        drop(state);
        interval.responses_ns = ResponseCounts::from(&times);
        let counted = interval.received_bytes + interval.sent_bytes + interval.operations;
        (interval.length_ns > 0 || counted > 0).then_some(interval)
    }

    fn wait_until_busy(&self) -> Option<Instant> {
        let mut state = self.lock();
        loop {
            if let Some(since) = state.busy_since.take() {
                return Some(since);
            }
            if !state.accepting {
                return None;
            }
            state = self.wait_for(state, Duration::from_secs(1));
        }
    }

    /// Waits for `deadline`, for the last flow's end, or for an end that came before `known_end`.
    fn wait(&self, deadline: Instant, known_end: Instant) -> Wake {
        let mut state = self.lock();
        loop {
            let now = Clock.now();
            if state.open == 0 {
                state.busy_since = None;
                return Wake::Idle(state.idle_since);
            }
            let stopped_now = state.stopped_at.is_some_and(|at| at < known_end);
            let left = deadline.since(now);
            if stopped_now || left.is_zero() {
                return Wake::Look(now);
            }
            state = self.wait_for(state, left);
        }
    }

    fn wait_for<'g>(&self, state: MutexGuard<'g, State>, time: Duration) -> MutexGuard<'g, State> {
        self.changed
            .wait_timeout(state, time)
            .unwrap_or_else(PoisonError::into_inner)
            .0
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// How sending went since the last look.
    fn sending(&mut self, length_ns: u64) -> Option<Sending> {
        let open: Vec<Arc<TcpStream>> = self.streams.iter().filter_map(Weak::upgrade).collect();
        let mut sent = self.closed;
        let mut cwnd_bytes = 0;
        for stream in &open {
            let (one, cwnd) = Sent::with_cwnd(stream);
            sent = sent.plus(one);
            cwnd_bytes += cwnd.unwrap_or(0);
        }
        let last = std::mem::replace(&mut self.looked_at, sent);
        let connections = open.len() as u64;
        let rtt_us = sent.rtt_us_beside(self.closed);
        sent.sending_since(last, connections, length_ns)
            .map(|sending| Sending {
                cwnd_bytes: (cwnd_bytes > 0).then_some(cwnd_bytes),
                rtt_us,
                ..sending
            })
    }

    fn sent_so_far(&self) -> Sent {
        let open = self.streams.iter().filter_map(Weak::upgrade);
        open.map(|stream| Sent::of(&stream))
            .fold(self.closed, Sent::plus)
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.open -= 1;
        if state.open == 0 {
            state.idle_since = Clock.now();
            self.0.changed.notify_all();
        }
    }
}

impl Schedule {
    /// The next cut after `last`: a whole interval, or the end of a phase.
    fn next_cut(&self, started: Instant, last: Instant) -> Instant {
        let warm = started + self.warmup;
        let ends = [
            Some(warm),
            self.time.map(|time| warm + time),
            Some(last + self.interval),
        ];
        ends.into_iter()
            .flatten()
            .filter(|cut| *cut > last)
            .min()
            .unwrap_or(Instant::MAX)
    }

    fn phase(&self, started: Instant, end: Instant, from: Instant) -> Phase {
        if from >= end {
            Phase::After
        } else if from < started + self.warmup {
            Phase::Warmup
        } else {
            Phase::Measured
        }
    }
}

/// Starts a thread of a run. Where the host refuses, `work` is dropped with its sockets, and the
/// session must be told to end.
pub(super) fn start<'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() + Send + 'scope,
) -> Result<(), Error> {
    std::thread::Builder::new()
        .spawn_scoped(scope, work)
        .map(drop)
        .map_err(Error::os("start a thread"))
}

/// Reads and writes on the socket return at once, and its close resets the connection.
fn cut_off(stream: &TcpStream) {
    // Both fail only on a socket that is closed already, which is what is wanted.
    let _ = socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO));
    let _ = shutdown(stream.as_fd(), Shutdown::Both);
}

/// Linux 6.18 net/ipv4/af_inet.c, inet_shutdown: a listening socket is disconnected, and its
/// `accept` returns EINVAL.
fn wake_accept(listener: &TcpListener) {
    let _ = shutdown(listener.as_fd(), Shutdown::Read);
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(s: u64) -> Instant {
        Instant::from_nanos(s * 1_000_000_000)
    }

    #[test]
    fn time_is_cut_at_the_ends_of_phases() {
        let schedule = Schedule {
            warmup: Duration::from_secs(3),
            time: Some(Duration::from_secs(5)),
            interval: Duration::from_secs(2),
            stop_at_end: true,
        };
        let started = seconds(10);
        let check = |last, cut, phase| {
            assert_eq!(
                schedule.next_cut(started, seconds(last)),
                seconds(cut),
                "after {last}"
            );
            assert_eq!(
                schedule.phase(started, seconds(18), seconds(last)),
                phase,
                "from {last}"
            );
        };
        check(10, 12, Phase::Warmup);
        check(12, 13, Phase::Warmup);
        check(13, 15, Phase::Measured);
        check(17, 18, Phase::Measured);
        check(18, 20, Phase::After);
    }

    #[test]
    fn a_limit_of_bytes_ends_the_session() {
        let session = Session::with_byte_limit(100);
        assert!(session.spend(60));
        assert!(session.spend(40));
        assert!(!session.is_stopping());
        assert!(!session.spend(1));
        assert!(session.is_stopping());
    }

    #[test]
    fn a_failure_outlives_the_flows() {
        let session = Session::new();
        drop(session.enter());
        session.fail(Error::Peer("gone".into()));
        let schedule = Schedule {
            warmup: Duration::ZERO,
            time: None,
            interval: Duration::from_secs(1),
            stop_at_end: true,
        };
        let result = session.watch(&schedule, &mut |_| ());
        assert_eq!(result.expect_err("a failure").to_string(), "gone");
    }
}
