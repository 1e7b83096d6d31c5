//! The types of settings for the log. They write nothing.

use super::Field;
use crate::kind::Value;

/// The form of the log's lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// `Text` in a terminal, else `Logfmt`.
    Auto,
    /// Lines for people.
    Text,
    /// `key=value` pairs.
    Logfmt,
    /// One JSON object a line.
    Json,
}

/// How much a line of the server's own matters, from the least to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// The server does what it should.
    Info,
    /// Something is wrong that the server copes with.
    Warn,
    /// Something failed.
    Error,
}

impl LogLevel {
    /// All levels.
    pub const ALL: [Self; 3] = [Self::Info, Self::Warn, Self::Error];

    /// Its name, in settings and in lines of the log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }

    /// The level of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == name)
    }
}

impl Field for LogFormat {
    fn from_value(value: Value) -> Self {
        match String::from_value(value).as_str() {
            "auto" => Self::Auto,
            "text" => Self::Text,
            "json" => Self::Json,
            _ => Self::Logfmt,
        }
    }

    fn to_value(&self) -> Value {
        Value::Text(match self {
            Self::Auto => "auto".to_owned(),
            Self::Text => "text".to_owned(),
            Self::Logfmt => "logfmt".to_owned(),
            Self::Json => "json".to_owned(),
        })
    }
}

impl Field for LogLevel {
    fn from_value(value: Value) -> Self {
        Self::named(&String::from_value(value)).unwrap_or(Self::Info)
    }

    fn to_value(&self) -> Value {
        Value::Text(self.as_str().to_owned())
    }
}
