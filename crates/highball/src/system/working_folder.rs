//! The folder that this process works in, by the path that its user took: links stay links. Changes nothing.

use std::io;
use std::path::{Component, Path, PathBuf};

/// Returns an absolute path that leads through the same links, in one spelling.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    let path = working_folder().map_or_else(|_| path.to_owned(), |folder| folder.join(path));
    // Without a slash at the end.
    path.components().collect()
}

/// Returns the working folder, by the path that led there.
///
/// # Errors
/// The folder does not exist any more.
pub(crate) fn working_folder() -> io::Result<PathBuf> {
    let shell = std::env::var_os("PWD").unwrap_or_default();
    std::env::current_dir().map(|folder| logical(Path::new(&shell), folder))
}

/// Returns the shell's path of this folder, with the links that its user followed; the folder's own path where the shell's
/// leads elsewhere by now.
fn logical(shell: &Path, folder: PathBuf) -> PathBuf {
    let through = |part| matches!(part, Component::ParentDir);
    let is_plain = shell.is_absolute() && !shell.components().any(through);
    match is_plain && shell.canonicalize().is_ok_and(|path| path == folder) {
        true => shell.to_owned(),
        false => folder,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_working_folder_is_called_as_the_shell_calls_it_while_that_leads_to_it() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let (first, second, link) = (root.join("1"), root.join("2"), root.join("current"));
        for folder in [&first, &second] {
            std::fs::create_dir(folder).unwrap();
        }
        std::os::unix::fs::symlink(&first, &link).unwrap();
        let check = |shell: &Path, folder: &Path, expect: &Path| {
            assert_eq!(logical(shell, folder.to_owned()), expect, "{shell:?}");
        };
        check(&link, &first, &link);
        check(&first, &first, &first);
        // It leads elsewhere by now, or never led there.
        check(&link, &second, &second);
        for shell in ["", ".", "current", "/nowhere"] {
            check(Path::new(shell), &first, &first);
        }
        check(&root.join("2/../current"), &first, &first);
    }
}
