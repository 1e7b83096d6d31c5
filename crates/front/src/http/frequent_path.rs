//! Which requests count for `warm_up = "frequent"`: those for pages that everybody may see. Their heads decide at first, their end
//! at last. It decides nothing about the request.

use std::time::Duration;

use http::header::{AUTHORIZATION, CACHE_CONTROL, COOKIE, SET_COOKIE};
use http::{HeaderValue, Method, StatusCode};

use crate::failure::Outcome;
use crate::http::ended::Ended;
use crate::http::request::Request;
use crate::http::response_head::ResponseHead;
use crate::http::transaction::Transaction;

/// The longest time that the application took for a page that counts: a start waits for all that it requests.
const MAX_FREQUENT_APP_TIME: Duration = Duration::from_secs(1);

/// Notes whether a response whose head has come from a worker is a public page. Off, it costs one look.
pub(super) fn look_at_head(transaction: &Transaction, head: &ResponseHead) {
    let application = &transaction.application;
    if application.settings.get().warm_up.frequent {
        let is_public = is_public(&transaction.request, head) && !transaction.client.is_front();
        transaction.response.buffer().is_public = is_public;
    }
}

/// Counts a request that has ended, if it was for a public page and its response is whole.
pub(super) fn count(ended: &Ended<'_>) {
    let transaction = ended.transaction;
    if !transaction.response.buffer().is_public || ended.outcome != Outcome::Ok {
        return;
    }
    if ended.app.is_some_and(|app| app <= MAX_FREQUENT_APP_TIME) {
        let route = ended.measures.map_or(&[][..], |measures| measures.route);
        let frequent = &transaction.application.frequent_paths;
        frequent.count(transaction.request.path(), route);
    }
}

/// Whether everybody gets this response, and gets it again. A query may hold a secret, and its path alone is another page.
fn is_public(request: &Request, head: &ResponseHead) -> bool {
    let has_certificate = || {
        let tls = request.peer.tls.as_ref();
        tls.is_some_and(|facts| facts.client.is_some())
    };
    request.method == Method::GET
        && head.status == StatusCode::OK
        && request.query().is_empty()
        && ![COOKIE, AUTHORIZATION]
            .iter()
            .any(|name| request.headers.contains_key(name))
        && !head.headers.contains_key(SET_COOKIE)
        && !head.headers.get_all(CACHE_CONTROL).iter().any(is_no_store)
        && !has_certificate()
}

/// Whether the field says that nothing may keep the response (RFC 9111 section 5.2.2.5).
fn is_no_store(value: &HeaderValue) -> bool {
    let mut directives = value.as_bytes().split(|&byte| byte == b',');
    directives.any(|one| one.trim_ascii().eq_ignore_ascii_case(b"no-store"))
}
