//! Knowledge of this machine about the path to another one: round-trip time, interface, and how
//! much window its receive memory gives.
//!
//! Sends nothing but the handshakes of connections that are closed at once.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use base::{FlowSample, LinkSample};

use crate::error::{Error, Result};
use crate::links::link_samples;
use crate::netlink::route::{self, Destination};
use crate::sock_diag::{ScanRequest, SockDiag};
use crate::workload::SocketSpec;

/// Handshakes of a probe; the fastest counts.
const PROBES: usize = 5;

/// Path properties seen by the connections to a host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathTo {
    /// The smallest round-trip time that one of them saw.
    pub rtt: Duration,
    /// How many told it.
    pub connections: usize,
    /// Window per byte of receive memory (Linux `scaling_ratio`), as the window that grew most
    /// shows it: at least a half, with which a connection begins.
    pub receive_ratio: f64,
}

/// Path properties seen by the open connections to a host; `None` where none has a round-trip time.
///
/// # Errors
/// As [`SockDiag::scan`].
pub fn seen_path_to(host: IpAddr) -> Result<Option<PathTo>> {
    let samples = SockDiag::open()?.scan(&ScanRequest::default())?;
    let host = host.to_canonical();
    let to_host = |sample: &&FlowSample| sample.key.remote.ip().to_canonical() == host;
    Ok(told_by(samples.iter().filter(to_host)))
}

/// Opens some connections to an open port, one after the other, and asks the kernel how long their
/// handshakes took.
///
/// # Errors
/// [`Error::Peer`] where the host refuses or does not answer within `timeout`.
pub fn probe_path_to(remote: SocketAddr, timeout: Duration) -> Result<PathTo> {
    let mut diag = SockDiag::open()?;
    let mut best: Option<PathTo> = None;
    for _ in 0..PROBES {
        let stream = SocketSpec::default().connect(remote, timeout)?;
        let local = stream
            .local_addr()
            .map_err(Error::os("the address of a socket"))?;
        let samples = diag.scan(&ScanRequest {
            local_port: Some(local.port()),
            remote_port: Some(remote.port()),
            ..ScanRequest::default()
        })?;
        let ours = |sample: &&FlowSample| sample.key.local.port() == local.port();
        let Some(told) = told_by(samples.iter().filter(ours)) else {
            continue;
        };
        let connections = best.map_or(0, |best| best.connections) + 1;
        let rtt = best.map_or(told.rtt, |best| best.rtt.min(told.rtt));
        best = Some(PathTo {
            rtt,
            connections,
            ..told
        });
    }
    best.ok_or_else(|| Error::Unsupported {
        what: "the round-trip time of a connection".into(),
        hint: "the kernel did not tell it".into(),
    })
}

fn told_by<'s>(samples: impl Iterator<Item = &'s FlowSample>) -> Option<PathTo> {
    let mut told: Option<PathTo> = None;
    for sample in samples {
        let Some(rtt) = sample.min_rtt.filter(|rtt| !rtt.is_zero()) else {
            continue;
        };
        let mut path = told.unwrap_or(PathTo {
            rtt,
            connections: 0,
            receive_ratio: 0.5,
        });
        path.rtt = path.rtt.min(rtt);
        path.connections += 1;
        if let (Some(window), Some(memory @ 1..)) = (sample.rcv_ssthresh_bytes, sample.rcvbuf_bytes)
        {
            let ratio = f64::from(window) / f64::from(memory);
            path.receive_ratio = path.receive_ratio.max(ratio.min(1.0));
        }
        told = Some(path);
    }
    told
}

/// The interface through which packets to a host leave.
///
/// # Errors
/// [`Error::NotFound`] where no route leads there.
pub fn interface_to(host: IpAddr) -> Result<LinkSample> {
    let destination = Destination::of_host(host.to_canonical());
    let (route::Found::Exact(route) | route::Found::Covering(route)) = route::find(destination)?;
    let index = route.interface();
    let mut links = link_samples()?.into_iter();
    links
        .find(|link| Some(link.index) == index)
        .ok_or_else(|| Error::NotFound {
            what: "interface towards",
            name: host.to_string(),
            hint: "; `ip route get` shows the way".into(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{FlowKey, Instant};
    use std::net::{Ipv4Addr, TcpListener};

    #[test]
    fn a_probe_and_an_open_connection_tell_the_round_trip_time() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("its address");
        let probed = probe_path_to(address, Duration::from_secs(5)).expect("loopback answers");
        assert!(probed.rtt > Duration::ZERO && probed.connections > 0);
        let _open = std::net::TcpStream::connect(address).expect("loopback answers");
        let seen = seen_path_to(address.ip()).expect("a scan");
        assert!(seen.is_some_and(|seen| seen.connections > 0), "{seen:?}");
        let link = interface_to(address.ip()).expect("a route");
        assert_eq!(link.name, "lo");
    }

    #[test]
    fn a_port_that_nobody_listens_on_is_named() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("its address");
        drop(listener);
        let error = probe_path_to(address, Duration::from_secs(5)).expect_err("refused");
        assert!(error.to_string().contains(&address.to_string()), "{error}");
    }

    #[test]
    fn the_smallest_time_and_the_largest_window_count() {
        let key = FlowKey {
            local: "10.0.0.5:1".parse().expect("an address"),
            remote: "10.0.0.9:2".parse().expect("an address"),
        };
        let sample = |rtt_us, window, memory| FlowSample {
            min_rtt: rtt_us,
            rcv_ssthresh_bytes: Some(window),
            rcvbuf_bytes: Some(memory),
            ..FlowSample::empty(Instant::from_nanos(0), key)
        };
        let time = |us| Some(Duration::from_micros(us));
        let check = |samples: &[FlowSample], expected: Option<(u64, usize, f64)>| {
            let told = told_by(samples.iter());
            let shown = told.map(|path| {
                let us = u64::try_from(path.rtt.as_micros()).expect("small");
                (us, path.connections, path.receive_ratio)
            });
            assert_eq!(shown, expected);
        };
        check(&[], None);
        check(&[sample(None, 1, 1)], None);
        check(&[sample(time(9), 1, 0)], Some((9, 1, 0.5)));
        check(
            &[
                sample(time(1580), 3000, 4000),
                sample(time(1490), 1000, 4000),
            ],
            Some((1490, 2, 0.75)),
        );
    }
}
