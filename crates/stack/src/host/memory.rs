//! The memory budget of a host: what all connections together may use for received and for written,
//! unacknowledged data, and which of them free some when it is used up (Linux `tcp_mem`).
//!
//! Below the pressure mark each connection takes what its own buffers allow. Above it buffers stop
//! growing, and only connections with less than an equal share may take more. At the limit none
//! may, except for the one segment that a connection's application waits for, and for a few bytes
//! of each connection that writes. A connection drops its out-of-order data, which the peer still
//! has (RFC 2018 section 8), before received data is refused; if one with less than its share is
//! refused because of others, those with more than half of theirs drop theirs, too. Written data
//! exists only here: it is freed only with an orphaned connection, which is reset.

use core::time::Duration;

use base::Instant;

use super::config::MemoryBudget;

/// Memory of a packet beside its bytes: its descriptor, and its place in the queues.
const PACKET_BYTES: u64 = 256;
/// More than any packet takes, a GSO packet of the smallest segments included.
const PLENTY_BYTES: u64 = 128 << 20;
/// Written data that each connection may hold, however much others hold (Linux
/// `net.ipv4.tcp_wmem[0]`, `tcp_wmem_schedule`).
const WRITE_FLOOR_BYTES: u64 = 4096;
/// A program is not woken for less room than this many bytes, unless it wants less.
const WRITE_LOW_WATER_BYTES: u64 = 1024;
/// Written data up to which an orphan is not reset (Linux `SOCK_MIN_SNDBUF`, `tcp_out_of_memory`).
const ORPHAN_BYTES: u64 = 4608;
/// Pause after a search that found nothing to release.
const SEARCH_PAUSE: Duration = Duration::from_millis(100);

/// Most sockets that are searched per packet: thousands of connections with nothing to free must
/// not cost a search of all of them for each packet.
const SEARCH_SLOTS_MAX: u32 = 1024;

/// Memory of one connection that its host knows of, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// Memory of received, unread data.
    received: u32,
    /// Memory of written, unacknowledged data.
    sent: u32,
}

impl Held {
    pub(super) const NONE: Self = Self {
        received: 0,
        sent: 0,
    };

    /// With this much received data; `None`: unchanged.
    #[inline]
    pub(super) const fn with_received(self, bytes: u64) -> Option<Self> {
        let received = clamped(bytes);
        if received == self.received {
            return None;
        }
        Some(Self { received, ..self })
    }

    /// With this much written data; `None`: unchanged.
    #[inline]
    pub(super) const fn with_sent(self, bytes: u64) -> Option<Self> {
        let sent = clamped(bytes);
        if sent == self.sent {
            return None;
        }
        Some(Self { sent, ..self })
    }

    /// Both together.
    pub(super) const fn total(self) -> u64 {
        self.received as u64 + self.sent as u64
    }

    /// Whether an orphaned connection holds too much while memory is exhausted.
    pub(crate) const fn is_much_for_an_orphan(self) -> bool {
        self.sent as u64 > ORPHAN_BYTES
    }
}

/// Saturates at 4 GiB.
#[inline]
const fn clamped(bytes: u64) -> u32 {
    if bytes > u32::MAX as u64 {
        u32::MAX
    } else {
        bytes as u32
    }
}

/// The memory of a host for received and for written data, counted.
#[derive(Debug)]
pub(crate) struct Memory {
    budget: MemoryBudget,
    used: u64,
    /// Connections that hold any.
    holders: u64,
    /// A connection was refused because of what others hold.
    is_wanted: bool,
    search: Search,
}

/// The search for connections that can release memory; it continues where it ended.
#[derive(Clone, Copy, Debug, Default)]
struct Search {
    /// The next slot to search.
    next: u32,
    /// Slots searched since one freed something.
    in_vain: u32,
    /// None before.
    after: Instant,
}

impl Search {
    /// The slots to search now, of this many.
    fn slots(&self, all: u32) -> impl Iterator<Item = u32> + use<> {
        let begin = self.next;
        (0..all.min(SEARCH_SLOTS_MAX)).map(move |step| (begin + step) % all)
    }

    /// Called after `looked` of all slots were searched.
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

/// Memory that the host grants to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grant {
    /// What its own buffer allows.
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

/// Memory of `packets` with `payload` bytes in total, which the connection's own rule counts as
/// `charge`.
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

    /// Whether so much is free that single packets need not be checked.
    pub(crate) const fn is_plenty(&self) -> bool {
        self.used.saturating_add(PLENTY_BYTES) <= self.budget.pressure_bytes
    }

    /// The same for a write of this many bytes.
    pub(crate) const fn is_plenty_for(&self, bytes: u64) -> bool {
        bytes <= PLENTY_BYTES && self.is_plenty()
    }

    /// Whether next to nothing is left.
    pub(crate) const fn is_exhausted(&self) -> bool {
        self.used.saturating_add(WRITE_FLOOR_BYTES) > self.budget.max_bytes
    }

    /// Whether a connection that holds `held` may take `more` received data.
    pub(crate) fn grant(&self, held: Held, more: u64) -> Grant {
        let used = self.used.saturating_add(more);
        if used <= self.budget.pressure_bytes {
            return Grant::Free;
        }
        match held.total() + more <= self.share() {
            true if used <= self.budget.max_bytes => Grant::Tight,
            true => Grant::Starved,
            false => Grant::Refused,
        }
    }

    /// Bytes that a connection that holds `held` may write of this many; all of them where it may
    /// write more.
    pub(crate) fn room_to_write(&self, held: Held, wanted: u64) -> u64 {
        let free = self.budget.pressure_bytes.saturating_sub(self.used);
        let left = self.budget.max_bytes.saturating_sub(self.used);
        let of_share = self.share().saturating_sub(held.total()).min(left);
        let of_floor = WRITE_FLOOR_BYTES.saturating_sub(held.sent.into());
        let room = free.max(of_share).max(of_floor).min(wanted);
        match room < wanted.min(WRITE_LOW_WATER_BYTES) {
            true => 0,
            false => room,
        }
    }

    /// Whether a program whose connection holds `held` and that waits to write may do so.
    pub(crate) fn has_room_to_write(&self, held: Held) -> bool {
        self.room_to_write(held, WRITE_LOW_WATER_BYTES) > 0
    }

    /// An equal share of the limit.
    pub(crate) const fn share(&self) -> u64 {
        let holders = if self.holders == 0 { 1 } else { self.holders };
        self.budget.max_bytes / holders
    }

    /// A connection that held `before` holds `now`.
    pub(crate) const fn set_held(&mut self, before: Held, now: Held) {
        let (before, now) = (before.total(), now.total());
        self.used = self.used + now - before;
        self.holders = self.holders + (now > 0) as u64 - (before > 0) as u64;
    }

    /// Asks others to free what they hold beyond their share.
    pub(crate) const fn want(&mut self) {
        self.is_wanted = true;
    }

    /// Whether others are to be asked now; resets the request.
    pub(super) fn is_search_due(&mut self, now: Instant) -> bool {
        core::mem::take(&mut self.is_wanted) && now >= self.search.after
    }

    /// The slots of so many that a search looks at now.
    pub(super) fn slots_to_search(&self, all: u32) -> impl Iterator<Item = u32> + use<> {
        self.search.slots(all)
    }

    /// A search of this many of all slots ended, with something freed or not.
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
        let held = |received, sent| Held { received, sent };
        let none = Held::NONE;
        assert_eq!(memory.grant(none, 600), Grant::Free);
        memory.set_held(none, held(200, 300));
        memory.set_held(none, held(50, 0));
        assert!(!memory.is_tight());
        assert_eq!(memory.grant(held(200, 300), 50), Grant::Free);
        assert_eq!(memory.grant(held(200, 300), 51), Grant::Refused);
        assert_eq!(memory.grant(held(50, 0), 100), Grant::Tight);
        memory.set_held(held(200, 300), held(200, 700));
        assert!(memory.is_tight());
        assert_eq!((memory.used(), memory.share()), (950, 500));
        assert_eq!(memory.grant(held(50, 0), 50), Grant::Tight);
        assert_eq!(memory.grant(held(50, 0), 51), Grant::Starved);
        memory.set_held(held(200, 700), none);
        memory.set_held(held(50, 0), none);
        assert_eq!((memory.used(), memory.share()), (0, 1000));
    }

    #[test]
    fn who_may_write_more() {
        let mut memory = Memory::new(MemoryBudget {
            pressure_bytes: 60_000,
            max_bytes: 100_000,
        });
        let sent = |sent| Held { received: 0, sent };
        let none = Held::NONE;
        memory.set_held(none, sent(50_000));
        // Up to the pressure mark anything, and so many connections that a share is reached.
        assert_eq!(memory.room_to_write(sent(50_000), 1 << 20), 50_000);
        memory.set_held(none, sent(20_000));
        assert_eq!(memory.room_to_write(sent(50_000), 10_000), 0);
        assert_eq!(memory.room_to_write(sent(20_000), 1 << 20), 30_000);
        assert_eq!(memory.room_to_write(sent(20_000), 7), 7);
        memory.set_held(sent(20_000), sent(49_500));
        // Little room is offered only to programs that want no more.
        assert_eq!(memory.room_to_write(sent(49_500), 5000), 0);
        assert_eq!(memory.room_to_write(sent(49_500), 500), 500);
        memory.set_held(none, sent(1000));
        assert!(memory.is_exhausted());
        // Each connection has the floor.
        assert_eq!(memory.room_to_write(sent(1000), 1 << 20), 3096);
        assert_eq!(memory.room_to_write(sent(3500), 1 << 20), 0);
        assert!(memory.has_room_to_write(sent(3000)));
        assert!(!memory.has_room_to_write(sent(3500)));
        // Received data does not count against it.
        let reader = Held {
            received: 1 << 20,
            sent: 0,
        };
        assert_eq!(memory.room_to_write(reader, 1 << 20), 4096);
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
        // No connection has freed anything on a whole round.
        assert_eq!(turn(false), (1948, 823, true));
        let mut search = Search::default();
        search.on_searched(now, 500, 500, true);
        assert_eq!(search.slots(500).next(), Some(0), "all fit into one search");
        search.on_searched(now, 500, 500, false);
        assert!(search.after > now);
    }
}
