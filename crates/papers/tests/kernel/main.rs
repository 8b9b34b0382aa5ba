//! What meets the kernel of this machine: the sample programs, probes, and the calls of `NetBurner`
//! on a TUN device. Each says what it leaves out where a permission is missing.

#[path = "../../../linux/tests/asking/mod.rs"]
mod asking;
mod netburner;
mod nodelay;
mod probes;
