//! The sockets of a host, by ID. An ID is never reused: a reused slot gets another generation.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::config::SocketId;
use super::flows::Ends;
use super::{Listener, TimeWait};
use crate::tcp::Connection;

/// Contents of a slot.
#[derive(Debug)]
pub(super) enum Kind {
    Free,
    Listener(Box<Listener>),
    Connection(Box<Connection>),
    TimeWait(Box<TimeWait>),
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    kind: Kind,
}

/// All sockets.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Slots that are in TIME-WAIT.
    time_waits: u32,
}

impl Sockets {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// How many of them are in TIME-WAIT.
    pub(super) const fn time_waits(&self) -> u32 {
        self.time_waits
    }

    /// The numbers of all slots.
    pub(super) fn slots(&self) -> core::ops::Range<u32> {
        0..self.slots.len() as u32
    }

    /// Inserts what `make` returns for its ID.
    pub(super) fn insert(&mut self, make: impl FnOnce(SocketId) -> Kind) -> SocketId {
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                self.slots.push(Slot {
                    generation: 0,
                    kind: Kind::Free,
                });
                (self.slots.len() - 1) as u32
            }
        };
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        let id = SocketId {
            index,
            generation: slot.generation,
        };
        slot.kind = make(id);
        self.time_waits += u32::from(matches!(slot.kind, Kind::TimeWait(_)));
        id
    }

    /// Replaces the contents of a slot; its old ID becomes invalid.
    pub(super) fn replace(&mut self, index: u32, kind: Kind) {
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        let before = core::mem::replace(&mut slot.kind, kind);
        self.time_waits += u32::from(matches!(slot.kind, Kind::TimeWait(_)));
        self.time_waits -= u32::from(matches!(before, Kind::TimeWait(_)));
    }

    pub(super) fn remove(&mut self, id: SocketId) {
        if self.slot(id).is_some() {
            self.remove_at(id.index);
        }
    }

    pub(super) fn remove_at(&mut self, index: u32) {
        let kind = core::mem::replace(&mut self.slots[index as usize].kind, Kind::Free);
        self.time_waits -= u32::from(matches!(kind, Kind::TimeWait(_)));
        self.free.push(index);
    }

    /// The present ID of a slot.
    pub(super) fn id_at(&self, index: u32) -> SocketId {
        SocketId {
            index,
            generation: self.slots[index as usize].generation,
        }
    }

    fn slot(&self, id: SocketId) -> Option<&Slot> {
        self.slots
            .get(id.index as usize)
            .filter(|slot| slot.generation == id.generation && !matches!(slot.kind, Kind::Free))
    }

    pub(super) fn is_known(&self, id: SocketId) -> bool {
        self.slot(id).is_some()
    }

    pub(super) fn kind_at(&mut self, index: u32) -> &mut Kind {
        &mut self.slots[index as usize].kind
    }

    pub(super) fn connection_at(&mut self, index: u32) -> Option<&mut Connection> {
        match &mut self.slots.get_mut(index as usize)?.kind {
            Kind::Connection(connection) => Some(connection),
            _ => None,
        }
    }

    /// Whether these, the remote one first, are the ends of the connection in a slot.
    pub(super) fn has_ends(&self, index: u32, (remote, local): &Ends) -> bool {
        match self.slots.get(index as usize).map(|slot| &slot.kind) {
            Some(Kind::Connection(connection)) => connection.is_between(remote, local),
            Some(Kind::TimeWait(rest)) => rest.remote == *remote && rest.local == *local,
            Some(Kind::Listener(_) | Kind::Free) | None => false,
        }
    }

    pub(super) fn connection(&mut self, id: SocketId) -> Option<&mut Connection> {
        let slot = self.slots.get_mut(id.index as usize)?;
        match &mut slot.kind {
            Kind::Connection(connection) if slot.generation == id.generation => Some(connection),
            _ => None,
        }
    }

    /// A connection, for reading.
    pub(super) fn look(&self, id: SocketId) -> Option<&Connection> {
        match &self.slot(id)?.kind {
            Kind::Connection(connection) => Some(connection),
            _ => None,
        }
    }

    /// A listener, for reading.
    pub(super) fn look_at_listener(&self, id: SocketId) -> Option<&Listener> {
        match &self.slot(id)?.kind {
            Kind::Listener(listener) => Some(listener),
            _ => None,
        }
    }

    pub(super) fn listener(&mut self, id: SocketId) -> Option<&mut Listener> {
        self.slot(id)?;
        match &mut self.slots[id.index as usize].kind {
            Kind::Listener(listener) => Some(listener),
            _ => None,
        }
    }

    /// The ids of all listeners and connections, in the order of their slots.
    pub(super) fn ids(&self) -> impl Iterator<Item = SocketId> + '_ {
        self.slots
            .iter()
            .zip(0_u32..)
            .filter(|(slot, _)| matches!(slot.kind, Kind::Listener(_) | Kind::Connection(_)))
            .map(|(slot, index)| SocketId {
                index,
                generation: slot.generation,
            })
    }
}
