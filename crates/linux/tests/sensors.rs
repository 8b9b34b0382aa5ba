//! The sensors on real sockets, in a namespace made for each test. Programs to be watched are this
//! test program itself, started again with a role in [`ROLE`].

mod asking;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::{FlowSample, Netns, TcpState};
use doctor::Recording;
use linux::{
    Clock, Error, Filter, LabNetns, NetnsHandle, RemoteSocket, ScanRequest, SockDiag, SocketOwners,
    WatchProgress, WatchRequest, cgroup_id, host_sample, process_cgroup, watch,
};

const ROLE: &str = "SENSORS_TEST_ROLE";

/// What a started copy of this program does; without a role it is an empty test.
#[test]
fn role() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let words: Vec<_> = role.split(' ').collect();
    match words[..] {
        ["options", address] => hold_with_options(address),
        ["write-write-read", address] => write_write_read(address),
        ["reconnect", address] => reconnect(address),
        ["watch-own"] => watch_own(),
        ["look-into", pid, fd, cookie] => look_into(pid, fd, cookie),
        _ => panic!("unknown role `{role}`"),
    }
}

fn hold_with_options(address: &str) {
    let stream = TcpStream::connect(address).expect("a listener");
    stream.set_nodelay(true).expect("an option");
    rustix::net::sockopt::set_tcp_cork(&stream, true).expect("an option");
    rustix::net::sockopt::set_socket_recv_buffer_size(&stream, 20_000).expect("an option");
    println!("ready");
    wait_for_end_of_input();
}

fn write_write_read(address: &str) {
    let mut stream = TcpStream::connect(address).expect("a listener");
    println!("ready");
    let mut reply = [0; 1];
    // Ends when the other side closes or this process is killed.
    while stream.write_all(&[1; 4]).is_ok() && stream.write_all(&[2; 100]).is_ok() {
        if stream.read_exact(&mut reply).is_err() {
            return;
        }
    }
}

fn reconnect(address: &str) {
    println!("ready");
    let input = std::thread::spawn(wait_for_end_of_input);
    while !input.is_finished() {
        let mut stream = TcpStream::connect(address).expect("a listener");
        stream.write_all(b"x").expect("a connection");
        std::thread::sleep(Duration::from_millis(60));
    }
}

/// Without privilege a user sees every flow of the namespace, and the options of those that are the
/// user's own.
fn watch_own() {
    let (listener, address) = listen("127.0.0.1:0");
    let _client = TcpStream::connect(address).expect("a listener");
    let own = NetnsHandle::open(&Netns::Own).expect("our own namespace");
    let mut request = WatchRequest::new(Filter::default(), Duration::from_millis(50));
    request.netns = Some(&own);
    let watched = run_watch(&request);
    let has = |condition: &dyn Fn(&doctor::Track) -> bool| {
        watched.flows.iter().filter(|flow| condition(flow)).count()
    };
    println!(
        "ready all {} mine {} with options {} unseen {}",
        watched.flows.len(),
        has(&|flow| flow.key.remote == address && flow.owners.len() == 1),
        has(&|flow| first(flow).nodelay.is_some()),
        watched.unseen_processes > 0,
    );
    drop(listener);
}

fn look_into(pid: &str, fd: &str, cookie: &str) {
    let number = |text: &str| text.parse::<u64>().expect("a number");
    let opened = RemoteSocket::open(number(pid) as u32, number(fd) as i32, number(cookie));
    match opened {
        Err(Error::Permission { what, needs, hint }) => println!("ready {what}; {needs}; {hint}"),
        other => println!("ready {other:?}"),
    }
}

fn wait_for_end_of_input() {
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

/// A copy of this program in a role. It ends when dropped.
struct Program {
    child: Child,
    first_line: String,
}

impl Program {
    fn start(role: &str, uid: Option<u32>) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("our own path"));
        command
            .args(["--exact", "role", "--nocapture"])
            .env(ROLE, role)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        if let Some(uid) = uid {
            command.uid(uid).gid(uid);
        }
        let mut child = command.spawn().expect("our own program starts");
        let output = child.stdout.as_mut().expect("it is piped");
        let first_line = BufReader::new(output)
            .lines()
            .map_while(Result::ok)
            .find_map(|line| line.split_once("ready").map(|(_, rest)| rest.trim().into()))
            .unwrap_or_else(|| panic!("`{role}` did not begin"));
        Self { child, first_line }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a test in a fresh namespace whose loopback is up.
fn in_namespace(test: impl FnOnce(&LabNetns) + Send) {
    let Some([netns]) = asking::permitted(LabNetns::create(["sensors"])) else {
        return;
    };
    netns
        .handle()
        .run(|| {
            linux::netlink::link::set_up("lo").expect("loopback can be switched on");
            test(&netns);
        })
        .expect("our own namespace can be entered");
}

fn listen(address: &str) -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind(address).expect("a port");
    let address = listener.local_addr().expect("an address");
    (listener, address)
}

/// Answers each message of 104 bytes by one byte until the client goes.
fn serve_one(listener: &TcpListener) {
    let (mut stream, _) = listener.accept().expect("a client");
    let mut message = [0; 104];
    while stream.read_exact(&mut message).is_ok() && stream.write_all(b"r").is_ok() {}
}

fn filter(text: &str) -> Filter {
    text.parse().expect("a filter")
}

fn run_watch(request: &WatchRequest<'_>) -> Recording {
    watch(request, &mut |_| {}).expect("watching works")
}

/// Watches until that is enough, which takes longer on a busy machine.
fn watch_until(
    request: &WatchRequest<'_>,
    mut enough: impl FnMut(WatchProgress) -> bool + Send,
) -> Recording {
    let stop = AtomicBool::new(false);
    let request = WatchRequest {
        stop: Some(&stop),
        ..request.clone()
    };
    let mut end_when_enough = |step: WatchProgress| {
        if enough(step) {
            stop.store(true, Ordering::Relaxed);
        }
    };
    watch(&request, &mut end_when_enough).expect("watching works")
}

#[test]
fn a_scan_shows_the_sockets_of_its_namespace_only() {
    let (_outside, outside_address) = listen("127.0.0.1:0");
    in_namespace(|netns| {
        let (v4, v4_address) = listen("127.0.0.1:0");
        let (v6, v6_address) = listen("[::]:0");
        let mapped = SocketAddr::from(([127, 0, 0, 1], v6_address.port()));
        let native: SocketAddr = format!("[::1]:{}", v6_address.port())
            .parse()
            .expect("valid");
        let mut held = Vec::new();
        for (listener, address) in [(&v4, v4_address), (&v6, mapped), (&v6, native)] {
            held.push(TcpStream::connect(address).expect("a listener"));
            held.push(listener.accept().expect("a client").0);
        }
        let mut diag = SockDiag::open_in(netns.handle()).expect("sock_diag");
        let samples = diag.scan(&ScanRequest::default()).expect("a scan");
        assert_eq!(samples.len(), 6, "both ends of three connections");
        for sample in &samples {
            assert_eq!(sample.state, Some(TcpState::Established));
            assert!(sample.cwnd_pkts.is_some() && sample.sndbuf_bytes.is_some());
            assert!(sample.congestion.is_some() && sample.inode.is_some());
            let is_bbr = sample.congestion.as_deref() == Some("bbr");
            assert_eq!(sample.bbr.is_some(), is_bbr, "{:?}", sample.congestion);
        }
        for (address, is_v4) in [(v4_address, true), (mapped, true), (native, false)] {
            let found: Vec<_> = samples
                .iter()
                .filter(|sample| sample.key.remote == address)
                .collect();
            assert_eq!(found.len(), 1, "{address}");
            assert_eq!(found[0].key.local.is_ipv4(), is_v4);
        }
        let all = ScanRequest {
            listeners: true,
            ..ScanRequest::default()
        };
        let with_listeners = diag.scan(&all).expect("a scan");
        assert_eq!(with_listeners.len(), 8);
        assert!(
            with_listeners
                .iter()
                .all(|sample| sample.key.local != outside_address)
        );
        let by_port = ScanRequest {
            remote_port: Some(v4_address.port()),
            ..ScanRequest::default()
        };
        assert_eq!(diag.scan(&by_port).expect("a scan").len(), 1);
        check_single(&mut diag, &samples, held);
    });
}

fn check_single(diag: &mut SockDiag, samples: &[FlowSample], held: Vec<TcpStream>) {
    for sample in samples {
        let mut one = |cookie| {
            diag.sample_one(sample.at, sample.key, cookie)
                .expect("an answer")
        };
        let same = one(sample.cookie).expect("it is still there");
        assert_eq!((same.cookie, same.inode), (sample.cookie, sample.inode));
        assert!(one(None).is_some());
        assert!(one(Some(1)).is_none(), "another connection's cookie");
    }
    drop(held);
    for sample in samples {
        let gone = diag
            .sample_one(sample.at, sample.key, sample.cookie)
            .expect("an answer");
        assert!(
            gone.is_none_or(|sample| sample.state != Some(TcpState::Established)),
            "{}",
            sample.key
        );
    }
}

#[test]
fn a_listener_shows_how_long_its_queue_is() {
    in_namespace(|_| {
        let (listener, address) = listen("127.0.0.1:0");
        let _waiting = [(); 3].map(|()| TcpStream::connect(address).expect("a listener"));
        let request = ScanRequest {
            listeners: true,
            local_port: Some(address.port()),
            ..ScanRequest::default()
        };
        let samples = SockDiag::open()
            .and_then(|mut diag| diag.scan(&request))
            .expect("a scan");
        let sample = samples
            .iter()
            .find(|sample| sample.state == Some(TcpState::Listen))
            .expect("the listener");
        assert_eq!(sample.unacked_pkts, Some(3));
        assert!(
            sample.sacked_pkts >= Some(3),
            "the limit: {:?}",
            sample.sacked_pkts
        );
        assert_eq!((sample.unread_bytes, sample.srtt), (None, None));
        drop(listener);
    });
}

#[test]
fn a_subflow_of_multipath_tcp_is_recognized() {
    in_namespace(|netns| {
        let stream = socket2::Type::STREAM;
        let made = socket2::Socket::new(
            socket2::Domain::IPV4,
            stream,
            Some(socket2::Protocol::MPTCP),
        );
        let (Ok(socket), (_listener, plain)) = (made, listen("127.0.0.1:0")) else {
            return asking::skip("this kernel has no MPTCP");
        };
        // A plain listener answers without it, and then the kernel falls back to one connection.
        socket.connect(&plain.into()).expect("a listener");
        let mut diag = SockDiag::open_in(netns.handle()).expect("sock_diag");
        let samples = diag.scan(&ScanRequest::default()).expect("a scan");
        let upper = |is_of: &dyn Fn(&FlowSample) -> bool| {
            let sample = samples.iter().find(|sample| is_of(sample));
            sample.expect("it is open").upper.as_deref()
        };
        assert_eq!(upper(&|sample| sample.key.remote == plain), Some("mptcp"));
        assert_eq!(upper(&|sample| sample.key.local == plain), None);
    });
}

#[test]
fn options_of_another_process_are_read() {
    in_namespace(|_| {
        let (_listener, address) = listen("127.0.0.1:0");
        let program = Program::start(&format!("options {address}"), None);
        let samples = SockDiag::open()
            .and_then(|mut diag| diag.scan(&ScanRequest::default()))
            .expect("a scan");
        let mut sample = samples
            .into_iter()
            .find(|sample| sample.key.remote == address)
            .expect("the program's connection");
        let owners = SocketOwners::scan().expect("/proc");
        let owner = &owners.of(sample.inode.expect("an inode"))[0];
        assert_eq!(owner.pid(), program.pid());
        assert!(owner.process.cmdline.contains("--exact role"));

        let cookie = sample.cookie.expect("a cookie");
        let socket = RemoteSocket::open(owner.pid(), owner.fd, cookie).expect("root may");
        socket.read_options(&mut sample);
        assert_eq!((sample.nodelay, sample.cork), (Some(true), Some(true)));
        assert_eq!(sample.rcvbuf_locked, Some(true));
        assert_eq!(sample.sndbuf_locked, Some(false));
        assert_eq!(sample.rcvbuf_bytes, Some(40_000), "the kernel doubles it");

        let group = process_cgroup(program.pid());
        if let Some(id) = group.as_deref().and_then(cgroup_id) {
            assert_eq!(sample.cgroup_id, Some(id), "{group:?}");
        }

        let (pid, fd) = (owner.pid(), owner.fd);
        drop(program);
        match RemoteSocket::open(pid, fd, cookie) {
            Err(Error::NotFound { what, .. }) => assert_eq!(what, "process"),
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn another_users_socket_is_refused_with_advice() {
    in_namespace(|_| {
        let (listener, _) = listen("127.0.0.1:0");
        let cookie = rustix::net::sockopt::socket_cookie(&listener).expect("a cookie");
        let (pid, fd) = (std::process::id(), listener.as_raw_fd());
        let role = format!("look-into {pid} {fd} {cookie}");
        let program = Program::start(&role, Some(65_534));
        assert!(
            program.first_line.contains("CAP_SYS_PTRACE; run as root"),
            "{}",
            program.first_line
        );
    });
}

#[test]
fn without_privilege_everything_but_other_users_options_is_seen() {
    in_namespace(|_| {
        let (listener, address) = listen("127.0.0.1:0");
        let _client = TcpStream::connect(address).expect("a listener");
        let program = Program::start("watch-own", Some(65_534));
        // Both ends of two connections; an end that was not accepted yet has no owner.
        assert_eq!(
            program.first_line,
            "all 4 mine 1 with options 1 unseen true"
        );
        drop(listener);
    });
}

#[test]
fn a_stalling_program_is_watched_with_its_owner() {
    in_namespace(|netns| {
        let (listener, address) = listen("127.0.0.1:0");
        std::thread::scope(|scope| {
            scope.spawn(|| serve_one(&listener));
            let program = Program::start(&format!("write-write-read {address}"), None);
            let pid = program.pid();
            let by_pid = filter(&format!("pid = {pid}"));
            let mut request = WatchRequest::new(by_pid, Duration::from_secs(60));
            request.netns = Some(netns.handle());
            request.sysctls = &["net.ipv4.tcp_wmem"];
            let mut steps = Vec::new();
            let watched = watch_until(&request, |step| {
                let samples = step.tracks.samples();
                steps.push((step.tracks.iter().count(), samples, step.looks));
                samples >= 20
            });
            assert_eq!(watched.flows.len(), 1, "{watched:?}");
            let flow = &watched.flows[0];
            assert_eq!(flow.key.remote, address);
            assert_eq!(flow.owners[0].pid(), pid);
            assert!(!flow.ended && flow.options_error.is_none());
            assert!(flow.samples.len() >= 20, "{}", flow.samples.len());
            assert!(flow.samples.iter().is_sorted_by_key(|sample| sample.at));
            // The owner's descriptor is taken once, and once more when the options have settled.
            let oldest = first(flow);
            assert_eq!((oldest.nodelay, oldest.cork), (Some(false), Some(false)));
            let with_options = flow.samples.iter().filter(|s| s.nodelay.is_some()).count();
            assert!(with_options <= 2, "{with_options}");
            assert!(
                flow.samples
                    .iter()
                    .any(|sample| sample.owner_cpu_time.is_some())
            );
            let stalled = |sample: Arc<FlowSample>| {
                sample.unacked_pkts > Some(0) && sample.notsent_bytes > Some(0)
            };
            assert!(flow.samples.iter().any(stalled));
            let (first, last) = (&watched.hosts[0], &watched.hosts[watched.hosts.len() - 1]);
            let delayed = |sample: &base::HostSample| sample.counters["TcpExtDelayedACKs"];
            assert!(delayed(last) > delayed(first));
            assert!(first.at <= oldest.at);
            assert!(first.sysctls.contains_key("net.ipv4.tcp_wmem"));
            let (flows, samples, looks): (usize, usize, u64) =
                *steps.last().expect("progress is told");
            assert_eq!((flows, samples), (1, flow.samples.len()));
            assert!(looks >= samples as u64, "{looks} {samples}");
        });
    });
}

#[test]
fn a_process_that_exits_ends_the_watch_with_what_was_seen() {
    in_namespace(|_| {
        let (listener, address) = listen("127.0.0.1:0");
        std::thread::scope(|scope| {
            scope.spawn(|| serve_one(&listener));
            let mut program = Program::start(&format!("write-write-read {address}"), None);
            let by_pid = filter(&format!("pid = {}", program.pid()));
            let request = WatchRequest::new(by_pid, Duration::from_secs(60));
            // Not reaped before the watch has ended: a zombie is gone all the same.
            let mut kill_when_seen = |step: WatchProgress| {
                if step.tracks.samples() >= 2 {
                    program.child.kill().expect("our own child");
                }
            };
            let watched = watch(&request, &mut kill_when_seen).expect("watching works");
            assert!(watched.process_ended && !watched.stopped);
            assert_eq!(watched.flows.len(), 1);
            assert!(watched.flows[0].samples.len() >= 2);
            assert!(watched.hosts.len() >= 2);
        });
    });
}

#[test]
fn flows_that_live_shorter_than_the_window_are_kept() {
    in_namespace(|_| {
        let (listener, address) = listen("127.0.0.1:0");
        let program = Program::start(&format!("reconnect {address}"), None);
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let (mut stream, _) = listener.accept().expect("a client");
                    let _ = stream.read_to_end(&mut Vec::new());
                }
            });
            let text = format!("pid = {} and dport = :{}", program.pid(), address.port());
            let request = WatchRequest::new(filter(&text), Duration::from_secs(60));
            let watched = watch_until(&request, |step| step.tracks.iter().count() >= 8);
            // Before anything is claimed: the server would wait for ever for another client.
            over.store(true, Ordering::Relaxed);
            drop(program);
            let _ = TcpStream::connect(address);
            assert!(watched.flows.len() >= 8, "{}", watched.flows.len());
            let ended = watched.flows.iter().filter(|flow| flow.ended).count();
            assert!(ended >= 2, "{ended} ended");
            let known = |flow: &&doctor::Track| first(flow).nodelay.is_some();
            assert!(watched.flows.iter().filter(known).count() >= 2);
        });
    });
}

#[test]
fn watching_does_not_keep_a_closed_connection_open() {
    in_namespace(|_| {
        let (listener, address) = listen("127.0.0.1:0");
        let client = TcpStream::connect(address).expect("a listener");
        let (mut server, _) = listener.accept().expect("a client");
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (seen, when_seen) = std::sync::mpsc::channel();
            let stop = &stop;
            let watching = scope.spawn(move || {
                let by_port = filter(&format!("dport = :{}", address.port()));
                let mut request = WatchRequest::new(by_port, Duration::from_secs(60));
                request.stop = Some(stop);
                let mut tell = |step: WatchProgress| {
                    if step.tracks.samples() > 0 {
                        // Only the first is waited for.
                        let _ = seen.send(());
                    }
                };
                watch(&request, &mut tell).expect("watching works")
            });
            when_seen.recv().expect("the connection is there");
            drop(client);
            // Comes only if no process holds the client's socket any more.
            assert_eq!(server.read(&mut [0]).expect("the end"), 0);
            stop.store(true, Ordering::Relaxed);
            let watched = watching.join().expect("no panic");
            assert!(watched.stopped && !watched.process_ended);
            assert_eq!(watched.flows.len(), 1);
            assert!(first(&watched.flows[0]).nodelay.is_some());
        });
    });
}

#[test]
fn what_is_not_there_is_said_at_the_start() {
    let gone = filter("pid = 4194305");
    let request = WatchRequest::new(gone, Duration::from_secs(60));
    let error = watch(&request, &mut |_| {}).expect_err("no such process");
    assert!(error.to_string().contains("4194305"), "{error}");
    in_namespace(|_| {
        let nothing = WatchRequest::new(filter(":1"), Duration::from_millis(30));
        let watched = run_watch(&nothing);
        assert!(watched.flows.is_empty() && watched.hosts.len() >= 2);
    });
}

#[test]
fn very_many_flows_are_looked_at_less_often() {
    in_namespace(|_| {
        let (listener, address) = listen("127.0.0.1:0");
        let _held: Vec<_> = (0..50)
            .map(|_| {
                let client = TcpStream::connect(address).expect("a listener");
                (client, listener.accept().expect("a client"))
            })
            .collect();
        let mut request = WatchRequest::new(Filter::default(), Duration::from_millis(1500));
        request.samples_max = 400;
        let watched = run_watch(&request);
        assert_eq!(watched.flows.len(), 100);
        let samples: usize = watched.flows.iter().map(|flow| flow.samples.len()).sum();
        // The first look, the ration, and the last look at all of them.
        assert!(samples <= 400 + 200, "{samples}");
        assert!(watched.flows.iter().all(|flow| flow.samples.len() >= 2));
        request.samples_max = 10;
        assert!(run_watch(&request).flows_left_out > 0);
    });
}

#[test]
fn counters_and_links_are_those_of_the_namespace() {
    in_namespace(|_| {
        let before = host_sample(Clock.now(), &[]).expect("a sample");
        assert_eq!(before.links.len(), 1, "only loopback: {:?}", before.links);
        let (listener, address) = listen("127.0.0.1:0");
        let client = TcpStream::connect(address).expect("a listener");
        let after = host_sample(Clock.now(), &[]).expect("a sample");
        let opens = |sample: &base::HostSample| sample.counters["TcpActiveOpens"];
        assert_eq!((opens(&before), opens(&after)), (0, 1));
        assert!(after.links[0].tx_pkts > before.links[0].tx_pkts);
        assert_eq!(after.links[0].mtu_bytes, 65_536);
        assert_eq!(after.links[0].qdiscs[0].kind, "noqueue");
        drop((client, listener));
    });
}

#[test]
fn connections_shorter_than_two_looks_are_seen_whole() {
    in_namespace(|netns| {
        let (listener, address) = listen("127.0.0.1:0");
        let by_port = filter(&format!("dport = :{}", address.port()));
        let mut request = WatchRequest::new(by_port, Duration::from_secs(60));
        request.netns = Some(netns.handle());
        request.interval = Duration::from_millis(500);
        let mut asked = 0;
        let watched = watch_until(&request, |_| {
            // The kernel tells of the last one some time after it was closed.
            if asked == 5 {
                return true;
            }
            // Between two looks: opened, used and closed.
            let mut client = TcpStream::connect(address).expect("a listener");
            let (mut server, _) = listener.accept().expect("a client");
            client.write_all(&[7; 1000]).expect("an open connection");
            drop(client);
            server.read_to_end(&mut Vec::new()).expect("all of it");
            asked += 1;
            false
        });
        let whole = |sample: &FlowSample| sample.bytes_acked >= Some(1000);
        let clients = watched
            .flows
            .iter()
            .filter(|flow| flow.key.remote == address);
        let seen = clients.filter(|flow| flow.samples.iter().any(|sample| whole(&sample)));
        assert_eq!(seen.count(), asked, "{watched:?}");
    });
}

fn first(flow: &doctor::Track) -> &FlowSample {
    flow.samples.first().expect("a connection has a sample")
}
