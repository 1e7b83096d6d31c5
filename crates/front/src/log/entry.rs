//! What there is to log, as the front and its owner know it. It knows no format.

use std::fmt::Display;
use std::time::Duration;

use config::LogFields;
use exchange::measures::Measures;
use traces::{SpanId, TraceId};

/// The value of an event's field.
#[derive(Clone, Copy)]
pub enum Value<'a> {
    /// A number.
    Number(u64),
    /// A text, which may hold any character.
    Text(&'a dyn Display),
}

/// One request that has ended. What is not known is written as `-` in logfmt and `null` in JSON. All texts may hold any byte.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Which of the fields that can be left out are logged.
    pub fields: LogFields,
    /// The method, as the client sent it.
    pub method: &'a [u8],
    /// The path, as the client sent it; at most 2 KiB of it are logged.
    pub path: &'a [u8],
    /// The status sent, if one was.
    pub status: Option<u16>,
    /// Bytes of the response body that were sent.
    pub bytes: u64,
    /// From arrival to the start of the application.
    pub queue: Option<Duration>,
    /// From the start of the application to its last byte.
    pub app: Option<Duration>,
    /// The worker that ran it.
    pub worker: Option<u32>,
    /// The generation that ran it.
    pub generation: Option<u32>,
    /// The client's address.
    pub client: Option<&'a str>,
    /// The field Host.
    pub host: Option<&'a [u8]>,
    /// The version of HTTP.
    pub protocol: Option<&'static str>,
    /// The field User-Agent; at most 512 bytes of it are logged.
    pub user_agent: Option<&'a [u8]>,
    /// The field Referer; at most 2 KiB of it are logged.
    pub referer: Option<&'a [u8]>,
    /// The request's id.
    pub request_id: Option<&'a [u8]>,
    /// The trace, and the span there.
    pub trace: Option<(TraceId, SpanId)>,
    /// How the response was compressed, if it was.
    pub encoding: Option<&'static str>,
    /// Bytes of the request's body.
    pub bytes_in: Option<u64>,
    /// What it cost its worker, where that is known.
    pub measures: Option<Measures<'a>>,
    /// The one outcome.
    pub outcome: &'static str,
}

impl<'a> Entry<'a> {
    /// Returns an entry of which no more is known.
    pub const fn new(fields: LogFields, method: &'a [u8], outcome: &'static str) -> Self {
        Self {
            fields,
            method,
            path: b"-",
            status: None,
            bytes: 0,
            queue: None,
            app: None,
            worker: None,
            generation: None,
            client: None,
            host: None,
            protocol: None,
            user_agent: None,
            referer: None,
            request_id: None,
            trace: None,
            encoding: None,
            bytes_in: None,
            measures: None,
            outcome,
        }
    }
}

/// An exception that the application raised. All texts may hold any byte.
#[derive(Clone, Copy, Debug)]
pub struct AppError<'a> {
    /// The method of the request.
    pub method: &'a [u8],
    /// The path of the request; at most 2 KiB of it are logged.
    pub path: &'a [u8],
    /// The worker that ran it.
    pub worker: Option<u32>,
    /// The generation that ran it.
    pub generation: Option<u32>,
    /// The request's id.
    pub request_id: Option<&'a [u8]>,
    /// The trace, and the span there, where the request is traced.
    pub trace: Option<(TraceId, SpanId)>,
    /// The exception's class.
    pub class: &'a [u8],
    /// The exception's message; at most 8 KiB of it are logged.
    pub message: &'a [u8],
    /// The backtrace, a frame a line; at most 32 KiB of it are logged.
    pub backtrace: &'a [u8],
}

/// A request that runs past its deadline. All texts but the message may hold any byte.
#[derive(Clone, Copy, Debug)]
pub struct Late<'a> {
    /// What happened.
    pub message: &'a str,
    /// The method of the request.
    pub method: &'a [u8],
    /// The path of the request; at most 2 KiB of it are logged.
    pub path: &'a [u8],
    /// Since the start of the application.
    pub app: Duration,
    /// The worker that runs it.
    pub worker: Option<u32>,
    /// The generation that runs it.
    pub generation: Option<u32>,
    /// The request's id.
    pub request_id: Option<&'a [u8]>,
    /// The trace, and the span there, where the request is traced.
    pub trace: Option<(TraceId, SpanId)>,
    /// Where its thread is, a frame a line; at most 32 KiB of it are logged.
    pub backtrace: &'a [u8],
}
