//! Each check takes arbitrary bytes and panics where something is wrong.

pub(crate) mod host;
mod input;
pub(crate) mod options;
pub(crate) mod wire;
