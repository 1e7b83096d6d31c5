//! The ways to a WebSocket: HTTP/1.1 with TLS or without, and HTTP/2 (RFC 8441). They carry bytes and know no frames.

use std::future::poll_fn;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use bytes::Bytes;
use h2::ext::Protocol;
use h2::{RecvStream, SendStream};
use highball_tests::http2::{Http2, run};
use highball_tests::tls;
use rustls::ClientConfig;
use test_support::{Server, TEST_TIMEOUT};

/// A connection to the application once it has been upgraded.
pub(crate) trait Wire {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Reads so many bytes; none where the connection has ended as it should.
    fn receive(&mut self, count: usize) -> io::Result<Option<Vec<u8>>>;
    /// Says that nothing more comes, where dropping it would say that it is given up.
    fn end(&mut self) {}
}

/// How a client comes.
pub(crate) enum Way {
    Plain,
    Tls(Arc<ClientConfig>),
    Http2(Http2),
}

impl Way {
    /// Opens a WebSocket of this version. The status where it is none.
    pub(crate) fn open(&self, server: &Server, version: &str) -> Result<Box<dyn Wire>, u16> {
        let upgrade = format!(
            "GET /socket HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: {version}\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        match self {
            Self::Plain => {
                let mut socket = TcpStream::connect(server.address()).expect("a connection");
                socket.set_nodelay(true).expect("a TCP socket");
                let limit = Some(TEST_TIMEOUT);
                socket.set_read_timeout(limit).expect("a limit");
                socket.write_all(upgrade.as_bytes()).expect("a connection");
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    socket.read_exact(&mut byte).expect("a head");
                    head.extend(byte);
                }
                expect_upgrade(&String::from_utf8_lossy(&head))?;
                Ok(Box::new(socket))
            }
            Self::Tls(trusting) => {
                let client = tls::Client::connect(server.tls_address(), "localhost", trusting);
                let mut client = client.expect("a handshake");
                client.send(upgrade.as_bytes()).expect("a connection");
                expect_upgrade(&client.head().expect("a head"))?;
                Ok(Box::new(client))
            }
            Self::Http2(client) => run(async {
                let request = client
                    .request("CONNECT", "/socket")
                    .header("sec-websocket-version", version)
                    .extension(Protocol::from_static("websocket"));
                let request = request.body(()).expect("a request");
                let (response, to) = client.send(request, false).await.expect("a stream");
                let response = response.await.expect("an answer");
                let status = response.status().as_u16();
                let stream = Stream {
                    to,
                    from: response.into_body(),
                    held: Vec::new(),
                };
                match status {
                    200 => Ok(Box::new(stream) as Box<dyn Wire>),
                    status => Err(status),
                }
            }),
        }
    }
}

fn expect_upgrade(head: &str) -> Result<(), u16> {
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
    match status.expect("a status") {
        101 => {
            // That of RFC 6455 section 1.3.
            assert!(head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{head}");
            Ok(())
        }
        status => Err(status),
    }
}

fn or_end(read: io::Result<Vec<u8>>) -> io::Result<Option<Vec<u8>>> {
    match read {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

impl Wire for TcpStream {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn receive(&mut self, count: usize) -> io::Result<Option<Vec<u8>>> {
        let mut bytes = vec![0; count];
        or_end(self.read_exact(&mut bytes).map(|()| bytes))
    }
}

impl Wire for tls::Client {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        tls::Client::send(self, bytes)
    }

    fn receive(&mut self, count: usize) -> io::Result<Option<Vec<u8>>> {
        or_end(self.bytes(count))
    }
}

/// A stream of HTTP/2.
struct Stream {
    to: SendStream<Bytes>,
    from: RecvStream,
    held: Vec<u8>,
}

impl Wire for Stream {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut left = Bytes::copy_from_slice(bytes);
        run(async {
            while !left.is_empty() {
                self.to.reserve_capacity(left.len());
                let room = poll_fn(|cx| self.to.poll_capacity(cx)).await;
                let room = room.ok_or(ErrorKind::BrokenPipe)?;
                let room = room.map_err(io::Error::other)?.min(left.len());
                let sent = self.to.send_data(left.split_to(room), false);
                sent.map_err(io::Error::other)?;
            }
            Ok(())
        })
    }

    fn receive(&mut self, count: usize) -> io::Result<Option<Vec<u8>>> {
        run(async {
            while self.held.len() < count {
                let Some(data) = self.from.data().await else {
                    return Ok(None);
                };
                let data = data.map_err(io::Error::other)?;
                let released = self.from.flow_control().release_capacity(data.len());
                released.map_err(io::Error::other)?;
                self.held.extend(data);
            }
            Ok(Some(self.held.drain(..count).collect()))
        })
    }

    fn end(&mut self) {
        // The server may have reset the stream.
        let _ = self.to.send_data(Bytes::new(), true);
    }
}
