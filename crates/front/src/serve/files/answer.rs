//! What is sent of a file that the application named: all of it, parts of it, or fields alone (RFC 9110 sections 13 and 14).
//! It decides from fields and from what the file system says, and opens no file.

use http::header::{self, HeaderValue};
use http::{HeaderMap, Method, StatusCode};

use crate::serve::preconditions::{self, Validators, Verdict};
use crate::serve::ranges::{self, Wanted};

/// What is known of an open file.
#[derive(Clone, Copy, Debug)]
pub struct FileFacts {
    /// Bytes that are the response's body if all of it is sent.
    pub bytes: u64,
    /// When it was changed, in nanoseconds since 1970.
    pub modified_ns: i128,
}

/// Whether a request says that it may want less than the file.
pub fn may_want_less(request: &HeaderMap) -> bool {
    let fields = [
        header::RANGE,
        header::IF_NONE_MATCH,
        header::IF_MODIFIED_SINCE,
        header::IF_MATCH,
        header::IF_UNMODIFIED_SINCE,
    ];
    fields.iter().any(|name| request.contains_key(name))
}

/// Decides about a file that answers GET or HEAD with 200, and has the fields of the response say so. None: only fields are
/// sent.
pub fn decide(
    method: &Method,
    request: &HeaderMap,
    headers: &mut HeaderMap,
    file: FileFacts,
) -> (StatusCode, Option<Wanted>) {
    let validators = complete(headers, file);
    let verdict = preconditions::verdict(request, &validators);
    if verdict != Verdict::Send {
        let status = match verdict {
            Verdict::NotModified => StatusCode::NOT_MODIFIED,
            _ => StatusCode::PRECONDITION_FAILED,
        };
        headers.remove(header::CONTENT_TYPE);
        headers.remove(header::CONTENT_LENGTH);
        return (status, None);
    }
    let entry = headers.entry(header::ACCEPT_RANGES);
    let ranges = entry
        .or_insert(HeaderValue::from_static("bytes"))
        .as_bytes()
        != b"none";
    let wanted = match ranges {
        true => ranges::wanted(method, request, &validators, file.bytes),
        false => Wanted::All,
    };
    let status = match &wanted {
        Wanted::All => StatusCode::OK,
        Wanted::Parts(parts) => {
            if let [part] = &parts[..] {
                let range = ranges::content_range(part, file.bytes);
                insert(headers, &range);
            }
            headers.remove(header::CONTENT_LENGTH);
            StatusCode::PARTIAL_CONTENT
        }
        Wanted::Unsatisfiable => {
            insert(headers, &format!("bytes */{}", file.bytes));
            for name in [
                header::CONTENT_LENGTH,
                header::CONTENT_TYPE,
                header::CONTENT_ENCODING,
                header::CONTENT_DISPOSITION,
                header::CACHE_CONTROL,
            ] {
                headers.remove(name);
            }
            return (StatusCode::RANGE_NOT_SATISFIABLE, None);
        }
    };
    (status, Some(wanted))
}

fn insert(headers: &mut HeaderMap, range: &str) {
    if let Ok(range) = HeaderValue::from_str(range) {
        headers.insert(header::CONTENT_RANGE, range);
    }
}

/// Returns the validators of the response: those that the application gave, and the file's where it gave none, which the
/// response gets too. It gets no date where nothing says how long it may be kept: browsers would guess that from the date.
fn complete(headers: &mut HeaderMap, file: FileFacts) -> Validators {
    let mut validators = Validators::of_file(file.modified_ns, file.bytes, "");
    match headers.get(header::ETAG) {
        Some(tag) => validators.etag = tag.clone(),
        None => drop(headers.insert(header::ETAG, validators.etag.clone())),
    }
    match headers.get(header::LAST_MODIFIED) {
        Some(date) => {
            let seconds = preconditions::parse_date(date.as_bytes());
            validators.modified_s = seconds.unwrap_or(validators.modified_s);
        }
        None if says_how_long(headers) => {
            headers.insert(header::LAST_MODIFIED, validators.last_modified.clone());
        }
        None => {}
    }
    validators
}

fn says_how_long(headers: &HeaderMap) -> bool {
    headers.contains_key(header::CACHE_CONTROL) || headers.contains_key(header::EXPIRES)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileFacts = FileFacts {
        bytes: 10,
        modified_ns: 784_111_777_000_000_000,
    };
    const TAG: &str = "\"ae1b981bc490a00-a\"";

    fn fields(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let fields = fields.iter().map(|&(name, value)| {
            let name = header::HeaderName::from_static(name);
            (name, HeaderValue::from_static(value))
        });
        fields.collect()
    }

    #[test]
    fn the_applications_validators_count_before_those_of_the_file() {
        let own = [
            ("etag", "W/\"own\""),
            ("last-modified", "Sun, 06 Nov 1994 08:00:00 GMT"),
        ];
        let later = ("if-modified-since", "Sun, 06 Nov 1994 08:10:00 GMT");
        for (asked, said, status) in [
            (("if-none-match", TAG), &[][..], 304),
            (("if-none-match", TAG), &own, 200),
            (("if-none-match", "\"own\""), &own, 304),
            (("if-match", "W/\"own\""), &own, 412),
            (later, &own, 304),
            (later, &[], 200),
            (("range", "bytes=1-2"), &[], 206),
            (("range", "bytes=1-2"), &own, 206),
            (("range", "bytes=1-2"), &[("accept-ranges", "none")], 200),
            (("range", "bytes=10-"), &[], 416),
        ] {
            let mut headers = fields(said);
            let (found, _) = decide(&Method::GET, &fields(&[asked]), &mut headers, FILE);
            assert_eq!(found, status, "{asked:?} {said:?}");
        }
    }

    #[test]
    fn a_response_gets_a_date_only_if_it_says_how_long_it_is_kept() {
        for (said, dated) in [(&[][..], false), (&[("cache-control", "private")], true)] {
            let mut headers = fields(said);
            decide(&Method::GET, &HeaderMap::new(), &mut headers, FILE);
            assert_eq!(headers.contains_key("last-modified"), dated);
            assert_eq!(headers[header::ETAG], TAG);
        }
    }
}
