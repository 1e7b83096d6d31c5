//! Idle keep-alive connections by the thousand, and the newcomer who must be answered all the same. Each
//! connection has had one request answered, so that it is idle between requests and not before the first.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustls::{ClientConnection, Stream};
use socket2::{Domain, Protocol, Socket, Type};

use crate::page::{self, exchange_on, get_request};
use crate::plan::{Target, Tls};
use crate::tls::Connector;

/// Connections from one source address. Each has its own range of ephemeral ports (28,000 on Linux by
/// default), which other connections of the machine need too.
const PER_SOURCE: usize = 2_000;

const TIMEOUT: Duration = Duration::from_secs(10);

/// Longer than this to open them all, and the first are about to be closed for idleness.
const OPENING: Duration = Duration::from_secs(40);

/// Connections that are open, answered once, and silent since.
#[derive(Debug)]
pub struct IdleConnections {
    connections: Vec<Connection>,
}

/// One connection, with its TLS where it has any.
#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    tls: Option<ClientConnection>,
}

impl IdleConnections {
    /// Opens `count` connections to `target`, a loopback address, and has `path` answered once on each. Each makes a
    /// full handshake where there is TLS.
    ///
    /// # Errors
    /// When one of them cannot be opened or is not answered with 200, or all of them take over 40 s.
    pub fn open(target: &Target, path: &str, count: usize) -> Result<Self> {
        let (address, connector) = match target {
            Target::Tcp(address) => (*address, None),
            Target::Tls(address, tls) => {
                let tls = Tls {
                    resumption: false,
                    ..tls.clone()
                };
                (*address, Some(Connector::new(&tls, false)?))
            }
            Target::Unix(_) => bail!("idle connections need a server on a port"),
        };
        let request = get_request("localhost", path);
        let mut connections = Vec::with_capacity(count);
        let begin = Instant::now();
        for index in 0..count {
            if begin.elapsed() > OPENING {
                bail!(
                    "only {index} of {count} idle connections in {} s",
                    OPENING.as_secs()
                );
            }
            let source = Ipv4Addr::new(127, 0, 0, 2 + (index / PER_SOURCE) as u8);
            let opened = connect_from(source, address).and_then(|stream| {
                let tls = connector.as_ref().map(Connector::connection).transpose()?;
                let mut connection = Connection { stream, tls };
                let response = connection.exchange(&request)?;
                if response.status != 200 || !response.keep_alive {
                    bail!(
                        "status {}, keep-alive {}",
                        response.status,
                        response.keep_alive
                    );
                }
                Ok(connection)
            });
            connections.push(opened.with_context(|| {
                format!("idle connection {} of {count} from {source}", index + 1)
            })?);
        }
        Ok(Self { connections })
    }

    /// How many the server still holds open.
    pub fn still_open(&self) -> usize {
        let open = self.connections.iter();
        open.filter(|connection| connection.is_open()).count()
    }
}

impl Connection {
    fn exchange(&mut self, request: &[u8]) -> Result<page::Response> {
        match &mut self.tls {
            None => exchange_on(&mut self.stream, request),
            Some(tls) => exchange_on(&mut Stream::new(tls, &mut self.stream), request),
        }
    }

    fn is_open(&self) -> bool {
        let mut byte = [0];
        let silent = self
            .stream
            .set_nonblocking(true)
            .and_then(|()| self.stream.peek(&mut byte));
        match silent {
            // With TLS a ticket may come after the response.
            Ok(count) => self.tls.is_some() && count > 0,
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        }
    }
}

/// How long a new client waits: connect, one GET of `path`, the whole answer.
///
/// # Errors
/// When the answer is not 200.
pub fn newcomer(target: &Target, path: &str) -> Result<Duration> {
    let start = Instant::now();
    let response = page::get(target, path, TIMEOUT)?;
    if response.status != 200 {
        bail!("a newcomer got status {}", response.status);
    }
    Ok(start.elapsed())
}

fn connect_from(source: Ipv4Addr, address: SocketAddr) -> Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    socket.bind(&SocketAddr::new(IpAddr::V4(source), 0).into())?;
    socket.connect_timeout(&address.into(), TIMEOUT)?;
    socket.set_tcp_nodelay(true)?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn connections_the_server_drops_are_noticed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (drop_half, dropped) = (mpsc::channel::<()>(), mpsc::channel::<()>());
        let server = thread::spawn(move || {
            let mut held = Vec::new();
            for _ in 0..6 {
                let (mut stream, _) = listener.accept().unwrap();
                assert!(stream.read(&mut [0; 1024]).unwrap() > 0);
                stream
                    .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                    .unwrap();
                held.push(stream);
            }
            drop_half.1.recv().unwrap();
            held.truncate(3);
            dropped.0.send(()).unwrap();
            drop_half.1.recv().unwrap();
        });
        let idle = IdleConnections::open(&Target::Tcp(address), "/", 6).unwrap();
        assert_eq!(idle.still_open(), 6);
        drop_half.0.send(()).unwrap();
        dropped.1.recv().unwrap();
        // The kernel hands the ends over in its own time.
        let deadline = Instant::now() + Duration::from_secs(10);
        while idle.still_open() > 3 {
            assert!(Instant::now() < deadline, "{} are open", idle.still_open());
            thread::yield_now();
        }
        assert_eq!(idle.still_open(), 3);
        drop_half.0.send(()).unwrap();
        server.join().unwrap();
    }
}
