//! Shell completions, generated from the definitions of the help.

use clap::ValueEnum;
use clap_complete::generate;
use clap_complete::shells::{Bash, Fish, Zsh};

use crate::cli;
use crate::exit::Exit;
use crate::output::Output;

/// Print a script that completes tcptailor's command line.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor completions bash > ~/.local/share/bash-completion/completions/tcptailor
  tcptailor completions zsh > ~/.zfunc/_tcptailor     a directory that is in `fpath`
  tcptailor completions fish > ~/.config/fish/completions/tcptailor.fish")]
pub(crate) struct Args {
    /// For which shell.
    shell: Shell,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<Exit> {
    output.print(&script(args.shell))?;
    Ok(Exit::Done)
}

fn script(shell: Shell) -> String {
    let mut command = cli::published();
    let mut script = Vec::new();
    match shell {
        Shell::Bash => generate(Bash, &mut command, "tcptailor", &mut script),
        Shell::Zsh => generate(Zsh, &mut command, "tcptailor", &mut script),
        Shell::Fish => generate(Fish, &mut command, "tcptailor", &mut script),
    }
    String::from_utf8_lossy(&script).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shell_knows_each_command_and_none_that_is_hidden() {
        let mut whole = cli::published();
        whole.build();
        for shell in Shell::value_variants() {
            let script = script(*shell);
            for name in whole.get_subcommands().map(clap::Command::get_name) {
                assert!(script.contains(name), "{shell:?}: {name}");
            }
            assert!(script.contains("reproduce"), "{shell:?}: commands of `lab`");
            for hidden in ["man-pages", "guard"] {
                assert!(!script.contains(hidden), "{shell:?}: {hidden}");
            }
        }
    }
}
