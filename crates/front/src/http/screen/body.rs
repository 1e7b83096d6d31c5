//! The body's framing (RFC 9112 sections 6 and 7): counts and checks. Lines of the chunked
//! coding are passed only when complete and valid; data is passed as it comes, small chunks joined; trailers are skipped.

use super::small_chunks::MAX_SIZE_DIGITS;
use super::{Head, Refusal, Screen, Stage, Step, fields, line, small_chunks};

/// All chunk extensions of a body together, in bytes; hyper's bound, so that the refusal is ours.
const MAX_EXTENSION_BYTES: usize = 16 * 1024;
/// All trailers of a body together, in bytes with their CRLFs.
const MAX_TRAILER_BYTES: usize = 16 * 1024;

/// What the chunked coding has used up.
#[derive(Debug, Default)]
pub(super) struct Tally {
    data: u64,
    extensions: usize,
    trailers: usize,
}

/// Where the message goes on after its head.
pub(super) fn first_stage(head: &Head) -> Stage {
    match head.content_length {
        _ if head.chunked => Stage::ChunkSize,
        None | Some(0) => Stage::Complete,
        Some(length) => Stage::Length(length),
    }
}

impl Screen {
    pub(super) fn read_body(&mut self, rest: &mut [u8]) -> Result<Step, Refusal> {
        match self.stage {
            Stage::Length(left) => Ok(self.read_data(rest, left, Stage::Length, Stage::Complete)),
            Stage::ChunkSize => self.read_chunk_size(rest),
            Stage::ChunkData(left) => {
                Ok(self.read_data(rest, left, Stage::ChunkData, Stage::ChunkEnd))
            }
            Stage::ChunkEnd => self.read_chunk_end(rest),
            Stage::Trailers => self.read_trailer(rest),
            Stage::Start | Stage::RequestLine | Stage::Fields | Stage::Complete => {
                Ok(Step::default())
            }
        }
    }

    fn read_data(&mut self, rest: &[u8], left: u64, more: fn(u64) -> Stage, then: Stage) -> Step {
        let pass = usize::try_from(left).map_or(rest.len(), |left| left.min(rest.len()));
        let left = left - pass as u64;
        self.stage = if left == 0 { then } else { more(left) };
        Step { skip: 0, pass }
    }

    fn read_chunk_size(&mut self, rest: &mut [u8]) -> Result<Step, Refusal> {
        let skip = small_chunks::join(
            rest,
            self.limits.max_body_bytes.saturating_sub(self.body.data),
        );
        if skip > 0 {
            self.begin_line(0);
            return Ok(Step { skip, pass: 0 });
        }
        let limit = MAX_SIZE_DIGITS + MAX_EXTENSION_BYTES - self.body.extensions;
        let too_long = Refusal::new(400, "the chunk extensions are too long");
        let Some(end) = self.find_line(rest, limit, too_long)? else {
            return Ok(Step::default());
        };
        let (size, extension) = chunk_size(&rest[..end])?;
        self.body.extensions += extension.len();
        if self.body.extensions > MAX_EXTENSION_BYTES {
            return Err(too_long);
        }
        check_extensions(extension)?;
        self.body.data = self.body.data.saturating_add(size);
        if self.body.data > self.limits.max_body_bytes {
            return Err(Refusal::new(413, "the chunked body is too large"));
        }
        self.stage = if size == 0 {
            Stage::Trailers
        } else {
            Stage::ChunkData(size)
        };
        self.begin_line(0);
        Ok(Step {
            skip: 0,
            pass: end + 2,
        })
    }

    fn read_chunk_end(&mut self, rest: &[u8]) -> Result<Step, Refusal> {
        match rest {
            [] | [b'\r'] => Ok(Step::default()),
            [b'\r', b'\n', ..] => {
                self.stage = Stage::ChunkSize;
                Ok(Step { skip: 0, pass: 2 })
            }
            _ => Err(Refusal::new(400, "a chunk does not end with its data")),
        }
    }

    /// RFC 9110 section 6.5.1 lets a recipient discard trailers; they still must be well-formed.
    fn read_trailer(&mut self, rest: &[u8]) -> Result<Step, Refusal> {
        let limit = (MAX_TRAILER_BYTES - self.body.trailers).saturating_sub(2);
        let too_large = Refusal::new(431, "the trailers are too large");
        let Some(end) = self.find_line(rest, limit, too_large)? else {
            return Ok(Step::default());
        };
        self.begin_line(0);
        if end == 0 {
            self.stage = Stage::Complete;
            return Ok(Step { skip: 0, pass: 2 });
        }
        fields::split(&rest[..end])?;
        self.body.trailers += end + 2;
        Ok(Step {
            skip: end + 2,
            pass: 0,
        })
    }
}

/// The size, and the bytes between it and the line end.
fn chunk_size(line: &[u8]) -> Result<(u64, &[u8]), Refusal> {
    let digits = line
        .iter()
        .take_while(|byte| byte.is_ascii_hexdigit())
        .count();
    if digits == 0 || digits > MAX_SIZE_DIGITS {
        return Err(Refusal::new(400, "an invalid chunk size"));
    }
    let (digits, extension) = line.split_at(digits);
    let size = digits.iter().fold(0, |size, &digit| {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            _ => (digit | 0x20) - b'a' + 10,
        };
        size << 4 | u64::from(value)
    });
    Ok((size, extension))
}

/// Checks the grammar of RFC 9112 section 7.1.1: `;` and a name, then `=` and a token or a quoted string, any number of
/// times, with spaces and tabs around each. What an extension says is ignored, as it must be.
fn check_extensions(mut rest: &[u8]) -> Result<(), Refusal> {
    const INVALID: Refusal = Refusal::new(400, "an invalid chunk extension");
    if rest.is_empty() {
        return Ok(());
    }
    loop {
        rest = line::trim_start(rest)
            .strip_prefix(b";")
            .and_then(|rest| after_token(line::trim_start(rest)))
            .map(line::trim_start)
            .ok_or(INVALID)?;
        if let Some(value) = rest.strip_prefix(b"=") {
            rest = match line::trim_start(value) {
                [b'"', quoted @ ..] => after_quoted(quoted),
                token => after_token(token),
            }
            .map(line::trim_start)
            .ok_or(INVALID)?;
        }
        if rest.is_empty() {
            return Ok(());
        }
    }
}

/// What follows the token at the start; none where there is no token.
fn after_token(bytes: &[u8]) -> Option<&[u8]> {
    let (token, rest) = bytes.split_at(line::token_prefix(bytes));
    (!token.is_empty()).then_some(rest)
}

/// What follows the closing quote of a string (RFC 9110 section 5.6.4) whose opening quote is gone; none where it is not
/// closed. The line holds no control character.
fn after_quoted(mut bytes: &[u8]) -> Option<&[u8]> {
    loop {
        bytes = match bytes {
            [b'"', rest @ ..] => return Some(rest),
            [b'\\', _, rest @ ..] => rest,
            [b'\\'] | [] => return None,
            [_, rest @ ..] => rest,
        };
    }
}
