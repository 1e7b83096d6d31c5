//! A client with TLS that sends raw bytes over it. Repairs nothing, retries nothing.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion,
};
use test_support::TEST_TIMEOUT;

use crate::authority::{Authority, Signed};

/// A response.
#[derive(Debug)]
pub struct Response {
    /// Its status.
    pub status: u16,
    /// Its head, with the empty line.
    pub head: String,
    /// Its body.
    pub body: String,
}

/// A connection.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<StreamOwned<ClientConnection, TcpStream>>,
}

/// How a client that trusts this authority makes handshakes; it shows `own` if that is given.
///
/// # Panics
/// When a certificate cannot be read.
pub fn configuration(
    authority: &Authority,
    versions: &[&'static SupportedProtocolVersion],
    own: Option<&Signed>,
) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(authority.der.clone()).expect("a certificate");
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .expect("versions")
        .with_root_certificates(roots);
    let mut configuration = match own {
        None => builder.with_no_client_auth(),
        Some(own) => {
            let chain = CertificateDer::from_pem_slice(own.chain.as_bytes()).expect("PEM");
            let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).expect("PEM");
            let built = builder.with_client_auth_cert(vec![chain], key);
            built.expect("a certificate with its key")
        }
    };
    configuration.alpn_protocols = vec![b"http/1.1".to_vec()];
    Arc::new(configuration)
}

/// The same for a client that speaks HTTP/2 and nothing else.
pub fn with_http_2(configuration: &ClientConfig) -> Arc<ClientConfig> {
    let mut configuration = configuration.clone();
    configuration.alpn_protocols = vec![b"h2".to_vec()];
    Arc::new(configuration)
}

impl Client {
    /// Connects, and makes the handshake with the host of this name.
    ///
    /// # Errors
    /// The server refuses.
    ///
    /// # Panics
    /// When the name is none.
    pub fn connect(
        address: SocketAddr,
        name: &str,
        configuration: &Arc<ClientConfig>,
    ) -> io::Result<Self> {
        Self::connect_after(&[], address, name, configuration)
    }

    /// The same after these bytes without TLS.
    ///
    /// # Errors
    /// The server refuses.
    ///
    /// # Panics
    /// When the name is none.
    pub fn connect_after(
        bytes: &[u8],
        address: SocketAddr,
        name: &str,
        configuration: &Arc<ClientConfig>,
    ) -> io::Result<Self> {
        let mut socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(TEST_TIMEOUT))?;
        socket.set_write_timeout(Some(TEST_TIMEOUT))?;
        socket.write_all(bytes)?;
        let name = ServerName::try_from(name.to_owned()).expect("a name");
        let session = ClientConnection::new(Arc::clone(configuration), name);
        let mut session = session.expect("a configuration");
        while session.is_handshaking() {
            session.complete_io(&mut socket)?;
        }
        let stream = BufReader::new(StreamOwned::new(session, socket));
        Ok(Self { stream })
    }

    /// What the handshake has agreed on.
    pub fn session(&self) -> &ClientConnection {
        &self.stream.get_ref().conn
    }

    /// Whether the server has not ended it, and no byte of an answer has come.
    pub fn is_idle(&mut self) -> bool {
        let buffered = !self.stream.buffer().is_empty();
        let StreamOwned { conn, sock } = self.stream.get_mut();
        if buffered || sock.set_nonblocking(true).is_err() {
            return false;
        }
        let ended = loop {
            match conn.read_tls(sock) {
                Ok(0) => break true,
                Ok(_) => {}
                Err(error) => break error.kind() != io::ErrorKind::WouldBlock,
            }
            // A ticket for the next session is no answer.
            match conn.process_new_packets() {
                Ok(state) if state.peer_has_closed() => break true,
                Ok(state) if state.plaintext_bytes_to_read() > 0 => break true,
                Ok(_) => {}
                Err(_) => break true,
            }
        };
        !ended && sock.set_nonblocking(false).is_ok()
    }

    /// Sends bytes.
    ///
    /// # Errors
    /// The connection ends before.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let stream = self.stream.get_mut();
        stream.write_all(bytes)?;
        stream.flush()
    }

    /// Reads a head, up to its empty line; empty where the server has closed the connection.
    ///
    /// # Errors
    /// The connection ends before.
    pub fn head(&mut self) -> io::Result<String> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") && self.stream.read_line(&mut head)? > 0 {}
        Ok(head)
    }

    /// Reads so many bytes.
    ///
    /// # Errors
    /// The connection ends before.
    pub fn bytes(&mut self, count: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Reads to the end that the server announces.
    ///
    /// # Errors
    /// The connection ends before.
    pub fn rest(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.stream.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Reads a body in chunks.
    fn chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line)?;
            let size = usize::from_str_radix(line.trim(), 16).map_err(io::Error::other)?;
            body.extend(self.bytes(size)?);
            self.bytes(2)?;
            if size == 0 {
                return Ok(body);
            }
        }
    }

    /// Reads a response with a length or in chunks.
    ///
    /// # Errors
    /// It is not whole.
    ///
    /// # Panics
    /// When it is no HTTP.
    pub fn response(&mut self) -> io::Result<Response> {
        let head = self.head()?;
        if head.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        let length = field(&head, "content-length").and_then(|length| length.parse().ok());
        let body = match field(&head, "transfer-encoding") {
            Some("chunked") => self.chunks(),
            _ => self.bytes(length.unwrap_or(0)),
        };
        let body = body
            .map_err(|error| io::Error::new(error.kind(), format!("within the body: {error}")))?;
        Ok(Response {
            status: status.expect("a status"),
            body: String::from_utf8(body).expect("text"),
            head,
        })
    }

    /// A GET with this field for the host.
    ///
    /// # Errors
    /// The connection ends before.
    pub fn get(&mut self, host: &str, path: &str) -> io::Result<Response> {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes())?;
        self.response()
    }
}

/// A field of a head.
pub fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}
