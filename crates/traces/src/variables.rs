//! The variables that all programs with OpenTelemetry read, and what is common to their values. It reads no environment itself.

/// Finds the value of a variable; none where it is not set or empty.
pub type Variables<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// A text in which `%2C` stands for a comma, and so on; none where that makes no sense.
pub(crate) fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        let digits = std::str::from_utf8(digits).ok()?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}
