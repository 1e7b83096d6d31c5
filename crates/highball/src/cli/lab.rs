//! The lab's commands: a program of their own, `highball-lab`, that takes the place of this one, so that terminal, signals
//! and exit status are the lab's. Its arguments are passed on as they were given and not looked at.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

/// The program.
const PROGRAM: &str = "highball-lab";

/// Becomes the lab's program with these arguments; returns only where that fails.
///
/// # Errors
/// The program is in none of its places, which are named, or it cannot be executed.
pub(crate) fn become_lab(arguments: &[OsString]) -> Result<()> {
    // The kernel names the file itself, not a link to it such as /usr/bin/highball.
    let exe = std::env::current_exe().context("cannot find the path of this program")?;
    let program = find(&exe)?;
    let error = Command::new(&program).args(arguments).exec();
    Err(error).with_context(|| format!("cannot run {}", program.display()))
}

fn find(exe: &Path) -> Result<PathBuf> {
    let folder = exe.parent().unwrap_or(Path::new("/"));
    let program = folder.join(PROGRAM);
    if program.is_file() {
        return Ok(program);
    }
    // target/release or target/debug of a checkout.
    let in_checkout = folder.join("../../Cargo.toml").is_file();
    let help = match in_checkout {
        true => "run `make build`",
        false => "install highball again",
    };
    bail!(
        "{} is missing, which has this command; {help}",
        program.display()
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lab_is_found_beside_the_program_or_the_message_says_what_to_do() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("target/release")).unwrap();
        let exe = root.join("target/release/highball");
        let error = find(&exe).unwrap_err().to_string();
        assert!(error.contains("target/release/highball-lab is"), "{error}");
        assert!(error.ends_with("; install highball again"), "{error}");
        std::fs::write(root.join("Cargo.toml"), "").unwrap();
        let error = find(&exe).unwrap_err().to_string();
        assert!(error.ends_with("; run `make build`"), "{error}");
        let lab = exe.with_file_name(PROGRAM);
        std::fs::write(&lab, "").unwrap();
        assert_eq!(find(&exe).unwrap(), lab);
    }
}
