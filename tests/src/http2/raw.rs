//! A client of HTTP/2 that sends the frames that it is given, with TLS or without. Repairs nothing, retries nothing.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use test_support::TEST_TIMEOUT;

use super::kind;

/// What every connection begins with.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its kind.
    pub kind: u8,
    /// Its flags.
    pub flags: u8,
    /// Its stream.
    pub stream: u32,
    /// What it carries.
    pub payload: Vec<u8>,
}

/// What the frames go over: a socket, or TLS over one.
trait Transport: Read + Write + std::fmt::Debug {}

impl<T: Read + Write + std::fmt::Debug> Transport for T {}

/// TLS that reads what has come also where what it has to send cannot be sent any more.
#[derive(Debug)]
struct Tls {
    session: ClientConnection,
    socket: TcpStream,
}

impl Read for Tls {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session.reader().read(into) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                read => return read,
            }
            self.session.read_tls(&mut self.socket)?;
            self.session
                .process_new_packets()
                .map_err(io::Error::other)?;
        }
    }
}

impl Write for Tls {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.session.writer().write(bytes)?;
        self.flush()?;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            self.session.write_tls(&mut self.socket)?;
        }
        Ok(())
    }
}

/// A connection that sends the frames that it is given.
#[derive(Debug)]
pub struct RawHttp2 {
    transport: Box<dyn Transport>,
}

impl RawHttp2 {
    /// Connects and says hello with these settings.
    ///
    /// # Panics
    /// When that fails.
    #[track_caller]
    pub fn connect(address: SocketAddr, settings: &[(u16, u32)]) -> Self {
        Self::over(socket(address), settings)
    }

    /// The same over TLS, to the host of this name.
    ///
    /// # Panics
    /// When that fails.
    #[track_caller]
    pub fn tls(address: SocketAddr, name: &str, configuration: &Arc<ClientConfig>) -> Self {
        let mut socket = socket(address);
        let name = ServerName::try_from(name.to_owned()).expect("a name");
        let session = ClientConnection::new(Arc::clone(configuration), name);
        let mut session = session.expect("a configuration");
        while session.is_handshaking() {
            session.complete_io(&mut socket).expect("a handshake");
        }
        Self::over(Tls { session, socket }, &[])
    }

    #[track_caller]
    fn over(transport: impl Transport + 'static, settings: &[(u16, u32)]) -> Self {
        let mut client = Self {
            transport: Box::new(transport),
        };
        let mut payload = Vec::new();
        for (name, value) in settings {
            payload.extend(name.to_be_bytes());
            payload.extend(value.to_be_bytes());
        }
        client.transport.write_all(PREFACE).expect("a listener");
        assert!(client.send(kind::SETTINGS, 0, 0, &payload));
        client
    }

    /// Sends a frame. False when the server has closed.
    pub fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> bool {
        self.write(&frame(kind, flags, stream, payload))
    }

    /// Sends these bytes. False when the server has closed.
    pub fn write(&mut self, bytes: &[u8]) -> bool {
        self.transport.write_all(bytes).is_ok()
    }

    /// Begins a request; `ends` says whether it has no body.
    pub fn get(&mut self, stream: u32, path: &str, ends: bool) -> bool {
        let flags = 4 | u8::from(ends);
        self.send(kind::HEADERS, flags, stream, &head("GET", path))
    }

    /// The next frame; none when the server has closed.
    ///
    /// # Panics
    /// When nothing comes in time.
    #[track_caller]
    pub fn next_frame(&mut self) -> Option<Frame> {
        let mut header = [0; 9];
        if !self.read(&mut header) {
            return None;
        }
        let [a, b, c, kind, flags, stream @ ..] = header;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        let whole = self.read(&mut payload);
        whole.then_some(Frame {
            kind,
            flags,
            stream: u32::from_be_bytes(stream),
            payload,
        })
    }

    fn read(&mut self, into: &mut [u8]) -> bool {
        match self.transport.read_exact(into) {
            Ok(()) => true,
            Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("nothing comes"),
            Err(_) => false,
        }
    }

    /// Reads until a frame of one of these kinds; none when the server has closed before.
    #[track_caller]
    pub fn next_of(&mut self, kinds: &[u8]) -> Option<Frame> {
        std::iter::from_fn(|| self.next_frame()).find(|frame| kinds.contains(&frame.kind))
    }

    /// Reads on to the end, and returns the code of the last GOAWAY.
    #[track_caller]
    pub fn goaway(&mut self) -> Option<u32> {
        let frames = std::iter::from_fn(|| self.next_frame());
        let last = frames.filter(|frame| frame.kind == kind::GOAWAY).last()?;
        let code = last.payload.get(4..8)?.try_into().ok()?;
        Some(u32::from_be_bytes(code))
    }
}

/// A socket for frames that goes on within the time that a test may wait.
#[track_caller]
fn socket(address: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(address).expect("a connection");
    let limit = Some(TEST_TIMEOUT);
    socket.set_read_timeout(limit).expect("a limit");
    socket.set_write_timeout(limit).expect("a limit");
    socket.set_nodelay(true).expect("a TCP socket");
    socket
}

/// The bytes of a frame.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// The block of a head without a table (RFC 7541 section 6.2.2).
pub fn head(method: &str, path: &str) -> Vec<u8> {
    let fields = [
        (":method", method),
        (":scheme", "http"),
        (":authority", "test"),
        (":path", path),
    ];
    let mut block = Vec::new();
    for (name, value) in fields {
        block.extend(field(name, value));
    }
    block
}

/// A field of such a block; both words are short.
pub fn field(name: &str, value: &str) -> Vec<u8> {
    let mut bytes = vec![0];
    for word in [name, value] {
        bytes.push(
            u8::try_from(word.len())
                .ok()
                .filter(|&length| length < 127)
                .expect("short"),
        );
        bytes.extend(word.as_bytes());
    }
    bytes
}
