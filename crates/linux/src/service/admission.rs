//! Admission of connections: bounds for all and for each address, random early drop, penalties. The
//! scheme is that of sshd(8): `MaxStartups`, `PerSourceMaxStartups`, `PerSourceNetBlockSize` and
//! `PerSourcePenalties`, with one difference. sshd drops the newcomer; here a random one of those
//! waiting is dropped, because an honest client waits for only one round trip.
//!
//! Knows neither clock nor sockets: the time and random numbers are arguments.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use base::Instant;
use serde::{Deserialize, Serialize};

/// Addresses whose penalties are remembered; beyond, further ones go free.
const PENALTIES_MAX: usize = 65_536;
/// Time from one forgetting of old penalties to the next where there are this many.
const PURGE_EVERY: Duration = Duration::from_secs(1);
/// Below this a penalty is remembered and not enforced.
const PENALTY_MIN: Duration = Duration::from_secs(15);
/// No penalty is longer.
const PENALTY_MAX: Duration = Duration::from_secs(600);

/// Unit in which connections are counted: an IPv4 address, or a /64 of IPv6, since each host has
/// its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Source(IpAddr);

impl From<IpAddr> for Source {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(address) if !address.is_loopback() => {
                let network = u128::from(address) & !u128::from(u64::MAX);
                Self(IpAddr::V6(network.into()))
            }
            other => Self(other),
        }
    }
}

/// How many connections may be at their opening: `START:RATE:FULL`. From `start` on, a connection
/// is dropped with `rate` percent, from `full` on always.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MaxStartups {
    /// Connections.
    pub start: u32,
    /// Percent.
    pub rate: u32,
    /// Connections.
    pub full: u32,
}

impl Default for MaxStartups {
    /// sshd's.
    fn default() -> Self {
        Self {
            start: 10,
            rate: 30,
            full: 100,
        }
    }
}

impl MaxStartups {
    /// Percent with which a connection is dropped where this many are at their opening.
    fn drop_percent(self, present: u32) -> u32 {
        let Self { start, rate, full } = self;
        match present {
            _ if present >= full => 100,
            _ if present < start => 0,
            _ => rate + (100 - rate) * (present - start) / (full - start),
        }
    }
}

impl fmt::Display for MaxStartups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { start, rate, full } = self;
        write!(f, "{start}:{rate}:{full}")
    }
}

impl FromStr for MaxStartups {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers: Option<Vec<u32>> = text.split(':').map(|part| part.parse().ok()).collect();
        match numbers.as_deref() {
            Some(&[start, rate, full])
                if 0 < start && start <= full && full <= 1000 && rate <= 100 =>
            {
                Ok(Self { start, rate, full })
            }
            _ => Err(format!(
                "`{text}` is not START:RATE:FULL, such as 10:30:100: connections (1 to 1000), \
                 percent, connections"
            )),
        }
    }
}

/// The rules of admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rules {
    /// Connections at their opening.
    pub(super) startups: MaxStartups,
    /// Limit per address.
    pub(super) startups_per_address: u32,
    /// Concurrent clients.
    pub(super) clients: u32,
    /// Limit per address.
    pub(super) clients_per_address: u32,
    /// Whether loopback addresses are spared penalties: all users of a machine share them.
    pub(super) spare_loopback: bool,
}

/// Offences of an address, with sshd's penalties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offence {
    /// A wrong key, or a wrong token.
    AuthFail,
    /// Left, or sent something else.
    NoAuth,
    /// The time for the opening ran out.
    GraceExceeded,
}

impl Offence {
    const fn penalty(self) -> Duration {
        Duration::from_secs(match self {
            Self::AuthFail => 5,
            Self::NoAuth => 1,
            Self::GraceExceeded => 10,
        })
    }
}

/// Decision on an incoming connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Admit.
    Admit,
    /// Admit in place of a random waiting one.
    InPlaceOfAny,
    /// Admit in place of the one of its address that has waited longest.
    InPlaceOfOwn,
    /// The address has to wait this long.
    Penalty(Duration),
}

#[derive(Clone, Copy, Debug, Default)]
struct Present {
    opening: u32,
    clients: u32,
}

#[derive(Clone, Copy, Debug)]
struct Penalty {
    until: Instant,
    is_enforced: bool,
}

/// Present connections and penalised addresses.
#[derive(Debug)]
pub(super) struct Admission {
    rules: Rules,
    opening: u32,
    clients: u32,
    present: BTreeMap<Source, Present>,
    penalties: BTreeMap<Source, Penalty>,
    purged_at: Instant,
}

impl Admission {
    pub(super) const fn new(rules: Rules) -> Self {
        Self {
            rules,
            opening: 0,
            clients: 0,
            present: BTreeMap::new(),
            penalties: BTreeMap::new(),
            purged_at: Instant::ZERO,
        }
    }

    /// Judges a connection. `percent` is a random number from 0 to 99. Who is admitted is counted:
    /// [`Admission::handle_opened`] must follow when its opening is over, in any way.
    pub(super) fn handle_arrival(&mut self, source: Source, now: Instant, percent: u32) -> Verdict {
        if let Some(wait) = self.wait_of(source, now) {
            return Verdict::Penalty(wait);
        }
        let present = self.present.entry(source).or_default();
        let verdict = if present.opening >= self.rules.startups_per_address {
            Verdict::InPlaceOfOwn
        } else if present.clients == 0 && percent < self.rules.startups.drop_percent(self.opening) {
            Verdict::InPlaceOfAny
        } else {
            Verdict::Admit
        };
        present.opening += 1;
        self.opening += 1;
        verdict
    }

    /// The opening of a connection is over.
    pub(super) fn handle_opened(&mut self, source: Source) {
        self.opening -= 1;
        self.change(source, |present| present.opening -= 1);
    }

    /// Takes the place of a client; `false` where there is none for this address.
    pub(super) fn take_client(&mut self, source: Source) -> bool {
        let of_address = self.present.get(&source).map_or(0, |there| there.clients);
        let is_free =
            self.clients < self.rules.clients && of_address < self.rules.clients_per_address;
        if is_free {
            self.clients += 1;
            self.present.entry(source).or_default().clients += 1;
            // It held the key, or none is asked for.
            self.penalties.remove(&source);
        }
        is_free
    }

    /// A client has left.
    pub(super) fn handle_client_left(&mut self, source: Source) {
        self.clients -= 1;
        self.change(source, |present| present.clients -= 1);
    }

    /// Adds to the penalty of an address. One that has a client here is spared: that client's data
    /// connections come from there.
    pub(super) fn penalise(&mut self, source: Source, offence: Offence, now: Instant) {
        let is_client = self
            .present
            .get(&source)
            .is_some_and(|there| there.clients > 0);
        if is_client || self.rules.spare_loopback && source.0.is_loopback() {
            return;
        }
        if self.penalties.len() >= PENALTIES_MAX && !self.penalties.contains_key(&source) {
            // To look at all of them takes long: once a second.
            if now.since(self.purged_at) >= PURGE_EVERY {
                self.purged_at = now;
                self.penalties.retain(|_, penalty| penalty.until > now);
            }
            if self.penalties.len() >= PENALTIES_MAX {
                return;
            }
        }
        let penalty = self.penalties.entry(source).or_insert(Penalty {
            until: now,
            is_enforced: false,
        });
        penalty.until = (penalty.until.max(now) + offence.penalty()).min(now + PENALTY_MAX);
        penalty.is_enforced |= penalty.until.since(now) >= PENALTY_MIN;
    }

    /// How long an address has to wait, where it has to.
    fn wait_of(&self, source: Source, now: Instant) -> Option<Duration> {
        let penalty = self.penalties.get(&source)?;
        let left = penalty.until.since(now);
        (penalty.is_enforced && !left.is_zero()).then_some(left)
    }

    fn change(&mut self, source: Source, change: impl FnOnce(&mut Present)) {
        let Some(present) = self.present.get_mut(&source) else {
            return;
        };
        change(present);
        if present.opening == 0 && present.clients == 0 {
            self.present.remove(&source);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules = Rules {
        startups: MaxStartups {
            start: 10,
            rate: 30,
            full: 100,
        },
        startups_per_address: 8,
        clients: 3,
        clients_per_address: 2,
        spare_loopback: true,
    };

    fn source(text: &str) -> Source {
        text.parse::<IpAddr>().expect("an address").into()
    }

    const fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn an_address_is_counted_by_what_a_host_has_of_its_own() {
        let same = |one: &str, other: &str| source(one) == source(other);
        assert!(same("2001:db8::1", "2001:db8::2:3"));
        assert!(!same("2001:db8::1", "2001:db8:0:1::1"));
        assert!(same("::ffff:10.0.0.1", "10.0.0.1"));
        assert!(!same("10.0.0.1", "10.0.0.2"));
        assert!(!same("::1", "::2"));
    }

    /// sshd_config(5), `MaxStartups`: linear from `rate` at `start` to certain at `full`.
    #[test]
    fn connections_are_dropped_early_and_at_random() {
        let startups = MaxStartups::default();
        let check = |present, percent| assert_eq!(startups.drop_percent(present), percent);
        check(0, 0);
        check(9, 0);
        check(10, 30);
        check(55, 65);
        check(99, 99);
        check(100, 100);
        check(1000, 100);
        assert_eq!("10:30:100".parse(), Ok(startups));
        assert_eq!(startups.to_string(), "10:30:100");
        for bad in [
            "", "10", "10:30", "0:30:10", "11:30:10", "1:101:2", "1:1:1001", "a:b:c",
        ] {
            bad.parse::<MaxStartups>().expect_err(bad);
        }
        let mut flat = Admission::new(Rules {
            startups: MaxStartups {
                start: 2,
                rate: 100,
                full: 2,
            },
            ..RULES
        });
        let arrive = |admission: &mut Admission, n: u8| {
            admission.handle_arrival(Source(IpAddr::from([10, 0, 0, n])), at(1), 99)
        };
        let verdicts: Vec<_> = (0..3).map(|n| arrive(&mut flat, n)).collect();
        use Verdict::{Admit, InPlaceOfAny};
        assert_eq!(verdicts, [Admit, Admit, InPlaceOfAny]);
    }

    #[test]
    fn one_address_cannot_take_the_room_of_all() {
        let mut admission = Admission::new(RULES);
        let (greedy, other) = (source("10.0.0.1"), source("10.0.0.2"));
        for n in 0..1000 {
            let verdict = admission.handle_arrival(greedy, at(1), 0);
            let expected = if n < 8 {
                Verdict::Admit
            } else {
                Verdict::InPlaceOfOwn
            };
            assert_eq!(verdict, expected, "{n}");
            if n >= 8 {
                // The one that gave its place away.
                admission.handle_opened(greedy);
            }
        }
        assert_eq!(admission.opening, 8);
        assert_eq!(admission.handle_arrival(other, at(1), 0), Verdict::Admit);
        for _ in 0..8 {
            admission.handle_opened(greedy);
        }
        admission.handle_opened(other);
        assert_eq!(admission.opening, 0);
        assert!(admission.present.is_empty());
    }

    #[test]
    fn clients_have_bounds_for_all_and_for_each_address() {
        let mut admission = Admission::new(RULES);
        let [one, two, three] = ["10.0.0.1", "10.0.0.2", "10.0.0.3"].map(source);
        assert!(admission.take_client(one) && admission.take_client(one));
        assert!(!admission.take_client(one), "two of one address");
        assert!(admission.take_client(two));
        assert!(!admission.take_client(three), "three in all");
        admission.handle_client_left(one);
        assert!(admission.take_client(three));
    }

    #[test]
    fn penalties_add_up_and_pass() {
        let mut admission = Admission::new(RULES);
        let bad = source("10.0.0.1");
        let verdict = |admission: &mut Admission, source, now| {
            let verdict = admission.handle_arrival(source, at(now), 0);
            if verdict == Verdict::Admit {
                admission.handle_opened(source);
            }
            verdict
        };
        admission.penalise(bad, Offence::AuthFail, at(1));
        admission.penalise(bad, Offence::AuthFail, at(1));
        assert_eq!(
            verdict(&mut admission, bad, 1),
            Verdict::Admit,
            "below the least"
        );
        admission.penalise(bad, Offence::AuthFail, at(1));
        let wait = Verdict::Penalty(Duration::from_secs(15));
        assert_eq!(verdict(&mut admission, bad, 1), wait);
        // Enforced to its end, and then forgotten.
        let wait = Verdict::Penalty(Duration::from_secs(1));
        assert_eq!(verdict(&mut admission, bad, 15), wait);
        assert_eq!(verdict(&mut admission, bad, 16), Verdict::Admit);
        assert_eq!(
            verdict(&mut admission, source("10.0.0.2"), 1),
            Verdict::Admit
        );
        for _ in 0..1000 {
            admission.penalise(bad, Offence::GraceExceeded, at(20));
        }
        assert_eq!(
            verdict(&mut admission, bad, 20),
            Verdict::Penalty(PENALTY_MAX)
        );
        // Who looks once a second whether the port is open never has to wait.
        let watcher = source("10.0.0.3");
        for second in 30..200 {
            admission.penalise(watcher, Offence::NoAuth, at(second));
            assert_eq!(verdict(&mut admission, watcher, second), Verdict::Admit);
        }
    }

    #[test]
    fn who_has_a_client_here_and_loopback_are_spared() {
        let mut admission = Admission::new(RULES);
        let (known, own) = (source("10.0.0.1"), source("127.0.0.1"));
        assert!(admission.take_client(known));
        for source in [known, own] {
            for _ in 0..100 {
                admission.penalise(source, Offence::AuthFail, at(1));
            }
            assert_eq!(admission.handle_arrival(source, at(1), 0), Verdict::Admit);
        }
    }

    #[test]
    fn penalties_take_bounded_memory() {
        let mut admission = Admission::new(RULES);
        let nth = |n: u32| Source(IpAddr::from((n + (10 << 24)).to_be_bytes()));
        let max = PENALTIES_MAX as u32;
        for n in 0..max + 100 {
            admission.penalise(nth(n), Offence::GraceExceeded, at(1));
        }
        assert_eq!(admission.penalties.len(), PENALTIES_MAX);
        admission.penalise(nth(max), Offence::GraceExceeded, at(100));
        assert_eq!(admission.penalties.len(), 1, "the old ones have passed");
    }
}
