//! Whole numbers and ranges of them as text: `4`, `2..8`. Both ends of a range are included.

use super::Value;

/// What is between the ends of a range.
const BETWEEN: &str = "..";

/// Whether a text is meant as a range.
pub(super) fn is_range(text: &str) -> bool {
    text.contains(BETWEEN)
}

/// Reads a range within `min` and `max`; one of equal ends is a number.
///
/// # Errors
/// What is wrong with it, or nothing where it is no range at all.
pub(super) fn parse(text: &str, min: u64, max: u64) -> Result<Value, Option<String>> {
    let (least, most) = text.split_once(BETWEEN).ok_or(None)?;
    let number = |text: &str| text.parse::<u64>().map_err(|_| None);
    let (least, most) = (number(least)?, number(most)?);
    if least > most {
        return Err(Some(format!(
            "{text} ends below its beginning; write it as \"{most}{BETWEEN}{least}\""
        )));
    }
    if least < min || most > max {
        return Err(Some(format!(
            "{text} is out of range; expected a range within {min}{BETWEEN}{max}"
        )));
    }
    Ok(match least == most {
        true => Value::Number(least),
        false => Value::Range(least, most),
    })
}

/// Writes a range.
pub(super) fn text(least: u64, most: u64) -> String {
    format!("{least}{BETWEEN}{most}")
}
