//! What goes wrong in the application, for the log: its errors, from a worker's error frame, and requests that run past
//! their deadline.
//!
//! An error frame's text is the exception's class and message in the first line, then the backtrace, a frame a
//! line. What is missing stays empty; nothing here can fail.

use std::time::Duration;

use exchange::scheduling::monotonic_ns;

use crate::dispatch::Work;
use crate::http::request::Request;
use crate::log::{AccessLog, AppError, Late};

/// Logs the text of an error frame.
pub fn app_error(log: &AccessLog, request: &Request, text: &str) {
    let (first, backtrace) = text.split_once('\n').unwrap_or((text, ""));
    let (class, message) = first.split_once(": ").unwrap_or((first, ""));
    log.app_error(&AppError {
        method: request.method.as_str().as_bytes(),
        path: request.path(),
        worker: request.worker.get().map(|by| by.worker.into()),
        generation: request.worker.get().map(|by| by.generation),
        class: class.as_bytes(),
        message: message.as_bytes(),
        backtrace: backtrace.as_bytes(),
    });
}

/// Logs where the thread is that is late with this; none where its worker ended without having said so.
pub fn late(log: &AccessLog, work: &Work, backtrace: Option<&str>) {
    let (what, since) = match work {
        Work::Request(request) => ("a request", request.times.get().0),
        Work::Afterwards { since_ns, .. } => ("what follows a response", *since_ns),
    };
    let message = match backtrace {
        Some(_) => format!("{what} runs past its deadline"),
        None => format!(
            "{what} ran past its deadline, and its worker ended without having said where: it was stopped, or native \
             code held Ruby's lock"
        ),
    };
    let (method, path, by) = match work {
        Work::Request(request) => (
            request.method.as_str(),
            request.path(),
            request.worker.get(),
        ),
        Work::Afterwards { by, .. } => ("-", &b"-"[..], Some(*by)),
    };
    log.late(&Late {
        message: &message,
        method: method.as_bytes(),
        path,
        app: Duration::from_nanos(monotonic_ns().saturating_sub(since)),
        worker: by.map(|by| by.worker.into()),
        generation: by.map(|by| by.generation),
        backtrace: backtrace.unwrap_or("").as_bytes(),
    });
}
