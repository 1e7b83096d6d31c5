//! A temporary file without a name, made when it is first asked for. Its calls block: not for the front's own
//! thread. It may be dropped there: to give back the memory or the blocks of a file of 1 GiB takes a file system a tenth of
//! a second and more, so that a thread for blocking work closes it.

use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustix::fs::OFlags;
use rustix::io::Errno;
use tokio::runtime::Handle;

use super::SpoolError;
use crate::net::descriptors;
use crate::shared_bytes::{Share, SharedBytes};

/// Only this user may open it, through `/proc`.
const MODE: u32 = 0o600;
/// How many random names are tried before something else must be wrong.
const NAME_ATTEMPTS: usize = 16;

#[derive(Debug)]
pub(super) struct LazyFile {
    directory: Arc<Path>,
    file: OnceLock<File>,
    /// What it takes of what all files may; given back once it is closed.
    space: Mutex<Share>,
}

impl LazyFile {
    pub(super) fn new(directory: Arc<Path>) -> Self {
        Self {
            directory,
            file: OnceLock::new(),
            space: Mutex::default(),
        }
    }

    #[cfg(test)]
    pub(super) fn existing(directory: Arc<Path>, file: File) -> Self {
        Self {
            directory,
            file: OnceLock::from(file),
            space: Mutex::default(),
        }
    }

    /// The file, made now if it was not.
    pub(super) fn get(&self) -> io::Result<&File> {
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        let file = descriptors::keep_reserve(create(&self.directory)?)?;
        Ok(self.file.get_or_init(|| file))
    }

    /// The file, which was made before.
    pub(super) fn made(&self) -> &File {
        self.file.get().expect("flushing has made the file")
    }

    /// Takes `bytes` of `space` in all. Returns false where that forbids it.
    pub(super) fn take_space(&self, space: &Arc<SharedBytes>, bytes: usize) -> bool {
        let mut taken = self.space.lock().unwrap_or_else(PoisonError::into_inner);
        taken.grow(space, bytes)
    }

    pub(super) fn explain(&self, error: io::Error) -> SpoolError {
        let directory = self.directory.clone();
        match Errno::from_io_error(&error) {
            Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => SpoolError::Full(directory),
            _ => SpoolError::Io {
                directory,
                source: Arc::new(error),
            },
        }
    }
}

impl Drop for LazyFile {
    fn drop(&mut self) {
        let Some(file) = self.file.take() else {
            return;
        };
        let space = std::mem::take(&mut self.space);
        let close = move || {
            drop(file);
            drop(space);
        };
        match Handle::try_current() {
            Ok(threads) => drop(threads.spawn_blocking(close)),
            // The front has ended.
            Err(_) => close(),
        }
    }
}

fn create(directory: &Path) -> io::Result<File> {
    // EXCL: no process can give it a name later.
    let flags = OFlags::TMPFILE | OFlags::EXCL;
    let nameless = options()
        .custom_flags(flags.bits().cast_signed())
        .open(directory);
    match nameless {
        Err(error) if is_unsupported(&error) => create_and_unlink(directory),
        result => result,
    }
}

/// What file systems and kernels without O_TMPFILE answer (open(2)).
fn is_unsupported(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL)
    )
}

/// Names are not to be guessed, and nothing that is there already is opened, a symbolic link neither.
pub(super) fn create_and_unlink(directory: &Path) -> io::Result<File> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let path = directory.join(format!(
            ".highball-{:016x}",
            RandomState::new().hash_one(attempts)
        ));
        match options().create_new(true).open(&path) {
            Ok(file) => {
                fs::remove_file(&path)?;
                return Ok(file);
            }
            Err(error)
                if error.kind() == io::ErrorKind::AlreadyExists && attempts < NAME_ATTEMPTS => {}
            Err(error) => return Err(error),
        }
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(MODE);
    options
}
