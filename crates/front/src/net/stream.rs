//! An accepted socket of either family, with TLS or without, as one type. It adds nothing to what they do.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::fs::sendfile;
use rustix::io::retry_on_intr;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use rustls::ServerConnection;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

/// How long a client of a connection that was taken over may be silent before the kernel probes it.
const PROBE_AFTER: Duration = Duration::from_secs(60);
/// How long each probe waits for its answer.
const PROBE_INTERVAL: Duration = Duration::from_secs(15);
/// Probes without an answer after which the connection is gone.
const PROBES: u32 = 4;

/// Has the kernel probe a client that is silent, so that one that vanished ends the connection. For a connection that the
/// application took over: no clock of the front's is in force on it.
pub fn probe_when_silent(socket: BorrowedFd<'_>) {
    let probes = TcpKeepalive::new()
        .with_time(PROBE_AFTER)
        .with_interval(PROBE_INTERVAL)
        .with_retries(PROBES);
    // A UNIX socket has no use for them, and one that refuses is gone already.
    let _ = SockRef::from(&socket).set_tcp_keepalive(&probes);
}

/// An accepted socket.
#[derive(Debug)]
pub enum Stream {
    /// TCP, over IPv4 or IPv6.
    Tcp(TcpStream),
    /// The same, with TLS, whose handshake is over.
    Tls(Box<TlsStream<TcpStream>>),
    /// A UNIX socket.
    Unix(UnixStream),
}

impl Stream {
    /// Waits until there is something to read, or the client has left.
    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            _ if self.holds_input() => Poll::Ready(()),
            Self::Tcp(stream) => stream.poll_read_ready(cx).map(drop),
            Self::Tls(stream) => stream.get_ref().0.poll_read_ready(cx).map(drop),
            Self::Unix(stream) => stream.poll_read_ready(cx).map(drop),
        }
    }

    /// Whether there is something to read that the kernel does not have any more: decrypted bytes, or the client's end.
    pub fn holds_input(&self) -> bool {
        match self {
            Self::Tls(stream) => !stream.get_ref().1.wants_read(),
            Self::Tcp(_) | Self::Unix(_) => false,
        }
    }

    /// Writes as much as can be written at once. With TLS all of it is taken, and what does not go out at once goes out
    /// before what is written next.
    ///
    /// # Errors
    /// Nothing can be written now.
    pub fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_write(bytes),
            Self::Tls(stream) => {
                let (socket, session) = stream.get_mut();
                if session.wants_write() {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                let count = session.writer().write(bytes)?;
                write_pending(session, socket);
                Ok(count)
            }
            Self::Unix(stream) => stream.try_write(bytes),
        }
    }

    /// Gives back the memory of a session with TLS in which nothing is read now. What comes next is read as before.
    pub fn release_buffers(&mut self) {
        if let Self::Tls(stream) = self {
            // The session keeps a buffer, and shows it to what it reads from.
            let _ = stream.get_mut().1.read_tls(&mut ReleaseBuffer);
        }
    }

    /// Tells a client with TLS that nothing more comes, if that can be written at once (RFC 8446 section 6.1).
    pub fn notify_close(&mut self) {
        if let Self::Tls(stream) = self {
            let (socket, session) = stream.get_mut();
            session.send_close_notify();
            write_pending(session, socket);
        }
    }

    /// The TCP socket below, if there is one.
    pub fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Self::Tcp(stream) => Some(stream),
            Self::Tls(stream) => Some(stream.get_ref().0),
            Self::Unix(_) => None,
        }
    }
}

/// Writes what the session has encrypted, as much as can be written at once.
fn write_pending(session: &mut ServerConnection, socket: &TcpStream) {
    while session.wants_write() {
        // What stays goes out with the next write or flush, which also hears of an error.
        if !session
            .write_tls(&mut TryWrite(socket))
            .is_ok_and(|count| count > 0)
        {
            return;
        }
    }
}

/// Gives back the memory that it is to read into.
struct ReleaseBuffer;

impl io::Read for ReleaseBuffer {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        exchange::pages::release(buffer);
        Err(io::ErrorKind::WouldBlock.into())
    }
}

/// A socket that is written to without waiting.
struct TryWrite<'a>(&'a TcpStream);

impl io::Write for TryWrite<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stream {
    /// Whether it takes files without copying them: not where their bytes are encrypted here.
    pub fn takes_files(&self) -> bool {
        matches!(self, Self::Tcp(_) | Self::Unix(_))
    }

    /// Writes bytes that a file follows at once: the kernel keeps what does not fill a packet until the file comes, or for a
    /// few tenths of a second (MSG_MORE in send(2)).
    pub fn poll_write_before_file(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let Self::Tcp(stream) = &*self else {
            return self.poll_write_vectored(cx, slices);
        };
        self.poll_try_write(cx, || {
            let flags = SendFlags::MORE | SendFlags::NOSIGNAL;
            sendmsg(stream, slices, &mut SendAncillaryBuffer::default(), flags)
        })
    }

    /// Sends at most `count` bytes of a file, from `at` on, without copying them.
    ///
    /// # Errors
    /// The file or the socket does not take part in that.
    pub fn poll_send_file(
        &self,
        cx: &mut Context<'_>,
        file: BorrowedFd<'_>,
        at: u64,
        count: usize,
    ) -> Poll<io::Result<usize>> {
        self.poll_try_write(cx, || {
            let mut at = at;
            sendfile(self.as_fd(), file, Some(&mut at), count)
        })
    }

    /// Calls what writes to the socket below as soon as that takes something.
    ///
    /// # Errors
    /// Its own, and [`io::ErrorKind::InvalidInput`] with TLS, whose bytes are encrypted here.
    fn poll_try_write(
        &self,
        cx: &mut Context<'_>,
        write: impl Fn() -> rustix::io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        let write = || retry_on_intr(&write).map_err(io::Error::from);
        loop {
            let written = match self {
                Self::Tcp(stream) => {
                    ready!(stream.poll_write_ready(cx))?;
                    stream.try_io(Interest::WRITABLE, write)
                }
                Self::Tls(_) => return Poll::Ready(Err(io::ErrorKind::InvalidInput.into())),
                Self::Unix(stream) => {
                    ready!(stream.poll_write_ready(cx))?;
                    stream.try_io(Interest::WRITABLE, write)
                }
            };
            match written {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }
}

/// Whether an error of sending a file is one of the socket.
pub fn is_of_socket(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected, TimedOut};
    let kinds = [
        BrokenPipe,
        ConnectionAborted,
        ConnectionReset,
        NotConnected,
        TimedOut,
    ];
    kinds.contains(&error.kind())
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Tls(stream) => stream.get_ref().0.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, into),
            Self::Tls(stream) => match ready!(Pin::new(stream).poll_read(cx, into)) {
                // Many clients close without saying so in TLS. HTTP knows by itself whether a message is whole.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Poll::Ready(Ok(())),
                read => Poll::Ready(read),
            },
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, into),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
            // A socket has no buffer to flush.
            Self::Tcp(_) | Self::Unix(_) => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Self::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        }
    }
}
