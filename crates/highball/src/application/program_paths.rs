//! Whether what is run for an application could be replaced by another application: its interpreter and Highball's Ruby
//! files. With users of their own, one that can change them would run its code as the other. Opens and runs nothing.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// May be written to by every user.
const WRITABLE_BY_ALL: u32 = 0o002;
/// In such a folder only its owner can rename and remove a file.
const STICKY: u32 = 0o1000;

/// Checks each folder on the way to these files, by the paths as they are named and without links.
///
/// # Errors
/// One belongs to one of the users `others`, or every user can change it; says which part, and what to do.
pub(crate) fn check(ruby: &str, library: &Path, others: &[u32]) -> Result<()> {
    for path in interpreter(ruby).into_iter().chain([library.to_owned()]) {
        let resolved = path
            .canonicalize()
            .with_context(|| format!("cannot find {}", path.display()))?;
        for part in path.ancestors().chain(resolved.ancestors()) {
            if !part.as_os_str().is_empty() {
                let facts = std::fs::symlink_metadata(part);
                let facts = facts.with_context(|| format!("cannot look at {}", part.display()))?;
                check_part(part, &facts, others)
                    .with_context(|| format!("cannot run {} for it", path.display()))?;
            }
        }
    }
    Ok(())
}

fn check_part(part: &Path, facts: &Metadata, others: &[u32]) -> Result<()> {
    let (mode, shown) = (facts.mode(), part.display());
    if others.contains(&facts.uid()) {
        bail!(
            "{shown} belongs to uid {}, the user of another application, which could change it: have it belong to root",
            facts.uid()
        );
    }
    let is_protected = facts.is_symlink() || facts.is_dir() && mode & STICKY != 0;
    if mode & WRITABLE_BY_ALL != 0 && !is_protected {
        bail!("every user can change {shown}: chmod o-w it");
    }
    Ok(())
}

/// The path of the interpreter; none where it is not found, which its start says.
fn interpreter(ruby: &str) -> Option<PathBuf> {
    if ruby.contains('/') {
        // A relative one is within the application's own folder.
        return Some(PathBuf::from(ruby)).filter(|path| path.is_absolute());
    }
    let folders = std::env::var_os("PATH")?;
    let mut all = std::env::split_paths(&folders).map(|folder| folder.join(ruby));
    all.find(|path| path.is_file())
}
