//! A process in a network namespace of its own, with links, queues, routes and a connection.

use std::io::{BufRead, BufReader, Read};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use base::{FlowKey, KNOBS, Netns, Scope, Target};
use linux::{NetnsHandle, Setting, sysctl};
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::asking;

const HOLDER: &str = "TCPTAILOR_TEST_HOLDER";

/// Every shape of link, queue and route that the tests touch.
const SETUP: &str = "
set -e
ip link set lo up
ip link add v0 type veth peer name v1
ip link add v2 type veth peer name v3
ip link set v0 up; ip link set v1 up
ip addr add 10.99.1.1/24 dev v0
ip addr add fd99::1/64 dev v0 nodad
ip nexthop add id 7 via 10.99.1.9 dev v0
ip route add 10.50.0.0/16 via 10.99.1.2 dev v0 proto 201 metric 50 mtu lock 1300 window 30000 features ecn
ip route add 10.51.0.0/16 mtu 1450 nexthop via 10.99.1.2 weight 2 nexthop via 10.99.1.3
ip route add 10.52.0.0/16 nhid 7
ip route add 10.53.0.0/16 via 10.99.1.3 metric 20
ip route add 10.53.0.0/16 via 10.99.1.2 metric 10
ip route add 10.54.0.0/16 via 10.99.1.2 tos 0x10
ip route add 10.60.0.0/16 via 10.99.1.8 table 100
ip route add default via 10.99.1.7
ip route add unreachable 203.0.113.0/24
ip -6 route add fd50::/32 via fd99::2 metric 99 pref high
ip -6 route add fd51::/32 nexthop via fd99::2 nexthop via fd99::3
ip -6 route add default via fd99::9
tc qdisc add dev v0 root handle 1: tbf rate 20mbit burst 20kb limit 60000
tc qdisc add dev v1 root handle 7: pfifo limit 100
tc qdisc add dev v2 root handle 3: htb
# The kernel adds the route of an address by itself, a little later.
for _ in $(seq 100); do
  ip -6 route show table local | grep -q fd99::1 && exit
  sleep 0.1
done
exit 1
";

pub(crate) struct Holder {
    child: Child,
    /// The child ends when this is closed.
    stdin: Option<ChildStdin>,
    /// Its last words find a reader.
    _stdout: BufReader<ChildStdout>,
    cookie: u64,
    key: FlowKey,
}

impl Holder {
    /// `None` where a privilege, `ip` or `tc` is missing; then the test is skipped.
    pub(crate) fn start() -> Option<Self> {
        // Links, queues and routes of every kind are made and shown by others than us.
        asking::witness("ip")?;
        asking::witness("tc")?;
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "holder::holder", "--nocapture"])
            .env(HOLDER, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        // SAFETY: between fork and exec only one system call is made, which moves the child, a
        // process of one thread, into a new namespace.
        unsafe {
            command.pre_exec(|| Ok(unshare_unsafe(UnshareFlags::NEWNET)?));
        }
        let mut child = asking::may("a network namespace", command.spawn())?;
        let stdin = child.stdin.take();
        let mut ready = None;
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        for line in stdout.by_ref().lines() {
            let line = line.unwrap();
            // The test harness writes its own words before ours.
            if let Some((_, words)) = line.split_once("ready ") {
                let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
                ready = Some((
                    words[0].parse().unwrap(),
                    FlowKey {
                        local: words[1].parse().unwrap(),
                        remote: words[2].parse().unwrap(),
                    },
                ));
                break;
            }
        }
        let (cookie, key) = ready.expect("the holder is ready");
        Some(Self {
            child,
            stdin,
            _stdout: stdout,
            cookie,
            key,
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn socket(&self) -> Target {
        Target::Socket {
            netns: Netns::OfProcess(self.pid()),
            pid: self.pid(),
            cookie: self.cookie,
            key: self.key,
        }
    }

    /// Runs a command in the namespace.
    pub(crate) fn run(&self, line: &str) -> String {
        NetnsHandle::open(&Netns::OfProcess(self.pid()))
            .unwrap()
            .run(|| output_of(line))
            .unwrap()
    }

    /// Everything that a change could touch, as `ip` and `tc` show it, and every knob of the socket
    /// and of the namespace as we read it.
    pub(crate) fn snapshot(&self) -> String {
        let netns = Netns::OfProcess(self.pid());
        let mut text = NetnsHandle::open(&netns)
            .unwrap()
            .run(|| {
                [
                    "ip -d route show table all",
                    "ip -6 -d route show table all",
                    "ip -d link",
                    "ip addr",
                    "tc -d qdisc",
                ]
                .map(output_of)
                .concat()
            })
            .unwrap();
        for knob in KNOBS {
            let target = match knob.scope {
                // The kernel clears it by itself.
                Scope::Socket if knob.is_socket_option() && knob.name != "quickack" => {
                    self.socket()
                }
                Scope::Namespace => Target::Namespace {
                    netns: netns.clone(),
                },
                _ => continue,
            };
            let state = Setting::open(&target, knob.name).unwrap().read().unwrap();
            text += &format!("{} {state:?}\n", knob.name);
        }
        text
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.stdin.take());
        self.child.wait().unwrap();
    }
}

/// The holder itself. Does nothing in an ordinary run.
#[test]
fn holder() {
    if std::env::var_os(HOLDER).is_none() {
        return;
    }
    for scope in ["all", "default"] {
        // What comes by itself a moment later would look like a change.
        for (name, value) in [("accept_dad", "0"), ("router_solicitations", "0")] {
            sysctl::write(&format!("net.ipv6.conf.{scope}.{name}"), value).unwrap();
        }
    }
    let setup = Command::new("sh").args(["-c", SETUP]).status().unwrap();
    assert!(setup.success(), "the namespace is laid");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let _server = listener.accept().unwrap();
    println!(
        "ready {} {} {}",
        rustix::net::sockopt::socket_cookie(&client).unwrap(),
        client.local_addr().unwrap(),
        client.peer_addr().unwrap()
    );
    // Until the test has ended, however it ends.
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// Puts a file system of this many KiB on a directory, visible to the calling thread only.
pub(crate) fn mount_small(directory: &Path, kib: u32) {
    // SAFETY: the thread was made for this test and shares nothing that depends on its mounts.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.unwrap();
    rustix::mount::mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )
    .unwrap();
    let options = std::ffi::CString::new(format!("size={kib}k,mode=0700")).unwrap();
    rustix::mount::mount(
        "none",
        directory,
        "tmpfs",
        MountFlags::empty(),
        options.as_c_str(),
    )
    .unwrap();
}

pub(crate) fn unmount(directory: &Path) {
    rustix::mount::unmount(directory, UnmountFlags::DETACH).unwrap();
}

fn output_of(line: &str) -> String {
    let mut words = line.split(' ');
    let output = Command::new(words.next().unwrap())
        .args(words)
        .output()
        .unwrap();
    assert!(output.status.success(), "{line}");
    let text = String::from_utf8(output.stdout).unwrap();
    // Spaces at the ends of lines differ between versions; counters change by themselves.
    format!("$ {line}\n{text}")
}
