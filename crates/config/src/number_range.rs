//! A fixed number, or a range within which the server chooses one: of workers, by load, and of the threads of a worker that
//! take requests, by how long requests wait. It decides on no number.

use std::fmt;

use crate::field::Field;
use crate::kind::Value;

/// A number, or a range of them. Both ends are at least 1 in settings that were loaded; a fixed number has equal ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberRange {
    least: u16,
    most: u16,
}

impl NumberRange {
    /// Returns the range from one number to another, which is no less.
    pub const fn between(least: u16, most: u16) -> Self {
        Self { least, most }
    }

    /// The least; of a fixed number all of it.
    pub fn least(self) -> u16 {
        self.least
    }

    /// The most; the same as the least with a fixed number.
    pub fn most(self) -> u16 {
        self.most
    }

    /// Whether the number may change.
    pub fn is_range(self) -> bool {
        self.least < self.most
    }
}

impl From<u16> for NumberRange {
    fn from(number: u16) -> Self {
        Self {
            least: number,
            most: number,
        }
    }
}

/// As it is written in a flag: `4`, or `2..8`.
impl fmt::Display for NumberRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_range() {
            true => write!(f, "{}..{}", self.least, self.most),
            false => self.least.fmt(f),
        }
    }
}

impl Field for NumberRange {
    fn from_value(value: Value) -> Self {
        match value {
            Value::Range(least, most) => Self {
                least: u16::from_value(Value::Number(least)),
                most: u16::from_value(Value::Number(most)),
            },
            number => u16::from_value(number).into(),
        }
    }

    fn to_value(&self) -> Value {
        match self.is_range() {
            true => Value::Range(self.least.into(), self.most.into()),
            false => self.least.to_value(),
        }
    }
}
