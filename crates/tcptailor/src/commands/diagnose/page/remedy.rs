//! Commands to apply and to undo a change.

use base::knob::LinuxSite;
use base::{KnobValue, Live, Target, find_knob};
use doctor::Side;
use linux::Setting;

use super::Asked;
use crate::commands::diagnose::document::ChangeRow;

/// Both, as lines for a shell with remarks.
pub(crate) fn commands(change: &ChangeRow, asked: &Asked<'_>) -> String {
    let is_live = asked.file.is_none() && change.side == Side::Local;
    let here = change.target.as_ref().filter(|_| is_live);
    let exact = here.and_then(|target| exact(change, target));
    let mut lines = exact.unwrap_or_else(|| by_hand(change));
    let by_plan = here.is_some() && change.takes_effect == Live::Now && change.requires.is_none();
    if by_plan && is_socket(change) {
        let command = asked.command;
        lines.push("# on the open connection:".into());
        lines.push(format!(
            "{command} -o plan.json && tcptailor apply plan.json"
        ));
        lines.push("# undo it:".into());
        lines.push("tcptailor rollback".into());
    }
    lines.join("\n")
}

fn is_socket(change: &ChangeRow) -> bool {
    matches!(change.target, Some(Target::Socket { .. }))
}

/// For a target on this machine that a shell can reach: with the value that there is now.
fn exact(change: &ChangeRow, target: &Target) -> Option<Vec<String>> {
    if is_socket(change) {
        return None;
    }
    let setting = Setting::open(target, change.knob).ok()?;
    let old = setting.read().ok()?;
    let command = setting.shell_command(target, &change.to).ok()?;
    let undo = old.value();
    let undo = undo.and_then(|value| setting.shell_command(target, &value).ok());
    let undo = undo.unwrap_or_else(|| format!("# it was: {old}"));
    Some(vec![command, "# undo it:".into(), undo])
}

/// Without knowing the target: on another host, or of a file.
fn by_hand(change: &ChangeRow) -> Vec<String> {
    let value = match &change.to {
        KnobValue::Flag(on) => u8::from(*on).to_string(),
        other => other.to_string(),
    };
    let place = match (change.at, change.side) {
        (Some(at), _) => format!("# at {at}"),
        (None, Side::Local) => "# on this host".into(),
        (None, Side::Remote) => "# on the host at the other end".into(),
    };
    let lines = match find_knob(change.knob).ok().and_then(|knob| knob.linux) {
        Some(LinuxSite::Sysctl { name }) => [
            format!("sysctl {name}   # note this value"),
            format!("sysctl -w '{name}={value}'"),
            "# undo it:".into(),
            format!("sysctl -w '{name}=NOTED VALUE'"),
        ],
        Some(LinuxSite::RouteMetric { name, .. }) => [
            "ip route show   # note the line of this destination".into(),
            format!("ip route replace NOTED LINE {name} {value}"),
            "# undo it:".into(),
            "ip route replace NOTED LINE".into(),
        ],
        Some(LinuxSite::LinkMtu) => interface("mtu", &value),
        Some(LinuxSite::LinkTxqueuelen) => interface("txqueuelen", &value),
        Some(LinuxSite::QdiscLimit) => [
            "tc qdisc show dev DEVICE   # note this line".into(),
            format!("tc qdisc change dev DEVICE root NOTED KIND limit {value}"),
            "# undo it:".into(),
            "tc qdisc change dev DEVICE root NOTED KIND limit NOTED LIMIT".into(),
        ],
        Some(LinuxSite::SocketOption { level, symbol, .. }) => {
            let level = if level == SOL_SOCKET {
                "SOL_SOCKET"
            } else {
                "IPPROTO_TCP"
            };
            let shown = &change.to_text;
            [
                "# in the program, after socket() or accept():".into(),
                format!("setsockopt(fd, {level}, {symbol}, ...)   # {shown}"),
                "# undo it:".into(),
                "# without that line; new connections begin as before".into(),
            ]
        }
        None => [
            format!("# {} = {}", change.knob, change.to_text),
            "# it is a setting of tcptailor's own stack".into(),
            "# undo it:".into(),
            "# its old value".into(),
        ],
    };
    [place].into_iter().chain(lines).collect()
}

const SOL_SOCKET: i32 = 1;

fn interface(setting: &str, value: &str) -> [String; 4] {
    [
        format!("ip link show dev DEVICE   # note its {setting}"),
        format!("ip link set dev DEVICE {setting} {value}"),
        "# undo it:".into(),
        format!("ip link set dev DEVICE {setting} NOTED VALUE"),
    ]
}
