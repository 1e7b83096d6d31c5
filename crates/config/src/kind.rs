//! The kinds of values: how each is read from text, bounded, written and explained. Knows no setting.

mod lists;
mod path_list;
mod range;
mod ratio;
mod socket_address;
mod text_forms;
mod toml_forms;
mod value_name;

use std::time::Duration;

pub(crate) use self::lists::FREQUENT;
use self::lists::MAX_REQUEST_PATHS;
use self::text_forms::{file_mode, is_host, is_request_path, one_of};
use crate::address_list::{self, AddressList};
use crate::hsts::{self, Hsts};
use crate::rate_limit::{self, RateLimit};
use crate::units::{SIZE_UNITS, TIME_UNITS, quantity, size_text, time_text};
use crate::{log_fields, media_types, parameters};

/// What a value looks like, and which ones are allowed. Both ends of each range are included.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A whole number.
    Integer {
        /// The least.
        min: u64,
        /// The greatest.
        max: u64,
    },
    /// A whole number, or `auto`.
    AutoInteger {
        /// The least.
        min: u64,
        /// The greatest.
        max: u64,
    },
    /// A whole number, a range of them with a beginning of at least 1 (`2..8`), or `auto`.
    AutoRange {
        /// The least.
        min: u64,
        /// The greatest.
        max: u64,
    },
    /// A whole number, or two as a range: `1..8`.
    Range {
        /// The least.
        min: u64,
        /// The greatest.
        max: u64,
    },
    /// A size in bytes: a plain number, or one with a unit (`112KiB`, `1GB`).
    Bytes {
        /// The least, in bytes.
        min: u64,
        /// The greatest, in bytes.
        max: u64,
    },
    /// The same, or `auto`.
    AutoBytes {
        /// The least, in bytes.
        min: u64,
        /// The greatest, in bytes.
        max: u64,
    },
    /// A time: a plain number of seconds, or one with a unit (`500ms`, `30s`, `2m`, `1h`).
    Duration {
        /// The shortest.
        min: Duration,
        /// The longest.
        max: Duration,
    },
    /// `true` or `false`.
    Bool,
    /// Any text that is not empty and has no control character.
    Text,
    /// The path of a request, with a query or without.
    RequestPath,
    /// A list of such paths, also with the word `frequent`. Empty is `none`.
    RequestPaths,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// What this kind allows, or `none`. No list.
    Maybe(&'static Kind),
    /// How long browsers come by TLS alone; see [`Hsts`].
    Hsts,
    /// The name of a host.
    Host,
    /// An IP address with a port.
    SocketAddress,
    /// A list of addresses to listen on.
    Listen,
    /// A list of addresses and networks; see [`AddressList`].
    Addresses,
    /// The same as one text, separated by spaces: the value of a path.
    AddressesOfPath,
    /// How many requests are allowed in which time; see [`RateLimit`].
    RateLimit,
    /// A list of parts of parameter names; see [`ParameterNames`](crate::ParameterNames).
    ParameterNames,
    /// A list of types of content; see [`MediaTypes`](crate::MediaTypes).
    MediaTypes,
    /// A list of fields of the access log; see [`LogFields`](crate::LogFields).
    LogFields,
    /// The mode of a file, in octal digits, or `auto`.
    FileMode,
    /// A part of a whole: `50%`.
    Percent,
    /// A part of a whole, to a millionth: `0.01`.
    Ratio,
    /// A list of texts; the words say what each is. Empty is `none`.
    Texts(&'static str),
    /// A list of whole numbers from 1. Empty is `none`.
    Counts,
    /// A list of paths, with a value of this kind each where there is one; see [`PathRules`](crate::PathRules).
    Paths(Option<&'static Kind>),
}

/// A value that its kind has checked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    None,
    Auto,
    Number(u64),
    /// From the first to the second, which is greater.
    Range(u64, u64),
    Duration(Duration),
    Bool(bool),
    Text(String),
    List(Vec<String>),
    Rules(Vec<(String, Value)>),
    /// In place of a value, where it is enough that a path is listed.
    Listed,
}

impl Kind {
    /// What is allowed, in words that follow "expected".
    pub fn allowed(&self) -> String {
        match self {
            Self::Integer { min, max } => format!("a whole number from {min} to {max}"),
            Self::AutoInteger { min, max } => {
                format!("a whole number from {min} to {max}, or \"auto\"")
            }
            Self::AutoRange { min, max } => {
                format!("a whole number from {min} to {max}, a range such as \"2..8\", or \"auto\"")
            }
            Self::Range { min, max } => {
                format!("a whole number from {min} to {max}, or a range such as \"1..8\"")
            }
            Self::Bytes { min, max } => format!(
                "a size from {} to {}, such as 65536, \"64KiB\" or \"1MiB\"",
                size_text(*min),
                size_text(*max)
            ),
            Self::AutoBytes { min, max } => {
                let (min, max) = (*min, *max);
                format!("{}, or \"auto\"", Self::Bytes { min, max }.allowed())
            }
            Self::Duration { min, max } => format!(
                "a time from {} to {}, such as 30 (seconds), \"500ms\" or \"2m\"",
                time_text(*min),
                time_text(*max)
            ),
            Self::Bool => "true or false".to_owned(),
            Self::Text => "a text that is not empty and has no control character".to_owned(),
            Self::RequestPath => "the path of a request, such as \"/up\"".to_owned(),
            Self::RequestPaths => format!(
                "a list of at most {MAX_REQUEST_PATHS} paths of requests, such as \"/up\", and \"frequent\", or \"none\" alone"
            ),
            Self::Choice(words) => one_of(words),
            Self::Hsts => hsts::ALLOWED.to_owned(),
            Self::Host => {
                "the name of a host without a port, such as \"www.example.com\"".to_owned()
            }
            Self::SocketAddress => socket_address::ALLOWED.to_owned(),
            Self::Maybe(kind) => format!("{}, or \"none\"", kind.allowed()),
            Self::Listen => format!("a list of {}", crate::listen::ALLOWED),
            Self::Addresses => format!("a list of {}", address_list::ALLOWED),
            Self::AddressesOfPath => {
                format!("{}, separated by spaces", address_list::ALLOWED)
            }
            Self::RateLimit => rate_limit::ALLOWED.to_owned(),
            Self::ParameterNames => format!("a list of {}", parameters::ALLOWED),
            Self::MediaTypes => format!("a list of {}", media_types::ALLOWED),
            Self::LogFields => format!("a list of {}", log_fields::allowed()),
            Self::FileMode => {
                "a mode of three or four octal digits up to \"0777\", such as \"0660\", or \"auto\""
                    .to_owned()
            }
            Self::Percent => "a part from 1% to 100%".to_owned(),
            Self::Ratio => ratio::ALLOWED.to_owned(),
            Self::Texts(what) => format!("a list of {what}, or \"none\" alone"),
            Self::Counts => "a list of whole numbers from 1, or \"none\" alone".to_owned(),
            Self::Paths(values) => path_list::allowed(*values),
        }
    }

    /// Reads the text of a value that is no list.
    ///
    /// # Errors
    /// What is wrong with it and what is allowed, to follow the name of the setting.
    pub(crate) fn parse(&self, text: &str) -> Result<Value, String> {
        let wrong = || self.not_allowed(text);
        match self {
            Self::AutoInteger { .. }
            | Self::AutoRange { .. }
            | Self::AutoBytes { .. }
            | Self::FileMode
                if text == "auto" =>
            {
                Ok(Value::Auto)
            }
            Self::FileMode => file_mode(text).map(Value::Number).ok_or_else(wrong),
            Self::Maybe(_) if text == "none" => Ok(Value::None),
            Self::Maybe(kind) => kind.parse(text).map_err(|error| error + ", or \"none\""),
            Self::AutoRange { min, max } | Self::Range { min, max } if range::is_range(text) => {
                let range = range::parse(text, (*min).max(1), *max);
                range.map_err(|message| message.unwrap_or_else(wrong))
            }
            Self::Integer { min, max }
            | Self::AutoInteger { min, max }
            | Self::AutoRange { min, max }
            | Self::Range { min, max } => {
                let number: i128 = text.parse().map_err(|_| wrong())?;
                let number = u64::try_from(number).map_err(|_| self.out_of_range(text))?;
                self.within(
                    Value::Number(number),
                    *min <= number && number <= *max,
                    text,
                )
            }
            Self::Bytes { min, max } | Self::AutoBytes { min, max } => {
                let size = quantity(text, &SIZE_UNITS, 1).ok_or_else(wrong)?;
                let size = size.ok_or_else(|| self.out_of_range(text))?;
                self.within(Value::Number(size), *min <= size && size <= *max, text)
            }
            Self::Duration { min, max } => {
                let time = quantity(text, &TIME_UNITS, 1_000).ok_or_else(wrong)?;
                let time = Duration::from_millis(time.ok_or_else(|| self.out_of_range(text))?);
                self.within(Value::Duration(time), *min <= time && time <= *max, text)
            }
            Self::Percent => ratio::percent(text).map(Value::Number).ok_or_else(wrong),
            Self::Ratio => ratio::parse(text).map(Value::Number).ok_or_else(wrong),
            Self::Bool => text.parse().map(Value::Bool).map_err(|_| wrong()),
            Self::Text if text.is_empty() || text.chars().any(char::is_control) => Err(wrong()),
            Self::Text => Ok(Value::Text(text.to_owned())),
            Self::RequestPath if is_request_path(text) => Ok(Value::Text(text.to_owned())),
            Self::RequestPath => Err(wrong()),
            Self::Hsts if Hsts::parse(text).is_some() => Ok(Value::Text(text.to_owned())),
            Self::Host if is_host(text) => Ok(Value::Text(text.to_ascii_lowercase())),
            Self::SocketAddress if socket_address::is_valid(text) => {
                Ok(Value::Text(text.to_owned()))
            }
            Self::Hsts | Self::Host | Self::SocketAddress => Err(wrong()),
            Self::Choice(words) if words.contains(&text) => Ok(Value::Text(text.to_owned())),
            Self::Choice(_) => Err(wrong()),
            Self::AddressesOfPath => {
                let items: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
                if items.is_empty() {
                    return Err(wrong());
                }
                AddressList::parse(&items)?;
                Ok(Value::List(items))
            }
            Self::RateLimit => {
                let limit = RateLimit::parse(text).ok_or_else(wrong)?;
                Ok(Value::Text(limit.to_string()))
            }
            Self::Listen
            | Self::Addresses
            | Self::ParameterNames
            | Self::MediaTypes
            | Self::LogFields
            | Self::Texts(_)
            | Self::RequestPaths
            | Self::Counts
            | Self::Paths(_) => self.parse_list(&[text.to_owned()]),
        }
    }

    /// Writes a value as it is written in a flag.
    pub(crate) fn text(&self, value: &Value) -> String {
        match (self, value) {
            (_, Value::None) => "none".to_owned(),
            (_, Value::Auto) => "auto".to_owned(),
            (Self::Maybe(kind), value) => kind.text(value),
            (Self::Bytes { .. } | Self::AutoBytes { .. }, Value::Number(size)) => size_text(*size),
            (Self::Percent, Value::Number(number)) => format!("{number}%"),
            (Self::Ratio, Value::Number(millionths)) => ratio::text(*millionths),
            (Self::FileMode, Value::Number(mode)) => format!("{mode:04o}"),
            (_, Value::Number(number)) => number.to_string(),
            (_, Value::Range(least, most)) => range::text(*least, *most),
            (_, Value::Duration(time)) => time_text(*time),
            (_, Value::Bool(on)) => on.to_string(),
            (_, Value::Text(text)) => text.clone(),
            (Self::AddressesOfPath, Value::List(items)) => items.join(" "),
            (Self::Texts(_) | Self::RequestPaths | Self::Counts, Value::List(items))
                if items.is_empty() =>
            {
                "none".to_owned()
            }
            (_, Value::List(items)) => items.join(","),
            (Self::Paths(values), Value::Rules(rules)) => path_list::text(*values, rules),
            (_, Value::Rules(_) | Value::Listed) => unreachable!("not of this kind: {value:?}"),
        }
    }

    fn not_allowed(&self, text: &str) -> String {
        format!("{text:?} is not allowed; expected {}", self.allowed())
    }

    fn within(&self, value: Value, inside: bool, text: &str) -> Result<Value, String> {
        if inside {
            Ok(value)
        } else {
            Err(self.out_of_range(text))
        }
    }

    fn out_of_range(&self, text: &str) -> String {
        format!("{text} is out of range; expected {}", self.allowed())
    }
}

#[cfg(test)]
mod tests;
