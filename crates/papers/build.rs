//! Packs the scenarios of the experiments, by whose texts the program would be an eighth of a
//! megabyte larger.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

const SCENARIOS: &str = "../../scenarios";
/// What the other scenarios do not have.
const EXPERIMENT: &str = "\n[experiment]\n";

fn main() -> io::Result<()> {
    writeln!(io::stdout(), "cargo::rerun-if-changed={SCENARIOS}")?;
    let folder = std::env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?;
    let to = File::create(Path::new(&folder).join("experiments.gz"))?;
    let mut packed = GzEncoder::new(to, Compression::best());
    let files: io::Result<Vec<_>> = fs::read_dir(SCENARIOS)?.collect();
    let mut files: Vec<_> = files?.into_iter().map(|file| file.path()).collect();
    files.sort();
    for file in files {
        let text = fs::read_to_string(&file)?;
        if let Some(name) = file.file_stem().and_then(|name| name.to_str())
            && text.contains(EXPERIMENT)
        {
            // Neither a name nor a text has a zero in it.
            write!(packed, "{name}\0{text}\0")?;
        }
    }
    packed.finish()?;
    Ok(())
}
