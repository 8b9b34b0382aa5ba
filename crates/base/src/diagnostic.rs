//! Errors in files that people write, with their positions.

use alloc::string::String;
use core::fmt;

/// One mistake in a text that a user wrote. [`fmt::Display`] prints `file:line:column: message`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Diagnostic {
    /// The file, or the option; of `runs`, which several options set, the key.
    pub file: String,
    /// From 1; 0 where there is no file.
    pub line: u32,
    /// In characters, from 1; 0 where there is no file.
    pub column: u32,
    /// The problem, and what to write instead.
    pub message: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            file,
            line,
            column,
            message,
        } = self;
        match line {
            0 => write!(f, "{file}: {message}"),
            _ => write!(f, "{file}:{line}:{column}: {message}"),
        }
    }
}

impl core::error::Error for Diagnostic {}
