use std::io::Read;
use std::net::{TcpListener, TcpStream};

use base::{FlowKey, KnobValue};
use socket2::{Domain, Socket, Type};

use super::*;

#[test]
fn the_listener_of_an_accepted_socket_is_found_by_its_port() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let client = TcpStream::connect(listener.local_addr().expect("bound")).expect("a server");
    let (accepted, _) = listener.accept().expect("a client");
    let output = Output::new(&crate::cli::Globals::default());
    let pid = std::process::id();
    let mut subject = ProcessSubject::look_only(pid, &output).expect("it is ours");
    let mut change = |socket: &TcpStream, pid: u32| {
        let target = Target::Socket {
            netns: subject.netns_name.clone(),
            pid,
            cookie: 1,
            key: FlowKey {
                local: socket.local_addr().expect("connected"),
                remote: socket.peer_addr().expect("connected"),
            },
        };
        let change = Change {
            target,
            knob: "nodelay".into(),
            to: KnobValue::Flag(true),
        };
        subject.on_listener(&change).expect("sockets are listed")
    };
    let found = change(&accepted, pid).pop().expect("a listener");
    let Target::Socket { key, .. } = &found.target else {
        panic!("{found:?}");
    };
    assert_eq!(key.local, listener.local_addr().expect("bound"));
    assert_eq!(found.to, KnobValue::Flag(true));
    // Who connected listens nowhere.
    assert_eq!(change(&client, pid), []);
}

/// A connection as an accepting process sees it, and the process that holds its listener alone.
struct HandedOn {
    accepted: TcpStream,
    _client: TcpStream,
    master: std::process::Child,
}

impl HandedOn {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = listener.local_addr().expect("bound");
        let client = TcpStream::connect(address).expect("a server");
        let (accepted, _) = listener.accept().expect("a client");
        let master = std::process::Command::new("sleep")
            .arg("60")
            .stdin(std::process::Stdio::from(std::os::fd::OwnedFd::from(
                listener,
            )))
            .spawn()
            .expect("a program that waits");
        Self {
            accepted,
            _client: client,
            master,
        }
    }
}

impl Drop for HandedOn {
    fn drop(&mut self) {
        let _ = self.master.kill();
        let _ = self.master.wait();
    }
}

/// A change of an accepted socket of this process.
fn change_of(subject: &ProcessSubject<'_>, key: FlowKey) -> Change {
    Change {
        target: Target::Socket {
            netns: subject.netns_name.clone(),
            pid: std::process::id(),
            cookie: 1,
            key,
        },
        knob: "nodelay".into(),
        to: KnobValue::Flag(true),
    }
}

#[test]
fn a_listener_of_another_process_or_address_is_left_alone() {
    let connection = HandedOn::new();
    let local = connection.accepted.local_addr().expect("connected");
    let output = Output::new(&crate::cli::Globals::default());
    let pid = std::process::id();
    let mut subject = ProcessSubject::look_only(pid, &output).expect("it is ours");
    let remote = connection.accepted.peer_addr().expect("connected");
    let change = change_of(&subject, FlowKey { local, remote });
    let mut found = || subject.on_listener(&change).expect("sockets are listed");
    assert_eq!(found(), [], "another process has it");
    let elsewhere = TcpListener::bind(("127.0.0.2", local.port())).expect("loopback");
    assert_eq!(found(), [], "it accepts at another address");
    drop((elsewhere, connection));
    let _everywhere = TcpListener::bind(("0.0.0.0", local.port())).expect("a free port");
    assert_eq!(found().len(), 1, "it accepts at every address");
}

/// As a server that forks for each connection hands it to a process of its own.
#[test]
fn the_connections_of_its_children_are_those_of_a_server() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let local = listener.local_addr().expect("bound");
    let client = TcpStream::connect(local).expect("a server");
    let (accepted, _) = listener.accept().expect("a client");
    let mut child = std::process::Command::new("sleep")
        .arg("60")
        .stdin(std::process::Stdio::from(std::os::fd::OwnedFd::from(
            accepted,
        )))
        .spawn()
        .expect("a program that waits");
    let output = Output::new(&crate::cli::Globals::default());
    let mut subject = ProcessSubject::look_only(std::process::id(), &output).expect("ours");
    let look = subject.look(Duration::from_millis(100));
    child.kill().expect("our own child");
    child.wait().expect("our own child");
    drop(client);
    let look = look.expect("it runs");
    let found = look
        .here
        .flows
        .iter()
        .find(|track| track.key.local == local);
    let found = found.expect("it was accepted here");
    assert_eq!(found.pid(), Some(child.id()));
    assert!(subject.wants(found));
}

#[test]
fn a_listener_that_has_the_value_already_is_no_change() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let local = listener.local_addr().expect("bound");
    let client = TcpStream::connect(local).expect("a server");
    let output = Output::new(&crate::cli::Globals::default());
    let pid = std::process::id();
    let mut subject = ProcessSubject::look_only(pid, &output).expect("it is ours");
    let remote = client.local_addr().expect("connected");
    let change = change_of(&subject, FlowKey { local, remote });
    let mut found = || subject.on_listener(&change).expect("sockets are listed");
    assert_eq!(found().len(), 1);
    socket2::SockRef::from(&listener)
        .set_tcp_nodelay(true)
        .expect("an open socket");
    assert_eq!(found(), []);
}

#[test]
fn all_listeners_that_share_an_address_get_the_change() {
    let listen = |port| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        socket.set_reuse_port(true).expect("Linux 3.9");
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], port));
        socket.bind(&address.into()).expect("they share it");
        socket.listen(8).expect("it is bound");
        TcpListener::from(socket)
    };
    let first = listen(0);
    let local = first.local_addr().expect("bound");
    let _others = [listen(local.port()), listen(local.port())];
    let client = TcpStream::connect(local).expect("a server");
    let output = Output::new(&crate::cli::Globals::default());
    let pid = std::process::id();
    let mut subject = ProcessSubject::look_only(pid, &output).expect("it is ours");
    let remote = client.local_addr().expect("connected");
    let change = change_of(&subject, FlowKey { local, remote });
    let found = subject.on_listener(&change).expect("sockets are listed");
    let cookies: std::collections::BTreeSet<u64> = found
        .iter()
        .filter_map(|change| match change.target {
            Target::Socket { cookie, .. } => Some(cookie),
            _ => None,
        })
        .collect();
    assert_eq!(cookies.len(), 3, "{found:?}");
}

/// A broker has the short connections of its publishers beside that of its subscriber.
#[test]
fn a_change_is_judged_by_the_service_that_it_is_for() {
    let output = Output::new(&crate::cli::Globals::default());
    let pid = std::process::id();
    let subject = ProcessSubject::look_only(pid, &output).expect("it is ours");
    let second = Duration::from_secs(1);
    let began = base::Instant::ZERO + second;
    let track = |port: u16, bytes: u64| {
        let key = FlowKey {
            local: ([10, 0, 0, 1], 40_000).into(),
            remote: ([10, 0, 0, 2], port).into(),
        };
        let sample = |(at, acked)| {
            std::sync::Arc::new(FlowSample {
                bytes_acked: Some(acked),
                ..FlowSample::empty(at, key)
            })
        };
        Track {
            key,
            cookie: port.into(),
            owners: vec![doctor::SocketOwner {
                fd: 3,
                process: std::sync::Arc::new(doctor::ProcessInfo {
                    pid,
                    command: "broker".into(),
                    cmdline: String::new(),
                    cgroup: None,
                }),
            }],
            samples: [(began, 0), (began + second, bytes)]
                .map(sample)
                .into_iter()
                .collect(),
            ended: false,
            interface: None,
            options_error: None,
        }
    };
    let recording = doctor::Recording {
        flows: vec![track(1883, 1000), track(5432, 500_000)],
        began,
        ended: began + second,
        ..doctor::Recording::default()
    };
    let place = Services::of(&recording).place(recording.flows[0].key);
    let look = Look::new((recording, Netns::Own), None, |_| lab::Measure::default());
    let measure = subject.measure_of_service(&look, place);
    assert_eq!(measure.goodput_bps, 8000);
}

#[test]
fn what_other_processes_send_to_the_same_host_is_counted_and_nothing_else() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let port = listener.local_addr().expect("bound").port();
    let start = |goes_on: &str| {
        let script = format!(
            "exec 3<>/dev/tcp/127.0.0.1/{port}
            while printf %01000d 0 >&3; do sleep 0.05 3>&-; {goes_on}; done
            exec sleep 60"
        );
        let mut command = std::process::Command::new("bash");
        command.args(["-c", &script]).spawn().expect("a shell")
    };
    let check = |goes_on: &str, is_counted: bool| {
        let mut programs = [start("true"), start(goes_on)];
        let accepted = [(); 2].map(|()| {
            let (mut stream, _) = listener.accept().expect("it has connected");
            stream.read_exact(&mut [0; 1000]).expect("it writes");
            stream
        });
        let own = programs[0].id();
        let output = Output::new(&crate::cli::Globals::default());
        let mut subject = ProcessSubject::look_only(own, &output).expect("it is ours");
        // What was sent once is acknowledged by then.
        std::thread::sleep(Duration::from_millis(200));
        let look = subject.look(Duration::from_millis(400));
        for program in &mut programs {
            program.kill().expect("our own child");
            program.wait().expect("our own child");
        }
        drop(accepted);
        let look = look.expect("it runs");
        let seen: Vec<Option<u32>> = look.here.flows.iter().map(Track::pid).collect();
        assert_eq!(seen, [Some(own)], "the other one is not looked at");
        assert_eq!(look.measure.beside_bps.is_some(), is_counted);
    };
    check("true", true);
    check("break", false);
}

#[test]
fn another_process_of_the_same_number_is_not_looked_at() {
    let sleep = || {
        let mut command = std::process::Command::new("sleep");
        command.arg("60").spawn().expect("a program that waits")
    };
    let end = |mut child: std::process::Child| {
        child.kill().expect("our own child");
        child.wait().expect("our own child");
    };
    let first = sleep();
    let pid = first.id();
    let output = Output::new(&crate::cli::Globals::default());
    let mut subject = ProcessSubject::look_only(pid, &output).expect("it is ours");
    subject.look(Duration::from_millis(20)).expect("it runs");
    end(first);
    // proc(5): the number of the next process is the one after this.
    let last = "/proc/sys/kernel/ns_last_pid";
    let again = (0..50).find_map(|_| {
        std::fs::write(last, (pid - 1).to_string()).ok()?;
        let child = sleep();
        if child.id() == pid {
            return Some(child);
        }
        end(child);
        None
    });
    let Some(second) = again else {
        println!("skipped: the number of a process cannot be chosen");
        return;
    };
    let looked = subject.look(Duration::from_millis(20));
    let waited = subject.wait(Duration::from_millis(20));
    end(second);
    let error = looked.expect_err("it is another process").to_string();
    assert!(error.contains("ended while it was measured"), "{error}");
    waited.expect_err("it is another process");
}
