//! An address with a port as the field of a setting.

use std::net::SocketAddr;

use super::{Field, mismatch};
use crate::kind::Value;

impl Field for SocketAddr {
    fn from_value(value: Value) -> Self {
        match value {
            Value::Text(text) => text.parse().expect("its kind has checked it"),
            other => mismatch(&other),
        }
    }

    fn to_value(&self) -> Value {
        Value::Text(self.to_string())
    }
}
