//! The value of `threads`: a number, or a range of numbers. It reads and writes it, and decides nothing.

use std::fmt;

/// How many threads a worker has, and how many of them take requests at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadRange {
    /// The least threads that take requests.
    pub least: u16,
    /// The threads of a worker.
    pub most: u16,
}

impl ThreadRange {
    /// Whether the number of threads that take requests may change.
    pub fn is_variable(self) -> bool {
        self.least < self.most
    }
}

/// So many threads, all of which take requests.
impl From<u16> for ThreadRange {
    fn from(threads: u16) -> Self {
        Self {
            least: threads,
            most: threads,
        }
    }
}

impl fmt::Display for ThreadRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_variable() {
            true => write!(f, "{}..{}", self.least, self.most),
            false => self.most.fmt(f),
        }
    }
}

/// The two ends of a range such as `1..8`, or a number as both.
pub(crate) fn ends(text: &str) -> Option<(u64, u64)> {
    let number = |text: &str| match text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => text.parse().ok(),
        false => None,
    };
    let (least, most) = text.split_once("..").unwrap_or((text, text));
    let (least, most) = (number(least)?, number(most)?);
    (least <= most).then_some((least, most))
}
