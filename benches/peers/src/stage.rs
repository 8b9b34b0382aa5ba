//! Where one measurement takes place: namespaces of its own, what joins them, and the stack.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use anyhow::{Context, bail};
use base::{Bytes, Fraction, QueueLimit, Rate};
use lab::{End, PathSpec};
use link::{LinkSpec, Loss};
use linux::netlink::{addr, link as interfaces};
use linux::{LabPath, NetnsHandle, configure_stack_device};

use crate::child::{Interrupt, Program};
use crate::rows::{Row, Seat};

/// The contract.
const DEVICE: &str = "stack0";
const KERNEL_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1));
const STACK_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 2));
const READY_WITHIN: Duration = Duration::from_secs(5);

/// Packets that the TUN device of a stack on the bare device holds. A kernel that sends into one
/// hears nothing of a full ring but the loss: of 1000 packets, as interfaces usually hold, 1000
/// connections have one each, and lose a tenth of what they send.
const RING: u32 = 10_000;

const PATH_RATE: Rate = Rate::from_bits_per_second(100_000_000);
const PATH_DELAY: Duration = Duration::from_millis(10);
/// About the product of rate and round-trip time.
const PATH_QUEUE: QueueLimit = QueueLimit::Packets(170);

/// Who sends the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    ToStack,
    FromStack,
}

/// What lies between kernel and stack.
#[derive(Clone, Debug)]
pub(crate) enum Network {
    /// The device alone.
    Device,
    /// The emulated path, which loses packets in the direction of the data only: pure
    /// acknowledgments always arrive.
    Path {
        loss: Fraction,
        seed: u64,
        data: Direction,
    },
}

/// A stack that is ready, and what leads to it. All is gone when this is dropped.
pub(crate) struct Stage {
    // First, so that it ends before the namespaces.
    pub(crate) server: Program,
    pub(crate) address: IpAddr,
    path: LabPath,
}

impl Stage {
    pub(crate) fn set(
        row: &Row,
        network: &Network,
        processor: Option<u32>,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Self> {
        let (spec, seed) = match (row.seat, network) {
            (_, Network::Path { loss, seed, data }) => (path_spec(*loss, *data), *seed),
            (Seat::Kernel, Network::Device) => {
                let mtu = Bytes(row.mtu.into());
                (PathSpec::Veth { mtu }, 0)
            }
            // A stack on the bare device shares a namespace with the kernel's sockets.
            (Seat::Loopback | Seat::Tun, Network::Device) => (PathSpec::Loopback, 0),
        };
        let path = match (row.seat, network) {
            (Seat::Tun, Network::Path { .. }) => {
                LabPath::create_with_router(&spec, seed, End::Server)?
            }
            _ => LabPath::create(&spec, seed)?,
        };
        let (server, address) = if row.seat == Seat::Tun {
            let mut server = Program::start(&row.command, path.b(), processor)?;
            await_device(&mut server, path.b(), interrupt)?;
            path.b().run(|| set_up_device(row.mtu, network))??;
            (server, STACK_ADDRESS)
        } else {
            let words = own_command(&["serve", &path.b_addr().to_string()])?;
            (Program::start(&words, path.b(), processor)?, path.b_addr())
        };
        let mut stage = Self {
            server,
            address,
            path,
        };
        stage.server.line("ready", READY_WITHIN, interrupt)?;
        Ok(stage)
    }

    /// From where the stack is reached.
    pub(crate) const fn client(&self) -> &NetnsHandle {
        self.path.a()
    }

    /// Reasons to doubt what was measured here.
    pub(crate) fn caveats(&self) -> anyhow::Result<Vec<String>> {
        let caveats = self.path.caveats()?;
        Ok(caveats.iter().map(ToString::to_string).collect())
    }
}

fn path_spec(loss: Fraction, data: Direction) -> PathSpec {
    let link = |from: Direction| LinkSpec {
        rate: Some(PATH_RATE),
        delay: PATH_DELAY,
        queue: PATH_QUEUE,
        loss: if from == data {
            Loss::Random(loss)
        } else {
            Loss::Never
        },
        ..LinkSpec::ideal()
    };
    PathSpec::Emulated {
        mtu: Bytes(1500),
        forward: link(Direction::ToStack),
        reverse: link(Direction::FromStack),
        ipv6: false,
    }
}

fn await_device(
    server: &mut Program,
    netns: &NetnsHandle,
    interrupt: &Interrupt,
) -> anyhow::Result<()> {
    let pause = Duration::from_millis(20);
    for _ in 0..READY_WITHIN.as_millis() / pause.as_millis() {
        if netns.run(|| interfaces::read(DEVICE))?.is_ok() {
            return Ok(());
        }
        server.check_alive()?;
        interrupt.sleep(pause)?;
    }
    bail!("made no {DEVICE} within {} s", READY_WITHIN.as_secs())
}

/// Gives the kernel's end of the device what the contract promises; on the path it is a router.
fn set_up_device(mtu: u32, network: &Network) -> linux::Result<()> {
    if let Network::Path { .. } = network {
        return configure_stack_device(DEVICE, mtu, STACK_ADDRESS);
    }
    interfaces::set_mtu(DEVICE, mtu)?;
    interfaces::set_txqueuelen(DEVICE, RING)?;
    match addr::add(DEVICE, KERNEL_ADDRESS, 24) {
        // The stack may have set it itself.
        Err(linux::Error::Os { source, .. })
            if source.kind() == std::io::ErrorKind::AlreadyExists => {}
        other => other?,
    }
    interfaces::set_up(DEVICE)
}

/// This program with other arguments.
pub(crate) fn own_command(arguments: &[&str]) -> anyhow::Result<Vec<String>> {
    let own = std::env::current_exe().context("finding this program")?;
    let own = own.display().to_string();
    let arguments = arguments.iter().map(|argument| (*argument).into());
    Ok(std::iter::once(own).chain(arguments).collect())
}
