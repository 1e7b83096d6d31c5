//! Folders: copied whole, and summed up in a digest that changes when anything in them does. Nothing is followed out of
//! them.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use sha2::{Digest as _, Sha256};

/// History is no part of what runs, and results of earlier comparisons change with each.
const SKIPPED: [&str; 2] = [".git", "highball-lab"];

/// Copies `from` to `to`, which must not exist. Leaves out what is in `skipped`, by absolute path.
pub(super) fn folder(from: &Path, to: &Path, skipped: &[&Path]) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    for path in entries(from, skipped)? {
        let target = to.join(path.file_name().unwrap_or_default());
        let copied = match kind(&path)? {
            Kind::Folder => {
                folder(&path, &target, skipped)?;
                continue;
            }
            Kind::File => fs::copy(&path, &target).map(|_| ()),
            Kind::Link => {
                fs::read_link(&path).and_then(|link| std::os::unix::fs::symlink(link, &target))
            }
            Kind::Other => Ok(()),
        };
        copied
            .with_context(|| format!("cannot copy {} to {}", path.display(), target.display()))?;
    }
    let mode = fs::metadata(from).with_context(|| format!("cannot read {}", from.display()))?;
    fs::set_permissions(to, mode.permissions())
        .with_context(|| format!("cannot write {}", to.display()))
}

/// The digest of all names, modes and contents in `from`, and of `more`, in hexadecimal.
pub(super) fn digest(from: &Path, skipped: &[&Path], more: &str) -> Result<String> {
    let mut hasher = Sha256::new();
    hasher.update(more);
    add(&mut hasher, from, from, skipped)?;
    Ok(hasher
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

/// The last lines of an output, as many as belong into an error message.
pub(super) fn end_of(text: &str) -> &str {
    let text = text.trim_end();
    let start = text
        .rmatch_indices('\n')
        .nth(19)
        .map_or(0, |(at, _)| at + 1);
    &text[start..]
}

enum Kind {
    Folder,
    File,
    Link,
    /// A socket, a pipe: nothing that could be copied.
    Other,
}

fn kind(path: &Path) -> Result<Kind> {
    let kind = fs::symlink_metadata(path)
        .with_context(|| format!("cannot read {}", path.display()))?
        .file_type();
    Ok(match (kind.is_dir(), kind.is_file(), kind.is_symlink()) {
        (true, _, _) => Kind::Folder,
        (_, true, _) => Kind::File,
        (_, _, true) => Kind::Link,
        _ => Kind::Other,
    })
}

/// What is in a folder, by name.
fn entries(folder: &Path, skipped: &[&Path]) -> Result<Vec<PathBuf>> {
    let mut paths = fs::read_dir(folder)
        .and_then(|entries| {
            entries
                .map(|entry| Ok(entry?.path()))
                .collect::<io::Result<Vec<_>>>()
        })
        .with_context(|| format!("cannot read {}", folder.display()))?;
    paths.retain(|path| {
        let named = path.file_name().and_then(|name| name.to_str());
        !named.is_some_and(|name| SKIPPED.contains(&name)) && !skipped.contains(&path.as_path())
    });
    paths.sort();
    Ok(paths)
}

fn add(hasher: &mut Sha256, root: &Path, folder: &Path, skipped: &[&Path]) -> Result<()> {
    for path in entries(folder, skipped)? {
        let name = path
            .strip_prefix(root)
            .unwrap_or(&path)
            .as_os_str()
            .as_encoded_bytes();
        // Lengths go before what has one, so that no two folders give the same bytes.
        hasher.update((name.len() as u64).to_le_bytes());
        hasher.update(name);
        match kind(&path)? {
            Kind::Folder => add(hasher, root, &path, skipped)?,
            Kind::File => {
                let opened = fs::File::open(&path).and_then(|file| Ok((file.metadata()?, file)));
                let (metadata, mut file) =
                    opened.with_context(|| format!("cannot read {}", path.display()))?;
                hasher.update(metadata.permissions().mode().to_le_bytes());
                hasher.update(metadata.len().to_le_bytes());
                let mut buffer = vec![0; 64 * 1024];
                loop {
                    let read = io::Read::read(&mut file, &mut buffer)
                        .with_context(|| format!("cannot read {}", path.display()))?;
                    if read == 0 {
                        break;
                    }
                    hasher.update(&buffer[..read]);
                }
            }
            Kind::Link => {
                let link = fs::read_link(&path)
                    .with_context(|| format!("cannot read {}", path.display()))?;
                hasher.update(link.as_os_str().as_encoded_bytes());
            }
            Kind::Other => {}
        }
    }
    Ok(())
}

/// Removes a folder and what is in it; nothing where there is none.
pub(super) fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            bail!("cannot remove {}: {error}", folder.display())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_the_digest_of_the_original_until_either_changes() {
        let root = tempfile::tempdir().unwrap();
        let (from, to) = (root.path().join("from"), root.path().join("to"));
        fs::create_dir_all(from.join("bin")).unwrap();
        fs::write(from.join("bin/run"), "#!/bin/sh\n").unwrap();
        fs::set_permissions(from.join("bin/run"), fs::Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink("run", from.join("bin/start")).unwrap();
        fs::create_dir_all(from.join("work/inner")).unwrap();
        let work = from.join("work");
        let skipped = [work.as_path()];
        folder(&from, &to, &skipped).unwrap();
        assert!(!to.join("work").exists());
        let same = || digest(&from, &skipped, "").unwrap() == digest(&to, &[], "").unwrap();
        assert!(same());
        assert_ne!(
            digest(&to, &[], "").unwrap(),
            digest(&to, &[], "more").unwrap()
        );
        fs::set_permissions(to.join("bin/run"), fs::Permissions::from_mode(0o644)).unwrap();
        assert!(!same());
    }

    #[test]
    fn the_end_of_an_output_is_twenty_lines() {
        let text: String = (1..=30).map(|line| format!("{line}\n")).collect();
        assert!(end_of(&text).starts_with("11\n") && end_of(&text).ends_with("\n30"));
        assert_eq!(end_of("one\n"), "one");
        assert_eq!(end_of(""), "");
    }
}
