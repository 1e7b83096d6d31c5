//! For whom the front reads a file. It has rights of its own, and an application of another user could name a file that only
//! the front may read, or put a link where the front looks: so such a file must belong to the application's user, or be
//! for everybody. It opens no file for anybody else, and it blocks.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path};

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat, readlinkat};

/// Everybody may read a file with this mode.
const READ: u32 = 0o004;
/// Everybody may look for names in a folder with this mode.
const SEARCH: u32 = 0o001;

/// The user of an application, where it is not the front's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reader(Option<u32>);

impl Reader {
    /// The user with this number; `None` for the front's.
    pub fn of(user: Option<u32>) -> Self {
        Self(user)
    }

    /// Whether the front may read this open file for the application.
    ///
    /// # Errors
    /// It may not (`PermissionDenied`), or the kernel does not tell the file's path.
    pub fn check(self, file: &File, facts: &Metadata) -> io::Result<()> {
        match self.0 {
            None => Ok(()),
            Some(user) if facts.uid() == user => Ok(()),
            Some(user) if facts.mode() & READ != 0 && is_reached(file, facts, user)? => Ok(()),
            Some(_) => Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "it neither belongs to the application's user nor is readable for everybody",
            )),
        }
    }
}

/// Whether a user may enter each folder on the way to this file. The folders are walked through and the file is found in the
/// last one, for paths alone could be changed meanwhile.
fn is_reached(file: &File, facts: &Metadata, user: u32) -> io::Result<bool> {
    let link = format!("/proc/self/fd/{}", file.as_raw_fd());
    let path = readlinkat(CWD, link, Vec::new())?;
    let path = Path::new(OsStr::from_bytes(path.as_bytes()));
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut at: OwnedFd = openat(CWD, "/", flags | OFlags::DIRECTORY, Mode::empty())?;
    for part in path.components() {
        let name = match part {
            Component::RootDir => continue,
            Component::Normal(name) => name,
            _ => return Ok(false),
        };
        let folder = fstat(&at)?;
        let search = match folder.st_uid == user {
            true => SEARCH << 6,
            false => SEARCH,
        };
        let is_folder = FileType::from_raw_mode(folder.st_mode) == FileType::Directory;
        if !is_folder || folder.st_mode & search == 0 {
            return Ok(false);
        }
        at = openat(&at, name, flags, Mode::empty())?;
    }
    let found = fstat(&at)?;
    Ok((found.st_dev, found.st_ino) == (facts.dev(), facts.ino()))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn chmod(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_file_is_read_for_its_owner_or_if_everybody_may() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("inner");
        fs::create_dir(&inner).unwrap();
        let path = inner.join("file");
        fs::write(&path, "x").unwrap();
        let own = rustix::process::getuid().as_raw();
        let check = |folder: u32, mode: u32, user: Option<u32>| {
            chmod(dir.path(), 0o755);
            chmod(&inner, folder);
            chmod(&path, mode);
            let file = File::open(&path).unwrap();
            let facts = file.metadata().unwrap();
            Reader::of(user).check(&file, &facts).is_ok()
        };
        let other = Some(own + 1);
        for (folder, mode, user, expect) in [
            (0o700, 0o600, None, true),
            (0o700, 0o600, Some(own), true),
            (0o700, 0o600, other, false),
            (0o755, 0o640, other, false),
            (0o755, 0o644, other, true),
            (0o711, 0o644, other, true),
            (0o750, 0o644, other, false),
        ] {
            assert_eq!(
                check(folder, mode, user),
                expect,
                "{folder:o} {mode:o} {user:?}"
            );
        }
    }

    #[test]
    fn a_link_to_a_file_counts_as_that_file() {
        let dir = tempfile::tempdir().unwrap();
        chmod(dir.path(), 0o755);
        let (private, public) = (dir.path().join("private"), dir.path().join("public"));
        for folder in [&private, &public] {
            fs::create_dir(folder).unwrap();
        }
        fs::write(private.join("key"), "x").unwrap();
        chmod(&private.join("key"), 0o644);
        chmod(&private, 0o700);
        std::os::unix::fs::symlink(private.join("key"), public.join("key")).unwrap();
        let file = File::open(public.join("key")).unwrap();
        let other = rustix::process::getuid().as_raw() + 1;
        let error = Reader::of(Some(other)).check(&file, &file.metadata().unwrap());
        assert_eq!(error.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }
}
