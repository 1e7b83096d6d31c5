//! The program that this process runs, and how it was started: an upgrade starts it again. Starts nothing.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::system::working_folder::{absolute, working_folder};

/// A program and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// Its absolute path, as it was named: a link may lead to another file by now.
    pub(crate) path: PathBuf,
    /// The arguments after its name.
    pub(crate) arguments: Vec<OsString>,
    /// The working folder at its start, as it was named; empty where that did not exist any more.
    pub(crate) folder: PathBuf,
}

impl Program {
    /// The program of this process. To be called at its start: later its file may be another one.
    ///
    /// # Errors
    /// The kernel does not say.
    pub(crate) fn of_this_process() -> std::io::Result<Self> {
        let mut arguments = std::env::args_os();
        let name = arguments.next().unwrap_or_default();
        let folders = std::env::var_os("PATH").unwrap_or_default();
        Ok(Self {
            path: named(&name, &folders, &std::env::current_exe()?),
            arguments: arguments.collect(),
            folder: working_folder().unwrap_or_default(),
        })
    }
}

/// The number of this process.
pub(crate) fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// Returns the path by which `running` was started: `name` itself, or the file of that name in one of the `folders`;
/// `running` where the name leads to another file.
fn named(name: &OsStr, folders: &OsStr, running: &Path) -> PathBuf {
    let name = Path::new(name);
    let candidates = match name.components().count() {
        1 => std::env::split_paths(folders)
            .map(|folder| folder.join(name))
            .collect(),
        _ => vec![name.to_owned()],
    };
    let itself = |path: &PathBuf| path.canonicalize().is_ok_and(|path| path == running);
    let found = candidates
        .into_iter()
        .map(|path| absolute(&path))
        .find(itself);
    found.unwrap_or_else(|| running.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_by_its_name_and_links_are_kept() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let program = root.join("releases-1");
        std::fs::write(&program, "").unwrap();
        for folder in ["empty", "bin"] {
            std::fs::create_dir(root.join(folder)).unwrap();
        }
        let link = root.join("bin/highball");
        std::os::unix::fs::symlink(&program, &link).unwrap();
        let folders = std::env::join_paths([root.join("empty"), root.join("bin")]).unwrap();
        let check = |name: &OsStr, expect: &Path| {
            assert_eq!(named(name, &folders, &program), expect, "{name:?}");
        };
        check("highball".as_ref(), &link);
        check(link.as_os_str(), &link);
        check(program.as_os_str(), &program);
        // The name may be anything: the caller of exec(2) chooses it.
        check("other".as_ref(), &program);
        check("/nowhere/highball".as_ref(), &program);
        check("".as_ref(), &program);
    }
}
