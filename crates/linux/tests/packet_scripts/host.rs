//! The kernel as a host of scripts.

use std::collections::BTreeMap;
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};
use std::process::Command;
use std::time::Duration;

use base::{Instant, find_knob};
use linux::netlink::route::{self, Destination};
use linux::{Clock, sysctl};
use packet_script::{
    Call, CallResult, Engine, HOST_PORT, Icmp, PacketScript, ScriptHost, Setting, Setup, Value,
    Wire, pattern,
};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::socket::KernelSocket;
use crate::tun::PlainTun;
use crate::wire;

const DEVICE: &str = "script0";
/// How late a thread of this process may be.
const SLACK: Duration = Duration::from_millis(3);

/// The kernel that the scripts are about.
const RELEASE: &str = "6.18.";
/// How long a thread may run without waiting.
const RUN_MICROS_MAX: u64 = 2_000_000;

/// Every sysctl that a script may depend on, as Linux 6.18 has it, without `net.ipv4.`.
const SYSCTLS: &[(&str, &str)] = &[
    ("tcp_rmem", "4096 131072 33554432"),
    ("tcp_wmem", "4096 16384 4194304"),
    ("tcp_timestamps", "1"),
    ("tcp_sack", "1"),
    ("tcp_dsack", "1"),
    ("tcp_window_scaling", "1"),
    ("tcp_ecn", "2"),
    ("tcp_ecn_fallback", "1"),
    ("tcp_no_metrics_save", "1"),
    ("tcp_autocorking", "1"),
    ("tcp_slow_start_after_idle", "1"),
    ("tcp_moderate_rcvbuf", "1"),
    ("tcp_pingpong_thresh", "1"),
    ("tcp_early_retrans", "3"),
    ("tcp_recovery", "1"),
    ("tcp_frto", "2"),
    ("tcp_reordering", "3"),
    ("tcp_comp_sack_delay_ns", "1000000"),
    ("tcp_comp_sack_nr", "44"),
    ("tcp_mtu_probing", "0"),
    ("tcp_syn_linear_timeouts", "4"),
    ("tcp_syn_retries", "6"),
    ("tcp_synack_retries", "5"),
    ("tcp_retries1", "3"),
    ("tcp_retries2", "15"),
    ("tcp_fin_timeout", "60"),
    ("tcp_tw_reuse", "2"),
    ("tcp_rfc1337", "0"),
    ("tcp_syncookies", "1"),
    ("tcp_abort_on_overflow", "0"),
    ("tcp_max_syn_backlog", "1024"),
    ("tcp_challenge_ack_limit", "2147483647"),
    ("tcp_invalid_ratelimit", "500"),
    ("tcp_fastopen", "0"),
    ("tcp_shrink_window", "0"),
    ("tcp_rto_min_us", "200000"),
    ("tcp_tso_win_divisor", "3"),
    ("ip_local_port_range", "32768 60999"),
    ("ip_no_pmtu_disc", "0"),
    ("min_pmtu", "552"),
    ("icmp_ratelimit", "0"),
];

/// Whether a script sets something that is not a knob of ours.
pub(crate) fn needs_ip(script: &PacketScript) -> bool {
    let is_knob = |(name, _): &(String, String)| find_knob(&format!("route.{name}")).is_ok();
    !script.setup.routes.iter().all(is_knob)
}

/// Whether scripts can run here; otherwise why not.
pub(crate) fn may_run() -> Result<(), String> {
    let release = sysctl::read("kernel.osrelease").map_err(|error| error.to_string())?;
    if !release.starts_with(RELEASE) {
        return Err(format!(
            "the scripts say what Linux {RELEASE} does, and this is {release}"
        ));
    }
    std::thread::spawn(|| {
        enter_new_namespace()?;
        PlainTun::create(DEVICE)
            .map(drop)
            .map_err(|error| format!("a TUN device: {error}"))
    })
    .join()
    .expect("nothing panics there")
}

fn enter_new_namespace() -> Result<(), String> {
    // SAFETY: only the network namespace is unshared, no descriptor table.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }
        .map_err(|errno| format!("a network namespace: {errno}"))
}

/// One kernel host, in the namespace of the calling thread.
pub(crate) struct KernelHost {
    tun: PlainTun,
    buffer: Vec<u8>,
    host: IpAddr,
    peer: IpAddr,
    settings: Vec<Setting>,
    listener: Option<KernelSocket>,
    sockets: BTreeMap<String, KernelSocket>,
}

impl KernelHost {
    /// Takes the calling thread into a namespace of its own.
    pub(crate) fn create(setup: &Setup) -> Result<Self, String> {
        enter_new_namespace()?;
        let tun = PlainTun::create(DEVICE).map_err(|error| error.to_string())?;
        let (host, peer, prefix): (IpAddr, IpAddr, u8) = if setup.ipv6 {
            (
                [0xfd77, 0, 0, 0, 0, 0, 0, 1].into(),
                [0xfd77, 0, 0, 0, 0, 0, 0, 2].into(),
                64,
            )
        } else {
            ([10, 77, 0, 1].into(), [10, 77, 0, 2].into(), 24)
        };
        if !setup.ipv6 {
            // Nothing but what the script is about.
            let _ = sysctl::write("net.ipv6.conf.all.disable_ipv6", "1");
        }
        set_up_device(setup.mtu, host, prefix).map_err(|error| error.to_string())?;
        wait_for_route_of(host)?;
        let wanted = setup
            .sysctls
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in SYSCTLS.iter().copied() {
            // Not every kernel has every one.
            let _ = sysctl::write(&format!("net.ipv4.{name}"), value);
        }
        for (name, value) in wanted {
            let written = sysctl::write(&format!("net.ipv4.{name}"), value);
            written.map_err(|error| error.to_string())?;
        }
        let this = Self {
            tun,
            buffer: vec![0; 65_536],
            host,
            peer,
            settings: setup.settings.clone(),
            listener: None,
            sockets: BTreeMap::new(),
        };
        for (name, value) in &setup.routes {
            this.set_route(name, value)?;
        }
        become_realtime();
        Ok(this)
    }

    fn set_route(&self, name: &str, value: &str) -> Result<(), String> {
        let told = |error: &dyn std::fmt::Display| error.to_string();
        let Ok(knob) = find_knob(&format!("route.{name}")) else {
            return self.replace_route(name, value);
        };
        let parsed = knob.parse(value).map_err(|error| told(&error))?;
        let destination = Destination::of_host(self.peer);
        route::set_metric(destination, knob, &parsed).map_err(|error| told(&error))
    }

    /// Not a knob: `plain` removes all attributes.
    fn replace_route(&self, name: &str, value: &str) -> Result<(), String> {
        let mut command = Command::new("ip");
        command.args(["route", "replace", &self.peer.to_string(), "dev", DEVICE]);
        if name != "plain" {
            command.arg(name).args(value.split(' '));
        }
        let output = command.output().map_err(|error| format!("ip: {error}"))?;
        if output.status.success() {
            return Ok(());
        }
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }

    fn socket(&mut self, name: &str) -> Result<&mut KernelSocket, String> {
        self.sockets
            .get_mut(name)
            .ok_or_else(|| format!("there is no connection {name}"))
    }

    fn accept(&mut self, name: &str) -> Result<CallResult, String> {
        let listener = self.listener.as_ref().ok_or("no listener")?;
        Ok(match listener.accept() {
            Ok(socket) => {
                self.sockets.insert(name.to_owned(), socket);
                CallResult::Done
            }
            Err(other) => other,
        })
    }

    fn read(&mut self, name: &str, bytes: u32, peeks: bool) -> Result<CallResult, String> {
        let socket = self.socket(name)?;
        let start = socket.read + 1;
        match socket.read(bytes, peeks) {
            Ok(found) => {
                let wrong = |(at, byte): (i64, &u8)| *byte != pattern(start + at);
                if (0..).zip(&found).any(wrong) {
                    return Err("it reads other bytes than the peer sent".into());
                }
                Ok(CallResult::Count(found.len() as u32))
            }
            Err(other) => Ok(other),
        }
    }
}

impl ScriptHost for KernelHost {
    fn engine(&self) -> Engine {
        Engine::Kernel
    }

    fn now(&self) -> Instant {
        Clock.now()
    }

    fn slack(&self) -> Duration {
        SLACK
    }

    fn poll_packet(&mut self, until: Instant) -> Option<(Instant, Wire)> {
        loop {
            if let Some(length) = self.tun.read(&mut self.buffer) {
                let at = Clock.now();
                match wire::decode(&self.buffer[..length]) {
                    Some(found) => return Some((at, found)),
                    None => continue,
                }
            }
            let left = until.since(Clock.now());
            if left.is_zero() {
                return None;
            }
            wait_readable(&self.tun, left);
        }
    }

    fn handle_packet(&mut self, packet: &Wire) {
        self.tun.write(&wire::encode(packet, self.peer, self.host));
    }

    fn handle_icmp(&mut self, icmp: &Icmp) {
        self.tun
            .write(&wire::encode_icmp(icmp, self.peer, self.host));
    }

    fn call(&mut self, name: &str, remote: u16, call: &Call) -> Result<CallResult, String> {
        match call {
            Call::Listen { backlog } => {
                let socket = KernelSocket::new(self.host.is_ipv6(), &self.settings)?;
                socket.listen(SocketAddr::new(self.host, HOST_PORT), *backlog)?;
                self.listener = Some(socket);
            }
            Call::Connect => {
                let socket = KernelSocket::new(self.host.is_ipv6(), &self.settings)?;
                let result = socket.connect(SocketAddr::new(self.peer, remote));
                self.sockets.insert(name.to_owned(), socket);
                return Ok(result);
            }
            Call::Accept => return self.accept(name),
            Call::Write {
                bytes,
                more,
                urgent,
            } => {
                let socket = self.socket(name)?;
                let start = socket.written + 1;
                let data: Vec<u8> = (start..start + i64::from(*bytes)).map(pattern).collect();
                return Ok(socket.write(&data, *more, *urgent));
            }
            Call::Read { bytes } => return self.read(name, *bytes, false),
            Call::Peek { bytes } => return self.read(name, *bytes, true),
            Call::Shutdown => return Ok(self.socket(name)?.shutdown(Shutdown::Write)),
            Call::ShutdownRead => return Ok(self.socket(name)?.shutdown(Shutdown::Read)),
            Call::ShutdownBoth => return Ok(self.socket(name)?.shutdown(Shutdown::Both)),
            Call::Close => drop(self.sockets.remove(name)),
            Call::Abort => {
                self.socket(name)?.reset_on_close();
                drop(self.sockets.remove(name));
            }
            Call::Set(setting) => self.socket(name)?.set(setting)?,
            Call::Route(name, value) => self.set_route(name, value)?,
        }
        Ok(CallResult::Done)
    }

    fn sample(&mut self, connection: &str, field: &str) -> Option<Value> {
        self.sockets.get(connection)?.sample(field)
    }
}

fn set_up_device(mtu: u16, address: IpAddr, prefix: u8) -> linux::Result<()> {
    use linux::netlink::{addr, link};
    link::set_mtu(DEVICE, mtu.into())?;
    link::set_txqueuelen(DEVICE, 10_000)?;
    addr::add(DEVICE, address, prefix)?;
    link::set_up(DEVICE)
}

/// The kernel makes the route of an IPv6 address a little later, and drops packets until then.
fn wait_for_route_of(address: IpAddr) -> Result<(), String> {
    let IpAddr::V6(address) = address else {
        return Ok(());
    };
    let line = format!("{:032x} 80 ", address.to_bits());
    for _ in 0..1000 {
        let routes = std::fs::read_to_string("/proc/thread-self/net/ipv6_route");
        let routes = routes.map_err(|error| error.to_string())?;
        if routes.lines().any(|route| route.starts_with(&line)) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Err(format!("no route of {address} came about"))
}

fn wait_readable(tun: &PlainTun, at_most: Duration) {
    let mut poll = libc::pollfd {
        fd: tun.as_fd().as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let time = libc::timespec {
        tv_sec: i64::try_from(at_most.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: at_most.subsec_nanos().into(),
    };
    // SAFETY: one `pollfd` and a time, which outlive the call; no signal mask.
    unsafe { libc::ppoll(&raw mut poll, 1, &raw const time, std::ptr::null()) };
}

/// So that a busy machine does not pass for a late kernel. Where it is refused, scripts are tried
/// again more often.
pub(crate) fn become_realtime() {
    // A thread that never waits would keep the machine to itself: it is ended.
    let limit = libc::rlimit {
        rlim_cur: RUN_MICROS_MAX,
        rlim_max: RUN_MICROS_MAX,
    };
    // SAFETY: the limit outlives the call.
    if unsafe { libc::setrlimit(libc::RLIMIT_RTTIME, &raw const limit) } != 0 {
        return;
    }
    let parameters = libc::sched_param { sched_priority: 20 };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the parameters outlive the call; 0 means the calling thread.
    unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) };
}
