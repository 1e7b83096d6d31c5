//! Errors of the application, from a worker's error frame to the log.
//!
//! The frame's text is the exception's class and message in the first line, then the backtrace, a frame a
//! line. What is missing stays empty; nothing here can fail.

use crate::access_log::{AccessLog, AppError};
use crate::request::Request;

/// Logs the text of an error frame.
pub fn app_error(log: &AccessLog, request: &Request, text: &str) {
    let (first, backtrace) = text.split_once('\n').unwrap_or((text, ""));
    let (class, message) = first.split_once(": ").unwrap_or((first, ""));
    log.app_error(&AppError {
        method: request.method.as_str().as_bytes(),
        path: request.uri.path().as_bytes(),
        worker: request.worker.get().map(|by| by.worker.into()),
        generation: request.worker.get().map(|by| by.generation),
        class: class.as_bytes(),
        message: message.as_bytes(),
        backtrace: backtrace.as_bytes(),
    });
}
