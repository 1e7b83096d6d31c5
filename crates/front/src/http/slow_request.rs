//! Keeps a request that was slow, once it has ended. It decides nothing about the request.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use exchange::measures::Measures;
use http::HeaderValue;
use profiles::printable;

use crate::http::ended::Ended;
use crate::slow_requests::{MAX_SLOW_PATH_BYTES, MAX_SLOW_WORD_BYTES, SlowRequest, unix_seconds};

/// Keeps the request if the application took as long for it as `slow_request` says. `path` returns its target without
/// secrets.
pub(super) fn keep_if_slow<'a>(ended: &Ended<'a>, path: impl FnOnce() -> Cow<'a, [u8]>) {
    let transaction = ended.transaction;
    let limit = transaction.application.settings.get().slow_request;
    let Some((limit, app)) = limit.zip(ended.app) else {
        return;
    };
    if app < limit || transaction.client.is_front() {
        return;
    }
    let request = &transaction.request;
    let route = ended.measures.map(|measures: Measures<'_>| measures.route);
    let slow = SlowRequest {
        method: word(request.method.as_str().as_bytes()),
        path: printable(&String::from_utf8_lossy(&path()), MAX_SLOW_PATH_BYTES),
        route: route.filter(|route| !route.is_empty()).map(word),
        request_id: request.id.as_ref().map(HeaderValue::as_bytes).map(word),
        ended: unix_seconds(),
        queue_ms: milliseconds(ended.queue.unwrap_or_default()),
        app_ms: milliseconds(app),
        db_ms: ended
            .measures
            .and_then(|measures| measures.db_ns)
            .map(|ns| milliseconds(Duration::from_nanos(ns))),
        worker: ended.worker.map(|by| by.worker),
        generation: ended.worker.map(|by| by.generation),
        status: ended.sent.status.map(|status| status.as_u16()),
        outcome: ended.outcome.name().to_owned(),
        stacks: request.take_samples().unwrap_or_default(),
    };
    transaction
        .application
        .slow_requests
        .add(Instant::now(), slow);
}

/// A short text of a client or an application.
fn word(bytes: &[u8]) -> String {
    printable(&String::from_utf8_lossy(bytes), MAX_SLOW_WORD_BYTES)
}

/// Milliseconds, to a tenth.
fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 10_000.0).round() / 10.0
}
