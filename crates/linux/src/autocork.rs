//! Finds the library `tcptailor-autocork`, which is preloaded into another program.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Names the library, where it does not lie beside the program.
pub const LIBRARY_VARIABLE: &str = "TCPTAILOR_AUTOCORK_LIBRARY";
/// Asks the library for its line on stderr, with any value but `0`.
pub const STATS_VARIABLE: &str = "TCPTAILOR_AUTOCORK_STATS";
/// Bounds the writes that the library holds of one connection.
pub const MAX_VARIABLE: &str = "TCPTAILOR_AUTOCORK_MAX";
/// Prefix of that line.
pub const STATS_LINE: &str = "tcptailor-autocork: ";
const LIBRARY: &str = "libtcptailor_autocork.so";
/// From the directory of the program, in the order in which they are looked at: `cargo build` puts
/// it beside the program, `cargo test` into `deps` there, and has its own programs in `deps`; then
/// an installation.
const PLACES: &[&str] = &[".", "deps", "..", "../lib", "../lib/tcptailor"];

/// Finds the library: the one that is named in [`LIBRARY_VARIABLE`], else the first of these, seen
/// from the directory of the program: `.`, `deps`, `..`, `../lib`, `../lib/tcptailor`.
///
/// # Errors
/// [`Error::NotFound`] where the one that is named is not there, [`Error::NotInstalled`] where none
/// is around the program, with how to build it.
pub fn find_library() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os(LIBRARY_VARIABLE) {
        return named_library(Path::new(&path));
    }
    let program = crate::own_program()?;
    let beside = program.parent().unwrap_or_else(|| Path::new("."));
    PLACES
        .iter()
        .map(|place| beside.join(place).join(LIBRARY))
        .find(|path| path.is_file())
        .and_then(|path| path.canonicalize().ok())
        .ok_or_else(|| Error::NotInstalled {
            what: format!("the library {LIBRARY}"),
            hint: format!(
                "`cargo build --release -p tcptailor-autocork` makes it; copy it beside this \
                 program, or name it in {LIBRARY_VARIABLE}"
            ),
        })
}

/// The library that the user named, by its whole path: the loader looks for a name without a slash
/// in its own places only, says so, and starts the program without it. Links are not followed, for
/// they lead past spaces and colons.
fn named_library(path: &Path) -> Result<PathBuf> {
    let whole = std::path::absolute(path).ok();
    whole
        .filter(|path| path.is_file())
        .ok_or_else(|| Error::NotFound {
            what: "library",
            name: path.display().to_string(),
            hint: format!("; {LIBRARY_VARIABLE} names it"),
        })
}

/// The value of `LD_PRELOAD` with `library` in front of what is preloaded already.
///
/// # Errors
/// [`Error::Refused`] where the path holds what the loader takes for the end of it: ld.so(8).
pub fn preload(library: &Path) -> Result<OsString> {
    let mut value = OsString::from(library);
    let bytes = value.as_encoded_bytes();
    let separator = [(b' ', "a space"), (b':', "a colon")]
        .into_iter()
        .find(|(byte, _)| bytes.contains(byte));
    if let Some((_, name)) = separator {
        return Err(Error::Refused {
            what: format!("preloading {}", library.display()),
            reason: format!(
                "its path has {name}, where the loader ends a path; copy or link it to a path \
                 without one and name that in {LIBRARY_VARIABLE}"
            ),
        });
    }
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        value.push(":");
        value.push(others);
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_the_loader_would_not_find_is_refused() {
        let check = |path: &str, expected: Option<&str>| {
            let value = preload(std::path::Path::new(path));
            match expected {
                None => assert!(value.is_ok(), "{value:?}"),
                Some(part) => {
                    let error = value.expect_err(path).to_string();
                    assert!(error.contains(part), "{error}");
                }
            }
        };
        check("/usr/lib/x.so", None);
        check("/opt/my programs/x.so", Some("a space"));
        check("/opt/a:b/x.so", Some("a colon"));
    }

    #[test]
    fn a_library_is_named_by_its_whole_path() {
        // Tests run in the folder of their package.
        let path = named_library(std::path::Path::new("Cargo.toml")).expect("a file");
        assert!(
            path.is_absolute() && path.ends_with("Cargo.toml"),
            "{path:?}"
        );
        for none in ["", "Cargo.tml", "src", "/nonexistent/x.so"] {
            let error = named_library(std::path::Path::new(none)).expect_err(none);
            assert!(
                error.to_string().contains("TCPTAILOR_AUTOCORK_LIBRARY"),
                "{error}"
            );
        }
    }
}
