//! Discard, generator and echo on our own TCP.

use std::net::IpAddr;

use anyhow::Context;
use linux::tun::{Tun, TunPort};
use linux::{Clock, Driver};
use stack::{Host, HostConfig, profile};

use super::ports::Ports;
use crate::exit::{Exit, Problem};
use crate::interrupt;
use crate::output::Output;

/// Serve discard (port 5001), a character generator (5002) and echo (5003) on our own TCP.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The TUN device to make.
    #[arg(long, value_name = "NAME", default_value = "stack0")]
    tun: String,
    /// Address of our TCP behind the device, with the length of its network's prefix.
    #[arg(long, value_name = "ADDRESS/LENGTH", default_value = "10.77.0.2/24")]
    addr: String,
    /// MTU of the device in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 1500)]
    mtu: u16,
    /// Behave as this stack.
    #[arg(long, value_name = "NAME", default_value = "linux_6_18")]
    profile: String,
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<Exit> {
    let profile =
        profile::find(&args.profile).map_err(|error| Problem::usage(error.to_string()))?;
    let addr: IpAddr = args.addr.split('/').next().unwrap_or_default().parse()?;
    let tun = Tun::create(&args.tun)?;
    let config = HostConfig {
        mtu: args.mtu,
        ..HostConfig::of(&profile, addr, Clock.unix_millis())
    };
    let ports = Ports::new(addr, profile.backlog, profile.settings.clone());
    let mut driver = Driver::new(Host::new(config), ports, TunPort::new(tun))?;
    let stopper = driver.stopper();
    let _guard = interrupt::on_stop(move || stopper.stop());
    output.line("ready")?;
    driver.run().context("running the stack")?;
    if let Some(failure) = driver.app().failure() {
        anyhow::bail!("{failure}");
    }
    Ok(Exit::Interrupted)
}
