//! What may be made at every boot, and the text of the files. That they do it at boot is asked in
//! the tests of the program.

use base::KnobValue;

use super::*;

fn persistence(changes: Vec<Change>) -> Persistence {
    Persistence {
        changes,
        etc: "/etc".into(),
        program: "/bin/sh".into(),
    }
}

fn change(target: Target, knob: &str, value: &str) -> Change {
    Change {
        target,
        knob: knob.into(),
        to: find_knob(knob).unwrap().parse(value).unwrap(),
    }
}

fn own() -> Netns {
    Netns::Own
}

fn text_of(files: &[(PathBuf, FileContent)], name: &str) -> String {
    let found = files.iter().find(|(path, _)| path.ends_with(name));
    match &found.unwrap_or_else(|| panic!("no {name} in {files:?}")).1 {
        FileContent::Text { text } => text.clone(),
        other => panic!("{name} is {other:?}"),
    }
}

#[test]
fn the_files_are_those_that_an_administrator_expects() {
    let sysctl = |knob, value| change(Target::Namespace { netns: own() }, knob, value);
    let link = Target::Link {
        netns: own(),
        name: "br-lan".into(),
    };
    let changes = vec![
        sysctl("net.ipv4.tcp_rmem", "4096 131072 33554432"),
        change(link, "link.mtu", "1400"),
        sysctl("net.ipv4.tcp_slow_start_after_idle", "off"),
    ];
    let persistence = persistence(changes);
    let reason = "apply plan.json\nExecStartPre=/bin/evil";
    let files = persistence.files(7, &History::default(), reason).unwrap();
    let paths: Vec<_> = files
        .iter()
        .map(|(path, _)| path.to_str().unwrap())
        .collect();
    assert_eq!(
        paths,
        [
            "/etc",
            "/etc/sysctl.d",
            "/etc/sysctl.d/90-tcptailor-000007.conf",
            "/etc/tcptailor",
            "/etc/tcptailor/persist-000007.json",
            "/etc/systemd",
            "/etc/systemd/system",
            "/etc/systemd/system/tcptailor-000007.service",
            "/etc/systemd/system/multi-user.target.wants",
            "/etc/systemd/system/multi-user.target.wants/tcptailor-000007.service",
        ]
    );
    assert_eq!(
        text_of(&files, "90-tcptailor-000007.conf"),
        "# Made by `tcptailor apply --persist` (transaction 7): apply plan.json \
         ExecStartPre=/bin/evil\n\
         # Remove with: tcptailor rollback 7\n\
         net.ipv4.tcp_rmem = 4096 131072 33554432\n\
         net.ipv4.tcp_slow_start_after_idle = 0\n"
    );
    let unit = text_of(&files, "system/tcptailor-000007.service");
    let after = r"network-online.target sys-subsystem-net-devices-br\x2dlan.device";
    assert!(unit.contains(&format!("\nAfter={after}\n")), "{unit}");
    assert!(
        unit.contains(" apply --at-boot /etc/tcptailor/persist-000007.json\n"),
        "{unit}"
    );
    assert!(!unit.contains("\nExecStartPre"), "{unit}");
    let plan = text_of(&files, "persist-000007.json");
    let plan: BootPlan = serde_json::from_str(&plan).unwrap();
    assert_eq!((plan.transaction, plan.changes.len()), (7, 1));
    assert_eq!(plan.changes[0].to, KnobValue::Number(1400));
}

#[test]
fn what_ends_with_something_else_is_refused_with_what_to_do() {
    // This process stands for the first one, whose namespace not every sandbox shows.
    let machine = NetnsHandle::open(&Netns::Own).unwrap().inode().unwrap();
    let check = |target: Target, knob: &str, value: &str, expected: &str| {
        let change = change(target, knob, value);
        let error = at_every_boot_of(&change, || Ok(machine)).expect_err("it ends");
        assert!(error.to_string().contains(expected), "{error}");
    };
    let address = || "127.0.0.1:80".parse().unwrap();
    let socket = |key| Target::Socket {
        netns: own(),
        pid: 1,
        cookie: 1,
        key,
    };
    let key = base::FlowKey {
        local: address(),
        remote: address(),
    };
    let advice = "`tcptailor run --set nodelay=on -- CMD`, or set it in the program";
    check(socket(key), "nodelay", "on", advice);
    let simulated = Target::Namespace {
        netns: Netns::Simulated("client".into()),
    };
    check(simulated, "net.ipv4.tcp_sack", "off", "a simulation");
    if let Some([netns]) = crate::asking::permitted(crate::LabNetns::create(["boot"])) {
        let named = Target::Namespace {
            netns: netns.handle().name().clone(),
        };
        check(
            named,
            "net.ipv4.tcp_sack",
            "off",
            "made again at every boot",
        );
        let here = || Target::Namespace { netns: own() };
        let expected = "not the namespace of the machine";
        let inside = || check(here(), "net.ipv4.tcp_sack", "off", expected);
        netns.handle().run(inside).unwrap();
    }
}
