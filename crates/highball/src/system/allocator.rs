//! What gives the application memory: the variables by which the dynamic linker loads jemalloc, where a good version is
//! installed, or by which the C library keeps few arenas. Loads nothing into this process, and replaces no variable that
//! is set.

use std::env;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use config::{Allocator, RuntimeTuning};

/// The library, by the name under which the linker knows its interface.
const LIBRARY: &str = "libjemalloc.so.2";

/// The first version that does not lock up in processes that were forked.
const FIRST_GOOD: Version = (5, 3);

/// The largest library that is read; Debian's has 0.8 MB, with symbols for a debugger a few more.
const MAX_LIBRARY_BYTES: u64 = 32 * 1024 * 1024;

/// Digits of the commit that ends jemalloc's text of its version: `5.3.0-0-g54eaed1d8b56b1aa528be3bdd1877e59c56fa90c`.
const COMMIT_DIGITS: usize = 40;

/// Few arenas, because Ruby's lock lets one thread run at a time; freed memory goes back to the kernel within a second.
/// Without background threads: the template must have none when it forks.
const JEMALLOC_OPTIONS: &str = "dirty_decay_ms:1000,narenas:2";

/// Tells the template which LD_PRELOAD is the server's: programs that the application starts do not get that.
const PRELOADED: &str = "HIGHBALL_TEMPLATE_PRELOAD";

/// Tells the template why its allocator is what it is, in words; no other process has it.
const REASON: &str = "HIGHBALL_TEMPLATE_ALLOCATOR";

/// Major and minor.
type Version = (u32, u32);

/// A jemalloc that is installed.
#[derive(Debug, PartialEq)]
struct Library {
    path: PathBuf,
    version: Version,
}

/// Returns the variables of the application's processes for its allocator. `own` are those that its table sets, which hold
/// also where they are empty: that is how a table turns one of the server's off. Reads files, so it blocks.
///
/// # Errors
/// The settings name jemalloc, and no good version is installed.
pub(crate) fn variables(
    allocator: Allocator,
    runtime: RuntimeTuning,
    own: &[(String, String)],
) -> Result<Vec<(String, String)>> {
    let is_set = |name: &str| {
        let is_own = own.iter().any(|(own, _)| own == name);
        is_own || env::var_os(name).is_some_and(|value| !value.is_empty())
    };
    decide(allocator, runtime, is_set, &folders())
}

fn decide(
    allocator: Allocator,
    runtime: RuntimeTuning,
    is_set: impl Fn(&str) -> bool,
    folders: &[PathBuf],
) -> Result<Vec<(String, String)>> {
    let mut all = Vec::new();
    let mut give = |name: &str, value: &str| all.push((name.to_owned(), value.to_owned()));
    let reason = match allocator {
        Allocator::Auto if runtime == RuntimeTuning::Plain => {
            give(REASON, "runtime = \"plain\"");
            return Ok(all);
        }
        Allocator::System => "allocator = \"system\"".to_owned(),
        // Another allocator, or a library that counts on being loaded alone.
        _ if is_set("LD_PRELOAD") => "your LD_PRELOAD holds".to_owned(),
        Allocator::Auto | Allocator::Jemalloc => match find(folders) {
            Ok(library) => {
                let (path, (major, minor)) = (library.path.display(), library.version);
                give("LD_PRELOAD", &path.to_string());
                give(PRELOADED, &path.to_string());
                if !is_set("MALLOC_CONF") {
                    give("MALLOC_CONF", JEMALLOC_OPTIONS);
                }
                give(REASON, &format!("version {major}.{minor} is at {path}"));
                return Ok(all);
            }
            Err(reason) if allocator == Allocator::Jemalloc => {
                bail!(
                    "{reason}; Debian and Ubuntu: apt-get install libjemalloc2 (setting `allocator`)"
                )
            }
            Err(reason) => reason,
        },
    };
    // The C library gives each thread an arena, and Ruby's threads leave each of them half empty.
    let arenas = match is_set("MALLOC_ARENA_MAX") {
        true => "your MALLOC_ARENA_MAX holds",
        false => {
            give("MALLOC_ARENA_MAX", "2");
            "MALLOC_ARENA_MAX=2"
        }
    };
    give(REASON, &format!("{reason}; {arenas}"));
    Ok(all)
}

/// Folders in which distributions keep libraries.
fn folders() -> Vec<PathBuf> {
    let multiarch = format!("/usr/lib/{}-linux-gnu", env::consts::ARCH);
    let all = [&multiarch, "/usr/lib64", "/usr/lib"];
    all.into_iter().map(PathBuf::from).collect()
}

/// The first good jemalloc of these folders.
///
/// # Errors
/// There is none; says what there is.
fn find(folders: &[PathBuf]) -> Result<Library, String> {
    let all = folders.iter().filter_map(|folder| {
        let path = folder.join(LIBRARY);
        let version = version(&read(&path)?)?;
        Some(Library { path, version })
    });
    let (good, old): (Vec<_>, Vec<_>) = all.partition(|library| library.version >= FIRST_GOOD);
    if let Some(first) = good.into_iter().next() {
        return Ok(first);
    }
    let (major, minor) = FIRST_GOOD;
    Err(match old.first() {
        Some(Library { path, version }) => format!(
            "jemalloc {}.{} at {} can lock up after a fork, and {major}.{minor} or newer is not installed",
            version.0,
            version.1,
            path.display()
        ),
        None => format!("jemalloc {major}.{minor} or newer is not installed"),
    })
}

/// The content of a file of at most so many bytes; nothing of what is no file, such as a pipe.
fn read(path: &Path) -> Option<Vec<u8>> {
    let facts = fs::metadata(path).ok()?;
    if !facts.is_file() || facts.len() > MAX_LIBRARY_BYTES {
        return None;
    }
    let mut content = Vec::new();
    let mut file = File::open(path).ok()?.take(MAX_LIBRARY_BYTES);
    file.read_to_end(&mut content).ok()?;
    Some(content)
}

/// Major and minor version that a jemalloc says of itself.
fn version(content: &[u8]) -> Option<Version> {
    let is_text = |byte: &u8| byte.is_ascii_graphic();
    content.split(|byte| !is_text(byte)).find_map(|text| {
        let text = std::str::from_utf8(text).ok()?;
        let (version, commit) = text.split_once("-g")?;
        let is_commit =
            commit.len() == COMMIT_DIGITS && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
        let mut numbers = version.split('.');
        let mut number = || numbers.next()?.parse().ok();
        is_commit.then_some((number()?, number()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMIT: &str = "54eaed1d8b56b1aa528be3bdd1877e59c56fa90c";

    fn library(version: &str) -> Vec<u8> {
        format!("\x7fELF\0name-of-something\0{version}-0-g{COMMIT}\0more").into_bytes()
    }

    /// Folders with libraries of these versions.
    fn folders(versions: &[&str]) -> (tempfile::TempDir, Vec<PathBuf>) {
        let all = tempfile::tempdir().unwrap();
        let folders: Vec<_> = versions.iter().map(|name| all.path().join(name)).collect();
        for (folder, version) in folders.iter().zip(versions) {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join(LIBRARY), library(version)).unwrap();
        }
        (all, folders)
    }

    /// Names and values but those for the template, and the reason.
    fn decided(
        allocator: Allocator,
        runtime: RuntimeTuning,
        set: &[&str],
        folders: &[PathBuf],
    ) -> (Vec<(String, String)>, String) {
        let is_set = |name: &str| set.contains(&name);
        let mut all = decide(allocator, runtime, is_set, folders).unwrap();
        let (_, reason) = all.pop().unwrap();
        all.retain(|(name, _)| name != PRELOADED);
        (all, reason)
    }

    #[test]
    fn the_version_is_the_one_that_the_library_says() {
        assert_eq!(version(&library("5.3.0")), Some((5, 3)));
        assert_eq!(version(&library("5.2.1")), Some((5, 2)));
        assert_eq!(version(b"5.3.0-0-gshort\0"), None);
        assert_eq!(version(b""), None);
    }

    #[test]
    fn a_jemalloc_that_locks_up_after_a_fork_is_passed_over() {
        let (_all, folders) = folders(&["5.2.1", "5.3.0"]);
        let good = Library {
            path: folders[1].join(LIBRARY),
            version: (5, 3),
        };
        assert_eq!(find(&folders), Ok(good));
        let old = find(&folders[..1]).unwrap_err();
        assert!(old.contains("jemalloc 5.2 at "), "{old}");
        let (given, reason) = decided(Allocator::Auto, RuntimeTuning::Auto, &[], &folders[..1]);
        assert_eq!(given, [("MALLOC_ARENA_MAX".to_owned(), "2".to_owned())]);
        assert!(reason.contains("lock up"), "{reason}");
        let wanted = decide(
            Allocator::Jemalloc,
            RuntimeTuning::Auto,
            |_| false,
            &folders[..1],
        );
        let error = wanted.unwrap_err().to_string();
        assert!(error.contains("libjemalloc2"), "{error}");
    }

    #[test]
    fn what_is_no_file_or_too_large_is_not_read() {
        let (all, folders) = folders(&["5.3.0"]);
        let path = folders[0].join(LIBRARY);
        let file = File::options().write(true).open(&path).unwrap();
        file.set_len(MAX_LIBRARY_BYTES + 1).unwrap();
        assert!(find(&folders).is_err());
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(find(&folders).is_err());
        assert!(find(&[all.path().join("missing")]).is_err());
    }

    #[test]
    fn variables_that_are_set_hold() {
        let (_all, folders) = folders(&["5.3.0"]);
        let auto = |set: &[&str]| decided(Allocator::Auto, RuntimeTuning::Auto, set, &folders);
        let names = |given: &[(String, String)]| -> Vec<String> {
            given.iter().map(|(name, _)| name.clone()).collect()
        };
        assert_eq!(names(&auto(&[]).0), ["LD_PRELOAD", "MALLOC_CONF"]);
        assert_eq!(names(&auto(&["MALLOC_CONF"]).0), ["LD_PRELOAD"]);
        let (given, reason) = auto(&["LD_PRELOAD"]);
        assert_eq!(names(&given), ["MALLOC_ARENA_MAX"]);
        assert!(reason.contains("your LD_PRELOAD holds"), "{reason}");
        assert!(auto(&["LD_PRELOAD", "MALLOC_ARENA_MAX"]).0.is_empty());
    }

    #[test]
    fn a_plain_runtime_changes_nothing_but_what_is_named() {
        let (_all, folders) = folders(&["5.3.0"]);
        let plain = |allocator| decided(allocator, RuntimeTuning::Plain, &[], &folders).0;
        assert!(plain(Allocator::Auto).is_empty());
        assert_eq!(plain(Allocator::Jemalloc)[0].0, "LD_PRELOAD");
        assert_eq!(plain(Allocator::System)[0].0, "MALLOC_ARENA_MAX");
    }
}
