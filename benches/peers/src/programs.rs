//! Builds what races: our program, the oracle and smoltcp with cargo, gVisor with go, lwIP with the
//! C compiler from Debian's source package. What cannot be built is left out, with the reason.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};

use crate::rows::{LWIP_1M_MTUS, Row, with_mtu};

/// This folder, which holds the sources of the peers.
const SOURCES: &str = env!("CARGO_MANIFEST_DIR");
/// The Debian release whose lwIP races, and where it comes from if apt knows no mirror.
const RELEASE: &str = "bookworm";
const MIRROR: &str = "http://deb.debian.org/debian";
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// How the programs of some rows are built into a folder.
type Build = fn(&Path) -> anyhow::Result<()>;

/// By what the name of the program begins with.
const BUILDS: [(&str, Build); 5] = [
    ("oracle", of_this_package),
    ("smoltcp", of_this_package),
    ("gvisor", gvisor),
    ("lwip", lwip),
    ("tcptailor", tcptailor),
];

/// Builds the programs that the rows name, and puts their paths into the rows. Rows whose program
/// cannot be built go; returned are the reasons.
///
/// # Errors
/// Where what every machine can build is not built.
pub(crate) fn build(rows: &mut Vec<Row>) -> anyhow::Result<Vec<String>> {
    let own = std::env::current_exe().context("finding this program")?;
    let folder = own.with_file_name("raced");
    fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let mut skipped = Vec::new();
    for (prefix, build) in BUILDS {
        let is_meant = |row: &Row| {
            row.command
                .first()
                .is_some_and(|name| name.starts_with(prefix))
        };
        if !rows.iter().any(is_meant) {
            continue;
        }
        let _ = writeln!(io::stderr(), "building {prefix}");
        match build(&folder) {
            Ok(()) => {}
            Err(error) if matches!(prefix, "gvisor" | "lwip") => {
                let why = format!("{prefix}: {error:#}").replace('\n', " ");
                let _ = writeln!(io::stderr(), "skipped: {why}");
                skipped.push(why);
                rows.retain(|row| !is_meant(row));
            }
            Err(error) => return Err(error),
        }
        for row in rows.iter_mut().filter(|row| is_meant(row)) {
            row.command[0] = folder.join(&row.command[0]).display().to_string();
        }
    }
    Ok(skipped)
}

/// The command line of another stack than ours. `exec`, so that the process that is watched and
/// ended is the stack itself.
pub(crate) fn of_user(command: &str, mtu: u32) -> Vec<String> {
    vec![
        "sh".into(),
        "-c".into(),
        format!("exec {}", with_mtu(command, mtu)),
    ]
}

fn of_this_package(folder: &Path) -> anyhow::Result<()> {
    cargo(&[
        "--release",
        "--manifest-path",
        &format!("{SOURCES}/Cargo.toml"),
        // Not this program, which starts itself as others and must stay where it is.
        "--bin",
        "oracle",
        "--bin",
        "smoltcp-peer",
    ])?;
    for name in ["oracle", "smoltcp-peer"] {
        link(&folder.with_file_name(name), &folder.join(name))?;
    }
    Ok(())
}

fn tcptailor(folder: &Path) -> anyhow::Result<()> {
    let workspace = Path::new(SOURCES).join("../..");
    let manifest = workspace.join("Cargo.toml").display().to_string();
    // As packages are built: the profile `release` is quick to build instead.
    cargo(&[
        "--profile",
        "dist",
        "--manifest-path",
        &manifest,
        "-p",
        "tcptailor",
    ])?;
    let target = std::env::var_os("CARGO_TARGET_DIR");
    let target = target.map_or_else(|| workspace.join("target"), PathBuf::from);
    link(&target.join("dist/tcptailor"), &folder.join("tcptailor"))
}

fn link(from: &Path, to: &Path) -> anyhow::Result<()> {
    let from = fs::canonicalize(from).with_context(|| format!("finding {}", from.display()))?;
    // It may be there from an earlier run.
    let _ = fs::remove_file(to);
    std::os::unix::fs::symlink(from, to).with_context(|| format!("making {}", to.display()))
}

fn cargo(arguments: &[&str]) -> anyhow::Result<()> {
    let cargo = std::env::var("CARGO").unwrap_or("cargo".into());
    let mut command = Command::new(cargo);
    command
        .args(["build", "--locked", "--quiet"])
        .args(arguments);
    let done = command.status().context("cargo is not installed")?;
    ensure!(done.success(), "cargo build {} failed", arguments.join(" "));
    Ok(())
}

fn gvisor(folder: &Path) -> anyhow::Result<()> {
    let output = format!("-o={}", folder.join("gvisor-peer").display());
    let mut go = Command::new("go");
    go.args(["build", "-mod=readonly", "-trimpath", &output, "."])
        .current_dir(format!("{SOURCES}/gvisor"))
        .env("GOWORK", "off");
    run(go)
}

/// One program for each profile and segment size: both are fixed when lwIP is compiled.
fn lwip(folder: &Path) -> anyhow::Result<()> {
    let source = lwip_source(&folder.join("lwip"))?;
    for profile in ["default", "64k", "1m"] {
        for &mtu in if profile == "1m" {
            LWIP_1M_MTUS
        } else {
            &[1500]
        } {
            let program = folder.join(format!("lwip-{profile}-{mtu}"));
            if is_newer(&program) {
                continue;
            }
            let core = source.join("src/core");
            let mut cc = Command::new("cc");
            cc.args(["-O3", "-o"])
                .arg(&program)
                .arg(format!("-DPROFILE_{}", profile.to_uppercase()))
                .arg(format!("-DSEGMENT={}", mtu - 40))
                .arg(format!("-I{SOURCES}/lwip"))
                .arg(format!("-I{}", source.join("src/include").display()))
                .arg(format!("{SOURCES}/lwip/main.c"))
                .args(c_files(&core)?)
                .args(c_files(&core.join("ipv4"))?);
            run(cc)?;
        }
    }
    Ok(())
}

/// Whether a program is there and no source of ours was changed after it was built.
fn is_newer(program: &Path) -> bool {
    let time = |path: &Path| fs::metadata(path).and_then(|meta| meta.modified());
    let Ok(built) = time(program) else {
        return false;
    };
    let sources = ["main.c", "lwipopts.h", "arch/cc.h"];
    let mut sources = sources
        .map(|name| Path::new(SOURCES).join("lwip").join(name))
        .into_iter();
    sources.all(|path| time(&path).is_ok_and(|changed| changed < built))
}

fn c_files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let listed = fs::read_dir(folder).with_context(|| format!("listing {}", folder.display()))?;
    let mut files: Vec<PathBuf> = listed.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "c"));
    files.sort();
    Ok(files)
}

/// The unpacked source of lwIP. Apt works with lists of its own below `folder`, so that the
/// machine's configuration stays as it is.
fn lwip_source(folder: &Path) -> anyhow::Result<PathBuf> {
    let unpacked = |folder: &Path| {
        let mut found = fs::read_dir(folder)
            .ok()?
            .flatten()
            .map(|entry| entry.path());
        found.find(|path| path.join("src/core/tcp.c").exists())
    };
    if let Some(source) = unpacked(folder) {
        return Ok(source);
    }
    for part in ["lists/partial", "cache/archives/partial"] {
        fs::create_dir_all(folder.join(part)).context("making a folder for apt")?;
    }
    let list = folder.join("sources.list");
    let line = format!(
        "deb-src [signed-by={KEYRING}] {} {RELEASE} main\n",
        mirror()
    );
    fs::write(&list, line).with_context(|| format!("writing {}", list.display()))?;
    for arguments in [&["update"][..], &["source", "lwip"]] {
        let mut apt = Command::new("apt-get");
        for (key, value) in [
            ("Dir::Etc::SourceList", list.display().to_string()),
            ("Dir::Etc::SourceParts", "/dev/null".into()),
            (
                "Dir::State::Lists",
                folder.join("lists").display().to_string(),
            ),
            ("Dir::Cache", folder.join("cache").display().to_string()),
            ("APT::Sandbox::User", "root".into()),
        ] {
            apt.args(["-o", &format!("{key}={value}")]);
        }
        run({
            apt.args(arguments).current_dir(folder);
            apt
        })?;
    }
    unpacked(folder).context("apt-get source has unpacked no lwIP")
}

/// The mirror that apt uses for this machine.
fn mirror() -> String {
    let targets = Command::new("apt-get")
        .args([
            "indextargets",
            "--format",
            "$(REPO_URI)",
            "Created-By: Packages",
        ])
        .output();
    let text = targets.map_or_else(|_| Vec::new(), |output| output.stdout);
    let text = String::from_utf8_lossy(&text);
    let mirror = text.lines().find(|line| !line.contains("security"));
    mirror.unwrap_or(MIRROR).to_owned()
}

/// Runs a command to its end; an error holds the last line of what it said.
fn run(mut command: Command) -> anyhow::Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command.stdin(Stdio::null()).output();
    let done = done.with_context(|| format!("{name} is not installed"))?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        let last = said.lines().rfind(|line| !line.trim().is_empty());
        bail!("{name} failed: {}", last.unwrap_or("without a word"));
    }
    Ok(())
}
