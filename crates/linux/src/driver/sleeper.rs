//! What a driver sleeps on: its device, the word to stop, and the next deadline.

use std::os::fd::{AsFd, OwnedFd};

use base::Instant;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use crate::clock::Clock;

/// Numbers of the descriptors in the epoll set.
const DEVICE: u64 = 0;
const STOP: u64 = 1;
const TIMER: u64 = 2;

/// A set of descriptors that stays with the kernel, and a timer that is only set to earlier times.
///
/// Deadlines mostly move to later times: a connection that answers each packet moves its
/// retransmission timer with each. The timer keeps the time that it has then, and wakes the driver
/// once too early instead of costing two changes of a kernel timer for each sleep.
#[derive(Debug)]
pub(super) struct Sleeper {
    epoll: OwnedFd,
    timer: OwnedFd,
    /// When the timer fires; [`Instant::MAX`]: never.
    armed: Instant,
}

impl Sleeper {
    /// Sleeps until `device` can be read, or `stop`.
    pub(super) fn new(device: impl AsFd, stop: impl AsFd) -> rustix::io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let timer = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
        )?;
        let wanted = [
            (device.as_fd(), DEVICE),
            (stop.as_fd(), STOP),
            (timer.as_fd(), TIMER),
        ];
        for (descriptor, number) in wanted {
            let number = epoll::EventData::new_u64(number);
            epoll::add(&epoll, descriptor, number, epoll::EventFlags::IN)?;
        }
        Ok(Self {
            epoll,
            timer,
            armed: Instant::MAX,
        })
    }

    /// Sleeps until `due` at the latest, and perhaps not as long; whether the device can be read or
    /// has failed. Does not sleep where `due` has passed: the device was not looked at then, and
    /// may be ready.
    pub(super) fn sleep(&mut self, due: Option<Instant>) -> rustix::io::Result<bool> {
        if let Some(due) = due {
            if due <= Clock.now() {
                return Ok(true);
            }
            if due < self.armed {
                self.arm(due)?;
            }
        }
        let mut events = [epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(0),
        }; 3];
        let ready = match epoll::wait(&self.epoll, &mut events, None) {
            Ok(ready) => &events[..ready],
            Err(Errno::INTR) => return Ok(false),
            Err(errno) => return Err(errno),
        };
        let is_ready = |number| ready.iter().any(|event| event.data.u64() == number);
        if is_ready(TIMER) {
            // Disarmed, it is not ready any more.
            self.arm(Instant::MAX)?;
        }
        Ok(is_ready(DEVICE))
    }

    fn arm(&mut self, due: Instant) -> rustix::io::Result<()> {
        // A time of 0 disarms it.
        let nanos = if due == Instant::MAX {
            0
        } else {
            due.as_nanos()
        };
        let value = Timespec {
            tv_sec: (nanos / 1_000_000_000) as i64,
            tv_nsec: (nanos % 1_000_000_000) as i64,
        };
        let it_interval = Timespec::default();
        let once = Itimerspec {
            it_interval,
            it_value: value,
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once)?;
        self.armed = due;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustix::event::{EventfdFlags, eventfd};

    use super::*;

    fn event() -> OwnedFd {
        eventfd(0, EventfdFlags::NONBLOCK).expect("a descriptor")
    }

    fn tell(event: &OwnedFd) {
        rustix::io::write(event, &1_u64.to_ne_bytes()).expect("it counts few");
    }

    fn take(event: &OwnedFd) {
        rustix::io::read(event, &mut [0; 8]).expect("it was told");
    }

    #[test]
    fn a_sleep_ends_by_the_device_the_word_to_stop_or_the_deadline() {
        let (device, stop) = (event(), event());
        let mut sleeper = Sleeper::new(&device, &stop).expect("descriptors");
        tell(&device);
        assert_eq!(sleeper.sleep(None), Ok(true));
        take(&device);
        tell(&stop);
        assert_eq!(sleeper.sleep(None), Ok(false));
        take(&stop);
        let due = Clock.now() + Duration::from_millis(5);
        assert_eq!(sleeper.sleep(Some(due)), Ok(false));
        assert!(Clock.now() >= due, "nothing else ended it");
        assert_eq!(sleeper.sleep(Some(due)), Ok(true), "it has passed");
    }

    #[test]
    fn a_deadline_that_moves_is_kept() {
        let (device, stop) = (event(), event());
        let mut sleeper = Sleeper::new(&device, &stop).expect("descriptors");
        let in_millis = |millis| Clock.now() + Duration::from_millis(millis);
        // Further away: it may wake at the time of before, and then sleeps on.
        let (first, second) = (in_millis(5), in_millis(15));
        tell(&device);
        assert_eq!(sleeper.sleep(Some(first)), Ok(true));
        take(&device);
        while Clock.now() < second {
            assert!(sleeper.sleep(Some(second)).is_ok());
        }
        // Nearer: it wakes by then, though an hour was told before.
        tell(&device);
        let hour = Clock.now() + Duration::from_secs(3600);
        assert_eq!(sleeper.sleep(Some(hour)), Ok(true));
        take(&device);
        assert_eq!(sleeper.sleep(Some(in_millis(5))), Ok(false));
        // None at all: what was told before is forgotten once it has fired.
        tell(&stop);
        assert_eq!(sleeper.sleep(None), Ok(false));
    }
}
