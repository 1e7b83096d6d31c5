//! Whether a program may be run that a command names: only root and this process's user may be able to change its file and
//! every folder on the way to it. Opens and runs nothing.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// May be written to by the group, or by every user.
const WRITABLE_BY_OTHERS: u32 = 0o022;
/// In such a folder only its owner can rename and remove a file.
const STICKY: u32 = 0o1000;

/// Returns the path of a program without links, if no other user can change what it leads to.
///
/// Checks each part from the root on; none of them is a link. A file in a folder that others cannot write to stays the
/// same, so the program may be run by its path a little later.
///
/// # Errors
/// It does not exist, or another user can change it; says which part, and what to do.
pub(crate) fn check(program: &Path, uid: u32) -> Result<PathBuf> {
    let cannot_run = || format!("cannot run {}", program.display());
    let path = program.canonicalize().with_context(cannot_run)?;
    let mut parts: Vec<&Path> = path.ancestors().collect();
    parts.reverse();
    for part in parts {
        check_part(part, part == path, uid).with_context(cannot_run)?;
    }
    Ok(path)
}

fn check_part(part: &Path, last: bool, uid: u32) -> Result<()> {
    let facts = std::fs::symlink_metadata(part)?;
    let (mode, kind) = (facts.mode(), facts.file_type());
    let shown = part.display();
    if kind.is_symlink() {
        bail!("{shown} was replaced by a link while it was checked: try again");
    }
    if facts.uid() != 0 && facts.uid() != uid {
        bail!(
            "{shown} belongs to uid {}: only programs of root or of the server's user (uid {uid}) are run",
            facts.uid()
        );
    }
    // In a sticky folder only the owner can replace the next part, and that is checked next.
    let sticky = kind.is_dir() && mode & STICKY != 0;
    if mode & WRITABLE_BY_OTHERS != 0 && !sticky {
        bail!(
            "{shown} (mode {:04o}) can be changed by other users: chmod go-w it",
            mode & 0o7777
        );
    }
    if last && !kind.is_file() || kind.is_fifo() {
        bail!("{shown} is not a regular file");
    }
    Ok(())
}
