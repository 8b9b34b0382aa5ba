//! A program that is running on this machine, with its present traffic.

use std::time::Duration;

use anyhow::Context;
use base::{Change, FlowSample, Netns, Target};
use doctor::{Place, Services, Track};
use lab::Measure;
use linux::{Clock, Filter, NetnsHandle, OwnerProcess, ScanRequest, Setting, SockDiag};
use tailor::{Counters, Look, Others, Settings, Subject};

use super::journalled::Journalled;
use super::{lacks, wait, watch};
use crate::commands::diagnose::seen;
use crate::output::Output;

/// A process and the namespace of its sockets.
pub(crate) struct ProcessSubject<'o> {
    settings: Journalled,
    pid: u32,
    /// Held, so that its number cannot come to mean another one; `None` before Linux 5.3.
    process: Option<OwnerProcess>,
    filter: Filter,
    netns: NetnsHandle,
    netns_name: Netns,
    output: &'o Output,
}

impl<'o> ProcessSubject<'o> {
    /// The connections of `pid`.
    pub(crate) fn open(pid: u32, lease: Duration, output: &'o Output) -> anyhow::Result<Self> {
        // What the user may not see he hears of first.
        crate::commands::watching::check_may_see(pid)?;
        crate::commands::workers::check_has_connections(pid)?;
        Self::with(Journalled::of_machine(lease)?, pid, output)
    }

    /// The connections of `pid`, to be looked at only.
    pub(crate) fn look_only(pid: u32, output: &'o Output) -> anyhow::Result<Self> {
        crate::commands::watching::check_may_see(pid)?;
        crate::commands::workers::check_has_connections(pid)?;
        Self::with(Journalled::none(), pid, output)
    }

    fn with(settings: Journalled, pid: u32, output: &'o Output) -> anyhow::Result<Self> {
        let process = match OwnerProcess::open(pid) {
            Err(linux::Error::Unsupported { .. }) => None,
            opened => Some(opened?),
        };
        let filter: Filter = format!("pid = {pid}")
            .parse()
            .context("the filter for one process")?;
        let filter = filter.with_serving(pid, &crate::commands::watching::serving(pid));
        let netns_name = crate::commands::watching::netns_of_process(pid);
        let netns = NetnsHandle::open(&netns_name)?;
        Ok(Self {
            settings,
            pid,
            process,
            filter,
            netns,
            netns_name,
            output,
        })
    }

    fn check_runs(&self) -> anyhow::Result<()> {
        if self.process.as_ref().is_some_and(OwnerProcess::has_ended) {
            anyhow::bail!("process {} ended while it was measured", self.pid);
        }
        Ok(())
    }
}

impl Subject for ProcessSubject<'_> {
    type Error = anyhow::Error;

    fn look(&mut self, time: Duration) -> anyhow::Result<Look> {
        self.check_runs()?;
        let mut diag = SockDiag::open_in(&self.netns)?;
        let mut before = Counters::new(Clock.now());
        let all = ScanRequest::default();
        diag.scan_each(&all, &mut |sample| before.note(sample))?;
        let here = watch(self.output, &self.netns, self.filter.clone(), time)?;
        let mut others = Others::since(&before, Clock.now());
        diag.scan_each(&all, &mut |sample| others.note(&before, sample))?;
        // Another one may have its number by now.
        self.check_runs()?;
        let mut look = Look::new((here, self.netns_name.clone()), None, |here| Measure {
            beside_bps: others.bps_beside(here, |track| self.wants(track)),
            ..tailor::measure_of(here, |track| self.wants(track))
        });
        look.others = others;
        Ok(look)
    }

    fn measure_of_service(&self, look: &Look, place: Place) -> Measure {
        let services = Services::of(&look.here);
        let is_of_it = |track: &Track| self.wants(track) && services.place(track.key) == place;
        Measure {
            beside_bps: look.others.bps_beside(&look.here, is_of_it),
            ..tailor::measure_of(&look.here, is_of_it)
        }
    }

    fn wait(&mut self, time: Duration) -> anyhow::Result<()> {
        wait(self.output, "settling".into(), time, None)?;
        self.check_runs()
    }

    fn wants(&self, track: &Track) -> bool {
        seen::selects(&self.filter, track)
    }

    fn lacks(&self, target: &Target) -> Option<&'static str> {
        lacks(target)
    }

    fn can_reconnect(&self) -> bool {
        false
    }

    fn reconnect(&mut self) -> anyhow::Result<()> {
        anyhow::bail!("process {} opens its connections itself", self.pid)
    }

    fn on_listener(&mut self, change: &Change) -> anyhow::Result<Vec<Change>> {
        let Target::Socket {
            netns, pid, key, ..
        } = &change.target
        else {
            return Ok(Vec::new());
        };
        if *netns != self.netns_name {
            return Ok(Vec::new());
        }
        let request = ScanRequest {
            listeners: true,
            no_connections: true,
            local_port: Some(key.local.port()),
            ..ScanRequest::default()
        };
        let mut listeners = SockDiag::open_in(&self.netns)?.scan(&request)?;
        let accepted = key.local.ip();
        listeners.retain(|listener| linux::accepts(listener.key.local.ip(), accepted));
        // The kernel prefers the one of the address itself.
        listeners.sort_by_key(|listener| listener.key.local.ip().is_unspecified());
        let on_socket = |sample: FlowSample| {
            Some(Change {
                target: Target::Socket {
                    netns: netns.clone(),
                    pid: *pid,
                    cookie: sample.cookie?,
                    key: sample.key,
                },
                ..change.clone()
            })
        };
        // Another process may listen on the same port: at another address, by SO_REUSEPORT, or for
        // this one, to which it hands connections on. What it does for others is not to change.
        // Nor is there a change where new connections have the value already.
        let own = |change: &Change| {
            Setting::open(&change.target, &change.knob).is_ok_and(|setting| {
                let differs = || setting.read().is_ok_and(|now| !now.is_exactly(&change.to));
                setting.is_of_named_process() && differs()
            })
        };
        let mut found: Vec<Change> = listeners
            .into_iter()
            .filter_map(on_socket)
            .filter(own)
            .collect();
        let address = |change: &Change| match &change.target {
            Target::Socket { key, .. } => Some(key.local),
            _ => None,
        };
        if let Some(preferred) = found.first().map(address) {
            found.retain(|change| address(change) == preferred);
        }
        Ok(found)
    }

    fn settings(&mut self) -> &mut dyn Settings<Error = anyhow::Error> {
        &mut self.settings
    }
}

#[cfg(test)]
mod tests {
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
}
