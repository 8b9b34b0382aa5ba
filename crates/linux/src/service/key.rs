//! The key that both ends hold: 128 random bits, made here and never chosen by people, so that no
//! recorded conversation helps anyone to guess it.

use std::fmt;
use std::str::FromStr;

use super::protocol::Nonce;
use crate::error::Result;

/// Bytes of a key.
const KEY_BYTES: usize = 16;
/// Fills a key up to the 32 bytes that Noise asks for. It passes through a hash there.
const PADDING: &[u8; 16] = b"tcptailor serve\0";

/// A key that both ends were given, such as `8f1c-02d4-…`: 32 hexadecimal digits.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; KEY_BYTES]);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// In groups of four digits, as people read them to each other.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, pair) in self.0.chunks(2).enumerate() {
            let dash = if index > 0 { "-" } else { "" };
            write!(f, "{dash}{:02x}{:02x}", pair[0], pair[1])?;
        }
        Ok(())
    }
}

impl FromStr for Key {
    type Err = String;

    /// Reads a key; dashes and blanks do not matter.
    fn from_str(text: &str) -> Result<Self, String> {
        let digits: Option<Vec<u8>> = text
            .chars()
            .filter(|letter| !letter.is_whitespace() && *letter != '-')
            .map(|letter| letter.to_digit(16).map(|digit| digit as u8))
            .collect();
        let digits = digits.filter(|digits| digits.len() == 2 * KEY_BYTES);
        let Some(digits) = digits else {
            return Err(
                "not a key: a key is 32 hexadecimal digits, as `tcptailor serve` prints them"
                    .into(),
            );
        };
        let mut key = [0; KEY_BYTES];
        for (byte, pair) in key.iter_mut().zip(digits.chunks(2)) {
            *byte = pair[0] << 4 | pair[1];
        }
        Ok(Self(key))
    }
}

impl Key {
    /// A new key of the kernel's random numbers.
    ///
    /// # Errors
    /// Where the kernel gives none.
    pub fn random() -> Result<Self> {
        Nonce::random().map(|nonce| Self(nonce.0))
    }

    /// The pre-shared key of Noise; without a key, a public constant.
    pub(super) fn psk(key: Option<&Self>) -> [u8; 32] {
        let mut psk = [0; 32];
        if let Some(Self(bytes)) = key {
            psk[..KEY_BYTES].copy_from_slice(bytes);
        }
        psk[KEY_BYTES..].copy_from_slice(PADDING);
        psk
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_reads_back_and_nothing_else_is_one() {
        let key = Key::random().expect("random");
        let shown = key.to_string();
        assert_eq!((shown.len(), shown.matches('-').count()), (39, 7));
        for form in [
            shown.clone(),
            shown.replace('-', ""),
            format!(" {}\n", shown.to_uppercase()),
        ] {
            assert_eq!(form.parse(), Ok(key.clone()), "{form}");
        }
        let long = format!("{shown}0");
        for bad in [
            "",
            "correct horse",
            &shown[1..],
            &long,
            &shown.replace('-', "g"),
        ] {
            let message = bad.parse::<Key>().expect_err(bad);
            assert!(message.contains("32 hexadecimal digits"), "{message}");
        }
        assert_ne!(Key::random().expect("random"), key);
        assert!(!format!("{key:?}").contains(&shown[..4]));
    }

    #[test]
    fn each_key_is_another_secret() {
        let [one, other] = [(); 2].map(|()| Key::random().expect("random"));
        assert_ne!(Key::psk(Some(&one)), Key::psk(Some(&other)));
        assert_ne!(Key::psk(Some(&one)), Key::psk(None));
    }
}
