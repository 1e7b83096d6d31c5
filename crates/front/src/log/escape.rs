//! Makes any bytes fit for a line of the log: no control character, no end of the quotes, valid UTF-8.

/// What the bytes become a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quoting {
    /// A line for people, without quotes.
    None,
    /// A quoted value of logfmt.
    Logfmt,
    /// A string of JSON.
    Json,
}

/// Appends at most `limit` bytes of `bytes`, and a mark where some were cut off.
pub(super) fn append(out: &mut Vec<u8>, bytes: &[u8], limit: usize, quoting: Quoting) {
    let shown = cut(bytes, limit);
    if shown.iter().all(|&byte| is_plain(byte)) {
        out.extend_from_slice(shown);
    } else {
        append_escaped(out, shown, quoting);
    }
    if shown.len() < bytes.len() {
        out.extend_from_slice("…".as_bytes());
    }
}

/// The first bytes, `limit` at most, ending between characters where they are UTF-8.
fn cut(bytes: &[u8], limit: usize) -> &[u8] {
    if bytes.len() <= limit {
        return bytes;
    }
    let is_start = |&at: &usize| bytes[at] & 0b1100_0000 != 0b1000_0000;
    let end = (limit.saturating_sub(3)..=limit)
        .rev()
        .find(is_start)
        .unwrap_or(limit);
    &bytes[..end]
}

const fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\'
}

fn append_escaped(out: &mut Vec<u8>, bytes: &[u8], quoting: Quoting) {
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            append_character(out, character, quoting);
        }
        for &byte in chunk.invalid() {
            // JSON knows no bytes: there the backslash itself is escaped.
            out.extend_from_slice(if quoting == Quoting::Json {
                br"\\x"
            } else {
                br"\x"
            });
            append_hex(out, u32::from(byte), 2);
        }
    }
}

fn append_character(out: &mut Vec<u8>, character: char, quoting: Quoting) {
    match character {
        '"' | '\\' if quoting == Quoting::None => out.push(character as u8),
        '"' => out.extend_from_slice(br#"\""#),
        '\\' => out.extend_from_slice(br"\\"),
        '\n' => out.extend_from_slice(br"\n"),
        '\r' => out.extend_from_slice(br"\r"),
        '\t' => out.extend_from_slice(br"\t"),
        _ if is_hidden(character) => match quoting {
            Quoting::Json => {
                out.extend_from_slice(br"\u");
                append_hex(out, u32::from(character), 4);
            }
            Quoting::None | Quoting::Logfmt if character.is_ascii() => {
                out.extend_from_slice(br"\x");
                append_hex(out, u32::from(character), 2);
            }
            Quoting::None | Quoting::Logfmt => {
                out.extend_from_slice(br"\u{");
                append_hex(out, u32::from(character), 4);
                out.push(b'}');
            }
        },
        _ => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
    }
}

/// Control characters, and what breaks a line or turns its direction in a terminal; none is above U+FFFF.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn append_hex(out: &mut Vec<u8>, value: u32, digits: u32) {
    for digit in (0..digits).rev() {
        out.push(b"0123456789abcdef"[(value >> (4 * digit)) as usize & 0xf]);
    }
}
