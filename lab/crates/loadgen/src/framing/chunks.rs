//! The chunked transfer coding (RFC 9112 section 7.1), counted and thrown away.

use super::Malformed;

/// Where in the coding the bytes are.
#[derive(Debug, Clone, Copy)]
enum At {
    /// In a chunk's size, after so many digits.
    Size(u64, u8),
    /// After the size, until the line's end.
    Extension(u64),
    /// In a chunk's data.
    Data(u64),
    /// At the line end after the data.
    DataEnd,
    /// In the trailer section, after so many bytes of the line.
    Trailer(u32),
    /// Behind the last line.
    Over,
}

/// Reads chunks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chunks(At);

impl Chunks {
    pub(super) fn new() -> Self {
        Self(At::Size(0, 0))
    }

    /// Whether the last chunk and the trailer section are behind.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.0, At::Over)
    }

    /// Takes what belongs to the coding, says how much, adds the content's length to `content`, and shows it to `see`.
    pub(super) fn take(
        &mut self,
        bytes: &[u8],
        content: &mut u64,
        see: &mut impl FnMut(&[u8]),
    ) -> Result<usize, Malformed> {
        let mut used = 0;
        while used < bytes.len() && !self.is_over() {
            if let At::Data(left) = self.0 {
                let rest = bytes.len() - used;
                let taken = usize::try_from(left).map_or(rest, |left| left.min(rest));
                see(&bytes[used..used + taken]);
                used += taken;
                *content += taken as u64;
                let left = left - taken as u64;
                self.0 = if left == 0 {
                    At::DataEnd
                } else {
                    At::Data(left)
                };
            } else {
                self.0 = self.0.after(bytes[used])?;
                used += 1;
            }
        }
        Ok(used)
    }
}

impl At {
    fn after(self, byte: u8) -> Result<Self, Malformed> {
        Ok(match (self, byte) {
            (Self::Size(size, digits), _) if byte.is_ascii_hexdigit() && digits < 15 => {
                let digit = (byte as char).to_digit(16).ok_or(Malformed)?;
                Self::Size(size * 16 + u64::from(digit), digits + 1)
            }
            (Self::Size(_, 0), _) => return Err(Malformed),
            (Self::Size(size, _) | Self::Extension(size), b'\n') => {
                if size == 0 {
                    Self::Trailer(0)
                } else {
                    Self::Data(size)
                }
            }
            (Self::Size(size, _), b'\r' | b';' | b' ' | b'\t') => Self::Extension(size),
            (Self::Extension(size), _) => Self::Extension(size),
            (Self::DataEnd, b'\r') => Self::DataEnd,
            (Self::DataEnd, b'\n') => Self::Size(0, 0),
            (Self::Trailer(0), b'\n') => Self::Over,
            (Self::Trailer(_), b'\n') => Self::Trailer(0),
            (Self::Trailer(length), b'\r') => Self::Trailer(length),
            (Self::Trailer(length), _) => Self::Trailer(length.saturating_add(1)),
            _ => return Err(Malformed),
        })
    }
}
