//! Units of sizes and times: how numbers with a unit are read and written. It knows no setting.

use std::time::Duration;

pub(crate) const KIB: u64 = 1 << 10;
pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const GIB: u64 = 1 << 30;
pub(crate) const TIB: u64 = 1 << 40;
pub(crate) const MS: Duration = Duration::from_millis(1);

/// Units of sizes, in bytes.
pub(crate) const SIZE_UNITS: [(&str, u64); 9] = [
    ("TiB", TIB),
    ("GiB", GIB),
    ("MiB", MIB),
    ("KiB", KIB),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("B", 1),
];

/// Units of durations in milliseconds, the largest first.
pub(crate) const TIME_UNITS: [(&str, u64); 4] =
    [("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Reads digits and a unit: `None` when it is no such thing, `Some(None)` when it is too large to count.
pub(crate) fn quantity(text: &str, units: &[(&str, u64)], plain: u64) -> Option<Option<u64>> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, unit) = (&text[..end], text[end..].trim_start());
    if digits.is_empty() {
        return None;
    }
    let factor = match unit {
        "" if end == text.len() => plain,
        unit => {
            units
                .iter()
                .find(|(name, _)| name.eq_ignore_ascii_case(unit))?
                .1
        }
    };
    Some(
        digits
            .parse::<u64>()
            .ok()
            .and_then(|number| number.checked_mul(factor)),
    )
}

/// Reads a time with a unit (`200ms`, `2s`), or in seconds without one; `None` where it is no time.
pub fn parse_time(text: &str) -> Option<Duration> {
    quantity(text, &TIME_UNITS, 1_000)
        .flatten()
        .map(Duration::from_millis)
}

/// Writes a size in the largest unit that leaves no remainder.
pub(crate) fn size_text(size: u64) -> String {
    let units = SIZE_UNITS.iter().filter(|(_, factor)| *factor > 1);
    let whole = units.filter(|(_, factor)| size >= *factor && size.is_multiple_of(*factor));
    match whole.max_by_key(|(_, factor)| *factor) {
        Some((name, factor)) => format!("{}{name}", size / factor),
        None => size.to_string(),
    }
}

/// Writes a time in the largest unit that leaves no remainder.
pub(crate) fn time_text(time: Duration) -> String {
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let unit = TIME_UNITS
        .iter()
        .find(|(_, factor)| millis >= *factor && millis.is_multiple_of(*factor));
    unit.map_or_else(
        || "0".to_owned(),
        |(name, factor)| format!("{}{name}", millis / factor),
    )
}
