//! The file of a UNIX socket: who may connect to it, and its removal. It binds nothing.

use std::cell::Cell;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, Uid};

/// Who may connect to a UNIX socket, by its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileAccess {
    /// The file's mode.
    pub mode: u32,
    /// Its owner, where that is not who makes it.
    pub user: Option<u32>,
    /// Its group, where that is not that of who makes it.
    pub group: Option<u32>,
}

impl FileAccess {
    /// For the owner alone.
    pub const PRIVATE: Self = Self {
        mode: 0o600,
        user: None,
        group: None,
    };

    /// Owner and group first: the mode is not for those that the file has before.
    pub(super) fn apply(self, path: &Path) -> io::Result<()> {
        // By a descriptor, for the name may lead elsewhere by now.
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
        if !FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode).is_socket() {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let (user, group) = (self.user.map(Uid::from_raw), self.group.map(Gid::from_raw));
        if user.is_some() || group.is_some() {
            rustix::fs::chownat(&file, "", user, group, AtFlags::EMPTY_PATH).map_err(|error| {
                let (user, group) = (self.user, self.group);
                let whom = [user.map(|uid| format!("user {uid}")), group.map(|gid| format!("group {gid}"))];
                let whom = whom.into_iter().flatten().collect::<Vec<_>>().join(" and ");
                io::Error::other(format!(
                    "its file cannot be given to {whom}: {error}; only a member of the group, or root, can do that \
                     (setting `unix_socket_group`)"
                ))
            })?;
        }
        let entry = format!("/proc/self/fd/{}", file.as_raw_fd());
        Ok(rustix::fs::chmodat(
            CWD,
            entry,
            Mode::from(self.mode),
            AtFlags::empty(),
        )?)
    }
}

/// A socket's file, removed when its listener ends unless it is another's.
#[derive(Debug)]
pub(crate) struct UnixPath {
    pub(super) path: PathBuf,
    pub(super) owned: Cell<bool>,
}

impl UnixPath {
    pub(super) fn new(path: &Path, owned: bool) -> Self {
        Self {
            path: path.to_owned(),
            owned: Cell::new(owned),
        }
    }
}

impl Drop for UnixPath {
    fn drop(&mut self) {
        if self.owned.get() {
            // Somebody may have removed it already, which is what is wanted.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
