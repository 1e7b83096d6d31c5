//! What goes wrong in the application, for the log: its errors, from a worker's error frame, and requests that run past
//! their deadline.
//!
//! An error frame's text is the exception's class and message in the first line, then the backtrace, a frame a
//! line. What is missing stays empty; nothing here can fail.

use std::time::Duration;

use exchange::WorkerId;
use exchange::scheduling::monotonic_ns;
use http::HeaderValue;

use traces::{SpanId, TraceId};

use crate::http::request::Request;
use crate::log::{AccessLog, AppError, Late};

/// Logs the text of an error frame, of a request that this worker had.
pub fn app_error(log: &AccessLog, request: &Request, by: Option<WorkerId>, text: &str) {
    let (first, backtrace) = text.split_once('\n').unwrap_or((text, ""));
    let (class, message) = first.split_once(": ").unwrap_or((first, ""));
    log.app_error(&AppError {
        method: request.method.as_str().as_bytes(),
        path: request.full_path(),
        worker: by.map(|by| by.worker.into()),
        generation: by.map(|by| by.generation),
        request_id: request.id.as_ref().map(HeaderValue::as_bytes),
        trace: ids(request),
        class: class.as_bytes(),
        message: message.as_bytes(),
        backtrace: backtrace.as_bytes(),
    });
}

/// Logs where the thread is that is late with this request, or without one with what follows a response; no backtrace where
/// its worker ended without having said so. `since_ns` is when it began, nanoseconds of the monotonic clock.
pub fn late(
    log: &AccessLog,
    request: Option<&Request>,
    by: WorkerId,
    since_ns: u64,
    backtrace: Option<&str>,
) {
    let what = match request {
        Some(_) => "a request",
        None => "what follows a response",
    };
    let message = match backtrace {
        Some(_) => format!("{what} runs past its deadline"),
        None => format!(
            "{what} ran past its deadline, and its worker ended without having said where: it was stopped, or native \
             code held Ruby's lock"
        ),
    };
    let (method, path) = match request {
        Some(request) => (request.method.as_str(), request.full_path()),
        None => ("-", &b"-"[..]),
    };
    log.late(&Late {
        message: &message,
        method: method.as_bytes(),
        path,
        app: Duration::from_nanos(monotonic_ns().saturating_sub(since_ns)),
        worker: Some(by.worker.into()),
        generation: Some(by.generation),
        request_id: request
            .and_then(|request| request.id.as_ref())
            .map(HeaderValue::as_bytes),
        trace: request.and_then(ids),
        backtrace: backtrace.unwrap_or("").as_bytes(),
    });
}

/// The trace of a request that is traced, and its span there.
fn ids(request: &Request) -> Option<(TraceId, SpanId)> {
    let context = &request.trace.as_ref()?.context;
    Some((context.trace_id, context.span_id))
}
