//! How a client reads: to a length, to a mark, to the end, chunk by chunk, each until its deadline.

use std::io::{self, Read};
use std::time::{Duration, Instant};

use super::response::{Ending, Fault, Response, chunk_size};
use super::{Client, Stream};

impl Client {
    pub(super) fn read_chunks(&mut self, response: &mut Response) -> Result<(), Fault> {
        while let Some(chunk) = self.try_chunk()? {
            response.body.extend_from_slice(&chunk);
            response.chunks.push(chunk);
        }
        Ok(())
    }

    pub(super) fn read_until_close(&mut self, response: &mut Response) -> Result<(), Fault> {
        match self.try_rest()? {
            (body, Ending::Closed) => {
                response.body = body;
                Ok(())
            }
            (so_far, ending) => Err(Fault::Ended { ending, so_far }),
        }
    }

    pub(super) fn try_chunk(&mut self) -> Result<Option<Vec<u8>>, Fault> {
        let line = self.until(b"\r\n")?;
        let size = chunk_size(&line)?;
        if size == 0 {
            while self.until(b"\r\n")? != b"\r\n" {}
            return Ok(None);
        }
        let mut chunk = self.try_bytes(size)?;
        match self.try_bytes(2) {
            Ok(end) if end == b"\r\n" => Ok(Some(chunk)),
            Ok(end) => Err(Fault::Malformed(format!("a chunk ends with {end:?}"))),
            Err(Fault::Ended { ending, .. }) => Err(Fault::Ended {
                ending,
                so_far: std::mem::take(&mut chunk),
            }),
            Err(fault) => Err(fault),
        }
    }

    pub(super) fn try_bytes(&mut self, count: usize) -> Result<Vec<u8>, Fault> {
        let deadline = Instant::now() + self.patience;
        while self.buffer.len() < count {
            self.fill(deadline)?;
        }
        Ok(self.buffer.drain(..count).collect())
    }

    pub(super) fn try_rest(&mut self) -> Result<(Vec<u8>, Ending), Fault> {
        let deadline = Instant::now() + self.patience;
        loop {
            match self.fill(deadline) {
                Ok(()) => {}
                Err(Fault::Ended { ending, so_far }) => return Ok((so_far, ending)),
                Err(fault) => return Err(fault),
            }
        }
    }

    pub(super) fn until(&mut self, end: &[u8]) -> Result<Vec<u8>, Fault> {
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
