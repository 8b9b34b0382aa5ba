//! Turns findings into settings for `run --set`, and into code for the program.

use base::knob::LinuxSite;
use base::{Knob, KnobValue, Limit, Scope, find_knob};
use doctor::Side;
use linux::supervise::SocketSetting;

use crate::commands::diagnose::document::{ChangeRow, Document, VerdictRow};

/// Bits of `buf_lock`.
const LOCK_SEND: u64 = 1;
const LOCK_RECEIVE: u64 = 2;

/// The settings of the program's own sockets that fix its main findings, the most important first;
/// of one knob only one value.
pub(super) fn suggested(document: &Document) -> Vec<SocketSetting> {
    let mut settings: Vec<SocketSetting> = Vec::new();
    let mains = document.flows.iter().filter_map(|flow| flow.main());
    for verdict in mains.filter(|verdict| verdict.finding && verdict.act) {
        for setting in of_finding(verdict) {
            if settings.iter().all(|known| known.knob() != setting.knob()) {
                settings.push(setting);
            }
        }
    }
    settings
}

/// Settings that a finding proposes.
pub(super) fn of_finding(verdict: &VerdictRow) -> Vec<SocketSetting> {
    let changes = verdict.change.iter().chain(&verdict.alternatives);
    let here = changes.filter(|change| (change.side, change.scope) == (Side::Local, Scope::Socket));
    here.filter_map(|change| of_change(change, verdict.limit))
        .collect()
}

fn of_change(change: &ChangeRow, limit: Option<Limit>) -> Option<SocketSetting> {
    let KnobValue::Number(bits) = change.to else {
        return SocketSetting::new(find_knob(change.knob).ok()?, change.to.clone()).ok();
    };
    if change.knob != "buf_lock" {
        return SocketSetting::new(find_knob(change.knob).ok()?, change.to.clone()).ok();
    }
    // Once a lock is open the program may close it again: that is what `auto` prevents.
    let buffer = match limit {
        Some(Limit::PeerWindow) if bits & LOCK_RECEIVE == 0 => "rcvbuf",
        _ if bits & LOCK_SEND == 0 => "sndbuf",
        _ => "rcvbuf",
    };
    SocketSetting::automatic(buffer)
}

/// Code for the program's author.
pub(super) fn in_the_program(setting: &SocketSetting) -> String {
    let knob = find_knob(setting.knob()).ok();
    let symbol = knob.and_then(symbol);
    match (setting.value(), symbol) {
        (None, Some((_, symbol))) => format!("in the program: do not set {symbol}"),
        (Some(value), Some((level, symbol))) => {
            let value = match value {
                KnobValue::Flag(on) => u8::from(*on).to_string(),
                other => other.to_string(),
            };
            format!("in the program: setsockopt(fd, {level}, {symbol}) with {value}")
        }
        (_, None) => String::new(),
    }
}

fn symbol(knob: &Knob) -> Option<(&'static str, &'static str)> {
    const SOL_SOCKET: i32 = 1;
    match knob.linux? {
        LinuxSite::SocketOption { level, symbol, .. } => {
            let level = match level {
                SOL_SOCKET => "SOL_SOCKET",
                _ => "IPPROTO_TCP",
            };
            Some((level, symbol))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(knob: &'static str, to: KnobValue) -> ChangeRow {
        ChangeRow {
            knob,
            to,
            to_text: String::new(),
            side: Side::Local,
            scope: Scope::Socket,
            takes_effect: base::Live::Now,
            risk: "",
            target: None,
            at: None,
            requires: None,
        }
    }

    #[test]
    fn a_change_of_a_socket_becomes_a_setting() {
        let check = |change: &ChangeRow, limit, expected: Option<&str>| {
            let setting = of_change(change, limit).map(|setting| setting.to_string());
            assert_eq!(setting.as_deref(), expected);
        };
        let nodelay = change("nodelay", KnobValue::Flag(true));
        check(&nodelay, Some(Limit::Nagle), Some("nodelay=on"));
        let unlock = |bits| change("buf_lock", KnobValue::Number(bits));
        check(&unlock(0), Some(Limit::SendBuffer), Some("sndbuf=auto"));
        check(&unlock(0), Some(Limit::PeerWindow), Some("rcvbuf=auto"));
        check(&unlock(2), Some(Limit::SendBuffer), Some("sndbuf=auto"));
        check(&unlock(1), None, Some("rcvbuf=auto"));
        let quickack = change("quickack", KnobValue::Flag(true));
        check(&quickack, None, None);
    }

    #[test]
    fn authors_learn_what_to_write() {
        let check = |text: &str, expected: &str| {
            let setting = text.parse().unwrap();
            assert_eq!(in_the_program(&setting), expected);
        };
        check(
            "nodelay=on",
            "in the program: setsockopt(fd, IPPROTO_TCP, TCP_NODELAY) with 1",
        );
        check("sndbuf=auto", "in the program: do not set SO_SNDBUF");
        check(
            "rcvbuf=64KiB",
            "in the program: setsockopt(fd, SOL_SOCKET, SO_RCVBUF) with 65536",
        );
    }
}
