//! A manual page for each command, made from the definitions of the help.

use std::path::PathBuf;

use anyhow::Context;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::cli;
use crate::exit::Exit;
use crate::{help, output};

/// Beginning of a page that may be replaced.
const MARK: &str = ".TH tcptailor";
/// Columns left of 80 by the indent of man(1).
const COLUMNS: usize = 72;

/// Write the manual pages of all commands.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor man-pages ~/.local/share/man/man1     for `man tcptailor` and `man tcptailor-fit`")]
pub(crate) struct Args {
    /// Directory that they are written into, made where it is missing.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let directory = &args.directory;
    std::fs::create_dir_all(directory)
        .with_context(|| format!("making {}", directory.display()))?;
    let mut command = cli::published();
    command.build();
    for (name, text) in pages(&command)? {
        output::write_result(&directory.join(name), &text, MARK)?;
    }
    Ok(Exit::Done)
}

/// File names and texts of the pages of a command, which was built, and of those below it.
fn pages(command: &clap::Command) -> anyhow::Result<Vec<(String, String)>> {
    let mut pages = vec![page(command)?];
    for below in command.get_subcommands() {
        pages.extend(self::pages(below)?);
    }
    Ok(pages)
}

fn page(command: &clap::Command) -> anyhow::Result<(String, String)> {
    let version = env!("CARGO_PKG_VERSION");
    let man = Man::new(command.clone())
        .source(format!("tcptailor {version}"))
        .manual("TCP performance");
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut text)?;
    }
    if let Some(after) = command.get_after_help() {
        let after = help::laid_out(&after.to_string(), COLUMNS);
        after_help(&after).to_writer(&mut text)?;
    }
    Ok((man.get_filename(), String::from_utf8(text)?))
}

/// Text below the options in the help: titles above preformatted lines, and paragraphs.
fn after_help(text: &str) -> Roff {
    let mut roff = Roff::new();
    for part in text.split("\n\n") {
        match part.split_once(":\n") {
            Some((title, lines)) if !title.contains('\n') => {
                roff.control("SH", [title.to_uppercase().as_str()]);
                roff.control("nf", []);
                for line in lines.lines() {
                    roff.text([roman(line)]);
                }
                roff.control("fi", []);
            }
            _ => {
                roff.control("SH", ["NOTES"]);
                roff.text([roman(part)]);
            }
        }
    }
    roff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_a_page_with_its_options_and_examples() {
        let mut command = cli::published();
        command.build();
        let pages = pages(&command).unwrap();
        let text = |name: &str| {
            let page = pages.iter().find(|(file, _)| file == name);
            page.map(|(_, text)| text.as_str()).unwrap_or_default()
        };
        assert!(text("tcptailor.1").contains("tcptailor\\-fit(1)"));
        assert!(text("tcptailor.1").contains(".SH \"EXIT CODES\""));
        assert!(text("tcptailor-fit.1").contains("\\-\\-max\\-time"));
        assert!(text("tcptailor-fit.1").contains(".SH EXAMPLES\n.nf\n"));
        assert!(text("tcptailor-lab-run.1").contains("\\-\\-engine"));
        for (name, text) in &pages {
            assert!(text.contains(MARK), "{name} could not be written twice");
            assert!(
                !text.contains("man\\-pages"),
                "{name} tells of a hidden command"
            );
        }
    }
}
