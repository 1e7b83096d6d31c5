//! Errors of the application, from a worker's error frame to the log.
//!
//! The frame's text is the exception's class, its message and its backtrace, separated by NUL bytes. What is
//! missing stays empty; nothing here can fail.

use crate::access_log::{AccessLog, AppError};
use crate::request::Request;

/// Logs the text of an error frame.
pub fn app_error(log: &AccessLog, generation: u32, request: &Request, text: &str) {
    let mut parts = text.splitn(3, '\0');
    let mut part = || parts.next().unwrap_or("").as_bytes();
    log.app_error(&AppError {
        method: request.method.as_str().as_bytes(),
        path: request.uri.path().as_bytes(),
        worker: request.worker.get().map(u32::from),
        generation: Some(generation),
        class: part(),
        message: part(),
        backtrace: part(),
    });
}
