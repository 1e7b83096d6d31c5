//! A worker's response head, checked and turned into what hyper sends.
//!
//! The worker is not trusted: a field that hyper would not send, or that could split the response, makes
//! the whole response invalid. It never looks at bodies.

use bytes::Bytes;
use exchange::response::Head;
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Method, StatusCode};

use crate::serve::files::named::NamedFile;

/// Fields of a response. A `HeaderMap` panics beyond 24,576 names where the front or hyper adds one, and no client takes
/// as many as this.
const MAX_FIELDS: usize = 4096;

/// A response's status and fields.
#[derive(Debug)]
pub struct ResponseHead {
    /// The status.
    pub status: StatusCode,
    /// The fields, hop-by-hop ones removed.
    pub headers: HeaderMap,
    /// The length of the body that they declare, if they do.
    pub declared: Option<u64>,
    /// Whether the application coded the body as chunked itself (`Rack::Chunked`, Rails' streaming).
    pub chunked_by_app: bool,
    /// Whether it has fields for the server that is nearest, such as `X-Sendfile` or `X-Accel-Expires`.
    pub has_server_fields: bool,
    /// Whether the application wants to wait for the client (`X-Accel-Buffering: no`).
    pub unbuffered: bool,
    /// The file that one of them names, once they were looked at.
    pub named_file: Option<Box<NamedFile>>,
}

/// Reads the payload of a head frame.
///
/// # Errors
/// What is wrong with it.
pub fn parse(payload: Bytes) -> Result<ResponseHead, &'static str> {
    let mut fields = HeaderMap::with_capacity(16);
    let mut chunked_by_app = false;
    let mut closes = false;
    let mut has_server_fields = false;
    let mut of_the_connection = Vec::new();
    let mut wrong = None;
    let status = Head::parse(&payload, |name, value| {
        let Ok(name) = HeaderName::from_bytes(&payload[name]) else {
            wrong = Some("a header name is not a token");
            return;
        };
        let Ok(value) = HeaderValue::from_maybe_shared(payload.slice(value)) else {
            wrong = Some("a header value contains a control character");
            return;
        };
        match name {
            // The connection is the front's: of what the application says of it (RFC 9110 section 7.6.1) only
            // the wish to close it is kept.
            header::CONNECTION => {
                for option in value.as_bytes().split(|&byte| byte == b',') {
                    closes |= option.trim_ascii().eq_ignore_ascii_case(b"close");
                    of_the_connection.extend(HeaderName::from_bytes(option.trim_ascii()));
                }
            }
            header::UPGRADE => {}
            header::TRANSFER_ENCODING => {
                chunked_by_app |= value.as_bytes().eq_ignore_ascii_case(b"chunked");
            }
            _ if name.as_str() == "keep-alive" => {}
            _ if fields.len() == MAX_FIELDS => wrong = Some("more than 4096 header fields"),
            _ => {
                let text = name.as_str();
                has_server_fields |= text.starts_with("x-accel-") || text == "x-sendfile";
                fields.append(name, value);
            }
        }
    })
    .map_err(|_| "a malformed head")?;
    if let Some(wrong) = wrong {
        return Err(wrong);
    }
    // And so are the fields that it names.
    of_the_connection
        .iter()
        .for_each(|name| drop(fields.remove(name)));
    if closes {
        fields.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    if chunked_by_app {
        // It would be the coded body's, if anything (RFC 9112 section 6.3).
        fields.remove(header::CONTENT_LENGTH);
    }
    let length = content_length(&fields)?;
    let status = StatusCode::from_u16(status).map_err(|_| "a status that is none")?;
    if status.is_informational() || status.as_u16() > 599 {
        return Err("a status outside 200 to 599");
    }
    let declared = match status {
        StatusCode::NO_CONTENT => {
            // There is no content that could have a length, not even for GET (RFC 9110 section 8.6).
            fields.remove(header::CONTENT_LENGTH);
            None
        }
        _ => length.map(bytes_of).transpose()?,
    };
    let buffering = || fields.get("x-accel-buffering");
    Ok(ResponseHead {
        status,
        unbuffered: has_server_fields && buffering().is_some_and(|value| value == "no"),
        headers: fields,
        declared,
        chunked_by_app,
        has_server_fields,
        named_file: None,
    })
}

/// The Content-Length.
///
/// # Errors
/// There are two different ones.
fn content_length(fields: &HeaderMap) -> Result<Option<&HeaderValue>, &'static str> {
    let mut lengths = fields.get_all(header::CONTENT_LENGTH).iter();
    let length = lengths.next();
    match lengths.any(|other| Some(other) != length) {
        true => Err("two different content lengths"),
        false => Ok(length),
    }
}

/// The number of bytes that a Content-Length declares.
///
/// # Errors
/// It is no number.
fn bytes_of(length: &HeaderValue) -> Result<u64, &'static str> {
    let digits = length.as_bytes();
    let number = std::str::from_utf8(digits)
        .ok()
        .filter(|_| digits.iter().all(u8::is_ascii_digit));
    let number = number.and_then(|digits| digits.parse().ok());
    number.ok_or("a content length is not a number")
}

/// Whether the message has no content, whatever the application says (RFC 9110 sections 9.3.2, 15.3.5, 15.3.6
/// and 15.4.5).
pub(crate) fn is_bodyless(method: &Method, status: StatusCode) -> bool {
    let bodyless = [
        StatusCode::NO_CONTENT,
        StatusCode::RESET_CONTENT,
        StatusCode::NOT_MODIFIED,
    ];
    method == Method::HEAD || bodyless.contains(&status)
}

/// Early hints as the bytes of a 103 response (RFC 8297), or none when they are malformed.
pub fn early_hints(payload: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = b"HTTP/1.1 103 Early Hints\r\n".to_vec();
    let mut sound = true;
    Head::parse(payload, |name, value| {
        let (name, value) = (&payload[name], &payload[value]);
        sound &= HeaderName::from_bytes(name).is_ok() && HeaderValue::from_bytes(value).is_ok();
        bytes.extend_from_slice(name);
        bytes.extend_from_slice(b": ");
        bytes.extend_from_slice(value);
        bytes.extend_from_slice(b"\r\n");
    })
    .ok()?;
    bytes.extend_from_slice(b"\r\n");
    sound.then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_fields_than_a_map_holds_are_an_error_and_no_panic() {
        let head = |count: usize| {
            let mut head = Head::default();
            head.begin(200);
            (0..count).for_each(|at| head.field(format!("a{at}").as_bytes(), b""));
            parse(Bytes::copy_from_slice(head.bytes()))
        };
        assert!(head(MAX_FIELDS).is_ok());
        for count in [MAX_FIELDS + 1, 24_577, 40_000] {
            assert_eq!(
                head(count).err(),
                Some("more than 4096 header fields"),
                "{count}"
            );
        }
    }
}
