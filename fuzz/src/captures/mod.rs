//! Each check takes arbitrary bytes and panics where something is wrong.

pub(crate) mod file;
#[path = "../checks/input.rs"]
mod input;
mod judged;
pub(crate) mod segments;
