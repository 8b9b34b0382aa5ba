//! Routes of every shape: one metric changes, everything else stays, and undoing brings back what
//! `ip route` showed.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use base::{Change, FlowKey, KnobValue, Netns, Target, find_knob};
use linux::{Clock, Journal, NetnsHandle, SockDiag};

use crate::assert_same;
use crate::holder::Holder;

/// Destination, knob and value, and what `ip route` shows afterwards.
type Row = (&'static str, &'static str, &'static str, &'static str);

/// Without rules the kernel keeps the local routes among the others, and a lookup tells less.
const WITHOUT_RULES: &[Row] = &[
    (
        "127.0.0.1",
        "route.quickack",
        "on",
        "local 127.0.0.1 dev lo table local proto kernel scope host src 127.0.0.1 quickack 1",
    ),
    (
        "127.0.0.7",
        "route.quickack",
        "on",
        "local 127.0.0.7 dev lo table local proto static scope host src 127.0.0.1 quickack 1",
    ),
];

const WITH_A_RULE: &[Row] = &[
    // Several ways, with weights.
    (
        "10.51.0.0/16",
        "route.initcwnd",
        "40",
        "10.51.0.0/16 table main proto boot scope global mtu 1450 initcwnd 40 \n\
         \tnexthop via 10.99.1.2 dev v0 weight 2 \n\
         \tnexthop via 10.99.1.3 dev v0 weight 1",
    ),
    // A next-hop object.
    (
        "10.52.0.0/16",
        "route.quickack",
        "on",
        "10.52.0.0/16 nhid 7 via 10.99.1.9 dev v0 table main proto boot scope global quickack 1",
    ),
    // Another table, which a rule chooses.
    (
        "10.60.1.1",
        "route.quickack",
        "on",
        "10.60.1.1 via 10.99.1.8 dev v0 table 100 proto static scope global quickack 1",
    ),
    // The better of two metrics.
    (
        "10.53.0.0/16",
        "route.mtu",
        "1300",
        "10.53.0.0/16 via 10.99.1.2 dev v0 table main proto boot scope global metric 10 mtu 1300",
    ),
    // The least timeout is obeyed only where it is locked; locks of others stay.
    (
        "10.53.0.0/16",
        "route.rto_min",
        "10ms",
        "10.53.0.0/16 via 10.99.1.2 dev v0 table main proto boot scope global metric 10 \
         rto_min lock 10ms",
    ),
    (
        "10.50.0.0/16",
        "route.rto_min",
        "10ms",
        "mtu lock 1300 window 30000 features ecn rto_min lock 10ms",
    ),
    ("fd50::/32", "route.rto_min", "10ms", "rto_min lock 10ms"),
    // A type of service.
    (
        "10.54.0.0/16",
        "route.mtu",
        "1300",
        "10.54.0.0/16 tos 0x10 via 10.99.1.2 dev v0 table main proto boot scope global mtu 1300",
    ),
    // IPv6: a preference, several ways, the default.
    (
        "fd50::/32",
        "route.mtu",
        "1300",
        "metric 99 mtu 1300 pref high",
    ),
    (
        "fd51::/32",
        "route.mtu",
        "1300",
        "fd51::/32 table main proto boot scope global metric 1024 mtu 1300 pref medium\n\
         \tnexthop via fd99::2",
    ),
    (
        "::/0",
        "route.initcwnd",
        "20",
        "default via fd99::9 dev v0 table main proto boot scope global metric 1024 initcwnd 20",
    ),
    // A host behind the default route, and one of this machine.
    (
        "192.0.2.7",
        "route.initcwnd",
        "20",
        "192.0.2.7 via 10.99.1.7 dev v0 table main proto static scope global initcwnd 20",
    ),
    WITHOUT_RULES[0],
];

/// What cannot be: the message instead.
const REFUSED: &[Row] = &[
    (
        "10.77.0.0/16",
        "route.mtu",
        "1300",
        "route to `10.77.0.0/16` does not exist",
    ),
    (
        "203.0.113.9",
        "route.mtu",
        "1300",
        "route to `203.0.113.9` does not exist",
    ),
    (
        "10.53.0.0/16",
        "route.congctl",
        "no-such-one",
        "set the route 10.53.0.0/16",
    ),
];

#[test]
fn routes_of_every_shape_come_back_as_they_were() {
    let Some(holder) = Holder::start() else {
        return;
    };
    for row in WITHOUT_RULES {
        check(&holder, *row);
    }
    holder.run("ip rule add to 10.60.0.0/16 table 100");
    for row in WITH_A_RULE.iter().chain(REFUSED) {
        check(&holder, *row);
    }
}

#[test]
fn a_route_whose_rest_another_changed_is_left_alone() {
    let Some(holder) = Holder::start() else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let journal = Journal::open(directory.path()).unwrap();
    let mut transaction = journal.begin("a route").unwrap();
    let change = Change {
        target: Target::Route {
            netns: Netns::OfProcess(holder.pid()),
            destination: "10.53.0.0/16".into(),
        },
        knob: "route.quickack".into(),
        to: KnobValue::Flag(true),
    };
    transaction.apply(&change).unwrap();
    holder.run("ip route change 10.53.0.0/16 via 10.99.1.2 metric 10 quickack 1 initcwnd 33");
    let undone = transaction.roll_back();
    let told: Vec<String> = undone.iter().map(|one| one.how.to_string()).collect();
    let expected =
        "left alone: the rest of it has been changed since; set it back with `ip` or `tc`";
    assert_eq!(told, [expected]);
    assert!(holder.snapshot().contains("initcwnd 33"));
}

/// The timeout of a connection of the holder's namespace to `address`.
fn timeout_towards(holder: &Holder, address: &str) -> Duration {
    let exchange = || {
        let listener = TcpListener::bind((address, 0)).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let mut byte = [0];
        // Some round trips, that the variation of the first ones is forgotten.
        for _ in 0..20 {
            client.write_all(&byte).unwrap();
            server.read_exact(&mut byte).unwrap();
            server.write_all(&byte).unwrap();
            client.read_exact(&mut byte).unwrap();
        }
        let key = FlowKey {
            local: client.local_addr().unwrap(),
            remote: client.peer_addr().unwrap(),
        };
        let sample = SockDiag::open().unwrap().sample_one(Clock.now(), key, None);
        sample.unwrap().and_then(|sample| sample.rto).unwrap()
    };
    let netns = Netns::OfProcess(holder.pid());
    NetnsHandle::open(&netns).unwrap().run(exchange).unwrap()
}

/// Linux 6.18 net/ipv4/tcp_output.c, tcp_rto_min: a metric that is not locked would change nothing.
#[test]
fn the_kernel_obeys_the_least_timeout_of_a_route() {
    const ADDRESS: &str = "127.0.0.9";
    let Some(holder) = Holder::start() else {
        return;
    };
    let least = Duration::from_millis(200);
    assert!(timeout_towards(&holder, ADDRESS) >= least);
    let directory = tempfile::tempdir().unwrap();
    let change = Change {
        target: Target::Route {
            netns: Netns::OfProcess(holder.pid()),
            destination: ADDRESS.into(),
        },
        knob: "route.rto_min".into(),
        to: KnobValue::Number(20_000),
    };
    let journal = Journal::open(directory.path()).unwrap();
    let mut transaction = journal.begin("a least timeout").unwrap();
    transaction.apply(&change).unwrap();
    let timeout = timeout_towards(&holder, ADDRESS);
    assert!(timeout < least / 2, "{timeout:?}");
    transaction.roll_back();
    assert!(timeout_towards(&holder, ADDRESS) >= least);
}

#[track_caller]
fn check(holder: &Holder, (destination, knob, value, expected): Row) {
    let directory = tempfile::tempdir().unwrap();
    let change = Change {
        target: Target::Route {
            netns: Netns::OfProcess(holder.pid()),
            destination: destination.into(),
        },
        knob: knob.into(),
        to: find_knob(knob).unwrap().parse(value).unwrap(),
    };
    let start = holder.snapshot();
    let journal = Journal::open(directory.path()).unwrap();
    let mut transaction = journal.begin("a route").unwrap();
    let shown = match transaction.apply(&change) {
        Ok(_) => holder.snapshot(),
        Err(error) => error.to_string(),
    };
    let undone = transaction.roll_back();
    assert!(
        shown.contains(expected),
        "{destination}: `{expected}` is not in\n{shown}"
    );
    let when = format!("{destination} {knob}, {undone:?}");
    assert_same(&holder.snapshot(), &start, &when);
}
