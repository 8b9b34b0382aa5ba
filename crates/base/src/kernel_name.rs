//! Short names that kernels give, held in place: a sample of a connection has one, and thousands of
//! samples are taken a second.

use core::fmt;
use core::ops::Deref;

/// Linux `TCP_CA_NAME_MAX` and `TCP_ULP_NAME_MAX` are 16, with the zero at the end.
const BYTES_MAX: usize = 15;

/// The name of a congestion control, or of what a kernel runs above TCP, such as `cubic`: at most
/// 15 bytes of UTF-8.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KernelName {
    bytes: [u8; BYTES_MAX],
    length: u8,
}

impl KernelName {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..usize::from(self.length)]).unwrap_or_default()
    }
}

impl From<&str> for KernelName {
    /// Truncates names longer than the kernel's limit.
    fn from(name: &str) -> Self {
        let fits = |length: &usize| name.is_char_boundary(*length);
        let length = (0..=BYTES_MAX.min(name.len())).rev().find(fits);
        let length = length.expect("there is a boundary before the first character");
        let mut bytes = [0; BYTES_MAX];
        bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
        Self {
            bytes,
            length: length as u8,
        }
    }
}

impl Deref for KernelName {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Display for KernelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl fmt::Debug for KernelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for KernelName {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for KernelName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = alloc::string::String::deserialize(deserializer)?;
        Ok(name.as_str().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_kept_and_one_that_is_too_long_cut_between_characters() {
        for (given, kept) in [
            ("", ""),
            ("bbr", "bbr"),
            ("fifteen-letters", "fifteen-letters"),
            ("sixteen-letters-", "sixteen-letters"),
            ("fourteen-bytes\u{e9}", "fourteen-bytes"),
        ] {
            let name = KernelName::from(given);
            assert_eq!(&*name, kept);
            assert_eq!(name == KernelName::from("bbr"), given == "bbr");
        }
    }
}
