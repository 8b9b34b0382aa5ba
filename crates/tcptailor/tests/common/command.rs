//! The program as a user starts it, without what the tests' own environment would add.

use std::process::{Command, Stdio};

pub(crate) fn tcptailor(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tcptailor"));
    command
        .args(args)
        .env_remove("CLICOLOR_FORCE")
        .env_remove("TCPTAILOR_KEY")
        .stdin(Stdio::null());
    command
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}
