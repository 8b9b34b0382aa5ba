//! The server that answers messages and counts its reads.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use base::human;
use clap::ValueEnum;
use papers::nodelay::{
    HEADER_AND_PAYLOAD, Intervals, MESSAGE_BYTES_MAX, PORT, REPLY_BYTES, Server, ServerSpec, Visit,
};
use serde::Serialize;

use crate::exit::{Exit, Problem};
use crate::interrupt;
use crate::output::Output;

const MESSAGE_BYTES: u64 = (HEADER_AND_PAYLOAD[0] + HEADER_AND_PAYLOAD[1]) as u64;

/// Answer `nodelay-client`, and count the reads.
///
/// The sample server of the document on `TCP_NODELAY` and `TCP_CORK` (docs/cork.md): it reads
/// messages of 30 bytes and answers each with 2, for one client at a time. When a client
/// disconnects, it prints how many reads ("buffers") the messages took.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor nodelay-server 5001 10000       as in the document
  tcptailor nodelay-server 5001 --bind ::   for other machines too
  tcptailor nodelay-server 5001 rate        for `nodelay-client HOST --rate 100`
  tcptailor nodelay-server 5001 --message 200   for `nodelay-client HOST --writes 100`

Ctrl-C ends it. It listens on loopback by default; with --bind, anyone who can reach the address
can use it.")]
pub(crate) struct ServerArgs {
    /// Listen on this port (0: any).
    #[arg(value_name = "PORT", default_value_t = PORT)]
    port: u16,
    /// A number of messages (accepted as in the document, not used), and options: no_delay or cork,
    /// set on its socket; rate, to read without answering.
    #[arg(value_name = "COUNT|OPTION", value_parser = parse_word)]
    words: Vec<ServerWord>,
    /// Listen on this address of this machine (`::` for all).
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    bind: IpAddr,
    /// Exit when the first client disconnects.
    #[arg(long)]
    one_off: bool,
    /// Bytes of a message.
    #[arg(long, value_name = "BYTES", default_value_t = MESSAGE_BYTES)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=MESSAGE_BYTES_MAX as u64))]
    message: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServerWord {
    Count,
    Option(super::Word),
    Rate,
}

fn parse_word(text: &str) -> Result<ServerWord, String> {
    if text.parse::<u64>().is_ok() {
        Ok(ServerWord::Count)
    } else if text == "rate" {
        Ok(ServerWord::Rate)
    } else {
        super::Word::from_str(text, false)
            .map(ServerWord::Option)
            .map_err(|_| "write a number, no_delay, cork, or rate".into())
    }
}

#[derive(Serialize)]
struct Begin {
    address: SocketAddr,
    message_bytes: usize,
    reply_bytes: usize,
}

#[derive(Serialize)]
struct Visited<'v> {
    client: SocketAddr,
    buffers: u64,
    messages: u64,
    buffers_per_message: Option<f64>,
    interval_min_us: Option<f64>,
    interval_mean_us: Option<f64>,
    interval_max_us: Option<f64>,
    problem: Option<&'v str>,
}

pub(crate) fn server(args: &ServerArgs, output: &Output) -> anyhow::Result<Exit> {
    let rate = args.words.contains(&ServerWord::Rate);
    let spec = ServerSpec {
        address: SocketAddr::new(args.bind, args.port),
        message_bytes: args.message as usize,
        reply_bytes: if rate { 0 } else { REPLY_BYTES },
        nodelay: args.has(super::Word::NoDelay),
        cork: args.has(super::Word::Cork),
    };
    let server = Server::bind(spec).map_err(|error| {
        Problem::failed(error).hint("Take another port, or an address of this machine with --bind.")
    })?;
    let stop = server.stopper();
    let _guard = interrupt::on_stop(stop);
    let begin = Begin {
        address: server.address()?,
        message_bytes: spec.message_bytes,
        reply_bytes: spec.reply_bytes,
    };
    output.report("nodelay-server", &begin, || {
        format!("Listening on {}.", begin.address)
    })?;
    server.run(args.one_off, &mut |visit| {
        // The service continues if the reader of the results is gone.
        let _ = output.report("nodelay-visit", &Visited::new(visit), || text(visit, rate));
    })?;
    Ok(if interrupt::stopped() {
        Exit::Interrupted
    } else {
        Exit::Done
    })
}

impl ServerArgs {
    fn has(&self, word: super::Word) -> bool {
        self.words.contains(&ServerWord::Option(word))
    }
}

fn text(visit: &Visit, rate: bool) -> String {
    let Visit {
        client,
        buffers,
        messages,
        intervals,
        problem,
    } = visit;
    let mut text = format!("{client}: received {buffers} buffers, {messages} messages");
    if let Some(Intervals { min, mean, max }) = *intervals {
        let mean = human::time(mean);
        text += &format!(", one every {mean}");
        if rate {
            let (min, max) = (human::time(min), human::time(max));
            text += &format!(" on average, {min} at least, {max} at most");
        }
    }
    if let Some(problem) = problem {
        text += &format!("; {problem}");
    }
    text
}

impl<'v> Visited<'v> {
    fn new(visit: &'v Visit) -> Self {
        let us = |time: Duration| time.as_secs_f64() * 1e6;
        Self {
            client: visit.client,
            buffers: visit.buffers,
            messages: visit.messages,
            buffers_per_message: (visit.messages > 0)
                .then(|| visit.buffers as f64 / visit.messages as f64),
            interval_min_us: visit.intervals.map(|intervals| us(intervals.min)),
            interval_mean_us: visit.intervals.map(|intervals| us(intervals.mean)),
            interval_max_us: visit.intervals.map(|intervals| us(intervals.max)),
            problem: visit.problem.as_deref(),
        }
    }
}
