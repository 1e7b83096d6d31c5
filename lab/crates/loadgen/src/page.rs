//! A look at a server, one request at a time, with the whole response: whether it is up, and what it answers. It is no
//! load and measures nothing.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use rustls::{ClientConnection, StreamOwned};

use crate::framing::{Ending, Framer, Malformed, Step};
use crate::plan::{Target, Tls};
use crate::tls::{Connector, HTTP_2};

/// How long a connection may take that is made to see whether something listens.
const LISTENS_TIMEOUT: Duration = Duration::from_secs(1);

/// A complete response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The content, without chunk framing.
    pub body: Vec<u8>,
    /// Whether the connection may carry another request.
    pub keep_alive: bool,
}

/// A GET of `path` for a connection that is kept, without any optional header but `Accept`.
pub fn get_request(host: &str, path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nAccept: */*\r\n\r\n").into_bytes()
}

/// Sends one GET on a connection of its own.
///
/// # Errors
/// As [`exchange`].
pub fn get(target: &Target, path: &str, timeout: Duration) -> Result<Response> {
    let host = match target {
        Target::Tcp(address) => address.to_string(),
        Target::Tls(address, tls) => format!("{}:{}", tls.name, address.port()),
        Target::Unix(_) => "localhost".to_owned(),
    };
    exchange(target, &get_request(&host, path), timeout)
}

/// Sends a request on a connection of its own and reads its response.
///
/// # Errors
/// No server listens, a read or a write takes longer than `timeout`, or the answer is no complete response.
pub fn exchange(target: &Target, request: &[u8], timeout: Duration) -> Result<Response> {
    match target {
        Target::Tcp(address) => exchange_on(&mut connect(address, timeout)?, request),
        Target::Tls(address, tls) => {
            let stream = connect(address, timeout)?;
            exchange_on(&mut secure(stream, tls)?, request)
        }
        Target::Unix(path) => {
            let mut stream = UnixStream::connect(path)
                .with_context(|| format!("connecting to {}", path.display()))?;
            stream.set_read_timeout(Some(timeout))?;
            stream.set_write_timeout(Some(timeout))?;
            exchange_on(&mut stream, request)
        }
    }
}

fn connect(address: &SocketAddr, timeout: Duration) -> Result<TcpStream> {
    let stream = TcpStream::connect_timeout(address, timeout)
        .with_context(|| format!("connecting to {address}"))?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// A connection whose handshake is done by its first request.
pub(crate) type Secured = StreamOwned<ClientConnection, TcpStream>;

/// The connection with TLS, for HTTP/1.1.
fn secure(stream: TcpStream, tls: &Tls) -> Result<Secured> {
    let connection = Connector::new(tls, false)?.connection()?;
    Ok(StreamOwned::new(connection, stream))
}

/// Makes a connection and, where it has TLS, its handshake; `http2` asks for HTTP/2 in it.
///
/// # Errors
/// No server listens, its certificate is not accepted, or it does not speak HTTP/2.
pub fn reach(target: &Target, http2: bool, timeout: Duration) -> Result<()> {
    match target {
        Target::Tcp(address) => connect(address, timeout).map(drop),
        Target::Unix(path) => UnixStream::connect(path)
            .map(drop)
            .with_context(|| format!("connecting to {}", path.display())),
        Target::Tls(address, tls) => {
            let mut stream = connect(address, timeout)?;
            let mut connection = Connector::new(tls, http2)?.connection()?;
            while connection.is_handshaking() {
                let handshake = connection.complete_io(&mut stream);
                handshake.with_context(|| format!("TLS with {address}"))?;
            }
            let agreed = connection.alpn_protocol() == Some(HTTP_2);
            ensure!(
                agreed || !http2,
                "{address} does not offer HTTP/2 (by ALPN)"
            );
            Ok(())
        }
    }
}

/// Whether something listens there, whatever it speaks.
pub fn is_listened_on(target: &Target) -> bool {
    match target {
        Target::Tcp(address) | Target::Tls(address, _) => connect(address, LISTENS_TIMEOUT).is_ok(),
        Target::Unix(path) => UnixStream::connect(path).is_ok(),
    }
}

/// Sends a request on a connection that is open and reads its response.
///
/// # Errors
/// The connection fails or ends, or the answer is no complete response, or something comes after it.
pub fn exchange_on(stream: &mut (impl Read + Write), request: &[u8]) -> Result<Response> {
    stream.write_all(request).context("writing the request")?;
    let mut reader = Reader::new();
    let mut buffer = [0; 16 * 1024];
    loop {
        let count = match stream.read(&mut buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            // The connection ended without TLS saying so; the response's framing tells whether it is whole.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => 0,
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

/// The generator's reader, which throws content away, and the content.
struct Reader {
    framer: Framer,
    body: Vec<u8>,
}

impl Reader {
    fn new() -> Self {
        let mut framer = Framer::new();
        framer.expect(false, false);
        Self {
            framer,
            body: Vec::new(),
        }
    }

    /// Takes the next bytes; gives the response once it is complete.
    fn feed(&mut self, bytes: &[u8]) -> Result<Option<Response>> {
        let body = &mut self.body;
        let step = self
            .framer
            .feed_seeing(bytes, &mut |content| body.extend_from_slice(content));
        match step {
            Err(Malformed) => bail!("the answer is no HTTP response"),
            Ok(Step::More) => Ok(None),
            Ok(Step::Whole(_, used)) if used < bytes.len() => {
                bail!("{} bytes after the end of the response", bytes.len() - used)
            }
            Ok(Step::Whole(response, _)) => {
                Ok(Some(self.complete(response.status, response.keep_alive)))
            }
        }
    }

    /// The peer closed the connection; gives the response where its end was to be marked so.
    fn closed(&mut self) -> Result<Response> {
        match self.framer.end() {
            Ending::Whole(response) => Ok(self.complete(response.status, false)),
            Ending::Nothing => bail!("closed before a response"),
            Ending::Short => bail!("closed in the middle of a response"),
        }
    }

    fn complete(&mut self, status: u16, keep_alive: bool) -> Response {
        Response {
            status,
            body: std::mem::take(&mut self.body),
            keep_alive,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `bytes` in pieces of every size, for a response must not depend on how it was cut.
    fn check(bytes: &[u8], status: u16, body: &str, keep_alive: bool) {
        for size in 1..=bytes.len() {
            let mut reader = Reader::new();
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
        let mut reader = Reader::new();
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
            assert!(Reader::new().feed(bytes).is_err(), "{bytes:?}");
        }
        let mut cut = Reader::new();
        assert!(
            cut.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab")
                .unwrap()
                .is_none()
        );
        assert!(cut.closed().is_err());
    }
}
