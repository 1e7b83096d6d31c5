//! Numbers, times and sizes as text, as `highball status` writes them. It escapes nothing.

use jiff::Timestamp;

/// Shown where nothing is known.
pub(crate) const NOTHING: &str = "–";

/// A time in its two largest units: `1 min 40 s`.
pub(crate) fn age(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// How long something has taken: `420 ms`, `1 min 40 s`.
pub(crate) fn milliseconds(ms: u64) -> String {
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..10_000 => format!("{:.1} s", ms as f64 / 1000.0),
        _ => age(ms / 1000),
    }
}

/// A duration in seconds with two digits that matter: `0.42 ms`, `42 ms`, `4.2 s`.
pub(crate) fn duration(seconds: f64) -> String {
    let ms = seconds * 1000.0;
    match ms {
        ms if !ms.is_finite() => NOTHING.to_owned(),
        ms if ms < 0.995 => format!("{ms:.2} ms"),
        ms if ms < 9.95 => format!("{ms:.1} ms"),
        ms if ms < 999.5 => format!("{ms:.0} ms"),
        ms if ms < 9_950.0 => format!("{:.1} s", ms / 1000.0),
        ms if ms < 119_500.0 => format!("{:.0} s", ms / 1000.0),
        ms => age((ms / 1000.0).round() as u64),
    }
}

/// The same of a duration that may be unknown.
pub(crate) fn maybe_duration(seconds: Option<f64>) -> String {
    seconds.map_or_else(|| NOTHING.to_owned(), duration)
}

/// A rate or an average: `0.25`, `4.2`, `42`, `4200`.
pub(crate) fn figure(value: f64) -> String {
    match value {
        value if !value.is_finite() => NOTHING.to_owned(),
        0.0 => "0".to_owned(),
        value if value.abs() < 0.995 => format!("{value:.2}"),
        value if value.abs() < 9.95 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

/// A round value of an axis, without zeros at its end: `0.5`, `20`, `2000`.
pub(crate) fn round(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A share from 0 to 1: `0 %`, `0.4 %`, `42 %`.
pub(crate) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        percent if !percent.is_finite() => NOTHING.to_owned(),
        0.0 => "0 %".to_owned(),
        percent if percent < 0.095 => "< 0.1 %".to_owned(),
        percent if percent < 9.95 => format!("{percent:.1} %"),
        percent => format!("{percent:.0} %"),
    }
}

/// Bytes: `45.0 MiB`.
pub(crate) fn size(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// `1 request`, `5 requests`.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// A time of day: `2026-11-22 07:03:12 UTC`.
pub(crate) fn moment(at: u64) -> String {
    let time = i64::try_from(at)
        .ok()
        .and_then(|at| Timestamp::from_second(at).ok());
    time.map_or_else(
        || NOTHING.to_owned(),
        |time| time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
    )
}

/// How long ago something was: `3 min 20 s ago`, `now`.
pub(crate) fn ago(at: u64, now: u64) -> String {
    match now.saturating_sub(at) {
        0 => "now".to_owned(),
        seconds => format!("{} ago", age(seconds)),
    }
}

/// The beginning of a text, of at most so many characters.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => format!("{} …", &text[..end]),
    }
}

/// Whether a character may stand in the page as it is. Control characters do nothing good there, and those that change the
/// direction of writing make a text look like another.
pub(crate) fn is_printable(character: char) -> bool {
    match character {
        '\n' | '\t' => true,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{61c}' => {
            false
        }
        _ => !character.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_as_many_digits_as_matter() {
        let durations = [
            0.000_421, 0.004_21, 0.0421, 0.421, 4.21, 42.1, 421.0, 0.999_6,
        ];
        let expect = [
            "0.42 ms",
            "4.2 ms",
            "42 ms",
            "421 ms",
            "4.2 s",
            "42 s",
            "7 min 1 s",
            "1.0 s",
        ];
        assert_eq!(durations.map(duration), expect);
        let figures = [0.0, 0.251, 4.21, 42.1, 4211.0, f64::NAN];
        assert_eq!(figures.map(figure), ["0", "0.25", "4.2", "42", "4211", "–"]);
        let shares = [0.0, 0.000_1, 0.004, 0.42, 1.0];
        assert_eq!(
            shares.map(percent),
            ["0 %", "< 0.1 %", "0.4 %", "42 %", "100 %"]
        );
        assert_eq!(
            [0.5, 20.0, 2000.0, 0.0].map(round),
            ["0.5", "20", "2000", "0"]
        );
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(shortened("äöü", 3), "äöü");
        assert_eq!(shortened("äöüß", 3), "äöü …");
    }

    #[test]
    fn times_are_in_utc_and_those_beyond_the_calendar_are_none() {
        assert_eq!(moment(1_795_417_392), "2026-11-23 07:03:12 UTC");
        assert_eq!(moment(u64::MAX), "–");
        assert_eq!(ago(100, 300), "3 min 20 s ago");
        assert_eq!(ago(300, 100), "now", "clocks may differ");
    }
}
