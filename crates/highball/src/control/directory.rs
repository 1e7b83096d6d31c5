//! The directories that control sockets lie in: where they are, what makes one trustworthy, and the files in it. A
//! directory is reached by a descriptor once it was checked, so that nobody can put another one in its place, and no
//! path is too long for a socket's address. Knows nothing of what is said over the sockets.

use std::ffi::OsStr;
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
use crate::system::privileges::User;

/// The last part of the path of each such directory, or its beginning.
const NAME: &str = "highball";
/// Who may enter: the owner alone.
const MODE: u32 = 0o700;
/// How long another server may hold the lock, which it does for a few system calls.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// How often the lock is tried.
const LOCK_RETRY: Duration = Duration::from_millis(5);

/// Why a directory is not used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnusableDirectory {
    /// It is not there, or cannot be made or entered.
    #[error("{}: {reason}", path.display())]
    Unavailable {
        /// Where.
        path: PathBuf,
        /// What the system says.
        reason: io::Error,
    },
    /// Somebody else owns it, or may enter it.
    #[error("{}: {reason}", path.display())]
    Insecure {
        /// Where.
        path: PathBuf,
        /// What is wrong, and what to do.
        reason: String,
    },
}

fn unavailable(path: PathBuf, error: Errno) -> UnusableDirectory {
    let reason = error.into();
    UnusableDirectory::Unavailable { path, reason }
}

/// Variables that name a directory of this process, or of its user.
#[derive(Clone, Debug, Default)]
pub(crate) struct Variables {
    /// Of the service manager, for a service: several are separated by colons.
    runtime: Option<PathBuf>,
    /// Of a user's session.
    session: Option<PathBuf>,
}

impl Variables {
    /// Those of this process.
    pub(crate) fn of_this_process() -> Self {
        let absolute = |path: PathBuf| path.is_absolute().then_some(path);
        let first = |list: std::ffi::OsString| std::env::split_paths(&list).next();
        Self {
            runtime: std::env::var_os("RUNTIME_DIRECTORY")
                .and_then(first)
                .and_then(absolute),
            session: std::env::var_os("XDG_RUNTIME_DIR")
                .map(PathBuf::from)
                .and_then(absolute),
        }
    }
}

/// A folder that may hold a control directory.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    /// The directory.
    path: PathBuf,
    /// The folder that it is in must belong to the server's user or to root.
    owned: bool,
    /// That folder may be made.
    make: bool,
}

/// Where a server of this user looks for its directory, the best place first.
fn places(variables: &Variables, uid: u32, folder: Option<&Path>) -> Vec<Place> {
    let given = [&variables.runtime, &variables.session];
    let mut places: Vec<Place> = given
        .into_iter()
        .flatten()
        .map(|base| Place {
            path: base.join(NAME),
            owned: true,
            make: false,
        })
        .collect();
    places.push(Place {
        path: of_user(uid),
        owned: true,
        make: false,
    });
    places.extend(folder.map(|folder| Place {
        path: of_folder(folder),
        owned: false,
        make: true,
    }));
    places
}

/// The directory of a user that root has made, or is to make.
fn of_user(uid: u32) -> PathBuf {
    format!("/run/{NAME}-{uid}").into()
}

/// The directory in an application's folder.
fn of_folder(folder: &Path) -> PathBuf {
    folder.join("tmp").join(NAME)
}

/// Whether this is the directory in an application's folder.
pub(crate) fn is_of_folder(path: &Path, folder: &Path) -> bool {
    path == of_folder(folder)
}

/// Where a command looks for servers of this user: all places that a server may have taken, whatever its variables.
pub(crate) fn known_places(variables: &Variables, uid: u32, folder: Option<&Path>) -> Vec<PathBuf> {
    let given = [&variables.runtime, &variables.session];
    let given = given.into_iter().flatten().map(|base| base.join(NAME));
    let session = PathBuf::from(format!("/run/user/{uid}")).join(NAME);
    let mut known: Vec<PathBuf> = given.chain([session, of_user(uid)]).collect();
    known.extend(folder.map(of_folder));
    known
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
    /// Finds the directory of a server that runs as `user`, or will do so, and makes it where there is none; `None` where
    /// no place can be used. Also returns which places were passed over, and why. Nothing is made in the application's
    /// `folder` by root on behalf of another user: who owns that folder could lead root elsewhere.
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
            // Such as the session's of a user who became root.
            let reason = format!("user {owner} owns the folder that it would be in");
            return Err(UnusableDirectory::Unavailable {
                path: place.path.clone(),
                reason: io::Error::other(reason),
            });
        }
        make_directory(&place.path, Mode::from(MODE), user).map_err(unavailable)?;
        let directory = Self::look(&place.path, Some(user.uid))?;
        // One that is there already may be on a file system that is read-only by now.
        accessat(&directory.fd, ".", Access::WRITE_OK, AtFlags::EACCESS).map_err(unavailable)?;
        Ok(directory)
    }

    /// Opens a directory that is there. Its owner has to be `owner`; for `None` anybody, which root alone may ask for.
    ///
    /// # Errors
    /// It is not there, or not its owner's alone.
    pub(crate) fn look(path: &Path, owner: Option<u32>) -> Result<Self, UnusableDirectory> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = openat(CWD, path, flags, Mode::empty())
            .map_err(|error| unavailable(path.to_owned(), error))?;
        Self::adopt(fd, path.to_owned(), owner)
    }

    /// Opens one that another process has open, by its entry in `/proc`.
    ///
    /// # Errors
    /// As [`ControlDirectory::look`].
    pub(crate) fn through(entry: &Path, owner: Option<u32>) -> Result<Self, UnusableDirectory> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = openat(CWD, entry, flags, Mode::empty())
            .map_err(|error| unavailable(entry.to_owned(), error))?;
        Self::adopt(fd, entry.to_owned(), owner)
    }

    /// The same for one that was opened already.
    ///
    /// # Errors
    /// It is not its owner's alone.
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
            "it is no directory".to_owned()
        } else if owner.is_some_and(|owner| owner != facts.st_uid) {
            format!("it belongs to user {}", facts.st_uid)
        } else if facts.st_mode & 0o077 != 0 {
            let mode = facts.st_mode & 0o7777;
            format!("its mode is {mode:04o}, and others may enter it: chmod 0700 it, or remove it")
        } else {
            return Ok(Self {
                fd,
                path,
                owner: facts.st_uid,
            });
        };
        Err(UnusableDirectory::Insecure { path, reason })
    }

    /// Where it was found.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is in the folder of an application.
    pub(crate) fn is_in_folder(&self) -> bool {
        self.path.ends_with(of_folder(Path::new("")))
    }

    /// The user whose it is.
    pub(crate) fn owner(&self) -> u32 {
        self.owner
    }

    /// Waits until no other server changes what is in it.
    ///
    /// # Errors
    /// The directory was removed, or another one holds the lock for too long.
    pub(crate) async fn lock(&self) -> io::Result<Lock> {
        // A lock belongs to an open file, and this one's is shared with the server that is handed the directory.
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
                    "another process locks {} for {LOCK_TIMEOUT:?}",
                    self.path.display()
                );
                return Err(io::Error::other(text));
            }
        }
        Ok(Lock(own))
    }

    /// Binds a name. One that nobody listens on any more is replaced; `None` where somebody does. `_lock` keeps others
    /// from doing the same.
    ///
    /// # Errors
    /// The directory cannot be written to.
    pub(crate) fn bind(&self, name: &str, _lock: &Lock) -> io::Result<Option<UnixListener>> {
        match UnixListener::bind(self.within(name)) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            bound => return bound.map(Some),
        }
        if self.is_heard(name) {
            return Ok(None);
        }
        self.remove(name);
        UnixListener::bind(self.within(name)).map(Some)
    }

    /// Removes every socket that nobody listens on: those of servers that were killed.
    pub(crate) fn remove_stale(&self, _lock: &Lock) -> io::Result<()> {
        let entries = Dir::read_from(&self.fd)?;
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.ends_with(SUFFIX) && !self.is_heard(&name) {
                self.remove(&name);
            }
        }
        Ok(())
    }

    /// Whether somebody listens on a name. A server whose backlog is full does.
    fn is_heard(&self, name: &str) -> bool {
        let connected = stream(SocketFlags::NONBLOCK).and_then(|socket| {
            rustix::net::connect(&socket, &SocketAddrUnix::new(self.within(name))?)
        });
        !matches!(connected, Err(Errno::CONNREFUSED | Errno::NOENT))
    }

    /// Connects a socket to a name.
    ///
    /// # Errors
    /// Nobody listens on it, or this user may not.
    pub(crate) fn connect(&self, name: &str, socket: BorrowedFd<'_>) -> rustix::io::Result<()> {
        rustix::net::connect(socket, &SocketAddrUnix::new(self.within(name))?)
    }

    /// Which file a name is.
    pub(crate) fn file(&self, name: &str) -> Option<FileId> {
        let facts = rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some(FileId {
            device: facts.st_dev,
            inode: facts.st_ino,
        })
    }

    /// Removes a name.
    pub(crate) fn remove(&self, name: &str) {
        // Somebody may have removed it already, which is what is wanted.
        let _ = rustix::fs::unlinkat(&self.fd, name, AtFlags::empty());
    }

    /// The path of a name, by the descriptor.
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

/// A UNIX socket that is not connected yet.
///
/// # Errors
/// No descriptors are left.
pub(crate) fn stream(flags: SocketFlags) -> rustix::io::Result<OwnedFd> {
    let flags = flags | SocketFlags::CLOEXEC;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

/// Makes a directory for a user unless it is there. Its mode does not depend on the umask.
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

/// Whether a directory may be one of these, by its path.
pub(crate) fn is_named(path: &Path) -> bool {
    let name = path.file_name().map(OsStr::to_string_lossy);
    let rest = name.as_deref().and_then(|name| name.strip_prefix(NAME));
    rest.is_some_and(|rest| {
        let number = rest.strip_prefix('-').unwrap_or(rest);
        number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests;
