//! Where spools put their files, and how much all of them may take there. It opens nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Access, FsWord, access, statfs};

use crate::shared_bytes::SharedBytes;

/// `f_type` of file systems whose files are memory (statfs(2)): tmpfs, ramfs.
const IN_MEMORY: [FsWord; 2] = [0x0102_1994, 0x8584_58f6];

/// A folder for files of spools, and the bytes that they take together.
#[derive(Clone, Debug)]
pub struct SpoolPlace {
    /// The folder.
    pub directory: Arc<Path>,
    /// What all files take.
    pub space: Arc<SharedBytes>,
}

impl SpoolPlace {
    /// The folder of the setting, or the one that is [found](directory).
    pub fn new(wanted: Option<&str>, limit: u64) -> Self {
        let directory = wanted.map_or_else(directory, PathBuf::from);
        Self {
            directory: directory.into(),
            space: SharedBytes::new(usize::try_from(limit).unwrap_or(usize::MAX)),
        }
    }
}

/// The first of `TMPDIR`, `/var/tmp` and `/tmp` that is on a disk and may be written to. Where none is: the system's
/// folder for temporary files.
pub fn directory() -> PathBuf {
    let temporary = std::env::temp_dir();
    let candidates = [
        temporary.as_path(),
        Path::new("/var/tmp"),
        Path::new("/tmp"),
    ];
    let found = candidates.into_iter().find(|path| is_good(path));
    found.unwrap_or(&temporary).to_owned()
}

fn is_good(path: &Path) -> bool {
    path.is_dir() && access(path, Access::WRITE_OK).is_ok() && !is_in_memory(path)
}

/// Whether what is written there takes memory. False where the kernel does not say.
pub fn is_in_memory(path: &Path) -> bool {
    statfs(path).is_ok_and(|facts| IN_MEMORY.contains(&facts.f_type))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_in_memory_is_known_as_such() {
        assert!(is_in_memory(Path::new("/dev/shm")));
        assert!(!is_in_memory(Path::new("/proc")));
        assert!(!is_in_memory(Path::new("/nonexistent")));
        assert!(!is_good(Path::new("/dev/shm")));
        assert!(!is_good(Path::new("/nonexistent")));
    }

    #[test]
    fn the_folder_of_the_setting_is_taken_as_it_is() {
        let place = SpoolPlace::new(Some("/dev/shm"), 5);
        assert_eq!(&*place.directory, Path::new("/dev/shm"));
        assert!(!place.space.is_short());
    }
}
