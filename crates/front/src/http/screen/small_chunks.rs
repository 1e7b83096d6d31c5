//! Joins small chunks of a body (RFC 9112 section 7.1) before the parser sees them, in place. Checks nothing that is not
//! checked again: what it joins is read as any other chunk afterwards.
//!
//! The parser takes as long for a chunk of one byte as for one of many: 94 Mbit/s of such chunks kept a core busy. A
//! client may well send a byte at a time, so they are not refused.

use std::io::Write;

/// More digits than 2^64 needs are an attempt at an overflow.
pub(super) const MAX_SIZE_DIGITS: usize = 16;
/// Larger chunks are not worth the copy.
const MAX_SMALL_BYTES: usize = 255;
/// The most data that a joined chunk has.
const MAX_JOINED_BYTES: usize = 64 * 1024;

/// Whether more than one small chunk stands at the start.
pub(super) fn are_at_start(bytes: &[u8]) -> bool {
    let first = SmallChunk::at_start(bytes);
    first.is_some_and(|first| SmallChunk::at_start(&bytes[first.end..]).is_some())
}

/// Joins the small chunks at the start that are there whole, as long as they have at most `most` bytes of data together.
/// The one that they become stands where they end; how many bytes before it are to be skipped is returned.
pub(super) fn join(bytes: &mut [u8], most: u64) -> usize {
    let most = usize::try_from(most).map_or(MAX_JOINED_BYTES, |most| most.min(MAX_JOINED_BYTES));
    let Some(first) = SmallChunk::at_start(bytes).filter(|first| first.data_bytes() <= most) else {
        return 0;
    };
    // First all data, right behind each other, where that of the first one stands.
    let (start, mut data_end, mut end) = (first.start, first.data_end, first.end);
    while let Some(next) = SmallChunk::at_start(&bytes[end..]) {
        if data_end - start + next.data_bytes() > most {
            break;
        }
        bytes.copy_within(end + next.start..end + next.data_end, data_end);
        data_end += next.data_bytes();
        end += next.end;
    }
    if end == first.end {
        return 0;
    }
    // Then before the last CRLF, and the size before it. Each chunk had five bytes or more in addition to its data, so there is
    // room for the size of two or more.
    let data_bytes = data_end - start;
    let data_start = end - 2 - data_bytes;
    bytes.copy_within(start..data_end, data_start);
    let size_start = data_start - size_line_bytes(data_bytes);
    let mut size_line = &mut bytes[size_start..data_start];
    // It has exactly the room that this takes.
    let _ = write!(size_line, "{data_bytes:x}\r\n");
    size_start
}

/// How many bytes the size of so much data takes with its CRLF.
fn size_line_bytes(data_bytes: usize) -> usize {
    (data_bytes.max(1).ilog2() / 4 + 1) as usize + 2
}

/// Where the parts of a chunk are that is there whole, is small, and has no extensions: those are counted.
struct SmallChunk {
    start: usize,
    data_end: usize,
    end: usize,
}

impl SmallChunk {
    #[inline]
    fn at_start(bytes: &[u8]) -> Option<Self> {
        let mut size = 0;
        let mut digits = 0;
        while let Some(digit) = bytes.get(digits).and_then(|&byte| hex_digit(byte)) {
            size = size << 4 | digit;
            digits += 1;
            if digits > MAX_SIZE_DIGITS || size > MAX_SMALL_BYTES {
                return None;
            }
        }
        if digits == 0 || size == 0 {
            return None;
        }
        let start = digits + 2;
        let data_end = start + size;
        let line_ends = |at: usize| bytes.get(at..at + 2) == Some(b"\r\n");
        (line_ends(digits) && line_ends(data_end)).then_some(Self {
            start,
            data_end,
            end: data_end + 2,
        })
    }

    fn data_bytes(&self) -> usize {
        self.data_end - self.start
    }
}

#[inline]
fn hex_digit(byte: u8) -> Option<usize> {
    char::from(byte).to_digit(16).map(|digit| digit as usize)
}
