//! Discard, generator and echo on our own TCP.

mod report;
mod setup;

use std::net::IpAddr;
use std::time::Duration;

use base::settings::SocketSettings;
use linux::tun::{Offloads, Tun, TunPort, check_name};
use linux::{Clock, Driver, netlink};
use serde::Serialize;
use stack::{Host, HostConfig, profile};

use self::report::Report;
use self::setup::Network;
use super::ports::{PORTS, Ports};
use crate::exit::{Exit, Problem};
use crate::interrupt;
use crate::output::Output;

/// Serve discard (port 5001), a character generator (5002) and echo (5003) on our own TCP.
///
/// Makes a TUN device and answers behind it at its addresses, as another host would; the kernel of
/// this machine is its neighbour. The device goes when the command ends.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor stack serve --peer 10.77.0.1       then, elsewhere: `nc 10.77.0.2 5003` echoes
  tcptailor stack serve --peer 10.77.0.1 --knob nodelay=on --knob congestion=reno
  tcptailor stack serve --addr 10.77.0.2/24 --peer 10.77.0.1 --addr fd77::2/64 --peer fd77::1
  tcptailor stack serve --profile freebsd_14 --peer 10.77.0.1 -v   counters at the end

Without --peer give the kernel's end an address and switch it on:
  ip addr add 10.77.0.1/24 dev stack0; ip link set stack0 up

Prints `ready` when it answers. Needs CAP_NET_ADMIN and /dev/net/tun.")]
pub(crate) struct Args {
    /// The TUN device to make.
    #[arg(long, value_name = "NAME", default_value = "stack0", value_parser = parse_device)]
    tun: String,
    /// Address of our TCP behind the device, with the length of its network's prefix; several may
    /// be given.
    #[arg(long, value_name = "ADDRESS/LENGTH", default_value = "10.77.0.2/24")]
    addr: Vec<Network>,
    /// Give the kernel's end this address of the same network, and switch the device on.
    #[arg(long, value_name = "ADDRESS")]
    peer: Vec<IpAddr>,
    /// MTU of the device in bytes. When it is changed later, the stack follows.
    #[arg(long, value_name = "BYTES", default_value_t = 1500)]
    #[arg(value_parser = clap::value_parser!(u16).range(576..))]
    mtu: u16,
    /// Behave as this stack.
    #[arg(long, value_name = "NAME", default_value = "linux_6_18")]
    profile: String,
    /// Change one setting of its connections; `tcptailor knobs` lists them.
    #[arg(long, value_name = "KNOB=VALUE")]
    knob: Vec<String>,
    /// Busy-poll for packets for this long before each sleep: uses a CPU core, saves microseconds.
    #[arg(long, value_name = "TIME", value_parser = base::parse_time)]
    busy_poll: Option<Duration>,
    /// Plain IP packets, as devices without segmentation and checksum offload have them.
    #[arg(long)]
    no_offload: bool,
}

#[derive(Serialize)]
struct Document<'a> {
    tun: &'a str,
    addresses: Vec<IpAddr>,
    mtu: u16,
    profile: &'a str,
    discard_port: u16,
    generate_port: u16,
    echo_port: u16,
    /// The kernel hands TCP GSO packets over.
    tso: bool,
}

fn parse_device(name: &str) -> Result<String, &'static str> {
    check_name(name).map(|()| name.to_owned())
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<Exit> {
    let mut driver = set_up(args)?;
    let stopper = driver.stopper();
    let _guard = interrupt::on_stop(move || stopper.stop());
    announce(args, driver.port().tun(), output)?;
    let began = Clock.now();
    driver.run()?;
    let report = Report::new(&driver, began);
    driver.abort_all()?;
    if output.is_json() {
        output.report("stack-serve-end", &report, String::new)?;
    } else if output.verbosity() > 0 {
        output.note(report.render());
    }
    Ok(Exit::Interrupted)
}

fn set_up(args: &Args) -> anyhow::Result<Driver<Ports>> {
    let profile = profile::find(&args.profile).map_err(Problem::usage)?;
    let mut settings = profile.settings.clone();
    for knob in &args.knob {
        set_knob(&mut settings, knob)?;
    }
    setup::check(&args.addr, args.mtu)?;
    let peers = setup::peers(&args.addr, &args.peer)?;
    let addrs: Vec<IpAddr> = args.addr.iter().map(|network| network.addr).collect();
    let offloads = match args.no_offload {
        true => Offloads::NONE,
        false => Offloads::ALL,
    };
    let tun = Tun::create_with(&args.tun, offloads)?;
    netlink::link::set_mtu(tun.name(), args.mtu.into())?;
    netlink::link::set_txqueuelen(tun.name(), linux::tun::RING_PACKETS)?;
    for peer in &peers {
        netlink::addr::add(tun.name(), peer.addr, peer.prefix)?;
    }
    if !peers.is_empty() {
        netlink::link::set_up(tun.name())?;
    }
    let mut config = HostConfig::of(&profile, addrs[0], linux::random_seed()?);
    config.addrs.clone_from(&addrs);
    config.mtu = args.mtu;
    config.settings = settings.clone();
    config.secret = Some(linux::random_secret()?);
    let mut host = Host::new(config);
    let mut ports = Ports::new(addrs, profile.backlog, settings);
    ports.listen(&mut host)?;
    let mut driver = Driver::new(host, ports, TunPort::new(tun))?;
    driver.set_busy_poll(args.busy_poll.unwrap_or_default());
    Ok(driver)
}

fn set_knob(settings: &mut SocketSettings, text: &str) -> Result<(), Problem> {
    let Some((name, value)) = text.split_once('=') else {
        let problem = Problem::usage(format!("--knob {text}: no value"));
        return Err(problem.hint("Write it as KNOB=VALUE, such as `nodelay=on`."));
    };
    let listed = |error| Problem::usage(error).hint("`tcptailor knobs` lists them.");
    let knob = base::find_knob(name).map_err(listed)?;
    let value = knob.parse(value).map_err(Problem::usage)?;
    knob.set(settings, &value).map_err(listed)
}

fn announce(args: &Args, tun: &Tun, output: &Output) -> anyhow::Result<()> {
    let [discard, generate, echo] = PORTS.map(|(port, _)| port);
    let document = Document {
        tun: tun.name(),
        addresses: args.addr.iter().map(|network| network.addr).collect(),
        mtu: args.mtu,
        profile: &args.profile,
        discard_port: discard,
        generate_port: generate,
        echo_port: echo,
        tso: tun.offloads().has_tso(),
    };
    if output.verbosity() > 0 && !tun.offloads().has_tso() && !args.no_offload {
        output.note(
            "note: this kernel does not pass GSO packets to TUN devices; expect a tenth of the rate",
        );
    }
    if args.peer.is_empty() {
        output.note(format!(
            "note: give the kernel's end an address of the same network and switch {} on, or start \
             with --peer",
            tun.name()
        ));
    }
    output.report("stack-serve", &document, || "ready".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knobs_are_set_or_answered_with_what_was_meant() {
        let set = |text: &str| {
            let mut settings = profile::linux_6_18().settings;
            set_knob(&mut settings, text).map(|()| settings)
        };
        let before = profile::linux_6_18().settings;
        assert_ne!(set("nodelay=on").expect("a knob of ours"), before);
        let check = |text: &str, expected: &str| {
            let problem = set(text).expect_err("refused");
            assert!(problem.message.contains(expected), "{}", problem.message);
            assert_eq!(problem.exit, Exit::Usage);
        };
        check("nodlay=on", "did you mean `nodelay`?");
        check("nodelay", "no value");
        check("nodelay=perhaps", "nodelay");
    }

    #[test]
    fn device_names_are_checked() {
        assert_eq!(parse_device("stack0"), Ok("stack0".into()));
        for name in ["", "a/b", "tun%d", "..", "sixteen-letters0", "a b"] {
            assert!(parse_device(name).is_err(), "{name}");
        }
    }
}
