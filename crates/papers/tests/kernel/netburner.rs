//! Tasks in `NetBurner`'s calls on a TUN device, against the kernel's TCP: what they do in virtual
//! time, they do on real packets (experiments N7a, N7b, N8, N10). Skipped as `driver.rs` is.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::{Duration, Instant};

use linux::tun::{Offloads, Tun, TunPort};
use linux::{Driver, netlink};
use papers::netburner::{
    Board, Netburner, SO_NONAGLE, SO_NOPUSH, TCP_ERR_CON_RESET, TCP_STATE_ESTABLISHED, Task, Turn,
};
use stack::{Host, HostConfig, profile};

const DEVICE: &str = "stack0";
const BOARD: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const PORT: u16 = 1234;
/// What is written in all, a thousand bytes at a time or one: fewer writes than there are buffers,
/// so that a late ACK of a busy machine joins none.
const BULK_BYTES: usize = 40_000;
const TYPED_BYTES: usize = 40;

/// What a task noted, for the test.
type Notes = Arc<Mutex<Vec<u64>>>;

/// One connection's worth of work: what is left to do, and whether it is over.
#[derive(Debug)]
struct Server {
    listener: i32,
    fd: i32,
    /// Bits that are set for each connection to come, and the bytes of a write.
    plans: Vec<(i32, usize)>,
    written: usize,
    cleared: bool,
    notes: Notes,
}

impl Server {
    fn new(plans: &[(i32, usize)], notes: &Notes) -> Self {
        Self {
            listener: 0,
            fd: 0,
            plans: plans.iter().copied().rev().collect(),
            written: 0,
            cleared: false,
            notes: Arc::clone(notes),
        }
    }

    /// Notes how many segments with data have left so far, and how many bytes have not.
    fn note(&self, system: &mut Netburner<'_>) {
        let now = system.now();
        let id = system.sockets().id(self.fd).expect("it is open");
        let flow = system.host().sample(now, id).expect("a connection");
        let mut notes = self.notes.lock().expect("nobody panics with it");
        notes.push(flow.data_segs_out.expect("the stack counts"));
        notes.push(flow.notsent_bytes.expect("the stack counts").into());
    }
}

impl Task for Server {
    fn turn(&mut self, system: &mut Netburner<'_>) -> Turn {
        if self.listener == 0 {
            self.listener = system.listen(BOARD.into(), PORT, 5);
        }
        let Some(&(bits, write_bytes)) = self.plans.last() else {
            return Turn::Done;
        };
        if self.fd == 0 {
            let (mut address, mut port) = (IpAddr::from(BOARD), 0);
            let accepted = system.accept(self.listener, &mut address, &mut port, 0);
            let Poll::Ready(fd) = accepted else {
                return Turn::Blocked;
            };
            assert_eq!(address, IpAddr::from(KERNEL));
            assert_eq!(system.TcpGetSocketState(fd), TCP_STATE_ESTABLISHED);
            self.fd = fd;
            system.setsockoption(fd, bits);
            system.SetSocketTxBuffers(fd, 43);
            system.SetSocketUnackBuffers(fd, 43);
            // The kernel hears of the open window first.
            return Turn::Sleep(Duration::from_millis(100));
        }
        let total = if write_bytes == 1 {
            TYPED_BYTES
        } else {
            BULK_BYTES
        };
        if self.written < total {
            if system.writeall(self.fd, &vec![7; write_bytes]).is_pending() {
                return Turn::Blocked;
            }
            self.written += write_bytes;
            return Turn::Sleep(Duration::from_millis(2));
        }
        // All ACKs are here by then: what has not left is held.
        self.note(system);
        if !std::mem::replace(&mut self.cleared, true) {
            system.clrsockoption(self.fd, SO_NOPUSH);
            return Turn::Sleep(Duration::from_millis(500));
        }
        system.close(self.fd);
        (self.fd, self.written, self.cleared) = (0, 0, false);
        self.plans.pop();
        Turn::Again
    }
}

/// Runs `task` on a board behind a device, and `kernel` in the namespace where that device is.
/// `None` where this machine does not let us and a skip is allowed.
fn run<T: Task + Send + 'static, R: Send>(task: T, kernel: impl FnOnce() -> R + Send) -> Option<R> {
    let netns = crate::asking::namespace_for_devices("netburner")?;
    let made = netns.handle().run(|| {
        netlink::link::set_up("lo").expect("loopback");
        let tun = Tun::create_with(DEVICE, Offloads::ALL).expect("a device");
        netlink::addr::add(DEVICE, KERNEL.into(), 24).expect("an address");
        netlink::link::set_up(DEVICE).expect("a device");
        let config = HostConfig::of(&profile::netburner(), BOARD.into(), 5);
        Driver::new(Host::new(config), Board::new([task]), TunPort::new(tun))
    });
    let mut driver = made.expect("a namespace of ours").expect("a driver");
    let stopper = driver.stopper();
    let thread = std::thread::spawn(move || driver.run());
    let result = netns.handle().run(kernel).expect("a namespace of ours");
    stopper.stop();
    thread
        .join()
        .expect("no panic")
        .expect("the device is there");
    Some(result)
}

fn connect() -> TcpStream {
    let remote = SocketAddr::new(BOARD.into(), PORT);
    let limit = Duration::from_secs(20);
    let deadline = Instant::now() + limit;
    let stream = loop {
        match TcpStream::connect_timeout(&remote, limit) {
            Ok(stream) => break stream,
            // The task has not had its first turn, in which it listens.
            Err(error)
                if error.kind() == ErrorKind::ConnectionRefused && Instant::now() < deadline =>
            {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(error) => panic!("our TCP accepts: {error}"),
        }
    };
    stream.set_read_timeout(Some(limit)).expect("an option");
    stream
}

/// N7a, N7b: which segments leave is the same on real packets.
#[test]
fn options_decide_what_leaves() {
    let notes = Notes::default();
    let plans = [
        (SO_NONAGLE, 1),
        (SO_NONAGLE | SO_NOPUSH, 1),
        (SO_NOPUSH, 1),
        (SO_NOPUSH, 1000),
        (SO_NONAGLE, 1000),
    ];
    let server = Server::new(&plans, &notes);
    let received = run(server, || {
        plans.map(|_| {
            let mut bytes = Vec::new();
            connect().read_to_end(&mut bytes).expect("our TCP closes");
            bytes.len()
        })
    });
    let Some(received) = received else {
        return;
    };
    assert_eq!(
        received,
        [
            TYPED_BYTES,
            TYPED_BYTES,
            TYPED_BYTES,
            BULK_BYTES,
            BULK_BYTES
        ]
    );
    let notes = notes.lock().expect("nobody panics with it").clone();
    let (typed, full) = (TYPED_BYTES as u64, BULK_BYTES as u64 / 1460);
    let tail = BULK_BYTES as u64 % 1460;
    let expected = [
        // Segments and bytes held before the clear, and after it.
        [typed, 0, typed, 0],
        [0, typed, 1, 0],
        [0, typed, 1, 0],
        [full, tail, full + 1, 0],
        [40, 0, 40, 0],
    ];
    assert_eq!(notes, expected.concat());
}

/// Writes until the peer is gone, and notes the code.
#[derive(Debug)]
struct Flood {
    listener: i32,
    fd: i32,
    codes: Arc<Mutex<Vec<i32>>>,
}

impl Task for Flood {
    fn turn(&mut self, system: &mut Netburner<'_>) -> Turn {
        if self.listener == 0 {
            self.listener = system.listen(BOARD.into(), PORT, 5);
        }
        if self.fd == 0 {
            let (mut address, mut port) = (IpAddr::from(BOARD), 0);
            match system.accept(self.listener, &mut address, &mut port, 0) {
                Poll::Ready(fd) => self.fd = fd,
                Poll::Pending => return Turn::Blocked,
            }
            system.setsockoption(self.fd, SO_NOPUSH);
            system.setsocketackbuffers(self.fd, 20);
            system.SetSocketTxBuffers(self.fd, 20);
        }
        match system.ReadWithTimeout(self.fd, &mut [0], 200) {
            // It has been started, or goes on.
            Poll::Ready(1..) | Poll::Pending => {}
            Poll::Ready(code) => {
                self.codes.lock().expect("nobody panics with it").push(code);
                return Turn::Done;
            }
        }
        match system.write(self.fd, &[7; 1460]) {
            Poll::Pending => Turn::Blocked,
            Poll::Ready(1..) => Turn::Again,
            Poll::Ready(code) => {
                self.codes.lock().expect("nobody panics with it").push(code);
                Turn::Done
            }
        }
    }
}

/// N10, N8: the speed test's writer fills what it is given, and hears of the reset.
#[test]
fn the_speed_test_runs_until_its_peer_is_gone() {
    let codes = Arc::new(Mutex::new(Vec::new()));
    let flood = Flood {
        listener: 0,
        fd: 0,
        codes: Arc::clone(&codes),
    };
    let told = Arc::clone(&codes);
    let received = run(flood, move || {
        let mut stream = connect();
        stream.write_all(b"s").expect("our TCP reads");
        let mut bytes = vec![0; 3 << 20];
        stream.read_exact(&mut bytes).expect("our TCP writes");
        // Unread data makes it a reset.
        drop(stream);
        for _ in 0..200 {
            if !told.lock().expect("nobody panics with it").is_empty() {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        bytes.iter().all(|byte| *byte == 7)
    });
    let Some(received) = received else {
        return;
    };
    assert!(received, "the bytes are those that were written");
    let codes = codes.lock().expect("nobody panics with it").clone();
    assert_eq!(codes, [TCP_ERR_CON_RESET]);
}
