//! Lengths of time as people write them, in flags and in the lab's files: `30s`, `2m`, `500ms`, or seconds without a
//! unit, as in the server's settings.

use std::time::Duration;

use serde::{Deserialize as _, Deserializer, Serializer};

/// Units in milliseconds, the largest first.
const UNITS: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Reads a length of time; it is longer than nothing.
///
/// # Errors
/// What is wrong with it, and what it should look like.
pub fn parse(text: &str) -> Result<Duration, String> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, unit) = (&text[..end], text[end..].trim_start());
    let unit = if unit.is_empty() { "s" } else { unit };
    let factor = UNITS.iter().find(|(name, _)| *name == unit);
    let number: Option<u64> = digits.parse().ok();
    number
        .zip(factor)
        .and_then(|(number, (_, factor))| number.checked_mul(*factor))
        .filter(|milliseconds| *milliseconds > 0)
        .map(Duration::from_millis)
        .ok_or_else(|| {
            format!("{text:?} is no length of time; write 30s, 2m, 500ms or 1h, without a fraction")
        })
}

/// Writes it in the largest unit that leaves no remainder; less than a millisecond is lost.
pub fn text(time: Duration) -> String {
    let milliseconds = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    UNITS
        .iter()
        .find(|(_, factor)| milliseconds >= *factor && milliseconds.is_multiple_of(*factor))
        .map_or_else(
            || "0s".to_owned(),
            |(name, factor)| format!("{}{name}", milliseconds / factor),
        )
}

/// For `#[serde(with = "duration")]`.
///
/// # Errors
/// The serializer's own.
pub fn serialize<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&text(*time))
}

/// For `#[serde(with = "duration")]`.
///
/// # Errors
/// It is no text, or none that [`parse`] reads.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    parse(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
}

/// The same for a time that may be absent: `#[serde(with = "duration::option")]`.
pub mod option {
    use super::{Deserializer, Duration, Serializer};

    /// As [`super::serialize`].
    ///
    /// # Errors
    /// The serializer's own.
    pub fn serialize<S: Serializer>(
        time: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => super::serialize(time, serializer),
            None => serializer.serialize_none(),
        }
    }

    /// As [`super::deserialize`].
    ///
    /// # Errors
    /// It is no text, or no length of time.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        super::deserialize(deserializer).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_read_and_written_back() {
        let check = |given: &str, milliseconds: u64, written: &str| {
            let time = parse(given).unwrap();
            assert_eq!(time, Duration::from_millis(milliseconds), "{given}");
            assert_eq!(text(time), written);
        };
        check("30s", 30_000, "30s");
        check("30", 30_000, "30s");
        check("2m", 120_000, "2m");
        check("90 s", 90_000, "90s");
        check("500ms", 500, "500ms");
        check("1h", 3_600_000, "1h");
    }

    #[test]
    fn what_is_no_length_of_time_is_refused() {
        for given in [
            "",
            "0",
            "0s",
            "1.5s",
            "-1s",
            "s",
            "1d",
            "99999999999999999h",
        ] {
            let error = parse(given).unwrap_err();
            assert!(error.contains("30s"), "{given}: {error}");
        }
    }
}
