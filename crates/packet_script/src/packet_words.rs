//! The words of a packet.

use base::ip::Ecn;
use base::tcp::TcpFlags;

use super::model::{Echo, PacketSpec, SackSpec, Seq, TimestampSpec, WindowSpec};
use super::words::{Parsed, Word, Words, number, range, small};

const FLAGS: &[(&str, TcpFlags)] = &[
    ("SYN", TcpFlags::SYN),
    ("FIN", TcpFlags::FIN),
    ("RST", TcpFlags::RST),
    ("PSH", TcpFlags::PSH),
    ("URG", TcpFlags::URG),
    ("ECE", TcpFlags::ECE),
    ("CWR", TcpFlags::CWR),
    ("AE", TcpFlags::AE),
];

const ECN: &[(&str, Ecn)] = &[
    ("notect", Ecn::NotCapable),
    ("ect0", Ecn::Ect0),
    ("ect1", Ecn::Ect1),
    ("ce", Ecn::CongestionExperienced),
];

/// Most segments that one line stands for.
const SEGMENTS_MAX: u32 = 1000;
/// Most data that an IP packet has.
const SEGMENT_BYTES_MAX: u32 = 65_535;

/// Reads a packet; a line with `by` stands for several, of which only the last has PSH and FIN.
pub(super) fn read(words: &mut Words<'_>) -> Parsed<Vec<PacketSpec>> {
    let mut spec = PacketSpec::default();
    let (mut by, mut data) = (None, None);
    while let Some(word) = words.take() {
        if word.text == "data" {
            data = Some(word);
        }
        if word.text == "by" {
            by = Some((word, number(words.expect("the size of a segment")?)?));
        } else if !header_word(word, words, &mut spec)? && !option_word(word, words, &mut spec)? {
            return word.wrong(format!("`{}` is not a word of a packet", word.text));
        }
    }
    let Some((word, size)) = by else {
        return match data.filter(|_| spec.data > SEGMENT_BYTES_MAX) {
            Some(word) => word.wrong(format!("no packet has {} bytes", spec.data)),
            None => Ok(vec![spec]),
        };
    };
    let Seq::Is(start) = spec.seq else {
        return word.wrong("`by` cuts `data START..END`, which is missing");
    };
    let Some(size) = u32::try_from(size)
        .ok()
        .filter(|size| (1..=SEGMENT_BYTES_MAX).contains(size))
    else {
        return word.wrong(format!("no packet has {size} bytes"));
    };
    if spec.data / size > SEGMENTS_MAX {
        return word.wrong(format!("segments of {size} bytes are too many"));
    }
    Ok(cut(&spec, start, size))
}

fn cut(spec: &PacketSpec, start: i64, size: u32) -> Vec<PacketSpec> {
    let mut parts = Vec::new();
    let mut done = 0;
    while done < spec.data {
        let data = size.min(spec.data - done);
        let mut part = spec.clone();
        part.seq = Seq::Is(start + i64::from(done));
        part.data = data;
        done += data;
        if done < spec.data {
            part.flags = part.flags.without(TcpFlags::PSH | TcpFlags::FIN);
            part.label = None;
        }
        parts.push(part);
    }
    parts
}

/// A word of the header; false where it is none.
fn header_word(word: Word<'_>, words: &mut Words<'_>, spec: &mut PacketSpec) -> Parsed<bool> {
    if let Some((_, flag)) = FLAGS.iter().find(|(name, _)| *name == word.text) {
        spec.flags |= *flag;
        return Ok(true);
    }
    if let Some((_, ecn)) = ECN.iter().find(|(name, _)| *name == word.text) {
        spec.ecn = Some(*ecn);
        return Ok(true);
    }
    match word.text {
        "PSH?" => spec.push_any = true,
        "seq" => spec.seq = seq(words.expect("a sequence number")?)?,
        "ack" => spec.ack = Some(seq(words.expect("an acknowledgment number")?)?),
        "data" => {
            let word = words.expect("the range of the data")?;
            let (start, end) = range(word)?;
            let Ok(bytes) = u32::try_from(end - start) else {
                return word.wrong("that is more data than a stream has");
            };
            spec.seq = Seq::Is(start);
            spec.data = bytes;
        }
        "win" => spec.window = window(words.expect("a window in bytes")?)?,
        "urg" => spec.urgent = small(words.expect("the urgent pointer")?)?,
        "as" => spec.label = Some(words.expect("a name")?.text.to_owned()),
        "new" => spec.renew = true,
        _ => return Ok(false),
    }
    Ok(true)
}

/// A word of the options; false where it is none.
fn option_word(word: Word<'_>, words: &mut Words<'_>, spec: &mut PacketSpec) -> Parsed<bool> {
    let options = &mut spec.options;
    match word.text {
        "opts" => {
            let what = words.expect("`*`")?;
            if what.text != "*" {
                return what.wrong("write `opts *`, or name each option");
            }
            options.any = true;
        }
        "mss" => options.mss = Some(small(words.expect("a size in bytes")?)?),
        "wscale" => options.window_scale = Some(small(words.expect("a shift")?)?),
        "sackok" => options.sack_permitted = true,
        "nots" => options.timestamps = TimestampSpec::Off,
        "ts" => {
            let is_value = |w: &Word<'_>| w.text.starts_with(|c: char| c.is_ascii_digit());
            let value = match words.peek().filter(is_value) {
                Some(word) => {
                    words.take();
                    Some(small(word)?)
                }
                None => None,
            };
            let echo = if words.take_if("echo") {
                Some(echo(words.expect("what is echoed")?)?)
            } else {
                None
            };
            options.timestamps = TimestampSpec::On { value, echo };
        }
        "sack" => options.sack = sack(words)?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn echo(word: Word<'_>) -> Parsed<Echo> {
    Ok(if word.text.starts_with(|c: char| c.is_ascii_digit()) {
        Echo::Value(small(word)?)
    } else {
        Echo::Label(word.text.to_owned())
    })
}

fn seq(word: Word<'_>) -> Parsed<Seq> {
    Ok(match word.text {
        "*" => Seq::Any,
        _ => Seq::Is(number(word)?),
    })
}

fn window(word: Word<'_>) -> Parsed<WindowSpec> {
    if word.text == "*" {
        return Ok(WindowSpec::Default);
    }
    let (low, high) = if word.text.contains("..") {
        range(word)?
    } else {
        let exact = number(word)?;
        (exact, exact)
    };
    match (u32::try_from(low), u32::try_from(high)) {
        (Ok(low), Ok(high)) => Ok(WindowSpec::Between(low, high)),
        _ => word.wrong("a window has at most 4 GiB"),
    }
}

/// All ranges that follow.
fn sack(words: &mut Words<'_>) -> Parsed<SackSpec> {
    if words.take_if("*") {
        return Ok(SackSpec::Any);
    }
    let mut blocks = vec![range(words.expect("a block START..END")?)?];
    while let Some(word) = words.peek().filter(|word| word.text.contains("..")) {
        words.take();
        blocks.push(range(word)?);
    }
    Ok(SackSpec::Blocks(blocks))
}
