//! Answers to probes on the paths that `live_path` and `ready_path` name: whether the front works, and whether the server can
//! serve. No worker and no database is asked, and no request of the application waits for them.

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Response, StatusCode};

use crate::edge::Edge;
use crate::failure::Failure;
use crate::http::response_body::ResponseBody;
use crate::http::transaction::Transaction;
use crate::messages::Admission;

/// What a probe asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    /// Whether the front works.
    Live,
    /// Whether the server can serve.
    Ready,
}

/// Returns what the request asks if it is a probe.
pub(crate) fn find(transaction: &Transaction) -> Option<Probe> {
    let settings = transaction.edge.settings.get();
    let is_named = |path: &Option<String>| {
        let path = path.as_ref();
        path.is_some_and(|path| path.as_bytes() == transaction.request.full_path())
    };
    if is_named(&settings.live_path) {
        return Some(Probe::Live);
    }
    is_named(&settings.ready_path).then_some(Probe::Ready)
}

/// Answers a probe.
pub(crate) async fn answer(transaction: &Transaction, probe: Probe) -> Response<ResponseBody> {
    let works = probe == Probe::Live || is_ready(&transaction.edge).await;
    let (status, text) = match works {
        true => (StatusCode::OK, "OK\n"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "not ready\n"),
    };
    let body = Some(Bytes::from_static(text.as_bytes()));
    let mut response = Response::new(ResponseBody::own(transaction, body, status, None));
    *response.status_mut() = status;
    let fields = response.headers_mut();
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    fields.insert(header::CONTENT_TYPE, kind);
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Whether the server is not to stop and one of its applications can serve. A full queue is no reason: other servers would
/// get its load too.
async fn is_ready(edge: &Edge) -> bool {
    if edge.connections.is_leaving() {
        return false;
    }
    for (number, _) in (0..).zip(edge.applications()) {
        let admitted = match edge.dispatcher.admits(number, b"/") {
            Admission::Decided(decided) => decided,
            Admission::Asked(asked) => asked.await.unwrap_or(Err(Failure::Stopping)),
        };
        if !matches!(admitted, Err(Failure::NoWorker(_) | Failure::Stopping)) {
            return true;
        }
    }
    false
}
