//! Rules for paths: a value for the requests below each of some paths, or the paths alone. It knows neither requests nor
//! what the values are for.

use std::borrow::Cow;

/// A value for each of some paths. A path stands for itself and everything below it (`/reports` for `/reports` and
/// `/reports/1`, not for `/reportsx`), `/` for all paths. The longest path that matches applies. Paths that RFC 3986 calls
/// equivalent (section 6.2.2) or that differ by doubled slashes are the same, so that no client evades a rule by another
/// spelling.
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

    /// Returns the index of the rule that [`PathRules::find`] finds, in the order of [`PathRules::iter`].
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

    /// The values of all rules that match the path of a request, not only of the longest.
    pub fn find_all(&self, path: impl AsRef<[u8]>) -> impl Iterator<Item = &T> {
        let path = normal(path.as_ref()).into_owned();
        let rules = self.rules.iter();
        rules.filter_map(move |(prefix, value)| covers(prefix, &path).then_some(value))
    }

    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
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

/// Returns a path in the form in which rules are compared: normal, without a slash at the end.
pub(crate) fn prefix(path: &str) -> String {
    let path = normal(path.as_bytes());
    let path = path.strip_suffix(b"/").unwrap_or(&path);
    String::from_utf8_lossy(path).into_owned()
}

/// Returns the normal form of a path: unreserved characters unescaped, other escapes in upper case, no dot segments (RFC
/// 3986 section 6.2.2), no empty segments, and other characters than section 3.3 allows escaped, so that raw UTF-8 equals
/// its escapes. Most paths are normal already.
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

#[cfg(test)]
mod tests;
