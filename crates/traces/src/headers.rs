//! The fields that every request to the receiver has, for its authentication. No error and no debug output shows a value.

use http::header::{HeaderMap, HeaderName, HeaderValue};

use crate::variables::percent_decoded;

/// The most fields.
const MAX_HEADERS: usize = 32;

/// A list of fields cannot be read: the number of the wrong one, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) usize);

/// Reads the text of a file: one `Name: value` a line. Empty lines and those that begin with `#` are none.
pub(crate) fn of_file(text: &str) -> Result<HeaderMap, Malformed> {
    let lines = text.lines().map(str::trim).zip(1..);
    let lines = lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
    collect(lines.map(|(line, number)| {
        let pair = line.split_once(':');
        (pair.map(|(name, value)| (name, value.to_owned())), number)
    }))
}

/// Reads the value of a variable: `name=value` pairs with commas between them, values percent-encoded.
pub(crate) fn of_variable(text: &str) -> Result<HeaderMap, Malformed> {
    let items = text.split(',').map(str::trim).zip(1..);
    let items = items.filter(|(item, _)| !item.is_empty());
    collect(items.map(|(item, number)| {
        let pair = item.split_once('=');
        let pair = pair.and_then(|(name, value)| Some((name, percent_decoded(value)?)));
        (pair, number)
    }))
}

fn collect<'a>(
    pairs: impl Iterator<Item = (Option<(&'a str, String)>, usize)>,
) -> Result<HeaderMap, Malformed> {
    let mut fields = HeaderMap::new();
    for (pair, number) in pairs {
        let field = pair.and_then(|(name, value)| {
            let name = HeaderName::from_bytes(name.trim().as_bytes()).ok()?;
            let mut value = HeaderValue::from_str(value.trim()).ok()?;
            value.set_sensitive(true);
            Some((name, value))
        });
        let (name, value) = field
            .filter(|_| fields.len() < MAX_HEADERS)
            .ok_or(Malformed(number))?;
        fields.insert(name, value);
    }
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_one_field_a_line() {
        let fields =
            of_file("# of the vendor\n\nAuthorization: Bearer a:b\n X-Team:web \n").unwrap();
        assert_eq!(fields["authorization"], "Bearer a:b");
        assert_eq!(fields["x-team"], "web");
        assert!(!format!("{fields:?}").contains("Bearer"));
        assert_eq!(of_file("A: b\nno field\n"), Err(Malformed(2)));
        assert_eq!(of_file("A B: c"), Err(Malformed(1)));
        assert_eq!(of_file("A: b\u{7}"), Err(Malformed(1)));
        let many: String = (0..33).map(|number| format!("a{number}: b\n")).collect();
        assert_eq!(of_file(&many), Err(Malformed(33)));
    }

    #[test]
    fn a_variable_has_pairs_with_commas() {
        let fields = of_variable("api-key=a%3Db , x-team=web,").unwrap();
        assert_eq!(fields["api-key"], "a=b");
        assert_eq!(fields["x-team"], "web");
        assert_eq!(of_variable("a=b,c"), Err(Malformed(2)));
        assert_eq!(of_variable("a=%07"), Err(Malformed(1)));
    }
}
