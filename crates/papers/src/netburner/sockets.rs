//! State that belongs to no single call: the numbers of sockets, and what a call waits for that is
//! made again until it has an answer.

use core::net::SocketAddr;
use std::collections::BTreeMap;

use base::Instant;
use stack::SocketId;

/// The first number of a socket; smaller ones are serial ports and the console there.
const FIRST_NUMBER: i32 = 5;

/// The sockets of one system by their numbers, and what its tasks wait for.
#[derive(Debug, Default)]
pub struct Sockets {
    entries: BTreeMap<i32, Entry>,
    waits: BTreeMap<u32, Waiting>,
    /// Connections that a task opens, until they are established.
    pub(super) opening: BTreeMap<(u32, SocketAddr, u16), SocketId>,
}

/// A socket with a number.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) id: SocketId,
    pub(super) is_listener: bool,
    /// Whether `SO_DEBUG` is set.
    pub(super) debug: bool,
    /// The last error that a call returned.
    pub(super) error: i32,
    /// Bytes that the `writeall` in progress has handed over.
    pub(super) written: usize,
}

/// Calls that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blocking {
    Accept,
    Connect,
    Read,
    Write,
    Select,
}

/// Event for which a task waits.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    call: (Blocking, i32),
    /// `None`: without end.
    until: Option<Instant>,
}

impl Sockets {
    pub(super) fn insert(&mut self, id: SocketId, is_listener: bool) -> i32 {
        // Numbers are given again, the smallest first, as those of sockets are everywhere.
        let mut number = FIRST_NUMBER;
        while self.entries.contains_key(&number) {
            number += 1;
        }
        let entry = Entry {
            id,
            is_listener,
            debug: false,
            error: 0,
            written: 0,
        };
        self.entries.insert(number, entry);
        number
    }

    pub(super) fn entry(&self, number: i32) -> Option<&Entry> {
        self.entries.get(&number)
    }

    pub(super) fn entry_mut(&mut self, number: i32) -> Option<&mut Entry> {
        self.entries.get_mut(&number)
    }

    pub(super) fn remove(&mut self, number: i32) -> Option<SocketId> {
        self.entries.remove(&number).map(|entry| entry.id)
    }

    /// The socket behind a number, as the host knows it.
    #[must_use]
    pub fn id(&self, number: i32) -> Option<SocketId> {
        self.entry(number).map(|entry| entry.id)
    }

    /// The number of a socket of the host: whose buffers [`stack::PoolState::by_owner`] lists.
    #[must_use]
    pub fn number(&self, id: SocketId) -> Option<i32> {
        let mut entries = self.entries.iter();
        entries.find_map(|(number, entry)| (entry.id == id).then_some(*number))
    }

    /// The call of this task waits; when it began, it was to wait until `until` at most. Whether it
    /// still may.
    pub(super) fn wait(
        &mut self,
        now: Instant,
        task: u32,
        call: (Blocking, i32),
        until: Option<Instant>,
    ) -> bool {
        let until = match self.waits.get(&task) {
            Some(waiting) if waiting.call == call => waiting.until,
            _ => until,
        };
        if until.is_some_and(|until| until <= now) {
            self.waits.remove(&task);
            return false;
        }
        self.waits.insert(task, Waiting { call, until });
        true
    }

    /// A task goes on: it waits for nothing any more.
    pub(super) fn go_on(&mut self, task: u32) {
        self.waits.remove(&task);
    }

    /// When the time of the call that a task waits in is over.
    pub(super) fn deadline(&self, task: u32) -> Option<Instant> {
        self.waits.get(&task)?.until
    }
}
