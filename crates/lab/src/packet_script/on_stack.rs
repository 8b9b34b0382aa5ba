//! Scripts on our own stack, in virtual time.
/// To come.
#[derive(Debug)]
pub struct StackHost;
