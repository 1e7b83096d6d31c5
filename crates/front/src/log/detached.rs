//! The log for what has no buffer in it: the writer's own notices, and a thread that panics. It gathers nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::SystemTime;

use super::line::Line;
use super::pairs::event;
use super::stamp::Stamp;
use super::text::{Style, TextLine};
use super::writer::Writer;
use super::{Format, Level, Value};

/// The log of a server, for any thread.
#[derive(Debug)]
pub(crate) struct DetachedLog {
    pub(super) format: Arc<AtomicU8>,
    pub(super) style: Style,
    pub(super) writer: Arc<Writer>,
}

impl DetachedLog {
    /// Logs an event, after what was handed over before. The names in `pairs` must be plain words.
    pub(crate) fn event(&self, level: Level, message: &str, pairs: &[(&str, Value<'_>)]) {
        let mut bytes = Vec::new();
        let format = Format::of(self.format.load(Ordering::Relaxed));
        append_event(&mut bytes, format, self.style, (level, message), pairs);
        self.writer.offer(&bytes, 1);
    }

    /// Writes out what was handed over, and nothing from then on. Gives up after two seconds.
    pub(crate) fn finish(&self) {
        self.writer.finish();
    }
}

/// Appends the line of an event.
pub(super) fn append_event(
    into: &mut Vec<u8>,
    format: Format,
    style: Style,
    (level, message): (Level, &str),
    pairs: &[(&str, Value<'_>)],
) {
    let now = SystemTime::now();
    if format == Format::Text {
        return TextLine::begin(into, style, now).event(level, message, pairs);
    }
    let mut stamp = Stamp::default();
    let mut line = Line::begin(into, format, stamp.at(now));
    event(&mut line, level, message, pairs);
    line.end();
}
