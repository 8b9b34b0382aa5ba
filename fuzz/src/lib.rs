//! What the fuzz targets check, one function for each: `cargo +nightly fuzz run wire`, with
//! cargo-fuzz. The corpora are replayed by ordinary tests as well, of the crates `stack` and
//! `capture`.

mod captures;
mod checks;

/// See [`captures::file`].
pub fn capture(bytes: &[u8]) {
    captures::file::check(bytes);
}

/// See [`captures::segments`].
pub fn segments(bytes: &[u8]) {
    captures::segments::check(bytes);
}

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
