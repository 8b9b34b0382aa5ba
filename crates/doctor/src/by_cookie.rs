//! A map from the cookies of sockets to values, for very many connections. The kernel lists sockets
//! in about the same order each time, so that the place of the next one is nearly always known,
//! without a search.

use std::collections::BTreeMap;

/// The map.
#[derive(Clone, Debug)]
pub struct ByCookie<T> {
    slots: Vec<Slot<T>>,
    places: BTreeMap<u64, usize>,
    /// The place of the last lookup.
    last: usize,
}

#[derive(Clone, Debug)]
struct Slot<T> {
    cookie: u64,
    /// The place that was looked up after it the last time.
    next: usize,
    value: T,
}

impl<T> Default for ByCookie<T> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            places: BTreeMap::new(),
            last: 0,
        }
    }
}

impl<T> ByCookie<T> {
    /// Value of a connection. Fast if it is the same connection as last time.
    pub fn value_mut(&mut self, cookie: u64) -> Option<&mut T> {
        let expected = self.slots.get(self.last).map_or(0, |slot| slot.next);
        let is_there = |at: &usize| {
            let slot = self.slots.get(*at);
            slot.is_some_and(|slot| slot.cookie == cookie)
        };
        let at = match Some(expected).filter(is_there) {
            Some(at) => at,
            None => *self.places.get(&cookie)?,
        };
        if at != expected
            && let Some(before) = self.slots.get_mut(self.last)
        {
            before.next = at;
        }
        self.last = at;
        Some(&mut self.slots[at].value)
    }

    /// Whether there is a value.
    #[must_use]
    pub fn contains(&self, cookie: u64) -> bool {
        self.places.contains_key(&cookie)
    }

    /// Inserts a value, or replaces it.
    pub fn insert(&mut self, cookie: u64, value: T) {
        if let Some(known) = self.value_mut(cookie) {
            *known = value;
            return;
        }
        let at = self.slots.len();
        self.places.insert(cookie, at);
        self.slots.push(Slot {
            cookie,
            next: at + 1,
            value,
        });
    }

    /// All values, in the order of insertion.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.slots.iter().map(|slot| (slot.cookie, &slot.value))
    }

    /// All values, mutable.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().map(|slot| &mut slot.value)
    }

    /// All values, by value.
    pub fn into_values(self) -> impl Iterator<Item = T> {
        self.slots.into_iter().map(|slot| slot.value)
    }

    /// Removes the others.
    pub fn retain(&mut self, mut is_kept: impl FnMut(&mut T) -> bool) {
        let before = self.slots.len();
        self.slots.retain_mut(|slot| is_kept(&mut slot.value));
        if self.slots.len() < before {
            self.last = 0;
            self.places.clear();
            for (at, slot) in self.slots.iter_mut().enumerate() {
                slot.next = at + 1;
                self.places.insert(slot.cookie, at);
            }
        }
    }

    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_found_in_whatever_order_it_is_asked_for() {
        let mut map = ByCookie::default();
        for cookie in [7, 3, 9, 1] {
            assert_eq!(map.value_mut(cookie), None);
            map.insert(cookie, cookie * 10);
        }
        for order in [[7, 3, 9, 1], [1, 9, 3, 7], [1, 9, 3, 7], [3, 7, 1, 9]] {
            for cookie in order {
                assert_eq!(map.value_mut(cookie).copied(), Some(cookie * 10));
            }
        }
        map.retain(|value| *value != 90);
        assert_eq!(map.value_mut(9), None);
        assert_eq!(map.value_mut(1), Some(&mut 10));
        let left: Vec<u64> = map.iter().map(|(cookie, _)| cookie).collect();
        assert_eq!(left, [7, 3, 1], "in the order in which they came");
        map.insert(3, 4);
        assert_eq!(map.value_mut(3), Some(&mut 4));
        assert_eq!(map.len(), 3);
    }
}
