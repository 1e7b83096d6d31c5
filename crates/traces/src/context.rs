//! The context of a trace (W3C Trace Context): what a client says in `traceparent`, and what the application is told. It
//! decides nothing about who is believed.

use std::fmt;

/// Characters of a `traceparent` of version 00.
const TRACEPARENT_LENGTH: usize = 55;

/// The id of a trace; never all zeros.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TraceId([u8; 16]);

/// The id of a span; never all zeros.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SpanId([u8; 8]);

macro_rules! ids {
    ($($id:ident $bytes:literal)+) => { $(
        impl $id {
            /// The id with these bytes; zeros are replaced, for they mean that there is none.
            pub fn of(bytes: [u8; $bytes]) -> Self {
                Self::sound(bytes).unwrap_or(Self([1; $bytes]))
            }

            /// Its bytes.
            pub fn bytes(&self) -> [u8; $bytes] {
                self.0
            }

            fn sound(bytes: [u8; $bytes]) -> Option<Self> {
                (bytes != [0; $bytes]).then_some(Self(bytes))
            }
        }

        impl fmt::Display for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut digits = [0; 2 * $bytes];
                put_digits(&mut digits, &self.0);
                f.write_str(&String::from_utf8_lossy(&digits))
            }
        }

        impl fmt::Debug for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    )+ };
}
ids! { TraceId 16 SpanId 8 }

/// What a client says of the trace that its request belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parent {
    /// The trace.
    pub trace_id: TraceId,
    /// The client's span.
    pub span_id: SpanId,
    /// Whether the client traces it.
    pub sampled: bool,
}

impl Parent {
    /// Reads the value of a field `traceparent`; none of one that is wrong in any way (W3C Trace Context section 3.2).
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (known, rest) = value.split_at_checked(TRACEPARENT_LENGTH)?;
        let [b0, b1, b'-', fields @ ..] = known else {
            return None;
        };
        let [version] = bytes_of([*b0, *b1].as_slice())?;
        // Later versions may add fields after another hyphen.
        let is_known = match (version, rest) {
            (0xff, _) => false,
            (_, []) => true,
            (0, _) => false,
            (_, [next, ..]) => *next == b'-',
        };
        if !is_known || fields[32] != b'-' || fields[49] != b'-' {
            return None;
        }
        let [flags] = bytes_of(&fields[50..52])?;
        Some(Self {
            trace_id: TraceId::sound(bytes_of(&fields[..32])?)?,
            span_id: SpanId::sound(bytes_of(&fields[33..49])?)?,
            sampled: flags & 1 != 0,
        })
    }
}

/// The bytes that lower-case hexadecimal digits stand for, of exactly this number.
fn bytes_of<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    if digits.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

/// The trace of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    /// The trace.
    pub trace_id: TraceId,
    /// The client's span, if it named one.
    pub parent: Option<SpanId>,
    /// The span of the request at this server.
    pub span_id: SpanId,
    /// The span of the application's part, the parent of the application's own spans.
    pub app_span_id: SpanId,
    /// Whether the application is told to trace it.
    pub sampled: bool,
}

impl Context {
    /// Returns the context of a request that continues its client's trace, or begins one. `random` must be fresh for each.
    pub fn new(parent: Option<Parent>, sampled: bool, random: [u8; 32]) -> Self {
        let mut span_ids = [[0; 8]; 2];
        span_ids[0].copy_from_slice(&random[16..24]);
        span_ids[1].copy_from_slice(&random[24..]);
        let mut trace_id = [0; 16];
        trace_id.copy_from_slice(&random[..16]);
        Self {
            trace_id: parent.map_or(TraceId::of(trace_id), |parent| parent.trace_id),
            parent: parent.map(|parent| parent.span_id),
            span_id: SpanId::of(span_ids[0]),
            app_span_id: SpanId::of(span_ids[1]),
            sampled,
        }
    }

    /// The `traceparent` that the application is given.
    pub fn traceparent(&self) -> [u8; TRACEPARENT_LENGTH] {
        let mut text = *b"00-00000000000000000000000000000000-0000000000000000-00";
        put_digits(&mut text[3..35], &self.trace_id.0);
        put_digits(&mut text[36..52], &self.app_span_id.0);
        text[54] += u8::from(self.sampled);
        text
    }
}

/// The lower-case hexadecimal digits of each byte: each request's ids are written.
static DIGITS: [[u8; 2]; 256] = {
    let digits = b"0123456789abcdef";
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        pairs[byte] = [digits[byte >> 4], digits[byte & 15]];
        byte += 1;
    }
    pairs
};

/// Writes bytes as lower-case hexadecimal digits.
fn put_digits(into: &mut [u8], bytes: &[u8]) {
    for (pair, byte) in into.chunks_exact_mut(2).zip(bytes) {
        pair.copy_from_slice(&DIGITS[usize::from(*byte)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_good_traceparent_is_read() {
        let parent = Parent::parse(GOOD.as_bytes()).unwrap();
        assert_eq!(
            parent.trace_id.to_string(),
            "0af7651916cd43dd8448eb211c80319c"
        );
        assert_eq!(parent.span_id.to_string(), "b7ad6b7169203331");
        assert!(parent.sampled);
        for (flags, sampled) in [("00", false), ("02", false), ("03", true), ("ff", true)] {
            let text = format!("{}{flags}", &GOOD[..53]);
            assert_eq!(Parent::parse(text.as_bytes()).unwrap().sampled, sampled);
        }
    }

    #[test]
    fn later_versions_may_have_more_fields() {
        for (text, good) in [
            (format!("01{}", &GOOD[2..]), true),
            (format!("cc{}-what-the-future-brings", &GOOD[2..]), true),
            (format!("cc{}.what-no-future-brings", &GOOD[2..]), false),
            (format!("{GOOD}-more"), false),
            (format!("ff{}", &GOOD[2..]), false),
        ] {
            assert_eq!(Parent::parse(text.as_bytes()).is_some(), good, "{text}");
        }
    }

    #[test]
    fn a_bad_traceparent_is_ignored() {
        for text in [
            "",
            "00",
            &GOOD[..54],
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0x",
            "00-0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331-01",
            "00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319g-b7ad6b7169203331-01",
            "0-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-010",
            " 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-1",
        ] {
            assert_eq!(Parent::parse(text.as_bytes()), None, "{text}");
        }
        let mut bytes = GOOD.as_bytes().to_vec();
        for at in 0..bytes.len() {
            let kept = std::mem::replace(&mut bytes[at], 0xff);
            assert_eq!(Parent::parse(&bytes), None, "{at}");
            bytes[at] = kept;
        }
    }

    #[test]
    fn the_application_continues_the_trace_under_our_span() {
        let parent = Parent::parse(GOOD.as_bytes());
        let context = Context::new(parent, true, [7; 32]);
        assert_eq!(
            &context.traceparent(),
            b"00-0af7651916cd43dd8448eb211c80319c-0707070707070707-01"
        );
        assert_eq!(
            context.parent.map(|id| id.to_string()).as_deref(),
            Some("b7ad6b7169203331")
        );
        let own = Context::new(None, false, [7; 32]);
        assert!(own.traceparent().ends_with(b"-00") && own.parent.is_none());
        assert!(Parent::parse(&own.traceparent()).is_some());
        let zeros = Context::new(None, false, [0; 32]);
        assert!(Parent::parse(&zeros.traceparent()).is_some());
    }
}
