//! Kernel parameters under `/proc/sys`. Those of the network belong to the namespace of the
//! thread that opens the file, so a caller that means another namespace runs inside
//! [`crate::NetnsHandle::run`].

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use crate::error::{Error, Result};

/// Reads a parameter by its dotted name, such as `net.ipv4.tcp_rmem`, in the namespace of the
/// calling thread. Runs of white space become one space: `4096 131072 6291456`.
///
/// # Errors
/// [`Error::NotFound`] if the name is not one of a parameter, [`Error::Unsupported`] where this
/// kernel (or this namespace) does not have it, [`Error::Permission`] if we may not read it.
pub fn read(name: &str) -> Result<String> {
    let text = fs::read_to_string(path_of(name)?).map_err(|e| explain(name, "reading", e))?;
    Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Writes a parameter by its dotted name in the namespace of the calling thread, in one `write`.
///
/// # Errors
/// As [`read`]; [`Error::Os`] where the kernel refuses the value.
pub fn write(name: &str, value: &str) -> Result<()> {
    let path = path_of(name)?;
    fs::OpenOptions::new()
        .write(true)
        .open(path)
        .and_then(|mut file| file.write_all(format!("{value}\n").as_bytes()))
        .map_err(|e| match e.kind() {
            io::ErrorKind::PermissionDenied if is_of_host(name) => Error::Refused {
                what: format!("setting the kernel parameter {name}"),
                reason: "it belongs to the whole host and can only be set in its first network \
                         namespace, for all others too"
                    .into(),
            },
            _ => explain(name, "setting", e),
        })
}

/// Whether a parameter is visible in this namespace, but cannot be set here.
fn is_of_host(name: &str) -> bool {
    const WRITABLE: u32 = 0o222;
    let metadata = path_of(name).ok().and_then(|path| fs::metadata(path).ok());
    metadata.is_some_and(|metadata| metadata.permissions().mode() & WRITABLE == 0)
}

/// The file of a parameter. A dot separates; a dot inside a part, as in the name of a VLAN, is
/// written as a slash, as `sysctl` does it: `net.ipv4.conf.eth0/5.rp_filter`.
fn path_of(name: &str) -> Result<PathBuf> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '@');
    let mut path = PathBuf::from("/proc/sys");
    for part in name.split('.').map(|part| part.replace('/', ".")) {
        // Never a way out of /proc/sys.
        if part.is_empty() || part.chars().all(|c| c == '.') || !part.chars().all(plain) {
            return Err(Error::NotFound {
                what: "kernel parameter",
                name: name.into(),
                hint: "; write it with dots, as in `net.ipv4.tcp_rmem`".into(),
            });
        }
        path.push(part);
    }
    Ok(path)
}

fn explain(name: &str, verb: &str, source: io::Error) -> Error {
    match source.kind() {
        io::ErrorKind::NotFound => Error::Unsupported {
            what: format!("the kernel parameter {name}"),
            hint: "it is not there in this namespace".into(),
        },
        io::ErrorKind::PermissionDenied => Error::Permission {
            what: format!("{verb} the kernel parameter {name}"),
            needs: "root in the network namespace",
            hint: "run as root".into(),
        },
        _ => Error::Os {
            op: format!("{verb} the kernel parameter {name}"),
            source,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_paths_and_never_leave_proc_sys() {
        let check = |name: &str, expected: Option<&str>| {
            assert_eq!(
                path_of(name).ok(),
                expected.map(|tail| PathBuf::from(format!("/proc/sys/{tail}"))),
                "{name}"
            );
        };
        check("net.ipv4.tcp_rmem", Some("net/ipv4/tcp_rmem"));
        check(
            "net.ipv4.conf.eth0/5.rp_filter",
            Some("net/ipv4/conf/eth0.5/rp_filter"),
        );
        check("net..ipv4", None);
        check("net.//.//.passwd", None);
        check("/.etc", None);
        check("", None);
        check("net.ipv4.tcp rmem", None);
    }

    #[test]
    fn a_parameter_is_read_and_a_missing_one_is_unsupported() {
        let rmem = read("net.ipv4.tcp_rmem").expect("every kernel has it");
        assert_eq!(rmem.split(' ').count(), 3, "{rmem}");
        let error = read("net.ipv4.tcp_no_such_thing").expect_err("none");
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    }
}
