//! Where Highball's Ruby files are: in `HIGHBALL_RUBY_LIB`, next to the program in a gem, or in the repository that the
//! program was built in. It looks nowhere else.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The variable that names the folder.
const VARIABLE: &str = "HIGHBALL_RUBY_LIB";
/// What must be there.
const TEMPLATE: &str = "highball/template.rb";

/// Finds the folder of the Ruby files.
///
/// # Errors
/// It is in none of these places; names them.
pub(crate) fn find() -> Result<PathBuf> {
    // The kernel names the file itself, not a link to it such as /usr/bin/highball.
    let exe = std::env::current_exe().context("cannot find the path of this program")?;
    find_for(std::env::var_os(VARIABLE), &exe)
}

fn find_for(named: Option<OsString>, exe: &Path) -> Result<PathBuf> {
    let dir = exe.parent().unwrap_or(Path::new("/"));
    let candidates = match named {
        Some(named) => vec![PathBuf::from(named)],
        // libexec/highball in the gem; target/release/highball in the repository.
        None => vec![dir.join("../lib"), dir.join("../../gem/lib")],
    };
    let found = candidates.iter().find(|path| path.join(TEMPLATE).is_file());
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
        "cannot find {TEMPLATE} in {}; install the gem again, or name its lib folder in {VARIABLE}",
        looked.join(" or ")
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_found_where_the_gem_and_the_repository_have_it() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let check = |exe: &str, named: Option<&str>, expect: Option<&str>| {
            let named = named.map(|name| root.join(name).into_os_string());
            let found = find_for(named, &root.join(exe)).ok();
            assert_eq!(found, expect.map(|path| root.join(path)), "{exe}");
        };
        for dir in [
            "gem/libexec",
            "gem/lib/highball",
            "repo/target/debug",
            "repo/gem/lib/highball",
        ] {
            std::fs::create_dir_all(root.join(dir)).unwrap();
        }
        check("gem/libexec/highball", None, None);
        for lib in ["gem/lib", "repo/gem/lib"] {
            std::fs::write(root.join(lib).join(TEMPLATE), "").unwrap();
        }
        check("gem/libexec/highball", None, Some("gem/lib"));
        check("repo/target/debug/highball", None, Some("repo/gem/lib"));
        check(
            "gem/libexec/highball",
            Some("repo/gem/lib"),
            Some("repo/gem/lib"),
        );
        check("gem/libexec/highball", Some("repo"), None);
    }
}
