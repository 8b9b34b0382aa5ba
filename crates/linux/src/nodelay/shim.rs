//! Where the library `tcptailor-autocork` is, to be preloaded into another program.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Names the library, where it does not lie beside the program.
pub const LIBRARY_VARIABLE: &str = "TCPTAILOR_AUTOCORK_LIBRARY";
const LIBRARY: &str = "libtcptailor_autocork.so";
/// From the directory of the program: a build, the directory of a test, an installation.
const PLACES: &[&str] = &[".", "deps", "..", "../lib", "../lib/tcptailor"];

/// Finds the library: the one that is named in [`LIBRARY_VARIABLE`], else the newest of those
/// around the program.
///
/// # Errors
/// [`Error::Unsupported`] where there is none, with how to build it.
pub fn find_library() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os(LIBRARY_VARIABLE) {
        let path = PathBuf::from(path);
        return if path.is_file() {
            Ok(path)
        } else {
            Err(Error::NotFound {
                what: "library",
                name: path.display().to_string(),
                hint: format!("; {LIBRARY_VARIABLE} names it"),
            })
        };
    }
    let program = crate::own_program()?;
    let beside = program.parent().unwrap_or_else(|| Path::new("."));
    PLACES
        .iter()
        .map(|place| beside.join(place).join(LIBRARY))
        .filter_map(|path| Some((path.metadata().ok()?.modified().ok()?, path)))
        .max_by_key(|(modified, _)| *modified)
        .and_then(|(_, path)| path.canonicalize().ok())
        .ok_or_else(|| Error::Unsupported {
            what: format!("{LIBRARY} is not beside this program; preloading it"),
            hint: format!(
                "`cargo build --release -p tcptailor-autocork` makes it; copy it beside the \
                 program, or name it in {LIBRARY_VARIABLE}"
            ),
        })
}

/// The value of `LD_PRELOAD` with `library` in front of what is preloaded already.
#[must_use]
pub fn preload(library: &Path) -> OsString {
    let mut value = OsString::from(library);
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        value.push(":");
        value.push(others);
    }
    value
}
