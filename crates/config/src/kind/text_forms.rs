//! Forms of short texts: modes of files, hosts, paths of requests, words. They know no setting.

use std::fmt::Write;

/// The bits that three or four octal digits stand for.
pub(super) fn file_mode(text: &str) -> Option<u64> {
    let octal = text.bytes().all(|digit| matches!(digit, b'0'..=b'7'));
    let mode = u64::from_str_radix(text, 8).ok()?;
    (octal && matches!(text.len(), 3 | 4) && mode <= 0o777).then_some(mode)
}

/// Whether it is a name of labels (RFC 1123 section 2.1).
pub(super) fn is_host(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let label = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(plain);
    text.len() <= 253 && text.split('.').all(label)
}

/// Whether a request line could carry it as its target (RFC 9112 section 3.2.1).
pub(super) fn is_request_path(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_graphic() && byte != b'#';
    text.starts_with('/') && text.bytes().all(plain)
}

/// Words as alternatives.
pub(super) fn one_of(words: &[&str]) -> String {
    let mut text = String::new();
    for (index, word) in words.iter().enumerate() {
        let joint = match index {
            0 => "",
            _ if index + 1 == words.len() => " or ",
            _ => ", ",
        };
        let _ = write!(text, "{joint}\"{word}\"");
    }
    text
}
