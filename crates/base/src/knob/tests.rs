use super::*;

#[test]
fn names_are_unique_and_documented() {
    for (i, knob) in KNOBS.iter().enumerate() {
        assert!(
            KNOBS[..i].iter().all(|other| other.name != knob.name),
            "{}",
            knob.name
        );
        assert!(
            knob.help.ends_with('.'),
            "{}: help is a sentence",
            knob.name
        );
        assert!(!knob.cite.is_empty(), "{}: a citation", knob.name);
        assert!(knob.min <= knob.max, "{}: range", knob.name);
    }
}

#[test]
fn values_are_read_checked_and_printed() {
    let check = |name: &str, text: &str, expected: &str| {
        let knob = find_knob(name).expect("a knob");
        match knob.parse(text) {
            Ok(value) => assert_eq!(knob.format(&value), expected),
            Err(error) => {
                let shown = alloc::format!("{error}");
                assert!(shown.contains(expected), "{name} = {text}: {shown}");
            }
        }
    };
    check("nodelay", "on", "on");
    check("nodelay", "perhaps", "neither `on` nor `off`");
    check("sndbuf", "64KiB", "64KiB");
    check("sndbuf", "64K", "KiB` or `kB");
    check("delack_max", "8ms", "8ms");
    check(
        "net.ipv4.tcp_rmem",
        "4096 131072 6291456",
        "4096 131072 6291456",
    );
    check("net.ipv4.tcp_rmem", "4096 131072", "write three sizes");
    check("net.ipv4.tcp_rmem", "4096 1000 500000", "must rise");
    check("route.initcwnd", "100000000", "out of range");
    check("congestion", "bbr", "bbr");
    check("congestion", "../etc", "not a name that the kernel accepts");
}

#[test]
fn a_misspelt_knob_is_recognised() {
    let message = |name| alloc::format!("{}", find_knob(name).expect_err("unknown"));
    assert_eq!(
        message("nodlay"),
        "unknown knob `nodlay`; did you mean `nodelay`?"
    );
    assert_eq!(
        message("tcp_rmem"),
        "unknown knob `tcp_rmem`; did you mean `net.ipv4.tcp_rmem`?"
    );
    assert_eq!(
        find_knob("rmem_max").map(|knob| knob.name),
        Ok("net.core.rmem_max")
    );
    assert_eq!(message("xyzzy"), "unknown knob `xyzzy`");
}
