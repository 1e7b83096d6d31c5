//! How the log's lines look. It writes none.

use config::LogFormat;

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
    pub(super) fn of(number: u8) -> Self {
        match number {
            0 => Self::Text,
            1 => Self::Logfmt,
            _ => Self::Json,
        }
    }
}

/// The format that a setting means.
pub(super) fn resolve(format: LogFormat, terminal: bool) -> Format {
    match format {
        LogFormat::Auto if terminal => Format::Text,
        LogFormat::Text => Format::Text,
        LogFormat::Auto | LogFormat::Logfmt => Format::Logfmt,
        LogFormat::Json => Format::Json,
    }
}
