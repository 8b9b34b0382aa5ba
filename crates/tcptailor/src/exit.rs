//! Exit codes, and what the user reads when something failed.

use std::ffi::OsStr;
use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;

use serde_json::json;

use crate::interrupt;
use crate::output::{Output, ReaderLeft, signed, visible};

/// How the program ends. The numbers are part of its interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done; or nothing to improve.
    Done,
    /// Failed while running.
    Failed,
    /// Wrong usage: unknown name, value out of range, a file that is not there or not of its kind.
    Usage,
    /// Findings at or above `--fail-on`, or a lab assertion that does not hold.
    Findings,
    /// A permission or a kernel feature is missing; the message lists what.
    Missing,
    /// A change made it worse, and was rolled back.
    RolledBack,
    /// A change made no significant difference, and was rolled back.
    NoDifference,
    /// Interrupted by the user.
    Interrupted,
    /// Exit code of the program that was run, as a shell reports it.
    OfProgram(u8),
}

impl Exit {
    /// The `code` of the error document.
    const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::Findings => "findings",
            Self::Missing => "missing-permission-or-feature",
            Self::RolledBack => "rolled-back",
            Self::NoDifference => "no-difference",
            Self::Interrupted => "interrupted",
            Self::OfProgram(_) => "program",
        }
    }

    /// Exit code for the caller.
    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Findings => 3,
            Self::Missing => 4,
            Self::RolledBack => 5,
            Self::NoDifference => 6,
            Self::Interrupted => 130,
            Self::OfProgram(number) => number,
        }
    }

    fn code(self) -> ExitCode {
        ExitCode::from(self.number())
    }
}

/// A failure whose exit code and advice the command knows.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) exit: Exit,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl Problem {
    pub(crate) fn new(exit: Exit, message: impl fmt::Display) -> Self {
        Self {
            exit,
            message: message.to_string(),
            hint: None,
        }
    }

    /// The user named something that does not exist, or a value that does not fit.
    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// A file that the user named cannot be used.
    pub(crate) fn file(path: &Path, error: &io::Error) -> Self {
        Self {
            exit: of_file(error.kind()),
            message: format!("{}: {error}", path.display()),
            hint: (error.kind() == ErrorKind::PermissionDenied)
                .then(|| "Run as the owner of the file, or as root.".into()),
        }
    }

    /// Something went wrong while running.
    pub(crate) fn failed(message: impl fmt::Display) -> Self {
        Self::new(Exit::Failed, message)
    }

    /// A program that the user named cannot be started: exit codes as a shell and env(1) have them.
    pub(crate) fn not_started(program: &OsStr, error: &io::Error) -> Self {
        let (code, what) = match error.kind() {
            ErrorKind::NotFound => (127, format!("{}: no such program", program.display())),
            _ => (126, format!("starting {}: {error}", program.display())),
        };
        Self::new(Exit::OfProgram(code), what)
            .hint("Write the program after `--`, with its path or from PATH.")
    }

    /// A permission or a feature of the kernel is missing.
    pub(crate) fn missing(message: impl fmt::Display) -> Self {
        Self::new(Exit::Missing, message)
    }

    /// The user ended it.
    pub(crate) fn interrupted(message: impl fmt::Display) -> Self {
        Self::new(Exit::Interrupted, message)
    }

    /// With what to do next.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Problem {}

/// Adds to a failure for lack of a permission or of a kernel feature what works without.
pub(crate) fn or_without<T>(outcome: anyhow::Result<T>, hint: &str) -> anyhow::Result<T> {
    outcome.map_err(|error| {
        // What is denied is a file that the user named: nothing else works without it.
        let is_of_file = error.chain().all(|cause| !cause.is::<linux::Error>());
        if is_of_file || !is_denied(&error) || hint_of(&error).is_some() {
            return error;
        }
        Problem::missing(message_of(&error)).hint(hint).into()
    })
}

/// Adds to a failure what stays all the same, and how to be rid of it.
pub(crate) fn but_stays(error: anyhow::Error, stays: &str, rid: &str) -> anyhow::Error {
    if error.is::<ReaderLeft>() {
        return error;
    }
    let exit = exit_of(&error);
    let message = match exit {
        Exit::Interrupted => "interrupted".to_owned(),
        _ => message_of(&error),
    };
    let hint = hint_of(&error).map_or_else(|| rid.to_owned(), |told| format!("{told} {rid}"));
    let problem = Problem::new(exit, format!("{message}; {stays}"));
    problem.hint(hint).into()
}

/// Whether a permission or a kernel feature is missing.
pub(crate) fn is_denied(error: &anyhow::Error) -> bool {
    exit_of(error) == Exit::Missing
}

/// Ends the program: reports a failure, and turns the outcome into an exit code.
pub(crate) fn finish(outcome: anyhow::Result<Exit>, output: &Output) -> ExitCode {
    let error = match outcome {
        Ok(exit) => return exit.code(),
        Err(error) => error,
    };
    if error.is::<ReaderLeft>() {
        return Exit::Done.code();
    }
    let exit = exit_of(&error);
    report(output.is_json(), exit, &message_of(&error), hint_of(&error));
    exit.code()
}

/// Answers a command line that clap did not take, or `--help` and `--version`.
pub(crate) fn refuse(error: &clap::Error) -> ExitCode {
    let text = plain(&error.render().ansi().to_string());
    let asked_for_json =
        std::env::args_os().any(|arg| arg == "--json" || arg == "-j" || arg == "-J");
    if error.use_stderr() && asked_for_json {
        let (message, hint) = usage_of(&plain(&error.render().to_string()));
        report(true, Exit::Usage, &message, hint);
        return Exit::Usage.code();
    }
    // The styles are clap's: `Cli::read` lets no others in.
    let text = signed(&text);
    let text = visible(&text);
    // Do not panic if the reader is gone.
    let _ = match error.use_stderr() {
        true => write!(anstream::stderr(), "{text}"),
        false => write!(anstream::stdout(), "{text}"),
    };
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// Advice in place of the standard library's message on a number or an address.
fn plain(text: &str) -> String {
    const SAID: [(&str, &str); 4] = [
        ("invalid digit found in string", "write a whole number"),
        (
            "cannot parse integer from empty string",
            "write a whole number",
        ),
        (
            "number too large to fit in target type",
            "the number is too large",
        ),
        (
            "invalid IP address syntax",
            "write an address, such as 10.0.0.9 or ::1",
        ),
    ];
    SAID.iter().fold(text.to_owned(), |text, (said, plain)| {
        text.replace(said, plain)
    })
}

/// Clap's error on a command line, in one line, and its advice. The usage and the pointer to
/// `--help` that follow are left out.
fn usage_of(text: &str) -> (String, Option<String>) {
    let text = text.split("Usage:").next().unwrap_or(text);
    let mut message = Vec::new();
    let mut hint = None;
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(tip) = line.strip_prefix("tip: ") {
            hint = Some(tip.to_owned());
        } else if !line.starts_with("For more information") {
            message.push(line);
        }
    }
    let message = message.join(" ");
    let message = message.strip_prefix("error: ").unwrap_or(&message);
    // Clap's list has the commands that are not for people, too.
    if let Some((message, _)) = message.split_once(" [subcommands:") {
        return (message.to_owned(), Some("`--help` lists them".into()));
    }
    (message.to_owned(), hint)
}

fn report(json: bool, exit: Exit, message: &str, hint: Option<String>) {
    // Nothing is left to be done where even the report cannot be written.
    let _ = if json {
        let document = json!({"error": {"code": exit.name(), "message": message, "hint": hint}});
        // A full disk under stdout is told on stderr.
        writeln!(anstream::stdout(), "{document:#}")
            .and_then(|()| anstream::stdout().flush())
            .or_else(|_| writeln!(anstream::stderr(), "{document:#}"))
    } else {
        let red = anstyle::AnsiColor::Red.on_default().bold();
        let hint = hint.map_or_else(String::new, |hint| format!("\n  {hint}"));
        let told = visible(message);
        let hint = visible(&hint);
        writeln!(anstream::stderr(), "{red}error:{red:#} {told}{hint}")
    };
}

/// The causes in one line. Some errors tell their cause themselves; it is not told twice.
fn message_of(error: &anyhow::Error) -> String {
    let mut message = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if message.is_empty() {
            message = cause;
        } else if !message.ends_with(&cause) {
            message = format!("{message}: {cause}");
        }
    }
    message
}

/// The exit code that the cause asks for.
fn exit_of(error: &anyhow::Error) -> Exit {
    for cause in error.chain() {
        if let Some(problem) = cause.downcast_ref::<Problem>() {
            return problem.exit;
        }
        if let Some(error) = cause.downcast_ref::<linux::Error>() {
            return match error {
                linux::Error::Knob(_) => Exit::Usage,
                _ if error.is_missing_privilege() => Exit::Missing,
                _ if interrupt::stopped() => Exit::Interrupted,
                _ => Exit::Failed,
            };
        }
        if cause.is::<base::UnitError>() || cause.is::<base::KnobError>() {
            return Exit::Usage;
        }
        if let Some(error) = cause.downcast_ref::<io::Error>()
            && of_file(error.kind()) != Exit::Failed
        {
            return of_file(error.kind());
        }
    }
    if interrupt::stopped() {
        Exit::Interrupted
    } else {
        Exit::Failed
    }
}

/// One rule for all files and directories that the user names, to be read or written: the wrong
/// name is wrong usage, as an unknown option is.
const fn of_file(kind: ErrorKind) -> Exit {
    match kind {
        ErrorKind::NotFound
        | ErrorKind::NotADirectory
        | ErrorKind::IsADirectory
        | ErrorKind::AlreadyExists
        | ErrorKind::InvalidFilename
        | ErrorKind::InvalidData => Exit::Usage,
        ErrorKind::PermissionDenied => Exit::Missing,
        _ => Exit::Failed,
    }
}

fn hint_of(error: &anyhow::Error) -> Option<String> {
    let told = error
        .chain()
        .find_map(|cause| cause.downcast_ref::<Problem>())
        .and_then(|problem| problem.hint.clone());
    told.or_else(|| {
        // Errors of the crate `linux` tell this themselves.
        let is_told = error.chain().any(|cause| cause.is::<linux::Error>());
        (!is_told && has_too_many_files(error))
            .then(|| "Raise the limit of open files: `ulimit -n 1024`.".into())
    })
}

/// Whether the limit of open files is the cause; both numbers are the same on all Linux machines.
fn has_too_many_files(error: &anyhow::Error) -> bool {
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| matches!(cause.raw_os_error(), Some(ENFILE | EMFILE)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn the_cause_decides_the_exit_code() {
        let check = |error: anyhow::Error, expected: Exit| {
            assert_eq!(exit_of(&error.context("while testing")), expected);
        };
        check(Problem::usage("unknown fault `nagel`").into(), Exit::Usage);
        check(
            base::find_knob("nodlay").expect_err("none").into(),
            Exit::Usage,
        );
        check(
            "5mbps".parse::<base::Rate>().expect_err("no unit").into(),
            Exit::Usage,
        );
        check(anyhow::anyhow!("the peer went away"), Exit::Failed);
        check(
            linux::Error::Unsupported {
                what: "x".into(),
                hint: "y".into(),
            }
            .into(),
            Exit::Missing,
        );
        check(linux::Error::Peer("went away".into()).into(), Exit::Failed);
        let file = |kind: ErrorKind| anyhow::Error::from(io::Error::from(kind));
        check(file(ErrorKind::NotFound), Exit::Usage);
        check(file(ErrorKind::IsADirectory), Exit::Usage);
        check(file(ErrorKind::PermissionDenied), Exit::Missing);
        check(file(ErrorKind::StorageFull), Exit::Failed);
    }

    #[test]
    fn a_cause_is_told_once() {
        let cause = || io::Error::from(io::ErrorKind::NotFound);
        let os: anyhow::Error = linux::Error::os("open x")(cause()).into();
        assert_eq!(message_of(&os), "open x: entity not found");
        let plain = anyhow::Error::from(cause()).context("reading y");
        assert_eq!(message_of(&plain), "reading y: entity not found");
    }

    #[test]
    fn what_clap_says_becomes_one_line() {
        let check = |text: &str, message: &str, hint: Option<&str>| {
            assert_eq!(usage_of(text), (message.into(), hint.map(String::from)));
        };
        check(
            "error: the following required arguments were not provided:\n  <HOST>\n\nUsage: x <HOST>\n",
            "the following required arguments were not provided: <HOST>",
            None,
        );
        check(
            "error: invalid value 'a'\n  [possible values: b]\n\n  tip: use b\n\nFor more information, try '--help'.\n",
            "invalid value 'a' [possible values: b]",
            Some("use b"),
        );
    }

    #[test]
    fn the_limit_of_open_files_comes_with_advice() {
        let of = |errno| anyhow::Error::from(io::Error::from_raw_os_error(errno)).context("x");
        assert!(hint_of(&of(24)).is_some_and(|hint| hint.contains("ulimit -n")));
        assert_eq!(hint_of(&of(2)), None);
    }

    #[test]
    fn the_hint_is_found_below_its_context() {
        let hinted: anyhow::Result<()> = Err(Problem::usage("x").hint("do y").into());
        let hint = hint_of(&hinted.context("z").expect_err("an error"));
        assert_eq!(hint.as_deref(), Some("do y"));
    }
}
