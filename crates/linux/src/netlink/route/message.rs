//! A route as a message: parsed, cleaned of what cannot be sent back, changed in one metric.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;

use base::knob::{Kind, LinuxSite};
use base::{Knob, KnobError, KnobValue};
use serde::{Deserialize, Serialize};

use super::text::Destination;
use crate::error::Result;
use crate::netlink::raw::{attributes, push_attribute};
use crate::netlink_dump::{text, u16_at, u32_at};

pub(super) const RTA_DST: u16 = 1;
pub(super) const RTA_OIF: u16 = 4;
pub(super) const RTA_GATEWAY: u16 = 5;
pub(super) const RTA_PRIORITY: u16 = 6;
pub(super) const RTA_PREFSRC: u16 = 7;
pub(super) const RTA_METRICS: u16 = 8;
const RTA_MULTIPATH: u16 = 9;
const RTA_CACHEINFO: u16 = 12;
pub(super) const RTA_TABLE: u16 = 15;
const RTA_VIA: u16 = 18;
const RTA_ENCAP_TYPE: u16 = 21;
const RTA_ENCAP: u16 = 22;
const RTA_NH_ID: u16 = 30;
pub(super) const RTAX_LOCK: u16 = 1;
pub(super) const RTAX_RTO_MIN: u16 = 13;

/// `struct rtmsg`.
const HEADER_BYTES: usize = 12;
const PROTOCOL_STATIC: u8 = 4;
/// `RTNH_F_PERVASIVE`, `RTNH_F_ONLINK`: what the administrator sets. The others are the state of
/// the link at this moment (dead, no carrier, offloaded), and the kernel refuses them.
const LASTING_FLAGS: u32 = 2 | 4;

/// Numbers of routing tables.
pub(super) struct Table;

impl Table {
    pub(super) const MAIN: u32 = 254;
    pub(super) const LOCAL: u32 = 255;
}

/// A route of the kernel, ready to be sent back to it. Two routes are equal where the kernel would
/// do the same with both. In JSON it is the hexadecimal text of the message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Route {
    header: [u8; HEADER_BYTES],
    /// Sorted by type, without the metrics. No type occurs twice.
    attributes: BTreeMap<u16, Vec<u8>>,
    metrics: BTreeMap<u16, Vec<u8>>,
    expires: bool,
}

impl Route {
    /// Reads a message of the kernel; `None` where it is none of a route, or of a cached one.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        const CLONED: u32 = 0x200;
        let mut header: [u8; HEADER_BYTES] = bytes.get(..HEADER_BYTES)?.try_into().ok()?;
        let flags = u32_at(&header, 8)?;
        if flags & CLONED != 0 {
            return None;
        }
        header[8..].copy_from_slice(&(flags & LASTING_FLAGS).to_ne_bytes());
        let mut found: BTreeMap<u16, Vec<u8>> = attributes(bytes, HEADER_BYTES)
            .map(|(kind, data)| (kind, data.to_vec()))
            .collect();
        let metrics = found.remove(&RTA_METRICS).unwrap_or_default();
        let cache = found.remove(&RTA_CACHEINFO).unwrap_or_default();
        if let Some(hops) = found.get_mut(&RTA_MULTIPATH) {
            clean_hops(hops);
        }
        if found.contains_key(&RTA_NH_ID) {
            // Reported spelt out as well, but only one of the two is accepted.
            for kind in [
                RTA_OIF,
                RTA_GATEWAY,
                RTA_VIA,
                RTA_MULTIPATH,
                RTA_ENCAP,
                RTA_ENCAP_TYPE,
            ] {
                found.remove(&kind);
            }
        }
        Some(Self {
            header,
            attributes: found,
            metrics: attributes(&metrics, 0)
                .map(|(kind, data)| (kind, data.to_vec()))
                .collect(),
            // `struct rta_cacheinfo`: rta_expires is the third word.
            expires: u32_at(&cache, 8).is_some_and(|expires| expires != 0),
        })
    }

    /// The message without its netlink header.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.header.to_vec();
        for (kind, data) in &self.attributes {
            push_attribute(&mut bytes, *kind, data);
        }
        // Linux 6.18 net/ipv4/fib_semantics.c, fib_create_info: for a next-hop object and no
        // metrics attribute it takes any stored route that fits, with the metrics of that one. An
        // empty attribute makes it look at the metrics.
        if !self.metrics.is_empty() || self.attributes.contains_key(&RTA_NH_ID) {
            let mut nested = Vec::new();
            for (kind, data) in &self.metrics {
                push_attribute(&mut nested, *kind, data);
            }
            push_attribute(&mut bytes, RTA_METRICS, &nested);
        }
        bytes
    }

    /// The fixed part of a request about a destination.
    pub(super) fn request_header(destination: Destination, flags: u32) -> Vec<u8> {
        let mut header = vec![0; HEADER_BYTES];
        header[0] = destination.family();
        header[1] = destination.prefix_length();
        header[8..].copy_from_slice(&flags.to_ne_bytes());
        header
    }

    /// A route to `destination` that leads the same way. It is marked as an administrator's.
    pub(super) fn copy_for(mut self, destination: Destination) -> Self {
        self.header[1] = destination.prefix_length();
        self.header[5] = PROTOCOL_STATIC;
        self.attributes.insert(RTA_DST, destination.octets());
        self.expires = false;
        self
    }

    /// A route to `destination`, which is on the link behind the interface with this index.
    pub(super) fn on_link(destination: Destination, index: u32) -> Self {
        /// `RTN_UNICAST`, `RT_SCOPE_LINK`.
        const UNICAST: u8 = 1;
        const SCOPE_LINK: u8 = 253;
        let table = u8::try_from(Table::MAIN).expect("254");
        let (family, length) = (destination.family(), destination.prefix_length());
        let mut header = [0; HEADER_BYTES];
        header[..2].copy_from_slice(&[family, length]);
        header[4..8].copy_from_slice(&[table, PROTOCOL_STATIC, SCOPE_LINK, UNICAST]);
        let attributes = [
            (RTA_DST, destination.octets()),
            (RTA_OIF, index.to_ne_bytes().to_vec()),
        ];
        Self {
            header,
            attributes: attributes.into(),
            metrics: BTreeMap::new(),
            expires: false,
        }
    }

    /// Sets the metric of a knob, and locks it where the kernel obeys only a locked one.
    pub(super) fn set_metric(&mut self, knob: &Knob, value: &KnobValue) -> Result<()> {
        let invalid = |reason: String| KnobError::Invalid {
            knob: knob.name,
            reason,
        };
        let number = match value {
            KnobValue::Flag(on) => u64::from(*on),
            KnobValue::Number(number) if knob.kind == Kind::Micros => {
                if !number.is_multiple_of(1_000) {
                    return Err(invalid("the kernel keeps whole milliseconds".into()).into());
                }
                number / 1_000
            }
            KnobValue::Number(number) => *number,
            KnobValue::Name(name) => {
                self.metrics
                    .insert(metric_of(knob), format!("{name}\0").into_bytes());
                return Ok(());
            }
            KnobValue::Triple(_) => return Err(invalid("one number is wanted".into()).into()),
        };
        let number =
            u32::try_from(number).map_err(|_| invalid(format!("{number} is too large")))?;
        let metric = metric_of(knob);
        self.metrics.insert(metric, number.to_ne_bytes().to_vec());
        if is_obeyed_locked_only(metric) {
            self.lock(metric);
        }
        Ok(())
    }

    /// The same with the metric of a knob, and its lock where it needs one, as `from` has them;
    /// without it where there is no `from`.
    #[must_use]
    pub(crate) fn with_metric_of(&self, knob: &Knob, from: Option<&Self>) -> Self {
        let metric = metric_of(knob);
        let mut route = self.clone();
        match from.and_then(|from| from.metrics.get(&metric)) {
            Some(data) => route.metrics.insert(metric, data.clone()),
            None => route.metrics.remove(&metric),
        };
        if is_obeyed_locked_only(metric) {
            let bit = 1 << metric;
            let theirs = from.map_or(0, Self::locks) & bit;
            match route.locks() & !bit | theirs {
                0 => route.metrics.remove(&RTAX_LOCK),
                locks => route
                    .metrics
                    .insert(RTAX_LOCK, locks.to_ne_bytes().to_vec()),
            };
        }
        route
    }

    fn lock(&mut self, metric: u16) {
        let locks = self.locks() | 1 << metric;
        self.metrics.insert(RTAX_LOCK, locks.to_ne_bytes().to_vec());
    }

    /// A bit for each locked metric.
    fn locks(&self) -> u32 {
        let data = self.metrics.get(&RTAX_LOCK);
        data.and_then(|data| u32_at(data, 0)).unwrap_or(0)
    }

    /// Whether the kernel leaves this metric as it is.
    pub(super) fn is_locked(&self, metric: u16) -> bool {
        1_u32
            .checked_shl(metric.into())
            .is_some_and(|bit| self.locks() & bit != 0)
    }

    /// The metric of a knob, where the route has it and the kernel obeys it.
    #[must_use]
    pub fn metric(&self, knob: &Knob) -> Option<KnobValue> {
        let metric = metric_of(knob);
        let data = self.metrics.get(&metric)?;
        if is_obeyed_locked_only(metric) && !self.is_locked(metric) {
            return None;
        }
        Some(match knob.kind {
            Kind::Name => KnobValue::Name(text(data)),
            Kind::Flag => KnobValue::Flag(u32_at(data, 0)? != 0),
            Kind::Micros => KnobValue::Number(u64::from(u32_at(data, 0)?) * 1_000),
            _ => KnobValue::Number(u32_at(data, 0)?.into()),
        })
    }

    /// Whether `self` is `before` with nothing but this knob's metric changed, and its lock set
    /// where it needs one.
    #[must_use]
    pub fn differs_only_in(&self, before: &Self, knob: &Knob) -> bool {
        let metric = metric_of(knob);
        let without = |route: &Self| {
            let mut route = route.clone();
            route.metrics.remove(&metric);
            route
        };
        let mut expected = without(before);
        if is_obeyed_locked_only(metric) {
            expected.lock(metric);
        }
        without(self) == expected
    }

    /// Destination of the route.
    #[must_use]
    pub fn destination(&self) -> Option<Destination> {
        let address = self.attributes.get(&RTA_DST).map(Vec::as_slice);
        Destination::from_parts(self.header[0], self.header[1], address)
    }

    /// Number of the interface through which packets leave; `None` where it names none or several.
    #[must_use]
    pub fn interface(&self) -> Option<u32> {
        self.number(RTA_OIF)
    }

    /// Whether it ends by itself, as those that a router advertises.
    pub(super) const fn expires(&self) -> bool {
        self.expires
    }

    pub(super) fn table(&self) -> u32 {
        self.number(RTA_TABLE)
            .unwrap_or_else(|| u32::from(self.header[4]))
    }

    pub(super) fn priority(&self) -> u32 {
        self.number(RTA_PRIORITY).unwrap_or_default()
    }

    pub(super) const fn protocol(&self) -> u8 {
        self.header[5]
    }

    pub(super) const fn scope(&self) -> u8 {
        self.header[6]
    }

    /// Whether it leads to this machine (`RTN_LOCAL`).
    pub(super) const fn is_local(&self) -> bool {
        self.header[7] == 2
    }

    pub(super) fn is_onlink(&self) -> bool {
        u32_at(&self.header, 8).unwrap_or_default() & 4 != 0
    }

    pub(super) fn number(&self, attribute: u16) -> Option<u32> {
        u32_at(self.attributes.get(&attribute)?, 0)
    }

    pub(super) fn address(&self, attribute: u16) -> Option<IpAddr> {
        let octets = self.attributes.get(&attribute)?;
        Destination::from_parts(self.header[0], 0, Some(octets)).map(Destination::address)
    }

    pub(super) fn attribute_kinds(&self) -> impl Iterator<Item = u16> {
        self.attributes.keys().copied()
    }

    pub(super) fn metrics(&self) -> impl Iterator<Item = (u16, &[u8])> {
        self.metrics
            .iter()
            .map(|(kind, data)| (*kind, data.as_slice()))
    }
}

impl From<Route> for String {
    fn from(route: Route) -> Self {
        let mut text = Self::new();
        for byte in route.to_bytes() {
            write!(text, "{byte:02x}").expect("a String takes everything");
        }
        text
    }
}

impl TryFrom<String> for Route {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        let bytes: Option<Vec<u8>> = (0..text.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok())
            .collect();
        bytes
            .and_then(|bytes| Self::from_bytes(&bytes))
            .ok_or("the text is not a saved route")
    }
}

/// # Panics
/// Where the knob is none of a route: the caller has matched the site.
fn metric_of(knob: &Knob) -> u16 {
    match knob.linux {
        Some(LinuxSite::RouteMetric { metric, .. }) => metric,
        _ => panic!("{} is not an attribute of a route", knob.name),
    }
}

/// Linux 6.18 net/ipv4/tcp_output.c, tcp_rto_min: it asks for the lock before it looks at the
/// metric. `ip route` sets that lock by itself.
const fn is_obeyed_locked_only(metric: u16) -> bool {
    metric == RTAX_RTO_MIN
}

/// Takes the passing state of links out of the hops of a multipath route (`struct rtnexthop`:
/// length, flags, weight, interface; then attributes).
fn clean_hops(hops: &mut [u8]) {
    const HOP_BYTES: usize = 8;
    let mut at = 0;
    while let Some(length) = u16_at(hops, at).map(usize::from) {
        if length < HOP_BYTES || at + length > hops.len() {
            return;
        }
        hops[at + 2] &= LASTING_FLAGS as u8;
        at += length.next_multiple_of(4);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::find_knob;
    use proptest::prelude::*;

    fn example() -> Vec<u8> {
        let mut bytes = vec![2, 24, 0, 0, 254, 2, 253, 1, 16, 0, 0, 0];
        push_attribute(&mut bytes, RTA_TABLE, &254_u32.to_ne_bytes());
        push_attribute(&mut bytes, RTA_DST, &[10, 0, 0, 0]);
        push_attribute(&mut bytes, RTA_OIF, &7_u32.to_ne_bytes());
        push_attribute(&mut bytes, 77, b"unheard of");
        let mut metrics = Vec::new();
        push_attribute(&mut metrics, RTAX_LOCK, &4_u32.to_ne_bytes());
        push_attribute(&mut metrics, 2, &1400_u32.to_ne_bytes());
        push_attribute(&mut metrics, 99, &1_u32.to_ne_bytes());
        push_attribute(&mut bytes, RTA_METRICS, &metrics);
        bytes
    }

    #[test]
    fn one_metric_changes_and_everything_else_stays() {
        let before = Route::from_bytes(&example()).unwrap();
        for (name, text) in [
            ("route.quickack", "on"),
            ("route.initcwnd", "32"),
            ("route.mtu", "1300B"),
            ("route.rto_min", "10ms"),
            ("route.congctl", "reno"),
        ] {
            let knob = find_knob(name).unwrap();
            let value = knob.parse(text).unwrap();
            let mut after = before.clone();
            after.set_metric(knob, &value).unwrap();
            assert_eq!(after.metric(knob), Some(value));
            assert!(after.differs_only_in(&before, knob));
            assert_ne!(after, before);
            let reread = Route::from_bytes(&after.to_bytes()).unwrap();
            assert_eq!(reread, after);
            assert_eq!(reread.metrics[&99], 1_u32.to_ne_bytes());
            assert_eq!(reread.attributes[&77], b"unheard of");
        }
    }

    #[test]
    fn the_least_timeout_is_locked_and_nothing_else() {
        let knob = find_knob("route.rto_min").unwrap();
        let before = Route::from_bytes(&example()).unwrap();
        assert_eq!(before.locks(), 1 << 2, "the MTU");
        let mut after = before.clone();
        after.set_metric(knob, &KnobValue::Number(10_000)).unwrap();
        assert_eq!(after.locks(), 1 << 2 | 1 << 13);
        assert!(
            after.to_string().ends_with("rto_min 10ms unknown 1"),
            "{after}"
        );
        // Removing the lock is a change of the route.
        let mut unlocked = after.clone();
        unlocked
            .metrics
            .insert(RTAX_LOCK, 4_u32.to_ne_bytes().to_vec());
        assert_eq!(unlocked.metric(knob), None);
        assert!(!unlocked.differs_only_in(&before, knob));
        assert!(unlocked.to_string().contains("rto_min 10ms (not locked)"));
        assert_eq!(unlocked.command_words(|_| Some("v0".into())), None);
        unlocked
            .set_metric(knob, &KnobValue::Number(10_000))
            .unwrap();
        assert_eq!(unlocked, after);
        // The rest of what is set needs no lock.
        let knob = find_knob("route.initcwnd").unwrap();
        after.set_metric(knob, &KnobValue::Number(20)).unwrap();
        assert_eq!(after.locks(), 1 << 2 | 1 << 13);
    }

    #[test]
    fn a_saved_route_is_read_back() {
        let route = Route::from_bytes(&example()).unwrap();
        let json = serde_json::to_string(&route).unwrap();
        assert_eq!(serde_json::from_str::<Route>(&json).unwrap(), route);
        for bad in ["\"\"", "\"0z\"", "\"0\"", "\"äöü\"", "7"] {
            assert!(serde_json::from_str::<Route>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn fractions_of_a_millisecond_are_refused() {
        let knob = find_knob("route.rto_min").unwrap();
        let mut route = Route::from_bytes(&example()).unwrap();
        let error = route
            .set_metric(knob, &KnobValue::Number(1_500))
            .expect_err("1.5 ms");
        assert!(error.to_string().contains("whole milliseconds"), "{error}");
    }

    #[test]
    fn the_state_of_the_link_is_not_sent_back() {
        let mut bytes = example();
        // Two hops of 8 bytes: dead | onlink, and no carrier.
        let hops = [8, 0, 5, 0, 7, 0, 0, 0, 8, 0, 16, 0, 8, 0, 0, 0];
        push_attribute(&mut bytes, RTA_MULTIPATH, &hops);
        let route = Route::from_bytes(&bytes).unwrap();
        assert_eq!(u32_at(&route.header, 8), Some(0));
        assert_eq!(route.attributes[&RTA_MULTIPATH][2], 4);
        assert_eq!(route.attributes[&RTA_MULTIPATH][10], 0);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic_and_stably(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            if let Some(route) = Route::from_bytes(&bytes) {
                let again = Route::from_bytes(&route.to_bytes());
                prop_assert_eq!(again.map(|r| (r.attributes, r.metrics)),
                    Some((route.attributes, route.metrics)));
            }
        }
    }
}
