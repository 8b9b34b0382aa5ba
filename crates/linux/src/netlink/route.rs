//! Routes: finding the one that a destination uses, changing one of its metrics, putting it back.
//!
//! A route is kept as the kernel sent it. Changing a metric sends the same message back with that
//! metric changed, so gateway, source, table, locks, and attributes that this program has never
//! heard of stay. The few parts that the kernel reports but does not accept are left out.

mod message;
mod text;

use std::net::IpAddr;

use base::{Knob, KnobValue};

use super::link;
use super::raw::{CREATE, EXCLUSIVE, REPLACE, ask, change, push_attribute};
use crate::error::{Error, Result};
use crate::netlink_dump::Ask;
pub use message::Route;
use message::{RTA_DST, Table};
pub use text::Destination;

const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;
const RTM_GETROUTE: u16 = 26;

/// Result of a route lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// A route with exactly this destination.
    Exact(Route),
    /// None has exactly this destination; the kernel uses this one.
    Covering(Route),
}

/// Finds the route to a destination in the namespace of the calling thread. For one address it is
/// the route that the kernel itself uses, policy rules included; for a prefix it is the one of the
/// main table with the best metric.
///
/// # Errors
/// [`Error::NotFound`] where nothing leads there.
pub fn find(destination: Destination) -> Result<Found> {
    if let Some(address) = destination.host() {
        let route = look_up(address)?;
        return Ok(if route.destination() == Some(destination) {
            Found::Exact(route)
        } else {
            Found::Covering(route)
        });
    }
    let mut routes = dump(destination)?;
    routes
        .retain(|route| route.destination() == Some(destination) && route.table() != Table::LOCAL);
    // The main table first, then the best metric; equal ones stay in the kernel's order.
    routes.sort_by_key(|route| (route.table() != Table::MAIN, route.priority()));
    let missing = || Error::NotFound {
        what: "route to",
        name: destination.to_string(),
        hint: "; `ip route show table all` lists them. To set one address apart, name it alone"
            .into(),
    };
    routes
        .into_iter()
        .next()
        .map(Found::Exact)
        .ok_or_else(missing)
}

/// The route with exactly this destination, where there is one.
///
/// # Errors
/// As [`find`], except that a covering route is none.
pub fn find_exact(destination: Destination) -> Result<Option<Route>> {
    match find(destination) {
        Ok(Found::Exact(route)) => Ok(Some(route)),
        Ok(Found::Covering(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Sets one metric of the route to a destination. Where no route has exactly this destination
/// and it is one address, a route to it is made as a copy of the one that the kernel uses.
///
/// # Errors
/// [`Error::NotFound`] where nothing leads there, [`Error::Permission`] without `CAP_NET_ADMIN`,
/// [`Error::Refused`] for a route that router advertisements maintain, [`Error::Os`] with the
/// kernel's reason where it refuses the value.
pub fn set_metric(destination: Destination, knob: &Knob, value: &KnobValue) -> Result<()> {
    let (route, flags) = planned(destination, knob, value)?;
    send(&route, RTM_NEWROUTE, flags, "set")
}

/// Makes a route: the destination is on the link behind this interface.
///
/// # Errors
/// [`Error::NotFound`] where there is no such interface; [`Error::Os`] where there is such a route.
pub fn add_on_link(destination: Destination, interface: &str) -> Result<()> {
    let index = link::read(interface)?.index;
    let route = Route::on_link(destination, index);
    send(&route, RTM_NEWROUTE, CREATE | EXCLUSIVE, "make")
}

/// The message of [`set_metric`], for a dry run.
///
/// # Errors
/// As [`set_metric`], except for what only the kernel can say.
pub fn preview(destination: Destination, knob: &Knob, value: &KnobValue) -> Result<Route> {
    planned(destination, knob, value).map(|(route, _)| route)
}

/// Puts back what [`find_exact`] returned: the saved route in place of the present one, or no
/// route where there was none.
///
/// # Errors
/// As [`set_metric`].
pub fn restore(old: Option<&Route>, present: Option<&Route>) -> Result<()> {
    match (old, present) {
        (Some(old), Some(_)) => send(old, RTM_NEWROUTE, REPLACE, "restore"),
        (Some(old), None) => send(old, RTM_NEWROUTE, CREATE | EXCLUSIVE, "restore"),
        (None, Some(present)) => send(present, RTM_DELROUTE, 0, "remove"),
        (None, None) => Ok(()),
    }
}

fn planned(destination: Destination, knob: &Knob, value: &KnobValue) -> Result<(Route, u16)> {
    knob.check(value)?;
    let (mut route, flags) = match find(destination)? {
        Found::Exact(route) => {
            if route.expires() {
                return Err(Error::Refused {
                    what: format!("the route to {destination}"),
                    reason: "router advertisements maintain it and would undo the change; name \
                             one address instead"
                        .into(),
                });
            }
            (route, REPLACE)
        }
        Found::Covering(route) => (route.copy_for(destination), CREATE | EXCLUSIVE),
    };
    route.set_metric(knob, value)?;
    Ok((route, flags))
}

fn send(route: &Route, kind: u16, flags: u16, verb: &str) -> Result<()> {
    let op = format!("{verb} the route {route}");
    change(&op, (kind, flags), route.to_bytes())
}

/// The route in the kernel's table that a packet to `address` matches now.
fn look_up(address: IpAddr) -> Result<Route> {
    /// `RTM_F_LOOKUP_TABLE`, `RTM_F_FIB_MATCH`: tell the table, and the route as it is stored.
    const AS_STORED: u32 = 0x1000 | 0x2000;
    let destination = Destination::of_host(address);
    let mut payload = Route::request_header(destination, AS_STORED);
    push_attribute(&mut payload, RTA_DST, &destination.octets());
    let op = format!("look up the route to {address}");
    let replies = ask(&op, RTM_GETROUTE, Ask::One, &payload);
    let missing = |hint: &str| Error::NotFound {
        what: "route to",
        name: address.to_string(),
        hint: hint.into(),
    };
    match replies {
        Ok(replies) => {
            let found = replies.first().and_then(|reply| Route::from_bytes(reply));
            with_true_table(found.ok_or_else(|| missing(""))?)
        }
        Err(Error::Os { source, .. })
            if matches!(
                source.raw_os_error(),
                Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EINVAL | libc::EACCES)
            ) =>
        {
            Err(missing(&format!(" ({source})")))
        }
        Err(error) => Err(error),
    }
}

/// Linux 6.18 net/ipv4/fib_trie.c, fib_trie_unmerge: as long as there are no rules of one's own,
/// the local table lives inside the main one, and a lookup calls a local route one of the main
/// table.
/// A list tells them apart.
fn with_true_table(route: Route) -> Result<Route> {
    if !route.is_local() || route.table() != Table::MAIN {
        return Ok(route);
    }
    let Some(destination) = route.destination() else {
        return Ok(route);
    };
    let mut listed = dump(destination)?.into_iter();
    let same = listed.find(|other| other.is_local() && other.destination() == Some(destination));
    Ok(same.unwrap_or(route))
}

fn dump(destination: Destination) -> Result<Vec<Route>> {
    let everything = Route::request_header(Destination::any(destination), 0);
    let replies = ask("list the routes", RTM_GETROUTE, Ask::All, &everything)?;
    Ok(replies
        .iter()
        .filter_map(|reply| Route::from_bytes(reply))
        .collect())
}
