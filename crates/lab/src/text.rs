//! Times in files: written as people write them (`40ms`).

/// For `#[serde(with = "…")]` on a `Duration`.
pub mod duration {
    use core::time::Duration;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    /// Writes `40ms`.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&base::format_duration(*time))
    }

    /// Reads `40ms`.
    ///
    /// # Errors
    /// If the text is not a time, saying what to write.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        base::parse_duration(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}
