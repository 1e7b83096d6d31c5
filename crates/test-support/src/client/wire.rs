//! The bytes of a client's connection: writing, and strict reading to a length, to a mark, to the end or chunk by chunk, each
//! until its deadline. It repairs nothing.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::response::{Ending, Fault, Framing, Head, Response, chunk_size};
use crate::TEST_TIMEOUT;

/// A connected socket.
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A connected socket, and what was read from it but not yet taken.
pub(super) struct Wire {
    pub(super) stream: Stream,
    pub(super) buffer: Vec<u8>,
    /// How long each step may take.
    pub(super) patience: Duration,
    /// How the server ended the connection, once it did.
    pub(super) ended: Option<Ending>,
}

impl Wire {
    pub(super) fn new(stream: Stream) -> Self {
        Self {
            stream,
            buffer: Vec::new(),
            patience: TEST_TIMEOUT,
            ended: None,
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let patience = Some(self.patience);
        match &mut self.stream {
            Stream::Tcp(stream) => {
                stream.set_write_timeout(patience)?;
                stream.write_all(bytes)
            }
            Stream::Unix(stream) => {
                stream.set_write_timeout(patience)?;
                stream.write_all(bytes)
            }
        }
    }

    /// Reads one head: status line and fields, interim ones as well.
    pub(super) fn head(&mut self) -> Result<Head, Fault> {
        let head = self.until(b"\r\n\r\n")?;
        Head::parse(&head)
    }

    /// Reads the whole response to a request of this method.
    pub(super) fn response(&mut self, method: &str) -> Result<Response, Fault> {
        let mut interim = Vec::new();
        let head = loop {
            let head = self.head()?;
            // 101 is final: what follows is another protocol.
            if !(100..200).contains(&head.status) || head.status == 101 {
                break head;
            }
            interim.push(head);
        };
        let mut response = Response {
            head,
            interim,
            body: Vec::new(),
            chunks: Vec::new(),
        };
        let body = match response.head.framing(method)? {
            Framing::None => Ok(()),
            Framing::Length(length) => self.bytes(length).map(|bytes| response.body = bytes),
            Framing::Chunked => self.read_chunks(&mut response),
            Framing::UntilClose => self.read_until_close(&mut response),
        };
        match body {
            Ok(()) => Ok(response),
            Err(Fault::Ended { ending, so_far }) => {
                if response.body.is_empty() {
                    response.body = so_far;
                }
                Err(Fault::Truncated {
                    ending,
                    response: Box::new(response),
                })
            }
            Err(fault) => Err(fault),
        }
    }

    fn read_chunks(&mut self, response: &mut Response) -> Result<(), Fault> {
        while let Some(chunk) = self.chunk()? {
            response.body.extend_from_slice(&chunk);
            response.chunks.push(chunk);
        }
        Ok(())
    }

    fn read_until_close(&mut self, response: &mut Response) -> Result<(), Fault> {
        match self.rest()? {
            (body, Ending::Closed) => {
                response.body = body;
                Ok(())
            }
            (so_far, ending) => Err(Fault::Ended { ending, so_far }),
        }
    }

    pub(super) fn chunk(&mut self) -> Result<Option<Vec<u8>>, Fault> {
        let line = self.until(b"\r\n")?;
        let size = chunk_size(&line)?;
        if size == 0 {
            while self.until(b"\r\n")? != b"\r\n" {}
            return Ok(None);
        }
        let mut chunk = self.bytes(size)?;
        match self.bytes(2) {
            Ok(end) if end == b"\r\n" => Ok(Some(chunk)),
            Ok(end) => Err(Fault::Malformed(format!("a chunk ends with {end:?}"))),
            Err(Fault::Ended { ending, .. }) => Err(Fault::Ended {
                ending,
                so_far: std::mem::take(&mut chunk),
            }),
            Err(fault) => Err(fault),
        }
    }

    pub(super) fn bytes(&mut self, count: usize) -> Result<Vec<u8>, Fault> {
        let deadline = Instant::now() + self.patience;
        while self.buffer.len() < count {
            self.fill(deadline)?;
        }
        Ok(self.buffer.drain(..count).collect())
    }

    pub(super) fn rest(&mut self) -> Result<(Vec<u8>, Ending), Fault> {
        let deadline = Instant::now() + self.patience;
        loop {
            match self.fill(deadline) {
                Ok(()) => {}
                Err(Fault::Ended { ending, so_far }) => return Ok((so_far, ending)),
                Err(fault) => return Err(fault),
            }
        }
    }

    fn until(&mut self, end: &[u8]) -> Result<Vec<u8>, Fault> {
        let deadline = Instant::now() + self.patience;
        let mut searched = 0;
        loop {
            let found = self.buffer[searched..]
                .windows(end.len())
                .position(|window| window == end);
            if let Some(position) = found {
                return Ok(self
                    .buffer
                    .drain(..searched + position + end.len())
                    .collect());
            }
            searched = self.buffer.len().saturating_sub(end.len() - 1);
            self.fill(deadline)?;
        }
    }

    /// Reads once, until the deadline.
    pub(super) fn fill(&mut self, deadline: Instant) -> Result<(), Fault> {
        if let Some(ending) = self.ended {
            let so_far = std::mem::take(&mut self.buffer);
            return Err(Fault::Ended { ending, so_far });
        }
        let left = deadline.saturating_duration_since(Instant::now());
        // Zero would mean without end.
        let left = Some(left.max(Duration::from_millis(1)));
        let mut piece = vec![0; 64 * 1024];
        let read = match &mut self.stream {
            Stream::Tcp(stream) => stream
                .set_read_timeout(left)
                .and_then(|()| stream.read(&mut piece)),
            Stream::Unix(stream) => stream
                .set_read_timeout(left)
                .and_then(|()| stream.read(&mut piece)),
        };
        match read {
            Ok(0) => self.ended = Some(Ending::Closed),
            Ok(count) => self.buffer.extend_from_slice(&piece[..count]),
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted => {}
                io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
                    self.ended = Some(Ending::Reset);
                }
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                    if Instant::now() >= deadline {
                        return Err(Fault::TimedOut {
                            so_far: self.buffer.clone(),
                        });
                    }
                }
                _ => return Err(Fault::Malformed(format!("read: {error}"))),
            },
        }
        if self.ended.is_some() {
            return self.fill(deadline);
        }
        Ok(())
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire")
            .field("buffer", &String::from_utf8_lossy(&self.buffer))
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}
