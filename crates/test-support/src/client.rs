//! A raw client: sends exactly the bytes it is given and reads responses strictly. Repairs nothing, retries nothing.

pub(crate) mod response;
mod wire;

use std::fmt;
use std::io;
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;

use response::{Ending, Fault, Head, Response};
use wire::{Stream, Wire};

/// No wait at all.
const NOW: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// One connection to a server.
#[derive(Debug)]
pub struct Client {
    wire: Wire,
}

/// Takes a connected socket, for tests that set options before they connect.
impl From<TcpStream> for Client {
    fn from(stream: TcpStream) -> Self {
        // A test's pieces go out as they are written.
        stream.set_nodelay(true).expect("a TCP socket");
        let wire = Wire::new(Stream::Tcp(stream));
        Self { wire }
    }
}

impl From<UnixStream> for Client {
    fn from(stream: UnixStream) -> Self {
        let wire = Wire::new(Stream::Unix(stream));
        Self { wire }
    }
}

/// What can be sent: bytes or text.
pub trait IntoBytes {
    /// The bytes to send, as they are.
    fn bytes(&self) -> &[u8];
}

impl<T: AsRef<[u8]> + ?Sized> IntoBytes for T {
    fn bytes(&self) -> &[u8] {
        self.as_ref()
    }
}

impl Client {
    /// Connects over TCP.
    ///
    /// # Panics
    /// When the connection is refused.
    #[track_caller]
    pub fn connect(address: impl ToSocketAddrs + fmt::Debug) -> Self {
        match TcpStream::connect(&address) {
            Ok(stream) => stream.into(),
            Err(error) => panic!("connect to {address:?}: {error}"),
        }
    }

    /// Connects over TCP, or says why not.
    ///
    /// # Errors
    /// As the system's connect.
    pub fn try_connect(address: impl ToSocketAddrs) -> io::Result<Self> {
        TcpStream::connect(address).map(Self::from)
    }

    /// Connects over a UNIX socket.
    ///
    /// # Panics
    /// When the connection is refused.
    #[track_caller]
    pub fn connect_unix(path: &Path) -> Self {
        match UnixStream::connect(path) {
            Ok(stream) => stream.into(),
            Err(error) => panic!("connect to {}: {error}", path.display()),
        }
    }

    /// The port of its own side; 0 for a UNIX socket.
    pub fn local_port(&self) -> u16 {
        match &self.wire.stream {
            Stream::Tcp(stream) => stream.local_addr().map_or(0, |address| address.port()),
            Stream::Unix(_) => 0,
        }
    }

    /// Waits this long for each step instead of [`TEST_TIMEOUT`](crate::TEST_TIMEOUT).
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.wire.patience = patience;
        self
    }

    /// Sends bytes as they are.
    ///
    /// # Panics
    /// When the server takes no more of them.
    #[track_caller]
    pub fn send(&mut self, bytes: impl IntoBytes) -> &mut Self {
        if let Err(error) = self.try_send(bytes) {
            panic!("send: {error}");
        }
        self
    }

    /// Sends bytes as they are, or says why not: a server may close while it refuses.
    ///
    /// # Errors
    /// As the system's write; `WouldBlock` or `TimedOut` when the server takes no more for too long.
    pub fn try_send(&mut self, bytes: impl IntoBytes) -> io::Result<()> {
        self.wire.write(bytes.bytes())
    }

    /// Sends a request without a body, which says so (it may be of any method), and waits for nothing.
    ///
    /// # Panics
    /// When the server takes no more.
    #[track_caller]
    pub fn ask(&mut self, method: &str, target: &str) -> &mut Self {
        self.send(format!(
            "{method} {target} HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n"
        ))
    }

    /// Sends a GET and reads the whole response.
    ///
    /// # Panics
    /// When there is none, or it is cut short.
    #[track_caller]
    pub fn get(&mut self, target: &str) -> Response {
        self.send(format!("GET {target} HTTP/1.1\r\nHost: test\r\n\r\n"))
            .response()
    }

    /// Sends a GET and reads the whole response, or says what went wrong.
    ///
    /// # Errors
    /// What went wrong.
    pub fn try_get(&mut self, target: &str) -> Result<Response, Fault> {
        let request = format!("GET {target} HTTP/1.1\r\nHost: test\r\n\r\n");
        // Where the server closed, reading tells more than writing.
        let _ = self.try_send(request);
        self.try_response("GET")
    }

    /// Sends a POST with a Content-Length and reads the whole response.
    ///
    /// # Panics
    /// When there is none, or it is cut short.
    #[track_caller]
    pub fn post(&mut self, target: &str, body: impl IntoBytes) -> Response {
        let length = body.bytes().len();
        let head =
            format!("POST {target} HTTP/1.1\r\nHost: test\r\nContent-Length: {length}\r\n\r\n");
        self.send([head.as_bytes(), body.bytes()].concat())
            .response()
    }

    /// Reads the whole response to a request that was no HEAD.
    ///
    /// # Panics
    /// When there is none, or it is cut short.
    #[track_caller]
    pub fn response(&mut self) -> Response {
        self.response_to("GET")
    }

    /// Reads the whole response to a request of this method.
    ///
    /// # Panics
    /// When there is none, or it is cut short.
    #[track_caller]
    pub fn response_to(&mut self, method: &str) -> Response {
        match self.try_response(method) {
            Ok(response) => response,
            Err(fault) => panic!("{fault}"),
        }
    }

    /// Reads the whole response to a request of this method, or says what went wrong.
    ///
    /// # Errors
    /// What went wrong.
    pub fn try_response(&mut self, method: &str) -> Result<Response, Fault> {
        self.wire.response(method)
    }

    /// Reads one head: status line and fields, interim ones as well.
    ///
    /// # Panics
    /// When none comes.
    #[track_caller]
    pub fn head(&mut self) -> Head {
        match self.try_head() {
            Ok(head) => head,
            Err(fault) => panic!("{fault}"),
        }
    }

    /// The same, or what went wrong.
    ///
    /// # Errors
    /// What went wrong.
    pub fn try_head(&mut self) -> Result<Head, Fault> {
        self.wire.head()
    }

    /// Reads the next chunk of a chunked body; `None` after the last one and its trailers.
    ///
    /// # Panics
    /// When it is cut short, or no chunk.
    #[track_caller]
    pub fn chunk(&mut self) -> Option<Vec<u8>> {
        match self.wire.chunk() {
            Ok(chunk) => chunk,
            Err(fault) => panic!("{fault}"),
        }
    }

    /// Reads exactly this many bytes.
    ///
    /// # Panics
    /// When fewer come.
    #[track_caller]
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        match self.wire.bytes(count) {
            Ok(bytes) => bytes,
            Err(fault) => panic!("{fault}"),
        }
    }

    /// Reads everything until the server ends the connection, and how it ended it.
    ///
    /// # Panics
    /// When it keeps the connection open.
    #[track_caller]
    pub fn rest(&mut self) -> (Vec<u8>, Ending) {
        match self.wire.rest() {
            Ok(rest) => rest,
            Err(fault) => panic!("{fault}"),
        }
    }

    /// Asserts that the server ends the connection and sends nothing more.
    ///
    /// # Panics
    /// When more comes, or the connection stays open.
    #[track_caller]
    pub fn expect_end(&mut self) {
        let (rest, _) = self.rest();
        assert!(
            rest.is_empty(),
            "bytes after the last response: {:?}",
            String::from_utf8_lossy(&rest)
        );
    }

    /// Asserts that nothing came in the meantime, and the connection is open. Call it after an event that came later
    /// than whatever might have been sent.
    ///
    /// # Panics
    /// When something came or the connection ended.
    #[track_caller]
    pub fn expect_silence(&mut self) {
        match self.wire.fill(Instant::now() + Duration::from_millis(1)) {
            Err(Fault::TimedOut { so_far }) if so_far.is_empty() => {}
            Ok(()) => panic!(
                "unexpected bytes: {:?}",
                String::from_utf8_lossy(&self.wire.buffer)
            ),
            Err(fault) => panic!("{fault}"),
        }
    }

    /// Whether the connection can take another request: it is open as far as is known here, and nothing came unasked.
    pub fn is_idle(&self) -> bool {
        let flags = PollFlags::IN;
        let polled = match &self.wire.stream {
            Stream::Tcp(stream) => poll(&mut [PollFd::new(stream, flags)], Some(&NOW)),
            Stream::Unix(stream) => poll(&mut [PollFd::new(stream, flags)], Some(&NOW)),
        };
        self.wire.ended.is_none() && self.wire.buffer.is_empty() && polled == Ok(0)
    }

    /// Closes the sending half only.
    pub fn half_close(&mut self) -> &mut Self {
        // A server that closed first is no error here; reading tells.
        let _ = match &self.wire.stream {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Stream::Unix(stream) => stream.shutdown(Shutdown::Write),
        };
        self
    }

    /// Vanishes: the server gets a reset instead of an orderly end.
    pub fn reset(self) {
        if let Stream::Tcp(stream) = &self.wire.stream {
            sockopt::set_socket_linger(stream, Some(Duration::ZERO)).expect("a TCP socket");
        }
    }
}

#[cfg(test)]
mod tests;
