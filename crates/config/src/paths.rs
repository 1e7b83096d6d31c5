//! Rules for paths: a value for the requests below each of some paths, or just the paths. Knows no request, and not
//! what the values are for.

use std::borrow::Cow;

use crate::kind::{Kind, Value};

/// A value for each of some paths. A path stands for itself and for all below it (`/reports` for `/reports` and
/// `/reports/1`, not for `/reportsx`), `/` for all; of several that fit the longest counts. Paths that RFC 3986 calls
/// equivalent (section 6.2.2) or that differ by doubled slashes are one and the same, so that no client evades a rule by
/// the spelling.
#[derive(Clone, Debug, PartialEq)]
pub struct PathRules<T> {
    /// Normal paths without a slash at the end, so that of `/` nothing is left.
    rules: Vec<(String, T)>,
}

impl<T> PathRules<T> {
    /// The value for the path of a request, as the client sent it.
    pub fn find(&self, path: impl AsRef<[u8]>) -> Option<&T> {
        Some(&self.rules[self.find_index(path)?].1)
    }

    /// Which of the rules it is that [`PathRules::find`] finds, counted from 0 in the order of [`PathRules::iter`].
    pub fn find_index(&self, path: impl AsRef<[u8]>) -> Option<usize> {
        if self.rules.is_empty() {
            return None;
        }
        let path = normal(path.as_ref());
        let rules = self.rules.iter().map(|(prefix, _)| prefix).enumerate();
        let fitting = rules.filter(|(_, prefix)| covers(prefix, &path));
        fitting
            .max_by_key(|(_, prefix)| prefix.len())
            .map(|(index, _)| index)
    }

    /// Paths and values, in the order in which they were written.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.rules.iter().map(|(prefix, value)| {
            let path = if prefix.is_empty() { "/" } else { prefix };
            (path, value)
        })
    }
}

/// The paths must be such as the settings allow, each there once.
impl<P: AsRef<str>, T> FromIterator<(P, T)> for PathRules<T> {
    fn from_iter<I: IntoIterator<Item = (P, T)>>(rules: I) -> Self {
        let rules = rules.into_iter();
        Self {
            rules: rules
                .map(|(path, value)| (prefix(path.as_ref()), value))
                .collect(),
        }
    }
}

fn prefix(path: &str) -> String {
    let path = normal(path.as_bytes());
    let path = path.strip_suffix(b"/").unwrap_or(&path);
    String::from_utf8_lossy(path).into_owned()
}

/// A path in the one form that all its spellings have in common: unreserved characters not escaped, other escapes in
/// capitals, no dot segments (RFC 3986 section 6.2.2), no empty segments, and escaped what may not stand in a path as it
/// is (section 3.3): raw UTF-8 is the same as its escapes. Most paths are that already.
fn normal(path: &[u8]) -> Cow<'_, [u8]> {
    let odd = !path.iter().all(|&byte| is_path_byte(byte))
        || path
            .windows(2)
            .any(|pair| pair[0] == b'/' && matches!(pair[1], b'/' | b'.'));
    if !odd || !path.starts_with(b"/") {
        return Cow::Borrowed(path);
    }
    let plain = unescaped(path);
    let mut segments: Vec<&[u8]> = Vec::new();
    for segment in plain.split(|&byte| byte == b'/') {
        match segment {
            b"" | b"." => {}
            b".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    let mut normal = b"/".to_vec();
    normal.extend_from_slice(&segments.join(&b'/'));
    Cow::Owned(normal)
}

fn unescaped(path: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match escaped_byte(byte, after) {
            Some(code) => {
                rest = &after[2..];
                append(&mut plain, code, is_unreserved(code));
            }
            // A percent sign that begins no escape stays as it is.
            None => append(&mut plain, byte, byte == b'%' || is_path_byte(byte)),
        }
    }
    plain
}

/// The byte that `%` and what follows it stand for.
fn escaped_byte(byte: u8, after: &[u8]) -> Option<u8> {
    let digit = |at: usize| {
        after
            .get(at)
            .and_then(|&digit| char::from(digit).to_digit(16))
    };
    let code = (byte == b'%').then(|| Some(digit(0)? * 16 + digit(1)?))??;
    u8::try_from(code).ok()
}

/// Appends the byte, or its escape.
fn append(plain: &mut Vec<u8>, byte: u8, as_it_is: bool) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    if as_it_is {
        plain.push(byte);
    } else {
        let (high, low) = (usize::from(byte >> 4), usize::from(byte & 15));
        plain.extend_from_slice(&[b'%', DIGITS[high], DIGITS[low]]);
    }
}

/// unreserved of RFC 3986 section 2.3.
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

/// What may stand in a path unescaped: pchar of RFC 3986 section 3.3, and the slash.
fn is_path_byte(byte: u8) -> bool {
    is_unreserved(byte) || b"!$&'()*+,;=:@/".contains(&byte)
}

fn covers(prefix: &str, path: &[u8]) -> bool {
    let rest = path.strip_prefix(prefix.as_bytes());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// What is allowed where the values are of this kind, in words that follow "expected".
pub(crate) fn allowed(values: Option<&Kind>) -> String {
    match values {
        None => "a list of paths, such as \"/reports\"; or \"none\" alone".to_owned(),
        Some(values) => format!(
            "a list of paths with a value each, such as \"/reports=VALUE\", where VALUE is {}; or \"none\" alone",
            values.allowed()
        ),
    }
}

/// Reads one item of the list; none is the item "none".
///
/// # Errors
/// What is wrong with it and what is allowed.
pub(crate) fn parse_item(
    values: Option<&Kind>,
    text: &str,
) -> Result<Option<(String, Value)>, String> {
    if text == "none" {
        return Ok(None);
    }
    let parts = match values {
        // The last one: a path may hold others.
        Some(_) => text
            .rsplit_once('=')
            .map(|(path, value)| (path.trim_end(), value.trim_start())),
        None => Some((text, "")),
    };
    let Some((path, value)) = parts.filter(|(path, _)| is_path(path)) else {
        return Err(format!(
            "{text:?} is not allowed; expected {}",
            allowed(values)
        ));
    };
    let value = match values {
        Some(values) => values.parse(value),
        None => Ok(Value::Listed),
    };
    match value {
        Ok(value) => Ok(Some((path.to_owned(), value))),
        Err(message) => Err(format!("{path}: {message}")),
    }
}

/// Reads the list.
///
/// # Errors
/// What is wrong with the first wrong item, that "none" does not stand alone, or that a path is there twice.
pub(crate) fn parse(
    values: Option<&Kind>,
    items: &[String],
) -> Result<Vec<(String, Value)>, String> {
    let mut rules: Vec<(String, Value)> = Vec::new();
    for item in items {
        match parse_item(values, item)? {
            None if items.len() > 1 => {
                return Err(format!("{item:?} must stand alone in the list"));
            }
            None => {}
            Some((path, _))
                if rules
                    .iter()
                    .any(|(known, _)| prefix(known) == prefix(&path)) =>
            {
                return Err(format!("{path} is there twice"));
            }
            Some(rule) => rules.push(rule),
        }
    }
    Ok(rules)
}

/// Writes a list as somebody would write it in a flag.
pub(crate) fn text(values: Option<&Kind>, rules: &[(String, Value)]) -> String {
    if rules.is_empty() {
        return "none".to_owned();
    }
    let text = |(path, value): &(String, Value)| match values {
        Some(values) => format!("{path}={}", values.text(value)),
        None => path.clone(),
    };
    rules.iter().map(text).collect::<Vec<_>>().join(",")
}

/// Whether it is a path as a request line has it, without a query (RFC 9112 section 3.2.1), and without the comma
/// that separates the items of a list.
fn is_path(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_graphic() && !b"?#,".contains(&byte);
    text.starts_with('/') && text.bytes().all(plain)
}

#[cfg(test)]
mod tests;
