//! Entity tags of compressed responses. A strong one becomes weak (RFC 9110 section 8.8.3.3: another coding is another
//! representation) and gets a mark, by which the tag that the application gave is known when a client returns it:
//! applications compare tags as text. It changes no tag that is weak already.

use http::HeaderValue;

/// What the tags end with.
const MARK: &[u8] = b"--encoded";

/// Returns the tag of a compressed response; none where the tag can stay.
pub fn marked(tag: &HeaderValue) -> Option<HeaderValue> {
    let opaque = tag
        .as_bytes()
        .strip_prefix(b"\"")?
        .strip_suffix(b"\"")
        .filter(|opaque| !opaque.contains(&b'"'))?;
    HeaderValue::from_bytes(&[b"W/\"", opaque, MARK, b"\""].concat()).ok()
}

/// Returns a list of tags with those of [`marked`] as the application gave them; none where the list has no such tag.
pub fn restored(list: &HeaderValue) -> Option<HeaderValue> {
    let mut rest = list.as_bytes();
    let mut tags = Vec::with_capacity(rest.len());
    let mut found = false;
    while let Some(start) = rest.windows(3).position(|begin| begin == b"W/\"") {
        let tag = &rest[start + 3..];
        let Some(end) = tag.iter().position(|&byte| byte == b'"') else {
            break;
        };
        tags.extend_from_slice(&rest[..start]);
        match tag[..end].strip_suffix(MARK) {
            Some(opaque) => {
                found = true;
                tags.extend_from_slice(&[b"\"", opaque, b"\""].concat());
            }
            None => tags.extend_from_slice(&rest[start..=start + 3 + end]),
        }
        rest = &tag[end + 1..];
    }
    tags.extend_from_slice(rest);
    HeaderValue::from_bytes(&tags).ok().filter(|_| found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strong_tag_gets_a_mark_and_a_weak_one_stays() {
        for (tag, expected) in [
            ("\"a\"", Some("W/\"a--encoded\"")),
            ("\"\"", Some("W/\"--encoded\"")),
            ("W/\"a\"", None),
            ("a", None),
            ("\"", None),
            ("\"a\", \"b\"", None),
        ] {
            let marked = marked(&HeaderValue::from_static(tag));
            assert_eq!(marked, expected.map(HeaderValue::from_static), "{tag}");
        }
    }

    #[test]
    fn marked_tags_of_a_list_are_restored_and_no_others() {
        for (list, expected) in [
            ("W/\"a--encoded\"", Some("\"a\"")),
            (
                "W/\"a--encoded\", \"b\" , W/\"c\"",
                Some("\"a\", \"b\" , W/\"c\""),
            ),
            ("\"b\",W/\"a,W/--encoded\"", Some("\"b\",\"a,W/\"")),
            ("W/\"--encoded\"", Some("\"\"")),
            ("\"a--encoded\"", None),
            ("W/\"a\"", None),
            ("W/\"a--encoded", None),
            ("*", None),
            ("", None),
        ] {
            let restored = restored(&HeaderValue::from_static(list));
            assert_eq!(restored, expected.map(HeaderValue::from_static), "{list}");
        }
    }
}
