//! A server for the tests: one thread for each connection, an answer made by the test for each request.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::thread;

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    /// The how many-th connection it came on, from nought.
    pub(crate) connection: usize,
    /// The how many-th request of its connection it is, from nought.
    pub(crate) number: usize,
}

impl Request {
    pub(crate) fn line(&self) -> &str {
        self.head.lines().next().unwrap()
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then_some(value)
        })
    }
}

/// What a test wants to be done.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    /// These bytes, and the connection stays.
    Bytes(Vec<u8>),
    /// These bytes, one after the other in writes of their own, and the connection stays.
    Pieces(Vec<Vec<u8>>),
    /// These bytes, and the connection is closed.
    Last(Vec<u8>),
    /// The connection is reset.
    Reset,
    /// Nothing, and the connection stays.
    Silence,
}

/// A plain response with this body.
pub(crate) fn page(body: &str) -> Answer {
    Answer::Bytes(
        format!(
            "HTTP/1.1 200 OK\r\nServer: small\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes(),
    )
}

/// Serves until the test process ends.
pub(crate) fn serve(answer: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    serve_on(listener, answer);
    address
}

pub(crate) fn serve_on(
    listener: TcpListener,
    answer: impl Fn(&Request) -> Answer + Send + Sync + 'static,
) {
    let answer = Arc::new(answer);
    thread::spawn(move || {
        for (connection, stream) in listener.incoming().flatten().enumerate() {
            let answer = Arc::clone(&answer);
            thread::spawn(move || {
                let reset = |stream: &TcpStream| {
                    let socket = socket2::SockRef::from(stream);
                    socket.set_linger(Some(std::time::Duration::ZERO)).unwrap();
                };
                converse(&stream, connection, &*answer, reset)
            });
        }
    });
}

pub(crate) fn serve_unix(path: &Path, answer: impl Fn(&Request) -> Answer + Send + Sync + 'static) {
    let listener = UnixListener::bind(path).unwrap();
    let answer = Arc::new(answer);
    thread::spawn(move || {
        for (connection, stream) in listener.incoming().flatten().enumerate() {
            let answer = Arc::clone(&answer);
            thread::spawn(move || converse(&stream, connection, &*answer, |_: &UnixStream| {}));
        }
    });
}

pub(crate) fn converse<S>(
    stream: &S,
    connection: usize,
    answer: &dyn Fn(&Request) -> Answer,
    reset: impl Fn(&S),
) where
    for<'s> &'s S: Read + Write,
{
    let mut reader = BufReader::new(stream);
    for number in 0.. {
        let Some(request) = read(&mut reader, connection, number) else {
            return;
        };
        let mut writer = stream;
        let wrote = match answer(&request) {
            Answer::Bytes(bytes) => writer.write_all(&bytes),
            Answer::Pieces(pieces) => pieces.iter().try_for_each(|piece| writer.write_all(piece)),
            Answer::Last(bytes) => {
                let _ = writer.write_all(&bytes);
                return;
            }
            Answer::Reset => return reset(stream),
            Answer::Silence => Ok(()),
        };
        if wrote.is_err() {
            return;
        }
    }
}

fn read(reader: &mut impl BufRead, connection: usize, number: usize) -> Option<Request> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let mut request = Request {
        head,
        body: Vec::new(),
        connection,
        number,
    };
    let length = request
        .field("content-length")
        .map_or(0, |length| length.parse().unwrap());
    request.body.resize(length, 0);
    reader.read_exact(&mut request.body).ok()?;
    Some(request)
}
