//! The log on stdout: a line for each request, the server's events, and the application's errors, as text or
//! as JSON with the same keys.
//!
//! The front appends to a buffer; a thread of its own writes it out. The front never blocks on the output:
//! where the writer cannot keep up, whole lines are dropped, counted, and the count is logged. No control
//! character of a request or an application reaches the output raw.

pub mod errors;
mod escape;
mod filter;
mod line;
mod stamp;
#[cfg(test)]
mod tests;
mod writer;

use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

pub use filter::filter;
use line::Line;
use stamp::Stamp;
use writer::Writer;

/// How much is gathered before it is handed to the writer, in bytes.
const HAND_OVER_BYTES: usize = 16 * 1024;
/// More of a path is cut off, in bytes.
const MAX_PATH_BYTES: usize = 2 * 1024;
/// More of an error's message or of an event's text is cut off, in bytes.
const MAX_TEXT_BYTES: usize = 8 * 1024;
/// More of a backtrace is cut off, in bytes.
const MAX_BACKTRACE_BYTES: usize = 32 * 1024;

/// What a pipe takes in one piece, even if other processes write to it (pipe(7)), in bytes.
const PIPE_BUF: usize = 4096;

/// How lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `key=value`, with quotes where a value may hold anything.
    Text,
    /// One JSON object a line.
    Json,
}

impl From<config::LogFormat> for Format {
    fn from(format: config::LogFormat) -> Self {
        match format {
            config::LogFormat::Text => Self::Text,
            config::LogFormat::Json => Self::Json,
        }
    }
}

/// How much an event matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// The server does what it should.
    Info,
    /// Something is wrong that the server copes with.
    Warn,
    /// Something failed.
    Error,
}

impl Level {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

/// One request that has ended. What is not known is written as `-` in text and `null` in JSON.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
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
    /// The one outcome.
    pub outcome: &'static str,
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
    /// What there is to say.
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
    /// Where its thread is, a frame a line; at most 32 KiB of it are logged.
    pub backtrace: &'a [u8],
}

/// The log of one server. Dropping it writes out what is buffered, within two seconds.
#[derive(Debug)]
pub struct AccessLog {
    format: Cell<Format>,
    /// The same, for the thread that writes.
    json: Arc<AtomicBool>,
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
        Self::over(format, output, usize::MAX)
    }

    fn over(
        format: Format,
        output: impl Write + Send + 'static,
        most_bytes: usize,
    ) -> io::Result<Self> {
        let json = Arc::new(AtomicBool::new(format == Format::Json));
        let is_json = Arc::clone(&json);
        Ok(Self {
            format: Cell::new(format),
            json,
            gathered: RefCell::new(Gathered {
                bytes: Vec::with_capacity(2 * HAND_OVER_BYTES),
                lines: 0,
                stamp: Stamp::default(),
            }),
            writer: Writer::start(output, most_bytes, move |lines, into| {
                dropped(is_json.load(Ordering::Relaxed), lines, into)
            })?,
        })
    }

    /// A log on stdout, past the buffer and the lock of [`io::stdout`].
    ///
    /// # Errors
    /// When stdout cannot be duplicated or the thread cannot be started.
    pub fn to_stdout(format: Format) -> io::Result<Self> {
        let output = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        // Workers write to the same stdout, and so does the next binary in an upgrade: lines must not get mixed up.
        let pipe = output
            .metadata()
            .is_ok_and(|facts| facts.file_type().is_fifo());
        let most_bytes = if pipe { PIPE_BUF } else { usize::MAX };
        Self::over(format, output, most_bytes)
    }

    /// Writes lines of this form from now on.
    pub fn set_format(&self, format: Format) {
        self.format.set(format);
        self.json.store(format == Format::Json, Ordering::Relaxed);
    }

    /// Logs a request.
    pub fn record(&self, entry: &Entry<'_>) {
        self.write(|line| {
            line.token("method", entry.method);
            line.text("path", entry.path, MAX_PATH_BYTES);
            line.number("status", entry.status.map(u64::from));
            line.number("bytes", Some(entry.bytes));
            line.milliseconds("queue_ms", entry.queue);
            line.milliseconds("app_ms", entry.app);
            line.number("worker", entry.worker.map(u64::from));
            line.number("generation", entry.generation.map(u64::from));
            line.word("outcome", entry.outcome);
        });
    }

    /// Logs an event of the server, and hands it over at once. The names in `pairs` must be plain words.
    pub fn event(&self, level: Level, message: &str, pairs: &[(&str, &dyn Display)]) {
        self.write(|line| {
            line.word("level", level.as_str());
            line.text("message", message.as_bytes(), MAX_TEXT_BYTES);
            for (key, value) in pairs {
                line.text(key, value.to_string().as_bytes(), MAX_TEXT_BYTES);
            }
        });
        self.flush();
    }

    /// Logs an exception of the application, with its backtrace: in text on lines of their own that begin with
    /// a bar, in JSON as an array.
    pub fn app_error(&self, error: &AppError<'_>) {
        self.write(|line| {
            line.word("level", Level::Error.as_str());
            line.text("class", error.class, MAX_TEXT_BYTES);
            line.text("message", error.message, MAX_TEXT_BYTES);
            line.token("method", error.method);
            line.text("path", error.path, MAX_PATH_BYTES);
            line.number("worker", error.worker.map(u64::from));
            line.number("generation", error.generation.map(u64::from));
            line.backtrace(error.backtrace, MAX_BACKTRACE_BYTES);
        });
    }

    /// Logs a request that runs past its deadline, with the backtrace of its thread as in [`AccessLog::app_error`].
    pub fn late(&self, late: &Late<'_>) {
        self.write(|line| {
            line.word("level", Level::Warn.as_str());
            line.text("message", late.message.as_bytes(), MAX_TEXT_BYTES);
            line.token("method", late.method);
            line.text("path", late.path, MAX_PATH_BYTES);
            line.milliseconds("app_ms", Some(late.app));
            line.number("worker", late.worker.map(u64::from));
            line.number("generation", late.generation.map(u64::from));
            line.backtrace(late.backtrace, MAX_BACKTRACE_BYTES);
        });
    }

    /// Hands what is gathered to the writer; does not wait for it. To be called now and then, so that lines
    /// appear while little happens.
    pub fn flush(&self) {
        self.gathered.borrow_mut().hand_over(&self.writer);
    }

    fn write(&self, fill: impl FnOnce(&mut Line<'_>)) {
        let mut gathered = self.gathered.borrow_mut();
        let format = self.format.get();
        gathered.line(format, fill);
        if gathered.bytes.len() >= HAND_OVER_BYTES {
            gathered.hand_over(&self.writer);
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
    fn line(&mut self, format: Format, fill: impl FnOnce(&mut Line<'_>)) {
        let mut line = Line::begin(&mut self.bytes, format, self.stamp.at(SystemTime::now()));
        fill(&mut line);
        line.end();
        self.lines += 1;
    }

    fn hand_over(&mut self, writer: &Writer) {
        if self.bytes.is_empty() {
            return;
        }
        writer.offer(&self.bytes, self.lines);
        self.bytes.clear();
        self.lines = 0;
    }
}

/// The line that counts lines which the output did not take.
fn dropped(json: bool, lines: u64, into: &mut Vec<u8>) {
    let format = if json { Format::Json } else { Format::Text };
    let mut stamp = Stamp::default();
    let mut line = Line::begin(into, format, stamp.at(SystemTime::now()));
    line.word("level", Level::Warn.as_str());
    line.text(
        "message",
        b"log lines were dropped: the output does not keep up or is full",
        MAX_TEXT_BYTES,
    );
    line.number("lines", Some(lines));
    line.end();
}
