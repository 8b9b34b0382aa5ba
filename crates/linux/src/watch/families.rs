//! Which address families are listed: the kernel walks its whole connection table once for each.

use std::time::Duration;

use base::Instant;

/// Interval of IPv6 dumps where there were no IPv6 sockets for a time.
const LIST_EVERY: Duration = Duration::from_millis(200);
/// IPv6 sockets are expected for this long after the last one: connections that follow each other
/// leave gaps, in which there are none. A server that listens for both families has such ones
/// whatever its clients use.
const EXPECTED_FOR: Duration = Duration::from_secs(5);

/// When IPv6 sockets were listed, and when there were some.
#[derive(Debug)]
pub(super) struct Families {
    listed: Option<Instant>,
    seen: Option<Instant>,
}

impl Families {
    pub(super) const fn new() -> Self {
        Self {
            listed: None,
            seen: None,
        }
    }

    /// Whether IPv6 sockets may be left out of a list now.
    pub(super) fn skips_ipv6(&self, now: Instant) -> bool {
        let is_recent = |at: Option<Instant>, time| at.is_some_and(|at| now.since(at) < time);
        is_recent(self.listed, LIST_EVERY) && !is_recent(self.seen, EXPECTED_FOR)
    }

    /// So many were in the list of this time.
    pub(super) const fn note(&mut self, now: Instant, ipv6: usize) {
        self.listed = Some(now);
        if ipv6 > 0 {
            self.seen = Some(now);
        }
    }

    /// A connection was closed that no list has shown. Gaps between connections may come as often
    /// as lists do.
    pub(super) const fn note_missed(&mut self, now: Instant) {
        self.seen = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv6_is_listed_between_connections_that_follow_each_other() {
        let at = |ms: u64| Instant::ZERO + Duration::from_millis(ms);
        let mut families = Families::new();
        assert!(!families.skips_ipv6(at(0)), "nothing is known");
        families.note(at(0), 0);
        assert!(families.skips_ipv6(at(10)) && !families.skips_ipv6(at(200)));
        families.note(at(500), 1);
        // The next connection may come at any time.
        families.note(at(510), 0);
        assert!(!families.skips_ipv6(at(520)) && !families.skips_ipv6(at(5_400)));
        families.note(at(5_490), 0);
        assert!(families.skips_ipv6(at(5_500)), "for long there was none");
        families.note_missed(at(5_600));
        assert!(!families.skips_ipv6(at(5_610)), "there was one in between");
    }
}
