//! Which media types a client accepts (RFC 9110 section 12.5.1). It chooses no representation.

use http::{HeaderMap, header};

/// Whether the client names this media type, such as `text/html`, as one that it accepts. Ranges such as `*/*` do not count:
/// programs send them, or nothing, and browsers name HTML.
pub fn names(headers: &HeaderMap, wanted: &str) -> bool {
    let values = headers.get_all(header::ACCEPT).iter();
    let mut ranges = values.flat_map(|value| value.as_bytes().split(|&byte| byte == b','));
    ranges.any(|range| {
        let mut parts = range.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
        let media_type = parts.next().unwrap_or_default();
        media_type.eq_ignore_ascii_case(wanted.as_bytes()) && !parts.any(is_refusal)
    })
}

/// Whether a parameter is a weight of zero.
fn is_refusal(parameter: &[u8]) -> bool {
    let weight = parameter
        .strip_prefix(b"q=")
        .or_else(|| parameter.strip_prefix(b"Q="));
    weight.is_some_and(|weight| {
        weight.starts_with(b"0") && weight.iter().all(|byte| b"0.".contains(byte))
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_media_type_must_be_named_and_not_refused() {
        for (accept, expect) in [
            ("text/html,application/xhtml+xml,*/*;q=0.8", true),
            ("application/json, TEXT/HTML;q=0.1", true),
            ("text/html ; charset=utf-8 ; q=0.05", true),
            ("text/html;q=0", false),
            ("text/html;q=0.000", false),
            ("*/*", false),
            ("text/*", false),
            ("text/html2", false),
            ("", false),
        ] {
            let headers =
                HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))]);
            assert_eq!(names(&headers, "text/html"), expect, "{accept}");
        }
        assert!(!names(&HeaderMap::new(), "text/html"));
    }
}
