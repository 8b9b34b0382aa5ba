//! The command line: global flags and the list of commands. Each command's own flags live beside
//! its code in [`crate::commands`].
//!
//! Letters: `bench` and `serve` follow iperf3, `nodelay-client` follows the sample program that it
//! stands for, all other commands follow `ip` and `ss`; a test below lists the letters of each
//! command, so that a collision is a decision.

use core::fmt::Write;
use std::ffi::{OsStr, OsString};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use crate::{commands, help, output};

const EXAMPLES: &str = "\
Examples:
  tcptailor fit --lab nagle          find and fix a stall on a lab path of this machine
  tcptailor fit 10.0.0.9             towards a host that runs `tcptailor serve`
  tcptailor diagnose -t 5s           what limits the connections of this machine?
  tcptailor diagnose --pid 4127 -v   ... of one process, with the evidence
  tcptailor run -- curl -O URL       ... of one program, from its first packet
  tcptailor check                    what this machine allows

Exit codes:
  0    done, or nothing to improve
  1    failed while running
  2    wrong usage, or a file that is missing or not of its kind
  3    findings, or a check failed
  4    a permission or kernel feature is missing
  5    a change made it worse and was rolled back
  6    a change made no significant difference and was rolled back
  130  interrupted";

/// Finds what slows a TCP connection down, fixes it, and verifies the gain.
///
/// Names the bottleneck of each connection with the evidence, proposes the smallest change
/// that helps, applies it, measures again, and keeps it or rolls it back.
#[derive(Debug, Parser)]
#[command(name = "tcptailor", version, after_help = EXAMPLES)]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) globals: Globals,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// So wide is the list of commands; on narrower terminals it has two lines for each.
const LIST_COLUMNS: usize = 80;

/// The commands as the first screen of the help shows them.
const GROUPS: &[(&str, &[&str])] = &[
    (
        "Diagnose and fix",
        &[
            "diagnose", "top", "fit", "predict", "run", "record", "watch",
        ],
    ),
    (
        "Apply and roll back changes",
        &["status", "apply", "confirm", "rollback", "recover"],
    ),
    (
        "Measure and compare",
        &["bench", "serve", "bdp", "lab", "knobs", "check"],
    ),
    (
        "tcptailor's own TCP stack, and helpers for small writes",
        &["stack", "autocork", "nodelay-server", "nodelay-client"],
    ),
];

impl Cli {
    /// Reads the command line of this process.
    ///
    /// # Errors
    /// What is wrong with it, or the help or the version that was asked for.
    pub(crate) fn read() -> Result<Self, clap::Error> {
        let words = help_asked(std::env::args_os().collect());
        let parse = |words| laid_out(grouped(Self::command())).try_get_matches_from(words);
        let matches = parse(words.clone()).map_err(|error| {
            if let Some(better) = negative_value(&error, &words) {
                return better;
            }
            // What is said of a word shows the word; a terminal would obey some.
            let shown = words.iter().map(|word| visible_word(word)).collect();
            parse(shown).err().unwrap_or(error)
        })?;
        let mut cli = Self::from_arg_matches(&matches)?;
        if let Command::Bench(args) = &cli.command {
            // iperf3's letter for it.
            cli.globals.json |= args.iperf_json;
        }
        Ok(cli)
    }
}

/// What is said of a negative number behind an option, which clap takes for another option: its own
/// advice would make it an argument.
fn negative_value(error: &clap::Error, words: &[OsString]) -> Option<clap::Error> {
    let is_negative = |word: &str| {
        let number = word
            .strip_prefix('-')
            .map(|rest| rest.trim_start_matches('.'));
        number.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let unknown = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(unknown)) if error.kind() == ErrorKind::UnknownArgument => {
            unknown
        }
        _ => return None,
    };
    let pair = words.windows(2).find(|pair| {
        let [option, value] = [&pair[0], &pair[1]].map(|word| word.to_string_lossy());
        let is_meant = is_negative(&value) && value.starts_with(unknown.as_str());
        is_meant && takes_value(&Cli::command(), &option)
    })?;
    let [option, value] = [&pair[0], &pair[1]].map(|word| visible_word(word));
    let message = format!(
        "invalid value '{}' for '{}': it must not be negative\n\nFor more information, try '--help'.\n",
        value.to_string_lossy(),
        option.to_string_lossy()
    );
    Some(clap::Error::raw(ErrorKind::InvalidValue, message))
}

/// Whether a word is an option with a value, of any command.
fn takes_value(command: &clap::Command, word: &str) -> bool {
    let is_it = |arg: &clap::Arg| match word.strip_prefix("--") {
        Some(name) => arg.get_long() == Some(name),
        // Several letters may stand together, and the last one has the value.
        None => word.starts_with('-') && word.len() > 1 && arg.get_short() == word.chars().last(),
    };
    let mut args = command.get_arguments();
    args.any(|arg| arg.get_action().takes_values() && is_it(arg))
        || command
            .get_subcommands()
            .any(|command| takes_value(command, word))
}

/// The command line without the commands that only tcptailor itself starts, or that serve packages:
/// what completions and man pages tell of.
pub(crate) fn published() -> clap::Command {
    let whole = Cli::command();
    let shown = whole.get_subcommands().filter(|sub| !sub.is_hide_set());
    let mut command = clap::Command::new("tcptailor")
        .args(whole.get_arguments())
        .subcommands(shown)
        .disable_help_subcommand(true)
        .subcommand_required(true)
        .version(env!("CARGO_PKG_VERSION"))
        .after_help(EXAMPLES);
    if let Some(about) = whole.get_about() {
        command = command.about(about.clone());
    }
    if let Some(about) = whole.get_long_about() {
        command = command.long_about(about.clone());
    }
    command
}

/// `tcptailor help COMMAND` is what people type who know git, cargo or ip: as `COMMAND --help`.
fn help_asked(mut words: Vec<OsString>) -> Vec<OsString> {
    if words.get(1).is_some_and(|word| word == "help") {
        words.remove(1);
        words.push("--help".into());
    }
    words
}

/// With the help of each command laid out for this terminal.
fn laid_out(command: clap::Command) -> clap::Command {
    let columns = output::columns();
    let below = command.get_after_help().map(ToString::to_string);
    let command = command.term_width(columns).mut_subcommands(laid_out);
    match below {
        Some(text) => command.after_help(help::laid_out(&text, columns)),
        None => command,
    }
}

fn visible_word(word: &OsStr) -> OsString {
    let word = word.to_string_lossy();
    let shown = word.chars().map(|c| {
        if base::is_obeyed(c) {
            char::REPLACEMENT_CHARACTER
        } else {
            c
        }
    });
    shown.collect::<String>().into()
}

/// With its commands in groups on the first screen of the help.
fn grouped(command: clap::Command) -> clap::Command {
    let header = *command.get_styles().get_header();
    let literal = *command.get_styles().get_literal();
    let columns = output::columns();
    let mut list = String::new();
    for (title, names) in GROUPS {
        let _ = writeln!(list, "{header}{title}:{header:#}");
        for name in *names {
            let about = command
                .find_subcommand(name)
                .and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            if columns >= LIST_COLUMNS {
                let _ = writeln!(list, "  {literal}{name:<16}{literal:#}{about}");
                continue;
            }
            let below = help::wrapped(&about, help::BELOW, columns).join("\n");
            let _ = writeln!(list, "  {literal}{name}{literal:#}\n{below}");
        }
        list.push('\n');
    }
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}{{all-args}}{{after-help}}\n"
    );
    // The list stands in the template.
    let hidden = |command: clap::Command| command.hide(true);
    command
        .mut_subcommands(hidden)
        .override_usage("tcptailor [OPTIONS] <COMMAND>")
        .help_template(template)
}

/// Flags that every command has.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Globals {
    /// Print one JSON document on stdout, errors included.
    #[arg(short, long, global = true)]
    pub(crate) json: bool,
    /// Print the evidence for every verdict; twice: idle and healthy connections too.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Print results only: what was found and measured; no progress, no notes, no changes to make.
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// When to use colours; `auto` honours `NO_COLOR` and `CLICOLOR_FORCE`.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: Color,
}

/// When to colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    #[default]
    Auto,
    Always,
    Never,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Fit(commands::fit::Args),
    Predict(commands::predict::Args),
    Diagnose(commands::diagnose::Args),
    Top(commands::top::Args),
    Record(commands::record::Args),
    Watch(commands::watch::Args),
    Run(commands::run::Args),
    Bdp(commands::bdp::Args),
    Bench(Box<commands::bench::Args>),
    Serve(commands::serve::Args),
    Stack(commands::stack::Args),
    NodelayServer(commands::nodelay::ServerArgs),
    NodelayClient(commands::nodelay::ClientArgs),
    Autocork(commands::autocork::Args),
    Apply(commands::apply::Args),
    Confirm(commands::apply::trial::Args),
    Status(commands::apply::status::Args),
    Rollback(commands::apply::undo::RollbackArgs),
    Recover(commands::apply::undo::RecoverArgs),
    Lab(commands::lab::Args),
    Check(commands::check::Args),
    Knobs(commands::knobs::Args),
    #[command(hide = true)]
    Completions(commands::completions::Args),
    #[command(hide = true)]
    ManPages(commands::man_pages::Args),
    #[command(hide = true)]
    Guard(commands::guard::Args),
    #[command(hide = true)]
    Worker(commands::worker::Args),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// Letters as `ip` and `ss` users expect them.
    const LETTERS: &[(char, &str)] = &[
        ('N', "netns"),
        ('a', "all"),
        ('i', "interval"),
        ('n', "dry-run"),
        ('o', "output"),
        ('p', "pid"),
        ('t', "time"),
    ];
    /// Letters as iperf3 users expect them: `-n` counts bytes and `-p` is a port.
    const IPERF_LETTERS: &str = "146BCDJMNOPRbcilnpstuw";
    /// Letters and names of the later sample client of the cork document.
    const SAMPLE_LETTERS: &[(char, &str)] = &[
        ('H', "header_plus_payload"),
        ('N', "nr_logical_packets"),
        ('c', "cork"),
        ('n', "no_delay"),
        ('p', "port"),
        ('r', "rate"),
        ('s', "single_request"),
    ];

    #[test]
    fn each_letter_means_what_users_of_such_commands_expect() {
        for command in Cli::command().get_subcommands() {
            for argument in command
                .get_arguments()
                .filter(|argument| !argument.is_global_set())
            {
                let (Some(letter), Some(long)) = (argument.get_short(), argument.get_long()) else {
                    continue;
                };
                let expected = match command.get_name() {
                    "bench" | "serve" => IPERF_LETTERS.contains(letter),
                    "nodelay-client" => SAMPLE_LETTERS.contains(&(letter, long)),
                    _ => LETTERS.contains(&(letter, long)),
                };
                assert!(expected, "{}: -{letter} for --{long}", command.get_name());
            }
        }
    }

    #[test]
    fn each_command_stands_in_one_group_and_in_one_line() {
        let command = Cli::command();
        let shown = command.get_subcommands().filter(|sub| !sub.is_hide_set());
        let mut shown: Vec<&str> = shown.map(clap::Command::get_name).collect();
        let mut grouped: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, names)| *names)
            .copied()
            .collect();
        shown.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(shown, grouped);
        let help = super::grouped(command).render_help().to_string();
        let list = help.lines().take_while(|line| !line.starts_with("Options"));
        for line in list {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }

    #[test]
    fn help_is_a_command_too() {
        let check = |given: &[&str], expected: &[&str]| {
            let words = |list: &[&str]| list.iter().map(OsString::from).collect::<Vec<_>>();
            assert_eq!(help_asked(words(given)), words(expected));
        };
        check(&["t", "help"], &["t", "--help"]);
        check(&["t", "help", "lab", "run"], &["t", "lab", "run", "--help"]);
        check(&["t", "run", "help"], &["t", "run", "help"]);
        check(&["t"], &["t"]);
    }

    #[test]
    fn a_misspelt_command_is_recognised() {
        let message = Cli::try_parse_from(["tcptailor", "diagnos"]).expect_err("no such command");
        assert!(message.to_string().contains("'diagnose'"), "{message}");
    }
}
