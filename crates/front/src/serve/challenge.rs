//! Answers to an authority that checks by HTTP whether this server is that of a host (RFC 8555 section 8.3). It orders no
//! certificate.

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Response, StatusCode};

use crate::http::response_body::ResponseBody;
use crate::http::transaction::Transaction;

/// What the path of such a request begins with; the token follows.
pub(crate) const PREFIX: &[u8] = b"/.well-known/acme-challenge/";

/// Answers the request if an authority that was asked for a certificate sent it.
pub(crate) fn answer(transaction: &Transaction) -> Option<Response<ResponseBody>> {
    let certificates = &transaction.edge.tls.certificates;
    if !certificates.has_http_challenges() {
        return None;
    }
    let token = transaction.request.full_path().strip_prefix(PREFIX)?;
    let answer = certificates.http_answer(str::from_utf8(token).ok()?)?;
    let text = Some(Bytes::from(answer));
    let body = ResponseBody::own(transaction, text, StatusCode::OK, None);
    let mut response = Response::new(body);
    let kind = HeaderValue::from_static("application/octet-stream");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    Some(response)
}
