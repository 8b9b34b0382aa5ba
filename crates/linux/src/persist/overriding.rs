//! Files of kernel parameters that are read after ours and set the same: theirs would be the value
//! after a boot.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::journal::MadeFile;

/// Directories of sysctl.d(5) beside `/etc`.
const ELSEWHERE: [&str; 4] = [
    "/run/sysctl.d",
    "/usr/local/lib/sysctl.d",
    "/usr/lib/sysctl.d",
    "/lib/sysctl.d",
];
/// More than any such file has.
const BYTES_MAX: u64 = 1 << 20;

/// The file after ours that sets this parameter, where there is one.
pub(super) fn later_file(parameter: &str, files: &[MadeFile]) -> Option<String> {
    let is_ours = |file: &&MadeFile| file.path.extension().is_some_and(|found| found == "conf");
    let ours = &files.iter().find(is_ours)?.path;
    later(parameter, ours).map(|path| path.display().to_string())
}

/// As [`later_file`], of the file that is or will be at `ours`. The files of all directories are
/// read in the order of their names alone (sysctl.d(5)), and `sysctl --system` reads
/// `/etc/sysctl.conf` last (sysctl(8)).
pub(super) fn later(parameter: &str, ours: &Path) -> Option<PathBuf> {
    let directory = ours.parent()?;
    let etc = directory.parent()?;
    let mut directories = vec![directory.to_owned()];
    if etc == Path::new("/etc") {
        directories.extend(ELSEWHERE.map(PathBuf::from));
    }
    let entries = directories
        .iter()
        .filter_map(|path| fs::read_dir(path).ok());
    let mut files: Vec<PathBuf> = entries
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|found| found == "conf"))
        .filter(|path| path.file_name() > ours.file_name())
        .collect();
    files.sort_by(|a, b| a.file_name().cmp(&b.file_name()));
    files.push(etc.join("sysctl.conf"));
    files.into_iter().rfind(|path| sets(path, parameter))
}

fn sets(path: &Path, parameter: &str) -> bool {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(BYTES_MAX).read_to_end(&mut bytes));
    // A comment may be in any encoding.
    let text = String::from_utf8_lossy(&bytes);
    read.is_ok() && text.lines().any(|line| is_setting(line, parameter))
}

/// `key = value`, with `-` before a key whose failure is ignored, and either dots or slashes
/// between the parts of it.
fn is_setting(line: &str, parameter: &str) -> bool {
    let line = line.trim_start();
    if line.starts_with(['#', ';']) {
        return false;
    }
    let Some((key, _)) = line.split_once('=') else {
        return false;
    };
    key.trim().trim_start_matches('-').replace('/', ".") == parameter
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_sysctl_reads_them() {
        let check = |line: &str, expected: bool| {
            assert_eq!(is_setting(line, "net.ipv4.tcp_sack"), expected, "{line}");
        };
        check("net.ipv4.tcp_sack=0", true);
        check("  -net/ipv4/tcp_sack = 1", true);
        check("# net.ipv4.tcp_sack = 1", false);
        check(";net.ipv4.tcp_sack = 1", false);
        check("net.ipv4.tcp_sack", false);
        check("net.ipv4.tcp_sack2 = 1", false);
    }

    #[test]
    fn the_last_file_wins() {
        let etc = tempfile::tempdir().unwrap();
        let directory = etc.path().join("sysctl.d");
        fs::create_dir(&directory).unwrap();
        let ours = directory.join("90-tcptailor-000001.conf");
        let found = || {
            let path = later("net.ipv4.tcp_sack", &ours)?;
            Some(path.file_name()?.to_str()?.to_owned())
        };
        let write = |path: PathBuf| fs::write(path, "net.ipv4.tcp_sack = 1\n").unwrap();
        write(ours.clone());
        write(directory.join("10-before.conf"));
        write(directory.join("99-no.conf.bak"));
        assert_eq!(found(), None);
        for name in ["95-after.conf", "99-last.conf", "97-between.conf"] {
            write(directory.join(name));
        }
        assert_eq!(found().as_deref(), Some("99-last.conf"));
        let latin = b"# f\xfcr\nnet.ipv4.tcp_sack = 1\n";
        fs::write(etc.path().join("sysctl.conf"), latin).unwrap();
        assert_eq!(found().as_deref(), Some("sysctl.conf"));
    }
}
