//! The screen: reads the raw bytes of one request message, refuses what is malformed and says how many bytes
//! the HTTP parser behind it may see. Pure: no IO and no clock; it allocates for a raw target alone.
//!
//! It stands before hyper because hyper is lenient where this server is strict: it takes bare LF as a line
//! end, lets Transfer-Encoding hide Content-Length, and answers some faults with another status. Behind the
//! screen hyper sees one well-formed message at a time, never a byte of the next one, no trailers, no series of
//! small chunks, and no version other than 1.0 and 1.1. The screen never routes anything.

mod body;
mod fields;
mod line;
mod parsed;
mod request_line;
mod small_chunks;
mod target;
#[cfg(test)]
mod tests;

use fields::Fields;
use line::Scan;
pub use parsed::check_parsed;
pub use target::RawTarget;

/// Where hyper's own bound lies.
const HYPER_MAX_TARGET_BYTES: usize = 65534;

/// Empty lines that are skipped before a request: a client may end a body with one, and send one more.
const MAX_EMPTY_LINES: u8 = 2;

/// The bounds of one message; every one is inclusive: exactly this much is accepted.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of the request target, 65534 at most; beyond it 414.
    pub max_target_bytes: usize,
    /// Field lines in a head; beyond it 431.
    pub max_header_count: usize,
    /// Bytes of all field lines of a head, their CRLFs included, the request line not; beyond it 431.
    pub max_header_bytes: usize,
    /// Bytes of one field line without its CRLF; beyond it 431.
    pub max_field_bytes: usize,
    /// Bytes of a body, declared or chunked (framing not counted); beyond it 413.
    pub max_body_bytes: u64,
}

/// Why a message is refused: answer `status`, close the connection, and read no further byte as HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{status}: {reason}")]
pub struct Refusal {
    /// The status to answer with.
    pub status: u16,
    /// What is wrong, for the log.
    pub reason: &'static str,
}

impl Refusal {
    const fn new(status: u16, reason: &'static str) -> Self {
        Self { status, reason }
    }
}

/// The first byte of TLS (RFC 8446 section 5.1).
const HANDSHAKE_RECORD: u8 = 22;
/// The refusal of a client that speaks TLS.
pub const SPEAKS_TLS: Refusal = Refusal::new(400, "it speaks TLS, and this port speaks plain HTTP");

/// What to do with the first bytes of the buffer: drop `skip`, then hand `pass` on. At most one is not zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Bytes that the parser must not see (a leading empty line, a trailer).
    pub skip: usize,
    /// Bytes that the parser may see.
    pub pass: usize,
}

impl Step {
    /// Whether nothing can be done before more bytes arrive or [`Screen::next_message`] is called.
    pub const fn is_empty(self) -> bool {
        self.skip == 0 && self.pass == 0
    }
}

/// How far the current message has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nothing of a message was seen (an empty line before it counts as nothing).
    Idle,
    /// The head is incomplete.
    Head,
    /// The head was passed, the body is incomplete.
    Body,
    /// The whole message was passed; what follows is held back.
    Complete,
}

/// What the connection needs to know of an accepted head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The minor version, 0 or 1.
    pub version_minor: u8,
    /// Whether the method is HEAD.
    pub is_head: bool,
    /// The declared length of the body in bytes.
    pub content_length: Option<u64>,
    /// Whether the body is chunked.
    pub chunked: bool,
    /// Whether the client waits for 100 (Continue) (RFC 9110 section 10.1.1).
    pub expect_continue: bool,
    /// Whether the client lets the connection persist (RFC 9112 section 9.3).
    pub keep_alive: bool,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Start,
    RequestLine,
    Fields,
    Length(u64),
    ChunkSize,
    ChunkData(u64),
    ChunkEnd,
    Trailers,
    Complete,
}

/// Reads one message after another of one connection.
#[derive(Debug)]
pub struct Screen {
    limits: Limits,
    stage: Stage,
    /// Where the line under examination starts, from the first byte not passed.
    line: usize,
    /// Before this no line end is to be found, from the first byte not passed.
    scanned: usize,
    /// Empty lines skipped before the request line.
    empty_lines: u8,
    fields: Fields,
    head: Option<Head>,
    raw_target: Option<RawTarget>,
    body: body::Tally,
    refused: Option<Refusal>,
}

impl Screen {
    /// The bounds that it keeps.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// A screen for a new connection.
    pub fn new(mut limits: Limits) -> Self {
        limits.max_target_bytes = limits.max_target_bytes.min(HYPER_MAX_TARGET_BYTES);
        Self {
            limits,
            stage: Stage::Start,
            line: 0,
            scanned: 0,
            empty_lines: 0,
            fields: Fields::default(),
            head: None,
            raw_target: None,
            body: body::Tally::default(),
            refused: None,
        }
    }

    /// Examines `buffered`, all bytes read and not yet passed or skipped, in order; before the head is
    /// complete they must begin where they began in the last call. Call again with the rest after every
    /// step that is not empty, also without new bytes: a refusal or a skip may be due.
    ///
    /// A minor version above 1 is overwritten with 1 in place (RFC 9110 section 2.5: such a message is to
    /// be treated as the highest version understood). So are bytes of the target that hyper refuses, with
    /// others: [`Screen::take_raw_target`] has the target as it was.
    ///
    /// # Errors
    /// The refusal, from then on at every call. Bytes that stood before the fault are passed first, except
    /// those of a head, which is passed whole or not at all.
    pub fn advance(&mut self, buffered: &mut [u8]) -> Result<Step, Refusal> {
        if let Some(refusal) = self.refused {
            return Err(refusal);
        }
        let mut pass = 0;
        loop {
            // A step is a skip or a pass: what was passed so far goes first.
            if pass > 0 && self.may_skip(&buffered[pass..]) {
                return Ok(Step { skip: 0, pass });
            }
            match self.step(&mut buffered[pass..]) {
                Ok(step) if step.skip > 0 => return Ok(step),
                Ok(step) if step.pass > 0 => pass += step.pass,
                Ok(_) => return Ok(Step { skip: 0, pass }),
                Err(refusal) => {
                    self.refused = Some(refusal);
                    return if pass > 0 {
                        Ok(Step { skip: 0, pass })
                    } else {
                        Err(refusal)
                    };
                }
            }
        }
    }

    /// How far the current message has come.
    pub fn phase(&self) -> Phase {
        match self.stage {
            Stage::Start => Phase::Idle,
            Stage::RequestLine | Stage::Fields => Phase::Head,
            Stage::Complete => Phase::Complete,
            _ => Phase::Body,
        }
    }

    /// The current message's head, once it is accepted.
    pub fn head(&self) -> Option<&Head> {
        self.head.as_ref()
    }

    /// The current message's target as it was, if hyper gets another one in its place.
    pub fn take_raw_target(&mut self) -> Option<RawTarget> {
        self.raw_target.take()
    }

    /// Lets the next message in, once the current one is complete; before that it does nothing.
    pub fn next_message(&mut self) {
        if matches!(self.stage, Stage::Complete) && self.refused.is_none() {
            *self = Self::new(self.limits);
        }
    }

    /// Whether the next step may be one that skips something.
    fn may_skip(&self, rest: &[u8]) -> bool {
        match self.stage {
            Stage::Trailers => true,
            Stage::ChunkSize => small_chunks::are_at_start(rest),
            _ => false,
        }
    }

    /// Takes one stage as far as `rest` allows.
    fn step(&mut self, rest: &mut [u8]) -> Result<Step, Refusal> {
        match self.stage {
            Stage::Start => self.start(rest),
            Stage::RequestLine | Stage::Fields => self.read_head(rest),
            Stage::Complete => Ok(Step::default()),
            _ => self.read_body(rest),
        }
    }

    /// Skips up to [`MAX_EMPTY_LINES`] before the request line (RFC 9112 section 2.2).
    fn start(&mut self, rest: &mut [u8]) -> Result<Step, Refusal> {
        match *rest {
            [] => Ok(Step::default()),
            [b'\r'] if self.empty_lines < MAX_EMPTY_LINES => Ok(Step::default()),
            [b'\r', b'\n', ..] if self.empty_lines < MAX_EMPTY_LINES => {
                self.empty_lines += 1;
                Ok(Step { skip: 2, pass: 0 })
            }
            // At once and not at the end of the line: a TLS hello need not contain one.
            [HANDSHAKE_RECORD, ..] => Err(SPEAKS_TLS),
            [first, ..] if !line::is_token_byte(first) => Err(Refusal::new(
                400,
                "the request does not start with a method",
            )),
            _ => {
                self.stage = Stage::RequestLine;
                self.read_head(rest)
            }
        }
    }

    fn read_head(&mut self, rest: &mut [u8]) -> Result<Step, Refusal> {
        if matches!(self.stage, Stage::RequestLine) {
            let limit = request_line::max_bytes(&self.limits);
            let too_long = request_line::too_long(rest);
            let Some(end) = self.find_line(rest, limit, too_long)? else {
                return Ok(Step::default());
            };
            let request_line = request_line::parse(&mut rest[..end], &self.limits)?;
            self.fields.begin(request_line, end + 2);
            self.begin_line(end + 2);
            self.stage = Stage::Fields;
        }
        loop {
            let (limit, too_long) = self.fields.line_limit(self.line, &self.limits);
            let Some(end) = self.find_line(rest, limit, too_long)? else {
                return Ok(Step::default());
            };
            let field = &rest[self.line..end];
            if field.is_empty() {
                let head = self.fields.finish(&self.limits)?;
                if let Some((start, end)) = self.fields.raw_target() {
                    self.raw_target = Some(RawTarget::mask(&mut rest[start..end]));
                }
                self.stage = body::first_stage(&head);
                self.head = Some(head);
                self.begin_line(0);
                return Ok(Step {
                    skip: 0,
                    pass: end + 2,
                });
            }
            self.fields.take(field, &self.limits)?;
            self.begin_line(end + 2);
        }
    }

    fn begin_line(&mut self, at: usize) {
        self.line = at;
        self.scanned = at;
    }

    /// The end (its CR) of the line that starts at `self.line`, once all of it is there. A line of more than
    /// `limit` bytes is refused as soon as that is certain, and before anything else in it is looked at: the
    /// verdict must not depend on how the bytes arrive.
    #[inline]
    fn find_line(
        &mut self,
        rest: &[u8],
        limit: usize,
        too_long: Refusal,
    ) -> Result<Option<usize>, Refusal> {
        let scan = line::scan(rest, self.scanned);
        if scan.content_end() - self.line > limit {
            return Err(too_long);
        }
        match scan {
            Scan::Line(end) => Ok(Some(end)),
            Scan::Partial(seen) => {
                self.scanned = seen;
                Ok(None)
            }
            Scan::Stray(_) => Err(Refusal::new(
                400,
                "a bare CR or LF, or another control character",
            )),
        }
    }
}
