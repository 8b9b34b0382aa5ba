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

#[cfg(test)]
mod tests {
    use super::*;
    use base::Instant;
    use stack::profile::linux_6_18;
    use stack::{Host, HostConfig, ListenOptions};

    #[test]
    fn a_place_that_is_used_again_is_of_the_later_socket() {
        let profile = linux_6_18();
        let mut host = Host::new(HostConfig::of(&profile, [10, 0, 0, 1].into(), 1));
        let mut open = |port: u16, before: Option<SocketId>| {
            if let Some(id) = before {
                host.close(Instant::ZERO, id);
            }
            let address = ([10, 0, 0, 1], port).into();
            host.listen(address, ListenOptions::of(&profile))
                .expect("a free port")
        };
        let first = open(1, None);
        let second = open(2, Some(first));
        assert_eq!(first.place(), second.place());
        let mut owners = Owners::default();
        assert_eq!(owners.find(first), None);
        owners.insert(first, 3);
        assert_eq!((owners.find(first), owners.find(second)), (Some(3), None));
        owners.insert(second, 4);
        owners.remove(first);
        assert_eq!((owners.find(first), owners.find(second)), (None, Some(4)));
        assert!(owners.into_sockets().eq([second]));
    }
}
