//! The encoders: of whole bodies at once, and of bodies that come in pieces. They hold memory of a fixed size, whatever
//! the body has, and know no response.
//!
//! Each encoded body has a number of random bytes more that its decoder skips, so that its length tells less of what it
//! holds (BREACH).

use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::mem;

use brotli::CompressorWriter;
use bytes::Bytes;
use flate2::write::GzEncoder;
use flate2::{Compress, Compression, Crc, FlushCompress, GzBuilder, Status};
use zstd::bulk::Compressor;
use zstd::stream::write;
use zstd::zstd_safe::CParameter;

use super::accept::Coding;

/// The most bytes that are added to hide the length.
const MAX_PADDING_BYTES: usize = 32;
/// Level of zstd.
const ZSTD_LEVEL: i32 = 3;
/// Level of gzip. On a page of 13 KB it takes twice zstd's time for the same size; level 6 takes thrice, for a tenth less.
const GZIP_LEVEL: u32 = 3;
/// Quality of brotli.
const BROTLI_QUALITY: u32 = 4;
/// Number of bytes that an encoder of a stream looks back, as a power of two.
const WINDOW_BITS: u32 = 17;
/// Size of the tables in which zstd looks for repetitions, as a power of two.
const ZSTD_TABLE_BITS: u32 = 15;
/// Bytes that an encoder of a stream takes at most: brotli's; the others take less than a half.
pub const STREAM_ENCODER_BYTES: usize = 2 * 1024 * 1024;

/// Random lengths.
#[derive(Default)]
pub struct Padding {
    state: RandomState,
    given: u64,
}

impl Padding {
    /// Returns a number of bytes that nobody can predict.
    pub fn draw(&mut self) -> usize {
        self.given += 1;
        (self.state.hash_one(self.given) % (MAX_PADDING_BYTES as u64 + 1)) as usize
    }
}

/// Encodes whole bodies, one after the other, with the same memory.
#[derive(Default)]
pub struct WholeEncoder {
    zstd: Option<Compressor<'static>>,
    gzip: Option<Compress>,
    encoded: Vec<u8>,
}

impl WholeEncoder {
    /// Returns the encoded body, with `padding` bytes more; none where it is no shorter or cannot be encoded so.
    pub fn encode(&mut self, coding: Coding, plain: &[u8], padding: usize) -> Option<Bytes> {
        self.encoded.clear();
        self.encoded.reserve(plain.len() + 256);
        match coding {
            Coding::Zstd => self.zstd(plain, padding)?,
            Coding::Gzip => self.gzip(plain, padding)?,
            Coding::Brotli => return None,
        }
        let shorter = self.encoded.len() < plain.len();
        shorter.then(|| Bytes::copy_from_slice(&self.encoded))
    }

    fn zstd(&mut self, plain: &[u8], padding: usize) -> Option<()> {
        if self.zstd.is_none() {
            self.zstd = Some(Compressor::new(ZSTD_LEVEL).ok()?);
        }
        let zstd = self.zstd.as_mut()?;
        // Fails where it would be longer.
        zstd.compress_to_buffer(plain, &mut self.encoded).ok()?;
        skippable_frame(&mut self.encoded, padding);
        Some(())
    }

    fn gzip(&mut self, plain: &[u8], padding: usize) -> Option<()> {
        let new = || Compress::new(Compression::new(GZIP_LEVEL), false);
        let deflate = self.gzip.get_or_insert_with(new);
        deflate.reset();
        // A head with a comment and no time, of an unknown system (RFC 1952 section 2.3).
        let head = [0x1f, 0x8b, 8, 1 << 4, 0, 0, 0, 0, 0, 255];
        self.encoded.extend_from_slice(&head);
        self.encoded.resize(head.len() + padding, b' ');
        self.encoded.push(0);
        let status = deflate.compress_vec(plain, &mut self.encoded, FlushCompress::Finish);
        if !matches!(status, Ok(Status::StreamEnd)) {
            return None;
        }
        let mut crc = Crc::new();
        crc.update(plain);
        self.encoded.extend_from_slice(&crc.sum().to_le_bytes());
        self.encoded.extend_from_slice(&crc.amount().to_le_bytes());
        Some(())
    }
}

/// Encodes one body piece by piece.
pub struct StreamEncoder {
    kind: Kind,
    padding: usize,
}

enum Kind {
    Zstd(write::Encoder<'static, Vec<u8>>),
    Gzip(GzEncoder<Vec<u8>>),
    Brotli(Box<CompressorWriter<Vec<u8>>>),
    /// The body has ended.
    Ended(Vec<u8>),
}

impl StreamEncoder {
    /// Returns an encoder of a body that will be `padding` bytes longer than it need be.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn new(coding: Coding, padding: usize) -> io::Result<Self> {
        let kind = match coding {
            Coding::Zstd => {
                let mut zstd = write::Encoder::new(Vec::new(), ZSTD_LEVEL)?;
                zstd.set_parameter(CParameter::WindowLog(WINDOW_BITS))?;
                zstd.set_parameter(CParameter::HashLog(ZSTD_TABLE_BITS))?;
                zstd.set_parameter(CParameter::ChainLog(ZSTD_TABLE_BITS))?;
                Kind::Zstd(zstd)
            }
            Coding::Gzip => {
                let head = GzBuilder::new().comment(vec![b' '; padding]);
                Kind::Gzip(head.write(Vec::new(), Compression::new(GZIP_LEVEL)))
            }
            Coding::Brotli => {
                let writer = CompressorWriter::new(Vec::new(), 4096, BROTLI_QUALITY, WINDOW_BITS);
                Kind::Brotli(Box::new(writer))
            }
        };
        Ok(Self { kind, padding })
    }

    /// Takes more of the body.
    ///
    /// # Errors
    /// The encoder failed; nothing can follow.
    pub fn push(&mut self, plain: &[u8]) -> io::Result<()> {
        match &mut self.kind {
            Kind::Zstd(writer) => writer.write_all(plain),
            Kind::Gzip(writer) => writer.write_all(plain),
            Kind::Brotli(writer) => writer.write_all(plain),
            Kind::Ended(_) => Err(io::ErrorKind::WriteZero.into()),
        }
    }

    /// Makes all that it has taken readable for the client.
    ///
    /// # Errors
    /// As [`StreamEncoder::push`].
    pub fn flush(&mut self) -> io::Result<()> {
        match &mut self.kind {
            Kind::Zstd(writer) => writer.flush(),
            Kind::Gzip(writer) => writer.flush(),
            Kind::Brotli(writer) => writer.flush(),
            Kind::Ended(_) => Ok(()),
        }
    }

    /// Ends the body.
    ///
    /// # Errors
    /// As [`StreamEncoder::push`].
    pub fn finish(&mut self) -> io::Result<()> {
        let encoded = match mem::replace(&mut self.kind, Kind::Ended(Vec::new())) {
            Kind::Zstd(writer) => {
                let mut encoded = writer.finish()?;
                skippable_frame(&mut encoded, self.padding);
                encoded
            }
            Kind::Gzip(writer) => writer.finish()?,
            Kind::Brotli(mut writer) => {
                // Metadata may stand where a flush has filled up the last byte.
                writer.flush()?;
                metadata_block(writer.get_mut(), self.padding);
                writer.into_inner()
            }
            Kind::Ended(encoded) => encoded,
        };
        self.kind = Kind::Ended(encoded);
        Ok(())
    }

    /// Returns what is encoded so far and was not taken.
    pub fn take(&mut self) -> Vec<u8> {
        mem::take(match &mut self.kind {
            Kind::Zstd(writer) => writer.get_mut(),
            Kind::Gzip(writer) => writer.get_mut(),
            Kind::Brotli(writer) => writer.get_mut(),
            Kind::Ended(encoded) => encoded,
        })
    }
}

/// Appends a frame that decoders skip (RFC 8878 section 3.1.2). At the end: a decoder that reads one frame alone has the
/// body then.
fn skippable_frame(encoded: &mut Vec<u8>, padding: usize) {
    encoded.extend_from_slice(&0x184D_2A50_u32.to_le_bytes());
    encoded.extend_from_slice(&(padding as u32).to_le_bytes());
    encoded.resize(encoded.len() + padding, 0);
}

/// Appends a meta-block that decoders skip (RFC 7932 section 9.2), of 1 to 256 bytes.
fn metadata_block(encoded: &mut Vec<u8>, padding: usize) {
    if padding > 0 {
        // From the lowest bit on: ISLAST 0, MNIBBLES 11, reserved 0, MSKIPBYTES 01, and 8 bits of the length less one.
        let bits = 0b01_0110 | ((padding - 1) as u16) << 6;
        encoded.extend_from_slice(&bits.to_le_bytes());
        encoded.resize(encoded.len() + padding, 0);
    }
}

#[cfg(test)]
mod tests;
