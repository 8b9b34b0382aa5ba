//! All timers of a connection on one screen.

use base::Instant;

/// What a timer is for.
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
    /// Nobody waits for the peer's FIN any more.
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

/// When each timer is due; one that is not set never is.
#[derive(Clone, Debug)]
pub(crate) struct TimerTable {
    due: [Instant; Timer::ALL.len()],
}

impl TimerTable {
    pub(crate) const fn new() -> Self {
        Self {
            due: [Instant::MAX; Timer::ALL.len()],
        }
    }

    pub(crate) fn set(&mut self, timer: Timer, due: Option<Instant>) {
        self.due[timer as usize] = due.unwrap_or(Instant::MAX);
    }

    pub(crate) fn stop(&mut self, timer: Timer) {
        self.set(timer, None);
    }

    pub(crate) fn stop_all(&mut self) {
        *self = Self::new();
    }

    pub(crate) fn due(&self, timer: Timer) -> Option<Instant> {
        let due = self.due[timer as usize];
        (due != Instant::MAX).then_some(due)
    }

    /// The next deadline.
    pub(crate) fn next(&self) -> Option<Instant> {
        let earlier = |next: Instant, due: &Instant| next.min(*due);
        let next = self.due.iter().fold(Instant::MAX, earlier);
        (next != Instant::MAX).then_some(next)
    }

    /// Takes one timer that is due by `now`.
    pub(crate) fn take_expired(&mut self, now: Instant) -> Option<Timer> {
        let timer = Timer::ALL
            .into_iter()
            .find(|timer| self.due[*timer as usize] <= now)?;
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
}
