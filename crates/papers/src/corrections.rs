//! Errors and contradictions in the published documents, with the wording that a report uses
//! instead. The facts are told in our words.

use base::knob::nearest;
use serde::Serialize;

/// One mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Correction {
    /// `D-`, the letter of the document (N, P, W, F, R) and a number.
    pub id: &'static str,
    /// Statement in the document.
    pub says: &'static str,
    /// The error in it.
    pub wrong: &'static str,
    /// The correction.
    pub corrected: &'static str,
    /// How a report says it.
    pub wording: &'static str,
}

/// All, by document.
pub const CORRECTIONS: &[Correction] = &[
    Correction {
        id: "D-N1",
        says: "from .907 to .658 s, \"a 34% speed increase\"",
        wrong: "0.907 / 0.658 is 1.378",
        corrected: "37.8 % more speed, or 27.5 % less time",
        wording: "37.8 % faster (the article says 34 %)",
    },
    Correction {
        id: "D-N2",
        says: "\"267% speed increase\" and \"329% increase\"",
        wrong: "these are the ratios 5.66 / 2.12 = 2.67 and 5.66 / 1.72 = 3.29",
        corrected: "increases of 167 % and 229 %",
        wording: "2.67 and 3.29 times as fast",
    },
    Correction {
        id: "D-N3",
        says: "a buffer of 1548 bytes less \"the TCP header and some other options\" holds 1500 \
               bytes of payload",
        wrong: "1500 bytes are the IP packet; its headers take 40 of them",
        corrected: "one buffer carries one segment of 1460 bytes",
        wording: "1460 bytes per buffer",
    },
    Correction {
        id: "D-N4",
        says: "the largest window is 65536 bytes, so 65536 / 1500 = 43 buffers are the most",
        wrong: "a field of 16 bits ends at 65535, and 65535 / 1460 is 44.9; 43 follows only from 1500",
        corrected: "43 buffers are safe, 44 still fit",
        wording: "at most 43 buffers (62780 bytes)",
    },
    Correction {
        id: "D-N5",
        says: "transfer times of a \"4MB\" file",
        wrong: "direction, round-trip time, the peer's settings and the size in bytes (4000000 \
               or 4194304) are not given",
        corrected: "they cannot be reproduced without fitting a parameter",
        wording: "the round-trip time is fitted on the first value",
    },
    Correction {
        id: "D-N6",
        says: "the defaults, PUSH and Nagle enabled, are fairly fast for interaction",
        wrong: "with Nagle on a small write waits for the acknowledgement of the one before",
        corrected: "a preset for low latency must set SO_NONAGLE",
        wording: "the defaults favour bulk",
    },
    Correction {
        id: "D-N7",
        says: "in the summary \"5 each of ACK, RX and TX\"",
        wrong: "the out-of-order buffers, also 5, are left out; headers of 2009 have 3 segments",
        corrected: "four budgets of 5 buffers",
        wording: "transmit, unacknowledged, receive and out-of-order: 5 buffers each",
    },
    Correction {
        id: "D-N8",
        says: "5.66, 2.12 and 1.72 s over the same link",
        wrong: "no round-trip time, rate and queue give all three together",
        corrected: "only the value with 5 buffers can be fitted",
        wording: "the second and third values are not explained by rate, round-trip time and queue",
    },
    Correction {
        id: "D-N9",
        says: "0.658 s on 100 Mbit/s",
        wrong: "that is about twice the time the network needs (0.354 s on the kernel)",
        corrected: "the device was the limit",
        wording: "device-limited",
    },
    Correction {
        id: "D-N10",
        says: "SetSocketUnackBuffers",
        wrong: "the name occurs in no other source; the header file has setsocketackbuffers",
        corrected: "one setting with two names",
        wording: "SetSocketUnackBuffers, in the header file setsocketackbuffers",
    },
    Correction {
        id: "D-N11",
        says: "the pool has 256 buffers by default",
        wrong: "it depends on the release: 64, 256 or 128",
        corrected: "a value of the profile",
        wording: "256 in the article",
    },
    Correction {
        id: "D-P1",
        says: "\"simulation results\" in the abstract",
        wrong: "the text describes measurements on hosts and virtual machines",
        corrected: "measurements",
        wording: "measured by the authors",
    },
    Correction {
        id: "D-P2",
        says: "the default buffer of 85 KB (87380 bytes) limits the flow",
        wrong: "87380 is the initial size; automatic sizing grows it up to the maximum of tcp_rmem",
        corrected: "the default limit is the maximum, not the initial size",
        wording: "with automatic sizing on, the initial size limits nothing",
    },
    Correction {
        id: "D-P3",
        says: "501 against 506 Mbit/s shows the rule of the bandwidth-delay product",
        wrong: "at 1.49 ms 501 Mbit/s need 93311 bytes, more than 87380; 1.0 % is within noise; \
               both values suggest a cap near 500 Mbit/s",
        corrected: "the flow was not limited by that buffer",
        wording: "a 1 % difference, compatible with a rate cap; not evidence for the buffer",
    },
    Correction {
        id: "D-P4",
        says: "rmem_max and wmem_max are the maximum receive and transmit window",
        wrong: "they bound only buffers that a program sets itself",
        corrected: "the maxima of tcp_rmem and tcp_wmem bound automatic sizing",
        wording: "rmem_max and wmem_max for explicit buffers, tcp_rmem and tcp_wmem for automatic ones",
    },
    Correction {
        id: "D-P5",
        says: "the product of the DSL line is \"even lesser\" than that of the LAN",
        wrong: "it uses the LAN's round-trip time; that of DSL is tens of ms (300 kbit at 30 ms)",
        corrected: "the default still suffices up to 70 ms",
        wording: "holds below 70 ms of round-trip time",
    },
    Correction {
        id: "D-P6",
        says: "an MTU of 10000 is best with any buffer length",
        wrong: "below one bandwidth-delay product the MTU makes no difference; Azure documents \
               1500 as its default",
        corrected: "it helps only where packets, the queue or the processor limit",
        wording: "above one bandwidth-delay product",
    },
    Correction {
        id: "D-P7",
        says: "a buffer that is much too small \"will increase packet loss\"",
        wrong: "flow control makes the sender wait, as the same paragraph says",
        corrected: "a lower rate, no loss",
        wording: "limits the rate",
    },
    Correction {
        id: "D-P8",
        says: "a queue of 8000 packets is the optimum",
        wrong: "a queue longer than was ever filled cannot matter, and latency is not reported",
        corrected: "a plateau from about one bandwidth-delay product",
        wording: "more queue, more delay, no more throughput",
    },
    Correction {
        id: "D-P9",
        says: "the default buffer \"is higher than the BDP ... due to low RTT, whereas it is \
               higher for broadband case due to low bandwidth\"",
        wrong: "\"higher\" twice with the same meaning reads like a contrast",
        corrected: "the default is above the product in both home cases",
        wording: "the default buffer is above the bandwidth-delay product in both home cases",
    },
    Correction {
        id: "D-P10",
        says: "tcp_sack is listed among the keys with \"major impact\"",
        wrong: "no result with it is given",
        corrected: "untested there",
        wording: "listed, not tested",
    },
    Correction {
        id: "D-P11",
        says: "\"large frames will severely impact\" performance under congestion",
        wrong: "asserted, not measured",
        corrected: "it depends on whether loss is per packet or per byte",
        wording: "an assertion",
    },
    Correction {
        id: "D-P12",
        says: "\"fcp_sack\", \"Alpha-8\", \"10°\"",
        wrong: "errors of scanning",
        corrected: "tcp_sack, presumably A8, 10^9",
        wording: "tcp_sack, A8 and 10^9 (scanning errors)",
    },
    Correction {
        id: "D-P13",
        says: "a buffer that is too large makes \"the system slow\"",
        wrong: "no measurement is given",
        corrected: "queueing delay and memory",
        wording: "costs memory and may add delay",
    },
    Correction {
        id: "D-W1",
        says: "\"During the test it was found\": 5 pieces of data per second",
        wrong: "the original says that its case studies are fabricated",
        corrected: "5 per second follow from one acknowledgement per 200 ms",
        wording: "a constructed example; 5 per second follow from the timer",
    },
    Correction {
        id: "D-W2",
        says: "case 1: \"disable the Nagle algorithm\"",
        wrong: "not in the original, which sets SO_SNDBUF to 0 there; its own analysis says that \
               TCP_NODELAY is not set",
        corrected: "Nagle is on, and is not the cause either: the case stalls without it",
        wording: "with a send buffer of 0 the send waits for the acknowledgement, Nagle or not",
    },
    Correction {
        id: "D-W3",
        says: "\"10000 records, about KB\"",
        wrong: "the number is lost",
        corrected: "at most 976 KB (10000 x 100 / 1024), 600 KB on average",
        wording: "at most 976 KB",
    },
    Correction {
        id: "D-W4",
        says: "the MTU of TCP is 1460 bytes",
        wrong: "1460 is the maximum segment size; the MTU is 1500 (wrong in the original too)",
        corrected: "a full packet carries 1460 bytes of data",
        wording: "MSS 1460",
    },
    Correction {
        id: "D-W5",
        says: "data that \"exceeds the MTU\" is sent at once",
        wrong: "a full packet is sent at once; the rest waits",
        corrected: "at least one full segment",
        wording: "full segments go at once",
    },
    Correction {
        id: "D-W6",
        says: "\"SO_SNDBUT\", \"service segment\", \"stock number\"",
        wrong: "errors of translation",
        corrected: "SO_SNDBUF, server, stock symbol",
        wording: "SO_SNDBUF, server, stock symbol (translation)",
    },
    Correction {
        id: "D-W7",
        says: "\"Add each record to 100 bytes\"",
        wrong: "it means to pad them",
        corrected: "1000000 instead of about 600000 bytes",
        wording: "padding adds 67 % data",
    },
    Correction {
        id: "D-W8",
        says: "four suggestions",
        wrong: "the original has five; \"send at once: set TCP_NODELAY\" is missing, as are the \
               odd last packet and the remark on overlapped sends",
        corrected: "five suggestions",
        wording: "five suggestions; the missing one is TCP_NODELAY",
    },
    Correction {
        id: "D-W9",
        says: "the rules of completion speak of \"packets\" and \"data\"",
        wrong: "the original speaks of sends",
        corrected: "the rules count sends, not packets",
        wording: "sends",
    },
    Correction {
        id: "D-W10",
        says: "\"TCP packet is not configured in the design scheme Latency Response\"",
        wrong: "it cannot be translated",
        corrected: "delayed acknowledgements, Nagle and buffering in Winsock act together",
        wording: "delayed acknowledgements, Nagle and Winsock's buffering act together",
    },
    Correction {
        id: "D-W11",
        says: "\"the only exception is\" SO_SNDBUF set to 0",
        wrong: "completion then relates to the wire, and case 1 shows that it waits for the \
               acknowledgement",
        corrected: "a send completes when it is acknowledged",
        wording: "complete on acknowledgement",
    },
    Correction {
        id: "D-F1",
        says: "\"about 1000% better performance in his tests\"",
        wrong: "a calculation; 256 K / 32 K is 8, which is +700 %; what was measured is 1.6 and \
               5.7 MB/s",
        corrected: "8 times at most; 3.56 times measured",
        wording: "8 times by calculation, 3.56 times measured",
    },
    Correction {
        id: "D-F2",
        says: "a limit of 256 K gave a \"double growth\"",
        wrong: "256 K would have given 2827 and 1583 KiB/s",
        corrected: "the receiver's window of 64 KB was the limit: 32 K became 64 K",
        wording: "doubled because the receiver allowed 64 KB",
    },
    Correction {
        id: "D-F3",
        says: "two tests after the patch",
        wrong: "only one pair of numbers is shown",
        corrected: "one test",
        wording: "the second run is not published",
    },
    Correction {
        id: "D-F4",
        says: "no round-trip time",
        wrong: "from the rates: site A 90.6 ms before and 92.1 after, site B 161.7 and 165.6; \
               both halves agree within 2.5 %",
        corrected: "91 and 163 ms",
        wording: "round-trip time inferred from the published rates",
    },
    Correction {
        id: "D-F5",
        says: "clock times 10:41 and 07:41",
        wrong: "three hours apart",
        corrected: "time zones of the two clients",
        wording: "the clock times are those of two time zones",
    },
    Correction {
        id: "D-F6",
        says: "\"two versions of patch\"",
        wrong: "these are for CURRENT and RELENG_6; the results are of RELENG_6",
        corrected: "RELENG_6",
        wording: "measured on RELENG_6",
    },
    Correction {
        id: "D-F7",
        says: "\"KB/s\"",
        wrong: "the KB of wget has 1024 bytes",
        corrected: "KiB/s",
        wording: "KiB/s",
    },
    Correction {
        id: "D-R1",
        says: "TCP \"has to wait to check if the application has more data\"",
        wrong: "it waits for an acknowledgement (Nagle), which the receiver delays by 40 ms",
        corrected: "Nagle and delayed acknowledgements act together",
        wording: "waits for the delayed acknowledgement",
    },
    Correction {
        id: "D-R2",
        says: "\"In all cases it will send 15 packets\"",
        wrong: "15 writes; the packets are about 2, 15 or 1",
        corrected: "writes",
        wording: "15 writes of 2 bytes",
    },
    Correction {
        id: "D-R3",
        says: "cork \"halves the time\"",
        wrong: "850.8 / 1649.8 is 0.516 on the host of 2007, and 0.18 to 0.2 today",
        corrected: "the ratio depends on what a packet costs",
        wording: "0.52 of the time of TCP_NODELAY in 2007; it depends on the cost of a packet",
    },
    Correction {
        id: "D-R4",
        says: "sentences on what TCP_NODELAY turns off, why small writes hurt, what cork is for \
               and what the server does are missing",
        wrong: "the page was cut",
        corrected: "the sources behind the page have them",
        wording: "taken from the sources behind the page",
    },
    Correction {
        id: "D-R5",
        says: "the server takes a count of packets",
        wrong: "the versions of the repository ignore it",
        corrected: "accepted, ignored",
        wording: "the count of the server is ignored",
    },
    Correction {
        id: "D-R6",
        says: "40.01 ms per exchange without options",
        wrong: "that is a kernel tick of 1 ms; with HZ=250 it is 44.0 ms",
        corrected: "the timer and one tick",
        wording: "the delayed acknowledgement, rounded to the kernel's tick",
    },
    Correction {
        id: "D-R7",
        says: "\"packets of 30 bytes\" in the output",
        wrong: "these are logical packets",
        corrected: "messages",
        wording: "messages of 30 bytes",
    },
    Correction {
        id: "D-R8",
        says: "\"bytes/ms\" with six decimals",
        wrong: "a float of single precision does not have them",
        corrected: "printed as they are for compatibility",
        wording: "six decimals, as the program prints them",
    },
];

/// The correction of this id.
///
/// # Errors
/// The nearest id that exists, if one is near.
pub fn find_correction(id: &str) -> Result<&'static Correction, Option<&'static str>> {
    let found = CORRECTIONS.iter().find(|correction| correction.id == id);
    found.ok_or_else(|| nearest(id, CORRECTIONS.iter().map(|correction| correction.id)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_are_unique_and_count_on_by_document() {
        let ids: BTreeSet<&str> = CORRECTIONS.iter().map(|row| row.id).collect();
        assert_eq!(ids.len(), CORRECTIONS.len());
        for (letter, count) in [("N", 11), ("P", 13), ("W", 11), ("F", 7), ("R", 8)] {
            for number in 1..=count {
                let id = format!("D-{letter}{number}");
                let found = find_correction(&id).unwrap_or_else(|_| panic!("{id} is missing"));
                for text in [found.says, found.wrong, found.corrected, found.wording] {
                    assert!(!text.is_empty() && !text.contains("  "), "{id}: `{text}`");
                }
            }
        }
        assert_eq!(ids.len(), 11 + 13 + 11 + 7 + 8);
    }

    #[test]
    fn a_misspelt_id_is_recognised() {
        assert_eq!(find_correction("D-N88"), Err(Some("D-N8")));
        assert_eq!(find_correction("nothing like it"), Err(None));
    }
}
