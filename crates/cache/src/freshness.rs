//! How long a response may be used without asking again (RFC 9111 section 4.2).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::header;
use http::{HeaderMap, StatusCode};

use crate::control::{ResponseControl, seconds};

/// Without any word of the application a response is fresh for a tenth of the time since it was last changed (RFC 9111
/// section 4.2.2), and for a day at most, in seconds.
const MAX_HEURISTIC_S: u64 = 24 * 3600;

/// How old a response was when it came, and for how long it is fresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freshness {
    /// When it came: seconds since 1970.
    pub received_s: u64,
    /// How old it was then, in seconds.
    pub initial_age_s: u64,
    /// For how long it is fresh, from when it was made, in seconds.
    pub lifetime_s: u64,
    /// Seconds after that in which it may be used while it is validated.
    pub while_revalidate_s: u64,
    /// Seconds after that in which it may be used where the application fails.
    pub if_error_s: u64,
}

impl Freshness {
    /// Computes it from the response's fields; `asked` and `received` are when its request went out and it came.
    pub fn of(
        status: StatusCode,
        fields: &HeaderMap,
        control: &ResponseControl,
        asked: SystemTime,
        received: SystemTime,
    ) -> Self {
        let received_s = since_1970(received);
        let made_s = date(fields, header::DATE).unwrap_or(received_s);
        let apparent = received_s.saturating_sub(made_s);
        let delay = received.duration_since(asked).unwrap_or(Duration::ZERO);
        let (age, sound) = age_of(fields);
        let lifetime = match sound {
            true => lifetime(status, fields, control, made_s),
            false => 0,
        };
        Self {
            received_s,
            initial_age_s: apparent.max(age.saturating_add(delay.as_secs())),
            lifetime_s: lifetime,
            while_revalidate_s: control.stale_while_revalidate.unwrap_or(0),
            if_error_s: control.stale_if_error.unwrap_or(0),
        }
    }

    /// Its age, in seconds.
    pub fn age_s(&self, now: SystemTime) -> u64 {
        let resident = since_1970(now).saturating_sub(self.received_s);
        self.initial_age_s.saturating_add(resident)
    }

    /// For how many seconds it has been stale; none while it is fresh.
    pub fn stale_for_s(&self, now: SystemTime) -> Option<u64> {
        let age = self.age_s(now);
        (age >= self.lifetime_s).then(|| age - self.lifetime_s)
    }

    /// Makes it stale from `now` on.
    pub fn expire(&mut self, now: SystemTime) {
        self.lifetime_s = self.lifetime_s.min(self.age_s(now));
    }
}

/// What `Age` says, and whether it can be believed: an age that is no number makes the response stale.
fn age_of(fields: &HeaderMap) -> (u64, bool) {
    let mut lines = fields.get_all(header::AGE).iter();
    let Some(line) = lines.next() else {
        return (0, true);
    };
    // Of a list the first member counts (RFC 9111 section 5.1); several lines are of several minds.
    let first = line.to_str().ok().and_then(|text| text.split(',').next());
    match first.and_then(|first| seconds(first.trim())) {
        Some(age) if lines.next().is_none() => (age, true),
        _ => (0, false),
    }
}

/// For how long it is fresh, in seconds: the first of `s-maxage`, `max-age`, `Expires` and a guess.
fn lifetime(status: StatusCode, fields: &HeaderMap, control: &ResponseControl, made_s: u64) -> u64 {
    if let Some(expires_s) = control.expires_s {
        return expires_s.saturating_sub(made_s);
    }
    if let Some(seconds) = control.s_maxage.or(control.max_age) {
        return seconds;
    }
    if control.targeted {
        return 0;
    }
    if fields.contains_key(header::EXPIRES) {
        // What is no date, such as 0, is over already (RFC 9111 section 5.3).
        let expires = only(fields, header::EXPIRES).and_then(|text| parse_date(&text));
        return expires.unwrap_or(0).saturating_sub(made_s);
    }
    if !control.public && !is_heuristically_cacheable(status) {
        return 0;
    }
    let modified = date(fields, header::LAST_MODIFIED);
    modified.map_or(0, |modified| {
        (made_s.saturating_sub(modified) / 10).min(MAX_HEURISTIC_S)
    })
}

/// Statuses that may be stored without a word of the application (RFC 9110 section 15.1).
pub(crate) fn is_heuristically_cacheable(status: StatusCode) -> bool {
    matches!(
        status.as_u16(),
        200 | 203 | 204 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501
    )
}

/// The value of a field that may be there once only.
fn only(fields: &HeaderMap, name: header::HeaderName) -> Option<String> {
    let mut all = fields.get_all(name).iter();
    let first = all.next()?;
    if all.any(|other| other != first) {
        return None;
    }
    first.to_str().ok().map(str::to_owned)
}

/// A field that is a date: seconds since 1970.
pub(crate) fn date(fields: &HeaderMap, name: header::HeaderName) -> Option<u64> {
    parse_date(fields.get(name)?.to_str().ok()?)
}

/// A date in any of the three forms (RFC 9110 section 5.6.7): seconds since 1970. It is read in small and capital letters, and
/// with `UTC` for `GMT` (RFC 9111 section 4.2); the name of the day says nothing that the date does not.
fn parse_date(text: &str) -> Option<u64> {
    let read = |text: &str| httpdate::parse_http_date(text).ok().map(since_1970);
    read(text).or_else(|| {
        let text = usual_letters(text);
        let text = text
            .strip_suffix("UTC")
            .map_or(text.clone(), |date| format!("{date}GMT"));
        let (day, rest) = text.split_at_checked(text.find([',', ' '])?)?;
        let all: &[&str] = match day.len() {
            3 => &["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"],
            _ => &[
                "Monday",
                "Tuesday",
                "Wednesday",
                "Thursday",
                "Friday",
                "Saturday",
                "Sunday",
            ],
        };
        all.contains(&day).then_some(())?;
        all.iter().find_map(|day| read(&format!("{day}{rest}")))
    })
}

/// A date with its letters as httpdate wants them: zones in capital letters, other words with the first one.
fn usual_letters(text: &str) -> String {
    let mut usual = text.to_ascii_lowercase();
    let mut in_word = false;
    for at in 0..usual.len() {
        let is_letter = usual.as_bytes()[at].is_ascii_alphabetic();
        if is_letter && !in_word {
            // One byte of ASCII.
            if let Some(letter) = usual.get_mut(at..=at) {
                letter.make_ascii_uppercase();
            }
        }
        in_word = is_letter;
    }
    let zone = usual.len().saturating_sub(3);
    if let Some(zone) = usual
        .get_mut(zone..)
        .filter(|zone| matches!(&**zone, "Gmt" | "Utc"))
    {
        zone.make_ascii_uppercase();
    }
    usual
}

fn since_1970(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn freshness(lines: &[(&'static str, String)]) -> Freshness {
        let fields: HeaderMap = lines
            .iter()
            .map(|(name, value)| {
                let value = HeaderValue::from_str(value).expect("a value");
                (header::HeaderName::from_static(name), value)
            })
            .collect();
        let control = ResponseControl::of(&fields);
        Freshness::of(StatusCode::OK, &fields, &control, at(1000), at(1000))
    }

    fn line(name: &'static str, value: &str) -> (&'static str, String) {
        (name, value.to_owned())
    }

    #[test]
    fn the_age_counts_from_when_the_response_was_made() {
        let date = httpdate::fmt_http_date(at(990));
        let fresh = freshness(&[("date", date), line("cache-control", "max-age=60")]);
        assert_eq!(fresh.age_s(at(1000)), 10);
        assert_eq!(fresh.stale_for_s(at(1049)), None);
        assert_eq!(fresh.stale_for_s(at(1053)), Some(3));
        let fresh = freshness(&[line("age", "50"), line("cache-control", "max-age=60")]);
        assert_eq!(fresh.stale_for_s(at(1010)), Some(0));
    }

    #[test]
    fn s_maxage_beats_max_age_and_that_beats_expires() {
        let expires = || ("expires", httpdate::fmt_http_date(at(1500)));
        assert_eq!(freshness(&[expires()]).lifetime_s, 500);
        let control = line("cache-control", "max-age=60");
        assert_eq!(freshness(&[expires(), control]).lifetime_s, 60);
        let control = line("cache-control", "max-age=60, s-maxage=5");
        assert_eq!(freshness(&[expires(), control]).lifetime_s, 5);
    }

    #[test]
    fn an_expiry_or_an_age_that_is_none_makes_the_response_stale() {
        assert_eq!(freshness(&[line("expires", "0")]).lifetime_s, 0);
        for age in ["abc", "-5", "7.0", ""] {
            let fresh = freshness(&[line("age", age), line("cache-control", "max-age=60")]);
            assert_eq!(fresh.stale_for_s(at(1000)), Some(0), "{age}");
        }
    }

    #[test]
    fn a_date_is_read_in_any_letters_and_with_a_wrong_day() {
        for right in [
            "Thu, 18 Aug 2050 02:01:18 GMT",
            "thu, 18 AUG 2050 02:01:18 gMt",
            "Thu, 18 Aug 2050 02:01:18 UTC",
            "Mon, 18 Aug 2050 02:01:18 GMT",
            "Thursday, 18-Aug-50 02:01:18 GMT",
            "FRIDAY, 18-aug-50 02:01:18 utc",
            "Thu Aug 18 02:01:18 2050",
            "sun aug 18 02:01:18 2050",
        ] {
            assert_eq!(parse_date(right), Some(2_544_400_878), "{right}");
        }
        for wrong in [
            "0",
            "",
            "Thu",
            "\u{e9}\u{e9}\u{e9}, 18 Aug 2050 02:01:18 GMT",
            "Day, 18 Aug 2050 02:01:18 GMT",
            "Thu, 18 Aug 2050 02:01:18 AEST",
            "Thu, 18 Aug 2050 2:01:18 GMT",
            "Thu 18 Aug 2050 02:01:18 GMT",
            "Thu, 31 Feb 2050 02:01:18 GMT",
        ] {
            assert_eq!(parse_date(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn without_a_word_it_is_fresh_for_a_tenth_of_its_age() {
        let modified = ("last-modified", httpdate::fmt_http_date(at(0)));
        assert_eq!(freshness(&[modified]).lifetime_s, 100);
        assert_eq!(freshness(&[]).lifetime_s, 0);
    }
}
