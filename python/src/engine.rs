//! The virtual engine as a request asks for it.

use lab::Virtual;
use pyo3::prelude::*;
use stack::profile::{self, MakeProfile};

use crate::wrong;

/// As `--engine virtual` of the program is, with the stack of hosts that name none.
///
/// # Errors
/// A sentence, where there is no such stack.
pub(crate) fn engine(profile: Option<&str>) -> PyResult<Virtual> {
    let mut engine = Virtual::default();
    if let Some(name) = profile {
        engine.profile = stack_of(name)?;
    }
    Ok(engine)
}

fn stack_of(name: &str) -> PyResult<MakeProfile> {
    let known = profile::PROFILES.iter().find(|(known, _)| *known == name);
    known.map(|(_, make)| *make).ok_or_else(|| {
        let why = profile::find(name).map_or_else(
            |unknown| unknown.to_string(),
            |_| format!("`{name}` is a stack that only a scenario can name"),
        );
        wrong(why)
    })
}
