//! What a stack needs installed: where it is, in which version, or the command that installs it. It installs nothing.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use serde::Deserialize;

/// A program, a module or a library that must be there.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Program {
    /// As templates name it.
    pub(super) name: String,
    /// Names looked for in `PATH` and the folders of administrators' programs, or whole paths whose last part may hold
    /// one `*`; the first that is there counts. The name itself unless given.
    #[serde(default)]
    find: Vec<String>,
    /// Arguments with which it prints its version; it must succeed with them.
    version: Option<Vec<String>>,
    /// The command that installs it.
    pub(super) install: String,
    /// Why that command may fail, and what else to do. Where the program is missing, this is shown instead of the command.
    pub(super) caveat: Option<String>,
}

/// A program that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// Where.
    pub(super) path: PathBuf,
    /// Its version, where it prints one.
    pub(super) version: Option<String>,
}

/// Folders that hold servers and that a user's `PATH` may lack.
const ADMINISTRATORS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

impl Program {
    /// Where it is and its version; `highball` is the path of the program of that name.
    ///
    /// # Errors
    /// What is missing.
    pub(super) fn look_up(&self, highball: &Path) -> Result<Found, String> {
        let path = self.path(highball).ok_or_else(|| {
            let names = if self.find.is_empty() {
                &self.name
            } else {
                &self.find[0]
            };
            format!("{names} is not there")
        })?;
        let Some(arguments) = &self.version else {
            return Ok(Found {
                path,
                version: None,
            });
        };
        match told_version(&path, arguments) {
            Some(version) => Ok(Found {
                path,
                version: Some(version),
            }),
            None => Err(format!(
                "{} {} prints no version",
                path.display(),
                arguments.join(" ")
            )),
        }
    }

    pub(super) fn path(&self, highball: &Path) -> Option<PathBuf> {
        if self.name == "highball" {
            return highball.is_file().then(|| highball.to_owned());
        }
        let own = std::slice::from_ref(&self.name);
        let names = if self.find.is_empty() {
            own
        } else {
            &self.find
        };
        names.iter().find_map(|name| {
            if name.contains('/') {
                return matching(name);
            }
            let path = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&path)
                .chain(ADMINISTRATORS.map(PathBuf::from))
                .map(|folder| folder.join(name))
                .find(|path| path.is_file())
        })
    }
}

/// The server's program: what `HIGHBALL_BIN` names, else the one in the folder of this program, else `highball` in `PATH`.
pub fn server_program() -> PathBuf {
    let exe = std::env::current_exe().unwrap_or_default();
    server_program_for(std::env::var_os("HIGHBALL_BIN"), &exe)
}

fn server_program_for(named: Option<OsString>, exe: &Path) -> PathBuf {
    if let Some(named) = named.filter(|named| !named.is_empty()) {
        let named = PathBuf::from(named);
        // Stacks are started in the folders of applications.
        return named.canonicalize().unwrap_or(named);
    }
    let exe = exe.canonicalize();
    let sibling = exe.map(|exe| exe.with_file_name("highball"));
    let sibling = sibling.ok().filter(|path| path.is_file());
    sibling.unwrap_or_else(|| PathBuf::from("highball"))
}

/// The path itself, or the last in order of those that fit where its last part holds a `*`.
fn matching(pattern: &str) -> Option<PathBuf> {
    let path = PathBuf::from(pattern);
    let last = path.file_name()?.to_str()?.to_owned();
    let Some((before, after)) = last.split_once('*') else {
        return path.is_file().then_some(path);
    };
    let mut fitting: Vec<PathBuf> = path
        .parent()?
        .read_dir()
        .ok()?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            path.file_name()
                .and_then(|name| name.to_str())
                .is_some_and(|name| {
                    name.len() >= before.len() + after.len()
                        && name.starts_with(before)
                        && name.ends_with(after)
                })
        })
        .collect();
    fitting.sort();
    fitting.pop()
}

/// What `path` says with `arguments`, asked once in the life of this process.
fn told_version(path: &Path, arguments: &[String]) -> Option<String> {
    type Asked = BTreeMap<(PathBuf, Vec<String>), Option<String>>;
    static ASKED: Mutex<Asked> = Mutex::new(BTreeMap::new());
    let key = (path.to_owned(), arguments.to_owned());
    let mut asked = ASKED.lock().expect("no holder panics");
    if let Some(known) = asked.get(&key) {
        return known.clone();
    }
    // From the root folder: a Gemfile in the current one would decide which gems are there.
    let output = Command::new(path)
        .args(arguments)
        .current_dir("/")
        .env_remove("RUBYOPT")
        .env_remove("BUNDLE_GEMFILE")
        .stdin(Stdio::null())
        .output();
    let version = output
        .ok()
        .filter(|output| output.status.success())
        .and_then(|output| {
            let text = [output.stdout, output.stderr].concat();
            first_version(&String::from_utf8_lossy(&text))
        });
    asked.insert(key, version.clone());
    version
}

/// The first thing in `text` that looks like `1.2` or longer.
fn first_version(text: &str) -> Option<String> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || ".+~-".contains(c)))
        .map(|word| word.trim_start_matches('v'))
        .filter(|word| word.starts_with(|c: char| c.is_ascii_digit()))
        .find(|word| {
            word.split('.')
                .take(2)
                .filter(|part| part.starts_with(|c: char| c.is_ascii_digit()))
                .count()
                == 2
        })
        .map(|word| word.trim_end_matches(['.', '-']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(find: &[&str], version: &[&str]) -> Program {
        Program {
            name: "a_program".to_owned(),
            find: find.iter().map(|name| (*name).to_owned()).collect(),
            version: Some(version.iter().map(|word| (*word).to_owned()).collect()),
            install: "install it".to_owned(),
            caveat: None,
        }
    }

    #[test]
    fn the_version_is_the_first_number_with_a_dot() {
        let check = |text: &str, expect: Option<&str>| {
            assert_eq!(first_version(text).as_deref(), expect, "{text}")
        };
        check("nginx version: nginx/1.22.1\n", Some("1.22.1"));
        check("unicorn v6.0.0\n", Some("6.0.0"));
        check(
            "HAProxy version 2.6.12-1+deb12u4 2024/01/01 - https://haproxy.org/",
            Some("2.6.12-1+deb12u4"),
        );
        check("Phusion Passenger(R) 6.0.17\n", Some("6.0.17"));
        check("thin 1.8.1 codename Infinite Smoothie", Some("1.8.1"));
        check("Server version: Apache/2.4.71 (Debian)", Some("2.4.71"));
        check("no number 7 with a dot.", None);
    }

    #[test]
    fn a_program_is_found_by_name_path_or_pattern() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["rack_ruby31_plugin.so", "rack_ruby33_plugin.so", "rack.so"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let pattern = folder.path().join("rack_*_plugin.so");
        assert_eq!(
            matching(pattern.to_str().unwrap()),
            Some(folder.path().join("rack_ruby33_plugin.so"))
        );
        assert_eq!(matching("/nonexistent/*.so"), None);

        let highball = Path::new("highball");
        let found = program(&["no-such-program", "bash"], &["--version"])
            .look_up(highball)
            .unwrap();
        assert!(
            found.path.ends_with("bash") && found.version.is_some(),
            "{found:?}"
        );
        let missing = program(&["no-such-program"], &[])
            .look_up(highball)
            .unwrap_err();
        assert_eq!(missing, "no-such-program is not there");
        let failing = program(&["false"], &["-v"]).look_up(highball).unwrap_err();
        assert!(failing.ends_with("false -v prints no version"), "{failing}");
    }

    #[test]
    fn the_server_is_the_named_program_or_the_one_next_to_the_lab() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        for name in ["highball", "highball-lab", "other"] {
            std::fs::write(folder.join(name), "").unwrap();
        }
        let exe = folder.join("highball-lab");
        let found = |named: Option<&Path>| server_program_for(named.map(Into::into), &exe);
        assert_eq!(found(None), folder.join("highball"));
        assert_eq!(found(Some(Path::new(""))), folder.join("highball"));
        assert_eq!(found(Some(&folder.join("./other"))), folder.join("other"));
        let missing = Path::new("/nonexistent/highball");
        assert_eq!(found(Some(missing)), missing);
        std::fs::remove_file(folder.join("highball")).unwrap();
        assert_eq!(found(None), Path::new("highball"));
    }
}
