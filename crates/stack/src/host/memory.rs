//! What all connections of a host may keep of received data together, and who gives when it is too
//! much (Linux `tcp_mem`).
//!
//! Below the pressure mark everybody takes what its own buffer allows. Above it buffers stop
//! growing, and only those may take more that hold less than an equal share. At the limit nobody
//! may, except for the one segment that a connection's application waits for. Whoever is refused
//! has given its data behind gaps before, which the peer still has (RFC 2018 section 8); where one
//! that holds less than its share is refused for others, those that hold more than half of theirs
//! give.

use core::time::Duration;

use base::Instant;

use super::config::MemoryBudget;

/// What a packet takes beside its bytes: its descriptor, and its place in the queues.
const PACKET_BYTES: u64 = 256;
/// More than any packet takes, a GSO packet of the smallest segments included.
const PLENTY_BYTES: u64 = 128 << 20;
/// After a search for something to give was in vain, the next one waits.
const SEARCH_PAUSE: Duration = Duration::from_millis(100);

/// Sockets that one packet makes the host look at, at most: thousands of connections that have
/// nothing to give must not cost a look at all of them for each packet.
const SEARCH_SLOTS_MAX: u32 = 1024;

/// The memory of received data of a host, counted.
#[derive(Debug)]
pub(crate) struct Memory {
    budget: MemoryBudget,
    used: u64,
    /// Connections that hold any.
    holders: u64,
    /// Somebody was refused for what others hold.
    is_wanted: bool,
    search: Search,
}

/// The search for connections that can give memory, which goes on where it ended.
#[derive(Clone, Copy, Debug, Default)]
struct Search {
    /// The next slot that it looks at.
    next: u32,
    /// Slots since one gave something.
    in_vain: u32,
    /// None before.
    after: Instant,
}

impl Search {
    /// The slots of so many that it looks at now.
    fn slots(&self, all: u32) -> impl Iterator<Item = u32> + use<> {
        let begin = self.next;
        (0..all.min(SEARCH_SLOTS_MAX)).map(move |step| (begin + step) % all)
    }

    /// It has looked at so many of all slots.
    fn on_searched(&mut self, now: Instant, looked: u32, all: u32, has_given: bool) {
        // A small host begins anew each time, with those that were opened first.
        self.next = match all {
            ..=SEARCH_SLOTS_MAX => 0,
            _ => (self.next + looked) % all,
        };
        self.in_vain = match has_given {
            true => 0,
            false => self.in_vain + looked,
        };
        let is_enough = looked < all.min(SEARCH_SLOTS_MAX);
        if !has_given && (is_enough || self.in_vain >= all) {
            self.in_vain = 0;
            self.after = now + SEARCH_PAUSE;
        }
    }
}

/// What the host lets a connection take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grant {
    /// Whatever its own buffer allows.
    Free,
    /// Less than an equal share: it may take this, and its buffer does not grow.
    Tight,
    /// Nothing; it holds more than its share.
    Refused,
    /// Nothing, though it holds less than its share.
    Starved,
}

impl Grant {
    /// Whether the connection may take it.
    pub(crate) const fn is_given(self) -> bool {
        matches!(self, Self::Free | Self::Tight)
    }
}

/// What `packets` with `payload` bytes in all take, where the connection's own rule says `charge`.
pub(crate) fn memory_of(charge: u32, payload: u64, packets: u64) -> u64 {
    u64::from(charge).max(payload + packets * PACKET_BYTES)
}

impl Memory {
    pub(crate) const fn new(budget: MemoryBudget) -> Self {
        Self {
            budget,
            used: 0,
            holders: 0,
            is_wanted: false,
            search: Search {
                next: 0,
                in_vain: 0,
                after: Instant::ZERO,
            },
        }
    }

    /// Bytes in use.
    pub(crate) const fn used(&self) -> u64 {
        self.used
    }

    /// Whether buffers shall not grow.
    pub(crate) const fn is_tight(&self) -> bool {
        self.used > self.budget.pressure_bytes
    }

    /// Whether there is so much that no single packet needs to be counted.
    pub(crate) const fn is_plenty(&self) -> bool {
        self.used.saturating_add(PLENTY_BYTES) <= self.budget.pressure_bytes
    }

    /// Whether a connection that holds `held` may take `more`.
    pub(crate) fn grant(&self, held: u64, more: u64) -> Grant {
        let used = self.used.saturating_add(more);
        if used <= self.budget.pressure_bytes {
            return Grant::Free;
        }
        match held + more <= self.share() {
            true if used <= self.budget.max_bytes => Grant::Tight,
            true => Grant::Starved,
            false => Grant::Refused,
        }
    }

    /// An equal share of the limit.
    pub(crate) const fn share(&self) -> u64 {
        let holders = if self.holders == 0 { 1 } else { self.holders };
        self.budget.max_bytes / holders
    }

    /// A connection that held `before` holds `now`.
    pub(crate) const fn set_held(&mut self, before: u64, now: u64) {
        self.used = self.used + now - before;
        self.holders = self.holders + (now > 0) as u64 - (before > 0) as u64;
    }

    /// Others shall give what they hold beyond their share.
    pub(crate) const fn want(&mut self) {
        self.is_wanted = true;
    }

    /// Whether others are to be asked now; the question is forgotten by it.
    pub(super) fn is_search_due(&mut self, now: Instant) -> bool {
        core::mem::take(&mut self.is_wanted) && now >= self.search.after
    }

    /// The slots of so many that a search looks at now.
    pub(super) fn slots_to_search(&self, all: u32) -> impl Iterator<Item = u32> + use<> {
        self.search.slots(all)
    }

    /// A search has looked at so many of all slots; it gave something back or not.
    pub(super) fn on_searched(&mut self, now: Instant, looked: u32, all: u32, has_given: bool) {
        self.search.on_searched(now, looked, all, has_given);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_take_more() {
        let mut memory = Memory::new(MemoryBudget {
            pressure_bytes: 600,
            max_bytes: 1000,
        });
        assert_eq!(memory.grant(0, 600), Grant::Free);
        memory.set_held(0, 500);
        memory.set_held(0, 50);
        assert!(!memory.is_tight());
        assert_eq!(memory.grant(500, 50), Grant::Free);
        assert_eq!(memory.grant(500, 51), Grant::Refused);
        assert_eq!(memory.grant(50, 100), Grant::Tight);
        memory.set_held(500, 900);
        assert!(memory.is_tight());
        assert_eq!((memory.used(), memory.share()), (950, 500));
        assert_eq!(memory.grant(50, 50), Grant::Tight);
        assert_eq!(memory.grant(50, 51), Grant::Starved);
        memory.set_held(900, 0);
        memory.set_held(50, 0);
        assert_eq!((memory.used(), memory.share()), (0, 1000));
    }

    #[test]
    fn a_search_in_vain_is_not_repeated_at_once() {
        let mut memory = Memory::new(MemoryBudget::UNLIMITED);
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        assert!(!memory.is_search_due(at(0)));
        memory.want();
        assert!(memory.is_search_due(at(0)) && !memory.is_search_due(at(0)));
        memory.on_searched(at(0), 3, 3, false);
        memory.want();
        assert!(!memory.is_search_due(at(99)));
        memory.want();
        assert!(memory.is_search_due(at(100)));
    }

    #[test]
    fn a_search_among_many_goes_on_where_it_ended() {
        let now = Instant::from_nanos(1);
        let many = 2 * SEARCH_SLOTS_MAX + 100;
        let mut search = Search::default();
        let mut turn = |has_given: bool| {
            let slots: alloc::vec::Vec<u32> = search.slots(many).collect();
            assert_eq!(slots.len(), SEARCH_SLOTS_MAX as usize);
            search.on_searched(now, SEARCH_SLOTS_MAX, many, has_given);
            (slots[0], slots[slots.len() - 1], search.after > now)
        };
        assert_eq!(turn(false), (0, 1023, false));
        assert_eq!(turn(true), (1024, 2047, false));
        assert_eq!(turn(false), (2048, 923, false));
        assert_eq!(turn(false), (924, 1947, false));
        // Nobody has given anything on a whole round.
        assert_eq!(turn(false), (1948, 823, true));
        let mut search = Search::default();
        search.on_searched(now, 500, 500, true);
        assert_eq!(search.slots(500).next(), Some(0), "all fit into one search");
        search.on_searched(now, 500, 500, false);
        assert!(search.after > now);
    }
}
