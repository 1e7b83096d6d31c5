//! Responses as a strict client reads them: head, framing (RFC 9112 §6.3), what went wrong. Reads no socket.

use std::fmt;

use thiserror::Error;

/// A status line and its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The protocol, such as `HTTP/1.1`.
    pub protocol: String,
    /// The status code.
    pub status: u16,
    /// The fields in order, names as they were sent.
    pub fields: Vec<(String, String)>,
}

/// A whole response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The final head.
    pub head: Head,
    /// The interim heads before it (1xx).
    pub interim: Vec<Head>,
    /// The body without its framing.
    pub body: Vec<u8>,
    /// The chunks of a chunked body, as they were framed.
    pub chunks: Vec<Vec<u8>>,
}

/// How a server ended a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// In order, after everything it had sent.
    Closed,
    /// With a reset.
    Reset,
}

/// Why there is no whole response.
#[derive(Debug, Error)]
pub enum Fault {
    /// Nothing more came in time.
    #[error("nothing more came in time, after {:?}", Text(so_far))]
    TimedOut {
        /// What had come.
        so_far: Vec<u8>,
    },
    /// The connection ended before or within a head.
    #[error("the connection ended ({ending:?}) after {:?}", Text(so_far))]
    Ended {
        /// How.
        ending: Ending,
        /// What had come and was not read.
        so_far: Vec<u8>,
    },
    /// The connection ended within a body.
    #[error("the connection ended ({ending:?}) within the body of {response:?}")]
    Truncated {
        /// How.
        ending: Ending,
        /// What had come.
        response: Box<Response>,
    },
    /// What came is no HTTP/1 response.
    #[error("no HTTP/1 response: {0}")]
    Malformed(String),
}

/// How a body is framed (RFC 9112 §6.3).
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    None,
    Length(usize),
    Chunked,
    UntilClose,
}

impl Head {
    /// The value of a field, by its name in any case; the first where there are several.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.values(name).first().copied()
    }

    /// All values of a field.
    pub fn values(&self, name: &str) -> Vec<&str> {
        self.fields
            .iter()
            .filter(|(field, _)| field.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
            .collect()
    }

    pub(crate) fn parse(head: &[u8]) -> Result<Self, Fault> {
        let malformed = || Fault::Malformed(format!("head {:?}", Text(head)));
        let text = String::from_utf8_lossy(head);
        let text = text.strip_suffix("\r\n\r\n").ok_or_else(malformed)?;
        // Neither may be left over once lines are split at CR LF: a bare one would split the response elsewhere.
        let mut lines = text.split("\r\n");
        if text.replace("\r\n", "").contains(['\r', '\n', '\0']) {
            return Err(malformed());
        }
        let mut parts = lines.next().ok_or_else(malformed)?.splitn(3, ' ');
        let (protocol, status) = (parts.next(), parts.next());
        let protocol = protocol
            .filter(|protocol| matches!(*protocol, "HTTP/1.1" | "HTTP/1.0"))
            .ok_or_else(malformed)?;
        let status = status
            .filter(|status| status.len() == 3)
            .and_then(|status| status.parse().ok())
            .ok_or_else(malformed)?;
        let mut fields = Vec::new();
        for line in lines {
            let (name, value) = line.split_once(':').ok_or_else(malformed)?;
            if name.is_empty() || name.contains([' ', '\t']) {
                return Err(malformed());
            }
            fields.push((name.to_owned(), value.trim_matches([' ', '\t']).to_owned()));
        }
        Ok(Self {
            protocol: protocol.to_owned(),
            status,
            fields,
        })
    }

    pub(crate) fn framing(&self, method: &str) -> Result<Framing, Fault> {
        let (lengths, codings) = (
            self.values("content-length"),
            self.values("transfer-encoding"),
        );
        if !lengths.is_empty() && !codings.is_empty() {
            return Err(Fault::Malformed(format!("two framings in {self:?}")));
        }
        if method == "HEAD" || self.status == 204 || self.status == 304 || self.status == 101 {
            return Ok(Framing::None);
        }
        match (codings.as_slice(), lengths.as_slice()) {
            ([], []) => Ok(Framing::UntilClose),
            ([coding], []) if coding.eq_ignore_ascii_case("chunked") => Ok(Framing::Chunked),
            ([], [length]) => match length.parse() {
                Ok(length) => Ok(Framing::Length(length)),
                Err(_) => Err(Fault::Malformed(format!("Content-Length {length:?}"))),
            },
            _ => Err(Fault::Malformed(format!("framing of {self:?}"))),
        }
    }
}

impl Response {
    /// The status code.
    pub fn status(&self) -> u16 {
        self.head.status
    }

    /// The value of a field, by its name in any case; the first where there are several.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.head.field(name)
    }

    /// All values of a field.
    pub fn values(&self, name: &str) -> Vec<&str> {
        self.head.values(name)
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// When it is none.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        match serde_json::from_slice(&self.body) {
            Ok(value) => value,
            Err(error) => panic!("no JSON ({error}): {} {:?}", self.status(), self.text()),
        }
    }

    /// Asserts the status.
    ///
    /// # Panics
    /// When it is another one.
    #[track_caller]
    pub fn expect(&self, status: u16) -> &Self {
        assert_eq!(self.status(), status, "{:?} {:?}", self.head, self.text());
        self
    }
}

/// The size in the first line of a chunk (RFC 9112 §7.1); extensions are ignored.
pub(crate) fn chunk_size(line: &[u8]) -> Result<usize, Fault> {
    let malformed = || Fault::Malformed(format!("chunk size {:?}", Text(line)));
    let text = std::str::from_utf8(line).map_err(|_| malformed())?;
    let size = text.trim_end_matches("\r\n").split(';').next();
    let size = size.filter(|size| size.bytes().all(|byte| byte.is_ascii_hexdigit()));
    usize::from_str_radix(size.ok_or_else(malformed)?, 16).map_err(|_| malformed())
}

/// Bytes in a message: as text, and not without end.
struct Text<'a>(&'a [u8]);

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 2000;
        let shown = &self.0[..self.0.len().min(MOST)];
        write!(f, "{:?}", String::from_utf8_lossy(shown))?;
        if self.0.len() > MOST {
            write!(f, " and {} more bytes", self.0.len() - MOST)?;
        }
        Ok(())
    }
}
