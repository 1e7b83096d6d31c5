//! Lines and the byte classes of RFC 9110 section 5.6.2: finds where a line ends, never what it means.

/// What was found from the place where the last search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scan {
    /// No line end before this place; the next search starts here.
    Partial(usize),
    /// CRLF, its CR here.
    Line(usize),
    /// A CR without LF, an LF without CR, or another control character, here.
    Stray(usize),
}

impl Scan {
    /// Where the line's content ends, as far as is known.
    pub(super) const fn content_end(self) -> usize {
        match self {
            Self::Partial(at) | Self::Line(at) | Self::Stray(at) => at,
        }
    }
}

/// Searches the end of the line (RFC 9112 section 2.2; a bare LF is none, by choice). No line of HTTP may
/// hold a control character other than HTAB (RFC 9110 section 5.5), so one pass finds both.
#[inline]
pub(super) fn scan(bytes: &[u8], from: usize) -> Scan {
    let at = from + text_prefix(&bytes[from..]);
    match (bytes.get(at), bytes.get(at + 1)) {
        (Some(b'\r'), Some(b'\n')) => Scan::Line(at),
        (None, _) | (Some(b'\r'), None) => Scan::Partial(at),
        _ => Scan::Stray(at),
    }
}

/// How many of the first bytes are no control character but HTAB.
#[inline]
fn text_prefix(bytes: &[u8]) -> usize {
    let mut at = 0;
    loop {
        at += suspect(&bytes[at..]);
        match bytes.get(at) {
            Some(b'\t') => at += 1,
            _ => return at,
        }
    }
}

/// Where the first control character is, HTAB among them; eight bytes at a time.
#[inline]
fn suspect(bytes: &[u8]) -> usize {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * EACH;
    let (words, tail) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        // The high bit of a byte is set where it is below 0x20 or is 0x7f. A borrow can set one wrongly, but
        // only above one that is rightly set, and the lowest counts.
        let below_space = word.wrapping_sub(0x20 * EACH) & !word;
        let delete = (word ^ (0x7f * EACH)).wrapping_sub(EACH) & !(word ^ (0x7f * EACH));
        let found = (below_space | delete) & HIGH;
        if found != 0 {
            return index * 8 + found.trailing_zeros() as usize / 8;
        }
    }
    let in_tail = tail
        .iter()
        .position(u8::is_ascii_control)
        .unwrap_or(tail.len());
    words.len() * 8 + in_tail
}

/// Which bytes are in a class, as a table.
pub(super) type Class = [bool; 256];

/// A class of letters, digits and `others`.
pub(super) const fn alphanumeric_and(others: &[u8]) -> Class {
    let mut class = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        class[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let mut at = 0;
    while at < others.len() {
        class[others[at] as usize] = true;
        at += 1;
    }
    class
}

/// The class with `others` and every byte that is not ASCII.
pub(super) const fn widened(class: &Class, others: &[u8]) -> Class {
    let mut wide = *class;
    let mut byte = 0x80;
    while byte < 256 {
        wide[byte] = true;
        byte += 1;
    }
    let mut at = 0;
    while at < others.len() {
        wide[others[at] as usize] = true;
        at += 1;
    }
    wide
}

static TOKEN: Class = alphanumeric_and(b"!#$%&'*+-.^_`|~");

/// tchar of RFC 9110 section 5.6.2.
#[inline]
pub(super) fn is_token_byte(byte: u8) -> bool {
    TOKEN[byte as usize]
}

/// How many of the first bytes are in the class.
#[inline]
pub(super) fn prefix(bytes: &[u8], class: &Class) -> usize {
    bytes
        .iter()
        .position(|&byte| !class[byte as usize])
        .unwrap_or(bytes.len())
}

/// How many of the first bytes are tchar.
#[inline]
pub(super) fn token_prefix(bytes: &[u8]) -> usize {
    prefix(bytes, &TOKEN)
}

/// Without the spaces and tabs around it (OWS, RFC 9110 section 5.6.3).
#[inline]
pub(super) fn trim(bytes: &[u8]) -> &[u8] {
    let mut bytes = trim_start(bytes);
    while let [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

/// Without the spaces and tabs before it.
#[inline]
pub(super) fn trim_start(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = bytes {
        bytes = rest;
    }
    bytes
}
