//! Undoes the chunked coding that an application put on its own response body (`Rack::Chunked`, Rails'
//! `render stream: true`), since hyper codes it again. Requests never come here: the screen reads those.

/// The application's coding is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed chunked coding in the application's response")]
pub struct Malformed;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Size,
    SizeRest,
    Data,
    DataEnd,
    Trailer,
    Complete,
}

/// The longest size line that a body may begin with, in bytes.
const LONGEST_SIZE_LINE: usize = 1024;

/// Whether a body that comes in these pieces begins with a chunk; `None` while too little of it has come.
pub fn begins<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Option<bool> {
    let mut decoder = Decoder::default();
    let bytes = pieces.into_iter().flatten();
    for (count, &byte) in bytes.enumerate() {
        if count == LONGEST_SIZE_LINE || decoder.step(byte).is_err() {
            return Some(false);
        }
        if matches!(decoder.stage, Stage::Data | Stage::Trailer) {
            return Some(true);
        }
    }
    None
}

/// The data of a body that has come whole, in these pieces.
///
/// # Errors
/// [`Malformed`], also where the last chunk is missing.
pub fn decode_whole<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<u8>, Malformed> {
    let mut decoder = Decoder::default();
    let mut whole = Vec::new();
    for piece in pieces {
        whole.extend(decoder.decode(piece)?);
    }
    decoder.is_complete().then_some(whole).ok_or(Malformed)
}

/// Decodes one body, in pieces (RFC 9112 section 7.1).
#[derive(Debug, Default)]
pub struct Decoder {
    stage: Stage,
    left: u64,
    digits: u8,
    line: usize,
}

impl Decoder {
    /// Whether the last chunk has been seen.
    pub fn is_complete(&self) -> bool {
        self.stage == Stage::Complete
    }

    /// The data in the next piece of the coded body.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(&mut self, mut bytes: &[u8]) -> Result<Vec<u8>, Malformed> {
        let mut data = Vec::with_capacity(bytes.len());
        while let Some((&byte, rest)) = bytes.split_first() {
            if self.stage == Stage::Data {
                let count = bytes
                    .len()
                    .min(usize::try_from(self.left).unwrap_or(usize::MAX));
                data.extend_from_slice(&bytes[..count]);
                self.left -= count as u64;
                bytes = &bytes[count..];
                if self.left == 0 {
                    self.stage = Stage::DataEnd;
                }
            } else {
                self.step(byte)?;
                bytes = rest;
            }
        }
        Ok(data)
    }

    /// Takes a byte that is no data.
    fn step(&mut self, byte: u8) -> Result<(), Malformed> {
        match self.stage {
            Stage::Size => self.size(byte)?,
            Stage::SizeRest if byte == b'\n' => self.size_line_ended(),
            Stage::DataEnd if byte == b'\n' => self.stage = Stage::Size,
            Stage::DataEnd if byte != b'\r' => return Err(Malformed),
            Stage::Trailer if byte == b'\n' && self.line == 0 => self.stage = Stage::Complete,
            Stage::Trailer if byte == b'\n' => self.line = 0,
            Stage::Trailer if byte != b'\r' => self.line += 1,
            _ => {}
        }
        Ok(())
    }

    fn size(&mut self, byte: u8) -> Result<(), Malformed> {
        match (char::from(byte).to_digit(16), byte) {
            (Some(digit), _) if self.digits < 15 => {
                self.left = self.left << 4 | u64::from(digit);
                self.digits += 1;
            }
            (None, b'\r' | b';') if self.digits > 0 => self.stage = Stage::SizeRest,
            (None, b'\n') if self.digits > 0 => self.size_line_ended(),
            _ => return Err(Malformed),
        }
        Ok(())
    }

    fn size_line_ended(&mut self) {
        self.digits = 0;
        self.line = 0;
        self.stage = if self.left == 0 {
            Stage::Trailer
        } else {
            Stage::Data
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_is_the_same_however_the_coded_body_is_cut() {
        let coded = b"5\r\nhello\r\n1;x=y\r\n \r\nA\r\n0123456789\r\n0\r\nx: y\r\n\r\n";
        for size in 1..coded.len() {
            let mut decoder = Decoder::default();
            let data: Vec<u8> = coded
                .chunks(size)
                .flat_map(|piece| decoder.decode(piece).unwrap())
                .collect();
            assert_eq!(data, b"hello 0123456789");
            assert!(decoder.is_complete());
        }
    }

    #[test]
    fn a_beginning_is_a_chunk_or_none_or_too_short_to_tell() {
        let long = [b"5;".as_slice(), &[b'x'; LONGEST_SIZE_LINE]].concat();
        for (pieces, expected) in [
            (&[][..], None),
            (&["5"], None),
            (&["5", "\r"], None),
            (&["5", "\r", "\nhel"], Some(true)),
            (&["0\r\n"], Some(true)),
            (&["5;x=y\n"], Some(true)),
            (&["hello"], Some(false)),
            (&["", "\r\n"], Some(false)),
            (&["5", "x"], Some(false)),
            (&[std::str::from_utf8(&long).unwrap()], Some(false)),
        ] {
            let found = begins(pieces.iter().map(|piece| piece.as_bytes()));
            assert_eq!(found, expected, "{pieces:?}");
        }
    }

    #[test]
    fn a_malformed_coding_is_an_error() {
        for coded in [&b"x\r\n"[..], b"\r\n", b"1\r\nab", b"1111111111111111\r\n"] {
            assert_eq!(
                Decoder::default().decode(coded),
                Err(Malformed),
                "{coded:?}"
            );
        }
    }
}
