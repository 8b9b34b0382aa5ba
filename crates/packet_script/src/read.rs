//! Reads a script: every line by itself, so that all mistakes are told at once.

use std::time::Duration;

use base::tcp::TcpFlags;

use super::model::{
    Action, After, Call, CallResult, Check, CheckValue, Engine, IcmpName, OptionsSpec,
    PacketScript, PacketSpec, PeerSetup, Seq, Setting, SettingValue, Setup, Step, TimestampSpec,
    When, WindowSpec,
};
use super::packet_words;
use super::settings;
use super::words::{Mistake, Parsed, Word, Words, duration, duration_range, number, small};
use base::Diagnostic;

/// Largest script that is read.
const FILE_BYTES_MAX: usize = 64 << 10;

/// Conditions that `check` knows; see `crates/stack/scripts/README.md`.
const FIELDS: &[&str] = &[
    "advmss",
    "ato",
    "backoff",
    "busy",
    "bytes_acked",
    "bytes_received",
    "bytes_retrans",
    "bytes_sent",
    "congestion_state",
    "cwnd",
    "data_segs_in",
    "data_segs_out",
    "dsack_dups",
    "ecn",
    "error",
    "lost",
    "min_rtt",
    "notsent",
    "out_of_order",
    "outq",
    "pmtu",
    "probes",
    "rcv_mss",
    "rcv_space",
    "rcv_ssthresh",
    "rcv_wnd",
    "rcv_wscale",
    "rcvbuf",
    "readable",
    "reord_seen",
    "reordering",
    "retrans",
    "rto",
    "rto_total",
    "rttvar",
    "rwnd_limited",
    "sack",
    "sacked",
    "rmem",
    "segs_in",
    "segs_out",
    "snd_mss",
    "snd_wnd",
    "snd_wscale",
    "sndbuf",
    "sndbuf_limited",
    "srtt",
    "ssthresh",
    "state",
    "timestamps",
    "total_retrans",
    "unacked",
    "unread",
    "wmem",
    "delivered",
    "delivered_ce",
    "timeouts",
];

impl PacketScript {
    /// Reads a script; `file` is its name in messages.
    ///
    /// # Errors
    /// All mistakes, in the order of the file; at least one.
    pub fn parse(file: &str, text: &str) -> Result<Self, Vec<Diagnostic>> {
        let told = |line, Mistake { column, message }| Diagnostic {
            file: file.into(),
            line,
            column,
            message,
        };
        let whole = |message: &str| Mistake {
            column: 1,
            message: message.into(),
        };
        if text.len() > FILE_BYTES_MAX {
            return Err(vec![told(1, whole("the file has more than 64 KiB"))]);
        }
        let mut reader = Reader::new();
        let mut mistakes = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let number = index as u32 + 1;
            if let Err(mistake) = reader.line(number, Words::of(line)) {
                mistakes.push(told(number, mistake));
            }
        }
        if mistakes.is_empty() {
            if reader.script.about.is_empty() {
                mistakes.push(told(
                    1,
                    whole("`about` is missing: what does the script show?"),
                ));
            }
            if reader.script.steps.is_empty() {
                mistakes.push(told(1, whole("there are no steps")));
            }
        }
        if mistakes.is_empty() {
            Ok(reader.script)
        } else {
            Err(mistakes)
        }
    }

    /// Whether it runs on `engine`.
    #[must_use]
    pub fn runs_on(&self, engine: Engine) -> bool {
        let kernel = engine == Engine::Kernel;
        let profile = !kernel || self.setup.profile == LINUX;
        profile && self.only.as_ref().is_none_or(|(only, _)| *only == engine)
    }
}

/// The profile that the kernel is.
const LINUX: &str = "linux_6_18";

struct Reader {
    script: PacketScript,
    labels: Vec<String>,
    listens: bool,
}

impl Reader {
    fn new() -> Self {
        let peer = PeerSetup {
            mss: Some(1460),
            window_scale: Some(7),
            sack: true,
            timestamps: true,
            window: 262_144,
        };
        let setup = Setup {
            profile: LINUX.into(),
            ipv6: false,
            mtu: 1500,
            peer,
            settings: Vec::new(),
            sysctls: Vec::new(),
            routes: Vec::new(),
        };
        let script = PacketScript {
            about: String::new(),
            vectors: Vec::new(),
            only: None,
            excuses: Vec::new(),
            setup,
            steps: Vec::new(),
        };
        Self {
            script,
            labels: Vec::new(),
            listens: false,
        }
    }

    fn line(&mut self, line: u32, mut words: Words<'_>) -> Parsed<()> {
        let Some(first) = words.take() else {
            return Ok(());
        };
        let engine = match first.text {
            "kernel:" => Some(Engine::Kernel),
            "stack:" => Some(Engine::Stack),
            _ => None,
        };
        if engine.is_some() {
            if self.script.excuses.is_empty() {
                return first.wrong("say why above: `excuse NAME`, with an entry in the list");
            }
            let time = words.expect("a time such as +0")?;
            return self.step(line, engine, time, words);
        }
        if first.text.starts_with(['+', '@']) || self.is_label(first) {
            return self.step(line, None, first, words);
        }
        self.header(first, &mut words)?;
        words.finish()
    }

    fn is_label(&self, word: Word<'_>) -> bool {
        let name = word.text.split('+').next().unwrap_or_default();
        word.text.contains('+') && self.labels.iter().any(|label| label == name)
    }

    fn header(&mut self, first: Word<'_>, words: &mut Words<'_>) -> Parsed<()> {
        let script = &mut self.script;
        if !script.steps.is_empty() {
            return first.wrong("a step begins with its time, such as +0 or +40ms");
        }
        match first.text {
            "about" => {
                if !script.about.is_empty() {
                    script.about.push(' ');
                }
                script.about.push_str(&words.rest());
            }
            "vectors" => script
                .vectors
                .extend(words.rest().split(' ').map(str::to_owned)),
            "excuse" => script.excuses.push(words.expect("a name")?.text.to_owned()),
            "only" => {
                let who = words.expect("`stack` or `kernel`")?;
                let engine = match who.text {
                    "stack" => Engine::Stack,
                    "kernel" => Engine::Kernel,
                    _ => return who.wrong("write `stack` or `kernel`"),
                };
                let why = words.expect("the name of the behaviour that is the reason")?;
                script.only = Some((engine, why.text.to_owned()));
            }
            "profile" => script.setup.profile = words.expect("a profile")?.text.to_owned(),
            "ipv6" => script.setup.ipv6 = true,
            "mtu" => script.setup.mtu = small(words.expect("bytes")?)?,
            "peer" => peer(words, &mut script.setup.peer)?,
            "set" => script.setup.settings.push(setting(words)?),
            "sysctl" => {
                let name = words.expect("a name such as tcp_sack")?.text.to_owned();
                script.setup.sysctls.push((name, words.rest()));
            }
            "route" => {
                let name = words
                    .expect("an attribute such as initrwnd")?
                    .text
                    .to_owned();
                script.setup.routes.push((name, words.rest()));
            }
            _ => return first.wrong(format!("`{}` is neither a time nor a setting", first.text)),
        }
        Ok(())
    }

    fn step(
        &mut self,
        line: u32,
        engine: Option<Engine>,
        time: Word<'_>,
        mut words: Words<'_>,
    ) -> Parsed<()> {
        let when = self.when(time)?;
        let verb = words.expect("what happens")?;
        let connection = match words.peek().and_then(|word| word.text.strip_prefix('@')) {
            Some(name) => {
                words.take();
                name.to_owned()
            }
            None => "a".to_owned(),
        };
        let mut add = |when: When, action: Action| {
            self.script.steps.push(Step {
                line,
                engine,
                when,
                connection: connection.clone(),
                action,
            });
        };
        match verb.text {
            "in" if words.take_if("icmp") => add(when, icmp(&mut words)?),
            "in" | "out" => {
                let specs = packet_words::read(&mut words)?;
                self.labels
                    .extend(specs.iter().filter_map(|spec| spec.label.clone()));
                for (index, spec) in specs.into_iter().enumerate() {
                    let action = match verb.text {
                        "in" => Action::In(spec),
                        _ => Action::Out(spec),
                    };
                    add(if index == 0 { when.clone() } else { at_once() }, action);
                }
            }
            "none" => add(when, Action::Silence),
            "check" => add(when, Action::Check(checks(&mut words)?)),
            "established" => {
                let opened = established(&mut words, &self.script.setup.peer, self.listens)?;
                self.listens = true;
                for (index, (delay, action)) in opened.into_iter().enumerate() {
                    let later = When {
                        min: delay,
                        ..at_once()
                    };
                    add(if index == 0 { when.clone() } else { later }, action);
                }
            }
            _ => {
                let call = call(verb, &mut words)?;
                self.listens |= matches!(call, Call::Listen { .. });
                let result = result(&mut words)?;
                add(when, Action::Call(call, result));
            }
        }
        words.finish()
    }

    fn when(&self, word: Word<'_>) -> Parsed<When> {
        let (after, text) = if let Some(text) = word.text.strip_prefix('@') {
            (After::Start, text)
        } else if let Some(text) = word.text.strip_prefix('+') {
            (After::Previous, text)
        } else {
            match word.text.split_once('+') {
                Some((name, text)) if self.labels.iter().any(|label| label == name) => {
                    (After::Label(name.to_owned()), text)
                }
                _ => return word.wrong(format!("`{}` is not a time; write +40ms", word.text)),
            }
        };
        let (min, max) = if let Some((middle, around)) = text.split_once('~') {
            let (middle, around) = (duration(word, middle)?, duration(word, around)?);
            (middle.saturating_sub(around), Some(middle + around))
        } else {
            let (min, max) = duration_range(word, text)?;
            (min, text.contains("..").then_some(max))
        };
        Ok(When { after, min, max })
    }
}

fn at_once() -> When {
    When {
        after: After::Previous,
        min: Duration::ZERO,
        max: None,
    }
}

fn peer(words: &mut Words<'_>, peer: &mut PeerSetup) -> Parsed<()> {
    while let Some(word) = words.take() {
        match word.text {
            "mss" => peer.mss = Some(small(words.expect("bytes")?)?),
            "nomss" => peer.mss = None,
            "wscale" => peer.window_scale = Some(small(words.expect("a shift")?)?),
            "nowscale" => peer.window_scale = None,
            "nosack" => peer.sack = false,
            "nots" => peer.timestamps = false,
            "win" => peer.window = small(words.expect("a window in bytes")?)?,
            _ => return word.wrong(format!("`{}` is nothing that a peer has", word.text)),
        }
    }
    Ok(())
}

fn setting(words: &mut Words<'_>) -> Parsed<Setting> {
    let name = words.expect("the name of a setting")?;
    if let Some(message) = settings::unknown_setting(name.text) {
        return name.wrong(message);
    }
    let value = words.expect("a value")?;
    let parsed = match value.text {
        "on" => SettingValue::Number(1),
        "off" => SettingValue::Number(0),
        text if text.bytes().all(|b| b.is_ascii_digit()) => SettingValue::Number(small(value)?),
        text if text.starts_with(|c: char| c.is_ascii_digit()) => {
            SettingValue::Time(duration(value, text)?)
        }
        text => SettingValue::Name(text.to_owned()),
    };
    Ok(Setting {
        name: name.text.to_owned(),
        value: parsed,
    })
}

fn icmp(words: &mut Words<'_>) -> Parsed<Action> {
    let name = words.expect("what is wrong, such as too-big")?;
    let kind = match name.text {
        "too-big" => IcmpName::TooBig(small(words.expect("an MTU")?)?),
        "net-unreachable" => IcmpName::NetUnreachable,
        "host-unreachable" => IcmpName::HostUnreachable,
        "protocol-unreachable" => IcmpName::ProtocolUnreachable,
        "port-unreachable" => IcmpName::PortUnreachable,
        "time-exceeded" => IcmpName::TimeExceeded,
        _ => return name.wrong(format!("`{}` is not an ICMP error", name.text)),
    };
    let word = words.expect("`seq` of the quoted segment")?;
    if word.text != "seq" {
        return word.wrong("write `seq N` of the quoted segment");
    }
    let seq = number(words.expect("a sequence number")?)?;
    Ok(Action::Icmp { kind, seq })
}

fn call(verb: Word<'_>, words: &mut Words<'_>) -> Parsed<Call> {
    Ok(match verb.text {
        "listen" => Call::Listen {
            backlog: if words.take_if("backlog") {
                small(words.expect("a count")?)?
            } else {
                128
            },
        },
        "connect" => Call::Connect,
        "accept" => Call::Accept,
        "write" => Call::Write {
            bytes: small(words.expect("a number of bytes")?)?,
            more: words.take_if("more"),
            urgent: words.take_if("urgent"),
        },
        "read" => Call::Read {
            bytes: small(words.expect("a number of bytes")?)?,
        },
        "peek" => Call::Peek {
            bytes: small(words.expect("a number of bytes")?)?,
        },
        "shutdown" if words.take_if("read") => Call::ShutdownRead,
        "shutdown" if words.take_if("both") => Call::ShutdownBoth,
        "shutdown" => Call::Shutdown,
        "close" => Call::Close,
        "abort" => Call::Abort,
        "set" => Call::Set(setting(words)?),
        "route" => {
            let name = words.expect("an attribute, or `plain`")?.text.to_owned();
            Call::Route(name, words.rest())
        }
        _ => return verb.wrong(format!("`{}` is not a call", verb.text)),
    })
}

fn result(words: &mut Words<'_>) -> Parsed<CallResult> {
    if !words.take_if("->") {
        return Ok(CallResult::Done);
    }
    let word = words.expect("what it returns")?;
    Ok(match word.text {
        "*" => CallResult::Any,
        "again" => CallResult::Again,
        "end" => CallResult::End,
        text if text.starts_with(|c: char| c.is_ascii_digit()) => CallResult::Count(small(word)?),
        name => CallResult::Error(name.to_owned()),
    })
}

/// `cwnd 10 srtt 40..44ms state established`.
fn checks(words: &mut Words<'_>) -> Parsed<Vec<Check>> {
    let mut checks = Vec::new();
    while let Some(field) = words.take() {
        if !FIELDS.contains(&field.text) {
            return field.wrong(format!("`{}` is nothing that can be known", field.text));
        }
        let word = words.expect("a value")?;
        let (min, max) = check_value(word)?;
        checks.push(Check {
            field: field.text.to_owned(),
            min,
            max,
        });
    }
    Ok(checks)
}

fn check_value(word: Word<'_>) -> Parsed<(CheckValue, CheckValue)> {
    let text = word.text;
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        let name = CheckValue::Name(text.to_owned());
        return Ok((name.clone(), name));
    }
    let is_time = text.ends_with('s');
    let (low, high) = if is_time {
        let (low, high) = duration_range(word, text)?;
        let micros = |time: Duration| time.as_micros() as u64;
        (micros(low), micros(high))
    } else if text.contains("..") {
        let (low, high) = super::words::range(word)?;
        (low as u64, high as u64)
    } else {
        let exact: u64 = small(word)?;
        (exact, exact)
    };
    Ok((CheckValue::Number(low), CheckValue::Number(high)))
}

/// The steps of a handshake that the script takes for granted.
fn established(
    words: &mut Words<'_>,
    peer: &PeerSetup,
    listens: bool,
) -> Parsed<Vec<(Duration, Action)>> {
    let side = words.expect("`active` or `passive`")?;
    let rtt = if words.take_if("rtt") {
        let word = words.expect("a time")?;
        duration(word, word.text)?
    } else {
        Duration::ZERO
    };
    let done = |call| (Duration::ZERO, Action::Call(call, CallResult::Done));
    let is = |number| Some(Seq::Is(number));
    let mut steps = Vec::new();
    match side.text {
        "active" => {
            steps.push(done(Call::Connect));
            steps.push((Duration::ZERO, Action::Out(any_syn(None))));
            steps.push((rtt, Action::In(peer_syn(peer, is(1)))));
            steps.push((Duration::ZERO, Action::Out(ack_of(is(1)))));
        }
        "passive" => {
            if !listens {
                steps.push(done(Call::Listen { backlog: 128 }));
            }
            steps.push((Duration::ZERO, Action::In(peer_syn(peer, None))));
            steps.push((Duration::ZERO, Action::Out(any_syn(is(1)))));
            steps.push((rtt, Action::In(ack_of(is(1)))));
            steps.push(done(Call::Accept));
        }
        _ => return side.wrong("write `active` or `passive`"),
    }
    Ok(steps)
}

fn ack_of(ack: Option<Seq>) -> PacketSpec {
    PacketSpec {
        ack,
        ..PacketSpec::default()
    }
}

fn any_syn(ack: Option<Seq>) -> PacketSpec {
    PacketSpec {
        flags: TcpFlags::SYN,
        seq: Seq::Is(0),
        options: OptionsSpec {
            any: true,
            ..OptionsSpec::default()
        },
        ..ack_of(ack)
    }
}

fn peer_syn(peer: &PeerSetup, ack: Option<Seq>) -> PacketSpec {
    let timestamps = if peer.timestamps {
        TimestampSpec::On {
            value: None,
            echo: None,
        }
    } else {
        TimestampSpec::Off
    };
    PacketSpec {
        window: WindowSpec::Between(65_535.min(peer.window), 65_535.min(peer.window)),
        options: OptionsSpec {
            any: false,
            mss: peer.mss,
            window_scale: peer.window_scale,
            sack_permitted: peer.sack,
            timestamps,
            sack: super::model::SackSpec::None,
        },
        ..PacketSpec {
            seq: Seq::Is(0),
            ..any_syn(ack)
        }
    }
}

#[cfg(test)]
mod tests;
