//! The log: a line for each request, the server's events, and the application's errors; for people in a terminal, else as
//! logfmt or as JSON with the same keys. It goes to stdout or to a file.
//!
//! The front appends to a buffer; a thread of its own writes it out. The front never blocks on the output:
//! where the writer cannot keep up, whole lines are dropped, counted, and the count is logged. No control
//! character of a request or an application reaches the output raw.

mod entry;
pub mod errors;
mod escape;
mod filter;
mod line;
mod output;
mod stamp;
#[cfg(test)]
mod tests;
mod text;
mod writer;

use std::cell::{Cell, RefCell};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::SystemTime;

use config::{LogField, LogFormat, Settings};

pub use entry::{AppError, Entry, Late, Level, Value};
pub use filter::filter;
use line::Line;
use output::{Output, Terminal};
use stamp::Stamp;
use text::{Style, TextLine};
use writer::{Notice, Writer};

/// How much is gathered before it is handed to the writer, in bytes.
const HAND_OVER_BYTES: usize = 16 * 1024;
/// More of a path is cut off, in bytes.
const MAX_PATH_BYTES: usize = 2 * 1024;
/// More of a field of a request is cut off, in bytes.
const MAX_FIELD_BYTES: usize = 512;
/// More of an error's message or of an event's text is cut off, in bytes.
const MAX_TEXT_BYTES: usize = 8 * 1024;
/// More of a backtrace is cut off, in bytes.
const MAX_BACKTRACE_BYTES: usize = 32 * 1024;

/// How lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Short aligned lines for people.
    Text,
    /// `key=value`, with quotes where a value may hold anything.
    Logfmt,
    /// One JSON object a line.
    Json,
}

impl Format {
    /// The format with this number.
    fn of(number: u8) -> Self {
        match number {
            0 => Self::Text,
            1 => Self::Logfmt,
            _ => Self::Json,
        }
    }
}

/// The log of one server. Dropping it writes out what is buffered, within two seconds.
#[derive(Debug)]
pub struct AccessLog {
    format: Cell<Format>,
    /// The same, for the thread that writes.
    shared_format: Arc<AtomicU8>,
    /// The terminal that it is written to.
    terminal: Option<Terminal>,
    gathered: RefCell<Gathered>,
    writer: Writer,
}

/// What was not handed over yet.
#[derive(Debug)]
struct Gathered {
    bytes: Vec<u8>,
    lines: u64,
    stamp: Stamp,
}

impl AccessLog {
    /// A log that writes to `output` from a thread of its own.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn new(format: Format, output: impl Write + Send + 'static) -> io::Result<Self> {
        Self::over(format, Output::stream(output), None)
    }

    /// A log on stdout, past the buffer and the lock of [`io::stdout`], or in the file that the settings name; relative to
    /// `dir`.
    ///
    /// # Errors
    /// When stdout cannot be duplicated, the file cannot be opened or the thread cannot be started.
    pub fn open(settings: &Settings, dir: &Path) -> io::Result<Self> {
        let (output, terminal) = match &settings.log_file {
            Some(path) => (Output::file(dir.join(path))?, None),
            None => Output::stdout()?,
        };
        let format = resolve(settings.log_format, terminal.is_some());
        Self::over(format, output, terminal)
    }

    fn over(format: Format, output: Output, terminal: Option<Terminal>) -> io::Result<Self> {
        let shared_format = Arc::new(AtomicU8::new(format as u8));
        let current = Arc::clone(&shared_format);
        let style = terminal.as_ref().map_or(Style::PLAIN, Terminal::style);
        Ok(Self {
            format: Cell::new(format),
            shared_format,
            terminal,
            gathered: RefCell::new(Gathered {
                bytes: Vec::with_capacity(2 * HAND_OVER_BYTES),
                lines: 0,
                stamp: Stamp::default(),
            }),
            writer: Writer::start(output, move |notice, into| {
                notify(
                    Format::of(current.load(Ordering::Relaxed)),
                    style,
                    notice,
                    into,
                );
            })?,
        })
    }

    /// Writes lines of the format that these settings choose from now on.
    pub fn apply(&self, settings: &Settings) {
        let format = resolve(settings.log_format, self.terminal.is_some());
        self.format.set(format);
        self.shared_format.store(format as u8, Ordering::Relaxed);
    }

    /// The format of its lines.
    pub fn format(&self) -> Format {
        self.format.get()
    }

    /// Opens the file of the log again, after it was renamed: later lines go to the new one. Does not wait for it; if it
    /// cannot be opened, the old file stays, and a line in it says why. Without a file nothing happens.
    pub fn reopen(&self) {
        self.flush();
        self.writer.reopen();
    }

    /// Logs a request.
    pub fn record(&self, entry: &Entry<'_>) {
        self.write(|text| text.request(entry), |line| request(line, entry));
    }

    /// Logs an event of the server, and hands it over at once. The names in `pairs` must be plain words.
    pub fn event(&self, level: Level, message: &str, pairs: &[(&str, Value<'_>)]) {
        self.write(
            |text| text.event(level, message, pairs),
            |line| event(line, level, message, pairs),
        );
        self.flush();
    }

    /// Logs an exception of the application, with its backtrace: in JSON as an array, else on lines of their own.
    pub fn app_error(&self, error: &AppError<'_>) {
        self.write(
            |text| text.app_error(error),
            |line| {
                line.word("level", Level::Error.as_str());
                line.text("class", error.class, MAX_TEXT_BYTES);
                line.text("message", error.message, MAX_TEXT_BYTES);
                line.token("method", error.method);
                line.text("path", error.path, MAX_PATH_BYTES);
                if let Some(id) = error.request_id {
                    line.token("request_id", id);
                }
                line.number("worker", error.worker.map(u64::from));
                line.number("generation", error.generation.map(u64::from));
                line.backtrace(error.backtrace, MAX_BACKTRACE_BYTES);
            },
        );
    }

    /// Logs a request that runs past its deadline, with the backtrace of its thread as in [`AccessLog::app_error`].
    pub fn late(&self, late: &Late<'_>) {
        self.write(
            |text| text.late(late),
            |line| {
                line.word("level", Level::Warn.as_str());
                line.text("message", late.message.as_bytes(), MAX_TEXT_BYTES);
                line.token("method", late.method);
                line.text("path", late.path, MAX_PATH_BYTES);
                line.milliseconds("app_ms", Some(late.app));
                if let Some(id) = late.request_id {
                    line.token("request_id", id);
                }
                line.number("worker", late.worker.map(u64::from));
                line.number("generation", late.generation.map(u64::from));
                line.backtrace(late.backtrace, MAX_BACKTRACE_BYTES);
            },
        );
    }

    /// Hands what is gathered to the writer; does not wait for it. To be called now and then, so that lines
    /// appear while little happens.
    pub fn flush(&self) {
        self.gathered.borrow_mut().hand_over(&self.writer);
    }

    /// Adds a line for people by the first function, or one for machines by the second.
    fn write(
        &self,
        for_people: impl FnOnce(&mut TextLine<'_>),
        for_machines: impl FnOnce(&mut Line<'_>),
    ) {
        let gathered = &mut *self.gathered.borrow_mut();
        let now = SystemTime::now();
        match self.format.get() {
            Format::Text => {
                let style = self.terminal.as_ref().map_or(Style::PLAIN, Terminal::style);
                for_people(&mut TextLine::begin(&mut gathered.bytes, style, now));
                gathered.lines += 1;
                // A person waits for it.
                gathered.hand_over(&self.writer);
            }
            format => {
                let mut line = Line::begin(&mut gathered.bytes, format, gathered.stamp.at(now));
                for_machines(&mut line);
                line.end();
                gathered.lines += 1;
                if gathered.bytes.len() >= HAND_OVER_BYTES {
                    gathered.hand_over(&self.writer);
                }
            }
        }
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        self.flush();
        self.writer.finish();
    }
}

impl Gathered {
    fn hand_over(&mut self, writer: &Writer) {
        if self.bytes.is_empty() {
            return;
        }
        writer.offer(&self.bytes, self.lines);
        self.bytes.clear();
        self.lines = 0;
    }
}

/// The format that a setting means.
fn resolve(format: LogFormat, terminal: bool) -> Format {
    match format {
        LogFormat::Auto if terminal => Format::Text,
        LogFormat::Text => Format::Text,
        LogFormat::Auto | LogFormat::Logfmt => Format::Logfmt,
        LogFormat::Json => Format::Json,
    }
}

/// The pairs of a request.
fn request(line: &mut Line<'_>, entry: &Entry<'_>) {
    let has = |field| entry.fields.contains(field);
    line.token("method", entry.method);
    line.text("path", entry.path, MAX_PATH_BYTES);
    line.number("status", entry.status.map(u64::from));
    if has(LogField::Bytes) {
        line.number("bytes", Some(entry.bytes));
    }
    if has(LogField::BytesIn) {
        line.number("bytes_in", entry.bytes_in);
    }
    if has(LogField::QueueMs) {
        line.milliseconds("queue_ms", entry.queue);
    }
    if has(LogField::AppMs) {
        line.milliseconds("app_ms", entry.app);
    }
    line.number("worker", entry.worker.map(u64::from));
    line.number("generation", entry.generation.map(u64::from));
    if has(LogField::RequestId) {
        line.maybe_token("request_id", entry.request_id);
    }
    if has(LogField::Client) {
        line.maybe_text("client", entry.client.map(str::as_bytes), MAX_FIELD_BYTES);
    }
    if has(LogField::Host) {
        line.maybe_text("host", entry.host, MAX_FIELD_BYTES);
    }
    if has(LogField::Protocol) {
        line.maybe_text(
            "protocol",
            entry.protocol.map(str::as_bytes),
            MAX_FIELD_BYTES,
        );
    }
    if has(LogField::UserAgent) {
        line.maybe_text("user_agent", entry.user_agent, MAX_FIELD_BYTES);
    }
    if has(LogField::Referer) {
        line.maybe_text("referer", entry.referer, MAX_PATH_BYTES);
    }
    line.word("outcome", entry.outcome);
}

/// The pairs of an event.
fn event(line: &mut Line<'_>, level: Level, message: &str, pairs: &[(&str, Value<'_>)]) {
    line.word("level", level.as_str());
    line.text("message", message.as_bytes(), MAX_TEXT_BYTES);
    for (key, value) in pairs {
        match value {
            Value::Number(number) => line.number(key, Some(*number)),
            Value::Text(text) => line.text(key, text.to_string().as_bytes(), MAX_TEXT_BYTES),
        }
    }
}

/// Appends a line about the log itself.
fn notify(format: Format, style: Style, notice: Notice, into: &mut Vec<u8>) {
    let (level, message, number, reason);
    match &notice {
        Notice::Dropped(lines) => {
            (level, number, reason) = (Level::Warn, Some(("lines", *lines)), None);
            message = "log lines were dropped: the output does not keep up or is full";
        }
        Notice::NotReopened(error) => {
            (level, number, reason) = (Level::Error, None, Some(("reason", error)));
            message = "cannot open the log file again: later lines go on into the old one";
        }
    }
    let mut pairs = Vec::new();
    pairs.extend(number.map(|(key, number)| (key, Value::Number(number))));
    pairs.extend(reason.map(|(key, error)| (key, Value::Text(error))));
    let now = SystemTime::now();
    if format == Format::Text {
        return TextLine::begin(into, style, now).event(level, message, &pairs);
    }
    let mut stamp = Stamp::default();
    let mut line = Line::begin(into, format, stamp.at(now));
    event(&mut line, level, message, &pairs);
    line.end();
}
