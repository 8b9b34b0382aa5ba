//! Who races: one row of a table for each stack and each of its settings.

/// Every MTU that a row may be raced at, unless the command line names others.
pub(crate) const MTUS: [u32; 3] = [1500, 9000, 65_535];

/// lwIP refuses to be compiled for larger segments.
pub(crate) const LWIP_1M_MTUS: &[u32] = &[1500, 9000];

/// Where a stack is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seat {
    /// The kernel, over loopback.
    Loopback,
    /// The kernel, over a veth pair; on the emulated path, over that.
    Kernel,
    /// A program that fulfils the contract, on its TUN device.
    Tun,
}

/// Races, as bits of [`Stack::races`].
pub(crate) const DEVICE: u8 = 1;
pub(crate) const PATH: u8 = 2;
pub(crate) const CROWD: u8 = 4;

/// One line of the table below.
#[derive(Clone, Copy)]
struct Stack {
    label: &'static str,
    seat: Seat,
    /// Program and arguments, apart by blanks; `{mtu}` stands for the MTU. Empty for the kernel.
    command: &'static str,
    mtus: &'static [u32],
    races: u8,
}

const fn stack(label: &'static str, command: &'static str, races: u8) -> Stack {
    Stack {
        label,
        seat: Seat::Tun,
        command,
        mtus: &MTUS,
        races,
    }
}

const fn kernel(label: &'static str, seat: Seat, mtus: &'static [u32], races: u8) -> Stack {
    Stack {
        label,
        seat,
        command: "",
        mtus,
        races,
    }
}

const fn at_1500(stack: Stack) -> Stack {
    Stack {
        mtus: &[1500],
        ..stack
    }
}

/// The command of our own program, unless the command line names another.
pub(crate) const OURS: &str = "tcptailor stack serve --tun stack0 --addr 10.77.0.2/24 --mtu {mtu}";
/// What the ratios of throughput compare with: the most that can be had from the device.
pub(crate) const ROOFLINE: &str = "oracle TSO";
/// What the ratios on the path compare with.
pub(crate) const REFERENCE: &str = "kernel cubic";

/// References first, then peers. Buffers are what makes a stack fast on the device, and large ones
/// without good loss recovery make it slow on a path, so both sizes race.
const STACKS: &[Stack] = &[
    kernel("kernel loopback", Seat::Loopback, &[65_535], DEVICE),
    kernel("kernel veth", Seat::Kernel, &MTUS, DEVICE),
    kernel(REFERENCE, Seat::Kernel, &[1500], PATH | CROWD),
    stack("oracle", "oracle --mtu {mtu}", DEVICE),
    stack(ROOFLINE, "oracle --tso --mtu {mtu}", DEVICE),
    at_1500(stack(
        "smoltcp 64K",
        "smoltcp-peer --mtu {mtu}",
        PATH | CROWD,
    )),
    stack(
        "smoltcp 1M",
        "smoltcp-peer --mtu {mtu} --buffer 1048576",
        DEVICE | PATH,
    ),
    stack(
        "smoltcp 4M TSO in",
        "smoltcp-peer --mtu {mtu} --buffer 4194304 --offload in",
        DEVICE,
    ),
    stack(
        "smoltcp 4M TSO",
        "smoltcp-peer --mtu {mtu} --buffer 4194304 --offload both",
        DEVICE,
    ),
    at_1500(stack(
        "smoltcp 4M cubic",
        "smoltcp-peer --mtu {mtu} --buffer 4194304 --congestion cubic",
        PATH,
    )),
    stack("gvisor fdbased", "gvisor-peer -mtu {mtu}", DEVICE),
    stack("gvisor GSO", "gvisor-peer -mtu {mtu} -gso", DEVICE | CROWD),
    at_1500(stack(
        "gvisor cubic RACK",
        "gvisor-peer -mtu {mtu} -buffer 8388608",
        PATH,
    )),
    at_1500(stack("lwip default", "lwip-default-{mtu} {mtu}", DEVICE)),
    at_1500(stack("lwip 64K", "lwip-64k-{mtu} {mtu}", DEVICE | PATH)),
    Stack {
        mtus: LWIP_1M_MTUS,
        ..stack("lwip 1M", "lwip-1m-{mtu} {mtu}", DEVICE | PATH)
    },
];

/// A row of the table: a stack at an MTU.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) label: String,
    pub(crate) mtu: u32,
    pub(crate) seat: Seat,
    /// Program and arguments; empty for the kernel.
    pub(crate) command: Vec<String>,
}

/// The rows of a race, ours last, without the programs that are still to be built.
pub(crate) fn rows(race: u8, mtus: &[u32], ours: &str) -> Vec<Row> {
    let row = |label: &str, seat, command: &str, mtu: u32| Row {
        label: label.into(),
        mtu,
        seat,
        command: with_mtu(command, mtu)
            .split_whitespace()
            .map(String::from)
            .collect(),
    };
    let mut rows = Vec::new();
    for &mtu in mtus {
        let raced = |stack: &&Stack| stack.races & race != 0 && stack.mtus.contains(&mtu);
        let peers = STACKS.iter().filter(raced);
        rows.extend(peers.map(|stack| row(stack.label, stack.seat, stack.command, mtu)));
        rows.push(row(ours, Seat::Tun, OURS, mtu));
    }
    rows
}

/// A command line for an MTU.
pub(crate) fn with_mtu(command: &str, mtu: u32) -> String {
    command.replace("{mtu}", &mtu.to_string())
}
