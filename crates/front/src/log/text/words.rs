//! The words of a line for people: texts without control characters, shortened, and times. It knows no line.

use std::time::Duration;

use crate::log::escape::{self, Quoting};
use crate::log::{MAX_PATH_BYTES, MAX_TEXT_BYTES};

/// Text without control characters, of at most so many bytes.
pub(super) fn escaped(bytes: &[u8], limit: usize) -> String {
    let mut text = Vec::new();
    escape::append(&mut text, bytes, limit, Quoting::None);
    String::from_utf8_lossy(&text).into_owned()
}

/// The words of a text.
pub(super) fn split(text: &[u8]) -> Vec<String> {
    let text = escaped(text, MAX_TEXT_BYTES);
    text.split(' ')
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// A path of ASCII, as wide as it is long: other bytes are escaped as a client should have.
pub(super) fn percent_escaped(path: &[u8]) -> String {
    let mut text = String::new();
    for &byte in &path[..path.len().min(MAX_PATH_BYTES)] {
        match byte {
            b'!'..=b'~' => text.push(char::from(byte)),
            _ => text += &format!("%{byte:02X}"),
        }
    }
    text
}

/// A text of ASCII in at most so many columns: what is too much is left out in the middle.
pub(super) fn shortened(text: &str, columns: usize) -> String {
    if text.len() <= columns {
        return text.to_owned();
    }
    let kept = columns.saturating_sub(1);
    let end = kept / 2;
    format!("{}…{}", &text[..kept - end], &text[text.len() - end..])
}

/// A time in at most 8 columns, up to some years.
pub(super) fn duration(time: Duration) -> String {
    let milliseconds = time.as_secs_f64() * 1e3;
    match milliseconds {
        ..999.95 => format!("{milliseconds:.1}ms"),
        ..99_995.0 => format!("{:.2}s", milliseconds / 1e3),
        _ => format!("{}s", time.as_secs()),
    }
}
