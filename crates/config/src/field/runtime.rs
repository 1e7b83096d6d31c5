//! How Ruby itself runs: which compiler and which allocator it gets. Knows no Ruby and looks for no library.

use crate::field::Field;
use crate::kind::{FREQUENT, Value};

/// What is done for the speed and the memory of Ruby itself, where no other setting says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuntimeTuning {
    /// What is known to be safe on the Ruby that runs.
    Auto,
    /// Nothing.
    Plain,
}

/// Which compiler of Ruby's makes machine code of the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jit {
    /// YJIT, where this Ruby has it and it is known to be safe.
    Auto,
    /// YJIT, where this Ruby has it.
    Yjit,
    /// None, unless the application or Ruby's options enable one.
    None,
}

/// What gives the application memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocator {
    /// jemalloc, where a good version is installed.
    Auto,
    /// jemalloc.
    Jemalloc,
    /// The C library.
    System,
}

/// What the template requests before it forks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WarmUp {
    /// These paths.
    pub paths: Vec<String>,
    /// Also those that clients ask for most.
    pub frequent: bool,
}

impl Field for WarmUp {
    fn from_value(value: Value) -> Self {
        let mut paths = Vec::from_value(value);
        let all = paths.len();
        paths.retain(|path: &String| path != FREQUENT);
        Self {
            frequent: paths.len() < all,
            paths,
        }
    }

    fn to_value(&self) -> Value {
        let frequent = self.frequent.then(|| FREQUENT.to_owned());
        Value::List(self.paths.iter().cloned().chain(frequent).collect())
    }
}

impl Field for RuntimeTuning {
    fn from_value(value: Value) -> Self {
        match String::from_value(value).as_str() {
            "auto" => Self::Auto,
            _ => Self::Plain,
        }
    }

    fn to_value(&self) -> Value {
        Value::Text(match self {
            Self::Auto => "auto".to_owned(),
            Self::Plain => "plain".to_owned(),
        })
    }
}

impl Field for Jit {
    fn from_value(value: Value) -> Self {
        match String::from_value(value).as_str() {
            "yjit" => Self::Yjit,
            "none" => Self::None,
            _ => Self::Auto,
        }
    }

    fn to_value(&self) -> Value {
        Value::Text(match self {
            Self::Auto => "auto".to_owned(),
            Self::Yjit => "yjit".to_owned(),
            Self::None => "none".to_owned(),
        })
    }
}

impl Field for Allocator {
    fn from_value(value: Value) -> Self {
        match String::from_value(value).as_str() {
            "jemalloc" => Self::Jemalloc,
            "system" => Self::System,
            _ => Self::Auto,
        }
    }

    fn to_value(&self) -> Value {
        Value::Text(match self {
            Self::Auto => "auto".to_owned(),
            Self::Jemalloc => "jemalloc".to_owned(),
            Self::System => "system".to_owned(),
        })
    }
}
