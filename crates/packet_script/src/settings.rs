//! The settings that a script may use, and what they are in our stack.

use base::find_knob;
use base::knob::Kind;
use base::settings::SocketSettings;

use super::model::{Setting, SettingValue};

/// Names of settings of a socket, by which both engines know them.
const NAMES: &[&str] = &[
    "congestion",
    "cork",
    "defer_accept",
    "delack_max",
    "keepalive",
    "keepalive_interval",
    "keepalive_probes",
    "linger",
    "max_pacing_rate",
    "mss",
    "nodelay",
    "notsent_lowat",
    "quickack",
    "rcvbuf",
    "rcvlowat",
    "rto_max",
    "rto_min",
    "sndbuf",
    "syn_retries",
    "thin_linear",
    "user_timeout",
    "urgent_inline",
    "window_clamp",
];

/// Explains an unknown name of a setting; `None` for valid ones.
#[must_use]
pub fn unknown_setting(name: &str) -> Option<String> {
    let known = NAMES.contains(&name);
    (!known).then(|| {
        format!(
            "there is no setting `{name}`; there are {}",
            NAMES.join(", ")
        )
    })
}

/// Sets a setting of a script on our stack.
pub(super) fn apply(settings: &mut SocketSettings, setting: &Setting) -> Result<(), String> {
    let name = match setting.name.as_str() {
        "max_pacing_rate" => {
            // In bytes per second, as Linux takes it.
            let rate = format!("{}bit", 8 * number(&setting.value));
            return set(settings, "pacing_rate_max", &rate);
        }
        "rto_min" => "route.rto_min",
        // `TCP_SYNCNT` is of SYNs and of a listener's SYN-ACKs.
        "syn_retries" => {
            let count = number(&setting.value).to_string();
            set(settings, "synack_retries", &count)?;
            "syn_retries"
        }
        name => name,
    };
    let knob = find_knob(name).map_err(|error| error.to_string())?;
    let text = match (&setting.value, knob.kind) {
        (SettingValue::Number(number), Kind::Flag) => flag(*number).into(),
        (SettingValue::Number(number), _) => number.to_string(),
        (SettingValue::Time(time), _) => format!("{}us", time.as_micros()),
        (SettingValue::Name(name), _) => name.clone(),
    };
    set(settings, name, &text)
}

/// Sets a sysctl of a script on our stack.
pub(super) fn apply_sysctl(
    settings: &mut SocketSettings,
    name: &str,
    value: &str,
) -> Result<(), String> {
    let seconds = || format!("{value}s");
    let (knob, text) = match name {
        "tcp_dsack" => ("dsack", flag_of(value)),
        "tcp_early_retrans" => ("tail_loss_probe", flag_of(value)),
        "tcp_ecn" => {
            let names = ["off", "request", "accept"];
            let index: usize = value.parse().unwrap_or(2);
            ("ecn", (*names.get(index).unwrap_or(&"accept")).to_owned())
        }
        "tcp_frto" => ("frto", flag_of(value)),
        "tcp_reordering" => ("dupack_threshold", value.to_owned()),
        "tcp_tso_win_divisor" => ("tso_win_divisor", value.to_owned()),
        "tcp_fin_timeout" => ("fin_timeout", seconds()),
        "tcp_retries2" => ("retries", value.to_owned()),
        "tcp_syn_retries" => ("syn_retries", value.to_owned()),
        "tcp_syn_linear_timeouts" => ("syn_linear_timeouts", value.to_owned()),
        "tcp_synack_retries" => ("synack_retries", value.to_owned()),
        // Linux 6.18 finds losses by RACK whatever it says.
        "tcp_recovery" => return Ok(()),
        _ => {
            let name = format!("net.ipv4.{name}");
            let kind = find_knob(&name).map_err(|error| error.to_string())?.kind;
            let text = match kind {
                Kind::Flag => flag_of(value),
                _ => value.to_owned(),
            };
            return set(settings, &name, &text);
        }
    };
    set(settings, knob, &text)
}

/// Sets an attribute of the route on the connections of our stack.
pub(super) fn apply_route(
    settings: &mut SocketSettings,
    name: &str,
    value: &str,
) -> Result<(), String> {
    match name {
        "window" => set(settings, "window_clamp", value),
        "quickack" => set(settings, "route.quickack", &flag_of(value)),
        _ => set(settings, &format!("route.{name}"), value),
    }
}

fn set(settings: &mut SocketSettings, name: &str, text: &str) -> Result<(), String> {
    let knob = find_knob(name).map_err(|error| error.to_string())?;
    let value = knob.parse(text).map_err(|error| error.to_string())?;
    knob.set(settings, &value)
        .map_err(|error| error.to_string())
}

/// The number of a setting that has one.
pub(super) const fn number(value: &SettingValue) -> u64 {
    match value {
        SettingValue::Number(number) => *number,
        SettingValue::Time(_) | SettingValue::Name(_) => 0,
    }
}

const fn flag(number: u64) -> &'static str {
    if number == 0 { "off" } else { "on" }
}

fn flag_of(value: &str) -> String {
    flag(u64::from(value != "0")).to_owned()
}
