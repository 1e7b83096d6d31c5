//! A connection to the server, with TLS or without: made, secured, read and written without blocking. It knows no HTTP.

use std::cell::Cell;
use std::io::{self, BufRead as _, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv,
    send, socket_with, sockopt,
};
use rustls::ClientConnection;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::tally::Failure;
use crate::plan::Target;
use crate::tls::{Connector, HTTP_2};

/// Bytes of TLS that are read at once where HTTP/2 reads.
const READ_OF_HTTP_2: usize = 32 * 1024;

/// A connection.
#[derive(Debug)]
pub(super) struct Stream {
    socket: OwnedFd,
    /// Whether the connection below TLS is made.
    connected: bool,
    tls: Option<Box<ClientConnection>>,
    /// What came by TLS and is not decrypted yet, with HTTP/2 only; and where it begins.
    incoming: (Vec<u8>, usize),
    traffic: Rc<Traffic>,
}

/// Bytes of HTTP/2 that passed since they were last counted, without those of TLS.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    pub(super) received: Cell<u64>,
    pub(super) sent: Cell<u64>,
}

/// How far connecting came.
#[derive(Debug)]
pub(super) enum Opened {
    /// It is made, or an event will tell when it is.
    Stream(Stream),
    /// There is no room in the server's backlog yet.
    NoRoom,
}

/// What was there to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Received {
    /// Something, or nothing yet.
    Open,
    /// The server closed its side.
    End,
}

impl Stream {
    /// Opens a socket and begins to connect it.
    pub(super) fn open(target: &Target, tls: Option<&Connector>) -> Result<Opened, Failure> {
        let family = match target {
            Target::Tcp(address) | Target::Tls(address, _) if address.is_ipv4() => {
                AddressFamily::INET
            }
            Target::Tcp(_) | Target::Tls(..) => AddressFamily::INET6,
            Target::Unix(_) => AddressFamily::UNIX,
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::STREAM, flags, None).map_err(of_connect)?;
        let begun = match target {
            Target::Tcp(address) | Target::Tls(address, _) => {
                // A small request must not wait for the acknowledgement of the one before.
                sockopt::set_tcp_nodelay(&socket, true).map_err(of_connect)?;
                connect(&socket, address)
            }
            Target::Unix(path) => connect(
                &socket,
                &SocketAddrUnix::new(path.as_path()).map_err(of_connect)?,
            ),
        };
        let connected = match begun {
            Ok(()) => true,
            Err(Errno::INPROGRESS | Errno::INTR) => false,
            // A UNIX socket whose backlog is full says so instead of queueing (unix(7)).
            Err(Errno::AGAIN) if family == AddressFamily::UNIX => return Ok(Opened::NoRoom),
            Err(error) => return Err(of_connect(error)),
        };
        let tls = tls.map(Connector::connection).transpose();
        Ok(Opened::Stream(Self {
            socket,
            connected,
            tls: tls.map_err(|_| Failure::Invalid)?.map(Box::new),
            incoming: (Vec::new(), 0),
            traffic: Rc::default(),
        }))
    }

    /// Whether the socket is connected, secured or not.
    pub(super) fn is_connected(&self) -> bool {
        self.connected
    }

    /// Goes on with connecting and securing; says whether requests may leave.
    pub(super) fn establish(&mut self) -> Result<bool, Failure> {
        if !self.connected {
            match sockopt::socket_error(&self.socket) {
                Ok(Ok(())) => self.connected = true,
                Ok(Err(error)) | Err(error) => return Err(of_connect(error)),
            }
        }
        if self.is_handshaking() {
            self.flush()?;
            self.shake_hands()?;
            self.flush()?;
        }
        Ok(!self.is_handshaking())
    }

    /// Takes what the server sent of its handshake. Content that follows it stays to be read.
    fn shake_hands(&mut self) -> Result<(), Failure> {
        let mut buffer = [0; 16 * 1024];
        let count = match recv(&self.socket, &mut buffer[..], RecvFlags::empty()) {
            Ok((0, _)) => return Err(Failure::Closed),
            Ok((count, _)) => count,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
            Err(error) => return Err(of_transfer(error)),
        };
        let mut bytes = &buffer[..count];
        while let Some(tls) = self.tls.as_mut().filter(|_| !bytes.is_empty()) {
            tls.read_tls(&mut bytes).map_err(|_| Failure::Invalid)?;
            tls.process_new_packets().map_err(|_| Failure::Invalid)?;
        }
        Ok(())
    }

    fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    /// Whether the server agreed to speak HTTP/2; without TLS it was not asked.
    pub(super) fn speaks_http_2(&self) -> bool {
        let tls = self.tls.as_ref();
        tls.is_none_or(|tls| tls.alpn_protocol() == Some(HTTP_2))
    }

    /// Where its bytes of HTTP/2 are counted.
    pub(super) fn traffic(&self) -> Rc<Traffic> {
        Rc::clone(&self.traffic)
    }

    /// Whether something is left that the socket had no room for.
    pub(super) fn wants_room(&self) -> bool {
        !self.connected || self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Sends what it can of `bytes`; says how much was taken.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<usize, Failure> {
        let Some(tls) = &mut self.tls else {
            return send_some(&self.socket, bytes).map_err(of_transfer);
        };
        let mut taken = 0;
        loop {
            // It takes no more than its buffer holds; none where the socket has no room.
            let count = tls.writer().write(&bytes[taken..]);
            let count = count.map_err(|_| Failure::Invalid)?;
            taken += count;
            while tls.wants_write() {
                match tls.write_tls(&mut Socket(self.socket.as_fd())) {
                    Ok(_) => {}
                    Err(error) if is_later(&error) => return Ok(taken),
                    Err(error) => return Err(of_io(&error)),
                }
            }
            if count == 0 || taken == bytes.len() {
                return Ok(taken);
            }
        }
    }

    /// Sends what TLS has ready, as far as there is room.
    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        self.write(&[]).map(drop)
    }

    /// Reads once, and shows `take` what came, piece by piece.
    pub(super) fn receive(
        &mut self,
        buffer: &mut [u8],
        take: &mut impl FnMut(&[u8]),
    ) -> Result<Received, Failure> {
        let count = match recv(&self.socket, &mut *buffer, RecvFlags::empty()) {
            Ok((count, _)) => count,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(Received::Open),
            Err(error) => return Err(of_transfer(error)),
        };
        if count == 0 {
            return Ok(Received::End);
        }
        let Some(tls) = &mut self.tls else {
            take(&buffer[..count]);
            return Ok(Received::Open);
        };
        decrypt(tls, &buffer[..count], take)
    }
}

/// Shows `take` the content of what came.
fn decrypt(
    tls: &mut ClientConnection,
    mut bytes: &[u8],
    take: &mut impl FnMut(&[u8]),
) -> Result<Received, Failure> {
    while !bytes.is_empty() {
        tls.read_tls(&mut bytes).map_err(|_| Failure::Invalid)?;
        let state = tls.process_new_packets().map_err(|_| Failure::Invalid)?;
        let mut reader = tls.reader();
        loop {
            let count = match reader.fill_buf() {
                Ok([]) => return Ok(Received::End),
                Ok(content) => {
                    take(content);
                    content.len()
                }
                Err(error) if is_later(&error) => break,
                Err(_) => return Err(Failure::Closed),
            };
            reader.consume(count);
        }
        if state.peer_has_closed() {
            return Ok(Received::End);
        }
    }
    Ok(Received::Open)
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// For HTTP/2, which is polled whenever the socket is ready: no waker is kept.
impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let Some(tls) = &mut this.tls else {
            let count = match recv(
                &this.socket,
                buffer.initialize_unfilled(),
                RecvFlags::empty(),
            ) {
                Ok((count, _)) => count,
                Err(Errno::AGAIN | Errno::INTR) => return Poll::Pending,
                Err(error) => return Poll::Ready(Err(error.into())),
            };
            buffer.advance(count);
            this.traffic.received.update(|all| all + count as u64);
            return Poll::Ready(Ok(()));
        };
        loop {
            match tls.reader().read(buffer.initialize_unfilled()) {
                Ok(count) => {
                    buffer.advance(count);
                    this.traffic.received.update(|all| all + count as u64);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if is_later(&error) => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
            let (bytes, start) = &mut this.incoming;
            if *start == bytes.len() {
                bytes.resize(READ_OF_HTTP_2, 0);
                let received = recv(&this.socket, &mut bytes[..], RecvFlags::empty());
                bytes.truncate(received.as_ref().map_or(0, |(count, _)| *count));
                *start = 0;
                match received {
                    Ok(_) => {}
                    Err(Errno::AGAIN | Errno::INTR) => return Poll::Pending,
                    Err(error) => return Poll::Ready(Err(error.into())),
                }
            }
            // Nothing is the end of the connection, which the next read says.
            *start += tls.read_tls(&mut &bytes[*start..])?;
            tls.process_new_packets().map_err(io::Error::other)?;
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        match this.write(bytes) {
            Ok(0) if !bytes.is_empty() => Poll::Pending,
            Ok(count) => {
                this.traffic.sent.update(|all| all + count as u64);
                Poll::Ready(Ok(count))
            }
            Err(_) => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        match this.flush() {
            Ok(()) if this.wants_room() => Poll::Pending,
            Ok(()) => Poll::Ready(Ok(())),
            Err(_) => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(context)
    }
}

/// The socket as the standard library's reader and writer, which TLS uses.
struct Socket<'s>(BorrowedFd<'s>);

impl io::Read for Socket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(recv(self.0, buffer, RecvFlags::empty())?.0)
    }
}

impl io::Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(self.0, bytes, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn send_some(socket: impl AsFd, bytes: &[u8]) -> Result<usize, Errno> {
    match send(socket, bytes, SendFlags::NOSIGNAL) {
        Err(Errno::AGAIN | Errno::INTR) => Ok(0),
        sent => sent,
    }
}

fn is_later(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

fn of_io(error: &io::Error) -> Failure {
    Errno::from_io_error(error).map_or(Failure::Reset, of_transfer)
}

fn of_connect(error: Errno) -> Failure {
    match error {
        Errno::ADDRNOTAVAIL => Failure::NoAddress,
        Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM => Failure::NoDescriptor,
        Errno::TIMEDOUT => Failure::ConnectTimeout,
        Errno::CONNRESET => Failure::Reset,
        _ => Failure::ConnectRefused,
    }
}

/// What an error of sending or receiving means.
fn of_transfer(error: Errno) -> Failure {
    match error {
        Errno::PIPE => Failure::Closed,
        Errno::TIMEDOUT => Failure::Timeout,
        _ => Failure::Reset,
    }
}
