//! One line of the log for people: short, aligned, and as wide as the terminal. What does not fit goes on in further lines,
//! and no word is torn apart. It asks no terminal anything.

use std::io::Write;
use std::time::{Duration, SystemTime};

use config::LogField;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::entry::{AppError, Entry, Late, Level, Value};
use super::escape::{self, Quoting};
use super::{MAX_BACKTRACE_BYTES, MAX_FIELD_BYTES, MAX_PATH_BYTES, MAX_TEXT_BYTES};

/// Where the text of a line begins: after the time.
const INDENT: usize = 10;
/// Columns of the method.
const METHOD: usize = 7;
/// Columns of a request's line from the method on, without method, path and worker: spaces, status and time.
const OTHERS: usize = 16;
/// Columns of the path.
const LEAST_PATH: usize = 16;
const MOST_PATH: usize = 60;
/// Columns of the path where the width does not matter, or notes need some.
const USUAL_PATH: usize = 45;
/// Columns for what is unusual about a request.
const NOTES: usize = 20;
/// A request that waited for less is not said to have waited, in milliseconds.
const LEAST_QUEUE: u128 = 10;

const DIM: &str = "2";
const RED: &str = "31";
const GREEN: &str = "32";
const YELLOW: &str = "33";
const CYAN: &str = "36";

/// How lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Style {
    /// Columns of the terminal.
    pub(super) width: Option<usize>,
    /// Whether it shows colours.
    pub(super) colours: bool,
}

impl Style {
    /// Not in a terminal.
    pub(super) const PLAIN: Self = Self {
        width: None,
        colours: false,
    };
}

/// A line that is being written.
pub(super) struct TextLine<'a> {
    out: &'a mut Vec<u8>,
    style: Style,
}

impl<'a> TextLine<'a> {
    /// Begins a line with the local time.
    pub(super) fn begin(out: &'a mut Vec<u8>, style: Style, now: SystemTime) -> Self {
        // Before 1970, and after the year 9999, there is no time that people could read.
        let now = Timestamp::try_from(now).unwrap_or_default();
        let now = now.to_zoned(TimeZone::system());
        let mut line = Self { out, style };
        let clock = format!("{:02}:{:02}:{:02}", now.hour(), now.minute(), now.second());
        line.paint(DIM, clock.as_bytes());
        line.raw("  ");
        line
    }

    /// `GET /books 200 12.3ms w0`, in columns; after these what is unusual.
    pub(super) fn request(&mut self, entry: &Entry<'_>) {
        let method = escaped(entry.method, 2 * METHOD);
        let worker = entry
            .worker
            .map_or("-".to_owned(), |worker| format!("w{worker}"));
        let columns = self.path_columns(method.len(), worker.len());
        let path = shortened(&percent_escaped(entry.path), columns);
        let shown = path.chars().count();
        self.raw(&format!("{method:<METHOD$} "));
        match entry.status {
            Some(500..) => self.paint(RED, path.as_bytes()),
            _ => self.raw(&path),
        }
        self.spaces(columns.saturating_sub(shown) + 1);
        match entry.status {
            Some(status) => self.paint(colour_of(status), status.to_string().as_bytes()),
            None => self.raw("  -"),
        }
        let time = entry.app.map_or("-".to_owned(), duration);
        self.raw(&format!(" {time:>8}  {worker}"));
        let notes = notes(entry);
        let used = INDENT + METHOD.max(method.len()) + columns + OTHERS + worker.len();
        self.wrap(&notes, used);
        self.end();
    }

    /// The message, and the fields after it.
    pub(super) fn event(&mut self, level: Level, message: &str, pairs: &[(&str, Value<'_>)]) {
        let mut lines = message.lines();
        let mut words = split(lines.next().unwrap_or_default().as_bytes());
        for (key, value) in pairs {
            let value = match value {
                Value::Number(number) => number.to_string(),
                Value::Text(text) => text.to_string(),
            };
            let mut parts = split(value.as_bytes());
            let first = parts.first_mut();
            let first = first.map_or(String::new(), std::mem::take);
            words.push(format!("{key}={first}"));
            words.extend(parts.into_iter().skip(1));
        }
        let label = self.label(level);
        self.wrap_after(&words, INDENT + label, true);
        self.end();
        self.indented(lines.map(str::as_bytes), MAX_TEXT_BYTES);
    }

    /// Class and message, the request, and the backtrace.
    pub(super) fn app_error(&mut self, error: &AppError<'_>) {
        let label = self.label(Level::Error);
        let class = escaped(error.class, MAX_FIELD_BYTES);
        self.paint(RED, format!("{class}:").as_bytes());
        let used = INDENT + label + class.chars().count() + 1;
        self.wrap(&split(error.message), used);
        self.end();
        self.about(error.method, error.path, error.worker);
        self.backtrace(error.backtrace);
    }

    /// What happened, the request, and the backtrace.
    pub(super) fn late(&mut self, late: &Late<'_>) {
        let label = self.label(Level::Warn);
        let mut words = split(late.message.as_bytes());
        words.push(format!("({})", duration(late.app)));
        self.wrap_after(&words, INDENT + label, true);
        self.end();
        self.about(late.method, late.path, late.worker);
        self.backtrace(late.backtrace);
    }

    /// The level, unless nothing is wrong. Returns the columns that it takes.
    fn label(&mut self, level: Level) -> usize {
        let (colour, text) = match level {
            Level::Info => return 0,
            Level::Warn => (YELLOW, "warning:"),
            Level::Error => (RED, "error:"),
        };
        self.paint(colour, text.as_bytes());
        self.raw(" ");
        text.len() + 1
    }

    /// A line that says which request it was.
    fn about(&mut self, method: &[u8], path: &[u8], worker: Option<u32>) {
        let method = escaped(method, 2 * METHOD);
        let worker = worker.map_or(String::new(), |worker| format!("  w{worker}"));
        let used = INDENT + method.len() + 1 + worker.len();
        let width = self.style.width.unwrap_or(MAX_PATH_BYTES);
        let columns = width.saturating_sub(used).max(LEAST_PATH);
        let path = shortened(&percent_escaped(path), columns);
        self.spaces(INDENT);
        self.raw(&format!("{method} {path}{worker}"));
        self.end();
    }

    /// The frames, a line each; those of gems in the background.
    fn backtrace(&mut self, backtrace: &[u8]) {
        let shown = &backtrace[..backtrace.len().min(MAX_BACKTRACE_BYTES)];
        let frames = shown.split(|&byte| byte == b'\n');
        self.indented(
            frames.filter(|frame| !frame.is_empty()),
            MAX_BACKTRACE_BYTES,
        );
        if shown.len() < backtrace.len() {
            self.indented([&b"..."[..]].into_iter(), MAX_BACKTRACE_BYTES);
        }
    }

    /// Lines below the first one. They are not wrapped: editors and terminals make links of `file:line`.
    fn indented<'b>(&mut self, lines: impl Iterator<Item = &'b [u8]>, limit: usize) {
        for line in lines {
            self.spaces(INDENT + 2);
            let text = escaped(line, limit);
            match text.contains("/gems/") || text.contains("/lib/ruby/") {
                true => self.paint(DIM, text.as_bytes()),
                false => self.raw(&text),
            }
            self.end();
        }
    }

    /// Columns that the path gets.
    fn path_columns(&self, method: usize, worker: usize) -> usize {
        let Some(width) = self.style.width else {
            return USUAL_PATH;
        };
        let used = INDENT + METHOD.max(method) + OTHERS + worker;
        let room = width.saturating_sub(used);
        // Where there is much room, some of it is for notes.
        let columns = room.min(room.saturating_sub(NOTES).max(USUAL_PATH));
        columns.clamp(LEAST_PATH, MOST_PATH)
    }

    /// Words that go on after a text that ends in column `used`.
    fn wrap(&mut self, words: &[String], used: usize) {
        self.wrap_after(words, used, false);
    }

    /// The same; `start`: no space stands before the first one.
    fn wrap_after(&mut self, words: &[String], used: usize, start: bool) {
        let (mut used, mut start) = (used, start);
        for word in words {
            let length = word.chars().count();
            let space = usize::from(!start);
            if used + space + length > self.style.width.unwrap_or(usize::MAX) && used > INDENT + 2 {
                self.end();
                self.spaces(INDENT + 2);
                used = INDENT + 2;
            } else {
                self.spaces(space);
                used += space;
            }
            self.raw(word);
            (used, start) = (used + length, false);
        }
    }

    fn paint(&mut self, colour: &str, text: &[u8]) {
        if self.style.colours {
            // Writing to a buffer cannot fail.
            let _ = write!(self.out, "\x1b[{colour}m");
        }
        self.out.extend_from_slice(text);
        if self.style.colours {
            self.out.extend_from_slice(b"\x1b[0m");
        }
    }

    /// Text without control characters.
    fn raw(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    fn spaces(&mut self, count: usize) {
        self.out.resize(self.out.len() + count, b' ');
    }

    fn end(&mut self) {
        self.out.push(b'\n');
    }
}

/// What is unusual about a request, and the fields that somebody asked for.
fn notes(entry: &Entry<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(queue) = entry.queue.filter(|queue| queue.as_millis() >= LEAST_QUEUE) {
        notes.push(format!(" queue={}", duration(queue)));
    }
    // An error of the application has lines of its own.
    if !matches!(entry.outcome, "ok" | "app_error") {
        notes.push(format!(" {}", entry.outcome));
    }
    let texts = [
        (LogField::Client, "client", entry.client.map(str::as_bytes)),
        (LogField::Host, "host", entry.host),
        (
            LogField::Protocol,
            "protocol",
            entry.protocol.map(str::as_bytes),
        ),
        (LogField::UserAgent, "user_agent", entry.user_agent),
        (LogField::Referer, "referer", entry.referer),
    ];
    for (field, key, value) in texts {
        if entry.fields.contains(field) {
            let value = value.map_or("-".to_owned(), |value| escaped(value, MAX_FIELD_BYTES));
            let mut words = split(format!("{key}={value}").as_bytes());
            if let Some(first) = words.first_mut() {
                first.insert(0, ' ');
            }
            notes.extend(words);
        }
    }
    if entry.fields.contains(LogField::BytesIn) {
        let bytes = entry
            .bytes_in
            .map_or("-".to_owned(), |bytes| bytes.to_string());
        notes.push(format!(" bytes_in={bytes}"));
    }
    notes
}

/// Text without control characters, of at most so many bytes.
fn escaped(bytes: &[u8], limit: usize) -> String {
    let mut text = Vec::new();
    escape::append(&mut text, bytes, limit, Quoting::None);
    String::from_utf8_lossy(&text).into_owned()
}

/// The words of a text.
fn split(text: &[u8]) -> Vec<String> {
    let text = escaped(text, MAX_TEXT_BYTES);
    text.split(' ')
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// A path of ASCII, as wide as it is long: other bytes are escaped as a client should have.
fn percent_escaped(path: &[u8]) -> String {
    let mut text = String::new();
    for &byte in &path[..path.len().min(MAX_PATH_BYTES)] {
        match byte {
            b'!'..=b'~' => text.push(char::from(byte)),
            _ => text += &format!("%{byte:02X}"),
        }
    }
    text
}

/// A text of ASCII in at most so many columns: what is too much is left out in the middle.
fn shortened(text: &str, columns: usize) -> String {
    if text.len() <= columns {
        return text.to_owned();
    }
    let kept = columns.saturating_sub(1);
    let end = kept / 2;
    format!("{}…{}", &text[..kept - end], &text[text.len() - end..])
}

/// A time in at most 8 columns, up to some years.
fn duration(time: Duration) -> String {
    let milliseconds = time.as_secs_f64() * 1e3;
    match milliseconds {
        ..999.95 => format!("{milliseconds:.1}ms"),
        ..99_995.0 => format!("{:.2}s", milliseconds / 1e3),
        _ => format!("{}s", time.as_secs()),
    }
}

const fn colour_of(status: u16) -> &'static str {
    match status {
        0..300 => GREEN,
        300..400 => CYAN,
        400..500 => YELLOW,
        _ => RED,
    }
}

#[cfg(test)]
mod tests;
