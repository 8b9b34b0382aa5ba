//! All timers of a connection on one screen.

use base::Instant;

/// Purpose of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    /// Retransmit SYN or SYN-ACK.
    Handshake,
    /// Retransmission timeout, tail-loss probe or reordering window, whichever is next.
    Recovery,
    /// Zero-window probe, or the end of a cork.
    Probe,
    /// The delayed acknowledgment.
    Ack,
    /// The next packet may leave.
    Pacing,
    /// A keepalive probe.
    Keepalive,
    /// The application's time without progress is over (RFC 5482).
    User,
    /// The wait for the peer's FIN is over.
    FinWait,
    /// The path MTU is searched again.
    Mtu,
}

impl Timer {
    /// All, in the order in which those that are due at once are served.
    pub(crate) const ALL: [Self; 9] = [
        Self::Handshake,
        Self::Recovery,
        Self::Probe,
        Self::Ack,
        Self::Pacing,
        Self::Keepalive,
        Self::User,
        Self::FinWait,
        Self::Mtu,
    ];

    /// The name in traces.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Handshake => "handshake",
            Self::Recovery => "recovery",
            Self::Probe => "probe",
            Self::Ack => "ack",
            Self::Pacing => "pacing",
            Self::Keepalive => "keepalive",
            Self::User => "user",
            Self::FinWait => "fin-wait",
            Self::Mtu => "mtu",
        }
    }
}

/// Number of timers that wait for the peer's next answer, the first of [`Timer::ALL`]. Only one of
/// them is ever set: the handshake has no data in flight, and while a window is probed, nothing is
/// in flight that recovery would wait for.
const WATCHES: usize = 3;

/// When each timer is due; one that is not set never is.
#[derive(Clone, Debug)]
pub(crate) struct TimerTable {
    /// Which of the timers that wait for an answer the first slot is for.
    watch: Timer,
    due: [Instant; Timer::ALL.len() - WATCHES + 1],
}

impl TimerTable {
    pub(crate) const fn new() -> Self {
        Self {
            watch: Timer::Handshake,
            due: [Instant::MAX; Timer::ALL.len() - WATCHES + 1],
        }
    }

    /// Slot of a timer's time, and whether it is set.
    #[inline]
    const fn place(&self, timer: Timer) -> (usize, bool) {
        let place = (timer as usize + 1).saturating_sub(WATCHES);
        (place, place > 0 || self.watch as usize == timer as usize)
    }

    #[inline]
    pub(crate) fn set(&mut self, timer: Timer, due: Option<Instant>) {
        let Some(due) = due else {
            self.stop(timer);
            return;
        };
        let (place, is_its) = self.place(timer);
        if !is_its {
            // The recovery timer guards what is sent after a probe.
            debug_assert!(
                self.due[place] == Instant::MAX
                    || (self.watch, timer) == (Timer::Probe, Timer::Recovery),
                "{timer:?} in place of {:?}",
                self.watch
            );
            self.watch = timer;
        }
        self.due[place] = due;
    }

    #[inline]
    pub(crate) fn stop(&mut self, timer: Timer) {
        if let (place, true) = self.place(timer) {
            self.due[place] = Instant::MAX;
        }
    }

    pub(crate) fn stop_all(&mut self) {
        *self = Self::new();
    }

    pub(crate) fn due(&self, timer: Timer) -> Option<Instant> {
        let (place, is_its) = self.place(timer);
        let due = self.due[place];
        (is_its && due != Instant::MAX).then_some(due)
    }

    /// The next deadline.
    #[inline]
    pub(crate) fn next(&self) -> Option<Instant> {
        let earlier = |next: Instant, due: &Instant| next.min(*due);
        let next = self.due.iter().fold(Instant::MAX, earlier);
        (next != Instant::MAX).then_some(next)
    }

    /// Takes one timer that is due by `now`.
    pub(crate) fn take_expired(&mut self, now: Instant) -> Option<Timer> {
        let timer = Timer::ALL
            .into_iter()
            .find(|timer| self.due(*timer).is_some_and(|due| due <= now))?;
        self.stop(timer);
        Some(timer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_counts_and_each_expires_once() {
        let at = Instant::from_nanos;
        let mut table = TimerTable::new();
        assert_eq!(table.next(), None);
        table.set(Timer::Ack, Some(at(20)));
        table.set(Timer::Recovery, Some(at(10)));
        table.set(Timer::Keepalive, Some(at(30)));
        assert_eq!(table.next(), Some(at(10)));
        assert_eq!(table.take_expired(at(25)), Some(Timer::Recovery));
        assert_eq!(table.take_expired(at(25)), Some(Timer::Ack));
        assert_eq!(table.take_expired(at(25)), None);
        table.stop_all();
        assert_eq!(table.next(), None);
    }

    #[test]
    fn only_one_timer_watches_over_an_answer() {
        let at = Instant::from_nanos;
        let mut table = TimerTable::new();
        table.set(Timer::Handshake, Some(at(10)));
        // What is not set is not stopped either.
        table.stop(Timer::Recovery);
        table.set(Timer::Probe, None);
        assert_eq!(table.due(Timer::Handshake), Some(at(10)));
        table.stop(Timer::Handshake);
        table.set(Timer::Probe, Some(at(20)));
        table.set(Timer::Recovery, Some(at(30)));
        assert_eq!(table.due(Timer::Probe), None);
        assert_eq!(table.next(), Some(at(30)));
        assert_eq!(table.take_expired(at(30)), Some(Timer::Recovery));
        assert_eq!(table.next(), None);
    }

    #[test]
    fn each_timer_has_its_place() {
        for timer in Timer::ALL {
            let mut table = TimerTable::new();
            table.set(timer, Some(Instant::ZERO));
            let set = Timer::ALL.map(|other| table.due(other).is_some());
            assert_eq!(set, Timer::ALL.map(|other| other == timer));
        }
    }
}
