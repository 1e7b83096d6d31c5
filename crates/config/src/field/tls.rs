//! The types of settings for TLS. They read no file.

use super::Field;
use crate::hsts::Hsts;
use crate::kind::Value;

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    /// TLS 1.2.
    V1_2,
    /// TLS 1.3.
    V1_3,
}

/// Whether clients show a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientVerification {
    /// None is asked for.
    None,
    /// One is asked for, and checked if there is one.
    Optional,
    /// A client without one is refused.
    Required,
}

impl Field for TlsVersion {
    fn from_value(value: Value) -> Self {
        match String::from_value(value).as_str() {
            "1.3" => Self::V1_3,
            _ => Self::V1_2,
        }
    }

    fn to_value(&self) -> Value {
        Value::Text(match self {
            Self::V1_2 => "1.2".to_owned(),
            Self::V1_3 => "1.3".to_owned(),
        })
    }
}

impl Field for ClientVerification {
    fn from_value(value: Value) -> Self {
        match String::from_value(value).as_str() {
            "required" => Self::Required,
            "optional" => Self::Optional,
            _ => Self::None,
        }
    }

    fn to_value(&self) -> Value {
        Value::Text(match self {
            Self::None => "none".to_owned(),
            Self::Optional => "optional".to_owned(),
            Self::Required => "required".to_owned(),
        })
    }
}

impl Field for Hsts {
    fn from_value(value: Value) -> Self {
        Self::parse(&String::from_value(value)).expect("a checked time")
    }

    fn to_value(&self) -> Value {
        Value::Text(self.to_string())
    }
}
