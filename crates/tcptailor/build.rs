//! Packs the page of the lab in a browser, by which the program would be a quarter of a megabyte
//! larger: the engine stands in it as letters, each of which has six bits of eight.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

const PAGE: &str = "../../docs/play/index.html";

fn main() -> io::Result<()> {
    writeln!(io::stdout(), "cargo::rerun-if-changed={PAGE}")?;
    let folder = std::env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?;
    let to = File::create(Path::new(&folder).join("play.html.gz"))?;
    let mut packed = GzEncoder::new(to, Compression::best());
    packed.write_all(&fs::read(PAGE)?)?;
    packed.finish()?;
    Ok(())
}
