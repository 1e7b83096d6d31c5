//! Between a checked value and the typed field of [`Settings`](crate::Settings). Never fails: the kind has
//! checked the value, and a test holds that the range of every setting fits its field.

mod address;
mod log;
mod runtime;
mod tls;

use std::fmt::Debug;
use std::path::PathBuf;
use std::time::Duration;

use crate::address_list::AddressList;
use crate::kind::Value;
use crate::listen::{Hosts, Listen};
use crate::log_fields::LogFields;
use crate::media_types::MediaTypes;
use crate::parameters::ParameterNames;
use crate::paths::PathRules;
use crate::rate_limit::RateLimit;

pub use log::{LogFormat, LogLevel};
pub use runtime::{Allocator, Jit, RuntimeTuning, WarmUp};
pub use tls::{ClientVerification, TlsVersion};

/// How the workers of a new generation replace the old ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rollout {
    /// All new workers start, then all old ones stop.
    AllAtOnce,
    /// One new worker starts, one old one stops, and so on.
    WorkerByWorker,
}

/// What a response must say to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CachePolicy {
    /// It names shared caches.
    Explicit,
    /// RFC 9111 lets a shared cache store it.
    Standard,
}

/// The mode of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileMode {
    /// Derived from its group.
    Auto,
    /// These bits, 0o777 at most.
    Bits(u32),
}

/// How much memory all processes of a server may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryBudget {
    /// What the control groups allow.
    Auto,
    /// At most this many bytes.
    Bytes(u64),
}

/// Which folder the server answers files from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PublicFiles {
    /// The one that the application publishes.
    Auto,
    /// None.
    None,
    /// This one.
    Folder(PathBuf),
}

/// A type that a setting can have.
pub(crate) trait Field {
    fn from_value(value: Value) -> Self;
    fn to_value(&self) -> Value;
}

fn mismatch<T>(value: &Value) -> T {
    unreachable!("the kind of a setting and the type of its field disagree: {value:?}")
}

macro_rules! numbers {
    ($($type:ty)+) => {
        $(impl Field for $type {
            fn from_value(value: Value) -> Self {
                match value {
                    Value::Number(number) => number.try_into().expect("the range fits the field"),
                    other => mismatch(&other),
                }
            }

            fn to_value(&self) -> Value {
                Value::Number(u64::try_from(*self).expect("no wider than 64 bits"))
            }
        })+
    };
}

numbers!(u16 u32 u64 usize);

impl Field for bool {
    fn from_value(value: Value) -> Self {
        match value {
            Value::Bool(on) => on,
            other => mismatch(&other),
        }
    }

    fn to_value(&self) -> Value {
        Value::Bool(*self)
    }
}

impl Field for Duration {
    fn from_value(value: Value) -> Self {
        match value {
            Value::Duration(duration) => duration,
            other => mismatch(&other),
        }
    }

    fn to_value(&self) -> Value {
        Value::Duration(*self)
    }
}

impl Field for String {
    fn from_value(value: Value) -> Self {
        match value {
            Value::Text(text) => text,
            other => mismatch(&other),
        }
    }

    fn to_value(&self) -> Value {
        Value::Text(self.clone())
    }
}

impl Field for PathBuf {
    fn from_value(value: Value) -> Self {
        String::from_value(value).into()
    }

    fn to_value(&self) -> Value {
        Value::Text(self.display().to_string())
    }
}

impl Field for PublicFiles {
    fn from_value(value: Value) -> Self {
        match String::from_value(value).as_str() {
            "auto" => Self::Auto,
            "none" => Self::None,
            folder => Self::Folder(folder.into()),
        }
    }

    fn to_value(&self) -> Value {
        Value::Text(match self {
            Self::Auto => "auto".to_owned(),
            Self::None => "none".to_owned(),
            Self::Folder(folder) => folder.display().to_string(),
        })
    }
}

impl Field for Rollout {
    fn from_value(value: Value) -> Self {
        match String::from_value(value).as_str() {
            "worker-by-worker" => Self::WorkerByWorker,
            _ => Self::AllAtOnce,
        }
    }

    fn to_value(&self) -> Value {
        Value::Text(match self {
            Self::AllAtOnce => "all-at-once".to_owned(),
            Self::WorkerByWorker => "worker-by-worker".to_owned(),
        })
    }
}

impl Field for CachePolicy {
    fn from_value(value: Value) -> Self {
        match String::from_value(value).as_str() {
            "standard" => Self::Standard,
            _ => Self::Explicit,
        }
    }

    fn to_value(&self) -> Value {
        Value::Text(match self {
            Self::Explicit => "explicit".to_owned(),
            Self::Standard => "standard".to_owned(),
        })
    }
}

impl Field for MemoryBudget {
    fn from_value(value: Value) -> Self {
        match value {
            Value::Auto => Self::Auto,
            value => Self::Bytes(u64::from_value(value)),
        }
    }

    fn to_value(&self) -> Value {
        match self {
            Self::Auto => Value::Auto,
            Self::Bytes(bytes) => Value::Number(*bytes),
        }
    }
}

impl Field for FileMode {
    fn from_value(value: Value) -> Self {
        match value {
            Value::Auto => Self::Auto,
            value => Self::Bits(u32::from_value(value)),
        }
    }

    fn to_value(&self) -> Value {
        match self {
            Self::Auto => Value::Auto,
            Self::Bits(bits) => bits.to_value(),
        }
    }
}

impl<T: Field> Field for Option<T> {
    fn from_value(value: Value) -> Self {
        match value {
            Value::None => None,
            value => Some(T::from_value(value)),
        }
    }

    fn to_value(&self) -> Value {
        self.as_ref().map_or(Value::None, T::to_value)
    }
}

fn items(value: Value) -> Vec<String> {
    match value {
        Value::List(items) => items,
        other => mismatch(&other),
    }
}

impl Field for Vec<Listen> {
    fn from_value(value: Value) -> Self {
        // Every address has its host by now, so the hosts given here are never used.
        let hosts = Hosts::new(false, false);
        let parse = |item: String| Listen::parse(&item, hosts, None).expect("a checked address");
        items(value).into_iter().flat_map(parse).collect()
    }

    fn to_value(&self) -> Value {
        Value::List(self.iter().map(Listen::to_string).collect())
    }
}

impl Field for Vec<String> {
    fn from_value(value: Value) -> Self {
        items(value)
    }

    fn to_value(&self) -> Value {
        Value::List(self.clone())
    }
}

impl Field for Vec<u64> {
    fn from_value(value: Value) -> Self {
        let numbers = items(value).into_iter();
        let numbers = numbers.map(|item| item.parse().expect("a checked number"));
        numbers.collect()
    }

    fn to_value(&self) -> Value {
        Value::List(self.iter().map(u64::to_string).collect())
    }
}

impl Field for AddressList {
    fn from_value(value: Value) -> Self {
        Self::parse(&items(value)).expect("checked addresses")
    }

    fn to_value(&self) -> Value {
        Value::List(self.items().to_vec())
    }
}

impl Field for ParameterNames {
    fn from_value(value: Value) -> Self {
        Self::parse(&items(value)).expect("checked words")
    }

    fn to_value(&self) -> Value {
        Value::List(self.items())
    }
}

impl Field for MediaTypes {
    fn from_value(value: Value) -> Self {
        Self::parse(&items(value)).expect("checked types")
    }

    fn to_value(&self) -> Value {
        Value::List(self.items())
    }
}

impl Field for LogFields {
    fn from_value(value: Value) -> Self {
        Self::parse(&items(value)).expect("checked names")
    }

    fn to_value(&self) -> Value {
        Value::List(self.items())
    }
}

impl Field for RateLimit {
    fn from_value(value: Value) -> Self {
        Self::parse(&String::from_value(value)).expect("a checked limit")
    }

    fn to_value(&self) -> Value {
        Value::Text(self.to_string())
    }
}

/// A path is listed, and that is all.
impl Field for () {
    fn from_value(value: Value) -> Self {
        if value != Value::Listed {
            mismatch(&value)
        }
    }

    fn to_value(&self) -> Value {
        Value::Listed
    }
}

impl<T: Field> Field for PathRules<T> {
    fn from_value(value: Value) -> Self {
        let Value::Rules(rules) = value else {
            mismatch(&value)
        };
        let rules = rules.into_iter();
        rules
            .map(|(path, value)| (path, T::from_value(value)))
            .collect()
    }

    fn to_value(&self) -> Value {
        let rules = self.iter();
        Value::Rules(
            rules
                .map(|(path, value)| (path.to_owned(), value.to_value()))
                .collect(),
        )
    }
}
