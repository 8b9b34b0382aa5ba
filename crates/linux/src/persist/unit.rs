//! The unit of systemd that applies a plan at boot, as text.

use std::path::Path;

use super::{check_program, one_line};
use crate::error::{Error, Result};

/// Contents of a unit.
pub(super) struct Unit<'a> {
    /// Number of the transaction.
    pub(super) id: u64,
    /// Why, for people.
    pub(super) reason: &'a str,
    /// This program.
    pub(super) program: &'a Path,
    /// The plan to apply.
    pub(super) plan: &'a Path,
    /// Interfaces that have to be there first.
    pub(super) links: Vec<String>,
    /// Units that come first.
    pub(super) after: Vec<String>,
}

impl Unit<'_> {
    /// The text of systemd.unit(5). What configures interfaces and routes comes first: it would
    /// set them anew.
    pub(super) fn text(&self) -> Result<String> {
        let program = check_program(self.program)?;
        let devices = self.links.iter().map(|link| device_unit(link));
        let mut wants = vec!["network-online.target".to_owned()];
        wants.extend(devices);
        let wants = wants.join(" ");
        let earlier: String = self.after.iter().map(|unit| format!(" {unit}")).collect();
        let (id, plan) = (self.id, self.plan.display());
        let reason = one_line(self.reason);
        Ok(format!(
            "# Made by `tcptailor apply --persist` (transaction {id}): {reason}\n\
             # Remove with: tcptailor rollback {id}\n\
             [Unit]\n\
             Description=Routes, interfaces and queues set by tcptailor (transaction {id})\n\
             Wants={wants}\n\
             After={wants}{earlier}\n\
             ConditionPathExists={plan}\n\
             \n\
             [Service]\n\
             Type=oneshot\n\
             RemainAfterExit=yes\n\
             ExecStart={program} apply --at-boot {plan}\n\
             \n\
             [Install]\n\
             WantedBy=multi-user.target\n",
            program = program.display(),
        ))
    }
}

/// The unit of an interface: the escaped path of it in `/sys` (systemd.unit(5), "String escaping
/// for inclusion in unit names").
fn device_unit(link: &str) -> String {
    let mut name = "sys-subsystem-net-devices-".to_owned();
    for byte in link.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b':' | b'_' | b'.' => {
                name.push(char::from(byte));
            }
            other => name.push_str(&format!("\\x{other:02x}")),
        }
    }
    name + ".device"
}

/// Refuses what would mean something else in a unit: systemd.service(5) gives a meaning to spaces,
/// quotes, `%`, `$` and backslashes.
pub(super) fn check_plain(what: &str, path: &Path) -> Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@:,=".contains(c);
    let is_plain = path.to_str().is_some_and(|text| text.chars().all(plain));
    if is_plain && path.is_absolute() {
        return Ok(());
    }
    Err(Error::Refused {
        what: format!("{what}, {}", path.display()),
        reason: "for a unit of systemd it has to be an absolute path of letters, digits and the \
                 signs ._-+@:,= alone"
            .into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_interfaces_are_escaped_as_systemd_does() {
        let check = |link: &str, expected: &str| {
            let unit = device_unit(link);
            assert_eq!(unit, format!("sys-subsystem-net-devices-{expected}.device"));
            let Some(mut witness) = crate::asking::witness("systemd-escape") else {
                return;
            };
            let path = format!("/sys/subsystem/net/devices/{link}");
            let output = witness.args(["--path", "--suffix=device", &path]).output();
            let theirs = String::from_utf8(output.unwrap().stdout).unwrap();
            assert_eq!(unit, theirs.trim_end());
        };
        check("eth0", "eth0");
        check("eth0.5", "eth0.5");
        check("br-lan", r"br\x2dlan");
        check("a%b$c", r"a\x25b\x24c");
        check("veth@7", r"veth\x407");
    }

    #[test]
    fn a_path_that_a_unit_would_read_otherwise_is_refused() {
        let check = |path: &str, expected: bool| {
            let plain = check_plain("it", Path::new(path));
            assert_eq!(plain.is_ok(), expected, "{path}");
        };
        check("/usr/local/bin/tcptailor-1.2", true);
        check("bin/tcptailor", false);
        check("/opt/my tools/tcptailor", false);
        check("/opt/%h/tcptailor", false);
        check("/opt/$HOME/tcptailor", false);
        check("/opt/a\nExecStart=/bin/sh", false);
        check("/opt/\"x", false);
    }
}
