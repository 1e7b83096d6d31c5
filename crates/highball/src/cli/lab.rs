//! The lab's commands: a program of their own, `highball-lab`, that takes the place of this one, so that terminal, signals
//! and exit status are the lab's. Its arguments are passed on as they were given and not looked at.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

/// The program.
const PROGRAM: &str = "highball-lab";

/// Its commands, and what each does.
pub(crate) const COMMANDS: [(&str, &str); 4] = [
    ("load", "Drive a URL with requests and say what came of it"),
    (
        "compare",
        "Run an application under several stacks and say which is better, by how much, and how sure that is",
    ),
    (
        "study",
        "Run one of five studies of 2006 to 2014 on software of today, or list them",
    ),
    (
        "stacks",
        "What can be compared here: installed, in which version, or how to install it",
    ),
];

/// Becomes the lab's program with these arguments; returns only where that fails.
///
/// # Errors
/// The program is in none of its places, which are named, or it cannot be executed.
pub(crate) fn become_lab(arguments: &[OsString]) -> Result<()> {
    let exe = std::env::current_exe().context("cannot find the path of this program")?;
    // A link in a folder of programs says nothing about where the gem is.
    let program = find(&exe.canonicalize().unwrap_or(exe))?;
    let error = Command::new(&program).args(arguments).exec();
    Err(error).with_context(|| format!("cannot run {}", program.display()))
}

fn find(exe: &Path) -> Result<PathBuf> {
    let folder = exe.parent().unwrap_or(Path::new("/"));
    // libexec of the gem, or target/release of the repository, where a gem may have been built without it.
    let candidates = [
        folder.join(PROGRAM),
        folder.join("../../gem/libexec").join(PROGRAM),
    ];
    if let Some(found) = candidates.iter().find(|path| path.is_file()) {
        return Ok(found.clone());
    }
    let looked: Vec<_> = candidates
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    bail!(
        "{PROGRAM}, which has this command, is in none of its places: {}; install highball again",
        looked.join(", ")
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lab_is_found_beside_the_program_and_in_the_gem() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        for folder in ["gem/libexec", "target/release"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        let exe = root.join("target/release/highball");
        let error = find(&exe).unwrap_err().to_string();
        assert!(error.contains("target/release/highball-lab, "), "{error}");
        assert!(error.contains("gem/libexec/highball-lab"), "{error}");
        for place in ["gem/libexec", "target/release"] {
            std::fs::write(root.join(place).join(PROGRAM), "").unwrap();
            let found = find(&exe).unwrap().canonicalize().unwrap();
            assert_eq!(found, root.join(place).join(PROGRAM));
        }
    }
}
