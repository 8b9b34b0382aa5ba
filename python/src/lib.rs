//! The part of the Python package `tcptailor` that is not Python.
//!
//! Each call takes a request and gives its answer as JSON, in the words that `--json` of the
//! program has: what becomes of them for Python is written in Python. While a call works, other
//! threads of Python go on, and a signal such as Ctrl-C ends it.

mod diagnose;
mod engine;
mod pool;
mod predict;
mod run;
mod sweep;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::de::DeserializeOwned;

/// See `_native.pyi`.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("VERSION", env!("CARGO_PKG_VERSION"))?;
    module.add_function(wrap_pyfunction!(run::scenarios, module)?)?;
    module.add_function(wrap_pyfunction!(run::scenario_text, module)?)?;
    module.add_function(wrap_pyfunction!(run::run, module)?)?;
    module.add_function(wrap_pyfunction!(sweep::sweep, module)?)?;
    module.add_function(wrap_pyfunction!(diagnose::diagnose, module)?)?;
    module.add_function(wrap_pyfunction!(predict::predict, module)?)
}

/// What Python asks for.
fn request<T: DeserializeOwned>(text: &str) -> PyResult<T> {
    serde_json::from_str(text).map_err(|error| wrong(format!("not a request: {error}")))
}

/// What is wrong with what the user asked for, in a sentence.
fn wrong(why: impl Into<String>) -> PyErr {
    PyValueError::new_err(why.into())
}

/// What is wrong with a scenario, a line each.
fn mistakes(diagnostics: &[base::Diagnostic]) -> PyErr {
    let lines: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
    wrong(lines.join("\n"))
}
