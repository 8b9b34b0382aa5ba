//! The client that sends messages in small writes.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use base::human;
use clap::ValueEnum;
use papers::nodelay::{
    self, Client, ClientRun, ClientSpec, HEADER_AND_PAYLOAD, Handing, MESSAGE_BYTES_MAX, MESSAGES,
    PIECE_BYTES, PIECES, PORT, REPLY_BYTES,
};
use serde::Serialize;

use super::Word;
use crate::exit::{Exit, Problem};
use crate::interrupt;
use crate::output::Output;
use crate::progress::Progress;

/// Send messages in small writes and wait for a response to each.
///
/// The sample client of the document on `TCP_NODELAY` and `TCP_CORK`: its arguments, its exchange
/// (15 writes of 2 bytes, an answer of 2 bytes) and its line of output. `tcptailor nodelay-server`
/// answers. docs/cork.md says which way of sending is for whom.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor nodelay-server 5001 10000                       in another terminal
  tcptailor nodelay-client localhost 5001 10000             44 ms each: it takes 7 minutes
  tcptailor nodelay-client localhost 5001 10000 no_delay    a segment for each write
  tcptailor nodelay-client localhost 5001 10000 cork        a segment for each message
  tcptailor nodelay-client localhost -N 10000 --method writev -v
  tcptailor nodelay-client localhost -H --method msg-more   header and payload
  tcptailor autocork -- tcptailor nodelay-client localhost 5001 10000 no_delay

The \"packets\" of the line are messages. The baseline waits in each exchange for an ACK that the
other side delays by 40 ms, rounded to the tick of the kernel.")]
pub(crate) struct ClientArgs {
    /// Where the server is.
    host: String,
    /// Its port [default: 5001], the number of messages [default: 10000], and options to set:
    /// no_delay, cork, or both.
    #[arg(value_name = "PORT|COUNT|OPTION", value_parser = parse_word)]
    words: Vec<ClientWord>,
    /// Cork the socket before each message, and uncork it after.
    #[arg(short, long)]
    cork: bool,
    /// Set `TCP_NODELAY` once, after the connection is there.
    #[arg(short, long = "no_delay", alias = "no-delay")]
    no_delay: bool,
    /// The server's port.
    #[arg(short, long, value_name = "PORT")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Send this many messages per second, at fixed times, and await no answers. The server must be
    /// started with the word `rate`.
    #[arg(short, long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rate: Option<u32>,
    /// A header of 6 bytes and a payload of 24, in two writes.
    #[arg(
        short = 'H',
        long = "header_plus_payload",
        alias = "header-plus-payload"
    )]
    #[arg(conflicts_with_all = ["writes", "sizes"])]
    header_plus_payload: bool,
    /// The whole message in one write: the same as `--method single`.
    #[arg(short, long = "single_request", alias = "single-request")]
    #[arg(conflicts_with = "method")]
    single_request: bool,
    /// Messages.
    #[arg(short = 'N', long = "nr_logical_packets", alias = "nr-logical-packets")]
    #[arg(value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    nr_logical_packets: Option<u64>,
    /// How a message is written.
    #[arg(long, value_name = "METHOD", default_value = "write")]
    method: Method,
    /// Writes of 2 bytes per message [default: 15]; the last version of the sample has 100.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    writes: Option<u32>,
    /// Bytes of each write instead of 2: `6,24`.
    #[arg(
        long,
        value_name = "BYTES,BYTES",
        value_delimiter = ',',
        conflicts_with = "writes"
    )]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=MESSAGE_BYTES_MAX as i64))]
    sizes: Vec<u32>,
    /// Which line to print.
    #[arg(long, value_name = "FORM", default_value = "document")]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientWord {
    Number(u64),
    Option(Word),
}

fn parse_word(text: &str) -> Result<ClientWord, String> {
    if let Ok(number) = text.parse() {
        return Ok(ClientWord::Number(number));
    }
    Word::from_str(text, false)
        .map(ClientWord::Option)
        .map_err(|_| "write a port, a number of messages, no_delay, or cork".into())
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Method {
    /// One write per part.
    Write,
    /// All parts in one writev.
    Writev,
    /// One send per part, all but the last with `MSG_MORE`.
    MsgMore,
    /// The message in one write.
    Single,
    /// The last part from a file with sendfile, the others with a write each.
    Sendfile,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// That of the document: `10000 packets of 30 bytes sent in 850.796448 ms: …`.
    Document,
    /// That of later sample programs: the rate; with -v with the number of buffers.
    Later,
}

impl From<Method> for Handing {
    fn from(method: Method) -> Self {
        match method {
            Method::Write => Self::Write,
            Method::Writev => Self::Writev,
            Method::MsgMore => Self::MsgMore,
            Method::Single => Self::Single,
            Method::Sendfile => Self::Sendfile,
        }
    }
}

#[derive(Serialize)]
struct Document {
    remote: SocketAddr,
    messages: u64,
    message_bytes: usize,
    buffers_per_message: usize,
    nodelay: bool,
    cork: bool,
    messages_per_second_asked: Option<u32>,
    elapsed_ms: f64,
    bytes_per_ms: f64,
    data_segments: Option<u64>,
    segments_per_message: Option<f64>,
    response_us: Option<ResponseTimes>,
    interrupted: bool,
}

#[derive(Clone, Copy, Serialize)]
struct ResponseTimes {
    p50: f64,
    p99: f64,
    max: f64,
}

pub(crate) fn client(args: &ClientArgs, output: &Output) -> anyhow::Result<Exit> {
    let spec = args.spec()?;
    let Some((client, spec)) = connect(args, &spec)? else {
        output.note("interrupted before there was a connection");
        return Ok(Exit::Interrupted);
    };
    let stop = client.stopper();
    let _guard = interrupt::on_stop(stop);
    let bar = Progress::bar(output, "sending", spec.messages);
    let run = client.run(&mut |messages| bar.set(messages))?;
    drop(bar);
    let document = Document::new(&spec, &run);
    output.report("nodelay-client", &document, || {
        args.text(&document, &run, output.verbosity() > 0)
    })?;
    Ok(if run.interrupted {
        output.note("interrupted: that is what was done until then");
        Exit::Interrupted
    } else {
        Exit::Done
    })
}

/// Tries the addresses of the host in turn; `None` where the user wants no more of it.
fn connect(args: &ClientArgs, spec: &ClientSpec) -> anyhow::Result<Option<(Client, ClientSpec)>> {
    let port = spec.remote.port();
    let host = args.host.trim_matches(['[', ']']);
    let unknown = |error: std::io::Error| {
        Problem::failed(format!("`{host}` is not a host: {error}"))
            .hint("Write a name or an address, then the port: `localhost 5001`.")
    };
    let mut last = None;
    for remote in (host, port).to_socket_addrs().map_err(unknown)? {
        let spec = ClientSpec {
            remote,
            ..spec.clone()
        };
        match Client::connect(spec.clone(), interrupt::stop_flag()) {
            Ok(client) => return Ok(Some((client, spec))),
            Err(_) if interrupt::stopped() => return Ok(None),
            Err(error) => last = Some(error),
        }
    }
    let what = last.map_or_else(
        || format!("`{host}` has no address"),
        |error| error.to_string(),
    );
    let hint = format!(
        "`tcptailor nodelay-server {port}` on that machine answers; `--bind` says on which address."
    );
    Err(Problem::failed(what).hint(hint).into())
}

impl ClientArgs {
    /// Port and number of messages.
    fn numbers(&self) -> Result<(u16, u64), Problem> {
        let mut numbers = self.words.iter().filter_map(|word| match word {
            ClientWord::Number(number) => Some(*number),
            ClientWord::Option(_) => None,
        });
        let port = match self.port {
            Some(port) => port,
            None => match numbers.next() {
                None => PORT,
                Some(number) => u16::try_from(number)
                    .ok()
                    .filter(|port| *port > 0)
                    .ok_or_else(|| {
                        Problem::usage(format!("`{number}`: a port is a number from 1 to 65535"))
                            .hint("The port comes first, then the number of messages.")
                    })?,
            },
        };
        let count = match self.nr_logical_packets {
            Some(count) => count,
            None => numbers.next().unwrap_or(MESSAGES),
        };
        match (numbers.next(), count) {
            (Some(number), _) => Err(Problem::usage(format!(
                "`{number}`: port and number of messages are given already"
            ))),
            (None, 0) => Err(Problem::usage("no messages; ask for at least 1")),
            (None, count) => Ok((port, count)),
        }
    }

    fn spec(&self) -> Result<ClientSpec, Problem> {
        let (port, messages) = self.numbers()?;
        let has = |word| self.words.contains(&ClientWord::Option(word));
        let pieces = if self.header_plus_payload {
            HEADER_AND_PAYLOAD.to_vec()
        } else if self.sizes.is_empty() {
            let writes = self.writes.map_or(PIECES, |writes| writes as usize);
            vec![PIECE_BYTES; writes]
        } else {
            self.sizes.iter().map(|&bytes| bytes as usize).collect()
        };
        if pieces.iter().sum::<usize>() > MESSAGE_BYTES_MAX {
            let max = base::Bytes(MESSAGE_BYTES_MAX as u64);
            return Err(Problem::usage(format!(
                "--sizes: a message has at most {max}"
            )));
        }
        Ok(ClientSpec {
            remote: SocketAddr::from(([0, 0, 0, 0], port)),
            messages,
            pieces,
            reply_bytes: REPLY_BYTES,
            nodelay: self.no_delay || has(Word::NoDelay),
            cork: self.cork || has(Word::Cork),
            handing: match self.single_request {
                true => Handing::Single,
                false => self.method.into(),
            },
            per_second: self.rate,
        })
    }

    fn text(&self, document: &Document, run: &ClientRun, verbose: bool) -> String {
        let options = nodelay::options_used(document.nodelay, document.cork);
        let line = nodelay::line(run.messages, run.message_bytes, run.elapsed, options);
        let buffers = document.buffers_per_message;
        match (self.format, verbose) {
            (Format::Document, false) => line,
            (Format::Document, true) => format!("{line}\n{}", details(document)),
            (Format::Later, false) => format!("{:.6} bytes/ms", document.bytes_per_ms),
            (Format::Later, true) => format!(
                "{} packets ({buffers} buffer{}) sent in {:.6} ms: {:.6} bytes/ms{options}",
                document.messages,
                if buffers == 1 { "" } else { "s" },
                document.elapsed_ms,
                document.bytes_per_ms,
            ),
        }
    }
}

/// Details that the line lacks.
fn details(document: &Document) -> String {
    let Document {
        buffers_per_message,
        segments_per_message,
        response_us,
        ..
    } = document;
    let mut text = format!("per message: {buffers_per_message} buffers");
    if let Some(segments) = segments_per_message {
        text += &format!(", {segments:.2} segments");
    }
    if let Some(ResponseTimes { p50, p99, max }) = *response_us {
        let shown = |us: f64| human::time(Duration::from_secs_f64(us / 1e6));
        let (p50, p99, max) = (shown(p50), shown(p99), shown(max));
        text += &format!("; response time p50 {p50}, p99 {p99}, max {max}");
    }
    text
}

impl Document {
    fn new(spec: &ClientSpec, run: &ClientRun) -> Self {
        let us = |nanos: u64| nanos as f64 / 1e3;
        let times = &run.responses_ns;
        Self {
            remote: spec.remote,
            messages: run.messages,
            message_bytes: run.message_bytes,
            buffers_per_message: spec.handing.calls(spec.pieces.len()),
            nodelay: spec.nodelay,
            cork: spec.cork,
            messages_per_second_asked: spec.per_second,
            elapsed_ms: nodelay::milliseconds(run.elapsed),
            bytes_per_ms: nodelay::bytes_per_ms(run.messages, run.message_bytes, run.elapsed),
            data_segments: run.data_segments,
            segments_per_message: run
                .data_segments
                .filter(|_| run.messages > 0)
                .map(|segments| segments as f64 / run.messages as f64),
            response_us: (!times.is_empty()).then(|| ResponseTimes {
                p50: us(times.value_at_quantile(0.5)),
                p99: us(times.value_at_quantile(0.99)),
                max: us(times.max()),
            }),
            interrupted: run.interrupted,
        }
    }
}
