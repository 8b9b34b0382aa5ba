//! Requirements of a path on this host, beside the present settings.

mod report;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use base::{Bytes, Change, LinkSample, Netns, Rate, Target};
use lab::bdp::{self, Demand, HostLimits, PRESETS};
use linux::service::BenchClient;
use linux::workload::Session;

use self::report::{Document, Link, Origin};
use crate::commands::bench::Traffic;
use crate::commands::diagnose::write_plan;
use crate::exit::{Exit, Problem};
use crate::interrupt;
use crate::output::{self, Output};
use crate::progress::Progress;
use crate::subject::host::RunParameters;

/// How long the rate is measured if it is not given, and with how many connections: one alone may
/// be held back by the very limits in question.
const RATE_TIME: Duration = Duration::from_secs(3);
const RATE_CONNECTIONS: &str = "4";
/// IEEE 802.3.
const MTU_DEFAULT: Bytes = Bytes(1500);

/// Compare a path's BDP (rate x RTT) with the limits of this host.
///
/// A path is full once one bandwidth-delay product (BDP) is in flight. The BDP is compared with the
/// buffers, window and queue of this host, counted as this kernel counts them.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor bdp --rate 10gbit --rtt 1.58ms     this host on such a path
  tcptailor bdp --rate 10gbit --rtt 1.58ms --mtu 9000
  tcptailor bdp --preset home                  a LAN at home: nothing to tune
  tcptailor bdp --preset datacenter --rtt 2ms  the preset with another round-trip time
  tcptailor bdp 10.0.0.9                       measured towards a host that runs `tcptailor serve`
  tcptailor bdp 10.0.0.9:443 --rate 1gbit      round-trip time of connections to an open port
  tcptailor bdp --rate 10gbit --rtt 16ms -o plan.json && tcptailor apply plan.json -n

Presets:
  home           1 Gbit/s, 0.12 ms     home-dsl      10 Mbit/s, 30 ms
  datacenter-1g  1 Gbit/s, 1.49 ms     datacenter    10 Gbit/s, 1.58 ms")]
#[command(group = clap::ArgGroup::new("path").multiple(true).required(true)
    .args(["host", "preset", "rate", "rtt"]))]
pub(crate) struct Args {
    /// Measure the path to this host: HOST or HOST:PORT.
    #[arg(value_name = "HOST", conflicts_with = "preset")]
    host: Option<String>,
    /// A predefined path; --rate and --rtt override its values.
    #[arg(long, value_name = "NAME", value_parser = preset_names())]
    preset: Option<String>,
    /// Bottleneck rate [with HOST: measured].
    #[arg(long, value_name = "RATE")]
    rate: Option<Rate>,
    /// Round-trip time when the queues are empty [with HOST: measured].
    #[arg(long, value_name = "TIME", value_parser = base::parse_duration)]
    rtt: Option<Duration>,
    /// Largest packet [default: 1500; with HOST that of the interface].
    #[arg(long, value_name = "BYTES")]
    mtu: Option<Bytes>,
    /// The key that `serve` uses [also: the environment variable TCPTAILOR_KEY].
    #[arg(long, value_name = "FILE", requires = "host")]
    key_file: Option<PathBuf>,
    /// Write a plan for `tcptailor apply` that raises the limits that are too low; empty if none
    /// is.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

fn preset_names() -> clap::builder::PossibleValuesParser {
    PRESETS.iter().map(|preset| preset.name).into()
}

/// Properties of the path, and their sources.
struct Known {
    demand: Demand,
    rate_from: Origin,
    rtt_from: Origin,
    link: Option<LinkSample>,
    receive_ratio: Option<f64>,
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<Exit> {
    if let Some(path) = &args.output {
        output::check_writable(path)?;
    }
    let known = match &args.host {
        Some(host) => measured(host, args, output)?,
        None => given(args)?,
    };
    let limits = read_limits(&known)?;
    let rows = known.demand.rows(&limits);
    let proposals = bdp::proposals(&rows, &limits);
    let changes: Vec<Change> = proposals
        .iter()
        .map(|(knob, to)| Change {
            target: Target::Namespace { netns: Netns::Own },
            knob: (*knob).into(),
            to: to.clone(),
        })
        .collect();
    if let Some(path) = &args.output {
        // Also a plan without changes: one of before must not be applied in its place.
        write_plan(path, changes, output)?;
    }
    let link = known.link.as_ref().map(Link::of);
    let origins = (known.rate_from, known.rtt_from);
    let document = Document::new((&known.demand, origins), link, &limits, rows, proposals);
    output.report("bdp", &document, || {
        report::render(&document, args.output.as_deref())
    })?;
    Ok(Exit::Done)
}

/// The path as the flags tell it.
fn given(args: &Args) -> Result<Known, Problem> {
    let named = args.preset.as_deref();
    let preset = PRESETS.iter().find(|preset| Some(preset.name) == named);
    let missing = |what: &str, flag: &str| {
        Problem::usage(format!("the {what} of the path is missing"))
            .hint(format!("Give {flag}, or --preset, or a HOST to measure."))
    };
    let origin = |flag: bool| match (flag, preset) {
        (false, Some(preset)) => Origin::Preset(preset.about),
        _ => Origin::Given,
    };
    let preset_rate = preset.map(|preset| Rate::from_bits_per_second(preset.rate_bps));
    let preset_rtt = preset.map(|preset| Duration::from_micros(preset.rtt_us));
    let rate = args.rate.or(preset_rate);
    let rtt = args.rtt.or(preset_rtt);
    Ok(Known {
        demand: demand(
            rate.ok_or_else(|| missing("rate", "--rate 10gbit"))?,
            rtt.ok_or_else(|| missing("round-trip time", "--rtt 1.58ms"))?,
            args.mtu.unwrap_or(MTU_DEFAULT),
        )?,
        rate_from: origin(args.rate.is_some()),
        rtt_from: origin(args.rtt.is_some()),
        link: None,
        receive_ratio: None,
    })
}

fn demand(rate: Rate, rtt: Duration, mtu: Bytes) -> Result<Demand, Problem> {
    Demand::new(rate, rtt, mtu).map_err(Problem::usage)
}

/// The path to a host: what is not given is measured, the round-trip time first, as long as nothing
/// of ours fills the queues.
fn measured(host: &str, args: &Args, output: &Output) -> anyhow::Result<Known> {
    let flags = ["-P".to_owned(), RATE_CONNECTIONS.to_owned()];
    let parameters =
        Traffic::parse(host, &flags)?.run_parameters(args.key_file.as_deref(), RATE_TIME)?;
    let remote = parameters.address.ip();
    let link = linux::interface_to(remote)?;
    let seen = linux::seen_path_to(remote)?;
    let (rtt, rtt_from) = match (args.rtt, seen) {
        (Some(rtt), _) => (rtt, Origin::Given),
        (None, Some(seen)) => (seen.rtt, Origin::Connections(seen.connections)),
        (None, None) => {
            let probed = linux::probe_path_to(parameters.address, parameters.answer_timeout)
                .map_err(|error| unreachable_port(&error, host))?;
            (probed.rtt, Origin::Handshakes(probed.connections))
        }
    };
    let (rate, rate_from) = match args.rate {
        Some(rate) => (rate, Origin::Given),
        None => (measure_rate(&parameters, output)?, Origin::Transfer),
    };
    // Loopback has one byte more than a packet can have.
    let of_link = Bytes(u64::from(link.mtu_bytes).min(u16::MAX.into()));
    let mtu = args.mtu.unwrap_or(of_link);
    Ok(Known {
        demand: demand(rate, rtt, mtu)?,
        rate_from,
        rtt_from,
        link: Some(link),
        receive_ratio: seen.map(|seen| seen.receive_ratio),
    })
}

fn unreachable_port(error: &linux::Error, host: &str) -> Problem {
    Problem::failed(format!(
        "the round-trip time to {host} cannot be measured: {error}"
    ))
    .hint("Name an open port as HOST:PORT, or give --rtt.")
}

/// Measures the rate of several connections together towards a host that runs `serve`.
fn measure_rate(parameters: &RunParameters, output: &Output) -> anyhow::Result<Rate> {
    let _spinner = Progress::spinner(output, "measuring the rate");
    let connected = BenchClient::connect(
        parameters.address,
        parameters.key.as_ref(),
        parameters.answer_timeout,
    );
    let mut client = connected.map_err(|error| {
        Problem::failed(format!("the rate cannot be measured: {error}"))
            .hint("Run `tcptailor serve` there, or give --rate.")
    })?;
    let session = Arc::new(Session::new());
    let stopped = Arc::clone(&session);
    let _guard = interrupt::on_stop(move || stopped.stop());
    let outcome = client.run(&parameters.client, &parameters.server, &session, &|_, _| {})?;
    if interrupt::stopped() {
        return Err(Problem::interrupted("interrupted before the rate was measured").into());
    }
    let goodput = outcome.goodput_bps(&parameters.client.workload);
    Ok(Rate::from_bits_per_second(goodput))
}

/// This host's limits, as they are now.
fn read_limits(known: &Known) -> anyhow::Result<HostLimits> {
    let read = |name: &str| linux::sysctl(name);
    let number = |name: &str| read(name).and_then(|text| text.parse::<u64>().ok());
    let scale = read("net.ipv4.tcp_adv_win_scale").and_then(|text| text.parse().ok());
    let ratio = bdp::receive_ratio(kernel_version(), scale);
    Ok(HostLimits {
        rmem: triple("net.ipv4.tcp_rmem")?,
        wmem: triple("net.ipv4.tcp_wmem")?,
        rmem_max: number("net.core.rmem_max"),
        wmem_max: number("net.core.wmem_max"),
        moderate_rcvbuf: number("net.ipv4.tcp_moderate_rcvbuf") != Some(0),
        window_scaling: number("net.ipv4.tcp_window_scaling") != Some(0),
        receive_ratio: known.receive_ratio.map_or(ratio, |seen| seen.max(ratio)),
        queue_pkts: known.link.as_ref().and_then(report::queue_packets),
    })
}

fn triple(name: &str) -> anyhow::Result<[u64; 3]> {
    let text = linux::sysctl::read(name)?;
    let numbers: Vec<u64> = text
        .split(' ')
        .filter_map(|word| word.parse().ok())
        .collect();
    numbers
        .try_into()
        .ok()
        .with_context(|| format!("{name} is `{text}`, not three numbers"))
}

/// The first two numbers of the running kernel; of one that tells none, those of a new one.
fn kernel_version() -> (u32, u32) {
    let release = linux::sysctl("kernel.osrelease").unwrap_or_default();
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map(|word| word.parse::<u32>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) => (major, minor),
        _ => (u32::MAX, 0),
    }
}
