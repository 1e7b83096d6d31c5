//! A look at a server, one request at a time: a GET as bytes, and an incremental reader that finds where a response ends
//! and keeps its body. It never interprets a response beyond its status and framing (RFC 9112 section 6), and is no load.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// More header bytes than any stack under test sends; beyond it the peer is not speaking HTTP.
const HEAD_LIMIT: usize = 64 * 1024;

/// A keep-alive GET of `path`, as browsers send it but without any optional header.
pub fn get_request(address: SocketAddr, path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nAccept: */*\r\n\r\n").into_bytes()
}

/// What is known of a complete response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The body, decoded from chunks.
    pub body: Vec<u8>,
    /// Whether the connection may carry another request.
    pub keep_alive: bool,
}

#[derive(Debug)]
enum Stage {
    Head,
    Length(usize),
    ChunkSize,
    ChunkData(usize),
    Trailer,
    UntilClose,
}

/// Reads one response from bytes that arrive in any pieces.
#[derive(Debug)]
pub struct ResponseReader {
    stage: Stage,
    pending: Vec<u8>,
    status: u16,
    keep_alive: bool,
    body: Vec<u8>,
}

impl Default for ResponseReader {
    fn default() -> Self {
        Self {
            stage: Stage::Head,
            pending: Vec::new(),
            status: 0,
            keep_alive: true,
            body: Vec::new(),
        }
    }
}

impl ResponseReader {
    /// Takes the next bytes; gives the response once it is complete.
    ///
    /// # Errors
    /// When the bytes are no response, or go on after its end (nothing was pipelined).
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Option<Response>> {
        self.pending.extend_from_slice(bytes);
        loop {
            match self.stage {
                Stage::Head => match find(&self.pending, b"\r\n\r\n") {
                    Some(end) => self.take_head(end)?,
                    None if self.pending.len() > HEAD_LIMIT => {
                        bail!("no end of the response head in {HEAD_LIMIT} bytes")
                    }
                    None => return Ok(None),
                },
                Stage::Length(length) if self.pending.len() >= length => {
                    self.body = self.pending.split_off(0);
                    let extra = self.body.split_off(length);
                    return self.complete(&extra);
                }
                Stage::ChunkSize => {
                    let Some(line) = self.take_line() else {
                        return Ok(None);
                    };
                    let digits = line.split(';').next().unwrap_or_default().trim();
                    let size = usize::from_str_radix(digits, 16)
                        .with_context(|| format!("chunk size {line:?}"))?;
                    self.stage = if size == 0 {
                        Stage::Trailer
                    } else {
                        Stage::ChunkData(size)
                    };
                }
                Stage::ChunkData(size) if self.pending.len() >= size + 2 => {
                    self.body.extend_from_slice(&self.pending[..size]);
                    self.pending.drain(..size + 2);
                    self.stage = Stage::ChunkSize;
                }
                Stage::Trailer => {
                    let Some(line) = self.take_line() else {
                        return Ok(None);
                    };
                    if line.is_empty() {
                        let extra = std::mem::take(&mut self.pending);
                        return self.complete(&extra);
                    }
                }
                Stage::Length(_) | Stage::ChunkData(_) | Stage::UntilClose => return Ok(None),
            }
        }
    }

    /// The peer closed the connection; gives the response where its end was to be marked so.
    ///
    /// # Errors
    /// When the response was cut short.
    pub fn closed(&mut self) -> Result<Response> {
        match self.stage {
            Stage::UntilClose => {
                self.body = std::mem::take(&mut self.pending);
                Ok(Response {
                    status: self.status,
                    body: std::mem::take(&mut self.body),
                    keep_alive: false,
                })
            }
            Stage::Head if self.pending.is_empty() => bail!("closed before a response"),
            _ => bail!("closed in the middle of a response"),
        }
    }

    fn complete(&mut self, extra: &[u8]) -> Result<Option<Response>> {
        if !extra.is_empty() {
            bail!("{} bytes after the end of the response", extra.len());
        }
        let done = std::mem::take(self);
        Ok(Some(Response {
            status: done.status,
            body: done.body,
            keep_alive: done.keep_alive,
        }))
    }

    fn take_head(&mut self, end: usize) -> Result<()> {
        let head = String::from_utf8_lossy(&self.pending[..end]).into_owned();
        self.pending.drain(..end + 4);
        let mut lines = head.split("\r\n");
        let status_line = lines.next().unwrap_or_default();
        let mut words = status_line.split(' ');
        let version = words.next().unwrap_or_default();
        if !version.starts_with("HTTP/1.") {
            bail!("not an HTTP/1 status line: {status_line:?}");
        }
        let code = words.next().unwrap_or_default();
        self.status = code
            .parse()
            .with_context(|| format!("status line {status_line:?}"))?;
        self.keep_alive = version == "HTTP/1.1";
        let mut stage = Stage::UntilClose;
        for line in lines {
            let Some((name, value)) = line.split_once(':') else {
                bail!("header line {line:?}")
            };
            let value = value.trim();
            if name.eq_ignore_ascii_case("content-length") {
                stage = Stage::Length(
                    value
                        .parse()
                        .with_context(|| format!("content-length {value:?}"))?,
                );
            } else if name.eq_ignore_ascii_case("transfer-encoding")
                && value.eq_ignore_ascii_case("chunked")
            {
                stage = Stage::ChunkSize;
            } else if name.eq_ignore_ascii_case("connection") {
                self.keep_alive = !value.eq_ignore_ascii_case("close");
            }
        }
        self.stage = match self.status {
            100..=199 => Stage::Head,
            204 | 304 => Stage::Length(0),
            _ => stage,
        };
        Ok(())
    }

    fn take_line(&mut self) -> Option<String> {
        let end = find(&self.pending, b"\r\n")?;
        let line = String::from_utf8_lossy(&self.pending[..end]).into_owned();
        self.pending.drain(..end + 2);
        Some(line)
    }
}

fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    bytes
        .windows(needle.len())
        .position(|window| window == needle)
}

/// Sends a request on a blocking connection and reads its response.
///
/// # Errors
/// When the connection fails, times out, or the answer is no complete response.
pub fn exchange(stream: &mut TcpStream, request: &[u8]) -> Result<Response> {
    stream.write_all(request).context("writing the request")?;
    let mut reader = ResponseReader::default();
    let mut buffer = [0; 16 * 1024];
    loop {
        let count = match stream.read(&mut buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error).context("reading the response"),
        };
        if count == 0 {
            return reader.closed();
        }
        if let Some(response) = reader.feed(&buffer[..count])? {
            return Ok(response);
        }
    }
}

/// One GET on a connection of its own.
///
/// # Errors
/// As [`exchange`], and when nothing listens at `address`.
pub fn get(address: SocketAddr, path: &str, timeout: Duration) -> Result<Response> {
    let mut stream = TcpStream::connect_timeout(&address, timeout)
        .with_context(|| format!("connecting to {address}"))?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    stream.set_nodelay(true)?;
    exchange(&mut stream, &get_request(address, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `bytes` in pieces of every size, for a response must not depend on how it was cut.
    fn check(bytes: &[u8], status: u16, body: &str, keep_alive: bool) {
        for size in 1..=bytes.len() {
            let mut reader = ResponseReader::default();
            let mut pieces = bytes.chunks(size).peekable();
            while let Some(piece) = pieces.next() {
                if let Some(response) = reader.feed(piece).unwrap() {
                    assert!(
                        pieces.peek().is_none(),
                        "complete too early in pieces of {size}"
                    );
                    let expected = Response {
                        status,
                        body: body.as_bytes().to_vec(),
                        keep_alive,
                    };
                    assert_eq!(response, expected, "in pieces of {size}");
                    break;
                }
                assert!(pieces.peek().is_some(), "not complete in pieces of {size}");
            }
        }
    }

    #[test]
    fn responses_end_where_their_framing_says() {
        check(
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            200,
            "hello",
            true,
        );
        check(
            b"HTTP/1.1 200 OK\r\ncontent-length:0\r\n\r\n",
            200,
            "",
            true,
        );
        check(
            b"HTTP/1.1 503 Busy\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno",
            503,
            "no",
            false,
        );
        check(
            b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi",
            200,
            "hi",
            false,
        );
        check(
            b"HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n",
            304,
            "",
            true,
        );
        check(
            b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
            204,
            "",
            true,
        );
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\nT: v\r\n\r\n";
        check(chunked, 200, "abc0123456789", true);
    }

    #[test]
    fn a_body_without_framing_ends_with_the_connection() {
        let mut reader = ResponseReader::default();
        assert_eq!(reader.feed(b"HTTP/1.1 200 OK\r\n\r\nab").unwrap(), None);
        assert_eq!(reader.feed(b"c").unwrap(), None);
        let response = reader.closed().unwrap();
        assert_eq!(
            (response.body.as_slice(), response.keep_alive),
            (b"abc".as_slice(), false)
        );
    }

    #[test]
    fn what_is_no_response_is_an_error() {
        for bytes in [
            b"SSH-2.0-x\r\n\r\n".as_slice(),
            b"HTTP/1.1 abc\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        ] {
            assert!(ResponseReader::default().feed(bytes).is_err(), "{bytes:?}");
        }
        let mut cut = ResponseReader::default();
        assert!(
            cut.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab")
                .unwrap()
                .is_none()
        );
        assert!(cut.closed().is_err());
    }
}
