//! What the fuzz targets check, one function for each: `cargo +nightly fuzz run wire`, with
//! cargo-fuzz. The corpora are replayed by an ordinary test of the crate `stack` as well.

mod checks;

/// See [`checks::options`].
pub fn options(bytes: &[u8]) {
    checks::options::check(bytes);
}

/// See [`checks::wire`].
pub fn wire(bytes: &[u8]) {
    checks::wire::check(bytes);
}

/// See [`checks::host`].
pub fn host(bytes: &[u8]) {
    checks::host::check(bytes);
}
