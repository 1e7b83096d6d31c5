//! Files that the application names, as response bodies. They may lie anywhere, also on a file system that does not
//! answer, or be no files at all by now; so they are opened, read and closed in threads of their own, each within a time
//! limit. A body has what the file had when it was opened, and never more.

pub mod answer;
pub mod named;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use tokio::time::timeout;

use self::answer::FileFacts;
use self::named::NamedFile;
use crate::net::descriptors;
use crate::serve::file_body::{FileBody, Piece, Rest};
use crate::serve::file_threads::{FileThreads, FreeThread};
use crate::serve::reader::Reader;
use crate::serve::waiting::WaitingCount;

/// Threads that open, read and close these files.
const FILE_THREADS: usize = 8;

/// Why a file cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// So many wait for a thread already.
    #[error("{0} files wait to be opened already (setting `queue_limit`)")]
    TooManyWait(usize),
    /// It took longer than this.
    #[error("it was not opened within {0:?} (setting `file_timeout`, or the request's deadline)")]
    Timeout(Duration),
    /// It has fewer bytes than the response declares.
    #[error("it is shorter than its content-length")]
    TooShort,
    /// It is in none of the folders that the settings name.
    #[error("it is in none of the folders of sendfile_roots or accel_redirects")]
    Outside,
    /// It can't be opened or read, is not a regular file, or takes a descriptor of the reserve.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Opens files that the application names.
#[derive(Debug)]
pub struct ApplicationFiles {
    threads: Rc<FileThreads>,
    reader: Reader,
    /// Files that wait for a thread to be opened.
    waiting: WaitingCount,
}

/// The limits of one file.
#[derive(Clone, Copy, Debug)]
pub struct FileLimits {
    /// How long opening it may take.
    pub open: Duration,
    /// How long reading a piece of it may take.
    pub read: Duration,
    /// How many others may wait for a thread before it.
    pub waiting: usize,
    /// The length from which on nothing of it is read when it is opened.
    pub unread: u64,
}

impl ApplicationFiles {
    /// With threads of their own, none of which has started. Opens files that `reader` may read.
    ///
    /// # Errors
    /// As [`FileThreads::new`].
    pub fn new(reader: Reader) -> io::Result<Self> {
        Ok(Self {
            threads: Rc::new(FileThreads::new("highball-files", FILE_THREADS)?),
            reader,
            waiting: WaitingCount::default(),
        })
    }

    /// Opens a regular file, of which the first `declared` bytes are the body, or all that it has, and reads its first
    /// piece. Returns the body, and what is known of the file.
    ///
    /// # Errors
    /// It cannot be sent.
    pub async fn open(
        &self,
        file: NamedFile,
        declared: Option<u64>,
        limits: FileLimits,
    ) -> Result<(FileBody, FileFacts), FileError> {
        let opened = async {
            let thread = self.free_thread(limits.waiting).await?;
            let reader = self.reader;
            let work = self
                .threads
                .begin(thread, move || open(&file, reader, declared, limits.unread));
            work.await?
        };
        let opened = timeout(limits.open, opened).await;
        let (piece, facts) = opened.map_err(|_| FileError::Timeout(limits.open))??;
        let body = FileBody::new(piece, limits.read, Rc::clone(&self.threads));
        Ok((body, facts))
    }

    async fn free_thread(&self, most: usize) -> Result<FreeThread, FileError> {
        if let Some(thread) = self.threads.try_free() {
            return Ok(thread);
        }
        let waiting = self.waiting.enter(most);
        let _waiting = waiting.ok_or(FileError::TooManyWait(most))?;
        Ok(self.threads.free().await)
    }
}

/// What is no file by now must not hold the thread up (a FIFO without a writer) nor become this process's terminal.
const FLAGS: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY);

/// Opens the file and reads its first piece. Blocks.
fn open(
    file: &NamedFile,
    reader: Reader,
    declared: Option<u64>,
    unread: u64,
) -> Result<(Piece, FileFacts), FileError> {
    let file = match &file.roots {
        None => OpenOptions::new()
            .read(true)
            .custom_flags(FLAGS.bits().cast_signed())
            .open(&file.path)?,
        Some(roots) => open_within(&file.path, roots)?,
    };
    let file = descriptors::keep_reserve(file)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        let kind = io::ErrorKind::InvalidInput;
        return Err(io::Error::new(kind, "not a regular file").into());
    }
    reader.check(&file, &metadata)?;
    let end = declared.unwrap_or(metadata.len());
    if end > metadata.len() {
        return Err(FileError::TooShort);
    }
    let modified_ns = i128::from(metadata.mtime()) * 1_000_000_000;
    let facts = FileFacts {
        bytes: end,
        modified_ns: modified_ns + i128::from(metadata.mtime_nsec()),
    };
    if end == 0 {
        let (bytes, rest) = (Bytes::new(), None);
        return Ok((Piece { bytes, rest }, facts));
    }
    let file = Arc::new(file);
    let rest = Rest { file, at: 0, end };
    if end >= unread {
        let (bytes, rest) = (Bytes::new(), Some(rest));
        return Ok((Piece { bytes, rest }, facts));
    }
    Ok((rest.read()?, facts))
}

/// Opens a file in one of the folders. No link leads out of them, also one that is changed at the same time: the path that is
/// opened has none.
fn open_within(path: &Path, roots: &[PathBuf]) -> Result<File, FileError> {
    let path = path.canonicalize()?;
    for root in roots.iter().filter_map(|root| root.canonicalize().ok()) {
        let Ok(inside) = path.strip_prefix(&root) else {
            continue;
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = openat(CWD, &root, flags, Mode::empty()).map_err(io::Error::from)?;
        let flags = FLAGS | OFlags::CLOEXEC;
        let no_links = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let file = openat2(folder, inside, flags, Mode::empty(), no_links);
        return Ok(file.map_err(io::Error::from)?.into());
    }
    Err(FileError::Outside)
}

#[cfg(test)]
mod tests;
