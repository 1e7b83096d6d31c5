//! The compression of responses: which ones, for whom, and what their fields say then (RFC 9110 sections 8.4 and 12.5.5).
//!
//! What cannot be compressed at once is sent as it is: it waits for nothing, and never makes a response fail.

pub mod accept;
pub mod encoder;
pub mod pool;
pub mod stream;
pub mod validators;

use std::sync::Arc;

use config::Settings;
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Response, StatusCode, Version};

use self::accept::Coding;
use crate::http::request::Request;
use crate::http::response_body::ResponseBody;
use crate::http::transaction::Transaction;

/// Bodies up to this size are compressed on the edge's own thread, in less time than another one takes to wake.
const INLINE_BYTES: usize = 32 * 1024;

/// Fields of responses that compression would make wrong: the body has a coding already, is a part, or has a digest.
const EXCLUDING: [HeaderName; 6] = [
    header::CONTENT_ENCODING,
    header::CONTENT_RANGE,
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("repr-digest"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("content-md5"),
];

/// Gives the application the entity tags as it made them: see [`validators`].
pub fn restore_validators(transaction: &mut Transaction) {
    if !transaction.application.settings.get().compression {
        return;
    }
    let Some(request) = Arc::get_mut(&mut transaction.request) else {
        return;
    };
    for (name, list) in &mut request.headers {
        if matches!(*name, header::IF_NONE_MATCH | header::IF_MATCH)
            && let Some(restored) = validators::restored(list)
        {
            *list = restored;
            request.has_compressed = true;
        }
    }
}

/// Compresses a response if its type, its size and its client allow that.
pub fn encode(transaction: &Transaction, response: &mut Response<ResponseBody>) {
    let Transaction {
        edge,
        application,
        request,
        ..
    } = transaction;
    let settings = application.settings.get();
    if !settings.compression {
        return;
    }
    if response.status() == StatusCode::NOT_MODIFIED {
        return revalidate(request, response.headers_mut());
    }
    if !is_eligible(&settings, request, response) {
        return;
    }
    vary(response.headers_mut());
    let Some(coding) = coding(&settings, request) else {
        return;
    };
    if request.method == Method::HEAD {
        if response.headers().contains_key(header::CONTENT_LENGTH) {
            describe(response.headers_mut(), coding);
        }
        return;
    }
    let body = response.body_mut();
    let name = coding.name();
    if let Some(kept) = body.kept().and_then(|kept| kept.encoded(name)) {
        // An empty one: it would be no shorter.
        if !kept.is_empty() {
            body.replace(kept, name);
            describe(response.headers_mut(), coding);
        }
        return;
    }
    let small = body.whole().filter(|whole| whole.len() <= INLINE_BYTES);
    let is_encoded = match (small, coding) {
        (Some(plain), Coding::Zstd | Coding::Gzip) => {
            let encoded = edge.encoders.encode(coding, plain);
            if let Some(kept) = body.kept() {
                kept.keep(transaction, name, encoded.clone());
            }
            encoded.map(|bytes| body.replace(bytes, name))
        }
        _ => {
            let stream = edge.encoders.begin(coding, &edge.responses.memory);
            stream.map(|stream| body.encode(stream, name))
        }
    };
    if is_encoded.is_some() {
        describe(response.headers_mut(), coding);
    }
}

/// Whether some client would get this response compressed.
fn is_eligible(settings: &Settings, request: &Request, response: &Response<ResponseBody>) -> bool {
    let (status, headers) = (response.status(), response.headers());
    let length = match request.method {
        // The length that a GET would have.
        Method::HEAD => length_field(headers),
        _ => response.body().length(),
    };
    let large = length.is_none_or(|length| length > 0 && length >= settings.compression_min_bytes);
    if !large || status == StatusCode::PARTIAL_CONTENT || status == StatusCode::SWITCHING_PROTOCOLS
    {
        return false;
    }
    let content_type = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    let covered = content_type.is_some_and(|content_type| {
        settings.compression_types.cover(content_type) && !is_event_stream(content_type)
    });
    covered
        && !EXCLUDING.iter().any(|name| headers.contains_key(name))
        && !forbids_transformation(headers)
        && !forbids_transformation(&request.headers)
}

fn length_field(headers: &HeaderMap) -> Option<u64> {
    let length = headers.get(header::CONTENT_LENGTH)?;
    length.to_str().ok()?.parse().ok()
}

/// Whether it is a stream of events, whose clients want each at once.
fn is_event_stream(content_type: &[u8]) -> bool {
    let name = content_type.split(|&byte| byte == b';').next();
    name.is_some_and(|name| name.trim_ascii().eq_ignore_ascii_case(b"text/event-stream"))
}

/// Whether Cache-Control says `no-transform` (RFC 9111 sections 5.2.1.6 and 5.2.2.6).
fn forbids_transformation(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::CACHE_CONTROL).into_iter();
    let mut directives = values.flat_map(|value| value.as_bytes().split(|&byte| byte == b','));
    directives.any(|directive| directive.trim_ascii().eq_ignore_ascii_case(b"no-transform"))
}

/// The coding for this client, if it gets one.
fn coding(settings: &Settings, request: &Request) -> Option<Coding> {
    // Proxies that speak 1.0 often know neither codings nor `Vary`, and a stream could not be told from a cut one.
    if request.version == Version::HTTP_10 {
        return None;
    }
    let headers = &request.headers;
    let authenticated =
        || headers.contains_key(header::COOKIE) || headers.contains_key(header::AUTHORIZATION);
    if settings.compression_skip_authenticated && authenticated() {
        return None;
    }
    let values = headers.get_all(header::ACCEPT_ENCODING).into_iter();
    accept::negotiate(values.map(HeaderValue::as_bytes))
}

/// Has the fields say what the body is now.
fn describe(headers: &mut HeaderMap, coding: Coding) {
    let name = HeaderValue::from_static(coding.name());
    headers.insert(header::CONTENT_ENCODING, name);
    headers.remove(header::CONTENT_LENGTH);
    // Ranges would be of other bytes with each response.
    headers.remove(header::ACCEPT_RANGES);
    mark(headers);
}

/// Marks the entity tag as that of a compressed response.
fn mark(headers: &mut HeaderMap) {
    if let Some(tag) = headers.get_mut(header::ETAG)
        && let Some(marked) = validators::marked(tag)
    {
        *tag = marked;
    }
}

/// Has a 304 say what the response that it stands for would say (RFC 9110 section 15.4.5).
fn revalidate(request: &Request, headers: &mut HeaderMap) {
    vary(headers);
    if request.has_compressed {
        mark(headers);
    }
}

/// Says that clients that accept other codings get another response.
fn vary(headers: &mut HeaderMap) {
    let values = headers.get_all(header::VARY).into_iter();
    let mut names = values.flat_map(|value| value.as_bytes().split(|&byte| byte == b','));
    let says_so = |name: &[u8]| {
        let name = name.trim_ascii();
        name == b"*" || name.eq_ignore_ascii_case(b"accept-encoding")
    };
    if !names.any(says_so) {
        headers.append(header::VARY, HeaderValue::from_static("accept-encoding"));
    }
}
