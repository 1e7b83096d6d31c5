//! The setting for HTTP Strict Transport Security (RFC 6797). It sends nothing.

use std::fmt;

/// The forms of the setting, in words that follow "expected".
pub(crate) const ALLOWED: &str = "a time such as \"2y\", \"180d\" or \"3600\" (seconds), and after semicolons \"includeSubDomains\" and \"preload\" as wanted";

/// Units of the time, in seconds.
const UNITS: [(char, u64); 6] = [
    ('y', 365 * 24 * 3600),
    ('w', 7 * 24 * 3600),
    ('d', 24 * 3600),
    ('h', 3600),
    ('m', 60),
    ('s', 1),
];

/// What browsers are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hsts {
    text: String,
    header: String,
}

impl Hsts {
    /// Reads the setting; none where it is wrong.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let time = parts.next()?;
        let unit = UNITS.iter().find(|(unit, _)| time.ends_with(*unit));
        let (digits, factor) = match unit {
            Some((unit, factor)) => (time.strip_suffix(*unit)?, *factor),
            None => (time, 1),
        };
        let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let seconds = plain.then(|| digits.parse::<u32>().ok()).flatten()?;
        let mut header = format!("max-age={}", u64::from(seconds) * factor);
        let mut known = vec!["includeSubDomains", "preload"];
        for part in parts {
            let at = known
                .iter()
                .position(|word| word.eq_ignore_ascii_case(part))?;
            header += "; ";
            header += known.remove(at);
        }
        Some(Self {
            text: text.to_owned(),
            header,
        })
    }

    /// The value of the field `Strict-Transport-Security`.
    pub fn header(&self) -> &str {
        &self.header
    }
}

impl fmt::Display for Hsts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_becomes_the_field() {
        let check = |text: &str, expect: Option<&str>| {
            let read = Hsts::parse(text);
            assert_eq!(read.as_ref().map(Hsts::header), expect, "{text:?}");
        };
        check("2y", Some("max-age=63072000"));
        check("0", Some("max-age=0"));
        check(
            "180d;includesubdomains",
            Some("max-age=15552000; includeSubDomains"),
        );
        let all = "max-age=63072000; includeSubDomains; preload";
        check("2y; includeSubDomains; preload", Some(all));
        check("", None);
        check("y", None);
        check("-1", None);
        check("1 y", None);
        check("2y;", None);
        check("2y; preload; preload", None);
        check("2y; other\r\n", None);
        check("99999999999", None);
    }
}
