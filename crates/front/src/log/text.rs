//! One line of the log for people: short, aligned, and as wide as the terminal. What does not fit goes on in further lines,
//! and no word is torn apart. It asks no terminal anything.

mod notes;
mod words;

use std::io::Write;
use std::time::SystemTime;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::entry::{AppError, Entry, Late, Value};
use super::{Level, MAX_BACKTRACE_BYTES, MAX_FIELD_BYTES, MAX_PATH_BYTES, MAX_TEXT_BYTES};
use notes::notes;
use words::{duration, escaped, percent_escaped, shortened, split};

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
    /// Where its text begins: after the time, and the application's name.
    indent: usize,
}

impl<'a> TextLine<'a> {
    /// Begins a line with the local time.
    pub(super) fn begin(out: &'a mut Vec<u8>, style: Style, now: SystemTime) -> Self {
        // Before 1970, and after the year 9999, there is no time that people could read.
        let now = Timestamp::try_from(now).unwrap_or_default();
        let now = now.to_zoned(TimeZone::system());
        let mut line = Self {
            out,
            style,
            indent: INDENT,
        };
        let clock = format!("{:02}:{:02}:{:02}", now.hour(), now.minute(), now.second());
        line.paint(DIM, clock.as_bytes());
        line.raw("  ");
        line
    }

    /// Begins the text with the application's name, where there are several.
    pub(super) fn name(&mut self, application: Option<&str>) {
        if let Some(name) = application {
            self.paint(DIM, name.as_bytes());
            self.raw("  ");
            self.indent += name.len() + 2;
        }
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
        let used = self.indent + METHOD.max(method.len()) + columns + OTHERS + worker.len();
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
        self.wrap_after(&words, self.indent + label, true);
        self.end();
        self.indented(lines.map(str::as_bytes), MAX_TEXT_BYTES);
    }

    /// Class and message, the request, and the backtrace.
    pub(super) fn app_error(&mut self, error: &AppError<'_>) {
        let label = self.label(Level::Error);
        let class = escaped(error.class, MAX_FIELD_BYTES);
        self.paint(RED, format!("{class}:").as_bytes());
        let used = self.indent + label + class.chars().count() + 1;
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
        self.wrap_after(&words, self.indent + label, true);
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
        let used = self.indent + method.len() + 1 + worker.len();
        let width = self.style.width.unwrap_or(MAX_PATH_BYTES);
        let columns = width.saturating_sub(used).max(LEAST_PATH);
        let path = shortened(&percent_escaped(path), columns);
        self.spaces(self.indent);
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
            self.spaces(self.indent + 2);
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
        let used = self.indent + METHOD.max(method) + OTHERS + worker;
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
            if used + space + length > self.style.width.unwrap_or(usize::MAX)
                && used > self.indent + 2
            {
                self.end();
                self.spaces(self.indent + 2);
                used = self.indent + 2;
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
