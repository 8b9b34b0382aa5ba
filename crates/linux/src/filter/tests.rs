use std::sync::Arc;

use base::{FlowKey, FlowSample, Instant, TcpState};
use proptest::prelude::*;

use super::Filter;
use doctor::{ProcessInfo, SocketOwner};

fn flow(local: &str, remote: &str) -> FlowSample {
    let key = FlowKey {
        local: local.parse().expect("an address"),
        remote: remote.parse().expect("an address"),
    };
    let mut sample = FlowSample::empty(Instant::ZERO, key);
    sample.state = Some(TcpState::Established);
    sample.uid = Some(1000);
    sample.cgroup_id = Some(77);
    sample
}

fn owner(pid: u32, command: &str, cgroup: &str) -> SocketOwner {
    SocketOwner {
        fd: 3,
        process: Arc::new(ProcessInfo {
            pid,
            command: command.into(),
            cmdline: String::new(),
            cgroup: Some(cgroup.into()),
        }),
    }
}

#[test]
fn filters_tell_flows_apart() {
    let sample = flow("10.0.0.1:40000", "10.0.0.9:443");
    let owners = [owner(123, "backup", "/system.slice/backup.service")];
    let check = |text: &str, expected: bool| {
        let filter: Filter = text
            .parse()
            .unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(filter.matches(&sample, &owners), expected, "{text}");
    };
    for text in [
        "",
        "dport = :443",
        "dport = :https",
        "dport 443",
        "sport == 40000",
        "sport >= 40000 sport < :40001",
        "port != 80",
        "src 10.0.0.0/8",
        "src = 10.0.0.1",
        "dst 10.0.0.9:443",
        "dst 10.0.0.9:https",
        "dst :443",
        "dst *:443",
        "dst 0.0.0.0/0",
        "10.0.0.9",
        "10.0.0.9:443",
        ":443",
        ":40000",
        "::ffff:10.0.0.9",
        "pid = 123",
        "pid 123",
        "comm = backup",
        "comm = \"backup\"",
        "uid = 1000",
        "cgroup = /system.slice",
        "cgroup = system.slice/backup.service/",
        "cgroup = /",
        "state established",
        "state connected",
        "pid = 9 or comm = backup",
        "not pid = 9",
        "! pid = 9 && ( dport = :80 || dport = :443 )",
        "pid = 9 and pid = 8 or dport = :443",
        "not not :443",
    ] {
        check(text, true);
    }
    for text in [
        "dport = :80",
        "dport != :443",
        "port != 443",
        "sport < 40000",
        "src 10.0.0.9",
        "src 11.0.0.0/8",
        "dst 10.0.0.9:80",
        "localhost",
        "fd00::/8",
        "::/0",
        "pid = 9",
        "comm = back",
        "cgroup = /system",
        "state listening",
        "uid = 0",
        "not :443",
        "pid = 9 and (pid = 8 or dport = :443)",
        "cgroup != /system.slice",
    ] {
        check(text, false);
    }
}

#[test]
fn owners_that_are_unknown_match_no_owner() {
    let sample = flow("[fd00::1]:22", "[fd00::2]:1024");
    let matches = |text: &str| {
        let filter: Filter = text.parse().expect("a filter");
        filter.matches(&sample, &[])
    };
    assert!(matches("[fd00::1]:22") && matches("fd00::/16") && matches("dst [fd00::/16]:1024"));
    assert!(!matches("pid = 1") && !matches("comm = x") && !matches("cgroup = /"));
    let mut filter: Filter = "cgroup = /a".parse().expect("a filter");
    assert!(filter.needs_owners());
    filter.resolve_cgroups(&|path| (path == "/a").then_some(77));
    assert!(filter.matches(&sample, &[]), "by the socket's own group");
    assert!(!filter.needs_owners());
}

#[test]
fn a_flow_may_come_to_match_by_its_state_or_its_owners() {
    let may_change = |text: &str| {
        let filter: Filter = text.parse().expect("a filter");
        filter.may_change()
    };
    assert!(may_change("state close-wait") && may_change("sport = :443 and not pid = 1"));
    assert!(!may_change("") && !may_change("sport = :443 or dst 10.0.0.0/8"));
}

#[test]
fn names_longer_than_the_kernel_keeps_are_found() {
    let owners = [owner(1, "a-very-long-nam", "/")];
    let filter: Filter = "comm = a-very-long-name-indeed".parse().expect("a filter");
    assert!(filter.matches(&flow("1.1.1.1:1", "1.1.1.1:2"), &owners));
}

#[test]
fn what_the_kernel_can_sort_out_is_known() {
    let check = |text: &str, ports, pid| {
        let filter: Filter = text.parse().expect("a filter");
        assert_eq!(filter.fixed_ports(), ports, "{text}");
        assert_eq!(filter.fixed_pid(), pid, "{text}");
    };
    check("dport = :443", (None, Some(443)), None);
    check("sport = :22 pid = 7", (Some(22), None), Some(7));
    check("dport = :443 or pid = 7", (None, None), None);
    check("not dport = :443", (None, None), None);
    check("dport > 443", (None, None), None);
    check(":443", (None, None), None);
    let filter: Filter = "not (state listening or :1)".parse().expect("a filter");
    assert!(filter.names_state(TcpState::Listen) && !filter.names_state(TcpState::Closed));
}

#[test]
fn errors_say_where_and_what_was_meant() {
    let check = |text: &str, expected: &str| {
        let error = text.parse::<Filter>().expect_err(text).to_string();
        assert!(error.contains(expected), "{text}: {error}");
    };
    check(
        "dprot = :443",
        "column 1: unknown test `dprot`; did you mean `dport`?",
    );
    check(
        "dport = :htps",
        "column 9: unknown port `htps`; did you mean `https`?",
    );
    check("dport = :70000", "above 65535");
    check("state establised", "did you mean `established`?");
    check("state x", "there are established");
    check("established", "did you mean `state established`?");
    check(
        "443",
        "column 1: `443` is ambiguous: write `:443` or `pid = 443`",
    );
    check("pid = x", "column 7: `x` is not a process id");
    check("pid > 5", "column 5: `>` compares only ports");
    check("dst example.org", "names are not looked up");
    check("src 10.0.0.0/33", "0 to 32");
    check("src fd00::/129", "0 to 128");
    check("src [fd00::1", "`[` without `]`");
    check("(dport = :1", "column 1: this parenthesis is never closed");
    check("dport = :1)", "column 11: `)` was not expected");
    check(
        "dport =",
        "column 8: a port such as `:443` is missing at the end",
    );
    check("dport = :1 and", "missing at the end");
    check("and dport = :1", "column 1");
    check(
        "comm = \"x",
        "column 8: this quotation mark is never closed",
    );
    check("äöü = 1", "column 1");
    check("comm = ä pid = x", "column 16");
    check(&"(".repeat(100_000), "levels");
    check(&"not ".repeat(100_000), "levels");
}

proptest! {
    #[test]
    fn no_text_panics(text in any::<String>()) {
        let _ = text.parse::<Filter>();
    }

    #[test]
    fn no_mixture_of_words_panics(
        words in proptest::collection::vec(
            proptest::sample::select(vec![
                "sport", "dst", "pid", "comm", "cgroup", "state", "not", "!", "and", "or", "(", ")",
                "=", "!=", "<", ":443", "10.0.0.0/8", "[::1]:2", "::", "/", "\"", "ä", "*", ":", "7",
            ]),
            0..12,
        ),
    ) {
        if let Ok(filter) = words.join(" ").parse::<Filter>() {
            let _ = filter.matches(&flow("10.0.0.1:7", "10.0.0.9:443"), &[owner(7, "ä", "/")]);
        }
    }
}

#[test]
fn what_is_accepted_where_a_process_listens_is_its_own() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("bound").to_string();
    let (pid, own_netns) = (
        std::process::id(),
        crate::NetnsHandle::open(&base::Netns::Own),
    );
    let serving = crate::Serving::of(pid, &own_netns.expect("ours")).expect("listed");
    let filter = |text: &str| {
        let filter: Filter = text.parse().expect("a filter");
        filter.with_serving(pid, &serving)
    };
    let accepted = flow(&at, "127.0.0.1:40000");
    let other = [owner(u32::MAX, "worker", "/")];
    for text in [
        format!("pid = {pid}"),
        format!("pid = {pid} and dst 127.0.0.1"),
    ] {
        let filter = filter(&text);
        assert!(filter.matches(&accepted, &other) && filter.matches_of_anybody(&accepted));
        assert_eq!(filter.fixed_pid(), Some(pid));
        assert!(
            !filter.matches(&flow("127.0.0.1:1", &at), &other),
            "it listens elsewhere"
        );
    }
    assert!(!filter(&format!("pid = {pid} and comm = x")).matches_of_anybody(&accepted));
    assert!(
        !filter("pid = 1").matches(&accepted, &other),
        "another process was asked for"
    );
}

#[test]
fn what_a_process_listens_on_later_is_its_own_too() {
    let own_netns = crate::NetnsHandle::open(&base::Netns::Own).expect("ours");
    let pid = std::process::id();
    let serving = crate::Serving::of(pid, &own_netns).expect("listed");
    let mut plain: Filter = format!("pid = {pid}").parse().expect("a filter");
    let mut filter = plain.clone().with_serving(pid, &serving);

    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("bound").to_string();
    let accepted = flow(&at, "127.0.0.1:40000");
    let mut diag = crate::SockDiag::open().expect("netlink");
    let listeners = diag.listeners().expect("listed");
    assert!(!filter.matches_of_anybody(&accepted), "listed before");
    assert!(filter.note_listeners(&listeners) && filter.matches_of_anybody(&accepted));
    assert!(!filter.note_listeners(&listeners), "nothing is new");

    assert!(
        !plain.note_listeners(&listeners),
        "what it serves is not asked for"
    );
    assert!(!plain.matches_of_anybody(&accepted));
}
