//! A lab path for an ordinary user: in a user namespace, with a TUN device node that all users may
//! open. Entering it needs a process with one thread, hence no test harness.
//!
//! With more privileges than an ordinary user it runs as user 65534 with a device node of its own;
//! otherwise it uses the node that there is.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use base::Bytes;
use lab::{Caveat, PathSpec};
use link::LinkSpec;
use linux::{Error, LabPath, privilege, tun};
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

/// The user `nobody`.
const USER: u32 = 65_534;

fn main() -> ExitCode {
    // What cargo-nextest asks first.
    if std::env::args().any(|argument| argument == "--list") {
        println!("a_path_without_root: test");
        return ExitCode::SUCCESS;
    }
    let outcome = if privilege::may_make_paths() {
        as_another_user()
    } else {
        without_root()
    };
    match outcome {
        Ok(()) => println!("test a_path_without_root ... ok"),
        Err(why) if std::env::var_os("REQUIRE_KERNEL").is_none() => println!("skipped: {why}"),
        Err(why) => panic!("{why}"),
    }
    ExitCode::SUCCESS
}

/// Makes a node and a copy of this program that all users may use, and runs the copy.
fn as_another_user() -> Result<(), String> {
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let open_to_all = |path: &Path, mode| {
        fs::set_permissions(path, Permissions::from_mode(mode)).map_err(|error| error.to_string())
    };
    open_to_all(directory.path(), 0o755)?;
    let node = directory.path().join("tun");
    // Linux 6.18 Documentation/admin-guide/devices.txt: misc device 200.
    let number = makedev(10, 200);
    mknodat(
        CWD,
        &node,
        FileType::CharacterDevice,
        Mode::from(0o666),
        number,
    )
    .map_err(|errno| format!("making a device node: {errno}"))?;
    open_to_all(&node, 0o666)?;
    let program = directory.path().join("unprivileged");
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    fs::copy(own, &program).map_err(|error| error.to_string())?;
    open_to_all(&program, 0o755)?;
    let status = Command::new(&program)
        .env(tun::DEVICE_VARIABLE, &node)
        .current_dir("/")
        .gid(USER)
        .uid(USER)
        .status()
        .map_err(|error| format!("running as user {USER}: {error}"))?;
    assert!(status.success(), "as user {USER}: {status}");
    Ok(())
}

fn without_root() -> Result<(), String> {
    assert!(!privilege::may_make_paths(), "an ordinary user may not");
    skippable(privilege::enter_user_namespace())?;
    assert!(privilege::may_make_paths(), "root of a namespace may");
    let link = LinkSpec {
        rate: Some("100mbit".parse().expect("a rate")),
        delay: Duration::from_millis(1),
        ..LinkSpec::ideal()
    };
    let spec = PathSpec::Emulated {
        mtu: Bytes(1500),
        forward: link.clone(),
        reverse: link,
        ipv6: false,
    };
    let path = skippable(LabPath::create(&spec, 1))?;
    assert_eq!(transfer(&path, 200_000), 200_000);
    // Real-time priority depends on the user's limits; everything else does not.
    let caveats = path.caveats().expect("the path is there");
    let lossy = |caveat: &Caveat| matches!(caveat, Caveat::DeviceDropped { .. });
    assert!(!caveats.iter().any(lossy), "{caveats:?}");
    // Known to this process by its name, though mounted nowhere.
    linux::NetnsHandle::open(path.a().name()).expect("found by its name");
    skippable(LabPath::create(&PathSpec::Veth { mtu: Bytes(1500) }, 1))?;
    Ok(())
}

fn skippable<T>(outcome: Result<T, Error>) -> Result<T, String> {
    match outcome {
        Ok(done) => Ok(done),
        Err(error) if error.is_missing_privilege() => Err(error.to_string()),
        Err(error) => panic!("{error}"),
    }
}

fn transfer(path: &LabPath, total: usize) -> usize {
    let listen = || TcpListener::bind((path.b_addr(), 0)).expect("a free port");
    let listener = path.b().run(listen).expect("ours");
    let at = listener.local_addr().expect("bound");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let connect = || TcpStream::connect(at).expect("a listener");
            let mut client = path.a().run(connect).expect("ours");
            client.write_all(&vec![5; total]).expect("the peer reads");
        });
        let (mut server, _) = listener.accept().expect("a client");
        let mut received = Vec::new();
        server.read_to_end(&mut received).expect("an orderly end");
        received.len()
    })
}
