//! One variant of a benchmark: the flags of the command line, with what `--compare` puts in their
//! place.

use std::str::FromStr;
use std::time::Duration;

use base::{Bytes, KnobError, KnobValue, Rate, find_knob};
use clap::ValueEnum;
use lab::{Amount, Completion, Direction, Quotes, Records, Settings, Workload, WriteMethod};
use linux::workload::{RunSpec, SocketSpec};

use super::log::Measurement;
use crate::exit::Problem;

/// Bytes per write of a stream. Measured over loopback on two processors: with 128 KiB, as iperf3
/// writes, rates spread from 21 to 23 Gbit/s, because the reader wakes this often; with this, 27.
const STREAM_WRITE: Bytes = Bytes(256 << 10);

/// The traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Mode {
    /// As much data as the connection carries.
    Stream,
    /// A request, its response, the next request (`TCP_RR`).
    Rr,
    /// The same with a new connection each (`TCP_CRR`).
    Crr,
    /// A request in several small writes, then a response: the pattern that stalls.
    Wwr,
    /// A block, an idle gap, the next block.
    Burst,
    /// Records one way.
    Records,
    /// Requests on one connection, answers on another.
    Quotes,
    /// A stream into a server that reads slowly.
    SlowReader,
}

/// How the writes of a request are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Method {
    /// One `write` each.
    Write,
    /// One `writev` for all.
    Writev,
    /// `MSG_MORE` on all but the last.
    Msgmore,
    /// Cork, write, uncork.
    Cork,
    /// Cork and never uncork.
    CorkForever,
}

/// A size in which `64K` is taken for 64KiB, as iperf3 does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) bytes: Bytes,
    pub(super) was_bare: bool,
}

impl FromStr for Size {
    type Err = base::UnitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bare = text.strip_suffix(['k', 'K', 'm', 'M', 'g', 'G']);
        let bytes = match (bare, text.chars().next_back()) {
            (Some(number), Some(unit)) => {
                format!("{number}{}iB", unit.to_ascii_uppercase()).parse()?
            }
            _ => text.parse()?,
        };
        Ok(Self {
            bytes,
            was_bare: bare.is_some(),
        })
    }
}

/// A rate in which `10M` is taken for 10 Mbit/s and `0` for no bound, as iperf3 does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace(Option<Rate>);

impl FromStr for Pace {
    type Err = base::UnitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "0" {
            return Ok(Self(None));
        }
        let number = text
            .strip_suffix(['k', 'K', 'm', 'M', 'g', 'G', 't', 'T'])
            .unwrap_or(text);
        let is_iperfs = number.chars().all(|c| c.is_ascii_digit() || c == '.');
        // Plain numbers are bit/s there.
        let rate = match is_iperfs {
            true => format!("{text}bit").parse()?,
            false => text.parse()?,
        };
        Ok(Self(Some(rate)))
    }
}

/// The traffic and the sockets.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Setup {
    /// The traffic.
    #[arg(long, value_name = "MODE", default_value = "stream")]
    #[arg(help_heading = "Traffic")]
    pub(super) mode: Mode,
    /// Measure for this time [default: 10s; 2s with --compare].
    #[arg(short, long, value_name = "TIME", value_parser = base::parse_time)]
    #[arg(help_heading = "Traffic", conflicts_with_all = ["bytes", "operations"])]
    pub(super) time: Option<Duration>,
    /// ... or until this much payload has passed, per connection.
    #[arg(short = 'n', long, value_name = "BYTES", help_heading = "Traffic")]
    #[arg(conflicts_with = "operations")]
    pub(super) bytes: Option<Size>,
    /// ... or until this many requests, records or blocks are done, per connection.
    #[arg(long, value_name = "N", help_heading = "Traffic")]
    pub(super) operations: Option<u64>,
    /// Warm-up time at the start that is not measured.
    #[arg(short = 'O', long, value_name = "TIME", default_value = "0s", value_parser = base::parse_time)]
    #[arg(help_heading = "Traffic")]
    pub(super) omit: Duration,
    /// Connections at once (stream and rr).
    #[arg(
        short = 'P',
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=128),
        help_heading = "Traffic"
    )]
    pub(super) parallel: u32,
    /// The server sends (stream).
    #[arg(short = 'R', long, help_heading = "Traffic", conflicts_with = "bidir")]
    pub(super) reverse: bool,
    /// Both send (stream).
    #[arg(long, help_heading = "Traffic")]
    pub(super) bidir: bool,
    /// Write at this rate, such as 10M or 10Mbit/s (stream; 0: as fast as it goes).
    #[arg(short = 'b', long, visible_alias = "bitrate", value_name = "RATE")]
    #[arg(help_heading = "Traffic")]
    pub(super) rate: Option<Pace>,
    /// Bytes per write or per record [default: 256KiB for streams, 100B].
    #[arg(
        short = 'l',
        long = "write-size",
        visible_alias = "length",
        value_name = "BYTES"
    )]
    #[arg(help_heading = "Traffic")]
    pub(super) write_size: Option<Size>,
    /// Bytes of a request (rr, crr).
    #[arg(
        long,
        value_name = "BYTES",
        default_value = "1B",
        help_heading = "Traffic"
    )]
    pub(super) request: Bytes,
    /// Bytes of a response (rr, crr, wwr, quotes).
    #[arg(
        long,
        value_name = "BYTES",
        default_value = "1B",
        help_heading = "Traffic"
    )]
    pub(super) response: Bytes,
    /// Writes per request (wwr, quotes).
    #[arg(long, value_name = "N", default_value_t = 2, help_heading = "Traffic")]
    pub(super) writes: u32,
    /// How the writes are made (wwr).
    #[arg(
        long,
        value_name = "HOW",
        default_value = "write",
        help_heading = "Traffic"
    )]
    pub(super) method: Method,
    /// Records per second; as fast as they go without it.
    #[arg(long, value_name = "N", help_heading = "Traffic")]
    pub(super) per_second: Option<u32>,
    /// A record is done when it is acknowledged.
    #[arg(long, help_heading = "Traffic")]
    pub(super) acknowledged: bool,
    /// Readers clear `TCP_QUICKACK` before each read (quotes).
    #[arg(long, help_heading = "Traffic")]
    pub(super) delayed_acks: bool,
    /// Bytes of a block.
    #[arg(
        long,
        value_name = "BYTES",
        default_value = "512KiB",
        help_heading = "Traffic"
    )]
    pub(super) burst: Bytes,
    /// Gap between blocks.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = base::parse_time)]
    #[arg(help_heading = "Traffic")]
    pub(super) idle: Duration,
    /// A new connection for each block.
    #[arg(long, help_heading = "Traffic")]
    pub(super) reconnect: bool,
    /// Bytes per read of a slow reader.
    #[arg(
        long,
        value_name = "BYTES",
        default_value = "5KiB",
        help_heading = "Traffic"
    )]
    pub(super) read_size: Bytes,
    /// Time from read to read of a slow reader.
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = base::parse_time)]
    #[arg(help_heading = "Traffic")]
    pub(super) every: Duration,

    /// Both socket buffers, at both ends.
    #[arg(
        short = 'w',
        long,
        value_name = "BYTES",
        help_heading = "Sockets, at both ends"
    )]
    pub(super) window: Option<Size>,
    /// Send buffer.
    #[arg(long, value_name = "BYTES", help_heading = "Sockets, at both ends")]
    pub(super) sndbuf: Option<Bytes>,
    /// Receive buffer.
    #[arg(long, value_name = "BYTES", help_heading = "Sockets, at both ends")]
    pub(super) rcvbuf: Option<Bytes>,
    /// Congestion control.
    #[arg(
        short = 'C',
        long,
        value_name = "NAME",
        help_heading = "Sockets, at both ends"
    )]
    pub(super) congestion: Option<String>,
    /// Largest segment.
    #[arg(
        short = 'M',
        long,
        alias = "set-mss",
        value_name = "BYTES",
        help_heading = "Sockets, at both ends"
    )]
    pub(super) mss: Option<Bytes>,
    /// Set `TCP_NODELAY` (disable Nagle's algorithm).
    #[arg(
        short = 'N',
        long,
        alias = "no-delay",
        help_heading = "Sockets, at both ends"
    )]
    pub(super) nodelay: bool,
    /// `TCP_CORK` from the start on.
    #[arg(long, help_heading = "Sockets, at both ends")]
    pub(super) cork: bool,
    /// `TCP_QUICKACK` before every read.
    #[arg(long, help_heading = "Sockets, at both ends")]
    pub(super) quickack: bool,
    /// `TCP_NOTSENT_LOWAT`: unsent bytes above which the socket is not writable.
    #[arg(long, value_name = "BYTES", help_heading = "Sockets, at both ends")]
    pub(super) notsent_lowat: Option<Bytes>,
    /// Any other socket knob (`tcptailor knobs` lists them); `client.KNOB` or `server.KNOB` for
    /// one end.
    #[arg(
        long,
        value_name = "KNOB=VALUE",
        help_heading = "Sockets, at both ends"
    )]
    pub(super) set: Vec<String>,
}

/// Parameters of both ends of a run.
pub(super) struct Ends {
    pub(super) client: RunSpec,
    pub(super) server: SocketSpec,
}

impl Setup {
    /// Puts the value of one `--compare` in the place of a flag.
    pub(super) fn put(&mut self, key: &str, value: &str) -> Result<(), Problem> {
        let bad = |what: String| Problem::usage(format!("--compare {key}={value}: {what}"));
        let number = |what: &str| {
            value
                .parse()
                .map_err(|_| bad(format!("`{value}` is not a {what}")))
        };
        match key {
            "method" => {
                self.method = Method::from_str(value, true).map_err(|_| {
                    bad("a method is write, writev, msgmore, cork or cork-forever".into())
                })?;
            }
            "write-size" => {
                self.write_size = Some(value.parse().map_err(|error| bad(format!("{error}")))?);
            }
            "parallel" => self.parallel = number("number of connections")?,
            "writes" => self.writes = number("number of writes")?,
            _ => {
                let known = "write-size, method, parallel, writes or a socket knob";
                knob_of(key, value).map_err(|problem| {
                    bad(problem.message).hint(format!("What can be compared: {known}."))
                })?;
                // The last setting of a knob counts.
                self.set.push(format!("{key}={value}"));
            }
        }
        Ok(())
    }

    /// The measurement that a log of this traffic with `host` records.
    pub(super) fn measurement(&self, host: String) -> Measurement {
        Measurement {
            host,
            mode: self.mode_name(),
            direction: self.direction(),
            parallel: self.parallel,
        }
    }

    /// Mode, as in the flag.
    fn mode_name(&self) -> String {
        let mode = self.mode.to_possible_value();
        mode.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    const fn direction(&self) -> Direction {
        match (self.reverse, self.bidir) {
            (true, _) => Direction::Down,
            (_, true) => Direction::Both,
            _ => Direction::Up,
        }
    }

    /// The run, checked.
    pub(super) fn ends(&self, interval: Duration, default: Duration) -> Result<Ends, Problem> {
        let (mut client, mut server) = (self.flags()?, self.flags()?);
        for text in &self.set {
            let (key, value) = text
                .split_once('=')
                .ok_or_else(|| Problem::usage(format!("--set {text}: write KNOB=VALUE")))?;
            let (side, name, value) = knob_of(key, value)?;
            if side != Some(Side::Server) {
                client.insert(name, value.clone());
            }
            if side != Some(Side::Client) {
                server.insert(name, value);
            }
        }
        let sockets = |settings| SocketSpec {
            settings,
            ..SocketSpec::default()
        };
        let client = RunSpec {
            workload: self.workload(default)?,
            sockets: sockets(client),
            warmup: self.omit,
            interval,
        };
        client.check().map_err(Problem::usage)?;
        Ok(Ends {
            client,
            server: sockets(server),
        })
    }

    /// Settings that have a flag of their own.
    fn flags(&self) -> Result<Settings, Problem> {
        let window = self.window.map(|size| size.bytes);
        let numbers = [
            ("sndbuf", self.sndbuf.or(window)),
            ("rcvbuf", self.rcvbuf.or(window)),
            ("mss", self.mss),
            ("notsent_lowat", self.notsent_lowat),
        ];
        let flags = [
            ("nodelay", self.nodelay),
            ("cork", self.cork),
            ("quickack", self.quickack),
        ];
        let numbers = numbers
            .into_iter()
            .filter_map(|(name, bytes)| Some((name, KnobValue::Number(bytes?.0))));
        let flags = flags
            .into_iter()
            .filter(|(_, on)| *on)
            .map(|(name, on)| (name, KnobValue::Flag(on)));
        let congestion = self
            .congestion
            .iter()
            .map(|name| ("congestion", KnobValue::Name(name.clone())));
        let settings: Settings = numbers.chain(flags).chain(congestion).collect();
        for (name, value) in &settings {
            find_knob(name)
                .and_then(|knob| knob.check(value))
                .map_err(Problem::usage)?;
        }
        Ok(settings)
    }

    fn amount(&self, default: Duration) -> Amount {
        match (self.bytes, self.operations) {
            (Some(size), _) => Amount::Bytes(size.bytes),
            (_, Some(operations)) => Amount::Operations(operations),
            _ => Amount::Time(self.time.unwrap_or(default)),
        }
    }

    fn pace(&self) -> Option<Rate> {
        self.rate.and_then(|pace| pace.0)
    }

    /// Bulk traffic, or traffic at a rate.
    fn stream(&self, amount: Amount) -> Workload {
        let size = |default: Bytes| self.write_size.map_or(default, |size| size.bytes);
        match self.pace() {
            Some(rate) => Workload::Paced {
                rate,
                // A hundred writes a second, so that the rate is smooth.
                write_size: size(Bytes(
                    (rate.bits_per_second() / 800).clamp(1, STREAM_WRITE.0),
                )),
                amount,
            },
            None => Workload::Bulk {
                direction: self.direction(),
                flows: self.parallel,
                write_size: size(STREAM_WRITE),
                unacked: None,
                amount,
            },
        }
    }

    fn workload(&self, default: Duration) -> Result<Workload, Problem> {
        self.check_mode()?;
        let amount = self.amount(default);
        let piece = self.write_size.map_or(Bytes(100), |size| size.bytes);
        let (request, response, flows) = (self.request, self.response, self.parallel);
        let (writes, reply) = (self.writes, self.response);
        Ok(match self.mode {
            Mode::Stream => self.stream(amount),
            Mode::Rr => Workload::RequestResponse {
                request,
                response,
                flows,
                amount,
            },
            Mode::Crr => Workload::ConnectRequestClose {
                request,
                response,
                amount,
            },
            Mode::Wwr => Workload::WriteWriteRead {
                writes,
                write_size: piece,
                pieces: Vec::new(),
                reply,
                method: self.method.into(),
                amount,
                uncork_after: Duration::ZERO,
            },
            Mode::Burst => Workload::Bursts {
                burst: self.burst,
                idle: self.idle,
                reconnect: self.reconnect,
                amount,
            },
            Mode::Records => Workload::Records(Records {
                per_second: self.per_second,
                completion: if self.acknowledged {
                    Completion::Acknowledged
                } else {
                    Completion::Written
                },
                ..Records::new(piece, amount)
            }),
            Mode::Quotes => Workload::Quotes(Quotes {
                writes,
                delayed_acks: self.delayed_acks,
                ..Quotes::new(piece, reply, amount)
            }),
            Mode::SlowReader => Workload::SlowReader {
                read_size: self.read_size,
                every: self.every,
                amount,
            },
        })
    }

    /// Refuses flags that the mode would silently leave out.
    fn check_mode(&self) -> Result<(), Problem> {
        let stream = self.mode == Mode::Stream;
        let refused = [
            ("-R", self.reverse && !stream),
            ("--bidir", self.bidir && !stream),
            ("-b", self.pace().is_some() && !stream),
            ("-P", self.parallel > 1 && !stream && self.mode != Mode::Rr),
            ("--operations", self.operations.is_some() && stream),
        ];
        match refused.iter().find(|(_, is_set)| *is_set) {
            None if self.pace().is_some() => self.check_paced(),
            Some((flag, _)) => {
                let mode = self.mode_name();
                Err(Problem::usage(format!(
                    "{flag} cannot be used with --mode {mode}"
                )))
            }
            None => Ok(()),
        }
    }

    /// A paced stream is one stream from here.
    fn check_paced(&self) -> Result<(), Problem> {
        let refused = [
            ("-R", self.reverse),
            ("--bidir", self.bidir),
            ("-P", self.parallel > 1),
        ];
        match refused.iter().find(|(_, is_set)| *is_set) {
            Some((flag, _)) => Err(Problem::usage(format!("{flag} cannot be used with -b"))),
            None => Ok(()),
        }
    }
}

impl From<Method> for WriteMethod {
    fn from(method: Method) -> Self {
        match method {
            Method::Write => Self::Write,
            Method::Writev => Self::Writev,
            Method::Msgmore => Self::MsgMore,
            Method::Cork => Self::Cork,
            Method::CorkForever => Self::CorkForever,
        }
    }
}

/// One end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Client,
    Server,
}

/// `[client.|server.]KNOB` and its value.
fn knob_of(key: &str, value: &str) -> Result<(Option<Side>, &'static str, KnobValue), Problem> {
    let (side, name) = match key.split_once('.') {
        Some(("client", name)) => (Some(Side::Client), name),
        Some(("server", name)) => (Some(Side::Server), name),
        _ => (None, key),
    };
    let knob = find_knob(name)
        .map_err(|error| Problem::usage(error).hint("`tcptailor knobs` lists them."))?;
    if knob.linux.is_none() {
        return Err(Problem::usage(KnobError::NotInLinux { knob: knob.name })
            .hint("`tcptailor knobs` says where each setting is kept."));
    }
    if !knob.is_socket_option() {
        return Err(Problem::usage(format!("`{name}` is not a socket option"))
            .hint("Set it on the machine that it is to act on, then measure again."));
    }
    let value = knob.parse(value).map_err(Problem::usage)?;
    knob.check_for_linux(&value).map_err(Problem::usage)?;
    Ok((side, knob.name, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        setup: Setup,
    }

    fn setup(words: &str) -> Setup {
        let words = std::iter::once("bench").chain(words.split_whitespace());
        Line::try_parse_from(words).expect("flags").setup
    }

    fn ends(setup: &Setup) -> Result<Ends, Problem> {
        setup.ends(Duration::from_millis(100), Duration::from_secs(10))
    }

    #[test]
    fn iperfs_letters_mean_what_they_mean_there() {
        let ends =
            ends(&setup("-t 3 -P 4 -R -w 256K -C bbr -M 1400 -N -O 1 -l 64K")).expect("a run");
        assert_eq!(
            ends.client.workload,
            Workload::Bulk {
                direction: Direction::Down,
                flows: 4,
                write_size: Bytes(64 << 10),
                unacked: None,
                amount: Amount::Time(Duration::from_secs(3)),
            }
        );
        assert_eq!(ends.client.warmup, Duration::from_secs(1));
        let shown = |name: &str| ends.server.settings[name].to_string();
        let knobs = ["rcvbuf", "sndbuf", "congestion", "mss", "nodelay"];
        assert_eq!(knobs.map(shown), ["262144", "262144", "bbr", "1400", "on"]);
    }

    #[test]
    fn amounts_and_rates_are_read_as_iperf3_reads_them() {
        let paced = |words: &str| match ends(&setup(words)).expect("a run").client.workload {
            Workload::Paced { rate, .. } => Some(rate.bits_per_second()),
            _ => None,
        };
        for same in [
            "-b 10M",
            "-b 10m",
            "-b 10mbit",
            "-b 10Mbit/s",
            "-b 10000K",
            "-b 10000000",
        ] {
            assert_eq!(paced(same), Some(10_000_000), "{same}");
        }
        assert_eq!(paced("-b 1G"), Some(1_000_000_000));
        assert_eq!(paced("-b 0"), None);
        let amount = |words: &str| ends(&setup(words)).expect("a run").client.workload.amount();
        for (given, bytes) in [
            ("100M", 100 << 20),
            ("64K", 64 << 10),
            ("100MB", 100_000_000),
        ] {
            assert_eq!(
                amount(&format!("-n {given}")),
                Amount::Bytes(Bytes(bytes)),
                "{given}"
            );
        }
        for (given, ms) in [("5", 5000), ("5s", 5000), ("500ms", 500), ("0.5", 500)] {
            let time = Duration::from_millis(ms);
            assert_eq!(
                amount(&format!("-t {given}")),
                Amount::Time(time),
                "{given}"
            );
        }
    }

    #[test]
    fn a_compared_value_takes_the_place_of_a_flag_at_the_right_end() {
        let mut setup = setup("--mode wwr --nodelay --set client.sndbuf=64KiB");
        setup.put("nodelay", "off").expect("a knob");
        setup.put("server.quickack", "on").expect("a knob");
        setup.put("method", "cork").expect("a method");
        let ends = ends(&setup).expect("a run");
        assert_eq!(
            ends.client.sockets.settings["nodelay"],
            KnobValue::Flag(false)
        );
        assert!(ends.client.sockets.settings.contains_key("sndbuf"));
        assert!(!ends.server.settings.contains_key("sndbuf"));
        assert!(!ends.client.sockets.settings.contains_key("quickack"));
        assert_eq!(ends.server.settings["quickack"], KnobValue::Flag(true));
        let Workload::WriteWriteRead { method, .. } = ends.client.workload else {
            panic!("{:?}", ends.client.workload);
        };
        assert_eq!(method, WriteMethod::Cork);
    }

    #[test]
    fn what_does_not_fit_is_refused_with_the_reason() {
        let check = |words: &str, expected: &str| {
            let message = ends(&setup(words)).err().expect("refused").message;
            assert!(message.contains(expected), "{words}: {message}");
        };
        check("--mode rr -R", "-R cannot be used with --mode rr");
        check("--bidir -b 5mbit", "--bidir cannot be used with -b");
        check("--mode crr -P 2", "-P cannot be used with --mode crr");
        check("--set nodlay=on", "did you mean `nodelay`");
        check("--set net.ipv4.tcp_sack=off", "is not a socket option");
        check("--set nagle=off", "setting of tcptailor's own stack");
        check("--set rcvbuf=none", "Linux has no `none`");
        check("-M 20", "out of range");
        check("--set nodelay", "write KNOB=VALUE");
        let message = setup("").put("methd", "x").expect_err("unknown").message;
        assert!(message.contains("unknown knob `methd`"), "{message}");
    }
}
