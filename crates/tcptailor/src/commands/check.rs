//! Capabilities of this machine.

use comfy_table::{Cell, Color, Table};
use linux::{Capabilities, Fact};
use serde::Serialize;

use crate::exit::Exit;
use crate::output::{self, Output};

/// Show which commands work here, and what the others require.
///
/// Tests the permissions and kernel features that tcptailor uses, and cleans up. The exit code
/// is always 0.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor check              as this user
  sudo tcptailor check         as root
  tcptailor check -v           all tests in detail
  tcptailor check --json       for scripts: commands[].works, checks[].ok")]
pub(crate) struct Args {}

/// How much of a command works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Works {
    Yes,
    Partly,
    No,
}

/// Commands that need the same.
struct Needs {
    commands: &'static str,
    /// Names of facts, any of which will do.
    one_of: &'static [&'static str],
    /// Names of facts that it needs as well.
    all_of: &'static [&'static str],
    /// How much works without.
    otherwise: Works,
    /// Description of that way.
    without: &'static str,
}

/// Every command that may lack something, those that most people meet first.
const COMMANDS: &[Needs] = &[
    Needs {
        commands: "diagnose",
        one_of: &["CAP_SYS_PTRACE"],
        all_of: &["CAP_DAC_READ_SEARCH", "pidfd_getfd"],
        otherwise: Works::Partly,
        without: "all connections, but programs of this user only",
    },
    Needs {
        commands: "run",
        one_of: &[],
        all_of: &["seccomp notification", "pidfd_getfd"],
        otherwise: Works::Partly,
        without: "connections of some milliseconds are not attributed; no `--set`, no `--fit`",
    },
    Needs {
        commands: "fit HOST, fit --pid, apply",
        one_of: &["CAP_NET_ADMIN"],
        all_of: &["CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH", "pidfd_getfd"],
        otherwise: Works::Partly,
        without: "sockets of this user's programs; no routes, interfaces, sysctls",
    },
    Needs {
        commands: "fit --lab, lab faults",
        one_of: KERNEL_PATHS,
        all_of: &["TUN device"],
        otherwise: Works::Partly,
        without: "tcptailor's own TCP: `--engine virtual`",
    },
    Needs {
        commands: "lab run, lab sweep, lab reproduce",
        one_of: KERNEL_PATHS,
        all_of: &["TUN device"],
        otherwise: Works::Partly,
        without: "tcptailor's own TCP: `--engine virtual`",
    },
    Needs {
        commands: "lab agree",
        one_of: KERNEL_PATHS,
        all_of: &["TUN device"],
        otherwise: Works::No,
        without: "it compares with the kernel's TCP",
    },
    Needs {
        commands: "stack serve",
        one_of: &["CAP_NET_ADMIN"],
        all_of: &["TUN device"],
        otherwise: Works::No,
        without: "it answers on a TUN device",
    },
    Needs {
        commands: "bench, serve, bdp, knobs",
        one_of: &[],
        all_of: &[],
        otherwise: Works::Yes,
        without: "",
    },
];

/// The fact that fails where /proc is not mounted, which nearly everything reads.
const PROC: &str = "kernel";

/// Capabilities that permit creating network namespaces.
const KERNEL_PATHS: &[&str] = &["network namespaces", "user namespaces"];

/// Permissions worth granting, the most useful first. Others add nothing to these.
const WORTH: &[&str] = &[
    "kernel",
    "network namespaces",
    "TUN device",
    "CAP_SYS_PTRACE",
    "CAP_DAC_READ_SEARCH",
    "CAP_NET_ADMIN",
    "pidfd_getfd",
    "CAP_SYS_ADMIN",
    "SO_BUF_LOCK",
    "real-time priority",
    "TCP_DELACK_MAX_US",
    "cgroup2",
    "congestion control",
];

#[derive(Serialize)]
struct Document {
    commands: Vec<CommandRow>,
    /// Permissions to grant, the most useful first.
    allow: Vec<AllowRow>,
    checks: Vec<CheckRow>,
}

#[derive(Debug, Serialize)]
struct CommandRow {
    commands: &'static str,
    works: Works,
    /// Features that work without it, or the reason why none do.
    without: Option<&'static str>,
}

#[derive(Debug, Serialize)]
struct AllowRow {
    name: &'static str,
    gives: &'static str,
    remedy: String,
}

#[derive(Serialize)]
struct CheckRow {
    name: &'static str,
    ok: bool,
    /// Result of the check.
    detail: String,
}

pub(crate) fn run(_args: &Args, output: &Output) -> anyhow::Result<Exit> {
    let document = Document::of(Capabilities::probe());
    output.report("check", &document, || render(&document, output.verbosity()))?;
    Ok(Exit::Done)
}

impl Document {
    fn of(machine: Capabilities) -> Self {
        Self {
            commands: COMMANDS
                .iter()
                .map(|needs| command(needs, &machine))
                .collect(),
            allow: allow(&machine),
            checks: machine.facts.into_iter().map(check_row).collect(),
        }
    }
}

fn command(needs: &Needs, machine: &Capabilities) -> CommandRow {
    let has = |name: &&str| machine.has(name);
    let one = needs.one_of.is_empty() || needs.one_of.iter().any(has);
    let works = match one && needs.all_of.iter().all(has) {
        true => Works::Yes,
        false => needs.otherwise,
    };
    if !machine.has(PROC) {
        return CommandRow {
            commands: needs.commands,
            works: works.max(Works::Partly),
            without: Some(match works {
                Works::No => needs.without,
                _ => "most commands read /proc, which is not mounted",
            }),
        };
    }
    CommandRow {
        commands: needs.commands,
        works,
        without: (works != Works::Yes).then_some(needs.without),
    }
}

/// Missing permissions, in order of usefulness.
fn allow(machine: &Capabilities) -> Vec<AllowRow> {
    let paths = KERNEL_PATHS.iter().any(|name| machine.has(name));
    // There is another way.
    let is_needless = |fact: &Fact| paths && KERNEL_PATHS.contains(&fact.name);
    let is_missing = |fact: &&Fact| !fact.ok && !is_needless(fact);
    let of = |name: &&str| machine.facts.iter().find(|fact| fact.name == *name);
    WORTH
        .iter()
        .filter_map(of)
        .filter(is_missing)
        .map(|fact| AllowRow {
            name: fact.name,
            gives: fact.gives,
            remedy: fact.remedy.clone(),
        })
        .collect()
}

fn check_row(fact: Fact) -> CheckRow {
    CheckRow {
        name: fact.name,
        ok: fact.ok,
        detail: fact.detail,
    }
}

fn render(document: &Document, verbosity: u8) -> String {
    let mut text = output::render(&command_table(&document.commands));
    if !document.allow.is_empty() {
        let mut table = output::table(&["TO ALLOW MORE", "HOW", "GIVES"]);
        for row in &document.allow {
            table.add_row([row.name, row.remedy.as_str(), row.gives]);
        }
        text.push('\n');
        text.push_str(&output::render(&table));
    }
    if verbosity > 0 {
        let mut table = output::table(&["CHECK", "", "FOUND"]);
        for row in &document.checks {
            let works = if row.ok { Works::Yes } else { Works::No };
            let answer = answer(works, "");
            table.add_row([Cell::new(row.name), answer, Cell::new(&row.detail)]);
        }
        text.push('\n');
        text.push_str(&output::render(&table));
    }
    let is_whole = document.commands.iter().all(|row| row.works == Works::Yes);
    text.push_str(match (is_whole, verbosity) {
        (true, _) => "\nAll commands work.\n",
        (false, 0) => "\n`tcptailor check -v` shows what was found.\n",
        (false, _) => "",
    });
    text
}

fn command_table(rows: &[CommandRow]) -> Table {
    let mut table = output::table(&["COMMANDS", "WORK HERE"]);
    for row in rows {
        let answer = answer(row.works, row.without.unwrap_or_default());
        table.add_row([Cell::new(row.commands), answer]);
    }
    table
}

/// A coloured word, with what there is to say of it.
fn answer(works: Works, detail: &str) -> Cell {
    let (word, color) = match works {
        Works::Yes => ("yes", Color::Green),
        Works::Partly => ("in part", Color::Yellow),
        Works::No => ("no", Color::Red),
    };
    let text = match detail {
        "" => word.to_owned(),
        detail => format!("{word}: {detail}"),
    };
    Cell::new(text).fg(color)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(missing: &[&str]) -> Capabilities {
        let names = COMMANDS
            .iter()
            .flat_map(|needs| needs.one_of.iter().chain(needs.all_of))
            .chain([&PROC]);
        let fact = |name: &'static str| Fact {
            name,
            ok: !missing.contains(&name),
            detail: "as found".into(),
            gives: "much",
            remedy: format!("allow {name}"),
        };
        let mut facts: Vec<Fact> = names.copied().map(fact).collect();
        facts.dedup();
        Capabilities { facts }
    }

    #[test]
    fn commands_say_what_works_without() {
        let check = |missing: &[&str], commands: &str, expected: Works| {
            let document = Document::of(machine(missing));
            let row = document
                .commands
                .iter()
                .find(|row| row.commands == commands);
            let row = row.expect("a row of the table");
            assert_eq!(row.works, expected, "{row:?}");
            assert_eq!(row.without.is_some(), expected != Works::Yes);
        };
        check(&[], "lab agree", Works::Yes);
        check(&["network namespaces"], "lab agree", Works::Yes);
        check(KERNEL_PATHS, "lab agree", Works::No);
        check(&["TUN device"], "fit --lab, lab faults", Works::Partly);
        check(&["TUN device"], "bench, serve, bdp, knobs", Works::Yes);
        check(&["CAP_SYS_PTRACE"], "diagnose", Works::Partly);
        check(&[PROC], "diagnose", Works::Partly);
        check(&[PROC, "TUN device"], "lab agree", Works::No);
    }

    #[test]
    fn what_is_worth_most_is_told_first_and_only_what_is_missing() {
        let told = |missing: &[&str]| -> Vec<&str> {
            let document = Document::of(machine(missing));
            document.allow.iter().map(|row| row.name).collect()
        };
        assert_eq!(told(&[]), [""; 0]);
        assert_eq!(told(&["user namespaces"]), [""; 0], "there is another way");
        assert_eq!(
            told(&[
                "CAP_NET_ADMIN",
                "TUN device",
                "network namespaces",
                "user namespaces"
            ]),
            ["network namespaces", "TUN device", "CAP_NET_ADMIN"]
        );
    }

    #[test]
    fn the_screen_names_commands_and_remedies() {
        let shown = |missing: &[&str], verbosity| {
            let text = render(&Document::of(machine(missing)), verbosity);
            anstream::adapter::strip_str(&text).to_string()
        };
        assert!(shown(&[], 0).ends_with("All commands work.\n"));
        let text = shown(&["TUN device"], 0);
        assert!(text.contains("no: it answers on a TUN device"), "{text}");
        assert!(text.contains("allow TUN device"), "{text}");
        assert!(shown(&["TUN device"], 1).contains("as found"));
    }
}
