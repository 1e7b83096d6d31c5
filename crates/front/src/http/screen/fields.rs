//! The field lines of a head (RFC 9112 section 5) and what they decide: host, framing, expectation,
//! persistence. Other values are not looked at: finding the line's end has shown that they hold no control
//! character.

use super::request_line::RequestLine;
use super::{Head, Limits, Refusal, line, target};

/// Puma's bound; names beyond it are no client's.
pub(super) const MAX_NAME_BYTES: usize = 256;

pub(super) const TOO_LARGE: u16 = 431;

/// What was seen in the field lines so far.
#[derive(Debug, Default)]
pub(super) struct Fields {
    request_line: RequestLine,
    /// Where the first field line starts, from the first byte of the head.
    start: usize,
    count: usize,
    host: bool,
    content_type: bool,
    content_length: Option<u64>,
    coding: Option<Coding>,
    expect_continue: bool,
    expect_other: bool,
    close: bool,
    keep_alive: bool,
}

/// The transfer codings named so far (RFC 9112 section 6.1).
#[derive(Clone, Copy, Debug, Default)]
struct Coding {
    chunked: u32,
    /// Whether the last one named was chunked.
    chunked_is_final: bool,
    /// A registered coding other than chunked.
    other: bool,
    /// A coding that is not registered.
    unknown: bool,
}

impl Fields {
    pub(super) fn begin(&mut self, request_line: RequestLine, start: usize) {
        self.request_line = request_line;
        self.start = start;
    }

    /// Where a target starts and ends that hyper would refuse as it is.
    pub(super) fn raw_target(&self) -> Option<(usize, usize)> {
        self.request_line.raw_target
    }

    /// How long the line that starts at `line_start` may be, and the refusal if it is longer.
    #[inline]
    pub(super) fn line_limit(&self, line_start: usize, limits: &Limits) -> (usize, Refusal) {
        let used = line_start - self.start + 2;
        let left = limits.max_header_bytes.saturating_sub(used);
        if limits.max_field_bytes <= left {
            (
                limits.max_field_bytes,
                Refusal::new(TOO_LARGE, "a header field is too large"),
            )
        } else {
            (
                left,
                Refusal::new(TOO_LARGE, "the header fields are too large together"),
            )
        }
    }

    /// Takes one line, which is not empty.
    #[inline]
    pub(super) fn take(&mut self, field: &[u8], limits: &Limits) -> Result<(), Refusal> {
        self.count += 1;
        if self.count > limits.max_header_count {
            return Err(Refusal::new(TOO_LARGE, "too many header fields"));
        }
        let (name, value) = split(field)?;
        // By length first: most fields are then known to be of no interest.
        match name.len() {
            4 if name.eq_ignore_ascii_case(b"host") => self.take_host(value),
            6 if name.eq_ignore_ascii_case(b"expect") => {
                self.take_expect(value);
                Ok(())
            }
            10 if name.eq_ignore_ascii_case(b"connection") => {
                self.take_connection(value);
                Ok(())
            }
            12 if name.eq_ignore_ascii_case(b"content-type") => self.take_content_type(),
            14 if name.eq_ignore_ascii_case(b"content-length") => self.take_content_length(value),
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                self.take_transfer_encoding(value)
            }
            _ => Ok(()),
        }
    }

    /// Judges the head as a whole.
    pub(super) fn finish(&self, limits: &Limits) -> Result<Head, Refusal> {
        let is_1_1 = self.request_line.version_minor == 1;
        if is_1_1 && !self.host {
            return Err(Refusal::new(400, "no Host"));
        }
        if let Some(coding) = self.coding {
            self.judge_coding(coding)?;
        }
        // RFC 9110 section 10.1.1: what HTTP/1.0 expects is ignored.
        if is_1_1 && self.expect_other {
            return Err(Refusal::new(417, "an expectation other than 100-continue"));
        }
        if self
            .content_length
            .is_some_and(|length| length > limits.max_body_bytes)
        {
            return Err(Refusal::new(413, "the declared body is too large"));
        }
        Ok(Head {
            version_minor: self.request_line.version_minor,
            is_head: self.request_line.is_head,
            content_length: self.content_length,
            chunked: self.coding.is_some(),
            expect_continue: is_1_1 && self.expect_continue,
            keep_alive: !self.close && (is_1_1 || self.keep_alive),
        })
    }

    /// RFC 9112 sections 6.1 and 6.3.
    fn judge_coding(&self, coding: Coding) -> Result<(), Refusal> {
        if self.request_line.version_minor == 0 {
            return Err(Refusal::new(400, "Transfer-Encoding in HTTP/1.0"));
        }
        if self.content_length.is_some() {
            return Err(Refusal::new(
                400,
                "both Content-Length and Transfer-Encoding",
            ));
        }
        match coding {
            Coding { chunked: 2.., .. } => Err(Refusal::new(400, "chunked twice")),
            Coding {
                chunked: 1,
                chunked_is_final: false,
                ..
            } => Err(Refusal::new(
                400,
                "chunked is not the final transfer coding",
            )),
            // Also where chunked is missing: what this coding does to the length is not known.
            Coding { unknown: true, .. } => Err(Refusal::new(501, "an unknown transfer coding")),
            Coding { chunked: 0, .. } => {
                Err(Refusal::new(400, "the transfer coding is not chunked"))
            }
            Coding { other: true, .. } => {
                Err(Refusal::new(501, "a transfer coding other than chunked"))
            }
            Coding { .. } => Ok(()),
        }
    }

    /// RFC 9112 section 3.2: exactly one, and valid.
    fn take_host(&mut self, value: &[u8]) -> Result<(), Refusal> {
        if self.host {
            return Err(Refusal::new(400, "more than one Host"));
        }
        if !target::is_authority(value) {
            return Err(Refusal::new(400, "an invalid Host"));
        }
        self.host = true;
        Ok(())
    }

    /// RFC 9112 section 6.3, stricter by choice: once, without a list, also where the values agree.
    fn take_content_length(&mut self, value: &[u8]) -> Result<(), Refusal> {
        if self.content_length.is_some() {
            return Err(Refusal::new(400, "more than one Content-Length"));
        }
        self.content_length =
            Some(decimal(value).ok_or(Refusal::new(400, "an invalid Content-Length"))?);
        Ok(())
    }

    /// A singleton (RFC 9110 section 8.3): two of them would let two readers see two types.
    fn take_content_type(&mut self) -> Result<(), Refusal> {
        if self.content_type {
            return Err(Refusal::new(400, "more than one Content-Type"));
        }
        self.content_type = true;
        Ok(())
    }

    fn take_transfer_encoding(&mut self, value: &[u8]) -> Result<(), Refusal> {
        let coding = self.coding.get_or_insert_default();
        for item in value.split(|&byte| byte == b',').map(line::trim) {
            let (name, parameters) = item.split_at(line::token_prefix(item));
            coding.chunked_is_final = name.eq_ignore_ascii_case(b"chunked");
            let well_formed = match line::trim(parameters) {
                [] => !name.is_empty(),
                // RFC 9112 section 7.1: chunked has no parameters.
                [b';', ..] => !name.is_empty() && !coding.chunked_is_final,
                _ => false,
            };
            if !well_formed {
                return Err(Refusal::new(400, "an invalid Transfer-Encoding"));
            }
            if coding.chunked_is_final {
                coding.chunked += 1;
            } else if is_registered_coding(name) {
                coding.other = true;
            } else {
                coding.unknown = true;
            }
        }
        Ok(())
    }

    fn take_expect(&mut self, value: &[u8]) {
        if value.eq_ignore_ascii_case(b"100-continue") {
            self.expect_continue = true;
        } else {
            self.expect_other = true;
        }
    }

    fn take_connection(&mut self, value: &[u8]) {
        for option in value.split(|&byte| byte == b',').map(line::trim) {
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }
}

/// The name and the trimmed value of a field line (RFC 9112 section 5.1), which holds no control character. A space before the colon, an empty
/// name and a folded line (section 5.2) all end the token before the colon.
#[inline]
pub(super) fn split(field: &[u8]) -> Result<(&[u8], &[u8]), Refusal> {
    let name_bytes = line::token_prefix(field);
    if name_bytes == 0 || field.get(name_bytes) != Some(&b':') {
        return Err(Refusal::new(400, "an invalid header field name"));
    }
    if name_bytes > MAX_NAME_BYTES {
        return Err(Refusal::new(TOO_LARGE, "a header field name is too long"));
    }
    Ok((&field[..name_bytes], line::trim(&field[name_bytes + 1..])))
}

/// The registered transfer codings but chunked, and `identity`, which RFC 2616 had.
fn is_registered_coding(name: &[u8]) -> bool {
    let registered: [&[u8]; 6] = [
        b"gzip",
        b"x-gzip",
        b"deflate",
        b"compress",
        b"x-compress",
        b"identity",
    ];
    registered
        .iter()
        .any(|coding| name.eq_ignore_ascii_case(coding))
}

/// 1*DIGIT that fits; no sign, no underscore, no list.
fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}
