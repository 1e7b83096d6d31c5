//! Which requests a stored response answers: those with the same values of the fields that it varies by (RFC 9111 section
//! 4.1).

use http::HeaderMap;
use http::header::{self, HeaderName, HeaderValue};

/// The fields that a response varies by, and their values in the request that it answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Variant(Vec<(HeaderName, Option<Vec<u8>>)>);

/// It varies by everything: no other request is like the one that it answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VariesByAll;

impl Variant {
    /// Reads `Vary` of a response to a request with these fields.
    ///
    /// # Errors
    /// It is `*`, or unreadable.
    pub(crate) fn of(response: &HeaderMap, request: &HeaderMap) -> Result<Self, VariesByAll> {
        let mut names = Vec::new();
        for line in response.get_all(header::VARY) {
            for name in line.to_str().map_err(|_| VariesByAll)?.split(',') {
                let name = name.trim_matches([' ', '\t']);
                if name == "*" {
                    return Err(VariesByAll);
                }
                if !name.is_empty() {
                    names.push(HeaderName::from_bytes(name.as_bytes()).map_err(|_| VariesByAll)?);
                }
            }
        }
        names.sort_by(|one, other| one.as_str().cmp(other.as_str()));
        names.dedup();
        let values = names.into_iter().map(|name| {
            let value = joined(request, &name);
            (name, value)
        });
        Ok(Self(values.collect()))
    }

    /// Whether a request with these fields is like the one that was answered.
    pub(crate) fn matches(&self, request: &HeaderMap) -> bool {
        let like = |(name, value): &(HeaderName, Option<Vec<u8>>)| joined(request, name) == *value;
        self.0.iter().all(like)
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        let sizes = self.0.iter();
        sizes
            .map(|(name, value)| name.as_str().len() + value.as_ref().map_or(0, Vec::len) + 64)
            .sum()
    }
}

/// All lines of a field as one list without spaces around its members; none without the field. The members of
/// `Accept-Encoding` and `Accept-Language` are compared in small letters.
fn joined(fields: &HeaderMap, name: &HeaderName) -> Option<Vec<u8>> {
    let mut lines = fields.get_all(name).iter().peekable();
    lines.peek()?;
    let plain = matches!(*name, header::ACCEPT_ENCODING | header::ACCEPT_LANGUAGE);
    let mut joined = Vec::new();
    for member in lines.flat_map(members) {
        if !joined.is_empty() {
            joined.push(b',');
        }
        let member = member.trim_ascii();
        match plain {
            true => joined.extend(member.iter().map(u8::to_ascii_lowercase)),
            false => joined.extend_from_slice(member),
        }
    }
    Some(joined)
}

fn members(line: &HeaderValue) -> impl Iterator<Item = &[u8]> {
    line.as_bytes().split(|&byte| byte == b',')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let lines = lines.iter().map(|&(name, value)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        });
        let mut all = HeaderMap::new();
        lines.for_each(|(name, value)| _ = all.append(name, value));
        all
    }

    #[test]
    fn a_request_with_other_values_of_the_named_fields_is_another_one() {
        let response = map(&[("vary", "Foo, bar")]);
        let variant = Variant::of(&response, &map(&[("foo", "1, 2"), ("baz", "x")]));
        let variant = variant.expect("it names fields");
        assert!(variant.matches(&map(&[("foo", "1,2"), ("baz", "y")])));
        assert!(variant.matches(&map(&[("foo", "1"), ("foo", "2")])));
        assert!(!variant.matches(&map(&[("foo", "2, 1")])));
        assert!(!variant.matches(&map(&[("foo", "1, 2"), ("bar", "")])));
        assert!(!variant.matches(&map(&[])));
    }

    #[test]
    fn a_response_that_varies_by_all_has_no_variant() {
        for value in ["*", "foo, *", "*, foo", "a b"] {
            let response = map(&[("vary", value)]);
            assert_eq!(
                Variant::of(&response, &map(&[])),
                Err(VariesByAll),
                "{value}"
            );
        }
    }
}
