//! Lines of one thread that the writer does not have yet. It writes nothing itself.

use super::stamp::Stamp;
use super::writer::Writer;

/// How much is gathered before it is handed to the writer, in bytes.
pub(super) const HAND_OVER_BYTES: usize = 16 * 1024;

/// What was not handed over yet.
#[derive(Debug)]
pub(super) struct Gathered {
    pub(super) bytes: Vec<u8>,
    pub(super) lines: u64,
    pub(super) stamp: Stamp,
}

impl Gathered {
    pub(super) fn new() -> Self {
        Self {
            bytes: Vec::with_capacity(2 * HAND_OVER_BYTES),
            lines: 0,
            stamp: Stamp::default(),
        }
    }

    /// Hands all of it over; does not wait for the output.
    pub(super) fn hand_over(&mut self, writer: &Writer) {
        if self.bytes.is_empty() {
            return;
        }
        writer.offer(&self.bytes, self.lines);
        self.bytes.clear();
        self.lines = 0;
    }
}
