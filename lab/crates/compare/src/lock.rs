//! A lock on a folder, so that one comparison at a time writes to it. The kernel releases it however its holder ends; nothing
//! waits for it.

use std::fs::{self, File, TryLockError};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

/// The file that is locked; it holds the number of the process that has it.
const FILE: &str = ".lock";

/// A folder that is this comparison's alone until this is dropped.
#[derive(Debug)]
pub(super) struct Lock {
    folder: PathBuf,
    /// Whether the folder was made for this; then it is removed if it is still empty.
    made: bool,
    _file: File,
}

impl Lock {
    /// Takes `folder`, which is made where it is not there.
    ///
    /// # Errors
    /// Another comparison has it, or it can't be made or locked.
    pub(super) fn take(folder: &Path) -> Result<Self> {
        let made = !folder.exists();
        fs::create_dir_all(folder).with_context(|| format!("can't make {}", folder.display()))?;
        let path = folder.join(FILE);
        let context = || format!("can't lock {}", path.display());
        loop {
            let mut file = File::options()
                .create(true)
                .truncate(false)
                .read(true)
                .write(true)
                .open(&path)
                .with_context(context)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let mut holder = String::new();
                    // It may be about to write it.
                    let _ = file.read_to_string(&mut holder);
                    let process = match holder.trim() {
                        "" => String::new(),
                        pid => format!(" (process {pid})"),
                    };
                    bail!(
                        "another comparison{process} is at work in {}: wait for its end, or name another folder with --output",
                        folder.display()
                    );
                }
                Err(TryLockError::Error(error)) => return Err(error).with_context(context),
            }
            // Its holder removes the file at the end: the locked file may no longer be the one in the folder.
            if is_at(&file, &path) {
                file.set_len(0)
                    .and_then(|()| writeln!(file, "{}", std::process::id()))
                    .with_context(context)?;
                return Ok(Self {
                    folder: folder.to_owned(),
                    made,
                    _file: file,
                });
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // It is still locked here; the next comparison makes a new file.
        let _ = fs::remove_file(self.folder.join(FILE));
        if self.made {
            // Refused where there is something in it.
            let _ = fs::remove_dir(&self.folder);
        }
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    let place = |found: fs::Metadata| (found.dev(), found.ino());
    match (file.metadata(), fs::metadata(path)) {
        (Ok(own), Ok(there)) => place(own) == place(there),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_comparison_at_a_time_has_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let held = Lock::take(folder.path()).unwrap();
        let error = Lock::take(folder.path()).unwrap_err().to_string();
        let expect = format!(
            "another comparison (process {}) is at work in {}: wait",
            std::process::id(),
            folder.path().display()
        );
        assert!(error.starts_with(&expect), "{error}");
        drop(held);
        drop(Lock::take(folder.path()).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_file_of_a_killed_lab_locks_nothing() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(FILE), "4194304123\n").unwrap();
        let _held = Lock::take(folder.path()).unwrap();
        let holder = fs::read_to_string(folder.path().join(FILE)).unwrap();
        assert_eq!(holder, format!("{}\n", std::process::id()));
    }

    #[test]
    fn a_folder_that_stayed_empty_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (empty, full) = (folder.path().join("a/empty"), folder.path().join("full"));
        drop(Lock::take(&empty).unwrap());
        assert!(!empty.exists());
        let held = Lock::take(&full).unwrap();
        fs::write(full.join("results.json"), "{}").unwrap();
        drop(held);
        assert!(full.join("results.json").exists());
        drop(Lock::take(folder.path()).unwrap());
        assert!(folder.path().exists());
    }
}
