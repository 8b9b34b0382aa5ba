//! The interfaces of a namespace and their queueing disciplines, with statistics.

use base::{LinkSample, QdiscSample};
use rustix::net::Protocol;

use crate::error::{Error, Result};
use crate::netlink_dump::{
    Answer, Ask, Attributes, DUMP_ATTEMPTS, NetlinkSocket, text, u32_at, u64_at,
};

/// `NETLINK_ROUTE` has the number 0, which rustix spells as no protocol.
const ROUTE: Option<Protocol> = None;
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_NEWQDISC: u16 = 36;
const RTM_GETQDISC: u16 = 38;

/// Length of `struct ifinfomsg`.
const IFINFO_BYTES: usize = 16;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_TXQLEN: u16 = 13;
const IFLA_STATS64: u16 = 23;

/// Length of `struct tcmsg`.
const TCMSG_BYTES: usize = 20;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_STATS2: u16 = 7;
const TCA_STATS_QUEUE: u16 = 3;

/// The interfaces of the calling thread's namespace by index, each with its queueing disciplines,
/// the root first. Needs no privilege.
///
/// # Errors
/// [`Error::Os`] where the kernel refuses or no descriptor is left.
pub fn link_samples() -> Result<Vec<LinkSample>> {
    let mut netlink = NetlinkSocket::open(ROUTE, "rtnetlink")?;
    let mut links = dump(&mut netlink, RTM_GETLINK, IFINFO_BYTES, |kind, message| {
        (kind == RTM_NEWLINK).then(|| read_link(message))?
    })?;
    let qdiscs = dump(&mut netlink, RTM_GETQDISC, TCMSG_BYTES, |kind, message| {
        (kind == RTM_NEWQDISC).then(|| read_qdisc(message))?
    })?;
    links.sort_by_key(|link| link.index);
    for (index, qdisc) in qdiscs {
        if let Ok(at) = links.binary_search_by_key(&index, |link| link.index) {
            links[at].qdiscs.push(qdisc);
        }
    }
    for link in &mut links {
        link.qdiscs
            .sort_by_key(|qdisc| std::cmp::Reverse(qdisc.parent));
    }
    Ok(links)
}

fn dump<T>(
    netlink: &mut NetlinkSocket,
    request: u16,
    head_bytes: usize,
    mut read: impl FnMut(u16, &[u8]) -> Option<T>,
) -> Result<Vec<T>> {
    let mut found = Vec::new();
    for _ in 0..DUMP_ATTEMPTS {
        found.clear();
        let answer = netlink
            .exchange(
                (request, Ask::All),
                &vec![0; head_bytes],
                |kind, message| {
                    found.extend(read(kind, message));
                },
            )
            .map_err(Error::errno("list interfaces by rtnetlink"))?;
        if answer == Answer::Whole {
            break;
        }
    }
    Ok(found)
}

fn read_link(message: &[u8]) -> Option<LinkSample> {
    let mut link = LinkSample {
        index: u32_at(message, 4)?,
        ..LinkSample::default()
    };
    for (number, payload) in Attributes(message.get(IFINFO_BYTES..)?) {
        match number {
            IFLA_IFNAME => link.name = text(payload),
            IFLA_MTU => link.mtu_bytes = u32_at(payload, 0)?,
            IFLA_TXQLEN => link.txqueuelen_pkts = u32_at(payload, 0)?,
            IFLA_STATS64 => {
                // `struct rtnl_link_stats64`: received and sent alternate.
                let count = |index: usize| u64_at(payload, index * 8).unwrap_or(0);
                link.rx_pkts = count(0);
                link.tx_pkts = count(1);
                link.rx_bytes = count(2);
                link.tx_bytes = count(3);
                link.rx_dropped_pkts = count(6);
                link.tx_dropped_pkts = count(7);
                let [over, fifo, missed] = [11, 14, 15].map(count);
                link.rx_missed_pkts = Some(over.max(fifo).max(missed));
            }
            _ => {}
        }
    }
    Some(link)
}

/// The index of the interface, and one of its queueing disciplines.
fn read_qdisc(message: &[u8]) -> Option<(u32, QdiscSample)> {
    let index = u32_at(message, 4)?;
    let mut qdisc = QdiscSample {
        handle: u32_at(message, 8)?,
        parent: u32_at(message, 12)?,
        ..QdiscSample::default()
    };
    let mut options: &[u8] = &[];
    for (number, payload) in Attributes(message.get(TCMSG_BYTES..)?) {
        match number {
            TCA_KIND => qdisc.kind = text(payload),
            TCA_OPTIONS => options = payload,
            TCA_STATS2 => fill_queue(&mut qdisc, payload),
            _ => {}
        }
    }
    qdisc.limit = limit(&qdisc.kind, options);
    Some((index, qdisc))
}

fn fill_queue(qdisc: &mut QdiscSample, statistics: &[u8]) {
    let Some((_, queue)) = Attributes(statistics).find(|&(number, _)| number == TCA_STATS_QUEUE)
    else {
        return;
    };
    // `struct gnet_stats_queue`: length, backlog, drops, requeues, overlimits.
    let count = |index: usize| u32_at(queue, index * 4).map_or(0, u64::from);
    qdisc.backlog_pkts = count(0);
    qdisc.backlog_bytes = count(1);
    qdisc.dropped_pkts = count(2);
    qdisc.overlimits = count(4);
}

/// The limit in the options of the kinds that have one (`include/uapi/linux/pkt_sched.h`).
fn limit(kind: &str, options: &[u8]) -> Option<u64> {
    const TBF_PARMS: u16 = 1;
    const FQ_PLIMIT: u16 = 1;
    const CODEL_LIMIT: u16 = 2;
    const FQ_CODEL_LIMIT: u16 = 2;
    let nested = |wanted| {
        Attributes(options)
            .find(|&(number, _)| number == wanted)
            .map(|(_, payload)| payload)
    };
    match kind {
        "pfifo" | "bfifo" => u32_at(options, 0),
        // After the rate and the peak rate, of 12 bytes each.
        "tbf" => u32_at(nested(TBF_PARMS)?, 24),
        // After the latency; after the quantum and the perturbation period.
        "netem" => u32_at(options, 4),
        "sfq" => u32_at(options, 8),
        "fq" => u32_at(nested(FQ_PLIMIT)?, 0),
        "codel" => u32_at(nested(CODEL_LIMIT)?, 0),
        "fq_codel" => u32_at(nested(FQ_CODEL_LIMIT)?, 0),
        _ => None,
    }
    .map(u64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(number: u16, payload: &[u8]) -> Vec<u8> {
        let mut bytes = (payload.len() as u16 + 4).to_ne_bytes().to_vec();
        bytes.extend_from_slice(&number.to_ne_bytes());
        bytes.extend_from_slice(payload);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn a_qdisc_is_read_with_its_queue_and_limit() {
        let parameters = attribute(1, &words(&[0, 0, 0, 0, 0, 0, 30_000, 5]));
        let message = [
            words(&[0, 3, 0x8001_0000, u32::MAX, 0]),
            attribute(TCA_KIND, b"tbf\0"),
            attribute(TCA_OPTIONS, &parameters),
            attribute(
                TCA_STATS2,
                &[
                    attribute(1, &[9; 12]),
                    attribute(TCA_STATS_QUEUE, &words(&[12, 18_000, 2, 0, 5066])),
                ]
                .concat(),
            ),
        ]
        .concat();
        let (index, qdisc) = read_qdisc(&message).expect("a qdisc");
        assert_eq!((index, qdisc.kind.as_str()), (3, "tbf"));
        assert_eq!(qdisc.limit, Some(30_000));
        assert_eq!((qdisc.backlog_pkts, qdisc.backlog_bytes), (12, 18_000));
        assert_eq!((qdisc.dropped_pkts, qdisc.overlimits), (2, 5066));
        for length in 0..message.len() {
            read_qdisc(&message[..length]);
        }
    }

    #[test]
    fn limits_are_found_by_kind() {
        let check = |kind, options: &[u8], expected| assert_eq!(limit(kind, options), expected);
        check("pfifo", &words(&[100]), Some(100));
        check("fq", &attribute(1, &words(&[10_000])), Some(10_000));
        check("fq_codel", &attribute(2, &words(&[10_240])), Some(10_240));
        check("sfq", &words(&[1514, 0, 127]), Some(127));
        check("netem", &words(&[0, 1000]), Some(1000));
        check("pfifo_fast", &words(&[3, 0, 0]), None);
        check("pfifo", &[], None);
        check("tbf", &[], None);
    }

    #[test]
    fn a_link_is_read_with_its_counters() {
        let counters: Vec<u8> = (1..=24_u64).flat_map(u64::to_ne_bytes).collect();
        let message = [
            words(&[0, 7, 0, 0]),
            attribute(IFLA_IFNAME, b"eth0\0"),
            attribute(IFLA_MTU, &words(&[1500])),
            attribute(IFLA_TXQLEN, &words(&[1000])),
            attribute(IFLA_STATS64, &counters),
        ]
        .concat();
        let link = read_link(&message).expect("a link");
        assert_eq!((link.index, link.name.as_str()), (7, "eth0"));
        assert_eq!((link.mtu_bytes, link.txqueuelen_pkts), (1500, 1000));
        assert_eq!((link.rx_pkts, link.tx_pkts), (1, 2));
        assert_eq!((link.rx_bytes, link.tx_bytes), (3, 4));
        assert_eq!((link.rx_dropped_pkts, link.tx_dropped_pkts), (7, 8));
        assert_eq!(link.rx_missed_pkts, Some(16));
    }
}
