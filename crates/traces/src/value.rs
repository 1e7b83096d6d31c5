//! Values of attributes. Texts are cut here: whatever a client sends, a request that waits to be sent has a bound. It names no
//! attribute.

/// More of a text is cut off, in bytes.
const MAX_TEXT_BYTES: usize = 1024;

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A text.
    Text(String),
    /// A whole number.
    Number(i64),
    /// A number with a fraction.
    Decimal(f64),
}

impl Value {
    /// A text of any bytes; at most 1 KiB of it.
    pub fn text(bytes: &[u8]) -> Self {
        let cut = &bytes[..bytes.len().min(MAX_TEXT_BYTES)];
        let mut text = String::from_utf8_lossy(cut).into_owned();
        // What is no UTF-8 has become longer.
        text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
        text.shrink_to_fit();
        Self::Text(text)
    }

    /// What it holds in addition to itself, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.capacity(),
            Self::Number(_) | Self::Decimal(_) => 0,
        }
    }
}

/// A name of the semantic conventions or of Highball's own, and its value.
pub type Attribute = (&'static str, Value);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_a_client_is_cut() {
        for (byte, length) in [(b'x', 1024), (0xff, 1023)] {
            let Value::Text(text) = Value::text(&[byte; 5000]) else {
                panic!("a text");
            };
            assert_eq!(text.len(), length);
        }
        assert_eq!(Value::text(b"a\xff"), Value::Text("a\u{fffd}".to_owned()));
    }
}
