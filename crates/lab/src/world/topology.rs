//! Shapes of paths: chains of links, and dumbbells where many hosts share one link each way.

use base::Rng;
use link::{LinkSpec, SpecError};
use stack::HostConfig;

use super::{LinkId, NodeId, World};
use crate::app::{App, HostCosts};

/// A seed for the next one of several links: they lose different packets.
fn next_seed(seed: &mut u64) -> u64 {
    let this = *seed;
    *seed = Rng::new(this, "reverse link").next_u64();
    this
}

/// Joins two nodes by links in a row, with a router between each two. Each entry of `hops` is the
/// link from `a` to `b` and the one back. Returns the first link of `a` and the first link of `b`.
///
/// # Errors
/// Where a link makes no sense.
///
/// # Panics
/// Where `hops` is empty.
pub fn chain<A: App>(
    world: &mut World<A>,
    (a, b): (NodeId, NodeId),
    hops: &[(LinkSpec, LinkSpec)],
    mut seed: u64,
) -> Result<(LinkId, LinkId), SpecError> {
    assert!(!hops.is_empty(), "a chain of no links");
    let [to_a, to_b] = [a, b].map(|node| world.host(node).addrs().to_vec());
    let (mut here, mut first) = (a, None);
    for (index, (forward, reverse)) in hops.iter().enumerate() {
        let is_last = index + 1 == hops.len();
        let next = if is_last { b } else { world.add_router() };
        let there = world.add_link(here, next, forward.clone(), next_seed(&mut seed))?;
        let back = world.add_link(next, here, reverse.clone(), next_seed(&mut seed))?;
        to_b.iter()
            .for_each(|addr| world.add_route(here, *addr, there));
        to_a.iter()
            .for_each(|addr| world.add_route(next, *addr, back));
        first.get_or_insert(there);
        if is_last {
            return Ok((first.unwrap_or(there), back));
        }
        here = next;
    }
    unreachable!("the last hop returns")
}

/// Hosts on two sides of one link each way.
#[derive(Clone, Debug)]
pub struct Dumbbell {
    /// Hosts on the left.
    pub left: Vec<NodeId>,
    /// Hosts on the right.
    pub right: Vec<NodeId>,
    /// The shared link from left to right.
    pub forward: LinkId,
    /// The shared link from right to left.
    pub reverse: LinkId,
}

/// Makes a dumbbell: every host has `access` to its router and back; the routers are joined by
/// `forward` (left to right) and `reverse`.
///
/// # Errors
/// Where a link makes no sense.
pub fn dumbbell<A: App>(
    world: &mut World<A>,
    hosts: (Vec<HostConfig>, Vec<HostConfig>),
    access: &LinkSpec,
    (forward, reverse): (LinkSpec, LinkSpec),
    mut seed: u64,
) -> Result<Dumbbell, SpecError> {
    let routers = (world.add_router(), world.add_router());
    let forward = world.add_link(routers.0, routers.1, forward, next_seed(&mut seed))?;
    let reverse = world.add_link(routers.1, routers.0, reverse, next_seed(&mut seed))?;
    let mut side = |configs: Vec<HostConfig>, router: NodeId| -> Result<Vec<NodeId>, SpecError> {
        let add = |config: HostConfig| {
            let addrs = config.addrs.clone();
            let host = world.add_host(config, HostCosts::NONE);
            world.add_link(host, router, access.clone(), next_seed(&mut seed))?;
            let link = world.add_link(router, host, access.clone(), next_seed(&mut seed))?;
            addrs
                .iter()
                .for_each(|addr| world.add_route(router, *addr, link));
            Ok(host)
        };
        configs.into_iter().map(add).collect()
    };
    let left = side(hosts.0, routers.0)?;
    let right = side(hosts.1, routers.1)?;
    Ok(Dumbbell {
        left,
        right,
        forward,
        reverse,
    })
}
