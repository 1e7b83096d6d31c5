//! A path as a route, for applications whose framework names none: numbers and long identifiers become `:id`. It decides
//! by the look of each segment alone.

/// The longest route made of a path, in bytes.
pub(crate) const MAX_BYTES: usize = 200;
/// A segment of hexadecimal digits stands for an identifier from this length on.
const LONG_HEX: usize = 16;
/// What stands for an identifier.
const ID: &[u8] = b":id";

/// A route on the stack.
pub(crate) struct Text {
    bytes: [u8; MAX_NAME_BYTES],
    length: usize,
}

/// Room for a method and a space.
const METHOD_BYTES: usize = 16;
/// The longest name of a route, in bytes.
pub(crate) const MAX_NAME_BYTES: usize = MAX_BYTES + METHOD_BYTES;

impl Text {
    /// Returns an empty one.
    pub(crate) fn new() -> Self {
        Self {
            bytes: [0; MAX_NAME_BYTES],
            length: 0,
        }
    }

    /// Adds as much of these bytes as there is room for.
    pub(crate) fn push(&mut self, more: &[u8]) {
        let taken = more.len().min(self.bytes.len() - self.length);
        self.bytes[self.length..self.length + taken].copy_from_slice(&more[..taken]);
        self.length += taken;
    }

    /// Adds a path with `:id` in place of identifiers.
    pub(crate) fn push_path(&mut self, path: &[u8]) {
        let path = path.split(|byte| b"?;".contains(byte)).next();
        for (at, segment) in path
            .unwrap_or_default()
            .split(|&byte| byte == b'/')
            .enumerate()
        {
            if at > 0 {
                self.push(b"/");
            }
            self.push(match is_identifier(segment) {
                true => ID,
                false => segment,
            });
        }
    }

    /// The text.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Whether a segment is a number, a UUID or another long identifier. An extension (`12.json`) is a part of it.
fn is_identifier(segment: &[u8]) -> bool {
    let name = segment
        .split(|&byte| byte == b'.')
        .next()
        .unwrap_or(segment);
    if name.is_empty() {
        return false;
    }
    let digits = name.iter().filter(|byte| byte.is_ascii_digit()).count();
    let hex = |byte: &u8| byte.is_ascii_hexdigit() || *byte == b'-';
    digits == name.len() || digits > 0 && name.len() >= LONG_HEX && name.iter().all(hex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_become_id_and_names_stay() {
        for (path, expected) in [
            ("/", "/"),
            ("/books", "/books"),
            ("/books/12", "/books/:id"),
            ("/books/12.json", "/books/:id"),
            ("/books/12/edit?x=1", "/books/:id/edit"),
            ("/v2/books", "/v2/books"),
            ("/deadbeef", "/deadbeef"),
            ("/0192f3a4-11aa-7bcd-8eef-0123456789ab", "/:id"),
            ("/assets/0a1b2c3d4e5f6071.css", "/assets/:id"),
            ("/facade/effaced", "/facade/effaced"),
            ("//1//", "//:id//"),
            ("/a;jsession=1", "/a"),
        ] {
            let mut text = Text::new();
            text.push_path(path.as_bytes());
            assert_eq!(text.bytes(), expected.as_bytes(), "{path}");
        }
    }

    #[test]
    fn a_long_path_is_cut() {
        let mut text = Text::new();
        text.push_path(&[b'x'; 5_000]);
        assert_eq!(text.bytes().len(), MAX_BYTES + METHOD_BYTES);
    }
}
