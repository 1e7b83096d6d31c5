//! The log: a line for each request, the server's events, and the application's errors; for people in a terminal, else as
//! logfmt or as JSON with the same keys. It goes to stdout or to a file.
//!
//! The front appends to a buffer; a thread of its own writes it out. The front never blocks on the output:
//! where the writer cannot keep up, whole lines are dropped, counted, and the count is logged. No control
//! character of a request or an application reaches the output raw.

pub(crate) mod detached;
mod entry;
pub mod errors;
mod escape;
mod filter;
mod format;
mod gathered;
mod level;
mod line;
mod output;
mod pairs;
mod stamp;
#[cfg(test)]
mod tests;
mod text;
pub(crate) mod throttle;
mod writer;

use std::cell::{Cell, RefCell};
use std::io::{self, Write};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::SystemTime;

pub use config::LogLevel as Level;
use config::Settings;

use detached::{DetachedLog, append_event};
pub use entry::{AppError, Entry, Late, Value};
pub use filter::filter;
pub use format::Format;
use format::resolve;
use gathered::{Gathered, HAND_OVER_BYTES};
pub use level::Levels;
use level::SharedLevels;
use line::Line;
pub use output::has_colours;
use output::{Output, Terminal};
use pairs::{event, request};
use text::{Style, TextLine};
use writer::{Notice, Writer};

/// More of a path is cut off, in bytes.
const MAX_PATH_BYTES: usize = 2 * 1024;
/// More of a field of a request is cut off, in bytes.
const MAX_FIELD_BYTES: usize = 512;
/// More of an error's message or of an event's text is cut off, in bytes.
const MAX_TEXT_BYTES: usize = 8 * 1024;
/// More of a backtrace is cut off, in bytes.
const MAX_BACKTRACE_BYTES: usize = 32 * 1024;

/// The log of one server at one of its threads, or what one of its applications writes into it. Dropping the last of the
/// first thread writes out what is buffered, within two seconds.
#[derive(Debug)]
pub struct AccessLog {
    /// The application that its lines name.
    application: Option<Box<str>>,
    shared: Rc<Shared>,
}

/// What all of one server's logs write through.
#[derive(Debug)]
struct Shared {
    format: Cell<Format>,
    /// The same, for the thread that writes.
    shared_format: Arc<AtomicU8>,
    /// Which events are written, at all threads.
    levels: Arc<SharedLevels>,
    /// The terminal that it is written to.
    terminal: Option<Arc<Terminal>>,
    gathered: RefCell<Gathered>,
    writer: Arc<Writer>,
    /// Writes to stdout where the log goes to a file.
    console: Option<Arc<Writer>>,
    /// Whether the writers end with it.
    is_first: bool,
}

/// A log on its way to another thread.
#[derive(Debug)]
pub struct ThreadLog(Shared);

impl ThreadLog {
    /// The log, at that thread.
    pub fn open(self) -> AccessLog {
        AccessLog {
            application: None,
            shared: Rc::new(self.0),
        }
    }
}

impl AccessLog {
    /// A log that writes to `output` from a thread of its own.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn new(format: Format, output: impl Write + Send + 'static) -> io::Result<Self> {
        Self::over(format, Output::stream(output), None, None)
    }

    /// A log on stdout, past the buffer and the lock of [`io::stdout`], or in the file that the settings name; relative to
    /// `dir`.
    ///
    /// # Errors
    /// When stdout cannot be duplicated, the file cannot be opened or the thread cannot be started.
    pub fn open(settings: &Settings, dir: &Path) -> io::Result<Self> {
        let (stdout, terminal) = Output::stdout()?;
        let log = if let Some(path) = &settings.log_file {
            let output = Output::file(dir.join(path))?;
            // Nobody is told there what was lost.
            let console = Some(Arc::new(Writer::start(stdout, |_, _| {})?));
            Self::over(resolve(settings.log_format, false), output, None, console)?
        } else {
            let format = resolve(settings.log_format, terminal.is_some());
            Self::over(format, stdout, terminal, None)?
        };
        log.shared.levels.apply(settings.log_level);
        Ok(log)
    }

    /// The same log, in which each line names this application; the name must be a plain word.
    pub fn of_application(&self, name: &str) -> Self {
        Self {
            application: Some(name.into()),
            shared: Rc::clone(&self.shared),
        }
    }

    fn over(
        format: Format,
        output: Output,
        terminal: Option<Terminal>,
        console: Option<Arc<Writer>>,
    ) -> io::Result<Self> {
        let shared_format = Arc::new(AtomicU8::new(format as u8));
        let current = Arc::clone(&shared_format);
        let style = terminal.as_ref().map_or(Style::PLAIN, Terminal::style);
        let shared = Shared {
            format: Cell::new(format),
            shared_format,
            levels: Arc::default(),
            terminal: terminal.map(Arc::new),
            gathered: RefCell::new(Gathered::new()),
            writer: Arc::new(Writer::start(output, move |notice, into| {
                notify(
                    Format::of(current.load(Ordering::Relaxed)),
                    style,
                    notice,
                    into,
                );
            })?),
            console,
            is_first: true,
        };
        Ok(Self {
            application: None,
            shared: Rc::new(shared),
        })
    }

    /// Returns the same log for another thread: that gathers lines of its own, and one writer writes all. Lines of different
    /// threads may be out of order by as long as they are gathered.
    pub fn for_thread(&self) -> ThreadLog {
        let shared = &self.shared;
        ThreadLog(Shared {
            format: shared.format.clone(),
            shared_format: Arc::clone(&shared.shared_format),
            levels: Arc::clone(&shared.levels),
            terminal: shared.terminal.clone(),
            gathered: RefCell::new(Gathered::new()),
            writer: Arc::clone(&shared.writer),
            console: shared.console.clone(),
            is_first: false,
        })
    }

    /// Returns the same log for events of any thread.
    pub(crate) fn detached(&self) -> DetachedLog {
        let shared = &self.shared;
        let terminal = shared.terminal.as_ref();
        DetachedLog {
            format: Arc::clone(&shared.shared_format),
            style: terminal.map_or(Style::PLAIN, |one| one.style()),
            writer: Arc::clone(&shared.writer),
        }
    }

    /// The application that its lines name.
    pub fn application(&self) -> Option<&str> {
        self.application.as_deref()
    }

    /// Writes lines of the format that these settings choose from now on, and events of their level, if that is another one than
    /// theirs before.
    pub fn apply(&self, settings: &Settings) {
        self.shared.levels.apply(settings.log_level);
        let format = resolve(settings.log_format, self.shared.terminal.is_some());
        self.shared.format.set(format);
        self.shared
            .shared_format
            .store(format as u8, Ordering::Relaxed);
    }

    /// The format of its lines.
    pub fn format(&self) -> Format {
        self.shared.format.get()
    }

    /// Opens the file of the log again, after it was renamed: later lines go to the new one. Does not wait for it; if it
    /// cannot be opened, the old file stays, and a line in it says why. Without a file nothing happens.
    pub fn reopen(&self) {
        self.flush();
        self.shared.writer.reopen();
    }

    /// Logs a request.
    pub fn record(&self, entry: &Entry<'_>) {
        self.write(|text| text.request(entry), |line| request(line, entry));
    }

    /// Logs an event of the server, and hands it over at once; nothing if its level is not written. The names in `pairs` must
    /// be plain words.
    pub fn event(&self, level: Level, message: &str, pairs: &[(&str, Value<'_>)]) {
        if self.shared.levels.write(level) {
            self.always(level, message, pairs);
        }
    }

    /// Logs an event, whatever levels are written.
    fn always(&self, level: Level, message: &str, pairs: &[(&str, Value<'_>)]) {
        self.write(
            |text| text.event(level, message, pairs),
            |line| event(line, level, message, pairs),
        );
        self.flush();
    }

    /// Writes a line to stdout for the person who starts the server: as it is where the log is logfmt or goes to a file, else
    /// as an event of the log, whatever levels are written. Does not wait for stdout.
    pub fn announce(&self, text: &str) {
        if self.shared.console.is_none() && self.format() != Format::Logfmt {
            return self.always(Level::Info, text, &[]);
        }
        self.flush();
        let line = format!("{text}\n");
        let console = self.shared.console.as_ref().unwrap_or(&self.shared.writer);
        console.offer(line.as_bytes(), 1);
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
                if error.request_id.is_some() {
                    line.id(error.request_id);
                }
                line.trace(error.trace);
                line.number("worker", error.worker.map(u64::from));
                line.number("generation", error.generation.map(u64::from));
                line.backtrace(error.backtrace, MAX_BACKTRACE_BYTES);
            },
        );
    }

    /// Logs a request that runs past its deadline, with the backtrace of its thread as in [`AccessLog::app_error`].
    pub fn late(&self, late: &Late<'_>) {
        if !self.shared.levels.write(Level::Warn) {
            return;
        }
        self.write(
            |text| text.late(late),
            |line| {
                line.word("level", Level::Warn.as_str());
                line.text("message", late.message.as_bytes(), MAX_TEXT_BYTES);
                line.token("method", late.method);
                line.text("path", late.path, MAX_PATH_BYTES);
                line.milliseconds("app_ms", Some(late.app));
                if late.request_id.is_some() {
                    line.id(late.request_id);
                }
                line.trace(late.trace);
                line.number("worker", late.worker.map(u64::from));
                line.number("generation", late.generation.map(u64::from));
                line.backtrace(late.backtrace, MAX_BACKTRACE_BYTES);
            },
        );
    }

    /// Hands what is gathered to the writer; does not wait for it. To be called now and then, so that lines
    /// appear while little happens.
    pub fn flush(&self) {
        self.shared
            .gathered
            .borrow_mut()
            .hand_over(&self.shared.writer);
    }

    /// Adds a line for people by the first function, or one for machines by the second.
    fn write(
        &self,
        for_people: impl FnOnce(&mut TextLine<'_>),
        for_machines: impl FnOnce(&mut Line<'_>),
    ) {
        let gathered = &mut *self.shared.gathered.borrow_mut();
        let now = SystemTime::now();
        match self.shared.format.get() {
            Format::Text => {
                let style = self
                    .shared
                    .terminal
                    .as_ref()
                    .map_or(Style::PLAIN, |one| one.style());
                let mut line = TextLine::begin(&mut gathered.bytes, style, now);
                line.name(self.application.as_deref());
                for_people(&mut line);
                gathered.lines += 1;
                // A person waits for it.
                gathered.hand_over(&self.shared.writer);
            }
            format => {
                let mut line = Line::begin(&mut gathered.bytes, format, gathered.stamp.at(now));
                if let Some(name) = &self.application {
                    line.word("application", name);
                }
                for_machines(&mut line);
                line.end();
                gathered.lines += 1;
                if gathered.bytes.len() >= HAND_OVER_BYTES {
                    gathered.hand_over(&self.shared.writer);
                }
            }
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.gathered.borrow_mut().hand_over(&self.writer);
        if !self.is_first {
            return;
        }
        self.writer.finish();
        if let Some(console) = &self.console {
            console.finish();
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
    append_event(into, format, style, (level, message), &pairs);
}
