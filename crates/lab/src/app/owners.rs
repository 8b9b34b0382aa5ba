//! Which thread of a program a connection belongs to.

use stack::SocketId;

/// The threads of sockets, by the [places](SocketId::place) of these.
#[derive(Debug, Default)]
pub(super) struct Owners {
    by_place: Vec<Option<(SocketId, u32)>>,
}

impl Owners {
    /// From now on `socket` belongs to `thread`.
    pub(super) fn insert(&mut self, socket: SocketId, thread: usize) {
        let place = socket.place();
        if place >= self.by_place.len() {
            self.by_place.resize(place + 1, None);
        }
        let thread = u32::try_from(thread).expect("fewer threads than sockets have places");
        self.by_place[place] = Some((socket, thread));
    }

    /// The thread of `socket`.
    #[inline]
    pub(super) fn find(&self, socket: SocketId) -> Option<usize> {
        let (owned, thread) = (*self.by_place.get(socket.place())?)?;
        (owned == socket).then_some(thread as usize)
    }

    /// `socket` belongs to no thread any more.
    pub(super) fn remove(&mut self, socket: SocketId) {
        if self.find(socket).is_some() {
            self.by_place[socket.place()] = None;
        }
    }

    /// All sockets, by their places.
    pub(super) fn into_sockets(self) -> impl Iterator<Item = SocketId> {
        self.by_place
            .into_iter()
            .flatten()
            .map(|(socket, _)| socket)
    }
}
