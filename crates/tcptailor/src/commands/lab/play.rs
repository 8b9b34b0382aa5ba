//! The lab in a browser: the page that this program carries, written to a file and opened.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flate2::bufread::GzDecoder;
use serde::Serialize;

use super::folder::{check_page, write_page};
use crate::exit::Exit;
use crate::output::Output;

/// `docs/play/index.html`, which `.ci/play` makes of `crates/play`; `build.rs` packs it.
const PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/play.html.gz"));
/// In the folder for temporary files.
const FOLDER: &str = "tcptailor-play";
const NAME: &str = "play.html";
/// Opens a file with the user's program for it (freedesktop.org).
const OPENER: &str = "xdg-open";

/// Turn knobs in a browser and watch TCP answer.
///
/// A page with two hosts and a path, simulated in the browser: choose the traffic, the stacks and
/// their settings, and see packets, windows, queues, what the sender waits for, and what the doctor
/// says; two variants side by side. The page is one file that loads and sends nothing, and the same
/// scenario gives the same numbers as `lab run --engine virtual`.
///
/// Without -o the page is written to a folder for temporary files and opened, where there is a
/// screen.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor lab play                  open it
  tcptailor lab play -o play.html     write it to a file, to open it elsewhere")]
pub(crate) struct Args {
    /// Write the page to this file and open nothing.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Document of `--json`.
#[derive(Debug, Serialize)]
struct Document {
    page: PathBuf,
    /// Whether a browser was asked to show it.
    opened: bool,
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<Exit> {
    let document = match &args.output {
        Some(path) => {
            check_page(Some(path))?;
            write_page(path, &page()?)?;
            Document {
                page: path.clone(),
                opened: false,
            }
        }
        None => {
            let path = own_folder()?.join(NAME);
            write_page(&path, &page()?)?;
            let opened = has_screen() && is_opened(&path);
            Document { page: path, opened }
        }
    };
    output.report("lab-play", &document, || {
        let page = document.page.display();
        match document.opened {
            true => format!("opened {page}\n"),
            false => format!("wrote {page}: open it in a browser, on any machine\n"),
        }
    })?;
    Ok(Exit::Done)
}

fn page() -> std::io::Result<String> {
    let mut page = String::new();
    GzDecoder::new(PACKED).read_to_string(&mut page)?;
    Ok(page)
}

/// A private folder for temporary files: what another user placed there could be a link to
/// somewhere.
fn own_folder() -> anyhow::Result<PathBuf> {
    let folder = tempfile::Builder::new()
        .prefix(&format!("{FOLDER}-"))
        .tempdir()?;
    Ok(folder.keep())
}

fn has_screen() -> bool {
    ["DISPLAY", "WAYLAND_DISPLAY"]
        .iter()
        .any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
}

/// Whether a browser was started to show the page. It is not waited for.
fn is_opened(page: &Path) -> bool {
    let opener = Command::new(OPENER)
        .arg(page)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    opener.is_ok_and(|status| status.success()) && fs::exists(page).unwrap_or(false)
}
