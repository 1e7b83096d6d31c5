//! Whether a program may be run that somebody else has named: its file, and every folder on the way to it, can be
//! changed by root or by this process's user alone. Opens and runs nothing.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// May be written to by the group, or by anybody.
const WRITABLE_BY_OTHERS: u32 = 0o022;
/// What is in such a folder can be renamed and removed by its owner alone.
const STICKY: u32 = 0o1000;

/// The path of a program without links, once it is known that nobody else can change what it leads to.
///
/// Each part is looked at from the root on, and none of them is a link. What lies in a folder that others cannot write to
/// is still the same later, so it does not matter that the program is run by its path and a little later.
///
/// # Errors
/// It is not there, or somebody else can change it; says which part, and what to do.
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
        bail!("{shown} has become a link just now");
    }
    if facts.uid() != 0 && facts.uid() != uid {
        bail!(
            "{shown} belongs to user {}, and only what belongs to root or to the server's user ({uid}) is run",
            facts.uid()
        );
    }
    // What follows in a sticky folder is its owner's, which is looked at next.
    let sticky = kind.is_dir() && mode & STICKY != 0;
    if mode & WRITABLE_BY_OTHERS != 0 && !sticky {
        bail!(
            "{shown} (mode {:04o}) can be changed by other users: chmod go-w it",
            mode & 0o7777
        );
    }
    if last && !kind.is_file() || kind.is_fifo() {
        bail!("{shown} is no file");
    }
    Ok(())
}
