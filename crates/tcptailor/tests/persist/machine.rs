//! A machine for tests: a process 1 with network, mounts and a boot of its own. It is off once it
//! is dropped.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};

use crate::asking;

/// The program of this build.
const PROGRAM: &str = env!("CARGO_BIN_EXE_tcptailor");

/// Runs as process 1, in namespaces of its own, until its input ends. The first argument is the
/// file with the number of the boot, the second one is what the machine consists of.
const INIT: &str = r#"
set -e
mount --bind "$1" /proc/sys/kernel/random/boot_id
sh -ec "$2"
echo ready
exec cat
"#;

/// Interfaces, a queue and routes.
pub(crate) const NETWORK: &str = "
ip link set lo up
ip link add v0 type veth peer name v1
ip link set v0 up
ip link set v1 up
ip addr add 10.98.1.1/24 dev v0
tc qdisc add dev v0 root handle 7: pfifo limit 100
ip route add 10.50.0.0/16 via 10.98.1.2 dev v0
";

/// What outlives the boots: a disk with `/etc`, the journal and the program.
pub(crate) struct Disk {
    directory: tempfile::TempDir,
}

impl Disk {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        // In a directory that no other user may write to, as required for a program that root will
        // run.
        fs::copy(PROGRAM, directory.path().join("tcptailor")).unwrap();
        fs::create_dir(directory.path().join("etc")).unwrap();
        Self { directory }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn etc(&self) -> PathBuf {
        self.path().join("etc")
    }

    pub(crate) fn program(&self) -> PathBuf {
        self.path().join("tcptailor")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.path().join("state")
    }

    /// Every file below `/etc`, in order; of directories, those that are empty.
    pub(crate) fn files(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut directories = vec![self.etc()];
        while let Some(directory) = directories.pop() {
            let mut is_empty = true;
            for entry in fs::read_dir(&directory).unwrap() {
                let entry = entry.unwrap();
                is_empty = false;
                match entry.file_type().unwrap().is_dir() {
                    true => directories.push(entry.path()),
                    false => found.push(entry.path()),
                }
            }
            if is_empty && directory != self.etc() {
                found.push(directory);
            }
        }
        let etc = self.etc();
        let name = |path: PathBuf| path.strip_prefix(&etc).unwrap().display().to_string();
        let mut names: Vec<String> = found.into_iter().map(name).collect();
        names.sort();
        names
    }
}

pub(crate) struct Machine {
    child: Child,
    /// The machine ends when this is closed.
    stdin: Option<ChildStdin>,
    /// The number of its process 1, seen from here.
    pid: u32,
}

impl Machine {
    /// Starts a machine that consists of what the script makes; `None` where that is not permitted.
    /// No two machines of one disk have the same `boot`.
    pub(crate) fn boot(disk: &Disk, boot: u32, script: &str) -> Option<Self> {
        for needed in ["nsenter", "ip", "tc"] {
            asking::witness(needed)?;
        }
        let boot_id = disk.path().join(format!("boot-{boot}"));
        fs::write(&boot_id, format!("boot-{boot}-of-{}\n", std::process::id())).unwrap();
        let mut child = asking::witness("unshare")?
            .args(["--net", "--pid", "--mount", "--fork", "--mount-proc"])
            .args(["--kill-child", "sh", "-c", INIT, "sh"])
            .args([boot_id.as_os_str(), script.as_ref()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        if line != "ready\n" {
            let mut why = String::new();
            let mut stderr = child.stderr.take().unwrap();
            stderr.read_to_string(&mut why).unwrap();
            child.wait().unwrap();
            assert!(why.contains("not permitted"), "{why}");
            asking::skip(why.trim_end());
            return None;
        }
        let unshare = child.id();
        let children = fs::read_to_string(format!("/proc/{unshare}/task/{unshare}/children"));
        let pid = children.unwrap().trim().parse().unwrap();
        Some(Self { child, stdin, pid })
    }

    /// A command inside.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command
            .args(["--net", "--pid", "--mount", "--target"])
            .arg(self.pid.to_string())
            .arg("--")
            .arg(program);
        command
    }

    /// Runs a script inside and returns what it printed.
    #[track_caller]
    pub(crate) fn sh(&self, script: &str) -> String {
        let output = self.command("sh").args(["-ec", script]).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{script}: {told}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs our program inside.
    pub(crate) fn run(&self, disk: &Disk, args: &[&str]) -> Output {
        self.command(disk.program())
            .args(args)
            .env("TCPTAILOR_STATE", disk.state())
            .env("TCPTAILOR_ETC", disk.etc())
            .output()
            .unwrap()
    }

    /// As [`Machine::run`], for what has to succeed and print JSON.
    #[track_caller]
    pub(crate) fn json(&self, disk: &Disk, args: &[&str]) -> serde_json::Value {
        let output = self.run(disk, &[args, &["--json"]].concat());
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{args:?}: {text}{told}");
        serde_json::from_str(&text).unwrap()
    }

    /// What the changes of these tests touch, as others than us show it.
    pub(crate) fn snapshot(&self) -> String {
        self.sh(
            "cd /proc/sys/net/ipv4; head -v tcp_rmem tcp_slow_start_after_idle tcp_mtu_probing
             ip -o link show v0 | grep -o 'mtu [0-9]*'
             ip -o link show v0 | grep -o 'qlen [0-9]*'
             tc qdisc show dev v0
             ip route show",
        )
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        drop(self.stdin.take());
        self.child.wait().unwrap();
    }
}
