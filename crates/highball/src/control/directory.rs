//! A directory of control sockets: what makes it trustworthy, and the files in it. Once checked it is used by its
//! descriptor, so that no other user can replace it and no path is too long for a socket's address. It knows nothing of what is
//! sent over the sockets.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{
    Access, AtFlags, CWD, Dir, FlockOperation, Mode, OFlags, accessat, flock, fstat, mkdirat,
    openat,
};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::control::name::SUFFIX;
use crate::control::places::{Place, Variables, in_folder, places};
use crate::system::privileges::User;

/// Only the owner may enter.
const MODE: u32 = 0o700;
/// How long another server may hold the lock; it needs it for a few system calls.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// How often the lock is tried.
const LOCK_RETRY: Duration = Duration::from_millis(5);

/// Why a directory is not used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnusableDirectory {
    /// It does not exist and cannot be made, or cannot be entered.
    #[error("{}: {reason}", path.display())]
    Unavailable {
        /// Its path.
        path: PathBuf,
        /// The error of the system call.
        reason: io::Error,
    },
    /// Another user owns it, or may enter it.
    #[error("{}: {reason}", path.display())]
    Insecure {
        /// Its path.
        path: PathBuf,
        /// What is wrong, and what to do.
        reason: String,
    },
}

fn unavailable(path: PathBuf, error: Errno) -> UnusableDirectory {
    let reason = error.into();
    UnusableDirectory::Unavailable { path, reason }
}

/// A directory that only its owner can enter.
#[derive(Debug)]
pub(crate) struct ControlDirectory {
    fd: OwnedFd,
    path: PathBuf,
    owner: u32,
}

/// The lock of a directory, until it is dropped.
pub(crate) struct Lock(
    #[expect(dead_code, reason = "the kernel unlocks it when it is closed")] OwnedFd,
);

/// A socket's file in its directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
}

impl ControlDirectory {
    /// Opens the directory of a server that runs, or will run, as `user`, and makes it if it does not exist; `None` where no
    /// place is usable. Also returns the places that were skipped, and why. Root makes nothing in the application's `folder`
    /// for another user: the owner of that folder could lead root elsewhere.
    pub(crate) fn open(
        user: User,
        folder: Option<&Path>,
    ) -> (Option<Self>, Vec<UnusableDirectory>) {
        let mut refused = Vec::new();
        for place in places(&Variables::of_this_process(), user.uid, folder) {
            match Self::make(&place, user) {
                Ok(directory) => return (Some(directory), refused),
                Err(error) => refused.push(error),
            }
        }
        (None, refused)
    }

    fn make(place: &Place, user: User) -> Result<Self, UnusableDirectory> {
        let unavailable = |error: Errno| unavailable(place.path.clone(), error);
        let base = place.path.parent().unwrap_or(Path::new("/"));
        if place.make {
            make_directory(base, Mode::from(0o755), user).map_err(unavailable)?;
        }
        let above = openat(
            CWD,
            base,
            OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC,
            Mode::empty(),
        );
        let above = above.map_err(unavailable)?;
        let owner = fstat(&above).map_err(unavailable)?.st_uid;
        if place.owned && owner != user.uid && owner != 0 {
            // Such as the session directory of a user who became root.
            let reason = format!("the folder above it belongs to uid {owner}");
            return Err(UnusableDirectory::Unavailable {
                path: place.path.clone(),
                reason: io::Error::other(reason),
            });
        }
        make_directory(&place.path, Mode::from(MODE), user).map_err(unavailable)?;
        let directory = Self::look(&place.path, Some(user.uid))?;
        // An existing one may be on a file system that is read-only by now.
        accessat(&directory.fd, ".", Access::WRITE_OK, AtFlags::EACCESS).map_err(unavailable)?;
        Ok(directory)
    }

    /// Opens an existing directory. It must belong to `owner`; with `None` (for root only) to any user.
    ///
    /// # Errors
    /// It does not exist, or others may enter it.
    pub(crate) fn look(path: &Path, owner: Option<u32>) -> Result<Self, UnusableDirectory> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = openat(CWD, path, flags, Mode::empty())
            .map_err(|error| unavailable(path.to_owned(), error))?;
        Self::adopt(fd, path.to_owned(), owner)
    }

    /// Opens a directory that another process has open, by its entry in `/proc`.
    ///
    /// # Errors
    /// As [`ControlDirectory::look`].
    pub(crate) fn through(entry: &Path, owner: Option<u32>) -> Result<Self, UnusableDirectory> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = openat(CWD, entry, flags, Mode::empty())
            .map_err(|error| unavailable(entry.to_owned(), error))?;
        Self::adopt(fd, entry.to_owned(), owner)
    }

    /// Checks a directory that is open already.
    ///
    /// # Errors
    /// It belongs to another user, or others may enter it.
    pub(crate) fn adopt(
        fd: OwnedFd,
        path: PathBuf,
        owner: Option<u32>,
    ) -> Result<Self, UnusableDirectory> {
        let facts = match fstat(&fd) {
            Ok(facts) => facts,
            Err(error) => return Err(unavailable(path, error)),
        };
        let reason = if rustix::fs::FileType::from_raw_mode(facts.st_mode)
            != rustix::fs::FileType::Directory
        {
            "it is not a directory".to_owned()
        } else if owner.is_some_and(|owner| owner != facts.st_uid) {
            format!("it belongs to uid {}", facts.st_uid)
        } else if facts.st_mode & 0o077 != 0 {
            let mode = facts.st_mode & 0o7777;
            format!("its mode is {mode:04o}, so others may enter it: chmod 0700 it, or remove it")
        } else {
            return Ok(Self {
                fd,
                path,
                owner: facts.st_uid,
            });
        };
        Err(UnusableDirectory::Insecure { path, reason })
    }

    /// The path by which it was found.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is in an application's folder.
    pub(crate) fn is_in_folder(&self) -> bool {
        self.path.ends_with(in_folder(Path::new("")))
    }

    /// The user that owns it.
    pub(crate) fn owner(&self) -> u32 {
        self.owner
    }

    /// Locks it: no other server changes its files meanwhile.
    ///
    /// # Errors
    /// The directory was removed, or another process holds the lock for too long.
    pub(crate) async fn lock(&self) -> io::Result<Lock> {
        // A lock belongs to an open file, and `self.fd` is shared with the server that takes this directory over.
        let own = openat(
            &self.fd,
            ".",
            OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let locked = async {
            loop {
                match flock(&own, FlockOperation::NonBlockingLockExclusive) {
                    Err(Errno::WOULDBLOCK | Errno::INTR) => tokio::time::sleep(LOCK_RETRY).await,
                    other => return other,
                }
            }
        };
        match tokio::time::timeout(LOCK_TIMEOUT, locked).await {
            Ok(locked) => locked?,
            Err(_) => {
                let text = format!(
                    "another process has held the lock of {} for {LOCK_TIMEOUT:?}",
                    self.path.display()
                );
                return Err(io::Error::other(text));
            }
        }
        Ok(Lock(own))
    }

    /// Binds a name, and replaces a socket that no process listens on; `None` where one does. `_lock` keeps others from
    /// doing the same.
    ///
    /// # Errors
    /// The directory cannot be written to.
    pub(crate) fn bind(&self, name: &str, _lock: &Lock) -> io::Result<Option<UnixListener>> {
        match UnixListener::bind(self.within(name)) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            bound => return bound.map(Some),
        }
        if self.has_listener(name) {
            return Ok(None);
        }
        self.remove(name);
        UnixListener::bind(self.within(name)).map(Some)
    }

    /// Removes the sockets that no process listens on, which killed servers have left.
    pub(crate) fn remove_stale(&self, _lock: &Lock) -> io::Result<()> {
        let entries = Dir::read_from(&self.fd)?;
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.ends_with(SUFFIX) && !self.has_listener(&name) {
                self.remove(&name);
            }
        }
        Ok(())
    }

    /// Whether a process listens on a name, even if its backlog is full.
    fn has_listener(&self, name: &str) -> bool {
        let connected = stream(SocketFlags::NONBLOCK).and_then(|socket| {
            rustix::net::connect(&socket, &SocketAddrUnix::new(self.within(name))?)
        });
        !matches!(connected, Err(Errno::CONNREFUSED | Errno::NOENT))
    }

    /// Connects a socket to a name.
    ///
    /// # Errors
    /// No process listens on it, or this user may not.
    pub(crate) fn connect(&self, name: &str, socket: BorrowedFd<'_>) -> rustix::io::Result<()> {
        rustix::net::connect(socket, &SocketAddrUnix::new(self.within(name))?)
    }

    /// Returns which file a name is.
    pub(crate) fn file(&self, name: &str) -> Option<FileId> {
        let facts = rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some(FileId {
            device: facts.st_dev,
            inode: facts.st_ino,
        })
    }

    /// Removes a name.
    pub(crate) fn remove(&self, name: &str) {
        // It may have been removed already.
        let _ = rustix::fs::unlinkat(&self.fd, name, AtFlags::empty());
    }

    /// Returns the path of a name, by the descriptor.
    fn within(&self, name: &str) -> PathBuf {
        Path::new("/proc/self/fd")
            .join(self.fd.as_raw_fd().to_string())
            .join(name)
    }
}

impl AsFd for ControlDirectory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Makes a UNIX socket that is not connected.
///
/// # Errors
/// No descriptors are left.
pub(crate) fn stream(flags: SocketFlags) -> rustix::io::Result<OwnedFd> {
    let flags = flags | SocketFlags::CLOEXEC;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

/// Makes a directory for a user unless it exists. Its mode does not depend on the umask.
fn make_directory(path: &Path, mode: Mode, user: User) -> rustix::io::Result<()> {
    match mkdirat(CWD, path, Mode::from(MODE)) {
        Ok(()) => {}
        Err(Errno::EXIST) => return Ok(()),
        Err(error) => return Err(error),
    }
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let made = openat(CWD, path, flags, Mode::empty())?;
    if rustix::process::geteuid().is_root() {
        user.own(&made)?;
    }
    rustix::fs::fchmod(&made, mode)
}

#[cfg(test)]
mod tests;
