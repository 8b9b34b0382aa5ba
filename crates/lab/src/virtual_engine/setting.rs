//! What a knob of any scope means to a host with our stack.

use core::time::Duration;

use base::settings::{BufferSize, CongestionName, MtuProbing, Nagle, SizeRule};
use base::{Bytes, KnobValue};

use super::Machine;

/// Sets one knob.
///
/// # Errors
/// Why it has no meaning here.
// tidy: long because it is a table.
pub(super) fn apply(machine: &mut Machine, knob: &str, value: &KnobValue) -> Result<(), String> {
    let settings = &mut machine.profile.settings;
    match (knob, value) {
        ("nodelay", KnobValue::Flag(on)) => {
            settings.small_writes.nagle = if *on { Nagle::Off } else { Nagle::Minshall };
        }
        ("cork", KnobValue::Flag(on)) => machine.corks = *on,
        ("quickack", KnobValue::Flag(on)) => machine.quickack = Some(*on),
        ("congestion" | "route.congctl", KnobValue::Name(name)) => {
            settings.congestion.name = congestion(name)?;
        }
        ("sndbuf", KnobValue::Number(bytes)) => settings.send.buffer.fixed = Some(clamp(*bytes)),
        ("rcvbuf", KnobValue::Number(bytes)) => settings.recv.buffer.fixed = Some(clamp(*bytes)),
        ("notsent_lowat", KnobValue::Number(bytes)) => {
            settings.send.notsent_lowat = Some(clamp(*bytes));
        }
        ("delack_max", KnobValue::Number(micros)) => {
            settings.acks.delay_max = Duration::from_micros(*micros);
        }
        ("route.quickack", KnobValue::Flag(on)) => settings.acks.always_quick = *on,
        ("route.initcwnd", KnobValue::Number(segments)) => {
            settings.congestion.initial_window = clamp(*segments);
        }
        ("route.initrwnd", KnobValue::Number(segments)) => {
            settings.options.initial_window_segments = Some(clamp(*segments));
        }
        ("route.rto_min", KnobValue::Number(micros)) => {
            settings.recovery.rto_min = Duration::from_micros(*micros);
        }
        ("mss" | "route.advmss", KnobValue::Number(bytes)) => {
            settings.options.mss = Some(u16::try_from(*bytes).unwrap_or(u16::MAX));
        }
        ("link.mtu" | "route.mtu", KnobValue::Number(bytes)) => machine.mtu = Bytes(*bytes),
        ("link.txqueuelen", KnobValue::Number(packets)) => {
            machine.profile.system.txqueuelen = clamp(*packets);
        }
        ("net.ipv4.tcp_rmem", KnobValue::Triple(sizes)) => {
            triple(&mut settings.recv.buffer, *sizes)
        }
        ("net.ipv4.tcp_wmem", KnobValue::Triple(sizes)) => {
            triple(&mut settings.send.buffer, *sizes)
        }
        ("net.ipv4.tcp_window_scaling", KnobValue::Flag(on)) => {
            settings.options.window_scaling = *on;
        }
        ("net.ipv4.tcp_sack", KnobValue::Flag(on)) => settings.options.sack = *on,
        ("net.ipv4.tcp_timestamps", KnobValue::Number(mode)) => {
            settings.options.timestamps = *mode > 0;
        }
        ("net.ipv4.tcp_slow_start_after_idle", KnobValue::Flag(on)) => {
            settings.congestion.slow_start_after_idle = *on;
        }
        ("net.ipv4.tcp_mtu_probing", KnobValue::Number(mode)) => {
            settings.path.mtu_probing = match mode {
                0 => MtuProbing::Off,
                1 => MtuProbing::BlackHole,
                _ => MtuProbing::Always,
            };
        }
        ("net.ipv4.tcp_moderate_rcvbuf", KnobValue::Flag(false)) => {
            settings.recv.buffer.rule = SizeRule::Fixed;
        }
        ("net.ipv4.tcp_moderate_rcvbuf", KnobValue::Flag(true)) => {}
        ("net.ipv4.tcp_autocorking", KnobValue::Flag(on)) => settings.small_writes.autocork = *on,
        // No connection here knows of an earlier one.
        ("net.ipv4.tcp_no_metrics_save", _) => {}
        _ => return Err("this engine has no such setting".into()),
    }
    Ok(())
}

fn congestion(name: &str) -> Result<CongestionName, String> {
    match name {
        "reno" => Ok(CongestionName::NewReno),
        "cubic" => Ok(CongestionName::Cubic),
        "bbr" => Ok(CongestionName::Bbr),
        _ => Err(format!("this engine has no congestion control `{name}`")),
    }
}

fn triple(buffer: &mut BufferSize, [min, initial, max]: [u64; 3]) {
    (buffer.min, buffer.initial, buffer.max) = (clamp(min), clamp(initial), clamp(max));
}

fn clamp(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
