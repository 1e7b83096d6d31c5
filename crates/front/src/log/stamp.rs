//! Time stamps after RFC 3339, in UTC, to the millisecond.

use std::time::{SystemTime, UNIX_EPOCH};

const BYTES: usize = "1970-01-01T00:00:00.000Z".len();

/// The last stamp; within a second only its milliseconds are written anew.
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
        let (year, month, day) = date(self.second / 86400);
        let second = self.second % 86400;
        let parts = [
            (0, 4, year),
            (5, 2, month),
            (8, 2, day),
            (11, 2, second / 3600),
            (14, 2, second / 60 % 60),
            (17, 2, second % 60),
        ];
        for (at, digits, value) in parts {
            self.write_digits(at, digits, value);
        }
    }

    fn write_digits(&mut self, at: usize, digits: usize, mut value: u64) {
        for digit in self.text[at..at + digits].iter_mut().rev() {
            *digit = b'0' + (value % 10) as u8;
            value /= 10;
        }
    }
}

/// Year, month and day of a day since 1970, by counting from 1 March of the year 0, where a leap day comes
/// last: 146097 days are 400 years, and months from March on repeat 153 days every five.
fn date(day: u64) -> (u64, u64, u64) {
    let day = day + 719_468;
    let era = day / 146_097;
    let day_of_era = day % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    (
        era * 400 + year_of_era + u64::from(month <= 2),
        month,
        day_of_month,
    )
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
