//! A file as a response body: read in pieces on tokio's blocking threads, so that the front never waits for
//! a disk. It sends what the file had when it was opened, and never more.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use tokio::fs::File;
use tokio::io::{AsyncRead, ReadBuf};

use crate::descriptors;

/// Bytes read at once.
const CHUNK: usize = 256 * 1024;

/// A file on its way to a client.
#[derive(Debug)]
pub struct FileBody {
    file: File,
    length: u64,
    left: u64,
    buffer: BytesMut,
}

impl FileBody {
    /// Opens a regular file.
    ///
    /// # Errors
    /// It can't be opened, is not a regular file, or takes a descriptor of the reserve.
    pub async fn open(path: &Path) -> io::Result<Self> {
        let mut file = descriptors::beside_reserve(File::open(path).await?)?;
        file.set_max_buf_size(CHUNK);
        let facts = file.metadata().await?;
        if !facts.is_file() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not a regular file",
            ));
        }
        Ok(Self {
            file,
            length: facts.len(),
            left: facts.len(),
            buffer: BytesMut::new(),
        })
    }

    /// The length of the whole body.
    pub fn bytes(&self) -> u64 {
        self.length
    }

    /// Bytes not yet read.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Only the first `count` bytes.
    #[must_use]
    pub fn first(self, count: u64) -> Self {
        let length = self.length.min(count);
        Self {
            length,
            left: length,
            ..self
        }
    }

    /// The next piece. A file that has become shorter is an error: the client must see the cut.
    pub fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let want = CHUNK.min(usize::try_from(self.left).unwrap_or(CHUNK));
        self.buffer.resize(want, 0);
        let mut into = ReadBuf::new(&mut self.buffer);
        if let Err(error) = ready!(Pin::new(&mut self.file).poll_read(cx, &mut into)) {
            return Poll::Ready(Some(Err(error)));
        }
        let count = into.filled().len();
        if count == 0 {
            return Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into())));
        }
        self.left -= count as u64;
        Poll::Ready(Some(Ok(self.buffer.split_to(count).freeze())))
    }
}
