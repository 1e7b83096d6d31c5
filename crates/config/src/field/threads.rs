//! The value of `threads` as its typed field. It checks nothing: the kind has done that.

use super::Field;
use crate::kind::Value;
use crate::thread_range::{self, ThreadRange};

impl Field for ThreadRange {
    fn from_value(value: Value) -> Self {
        match value {
            Value::Text(text) => {
                let (least, most) = thread_range::ends(&text).expect("a checked range");
                let end = |value: u64| u16::from_value(Value::Number(value));
                Self {
                    least: end(least),
                    most: end(most),
                }
            }
            number => u16::from_value(number).into(),
        }
    }

    fn to_value(&self) -> Value {
        match self.is_variable() {
            true => Value::Text(self.to_string()),
            false => self.most.to_value(),
        }
    }
}
