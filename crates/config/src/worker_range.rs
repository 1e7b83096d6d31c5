//! How many workers there shall be: a fixed number, or from a least to a most by load. It decides on no number.

use std::fmt;

use crate::field::Field;
use crate::kind::Value;

/// How many workers there shall be. Both ends are at least 1 in settings that were loaded; a fixed number has equal ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerRange {
    least: u16,
    most: u16,
}

impl WorkerRange {
    /// The number that there always are: with a fixed number all of them.
    pub fn least(self) -> u16 {
        self.least
    }

    /// The most that there are by load; the same as the least with a fixed number.
    pub fn most(self) -> u16 {
        self.most
    }

    /// Whether the number follows the load.
    pub fn follows_load(self) -> bool {
        self.least < self.most
    }
}

impl From<u16> for WorkerRange {
    fn from(number: u16) -> Self {
        Self {
            least: number,
            most: number,
        }
    }
}

/// As it is written in a flag: `4`, or `2..8`.
impl fmt::Display for WorkerRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.follows_load() {
            true => write!(f, "{}..{}", self.least, self.most),
            false => self.least.fmt(f),
        }
    }
}

impl Field for WorkerRange {
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
        match self.follows_load() {
            true => Value::Range(self.least.into(), self.most.into()),
            false => self.least.to_value(),
        }
    }
}
