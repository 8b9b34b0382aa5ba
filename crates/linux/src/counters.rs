//! Counters shared by the flows of a namespace: its protocol counters, its sysctls, its interfaces.
//!
//! Read from `/proc/thread-self/net` and `/proc/sys/net`, which show the namespace of the calling
//! thread (`/proc/net` would show that of the process's first thread).

use std::fs;
use std::io;

use base::{CounterSet, HostSample, Instant};

use crate::error::{Error, Result};
use crate::links::link_samples;

/// Counters, interfaces with their queues, and these sysctls, of the calling thread's namespace. A
/// sysctl that this kernel or namespace does not have is left out.
///
/// # Errors
/// Where `/proc` is not mounted or the kernel refuses to list interfaces.
pub fn host_sample(now: Instant, sysctls: &[&str]) -> Result<HostSample> {
    Ok(HostSample {
        at: now,
        counters: counters()?,
        links: link_samples()?,
        listeners: Vec::new(),
        ports: None,
        sysctls: sysctls
            .iter()
            .filter_map(|&name| Some((name.to_owned(), sysctl(name)?)))
            .collect(),
    })
}

/// The counters of the calling thread's namespace by the names of `nstat`, such as `TcpRetransSegs`
/// and `TcpExtDelayedACKs`, and the gauges of `sockstat` as `Sockstat` + protocol + name, such as
/// `SockstatTCPmem` (in pages). Beside them sums over all processors: `SoftnetDropped` and
/// `SoftnetTimeSqueeze`, which are of the whole machine, and of connection tracking
/// `ConntrackDrop`, `ConntrackEarlyDrop` and `ConntrackInsertFailed`, where it is loaded.
///
/// # Errors
/// Where `/proc` is not mounted.
pub fn counters() -> Result<CounterSet> {
    let mut counters = CounterSet::new();
    for name in ["snmp", "netstat"] {
        parse_tables(&read(name)?, &mut counters);
    }
    parse_sockstat(&read("sockstat")?, &mut counters);
    parse_softnet(&read("softnet_stat")?, &mut counters);
    // May need root.
    let tracking = fs::read_to_string("/proc/thread-self/net/stat/nf_conntrack");
    parse_conntrack(&tracking.unwrap_or_default(), &mut counters);
    Ok(counters)
}

/// A sysctl of the calling thread's namespace by its dotted name, with single spaces between its
/// words; `None` where there is none of this name or it may not be read. As with `sysctl(8)`, a dot
/// inside the name of an interface is written as a slash.
#[must_use]
pub fn sysctl(name: &str) -> Option<String> {
    crate::sysctl::read(name).ok()
}

fn read(name: &str) -> Result<String> {
    let path = format!("/proc/thread-self/net/{name}");
    match fs::read_to_string(&path) {
        // A kernel without one of these protocols has no such file.
        Err(error) if error.kind() == io::ErrorKind::NotFound && proc_is_mounted() => {
            Ok(String::new())
        }
        result => result.map_err(Error::os(format!("read {path}"))),
    }
}

fn proc_is_mounted() -> bool {
    fs::exists("/proc/thread-self/net").unwrap_or(false)
}

/// Pairs of lines: names and values, both after the group's name. A value below zero is a setting,
/// not a counter (`TcpMaxConn`), and is left out.
fn parse_tables(text: &str, counters: &mut CounterSet) {
    let mut lines = text.lines();
    while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
        let (Some((group, names)), Some((same, values))) =
            (names.split_once(':'), values.split_once(':'))
        else {
            continue;
        };
        if group != same {
            continue;
        }
        for (name, value) in names.split_whitespace().zip(values.split_whitespace()) {
            if let Ok(value) = value.parse() {
                counters.insert(format!("{group}{name}"), value);
            }
        }
    }
}

/// `TCP: inuse 5 orphan 0 tw 3 alloc 8 mem 1`.
fn parse_sockstat(text: &str, counters: &mut CounterSet) {
    for line in text.lines() {
        let Some((group, rest)) = line.split_once(':') else {
            continue;
        };
        let mut words = rest.split_whitespace();
        while let (Some(name), Some(value)) = (words.next(), words.next()) {
            if let Ok(value) = value.parse() {
                counters.insert(format!("Sockstat{group}{name}"), value);
            }
        }
    }
}

/// A line for each processor, of numbers in base 16: packets, packets dropped because the processor
/// did not keep up (`netdev_max_backlog`), and times that its budget ended before its work.
fn parse_softnet(text: &str, counters: &mut CounterSet) {
    for line in text.lines() {
        let columns = line.split_whitespace();
        let named = [(1, "SoftnetDropped"), (2, "SoftnetTimeSqueeze")];
        for (place, name) in named {
            if let Some(count) = columns.clone().nth(place).and_then(parse_hex) {
                *counters.entry(name.into()).or_insert(0) += count;
            }
        }
    }
}

/// A line of names, and a line of numbers in base 16 for each processor.
fn parse_conntrack(text: &str, counters: &mut CounterSet) {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap_or("").split_whitespace().collect();
    let wanted = [
        ("drop", "ConntrackDrop"),
        ("early_drop", "ConntrackEarlyDrop"),
        ("insert_failed", "ConntrackInsertFailed"),
    ];
    for line in lines {
        for (name, value) in names.iter().zip(line.split_whitespace()) {
            let ours = wanted.iter().find(|(theirs, _)| theirs == name);
            if let (Some((_, ours)), Some(count)) = (ours, parse_hex(value)) {
                *counters.entry((*ours).into()).or_insert(0) += count;
            }
        }
    }
}

fn parse_hex(word: &str) -> Option<u64> {
    u64::from_str_radix(word, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_named_as_by_nstat() {
        let text = "Tcp: RtoMin MaxConn RetransSegs\nTcp: 200 -1 7\n\
                    TcpExt: DelayedACKs\nTcpExt: 83\nOdd: A\nOther: 1\nno colon\nnor here\nlast: 1";
        let mut counters = CounterSet::new();
        parse_tables(text, &mut counters);
        let read: Vec<_> = counters.iter().map(|(k, v)| (k.as_str(), *v)).collect();
        assert_eq!(
            read,
            [
                ("TcpExtDelayedACKs", 83),
                ("TcpRetransSegs", 7),
                ("TcpRtoMin", 200)
            ]
        );
    }

    #[test]
    fn sockstat_is_read_in_pairs() {
        let mut counters = CounterSet::new();
        parse_sockstat("sockets: used 9\nTCP: inuse 5 mem 1 odd\n", &mut counters);
        assert_eq!(counters.get("SockstatTCPinuse"), Some(&5));
        assert_eq!(counters.get("SockstatTCPmem"), Some(&1));
        assert_eq!(counters.get("Sockstatsocketsused"), Some(&9));
        assert_eq!(counters.len(), 3);
    }

    #[test]
    fn counters_of_processors_are_summed() {
        let mut counters = CounterSet::new();
        parse_softnet(
            "0000492b 0000000a 00000001 0\n00009394 00000010 x\n\n",
            &mut counters,
        );
        let tracking = "entries  drop early_drop insert_failed\n00000009 1 0 f\n00000009 2 0\n";
        parse_conntrack(tracking, &mut counters);
        let read: Vec<_> = counters.iter().map(|(k, v)| (k.as_str(), *v)).collect();
        assert_eq!(
            read,
            [
                ("ConntrackDrop", 3),
                ("ConntrackEarlyDrop", 0),
                ("ConntrackInsertFailed", 15),
                ("SoftnetDropped", 26),
                ("SoftnetTimeSqueeze", 1)
            ]
        );
    }

    #[test]
    fn this_host_has_counters_links_and_sysctls() {
        let sample =
            host_sample(Instant::ZERO, &["net.ipv4.tcp_rmem", "net.ipv4.none"]).expect("a sample");
        assert!(sample.counters.contains_key("TcpRetransSegs"));
        assert!(sample.counters.contains_key("TcpExtDelayedACKs"));
        let rmem = &sample.sysctls["net.ipv4.tcp_rmem"];
        assert_eq!(rmem.split(' ').count(), 3, "{rmem}");
        assert_eq!(sample.sysctls.len(), 1);
        let loopback = sample.links.iter().find(|link| link.name == "lo");
        assert_eq!(loopback.map(|link| link.index), Some(1));
        assert_eq!(sysctl("net.ipv4./././etc"), None);
    }
}
