//! Lookup of the connection to which a packet belongs: a table of bounded size.

use base::Instant;
use hashbrown::HashTable;

use crate::flow::Flow;
use crate::packet::Key;

/// The connections that are open, and where each is by the hash of its ends. The hash has a key, so
/// that ends cannot be chosen to collide.
#[derive(Debug)]
pub(crate) struct Table {
    keys: [u64; 2],
    index: HashTable<(u64, u32)>,
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    /// Ends of the last packet, and their place: the next one often has the same.
    last: Option<(Key, u32)>,
    /// Position of the search for a connection to evict.
    hand: usize,
}

#[derive(Debug)]
struct Slot {
    hash: u64,
    place: Place,
    /// A packet came since the hand was here.
    is_used: bool,
}

/// What is known of two ends.
#[derive(Debug)]
pub(crate) enum Place {
    /// They have a connection.
    Open(Box<Flow>),
    /// Theirs has ended, and was taken out.
    Over(Box<Over>),
}

/// A connection that has ended.
#[derive(Debug)]
pub(crate) struct Over {
    key: Key,
    pub(crate) since: Instant,
}

impl Place {
    fn key(&self) -> &Key {
        match self {
            Self::Open(flow) => &flow.key,
            Self::Over(over) => &over.key,
        }
    }

    fn into_flow(self) -> Option<Box<Flow>> {
        match self {
            Self::Open(flow) => Some(flow),
            Self::Over(_) => None,
        }
    }
}

impl Table {
    pub(crate) fn new(keys: [u64; 2]) -> Self {
        Self {
            // Zero would hide what is multiplied with it.
            keys: keys.map(|key| key | 1),
            index: HashTable::new(),
            slots: Vec::new(),
            free: Vec::new(),
            last: None,
            hand: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    fn hash(&self, key: &Key) -> u64 {
        let [low, high] = key.addresses;
        let ports =
            u64::from(key.ports[0]) << 48 | u64::from(key.ports[1]) << 32 | u64::from(key.device);
        let fold = |a: u64, b: u64| {
            let product = u128::from(a) * u128::from(b);
            product as u64 ^ (product >> 64) as u64
        };
        // What differs most comes first, and is mixed most.
        let words = [
            ports,
            low as u64,
            (low >> 64) as u64,
            high as u64,
            (high >> 64) as u64,
        ];
        words.into_iter().fold(self.keys[0], |hash, word| {
            fold(hash ^ word, self.keys[1]) ^ hash.rotate_left(23)
        })
    }

    /// The connection of these ends.
    pub(crate) fn find(&mut self, key: &Key) -> Option<u32> {
        if let Some((_, at)) = self.last.filter(|(last, _)| last == key) {
            return Some(at);
        }
        let hash = self.hash(key);
        let is_it = |at: u32| {
            let slot = self.slots[at as usize].as_ref();
            slot.is_some_and(|slot| slot.place.key() == key)
        };
        let found = self
            .index
            .find(hash, |(known, at)| *known == hash && is_it(*at));
        let at = found.map(|(_, at)| *at);
        self.last = at.map(|at| (*key, at));
        at
    }

    /// What is at a place that [`Table::find`] gave.
    pub(crate) fn place(&mut self, at: u32) -> &mut Place {
        let slot = self.slots[at as usize].as_mut();
        let slot = slot.expect("only places that are taken are handed out");
        slot.is_used = true;
        &mut slot.place
    }

    pub(crate) fn insert(&mut self, flow: Box<Flow>) -> u32 {
        let (key, hash) = (flow.key, self.hash(&flow.key));
        let slot = Some(Slot {
            hash,
            place: Place::Open(flow),
            is_used: true,
        });
        let at = match self.free.pop() {
            Some(at) => {
                self.slots[at as usize] = slot;
                at
            }
            None => {
                self.slots.push(slot);
                (self.slots.len() - 1) as u32
            }
        };
        self.index
            .insert_unique(hash, (hash, at), |(hash, _)| *hash);
        self.last = Some((key, at));
        at
    }

    /// Takes the connection at a place out; that its ends had one is known until that is removed.
    pub(crate) fn take_over(&mut self, at: u32, now: Instant) -> Option<Box<Flow>> {
        let slot = self.slots.get_mut(at as usize)?.as_mut()?;
        let key = *slot.place.key();
        let over = Box::new(Over { key, since: now });
        core::mem::replace(&mut slot.place, Place::Over(over)).into_flow()
    }

    /// Forgets a place, and gives its connection, if that is still open.
    pub(crate) fn remove(&mut self, at: u32) -> Option<Box<Flow>> {
        let slot = self.slots.get_mut(at as usize)?.take()?;
        if let Ok(entry) = self.index.find_entry(slot.hash, |(_, place)| *place == at) {
            entry.remove();
        }
        self.free.push(at);
        self.last = None;
        slot.place.into_flow()
    }

    /// Looks at the next place: one that `may_go`, or the one there if it was not used since the
    /// hand was there before and `must` one go.
    pub(crate) fn advance(&mut self, must: bool, may_go: impl Fn(&Place) -> bool) -> Option<u32> {
        if self.slots.is_empty() {
            return None;
        }
        self.hand = (self.hand + 1) % self.slots.len();
        let at = self.hand as u32;
        let slot = self.slots[self.hand].as_mut()?;
        if may_go(&slot.place) || (must && !slot.is_used) {
            return Some(at);
        }
        if must {
            slot.is_used = false;
        }
        None
    }

    /// All connections, in order of their places.
    pub(crate) fn flows(&mut self) -> impl Iterator<Item = &mut Flow> {
        let slots = self.slots.iter_mut().flatten();
        slots.filter_map(|slot| match &mut slot.place {
            Place::Open(flow) => Some(&mut **flow),
            Place::Over(_) => None,
        })
    }

    /// All that are left, in order of their places.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = Box<Flow>> + use<> {
        self.index.clear();
        self.last = None;
        let slots = core::mem::take(&mut self.slots);
        let places = slots.into_iter().flatten().map(|slot| slot.place);
        places.filter_map(Place::into_flow)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const KEYS: u64 = 1 << 16;

    /// Different places in an index of this many, of which 63 % are expected by chance.
    fn check(what: &str, key: impl Fn(u64) -> Key) {
        let table = Table::new([0, 0x1234_5678_9abc_def1]);
        let places: BTreeSet<u64> = (0..KEYS)
            .map(|number| table.hash(&key(number)) % KEYS)
            .collect();
        assert!(places.len() > 40_000, "{what}: {} places", places.len());
    }

    #[test]
    fn ends_that_are_alike_do_not_meet() {
        let key = Key {
            addresses: [0xffff_0a00_0001, 0xffff_0a00_0002],
            ports: [80, 80],
            device: 0,
        };
        check("ports", |number| Key {
            ports: [80, number as u16],
            ..key
        });
        check("addresses", |number| Key {
            addresses: [key.addresses[0] + u128::from(number), key.addresses[1]],
            ..key
        });
        check("upper halves", |number| Key {
            addresses: [u128::from(number) << 64, u128::from(number) << 112],
            ..key
        });
        check("what cancels out", |number| Key {
            addresses: [u128::from(number), u128::from(number)],
            ports: [number as u16; 2],
            device: number as u32,
        });
        check("devices", |number| Key {
            device: number as u32,
            ..key
        });
    }
}
