//! A small file that is read again when it has changed. It blocks: nothing here runs on the front's own thread once that
//! serves.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use bytes::Bytes;
use rustix::fs::OFlags;

use crate::serve::reader::Reader;

/// The largest file that is read.
const MAX_WATCHED_FILE_BYTES: u64 = 256 * 1024;

/// What is known of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchedFile {
    /// There is none.
    Missing,
    /// It was read.
    Read {
        /// What changes with each change of the file.
        stamp: Stamp,
        /// What is in it.
        content: Bytes,
    },
    /// It is there and cannot be read; why.
    Failed(String),
}

/// What changes with each change of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(file: &std::fs::Metadata) -> Self {
        Self {
            device: file.dev(),
            inode: file.ino(),
            bytes: file.len(),
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        }
    }
}

impl WatchedFile {
    /// Returns what is known of the file now, or none if it has not changed since `last`. It is read for `reader`. Blocks.
    pub fn look(path: &Path, last: &Self, reader: Reader) -> Option<Self> {
        let now = read(path, last, reader).unwrap_or_else(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Some(Self::Missing),
            _ => Some(Self::Failed(error.to_string())),
        });
        now.filter(|now| now != last)
    }
}

/// Reads the file, unless it has the stamp of `last`.
fn read(path: &Path, last: &WatchedFile, reader: Reader) -> io::Result<Option<WatchedFile>> {
    let found = std::fs::metadata(path)?;
    if matches!(last, WatchedFile::Read { stamp, .. } if *stamp == Stamp::of(&found)) {
        return Ok(None);
    }
    // Opening a FIFO or a device could wait, or do something.
    check(&found)?;
    let options = OFlags::NONBLOCK.bits() as i32;
    let file: File = OpenOptions::new()
        .read(true)
        .custom_flags(options)
        .open(path)?;
    let facts = file.metadata()?;
    check(&facts)?;
    reader.check(&file, &facts)?;
    let mut content = Vec::new();
    file.take(MAX_WATCHED_FILE_BYTES)
        .read_to_end(&mut content)?;
    Ok(Some(WatchedFile::Read {
        stamp: Stamp::of(&facts),
        content: content.into(),
    }))
}

fn check(file: &std::fs::Metadata) -> io::Result<()> {
    if !file.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    if file.len() > MAX_WATCHED_FILE_BYTES {
        let limit = MAX_WATCHED_FILE_BYTES / 1024;
        return Err(io::Error::other(format!("it is larger than {limit} KiB")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_again_when_it_changes_and_only_then() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("503.html");
        let mut last = WatchedFile::Missing;
        let mut look = |expect: Option<&str>| {
            let found = WatchedFile::look(&path, &last, Reader::default());
            match (&found, expect) {
                (Some(WatchedFile::Read { content, .. }), Some(expect)) => {
                    assert_eq!(content, expect);
                }
                (Some(WatchedFile::Missing), Some("missing")) | (None, None) => {}
                (Some(WatchedFile::Failed(reason)), Some(expect)) => assert_eq!(reason, expect),
                _ => panic!("{found:?}, expected {expect:?}"),
            }
            last = found.unwrap_or_else(|| last.clone());
        };
        look(None);
        std::fs::write(&path, "one").unwrap();
        look(Some("one"));
        look(None);
        std::fs::write(&path, "two").unwrap();
        look(Some("two"));
        std::fs::write(&path, vec![b'x'; MAX_WATCHED_FILE_BYTES as usize + 1]).unwrap();
        look(Some("it is larger than 256 KiB"));
        look(None);
        std::fs::remove_file(&path).unwrap();
        look(Some("missing"));
        std::fs::create_dir(&path).unwrap();
        look(Some("it is no regular file"));
    }
}
