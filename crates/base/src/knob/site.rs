//! Places of knobs in the settings of our stack.
//!
//! Most knobs are one field (`field!`). The rest of this file is about those that are not: several
//! knobs for one field, and values that a stack changes on the way, such as `SO_SNDBUF`.

use alloc::format;
use alloc::string::String;
use core::ops::RangeInclusive;
use core::time::Duration;

use super::value::{Choice, NONE, Value, is_none, name_of, number_of, unknown_name};
use crate::KnobValue;
use crate::settings::{
    Accounting, AckEvery, Acks, BufferSize, Completion, LinuxVersion, MtuProbing, Nagle, Push,
    SackCompression, SizeRule, SocketSettings,
};

/// How a knob reads and writes the settings of a connection of our stack: what
/// [`Knob::get`](super::Knob::get) and [`Knob::set`](super::Knob::set) call.
#[derive(Clone, Copy, Debug)]
pub struct StackSite {
    /// Reads it; `none` where the settings have no value.
    pub(super) get: fn(&SocketSettings) -> KnobValue,
    /// Sets it. The value is of the knob's kind and within its range; an error says which values
    /// these settings allow.
    pub(super) set: fn(&mut SocketSettings, &KnobValue) -> Result<(), String>,
}

/// One field of the settings.
macro_rules! field {
    ($($field:ident).+) => {
        Some($crate::knob::site::StackSite {
            get: |settings| $crate::knob::value::Value::show(&settings.$($field).+),
            set: |settings, value| {
                settings.$($field).+ = $crate::knob::value::Value::read(value)?;
                Ok(())
            },
        })
    };
}
pub(super) use field;

type Site = Option<StackSite>;

const fn site(
    get: fn(&SocketSettings) -> KnobValue,
    set: fn(&mut SocketSettings, &KnobValue) -> Result<(), String>,
) -> Site {
    Some(StackSite { get, set })
}

fn within(number: u64, range: RangeInclusive<u32>, unit: &str) -> Result<u32, String> {
    u32::try_from(number)
        .ok()
        .filter(|number| range.contains(number))
        .ok_or_else(|| {
            let (min, max) = (range.start(), range.end());
            format!("{number} is out of range; with these settings it is {min} to {max} {unit}")
        })
}

// Small writes.

pub(super) const NODELAY: Site = site(
    |s| (s.small_writes.nagle == Nagle::Off).show(),
    |s, value| {
        match (bool::read(value)?, s.small_writes.nagle) {
            (true, _) => s.small_writes.nagle = Nagle::Off,
            (false, Nagle::Off) => s.small_writes.nagle = s.usual_nagle(),
            (false, Nagle::Rfc896 | Nagle::Minshall) => {}
        }
        Ok(())
    },
);

pub(super) const NOPUSH: Site = site(
    |s| (s.small_writes.push == Push::Never).show(),
    |s, value| {
        match (bool::read(value)?, s.small_writes.push) {
            (true, _) => s.small_writes.push = Push::Never,
            (false, Push::Never) => s.small_writes.push = Push::EachWrite,
            (false, Push::EachWrite | Push::BufferEmpty) => {}
        }
        Ok(())
    },
);

/// The inverse of `route.quickack`.
pub(super) const DELAYED_ACK: Site = site(
    |s| (!s.acks.always_quick).show(),
    |s, value| {
        s.acks.always_quick = !bool::read(value)?;
        Ok(())
    },
);

// Acknowledgments. Who moves the delay or its lower bound moves the others along. The longest wait
// does not move a delay that follows the pace of data, as in Linux (`tcp_delack_max`).

pub(super) const ACK_DELAY: Site = site(
    |s| s.acks.delay.show(),
    |s, value| {
        let Acks {
            delay,
            follows_pace,
            delay_min,
            delay_max,
            ..
        } = &mut s.acks;
        *delay = Duration::read(value)?;
        (*delay_min, *delay_max) = match follows_pace {
            true => (*delay_min.min(delay), *delay_max.max(delay)),
            false => (*delay, *delay),
        };
        Ok(())
    },
);

pub(super) const ACK_DELAY_MIN: Site = site(
    |s| s.acks.delay_min.show(),
    |s, value| {
        s.acks.delay_min = Duration::read(value)?;
        s.acks.delay = s.acks.delay.max(s.acks.delay_min);
        s.acks.delay_max = s.acks.delay_max.max(s.acks.delay_min);
        Ok(())
    },
);

pub(super) const DELACK_MAX: Site = site(
    |s| s.acks.delay_max.show(),
    |s, value| {
        let Acks {
            delay,
            follows_pace,
            delay_min,
            delay_max,
            ..
        } = &mut s.acks;
        *delay_max = Duration::read(value)?;
        if !*follows_pace {
            *delay = *delay.min(delay_max);
            *delay_min = *delay_min.min(delay_max);
        }
        Ok(())
    },
);

const SEGMENTS: &str = "segments";
const PACKETS: &str = "packets";
/// Units of [`ACK_COUNTS`].
pub(super) const ACK_UNITS: &[&str] = &[SEGMENTS, PACKETS];

pub(super) const ACK_EVERY: Site = site(
    |s| match s.acks.every {
        AckEvery::MoreThanSegments(segments) => segments.show(),
        AckEvery::Packets(packets) => packets.show(),
    },
    |s, value| {
        match &mut s.acks.every {
            AckEvery::MoreThanSegments(segments) => *segments = u32::read(value)?,
            AckEvery::Packets(packets) => *packets = u32::read(value)?.max(1),
        }
        Ok(())
    },
);

/// The number keeps its meaning: more than one segment is every second packet.
pub(super) const ACK_COUNTS: Site = site(
    |s| {
        let name = match s.acks.every {
            AckEvery::MoreThanSegments(_) => SEGMENTS,
            AckEvery::Packets(_) => PACKETS,
        };
        KnobValue::Name(name.into())
    },
    |s, value| {
        s.acks.every = match (name_of(value)?, s.acks.every) {
            (PACKETS, AckEvery::MoreThanSegments(segments)) => {
                AckEvery::Packets(segments.saturating_add(1))
            }
            (SEGMENTS, AckEvery::Packets(packets)) => {
                AckEvery::MoreThanSegments(packets.saturating_sub(1))
            }
            (_, every) => every,
        };
        Ok(())
    },
);

/// Linux's values (rule 8.3.3), where compression is turned on.
const COMPRESSION: SackCompression = SackCompression {
    delay_max: Duration::from_millis(1),
    rtt_percent: 5,
    count_max: 44,
};

/// One value of [`SackCompression`], which `none` turns off.
macro_rules! compression {
    ($field:ident) => {
        site(
            |s| s.acks.compress.map(|compress| compress.$field).show(),
            |s, value| {
                s.acks.compress = match Option::read(value)? {
                    Some($field) => Some(SackCompression {
                        $field,
                        ..s.acks.compress.unwrap_or(COMPRESSION)
                    }),
                    None => None,
                };
                Ok(())
            },
        )
    };
}
pub(super) const COMPRESS_DELAY: Site = compression!(delay_max);
pub(super) const COMPRESS_PERCENT: Site = compression!(rtt_percent);
pub(super) const COMPRESS_COUNT: Site = compression!(count_max);

// Buffers.

fn triple(buffer: &BufferSize) -> KnobValue {
    let parts = [buffer.min, buffer.initial, buffer.max];
    KnobValue::Triple(parts.map(u64::from))
}

fn set_triple(buffer: &mut BufferSize, value: &KnobValue) -> Result<(), String> {
    let KnobValue::Triple(parts) = value else {
        return Err(format!("`{value}` is not three sizes"));
    };
    for (part, bytes) in [&mut buffer.min, &mut buffer.initial, &mut buffer.max]
        .into_iter()
        .zip(parts)
    {
        *part = u32::read(&KnobValue::Number(*bytes))?;
    }
    Ok(())
}

/// Moves the least and the largest size along.
fn set_initial(buffer: &mut BufferSize, value: &KnobValue) -> Result<(), String> {
    buffer.initial = u32::read(value)?;
    buffer.min = buffer.min.min(buffer.initial);
    buffer.max = buffer.max.max(buffer.initial);
    Ok(())
}

/// Moves the initial and the least size along, and the bound of requests where both were one.
fn set_max(buffer: &mut BufferSize, value: &KnobValue) -> Result<(), String> {
    let before = core::mem::replace(&mut buffer.max, u32::read(value)?);
    if buffer.request_max == before {
        buffer.request_max = buffer.max;
    }
    buffer.initial = buffer.initial.min(buffer.max);
    buffer.min = buffer.min.min(buffer.initial);
    Ok(())
}

/// Size granted to an application that requests `asked` bytes. Linux (`sock_setsockopt`, rule 5.3)
/// limits the request, doubles it, and grants at least `floor`; the others reject values out of
/// range, and stacks that count buffers round down to whole ones.
fn granted(
    buffer: &BufferSize,
    accounting: Accounting,
    is_linux: bool,
    floor: u32,
    asked: &KnobValue,
) -> Result<Option<u32>, String> {
    if is_none(asked) {
        return Ok(None);
    }
    let asked = number_of(asked)?;
    if is_linux {
        let allowed = asked.min(buffer.request_max.into()) as u32;
        return Ok(Some(allowed.saturating_mul(2).max(floor)));
    }
    let bytes = within(asked, buffer.min..=buffer.request_max, "bytes")?;
    Ok(Some(match accounting {
        Accounting::Buffers { payload_bytes } => bytes - bytes % payload_bytes.max(1),
        Accounting::Payload | Accounting::Truesize { .. } => bytes,
    }))
}

/// The size that the application requested: half of what Linux stores.
fn asked(fixed: Option<u32>, is_linux: bool) -> KnobValue {
    fixed
        .map(|bytes| if is_linux { bytes / 2 } else { bytes })
        .show()
}

/// `SOCK_MIN_SNDBUF` and `SOCK_MIN_RCVBUF` as rule 5.3 gives them.
const LINUX_SNDBUF_MIN: u32 = 4608;
const LINUX_RCVBUF_MIN: u32 = 2304;

fn sends_as_linux(s: &SocketSettings) -> bool {
    s.send.completion == Completion::Linux
}

const fn receives_as_linux(s: &SocketSettings) -> bool {
    matches!(s.recv.accounting, Accounting::Truesize { .. })
}

pub(super) const SNDBUF: Site = site(
    |s| asked(s.send.buffer.fixed, sends_as_linux(s)),
    |s, value| {
        let (buffer, accounting) = (&s.send.buffer, s.send.accounting);
        let is_linux = sends_as_linux(s);
        s.send.buffer.fixed = granted(buffer, accounting, is_linux, LINUX_SNDBUF_MIN, value)?;
        Ok(())
    },
);

pub(super) const RCVBUF: Site = site(
    |s| asked(s.recv.buffer.fixed, receives_as_linux(s)),
    |s, value| {
        let (buffer, accounting) = (&s.recv.buffer, s.recv.accounting);
        let is_linux = receives_as_linux(s);
        s.recv.buffer.fixed = granted(buffer, accounting, is_linux, LINUX_RCVBUF_MIN, value)?;
        Ok(())
    },
);

/// Locking here fixes the initial size: the present one is not a setting.
pub(super) const BUF_LOCK: Site = site(
    |s| {
        let send = u32::from(s.send.buffer.fixed.is_some());
        let recv = u32::from(s.recv.buffer.fixed.is_some());
        (send | recv << 1).show()
    },
    |s, value| {
        let bits = number_of(value)?;
        for (buffer, bit) in [(&mut s.send.buffer, 1), (&mut s.recv.buffer, 2)] {
            let fixed = buffer.fixed.unwrap_or(buffer.initial);
            buffer.fixed = (bits & bit != 0).then_some(fixed);
        }
        Ok(())
    },
);

/// Linux writes "no limit" as 4294967295.
pub(super) const NOTSENT_LOWAT: Site = site(
    |s| s.send.notsent_lowat.unwrap_or(u32::MAX).show(),
    |s, value| {
        s.send.notsent_lowat = Some(u32::read(value)?).filter(|bytes| *bytes != u32::MAX);
        Ok(())
    },
);

/// Payload of one packet buffer for settings that are not in units of buffers: the MSS of Ethernet.
const ETHERNET_PAYLOAD: u32 = 1460;

const fn payload_of(accounting: Accounting) -> u32 {
    match accounting {
        Accounting::Buffers { payload_bytes } if payload_bytes > 0 => payload_bytes,
        _ => ETHERNET_PAYLOAD,
    }
}

fn in_buffers(bytes: Option<u32>, accounting: Accounting) -> KnobValue {
    bytes.map(|bytes| bytes / payload_of(accounting)).show()
}

/// `value` buffers in bytes, within what the buffer's range allows (NB15: 5 to 43).
fn from_buffers(
    buffer: &BufferSize,
    accounting: Accounting,
    value: &KnobValue,
) -> Result<Option<u32>, String> {
    if is_none(value) {
        return Ok(None);
    }
    let payload = payload_of(accounting);
    let range = buffer.min.div_ceil(payload)..=buffer.request_max / payload;
    Ok(Some(within(number_of(value)?, range, "buffers")? * payload))
}

pub(super) const TX_BUFFERS: Site = site(
    |s| in_buffers(s.send.buffer.fixed, s.send.accounting),
    |s, value| {
        s.send.buffer.fixed = from_buffers(&s.send.buffer, s.send.accounting, value)?;
        Ok(())
    },
);

pub(super) const RX_BUFFERS: Site = site(
    |s| in_buffers(s.recv.buffer.fixed, s.recv.accounting),
    |s, value| {
        s.recv.buffer.fixed = from_buffers(&s.recv.buffer, s.recv.accounting, value)?;
        Ok(())
    },
);

pub(super) const UNACK_BUFFERS: Site = site(
    |s| in_buffers(s.send.unacked_budget, s.send.accounting),
    |s, value| {
        s.send.unacked_budget = from_buffers(&s.send.buffer, s.send.accounting, value)?;
        Ok(())
    },
);

/// Unlike the others it may be 0.
pub(super) const OUT_OF_ORDER_BUFFERS: Site = site(
    |s| in_buffers(s.recv.out_of_order_budget, s.recv.accounting),
    |s, value| {
        let payload = payload_of(s.recv.accounting);
        s.recv.out_of_order_budget =
            Option::<u32>::read(value)?.map(|buffers| buffers.saturating_mul(payload));
        Ok(())
    },
);

/// Names of the rules that [`rule_of`] and [`rule_named`] translate.
pub(super) const SIZE_RULES: &[&str] = &[
    "fixed",
    "linux_6_12",
    "linux_6_16",
    "linux_6_18",
    "linux_6_19",
    "freebsd_2006",
    "freebsd_2017",
    "freebsd_14",
];

fn rule_of(rule: SizeRule) -> KnobValue {
    let name = match rule {
        SizeRule::Fixed => "fixed",
        SizeRule::Linux(LinuxVersion::V6_12) => "linux_6_12",
        SizeRule::Linux(LinuxVersion::V6_16) => "linux_6_16",
        SizeRule::Linux(LinuxVersion::V6_18) => "linux_6_18",
        SizeRule::Linux(LinuxVersion::V6_19) => "linux_6_19",
        SizeRule::FreeBsd2006 { .. } => "freebsd_2006",
        SizeRule::FreeBsd2017 { .. } => "freebsd_2017",
        SizeRule::FreeBsd14 { .. } => "freebsd_14",
    };
    KnobValue::Name(name.into())
}

/// `step` is for the rules that have one; a step that was set before stays.
fn rule_named(value: &KnobValue, present: SizeRule, step: u32) -> Result<SizeRule, String> {
    let step = step_of(present).unwrap_or(step);
    Ok(match name_of(value)? {
        "fixed" => SizeRule::Fixed,
        "linux_6_12" => SizeRule::Linux(LinuxVersion::V6_12),
        "linux_6_16" => SizeRule::Linux(LinuxVersion::V6_16),
        "linux_6_18" => SizeRule::Linux(LinuxVersion::V6_18),
        "linux_6_19" => SizeRule::Linux(LinuxVersion::V6_19),
        "freebsd_2006" => SizeRule::FreeBsd2006 { step },
        "freebsd_2017" => SizeRule::FreeBsd2017 { step },
        "freebsd_14" => SizeRule::FreeBsd14 { step },
        other => return Err(unknown_name(other, SIZE_RULES)),
    })
}

const fn step_of(rule: SizeRule) -> Option<u32> {
    match rule {
        SizeRule::FreeBsd2006 { step }
        | SizeRule::FreeBsd2017 { step }
        | SizeRule::FreeBsd14 { step } => Some(step),
        SizeRule::Fixed | SizeRule::Linux(_) => None,
    }
}

fn set_step(rule: &mut SizeRule, value: &KnobValue) -> Result<(), String> {
    match rule {
        SizeRule::FreeBsd2006 { step }
        | SizeRule::FreeBsd2017 { step }
        | SizeRule::FreeBsd14 { step } => {
            *step = u32::read(value)?;
            Ok(())
        }
        SizeRule::Fixed | SizeRule::Linux(_) => {
            Err("only FreeBSD's rules grow in steps; choose one of them first".into())
        }
    }
}

/// Turns automatic sizing on or off; the rule of a stack that had none is chosen by its accounting.
fn set_automatic(buffer: &mut BufferSize, accounting: Accounting, step: u32, on: bool) {
    buffer.rule = match (on, buffer.rule, accounting) {
        (false, ..) => SizeRule::Fixed,
        (true, SizeRule::Fixed, Accounting::Truesize { .. }) => {
            SizeRule::Linux(LinuxVersion::V6_18)
        }
        (true, SizeRule::Fixed, Accounting::Payload | Accounting::Buffers { .. }) => {
            SizeRule::FreeBsd14 { step }
        }
        (true, rule, _) => rule,
    };
}

/// FB4 and FB7: `sendbuf_inc`, `recvbuf_inc`.
const SEND_STEP: u32 = 8 << 10;
const RECV_STEP: u32 = 16 << 10;

/// Names of the ways of accounting, with the ratio of payload in 1/256 and the payload of one
/// buffer.
const ACCOUNTING_PAYLOAD: &str = "payload";
const ACCOUNTING_TRUESIZE: &str = "truesize";
const ACCOUNTING_BUFFERS: &str = "buffers";
pub(super) const ACCOUNTINGS: &[&str] =
    &[ACCOUNTING_PAYLOAD, ACCOUNTING_TRUESIZE, ACCOUNTING_BUFFERS];

fn accounting_of(accounting: Accounting) -> KnobValue {
    let name = match accounting {
        Accounting::Payload => ACCOUNTING_PAYLOAD,
        Accounting::Truesize { .. } => ACCOUNTING_TRUESIZE,
        Accounting::Buffers { .. } => ACCOUNTING_BUFFERS,
    };
    KnobValue::Name(name.into())
}

fn set_accounting(accounting: &mut Accounting, value: &KnobValue) -> Result<(), String> {
    *accounting = match (name_of(value)?, *accounting) {
        (ACCOUNTING_PAYLOAD, _) => Accounting::Payload,
        (ACCOUNTING_TRUESIZE, Accounting::Truesize { ratio }) => Accounting::Truesize { ratio },
        (ACCOUNTING_TRUESIZE, _) => Accounting::Truesize { ratio: None },
        (ACCOUNTING_BUFFERS, present) => Accounting::Buffers {
            payload_bytes: payload_of(present),
        },
        (other, _) => return Err(unknown_name(other, ACCOUNTINGS)),
    };
    Ok(())
}

fn ratio_of(accounting: Accounting) -> KnobValue {
    match accounting {
        Accounting::Truesize { ratio } => ratio.show(),
        Accounting::Payload | Accounting::Buffers { .. } => KnobValue::Name(NONE.into()),
    }
}

fn set_ratio(accounting: &mut Accounting, value: &KnobValue) -> Result<(), String> {
    match accounting {
        Accounting::Truesize { ratio } => *ratio = Option::read(value)?,
        _ if is_none(value) => {}
        _ => return Err("only the accounting `truesize` has a ratio; choose it first".into()),
    }
    Ok(())
}

fn buffer_payload_of(accounting: Accounting) -> KnobValue {
    match accounting {
        Accounting::Buffers { payload_bytes } => payload_bytes.show(),
        Accounting::Payload | Accounting::Truesize { .. } => KnobValue::Name(NONE.into()),
    }
}

fn set_buffer_payload(accounting: &mut Accounting, value: &KnobValue) -> Result<(), String> {
    match accounting {
        Accounting::Buffers { payload_bytes } => *payload_bytes = u32::read(value)?,
        _ => return Err("only the accounting `buffers` has such a size; choose it first".into()),
    }
    Ok(())
}

/// The sites of one direction's memory.
macro_rules! memory {
    ($side:ident, $step:expr, $triple:ident $initial:ident $max:ident $rule:ident $step_site:ident
     $auto:ident $accounting:ident $ratio:ident $payload:ident) => {
        pub(super) const $triple: Site = site(
            |s| triple(&s.$side.buffer),
            |s, value| set_triple(&mut s.$side.buffer, value),
        );
        pub(super) const $initial: Site = site(
            |s| s.$side.buffer.initial.show(),
            |s, value| set_initial(&mut s.$side.buffer, value),
        );
        pub(super) const $max: Site = site(
            |s| s.$side.buffer.max.show(),
            |s, value| set_max(&mut s.$side.buffer, value),
        );
        pub(super) const $rule: Site = site(
            |s| rule_of(s.$side.buffer.rule),
            |s, value| {
                s.$side.buffer.rule = rule_named(value, s.$side.buffer.rule, $step)?;
                Ok(())
            },
        );
        pub(super) const $step_site: Site = site(
            |s| step_of(s.$side.buffer.rule).show(),
            |s, value| set_step(&mut s.$side.buffer.rule, value),
        );
        pub(super) const $auto: Site = site(
            |s| (s.$side.buffer.rule != SizeRule::Fixed).show(),
            |s, value| {
                let (on, accounting) = (bool::read(value)?, s.$side.accounting);
                set_automatic(&mut s.$side.buffer, accounting, $step, on);
                Ok(())
            },
        );
        pub(super) const $accounting: Site = site(
            |s| accounting_of(s.$side.accounting),
            |s, value| set_accounting(&mut s.$side.accounting, value),
        );
        pub(super) const $ratio: Site = site(
            |s| ratio_of(s.$side.accounting),
            |s, value| set_ratio(&mut s.$side.accounting, value),
        );
        pub(super) const $payload: Site = site(
            |s| buffer_payload_of(s.$side.accounting),
            |s, value| set_buffer_payload(&mut s.$side.accounting, value),
        );
    };
}
memory!(send, SEND_STEP, WMEM SEND_INITIAL SEND_MAX SEND_RULE SEND_STEP_SITE
        SNDBUF_AUTO SEND_ACCOUNTING SEND_RATIO SEND_PAYLOAD);
memory!(recv, RECV_STEP, RMEM RECV_INITIAL RECV_MAX RECV_RULE RECV_STEP_SITE
        RCVBUF_AUTO RECV_ACCOUNTING RECV_RATIO RECV_PAYLOAD);

// Handshake, recovery, congestion control, path.

/// Linux tells 1 (with a random offset) from 2 (without); our stack always adds one.
pub(super) const TIMESTAMPS: Site = site(
    |s| u32::from(s.options.timestamps).show(),
    |s, value| {
        s.options.timestamps = number_of(value)? != 0;
        Ok(())
    },
);

pub(super) const RTO_MIN: Site = site(
    |s| s.recovery.rto_min.show(),
    |s, value| {
        s.recovery.rto_min = Duration::read(value)?;
        s.recovery.rto_max = s.recovery.rto_max.max(s.recovery.rto_min);
        Ok(())
    },
);

pub(super) const RTO_MAX: Site = site(
    |s| s.recovery.rto_max.show(),
    |s, value| {
        s.recovery.rto_max = Duration::read(value)?;
        s.recovery.rto_min = s.recovery.rto_min.min(s.recovery.rto_max);
        Ok(())
    },
);

/// In Linux the same sysctl says whether an unused window shrinks (rule 12.7), which is a part of
/// `Validation::Linux`: that it does not grow is not switched off.
pub(super) const AFTER_IDLE: Site = site(
    |s| s.congestion.slow_start_after_idle.show(),
    |s, value| {
        s.congestion.slow_start_after_idle = bool::read(value)?;
        Ok(())
    },
);

pub(super) const MTU_PROBING: Site = site(
    |s| {
        let number: u32 = match s.path.mtu_probing {
            MtuProbing::Off => 0,
            MtuProbing::BlackHole => 1,
            MtuProbing::Always => 2,
        };
        number.show()
    },
    |s, value| {
        s.path.mtu_probing = match number_of(value)? {
            0 => MtuProbing::Off,
            1 => MtuProbing::BlackHole,
            _ => MtuProbing::Always,
        };
        Ok(())
    },
);

/// The names of a choice, for the tables.
pub(super) const fn names<C: Choice>() -> &'static [&'static str] {
    C::NAMES
}
