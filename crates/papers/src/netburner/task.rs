//! Programs of that system: tasks that make one call after the other, on any driver of a host.

use core::fmt::Debug;
use core::time::Duration;

use base::Instant;
use stack::{Event, Host, SocketId};

use super::{Netburner, Sockets};
use lab::app::App;

/// Action of a task after its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Continue at once.
    Again,
    /// A call returned [`Pending`](core::task::Poll::Pending): it is made again when something
    /// happened on the host, or its time is over.
    Blocked,
    /// Sleep for this long.
    Sleep(Duration),
    /// Ended.
    Done,
}

/// A task: a program as a state that goes from call to call.
pub trait Task: Debug {
    /// Goes on: makes the next calls, or the one again that waited.
    fn turn(&mut self, system: &mut Netburner<'_>) -> Turn;
}

impl Task for Box<dyn Task> {
    fn turn(&mut self, system: &mut Netburner<'_>) -> Turn {
        self.as_mut().turn(system)
    }
}

/// A board: tasks beside each other on one host, as an [`App`] of the world of virtual time or of
/// a driver of real packets.
#[derive(Debug)]
pub struct Board<T> {
    sockets: Sockets,
    tasks: Vec<(T, Progress)>,
    /// Whose turn is next.
    next: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Ready,
    Blocked,
    SleepsUntil(Instant),
    Done,
}

impl<T: Task> Board<T> {
    /// A board with these tasks, which take turns.
    pub fn new(tasks: impl IntoIterator<Item = T>) -> Self {
        Self {
            sockets: Sockets::default(),
            tasks: tasks
                .into_iter()
                .map(|task| (task, Progress::Ready))
                .collect(),
            next: 0,
        }
    }

    /// Its tasks, in the order in which they were given.
    pub fn tasks(&self) -> impl Iterator<Item = &T> {
        self.tasks.iter().map(|(task, _)| task)
    }

    /// Its sockets by their numbers.
    #[must_use]
    pub const fn sockets(&self) -> &Sockets {
        &self.sockets
    }

    /// When a task is to have a turn, without any event; `None`: never.
    fn due(&self, index: usize) -> Option<Instant> {
        match self.tasks[index].1 {
            Progress::Ready => Some(Instant::ZERO),
            Progress::Blocked => self.sockets.deadline(index as u32),
            Progress::SleepsUntil(at) => Some(at),
            Progress::Done => None,
        }
    }
}

impl<T: Task> App for Board<T> {
    fn start(&mut self, _now: Instant, _host: &mut Host) {}

    fn handle_event(&mut self, _now: Instant, _id: SocketId, _event: Event) {
        for (_, progress) in &mut self.tasks {
            if *progress == Progress::Blocked {
                *progress = Progress::Ready;
            }
        }
    }

    fn call(&mut self, now: Instant, host: &mut Host) -> bool {
        let count = self.tasks.len();
        let order = (0..count).map(|step| (self.next + step) % count);
        let is_due = |index: &usize| self.due(*index).is_some_and(|due| due <= now);
        let Some(index) = order.into_iter().find(is_due) else {
            return false;
        };
        self.next = (index + 1) % count;
        let number = index as u32;
        let (task, progress) = &mut self.tasks[index];
        let mut system = Netburner::of_task(host, now, &mut self.sockets, number);
        *progress = match task.turn(&mut system) {
            Turn::Again => Progress::Ready,
            Turn::Blocked => Progress::Blocked,
            Turn::Sleep(time) => Progress::SleepsUntil(now + time),
            Turn::Done => Progress::Done,
        };
        // A task that does something else than wait has let go of its call, one whose time is over
        // has been told so.
        let is_over = self.sockets.deadline(number).is_some_and(|due| due <= now);
        if *progress != Progress::Blocked || is_over {
            self.sockets.go_on(number);
        }
        true
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        (0..self.tasks.len())
            .filter_map(|index| self.due(index))
            .min()
    }

    fn is_done(&self) -> bool {
        self.tasks
            .iter()
            .all(|(_, progress)| *progress == Progress::Done)
    }
}
