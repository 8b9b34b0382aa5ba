//! What a knob of any scope means to a host with our stack.

use base::{Bytes, KnobValue, Scope, find_knob};

use super::Machine;

/// Whether a knob acts on more than single sockets.
pub(super) fn is_wide(knob: &str) -> bool {
    find_knob(knob).is_ok_and(|knob| knob.scope != Scope::Socket)
}

/// Sets one knob.
///
/// # Errors
/// Why it has no meaning here.
pub(super) fn apply(machine: &mut Machine, knob: &str, value: &KnobValue) -> Result<(), String> {
    match (knob, value) {
        // Accepted connections do not inherit it.
        ("cork", KnobValue::Flag(on)) => machine.corks = *on,
        // The kernel clears it by itself, so programs set it before each read.
        ("quickack", KnobValue::Flag(on)) => machine.quickack = Some(*on),
        ("link.mtu" | "route.mtu", KnobValue::Number(bytes)) => machine.mtu = Bytes(*bytes),
        ("link.txqueuelen", KnobValue::Number(packets)) => {
            machine.profile.system.txqueuelen = u32::try_from(*packets).unwrap_or(u32::MAX);
        }
        // No connection here knows of an earlier one.
        ("net.ipv4.tcp_no_metrics_save", _) => {}
        _ => {
            let settings = &mut machine.profile.settings;
            return find_knob(knob)
                .and_then(|knob| knob.set(settings, value))
                .map_err(|error| error.to_string());
        }
    }
    Ok(())
}
