//! One line of the log, pair by pair, in either format; appends to a buffer and never allocates of itself.

use std::time::Duration;

use super::{Format, escape};

/// A line that is being written. Keys must be plain words.
pub(super) struct Line<'a> {
    out: &'a mut Vec<u8>,
    format: Format,
}

impl<'a> Line<'a> {
    pub(super) fn begin(out: &'a mut Vec<u8>, format: Format, time: &[u8]) -> Self {
        match format {
            Format::Text => out.extend_from_slice(b"time="),
            Format::Json => out.extend_from_slice(b"{\"time\":\""),
        }
        out.extend_from_slice(time);
        if format == Format::Json {
            out.push(b'"');
        }
        Self { out, format }
    }

    pub(super) fn end(self) {
        if self.format == Format::Json {
            self.out.push(b'}');
        }
        self.out.push(b'\n');
    }

    /// A value of ours that needs no escape.
    pub(super) fn word(&mut self, key: &str, word: &str) {
        self.key(key);
        match self.format {
            Format::Text => self.out.extend_from_slice(word.as_bytes()),
            Format::Json => self.quoted(word.as_bytes(), usize::MAX),
        }
    }

    /// A value that is a word of letters in all likelihood.
    pub(super) fn token(&mut self, key: &str, value: &[u8]) {
        let is_word = !value.is_empty()
            && value
                .iter()
                .all(|byte| byte.is_ascii_alphabetic() || *byte == b'-');
        self.key(key);
        if self.format == Format::Text && is_word {
            self.out.extend_from_slice(value);
        } else {
            self.quoted(value, super::MAX_PATH_BYTES);
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

    /// Lines of text; in text format nothing may follow them.
    pub(super) fn backtrace(&mut self, lines: &[u8], limit: usize) {
        let shown = &lines[..lines.len().min(limit)];
        let frames = shown
            .split(|&byte| byte == b'\n')
            .filter(|frame| !frame.is_empty());
        match self.format {
            Format::Text => {
                for frame in frames {
                    self.out.extend_from_slice(b"\n  | ");
                    escape::append(self.out, frame, limit, self.format);
                }
                if shown.len() < lines.len() {
                    self.out.extend_from_slice("\n  | …".as_bytes());
                }
            }
            Format::Json => {
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
        match self.format {
            Format::Text => {
                self.out.push(b' ');
                self.out.extend_from_slice(key.as_bytes());
                self.out.push(b'=');
            }
            Format::Json => {
                self.out.extend_from_slice(b",\"");
                self.out.extend_from_slice(key.as_bytes());
                self.out.extend_from_slice(b"\":");
            }
        }
    }

    fn quoted(&mut self, value: &[u8], limit: usize) {
        self.out.push(b'"');
        escape::append(self.out, value, limit, self.format);
        self.out.push(b'"');
    }

    fn absent(&mut self) {
        self.out.extend_from_slice(match self.format {
            Format::Text => b"-",
            Format::Json => b"null",
        });
    }
}

fn append_decimal(out: &mut Vec<u8>, mut value: u64) {
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
