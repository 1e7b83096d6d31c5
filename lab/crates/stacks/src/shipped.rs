//! Where the lab's data is (applications, stacks, studies): named by `HIGHBALL_LAB`, beside `highball-lab` in a
//! gem, or in the repository that it was built in. Never guesses further.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The variable that names the folder.
const VARIABLE: &str = "HIGHBALL_LAB";
/// What must be there.
const MARK: &str = "apps";

/// Finds the folder of the lab's data, the one that holds `apps`, `stacks` and `studies`.
///
/// # Errors
/// It is nowhere; says where it was looked for.
pub fn folder() -> Result<PathBuf> {
    // The kernel names the file itself, not a link to it such as /usr/bin/highball.
    let exe = std::env::current_exe().context("cannot find the path of this program")?;
    find_for(std::env::var_os(VARIABLE), &exe)
}

fn find_for(named: Option<OsString>, exe: &Path) -> Result<PathBuf> {
    let dir = exe.parent().unwrap_or(Path::new("/"));
    let candidates = match named {
        Some(named) => vec![PathBuf::from(named)],
        // libexec/highball-lab in the gem; target/release/highball-lab in the repository.
        None => vec![dir.join("../lab"), dir.join("../../lab")],
    };
    let found = candidates.iter().find(|path| path.join(MARK).is_dir());
    if let Some(found) = found {
        return found
            .canonicalize()
            .with_context(|| format!("cannot open {}", found.display()));
    }
    let looked: Vec<_> = candidates
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    bail!(
        "cannot find the lab's data in {}; name its folder in {VARIABLE}",
        looked.join(" or ")
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_is_found_where_the_gem_and_the_repository_have_it() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let check = |exe: &str, named: Option<&str>, expect: Option<&str>| {
            let named = named.map(|name| root.join(name).into_os_string());
            let found = find_for(named, &root.join(exe)).ok();
            assert_eq!(found, expect.map(|path| root.join(path)), "{exe}");
        };
        for dir in [
            "gem/libexec",
            "gem/lab/apps",
            "repo/target/debug",
            "repo/lab/apps",
        ] {
            std::fs::create_dir_all(root.join(dir)).unwrap();
        }
        check("gem/libexec/highball-lab", None, Some("gem/lab"));
        check("repo/target/debug/highball-lab", None, Some("repo/lab"));
        check(
            "gem/libexec/highball-lab",
            Some("repo/lab"),
            Some("repo/lab"),
        );
        check("gem/libexec/highball-lab", Some("repo"), None);
    }
}
