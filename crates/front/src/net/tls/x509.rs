//! What a certificate says of itself (RFC 5280). It checks nothing.

use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// Seconds of a day.
const DAY_S: i64 = 24 * 3600;
/// So many days before its end a certificate should have been replaced.
const WARN_DAYS: i64 = 14;

/// A certificate that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is not a certificate (X.509)")]
pub struct Unreadable;

/// What a certificate says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Details {
    /// Its subject (RFC 4514), without control characters.
    pub subject: String,
    /// The hosts that it is for, in lower case; wildcards too. Where it lists none, the name of its subject.
    pub names: Vec<String>,
    /// When it begins to be valid, in seconds since 1970.
    pub begins: i64,
    /// When it ends, in seconds since 1970.
    pub ends: i64,
}

impl Details {
    /// The day on which it ends, such as `2026-11-22`.
    pub fn last_day(&self) -> String {
        let end = jiff::Timestamp::from_second(self.ends);
        end.map_or_else(
            |_| "never".to_owned(),
            |end| end.strftime("%Y-%m-%d").to_string(),
        )
    }

    /// What is wrong with it at `now`, in seconds since 1970, or will be soon.
    pub fn warning(&self, now: i64) -> Option<String> {
        let days = (self.ends - now) / DAY_S;
        match () {
            () if now >= self.ends => Some(format!("it ended on {}", self.last_day())),
            () if now < self.begins => Some("it is not valid yet".to_owned()),
            () if days < WARN_DAYS => {
                Some(format!("it ends in {days} days, on {}", self.last_day()))
            }
            () => None,
        }
    }

    /// Reads a certificate in DER.
    ///
    /// # Errors
    /// It is none.
    pub fn of(der: &[u8]) -> Result<Self, Unreadable> {
        let (_, read) = X509Certificate::from_der(der).map_err(|_| Unreadable)?;
        let validity = read.validity();
        Ok(Self {
            subject: printable(&read.subject().to_string()),
            names: names(&read),
            begins: validity.not_before.timestamp(),
            ends: validity.not_after.timestamp(),
        })
    }
}

fn names(read: &X509Certificate<'_>) -> Vec<String> {
    let listed = read.subject_alternative_name().ok().flatten();
    let mut names: Vec<String> = Vec::new();
    for name in listed.iter().flat_map(|list| &list.value.general_names) {
        if let GeneralName::DNSName(name) = name {
            names.push(name.to_ascii_lowercase());
        }
    }
    if names.is_empty() {
        let common = read.subject().iter_common_name().next();
        let common = common.and_then(|name| name.as_str().ok());
        names.extend(common.map(str::to_ascii_lowercase));
    }
    names.retain(|name| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic()));
    names
}

/// A text without control characters, which could begin a new line in a log.
fn printable(text: &str) -> String {
    text.chars()
        .map(|one| if one.is_control() { '?' } else { one })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_warned_of_before_and_after_its_end() {
        let details = Details {
            subject: String::new(),
            names: Vec::new(),
            begins: 1_000_000_000,
            ends: 1_000_000_000 + 90 * DAY_S,
        };
        let check = |now: i64, expect: Option<&str>| {
            let warning = details.warning(1_000_000_000 + now);
            assert_eq!(warning.as_deref(), expect, "{now}");
        };
        check(-1, Some("it is not valid yet"));
        check(0, None);
        check(76 * DAY_S, None);
        check(77 * DAY_S, Some("it ends in 13 days, on 2001-12-08"));
        check(90 * DAY_S, Some("it ended on 2001-12-08"));
    }
}
