//! Time stamps after RFC 3339, in UTC, to the millisecond.

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;

const BYTES: usize = "1970-01-01T00:00:00.000Z".len();

/// The last stamp; within a second only its milliseconds are written again.
#[derive(Debug)]
pub(super) struct Stamp {
    second: u64,
    text: [u8; BYTES],
}

impl Default for Stamp {
    fn default() -> Self {
        Self {
            second: 0,
            text: *b"1970-01-01T00:00:00.000Z",
        }
    }
}

impl Stamp {
    /// The stamp of `now`; a time before 1970 is given as 1970.
    pub(super) fn at(&mut self, now: SystemTime) -> &[u8; BYTES] {
        let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        if since.as_secs() != self.second {
            self.second = since.as_secs();
            self.write_second();
        }
        self.write_digits(20, 3, u64::from(since.subsec_millis()));
        &self.text
    }

    fn write_second(&mut self) {
        let second = i64::try_from(self.second).unwrap_or(i64::MAX);
        // Only after the year 9999 there is no time, or no room for it.
        let time = Timestamp::from_second(second).unwrap_or(Timestamp::MAX);
        let text = format!("{time:.3}");
        if let Ok(text) = text.as_bytes().try_into() {
            self.text = text;
        }
    }

    fn write_digits(&mut self, at: usize, digits: usize, mut value: u64) {
        for digit in self.text[at..at + digits].iter_mut().rev() {
            *digit = b'0' + (value % 10) as u8;
            value /= 10;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::Stamp;

    #[test]
    fn stamps_are_dates_in_utc() {
        let mut stamp = Stamp::default();
        for (millisecond, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (7, "1970-01-01T00:00:00.007Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_800_000, "2000-03-01T00:00:00.000Z"),
            (1_709_164_800_120, "2024-02-29T00:00:00.120Z"),
            (1_735_689_599_999, "2024-12-31T23:59:59.999Z"),
            (1_735_689_600_000, "2025-01-01T00:00:00.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (1_735_689_600_001, "2025-01-01T00:00:00.001Z"),
        ] {
            let now = UNIX_EPOCH + Duration::from_millis(millisecond);
            assert_eq!(stamp.at(now), text.as_bytes(), "{text}");
        }
        assert_eq!(
            stamp.at(UNIX_EPOCH - Duration::from_secs(1)),
            b"1970-01-01T00:00:00.000Z"
        );
    }
}
