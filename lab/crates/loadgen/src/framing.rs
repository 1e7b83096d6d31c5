//! Where a response ends (RFC 9112 section 6): status, lengths, whether the connection stays. It counts content,
//! keeps none, and it allocates only where a head comes in more than one read.

use std::mem::MaybeUninit;

use chunks::Chunks;

mod chunks;

/// Longer heads are refused.
const LONGEST_HEAD: usize = 64 * 1024;
/// More fields than this are refused.
const MOST_FIELDS: usize = 96;

/// A whole response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Response {
    /// The status code.
    pub(crate) status: u16,
    /// Whether another request may follow on the connection.
    pub(crate) keep_alive: bool,
    /// Bytes of heads, interim ones too.
    pub(crate) head: u64,
    /// Bytes of content without chunk framing.
    pub(crate) body: u64,
}

/// What came out of some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// More of the response is to come.
    More,
    /// It is whole, and so many bytes of those given belong to it.
    Whole(Response, usize),
}

/// What came is no HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

/// How a connection's end leaves a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The end was the response's end.
    Whole(Response),
    /// Not a byte had come.
    Nothing,
    /// It broke off.
    Short,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Head,
    Length(u64),
    Chunked(Chunks),
    UntilClose,
}

/// Reads one response after another.
#[derive(Debug)]
pub(crate) struct Framer {
    state: State,
    /// The beginning of a head that came in parts, or a whole one where it was asked for.
    head: Vec<u8>,
    keep_head: bool,
    to_head: bool,
    begun: bool,
    response: Response,
}

impl Framer {
    pub(crate) fn new() -> Self {
        Self {
            state: State::Head,
            head: Vec::new(),
            keep_head: false,
            to_head: false,
            begun: false,
            response: BLANK,
        }
    }

    /// Gets ready for the response to a request: to `HEAD` there is never content; `keep_head` leaves the head to
    /// be read with [`Self::fields`].
    pub(crate) fn expect(&mut self, to_head: bool, keep_head: bool) {
        self.state = State::Head;
        self.head.clear();
        self.keep_head = keep_head;
        self.to_head = to_head;
        self.begun = false;
        self.response = BLANK;
    }

    /// Whether a byte of the response has come.
    pub(crate) fn begun(&self) -> bool {
        self.begun
    }

    /// Takes what was read.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<Step, Malformed> {
        self.feed_seeing(bytes, &mut |_| {})
    }

    /// The same, and shows `see` the content, piece by piece.
    pub(crate) fn feed_seeing(
        &mut self,
        bytes: &[u8],
        see: &mut impl FnMut(&[u8]),
    ) -> Result<Step, Malformed> {
        self.begun |= !bytes.is_empty();
        let mut used = 0;
        loop {
            let rest = &bytes[used..];
            let (taken, ended) = match &mut self.state {
                State::Head => match self.take_head(rest)? {
                    Some(taken) => {
                        used += taken;
                        if self.is_over() {
                            return Ok(Step::Whole(self.response, used));
                        }
                        continue;
                    }
                    None => return Ok(Step::More),
                },
                State::Length(left) => {
                    let taken =
                        usize::try_from(*left).map_or(rest.len(), |left| left.min(rest.len()));
                    *left -= taken as u64;
                    self.response.body += taken as u64;
                    see(&rest[..taken]);
                    (taken, *left == 0)
                }
                State::Chunked(chunks) => {
                    let taken = chunks.take(rest, &mut self.response.body, see)?;
                    (taken, chunks.is_over())
                }
                State::UntilClose => {
                    self.response.body += rest.len() as u64;
                    see(rest);
                    (rest.len(), false)
                }
            };
            used += taken;
            return Ok(if ended {
                Step::Whole(self.response, used)
            } else {
                Step::More
            });
        }
    }

    /// The peer closed its side.
    pub(crate) fn end(&self) -> Ending {
        match self.state {
            State::UntilClose => Ending::Whole(self.response),
            _ if !self.begun => Ending::Nothing,
            _ => Ending::Short,
        }
    }

    /// The fields of the last response's head where it was kept.
    pub(crate) fn fields(&self, mut see: impl FnMut(&str, &[u8])) {
        let mut fields = [const { MaybeUninit::uninit() }; MOST_FIELDS];
        let mut response = httparse::Response::new(&mut []);
        let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(
            &mut response,
            &self.head,
            &mut fields,
        );
        if parsed.is_ok() {
            for field in response.headers.iter() {
                see(field.name, field.value);
            }
        }
    }

    fn is_over(&self) -> bool {
        matches!(self.state, State::Length(0))
    }

    /// Takes a whole head, or keeps what there is of it; says how many bytes of `bytes` belong to it.
    fn take_head(&mut self, bytes: &[u8]) -> Result<Option<usize>, Malformed> {
        if self.head.is_empty() {
            if let Some(length) = self.parse_head(bytes)? {
                if self.keep_head {
                    self.head.extend_from_slice(&bytes[..length]);
                    self.keep_head = self.interim();
                    if self.keep_head {
                        self.head.clear();
                    }
                }
                return Ok(Some(length));
            }
            self.head.extend_from_slice(bytes);
            return Ok(None);
        }
        let before = self.head.len();
        self.head.extend_from_slice(bytes);
        let head = std::mem::take(&mut self.head);
        let parsed = self.parse_head(&head);
        self.head = head;
        let Some(length) = parsed? else {
            return Ok(None);
        };
        // An interim response is followed by another head, which must not be glued to this one.
        if self.keep_head && !self.interim() {
            self.head.truncate(length);
            self.keep_head = false;
        } else {
            self.head.clear();
        }
        Ok(Some(length - before))
    }

    fn interim(&self) -> bool {
        self.response.status == 0
    }

    fn parse_head(&mut self, bytes: &[u8]) -> Result<Option<usize>, Malformed> {
        let mut fields = [const { MaybeUninit::uninit() }; MOST_FIELDS];
        let mut response = httparse::Response::new(&mut []);
        let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(
            &mut response,
            bytes,
            &mut fields,
        );
        let length = match parsed {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) if bytes.len() < LONGEST_HEAD => return Ok(None),
            _ => return Err(Malformed),
        };
        self.response.head += length as u64;
        let status = response.code.ok_or(Malformed)?;
        // 101 ends HTTP on this connection; other interim responses announce another head.
        if (100..200).contains(&status) && status != 101 {
            return Ok(Some(length));
        }
        let framing = Framing::of(response.headers)?;
        let http_1_1 = response.version == Some(1);
        self.response.status = status;
        self.response.keep_alive =
            !framing.close && (http_1_1 || framing.keep_alive) && status != 101;
        self.state = if self.to_head || status == 101 || status == 204 || status == 304 {
            State::Length(0)
        } else if framing.chunked {
            State::Chunked(Chunks::new())
        } else if let Some(length) = framing.length {
            State::Length(length)
        } else {
            self.response.keep_alive = false;
            State::UntilClose
        };
        Ok(Some(length))
    }
}

const BLANK: Response = Response {
    status: 0,
    keep_alive: false,
    head: 0,
    body: 0,
};

/// What the fields say of the message's end.
#[derive(Debug, Default)]
struct Framing {
    length: Option<u64>,
    chunked: bool,
    close: bool,
    keep_alive: bool,
}

impl Framing {
    fn of(fields: &[httparse::Header<'_>]) -> Result<Self, Malformed> {
        let mut framing = Self::default();
        for field in fields {
            // The length of the name rules out nearly every field before its letters are compared.
            match field.name.len() {
                14 if field.name.eq_ignore_ascii_case("content-length") => {
                    let length = content_length(field.value)?;
                    if framing.length.is_some_and(|earlier| earlier != length) {
                        return Err(Malformed);
                    }
                    framing.length = Some(length);
                }
                17 if field.name.eq_ignore_ascii_case("transfer-encoding") => {
                    framing.chunked = last_is_chunked(field.value);
                }
                10 if field.name.eq_ignore_ascii_case("connection") => {
                    for option in field.value.split(|byte| *byte == b',') {
                        let option = option.trim_ascii();
                        framing.close |= option.eq_ignore_ascii_case(b"close");
                        framing.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                    }
                }
                _ => {}
            }
        }
        Ok(framing)
    }
}

fn content_length(value: &[u8]) -> Result<u64, Malformed> {
    let digits = value.trim_ascii();
    if digits.is_empty() || digits.len() > 18 || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Malformed);
    }
    Ok(digits
        .iter()
        .fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')))
}

fn last_is_chunked(value: &[u8]) -> bool {
    let last = value.rsplit(|byte| *byte == b',').next().unwrap_or(value);
    last.trim_ascii().eq_ignore_ascii_case(b"chunked")
}

#[cfg(test)]
mod tests;
