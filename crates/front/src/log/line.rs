//! One line of the log for machines, pair by pair, as logfmt or JSON; appends to a buffer and never allocates of itself.

use std::time::Duration;

use traces::{SpanId, TraceId};

use super::Format;
use super::escape::{self, Quoting};

/// A line that is being written. Keys must be plain words.
pub(super) struct Line<'a> {
    out: &'a mut Vec<u8>,
    json: bool,
}

impl<'a> Line<'a> {
    pub(super) fn begin(out: &'a mut Vec<u8>, format: Format, time: &[u8]) -> Self {
        let json = format == Format::Json;
        let (before, after): (&[u8], &[u8]) = match json {
            true => (b"{\"time\":\"", b"\""),
            false => (b"time=", b""),
        };
        for part in [before, time, after] {
            out.extend_from_slice(part);
        }
        Self { out, json }
    }

    pub(super) fn end(self) {
        if self.json {
            self.out.push(b'}');
        }
        self.out.push(b'\n');
    }

    /// A value of ours that needs no escape.
    pub(super) fn word(&mut self, key: &str, word: &str) {
        self.key(key);
        match self.json {
            true => self.quoted(word.as_bytes(), usize::MAX),
            false => self.out.extend_from_slice(word.as_bytes()),
        }
    }

    /// A value that is a word of letters and digits in all likelihood.
    pub(super) fn token(&mut self, key: &str, value: &[u8]) {
        let is_word = !value.is_empty()
            && value
                .iter()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte));
        self.key(key);
        if !self.json && is_word {
            self.out.extend_from_slice(value);
        } else {
            self.quoted(value, super::MAX_PATH_BYTES);
        }
    }

    /// The id of a request, in which no character needs quotes or an escape ([`crate::http::request_id`]).
    pub(super) fn id(&mut self, value: Option<&[u8]>) {
        self.key("request_id");
        let Some(value) = value else {
            return self.absent();
        };
        let quote: &[u8] = if self.json { b"\"" } else { b"" };
        self.out.extend_from_slice(quote);
        self.out.extend_from_slice(value);
        self.out.extend_from_slice(quote);
    }

    /// A trace and a span there; nothing where there is none.
    pub(super) fn trace(&mut self, ids: Option<(TraceId, SpanId)>) {
        if let Some((trace, span)) = ids {
            self.word("trace_id", &trace.to_string());
            self.word("span_id", &span.to_string());
        }
    }

    /// A value of any bytes, where there may be none.
    pub(super) fn maybe_text(&mut self, key: &str, value: Option<&[u8]>, limit: usize) {
        match value {
            Some(value) => self.text(key, value, limit),
            None => self.number(key, None),
        }
    }

    /// A value of any bytes.
    pub(super) fn text(&mut self, key: &str, value: &[u8], limit: usize) {
        self.key(key);
        self.quoted(value, limit);
    }

    pub(super) fn number(&mut self, key: &str, value: Option<u64>) {
        self.key(key);
        match value {
            Some(value) => append_decimal(self.out, value),
            None => self.absent(),
        }
    }

    /// A duration in milliseconds, with two decimal places.
    pub(super) fn milliseconds(&mut self, key: &str, value: Option<Duration>) {
        self.key(key);
        let Some(value) = value else {
            return self.absent();
        };
        let hundredths = u64::try_from((value.as_micros() + 5) / 10).unwrap_or(u64::MAX);
        append_decimal(self.out, hundredths / 100);
        let rest = (hundredths % 100) as u8;
        self.out
            .extend_from_slice(&[b'.', b'0' + rest / 10, b'0' + rest % 10]);
    }

    /// Lines of text; as logfmt nothing may follow them.
    pub(super) fn backtrace(&mut self, lines: &[u8], limit: usize) {
        let shown = &lines[..lines.len().min(limit)];
        let frames = shown
            .split(|&byte| byte == b'\n')
            .filter(|frame| !frame.is_empty());
        match self.json {
            false => {
                for frame in frames {
                    self.out.extend_from_slice(b"\n  | ");
                    escape::append(self.out, frame, limit, self.quoting());
                }
                if shown.len() < lines.len() {
                    self.out.extend_from_slice("\n  | …".as_bytes());
                }
            }
            true => {
                self.key("backtrace");
                self.out.push(b'[');
                for (index, frame) in frames.enumerate() {
                    if index > 0 {
                        self.out.push(b',');
                    }
                    self.quoted(frame, limit);
                }
                self.out.push(b']');
            }
        }
    }

    fn key(&mut self, key: &str) {
        match self.json {
            false => {
                self.out.push(b' ');
                self.out.extend_from_slice(key.as_bytes());
                self.out.push(b'=');
            }
            true => {
                self.out.extend_from_slice(b",\"");
                self.out.extend_from_slice(key.as_bytes());
                self.out.extend_from_slice(b"\":");
            }
        }
    }

    fn quoted(&mut self, value: &[u8], limit: usize) {
        self.out.push(b'"');
        escape::append(self.out, value, limit, self.quoting());
        self.out.push(b'"');
    }

    fn absent(&mut self) {
        self.out.extend_from_slice(match self.json {
            false => b"-",
            true => b"null",
        });
    }

    const fn quoting(&self) -> Quoting {
        match self.json {
            true => Quoting::Json,
            false => Quoting::Logfmt,
        }
    }
}

pub(super) fn append_decimal(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}
