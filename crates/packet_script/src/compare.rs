//! Compares packets with the expectations of a script.

use base::tcp::TcpFlags;

use super::connection::Connection;
use super::model::{Echo, PacketSpec, SackSpec, Seq, TimestampSpec, WindowSpec};
use super::run::{Wire, pattern};

/// Whether a packet of the host is what the script says; otherwise what is not.
pub(super) fn check(
    spec: &PacketSpec,
    wire: &Wire,
    connection: &Connection,
    clocks: &dyn Fn(&str) -> Option<u32>,
) -> Result<(), String> {
    flags(spec, wire)?;
    numbers(spec, wire, connection)?;
    window(spec, wire, connection)?;
    options(spec, wire, connection)?;
    timestamps(spec, wire, clocks)?;
    if let Some(ecn) = spec.ecn
        && ecn != wire.ecn
    {
        return Err(format!("{:?}, not {ecn:?}", wire.ecn));
    }
    Ok(())
}

fn flags(spec: &PacketSpec, wire: &Wire) -> Result<(), String> {
    let mut wanted = spec.flags;
    if spec.ack.is_some() {
        wanted |= TcpFlags::ACK;
    }
    let mut found = wire.header.flags;
    if spec.push_any {
        found = found.without(TcpFlags::PSH);
        wanted = wanted.without(TcpFlags::PSH);
    }
    if found == wanted {
        Ok(())
    } else {
        Err(format!("flags {found}, not {wanted},"))
    }
}

fn numbers(spec: &PacketSpec, wire: &Wire, connection: &Connection) -> Result<(), String> {
    let seq = connection.host_relative(wire.header.seq);
    let is_syn = spec.flags.contains(TcpFlags::SYN);
    let wanted = match spec.seq {
        Seq::Any => seq,
        Seq::Is(wanted) => wanted,
        Seq::Next if is_syn => 0,
        Seq::Next => connection.host_next,
    };
    if seq != wanted {
        return Err(format!("seq {seq}, not {wanted},"));
    }
    if let Some(Seq::Is(wanted)) = spec.ack {
        let ack = connection.peer_relative(wire.header.ack);
        if ack != wanted {
            return Err(format!("ack {ack}, not {wanted},"));
        }
    }
    let bytes = wire.payload.len() as u32;
    if bytes != spec.data {
        return Err(format!("{bytes} bytes, not {},", spec.data));
    }
    let wrong = |(at, byte): (i64, &u8)| *byte != pattern(seq.max(1) + at);
    if (0..).zip(&wire.payload).any(wrong) {
        return Err("other bytes than were written".into());
    }
    let urgent = wire.header.urgent;
    if spec.flags.contains(TcpFlags::URG) && urgent != spec.urgent {
        return Err(format!("urgent pointer {urgent}, not {},", spec.urgent));
    }
    Ok(())
}

fn window(spec: &PacketSpec, wire: &Wire, connection: &Connection) -> Result<(), String> {
    let found = host_window(wire, connection);
    match spec.window {
        WindowSpec::Between(low, high) if !(low..=high).contains(&found) => {
            Err(format!("window {found}, not {low}..{high},"))
        }
        _ => Ok(()),
    }
}

fn host_window(wire: &Wire, connection: &Connection) -> u32 {
    let is_syn = wire.header.flags.contains(TcpFlags::SYN);
    let shift = if is_syn { 0 } else { connection.host_shift() };
    u32::from(wire.header.window) << shift
}

fn options(spec: &PacketSpec, wire: &Wire, connection: &Connection) -> Result<(), String> {
    let (wanted, found) = (&spec.options, &wire.options);
    if wanted.any {
        return Ok(());
    }
    if wanted.mss != found.mss {
        return Err(format!("mss {:?}, not {:?},", found.mss, wanted.mss));
    }
    if wanted.window_scale != found.window_scale {
        let (found, wanted) = (found.window_scale, wanted.window_scale);
        return Err(format!("wscale {found:?}, not {wanted:?},"));
    }
    if wanted.sack_permitted != found.sack_permitted {
        return Err(format!("sackok {},", found.sack_permitted));
    }
    let found: Vec<(i64, i64)> = sack(wire, connection);
    match &wanted.sack {
        SackSpec::Any => Ok(()),
        SackSpec::None if found.is_empty() => Ok(()),
        SackSpec::Blocks(blocks) if *blocks == found => Ok(()),
        wanted => Err(format!("sack {found:?}, not {wanted:?},")),
    }
}

fn sack(wire: &Wire, connection: &Connection) -> Vec<(i64, i64)> {
    let blocks = wire.options.sack.unwrap_or_default();
    let relative = |(start, end)| {
        (
            connection.peer_relative(start),
            connection.peer_relative(end),
        )
    };
    blocks.iter().map(relative).collect()
}

fn timestamps(
    spec: &PacketSpec,
    wire: &Wire,
    clocks: &dyn Fn(&str) -> Option<u32>,
) -> Result<(), String> {
    if spec.options.any {
        return Ok(());
    }
    let is_syn = spec.flags.contains(TcpFlags::SYN);
    match (&spec.options.timestamps, wire.options.timestamps) {
        (TimestampSpec::Default, None) | (TimestampSpec::Off, None) => Ok(()),
        (TimestampSpec::Default, Some(_)) if !is_syn => Ok(()),
        (TimestampSpec::On { echo: None, .. }, Some(_)) => Ok(()),
        (
            TimestampSpec::On {
                echo: Some(echo), ..
            },
            Some((_, found)),
        ) => {
            let wanted = match echo {
                Echo::Value(value) => Some(*value),
                Echo::Label(label) => clocks(label),
            };
            if wanted == Some(found) {
                Ok(())
            } else {
                Err(format!("timestamp echo {found}, not {wanted:?},"))
            }
        }
        (_, found) => Err(format!("timestamps {found:?},")),
    }
}

/// A packet of the host as a script would write it.
pub(super) fn describe(wire: &Wire, connection: &Connection) -> String {
    format!("{}{}", describe_steady(wire, connection), clocks_of(wire))
}

/// As [`describe`], without what depends on a host's clock.
pub(super) fn describe_steady(wire: &Wire, connection: &Connection) -> String {
    let seq = connection.host_relative(wire.header.seq);
    let ack = connection.peer_relative(wire.header.ack);
    let words = words(wire, seq, ack, &sack(wire, connection));
    format!("{words} win {}", host_window(wire, connection))
}

/// A packet of the peer as a script would write it.
pub(super) fn describe_in(wire: &Wire, connection: &Connection) -> String {
    let seq = connection.peer_relative(wire.header.seq);
    let ack = connection.host_relative(wire.header.ack);
    let is_syn = wire.header.flags.contains(TcpFlags::SYN);
    let shift = if is_syn { 0 } else { connection.peer_shift() };
    let relative = |(start, end)| {
        (
            connection.host_relative(start),
            connection.host_relative(end),
        )
    };
    let blocks: Vec<_> = wire
        .options
        .sack
        .unwrap_or_default()
        .iter()
        .map(relative)
        .collect();
    let window = u32::from(wire.header.window) << shift;
    let words = words(wire, seq, ack, &blocks);
    format!("{words} win {window}{}", clocks_of(wire))
}

fn clocks_of(wire: &Wire) -> String {
    match wire.options.timestamps {
        Some((value, echo)) => format!(" ts {value} echo {echo}"),
        None => String::new(),
    }
}

fn words(wire: &Wire, seq: i64, ack: i64, sack: &[(i64, i64)]) -> String {
    const NAMES: [(TcpFlags, &str); 8] = [
        (TcpFlags::SYN, "SYN"),
        (TcpFlags::FIN, "FIN"),
        (TcpFlags::RST, "RST"),
        (TcpFlags::PSH, "PSH"),
        (TcpFlags::URG, "URG"),
        (TcpFlags::ECE, "ECE"),
        (TcpFlags::CWR, "CWR"),
        (TcpFlags::AE, "AE"),
    ];
    let bytes = wire.payload.len() as i64;
    let mut words = match bytes {
        0 => vec![format!("seq {seq}")],
        _ => vec![format!("data {seq}..{}", seq + bytes)],
    };
    let flags = NAMES
        .iter()
        .filter(|(flag, _)| wire.header.flags.contains(*flag));
    words.extend(flags.map(|(_, name)| (*name).to_owned()));
    if wire.header.flags.contains(TcpFlags::ACK) {
        words.push(format!("ack {ack}"));
    }
    if wire.header.flags.contains(TcpFlags::URG) {
        words.push(format!("urg {}", wire.header.urgent));
    }
    let options = &wire.options;
    words.extend(options.mss.map(|mss| format!("mss {mss}")));
    words.extend(options.window_scale.map(|shift| format!("wscale {shift}")));
    words.extend(options.sack_permitted.then(|| "sackok".to_owned()));
    if !sack.is_empty() {
        words.push("sack".into());
        words.extend(sack.iter().map(|(start, end)| format!("{start}..{end}")));
    }
    match wire.ecn {
        base::ip::Ecn::NotCapable => {}
        base::ip::Ecn::Ect0 => words.push("ect0".into()),
        base::ip::Ecn::Ect1 => words.push("ect1".into()),
        base::ip::Ecn::CongestionExperienced => words.push("ce".into()),
    }
    words.join(" ")
}
