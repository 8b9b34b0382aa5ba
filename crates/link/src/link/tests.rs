use base::{Bytes, Fraction, QueueLimit, Rate};
use proptest::prelude::*;

use super::*;
use crate::{Loss, Reorder};

/// A packet that knows which segments it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Super {
    first: u32,
    count: u32,
    segment_bytes: u32,
    last_bytes: u32,
}

impl Super {
    fn new(first: u32, count: u32) -> Self {
        Self {
            first,
            count,
            segment_bytes: 1500,
            last_bytes: 1500,
        }
    }

    /// The same segments as packets of their own.
    fn singles(&self) -> Vec<Self> {
        let mut rest = self.clone();
        let mut singles = Vec::new();
        while rest.count > 1 {
            let tail = rest.split_off(1);
            singles.push(rest);
            rest = tail;
        }
        singles.push(rest);
        singles
    }

    fn ids(&self) -> core::ops::Range<u32> {
        self.first..self.first + self.count
    }
}

impl WirePacket for Super {
    fn segments(&self) -> u32 {
        self.count
    }

    fn wire_bytes(&self) -> u64 {
        u64::from(self.segment_bytes) * u64::from(self.count - 1) + u64::from(self.last_bytes)
    }

    fn largest_segment_bytes(&self) -> u32 {
        if self.count == 1 {
            self.last_bytes
        } else {
            self.segment_bytes
        }
    }

    fn split_off(&mut self, at: u32) -> Self {
        assert!(0 < at && at < self.count, "cut at {at} of {}", self.count);
        let tail = Self {
            first: self.first + at,
            count: self.count - at,
            ..self.clone()
        };
        (self.count, self.last_bytes) = (at, self.segment_bytes);
        tail
    }

    fn duplicate(&self) -> Self {
        self.clone()
    }
}

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn link(spec: LinkSpec) -> Link<Super> {
    Link::new(spec, 1).expect("a valid link")
}

fn rate(text: &str) -> Option<Rate> {
    Some(text.parse().expect("a rate"))
}

/// All that arrives until the end of time: microseconds and segments, as text.
fn arrivals(link: &mut Link<Super>) -> String {
    core::iter::from_fn(|| link.poll_deliver_at(Instant::MAX))
        .map(|(at, packet)| {
            let (first, last) = (packet.first, packet.first + packet.count - 1);
            let ids = if first == last {
                format!("{first}")
            } else {
                format!("{first}-{last}")
            };
            format!("{}us:{ids}", at.as_nanos() / 1000)
        })
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn a_burst_of_20_into_a_queue_of_10() {
    // 12 Mbit/s: 1 ms per packet. One is on the wire, ten wait, nine find the queue full.
    let spec = LinkSpec {
        rate: rate("12mbit"),
        delay: ms(5),
        queue: QueueLimit::Packets(10),
        ..LinkSpec::ideal()
    };
    let expected = "6000us:0 7000us:1 8000us:2 9000us:3 10000us:4 11000us:5 12000us:6 13000us:7 \
                    14000us:8 15000us:9 16000us:10";
    let mut whole = link(spec.clone());
    let handled = whole.handle_packet(Instant::ZERO, Super::new(0, 20));
    assert_eq!(
        handled,
        Handled {
            accepted: 11,
            dropped: 9,
            too_big: None
        }
    );
    assert_eq!(arrivals(&mut whole), expected);

    let mut singles = link(spec);
    for packet in Super::new(0, 20).singles() {
        let _ = singles.handle_packet(Instant::ZERO, packet);
    }
    assert_eq!(arrivals(&mut singles), expected);
    assert_eq!(singles.stats(), whole.stats());
    let stats = whole.stats();
    assert_eq!(
        (stats.queue_packets_max, stats.queue_bytes_max),
        (10, 15_000)
    );
    assert_eq!(
        (stats.delivered, stats.queue_dropped, stats.inside),
        (11, 9, 0)
    );
}

#[test]
// tidy: long because it is a table.
fn the_queue_overflows_inside_a_gso_packet() {
    // 12 Mbit/s again. A first GSO packet of five comes at 0, a second one at `at_us`.
    let check = |queue: &str, at_us: u64, second: Super, expected: &str| {
        let spec = LinkSpec {
            rate: rate("12mbit"),
            queue: queue.parse().expect("a queue"),
            ..LinkSpec::ideal()
        };
        let mut link = link(spec);
        let _ = link.handle_packet(Instant::ZERO, Super::new(0, 5));
        let before = link.stats().queue_packets;
        let now = Instant::from_nanos(at_us * 1000);
        let handled = link.handle_packet(now, second);
        let shown = format!(
            "{before} wait; {} in, {} out; {} wait; {}",
            handled.accepted,
            handled.dropped,
            link.stats().queue_packets,
            link.stats().queue_bytes
        );
        assert_eq!(shown, expected, "queue {queue}, second at {at_us} us");
    };
    let small_last = |count| Super {
        last_bytes: 100,
        ..Super::new(5, count)
    };
    check(
        "10p",
        0,
        Super::new(5, 10),
        "4 wait; 6 in, 4 out; 10 wait; 15000",
    );
    check(
        "10p",
        999,
        Super::new(5, 10),
        "4 wait; 6 in, 4 out; 10 wait; 15000",
    );
    check(
        "10p",
        1000,
        Super::new(5, 10),
        "4 wait; 7 in, 3 out; 10 wait; 15000",
    );
    check(
        "10p",
        2500,
        Super::new(5, 10),
        "4 wait; 8 in, 2 out; 10 wait; 15000",
    );
    check(
        "10p",
        4000,
        Super::new(5, 10),
        "4 wait; 10 in, 0 out; 10 wait; 15000",
    );
    check(
        "10p",
        5000,
        Super::new(5, 10),
        "4 wait; 10 in, 0 out; 9 wait; 13500",
    );
    check(
        "10p",
        9000,
        Super::new(5, 12),
        "4 wait; 11 in, 1 out; 10 wait; 15000",
    );
    check(
        "4p",
        0,
        Super::new(5, 1),
        "4 wait; 0 in, 1 out; 4 wait; 6000",
    );
    check(
        "9000B",
        0,
        Super::new(5, 10),
        "4 wait; 2 in, 8 out; 6 wait; 9000",
    );
    // The small last segment still fits where those in front of it do not.
    check(
        "9100B",
        0,
        small_last(10),
        "4 wait; 3 in, 7 out; 7 wait; 9100",
    );
    check(
        "9099B",
        0,
        small_last(10),
        "4 wait; 2 in, 8 out; 6 wait; 9000",
    );
    check(
        "9100B",
        0,
        small_last(3),
        "4 wait; 3 in, 0 out; 7 wait; 9100",
    );
    check(
        "6000B",
        0,
        small_last(1),
        "4 wait; 0 in, 1 out; 4 wait; 6000",
    );
}

#[test]
fn a_gso_packet_is_cut_by_its_time_on_the_wire() {
    let check = |rate_text: &str, expected: &str| {
        let mut link = link(LinkSpec {
            rate: rate(rate_text),
            ..LinkSpec::ideal()
        });
        let _ = link.handle_packet(Instant::ZERO, Super::new(0, 8));
        assert_eq!(arrivals(&mut link), expected, "{rate_text}");
    };
    check("10gbit", "9us:0-7");
    check("200mbit", "240us:0-3 480us:4-7");
    check("150mbit", "240us:0-2 480us:3-5 640us:6-7");
    check(
        "24mbit",
        "500us:0 1000us:1 1500us:2 2000us:3 2500us:4 3000us:5 3500us:6 4000us:7",
    );
}

#[test]
fn the_wire_computes_with_its_overhead_and_carries_the_remainder() {
    // 1500 + 38 bytes at 1 Gbit/s: 12304 ns each; at 7 Gbit/s 1757.71 ns, carried without drift.
    let check = |rate_text: &str, count: u32, expected: u64| {
        let spec = LinkSpec {
            rate: rate(rate_text),
            overhead_bytes: 38,
            ..LinkSpec::ideal()
        };
        let mut link = link(spec);
        for id in 0..count {
            let _ = link.handle_packet(Instant::ZERO, Super::new(id, 1));
        }
        let last = core::iter::from_fn(|| link.poll_deliver_at(Instant::MAX)).last();
        assert_eq!(
            last.expect("packets").0.as_nanos(),
            expected,
            "{count} at {rate_text}"
        );
    };
    check("1gbit", 1, 12_304);
    check("7gbit", 1, 1_757);
    check("7gbit", 7_000, 12_304_000);
}

#[test]
fn a_wire_that_is_fed_in_time_keeps_its_remainder() {
    // Each packet comes exactly when the one before has left: 7000 of them drift by nothing.
    let mut link = link(LinkSpec {
        rate: rate("7gbit"),
        overhead_bytes: 38,
        ..LinkSpec::ideal()
    });
    let mut now = Instant::ZERO;
    for id in 0..7_000 {
        let _ = link.handle_packet(now, Super::new(id, 1));
        now = link.poll_timeout().expect("one is under way");
        assert!(link.poll_deliver(now).is_some());
    }
    assert_eq!(now.as_nanos(), 12_304_000);
}

#[test]
fn what_is_too_big_vanishes_or_is_reported() {
    let check = |too_big, packet: Super, reported: Option<(u32, u32)>, arrived: &str| {
        let mut link = link(LinkSpec {
            mtu: Some(Bytes(1400)),
            too_big,
            ..LinkSpec::ideal()
        });
        let handled = link.handle_packet(Instant::ZERO, packet);
        assert_eq!(handled.too_big.map(|p| (p.first, p.count)), reported);
        assert_eq!(arrivals(&mut link), arrived);
        let stats = link.stats();
        assert_eq!(stats.sent, stats.delivered + stats.too_big);
    };
    check(TooBig::Report, Super::new(0, 3), Some((0, 3)), "");
    check(TooBig::Vanish, Super::new(0, 3), None, "");
    let small_last = Super {
        last_bytes: 1400,
        ..Super::new(0, 3)
    };
    check(TooBig::Report, small_last.clone(), Some((0, 2)), "0us:2");
    check(TooBig::Vanish, small_last, None, "0us:2");
    let small = Super {
        segment_bytes: 1400,
        last_bytes: 1400,
        ..Super::new(0, 3)
    };
    check(TooBig::Report, small, None, "0us:0-2");
}

#[test]
fn a_segment_with_a_fate_of_its_own_is_cut_out() {
    let part = |parts| Fraction::from_parts(parts);
    let check = |spec: LinkSpec, expected: &str| {
        let mut link = link(spec);
        let _ = link.handle_packet(Instant::ZERO, Super::new(0, 12));
        assert_eq!(arrivals(&mut link), expected);
    };
    // Which ones is pinned by the seed.
    let ideal = LinkSpec::ideal();
    check(
        LinkSpec {
            loss: Loss::Random(part(200_000_000)),
            ..ideal.clone()
        },
        "0us:0-4 0us:6-11",
    );
    check(
        LinkSpec {
            duplicate: part(200_000_000),
            ..ideal.clone()
        },
        "0us:0 0us:1 0us:1 0us:2-3 0us:4 0us:4 0us:5-8 0us:9 0us:9 0us:10 0us:11 0us:11",
    );
    let reorder = Some(Reorder {
        share: part(200_000_000),
        hold: ms(1),
    });
    check(LinkSpec { reorder, ..ideal }, "0us:0-1 0us:3-11 1000us:2");
}

#[test]
// tidy: long because it is a table.
fn nonsense_is_refused() {
    let check = |spec: LinkSpec, expected: &str| {
        let error = Link::<Super>::new(spec, 1)
            .err()
            .map(|error| error.to_string());
        let error = error.unwrap_or_else(|| "fine".into());
        assert!(error.contains(expected), "{error}");
    };
    let ideal = LinkSpec::ideal;
    let zero = Rate::from_bits_per_second(0);
    check(ideal(), "fine");
    check(
        LinkSpec {
            rate: Some(zero),
            ..ideal()
        },
        "never sends",
    );
    check(
        LinkSpec {
            queue: QueueLimit::Packets(0),
            ..ideal()
        },
        "queue of 0",
    );
    check(
        LinkSpec {
            queue: QueueLimit::Bytes(Bytes(0)),
            ..ideal()
        },
        "queue of 0",
    );
    check(
        LinkSpec {
            mtu: Some(Bytes(67)),
            ..ideal()
        },
        "below the 68 bytes",
    );
    check(
        LinkSpec {
            rate_trace: vec![(ms(1), zero)],
            ..ideal()
        },
        "step 0",
    );
    check(
        LinkSpec {
            delay: Duration::MAX,
            ..ideal()
        },
        "delay",
    );
    check(
        LinkSpec {
            jitter: ms(3_600_001),
            ..ideal()
        },
        "limit of 3600s",
    );
    check(
        LinkSpec {
            overhead_bytes: 5000,
            ..ideal()
        },
        "4096",
    );
    let reorder = Some(Reorder {
        share: Fraction::ONE,
        hold: Duration::ZERO,
    });
    check(LinkSpec { reorder, ..ideal() }, "hold packets back");
}

#[test]
fn lateness_does_not_accumulate() {
    let mut link = link(LinkSpec {
        rate: rate("12mbit"),
        delay: ms(5),
        ..LinkSpec::ideal()
    });
    for id in 0..3 {
        let _ = link.handle_packet(Instant::ZERO, Super::new(id, 1));
    }
    assert_eq!(link.poll_deliver(Instant::ZERO + ms(5)), None);
    let late = Instant::ZERO + ms(100);
    let at = |item: Option<(Instant, Super)>| item.map(|(at, _)| at.as_nanos() / 1_000_000);
    assert_eq!(at(link.poll_deliver_at(late)), Some(6));
    assert_eq!(at(link.poll_deliver_at(late)), Some(7));
    assert_eq!(link.poll_timeout(), Some(Instant::ZERO + ms(8)));
}

fn any_spec() -> impl Strategy<Value = LinkSpec> {
    let part = || prop_oneof![Just(0), 1_u32..300_000_000].prop_map(Fraction::from_parts);
    let loss = prop_oneof![
        Just(Loss::Never),
        part().prop_map(Loss::Random),
        (part(), part(), part(), part()).prop_map(|(a, b, c, d)| Loss::GilbertElliott {
            good_to_bad: a,
            bad_to_good: b,
            loss_good: c,
            loss_bad: d
        }),
    ];
    let bits = || (1_000_u64..30_000_000_000).prop_map(Rate::from_bits_per_second);
    let step = ((1_u64..20_000_000).prop_map(Duration::from_nanos), bits());
    let trace = prop_oneof![
        3 => Just(Vec::new()),
        1 => prop::collection::vec(step, 1..5),
    ];
    let queue = prop_oneof![
        (1_u64..60).prop_map(QueueLimit::Packets),
        (1_u64..100_000).prop_map(|bytes| QueueLimit::Bytes(Bytes(bytes))),
    ];
    let hold = (1_u64..5_000_000).prop_map(Duration::from_nanos);
    let reorder =
        prop::option::of((part(), hold).prop_map(|(share, hold)| Reorder { share, hold }));
    let jitter = prop_oneof![Just(0_u64), 1_u64..2_000_000].prop_map(Duration::from_nanos);
    let mtu = prop::option::of((100_u64..1600).prop_map(Bytes));
    let wire = (prop::option::of(bits()), trace, queue, mtu, 0_u32..40);
    (wire, loss, reorder, jitter, part(), 0_u64..50).prop_map(
        |((rate, rate_trace, queue, mtu, overhead_bytes), loss, reorder, jitter, duplicate, d)| {
            LinkSpec {
                rate,
                rate_trace,
                queue,
                mtu,
                overhead_bytes,
                loss,
                reorder,
                jitter,
                duplicate,
                delay: ms(d),
                too_big: TooBig::Vanish,
            }
        },
    )
}

/// Packets and the nanoseconds from one to the next.
fn any_traffic() -> impl Strategy<Value = Vec<(u64, Super)>> {
    let gap = prop_oneof![Just(0_u64), 0_u64..3_000, 0_u64..3_000_000];
    let one = (gap, 1_u32..46, 60_u32..1501, 0_u32..100);
    prop::collection::vec(one, 1..25).prop_map(|items| {
        let mut first = 0;
        items
            .into_iter()
            .map(|(gap, count, segment_bytes, last_percent)| {
                let last_bytes = 60
                    .max(segment_bytes * last_percent / 100)
                    .min(segment_bytes);
                let packet = Super {
                    first,
                    count,
                    segment_bytes,
                    last_bytes,
                };
                first += count;
                (gap, packet)
            })
            .collect()
    })
}

/// Sends all, polling in between or not, and tells when each segment came in and what arrived.
struct Ran {
    stats: LinkStats,
    came: Vec<(Instant, u32)>,
    arrived: Vec<(Instant, Super)>,
}

fn run(spec: &LinkSpec, seed: u64, traffic: &[(u64, Super)], singles: bool, poll: bool) -> Ran {
    let mut link = Link::new(spec.clone(), seed).expect("a valid link");
    let mut now = Instant::from_nanos(7_000);
    let (mut came, mut arrived) = (Vec::new(), Vec::new());
    for (gap, packet) in traffic {
        now += Duration::from_nanos(*gap);
        came.extend(packet.ids().map(|_| (now, packet.segment_bytes)));
        let packets = if singles {
            packet.singles()
        } else {
            vec![packet.clone()]
        };
        for packet in packets {
            let _ = link.handle_packet(now, packet);
        }
        if poll {
            arrived.extend(core::iter::from_fn(|| link.poll_deliver_at(now)));
            assert!(
                link.poll_timeout().is_none_or(|at| at > now),
                "something due was kept"
            );
        }
        let stats = link.stats();
        assert_eq!(
            stats.sent + stats.duplicated,
            stats.delivered + stats.dropped() + stats.inside
        );
        match spec.queue {
            QueueLimit::Packets(limit) => assert!(stats.queue_packets_max <= limit),
            QueueLimit::Bytes(limit) => assert!(stats.queue_bytes_max <= limit.0),
        }
    }
    arrived.extend(core::iter::from_fn(|| link.poll_deliver_at(Instant::MAX)));
    assert!(
        arrived.is_sorted_by_key(|(at, _)| *at),
        "arrivals go back in time"
    );
    link.advance(Instant::MAX);
    Ran {
        stats: link.stats(),
        came,
        arrived,
    }
}

/// Which segments arrived, in order of their number.
fn ids(ran: &Ran) -> Vec<u32> {
    let mut ids: Vec<u32> = ran
        .arrived
        .iter()
        .flat_map(|(_, packet)| packet.ids())
        .collect();
    ids.sort_unstable();
    ids
}

proptest! {
    #[test]
    fn everything_is_conserved(
        spec in any_spec(), traffic in any_traffic(), seed: u64, poll: bool,
    ) {
        let Ran { stats, came, arrived } = run(&spec, seed, &traffic, false, poll);
        let out: u64 = arrived.iter().map(|(_, packet)| u64::from(packet.count)).sum();
        prop_assert_eq!(stats.sent, came.len() as u64);
        prop_assert_eq!(stats.delivered, out);
        prop_assert_eq!(stats.inside, 0);
        prop_assert_eq!((stats.queue_packets, stats.queue_bytes), (0, 0));
        prop_assert_eq!(stats.sent + stats.duplicated, stats.delivered + stats.dropped());
    }

    #[test]
    fn nothing_overtakes_unless_told(
        spec in any_spec(), traffic in any_traffic(), seed: u64, poll: bool,
    ) {
        let spec = LinkSpec { reorder: None, ..spec };
        let ran = run(&spec, seed, &traffic, false, poll);
        let order: Vec<u32> = ran.arrived.iter().flat_map(|(_, packet)| packet.ids()).collect();
        prop_assert!(order.is_sorted());
    }

    #[test]
    fn no_delay_is_undercut(spec in any_spec(), traffic in any_traffic(), seed: u64) {
        let ran = run(&spec, seed, &traffic, false, true);
        for (at, packet) in &ran.arrived {
            let (came, _) = ran.came[packet.first as usize];
            let wire = match spec.rate {
                Some(rate) if spec.rate_trace.is_empty() => {
                    let overhead = u64::from(packet.count * spec.overhead_bytes);
                    rate.serialize(packet.wire_bytes() + overhead, 0).0
                }
                _ => Duration::ZERO,
            };
            prop_assert!(at.since(came) >= spec.delay + wire);
        }
    }

    #[test]
    fn the_rate_is_never_exceeded(spec in any_spec(), traffic in any_traffic(), seed: u64) {
        // Jitter and reordering may push packets together again; copies use no wire.
        let spec = LinkSpec {
            jitter: Duration::ZERO,
            reorder: None,
            duplicate: Fraction::ZERO,
            ..spec
        };
        let trace_max = spec.rate_trace.iter().map(|(_, rate)| *rate).max();
        let Some(rate) = trace_max.or(spec.rate) else { return Ok(()) };
        let ran = run(&spec, seed, &traffic, false, true);
        let on_wire = |packet: &Super| {
            u128::from(packet.wire_bytes() + u64::from(packet.count * spec.overhead_bytes)) * 8
        };
        for first in 0..ran.arrived.len() {
            let (mut bits, from) = (0, ran.arrived[first].0);
            for (at, packet) in &ran.arrived[first + 1..] {
                bits += on_wire(packet);
                // Times are rounded down to nanoseconds, hence one more.
                let time = at.since(from).as_nanos() + 1;
                let most = u128::from(rate.bits_per_second()) * time;
                prop_assert!(bits * 1_000_000_000 <= most, "{bits} bit in {time} ns");
            }
        }
    }

    #[test]
    fn same_seed_same_fate(spec in any_spec(), traffic in any_traffic(), seed: u64) {
        let polled = run(&spec, seed, &traffic, false, true);
        let at_the_end = run(&spec, seed, &traffic, false, false);
        prop_assert_eq!(ids(&polled), ids(&at_the_end));
        prop_assert_eq!(polled.stats, at_the_end.stats);
        prop_assert_eq!(polled.arrived.len(), at_the_end.arrived.len());
    }

    #[test]
    fn fate_depends_on_order_only(
        spec in any_spec(), traffic in any_traffic(), seed: u64, slower in 0_u64..1_000_000,
    ) {
        // No queue, so that timing drops nothing.
        let spec = LinkSpec { rate: None, rate_trace: Vec::new(), ..spec };
        let later: Vec<_> = traffic.iter().map(|(gap, p)| (gap + slower, p.clone())).collect();
        let one = run(&spec, seed, &traffic, false, true);
        prop_assert_eq!(ids(&one), ids(&run(&spec, seed, &later, false, true)));
    }

    #[test]
    fn a_gso_packet_is_its_segments(spec in any_spec(), traffic in any_traffic(), seed: u64) {
        let whole = run(&spec, seed, &traffic, false, true);
        let singles = run(&spec, seed, &traffic, true, true);
        prop_assert_eq!(ids(&whole), ids(&singles));
        prop_assert_eq!(whole.stats, singles.stats);
        let last = |ran: &Ran| ran.arrived.last().map(|(at, _)| *at);
        prop_assert_eq!(last(&whole), last(&singles));
        // And each piece arrives with the last of its segments.
        if spec.duplicate == Fraction::ZERO {
            let of = |id: u32| {
                let found = singles.arrived.iter().find(|(_, p)| p.first == id);
                found.map(|(at, _)| *at)
            };
            for (at, piece) in &whole.arrived {
                prop_assert_eq!(Some(*at), piece.ids().filter_map(of).max());
            }
        }
    }
}
