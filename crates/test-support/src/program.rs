//! The programs under test: where the binary and its Ruby library are, and one run of a command to its end.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::{Duration, SystemTime};

use crate::TEST_TIMEOUT;
use crate::log::Log;
use crate::process::Process;

/// The repository's root.
pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("crates/test-support lies two levels deep")
        .to_owned()
}

/// The server's program: `HIGHBALL_BIN`, else the one in the target folder and profile of this test, else one in the
/// repository's target folder. Cargo does not build it together with the tests.
///
/// # Panics
/// When there is none; says how to build it.
#[track_caller]
pub fn binary() -> PathBuf {
    let named = std::env::var_os("HIGHBALL_BIN").map(PathBuf::from);
    let candidates = match &named {
        Some(path) => vec![path.clone()],
        None => {
            let test = std::env::current_exe().expect("a test has a path");
            // target/<profile>/deps/<test>
            let profile = test.ancestors().nth(2).expect("a test lies in a profile");
            let target = workspace().join("target");
            let built = [
                profile.to_owned(),
                target.join("release"),
                target.join("debug"),
            ];
            built.map(|profile| profile.join("highball")).into()
        }
    };
    let found = candidates.iter().find(|path| path.is_file());
    let found = found.cloned().unwrap_or_else(|| match &named {
        Some(path) => panic!("HIGHBALL_BIN names {}, which is no file", path.display()),
        None => panic!(
            "no highball program to test: run `cargo build -p highball` (or `make build`) first, or name one in \
             HIGHBALL_BIN; none of these exists: {candidates:?}"
        ),
    });
    if named.is_none() {
        static FRESH: OnceLock<Result<(), String>> = OnceLock::new();
        let fresh = FRESH.get_or_init(|| expect_fresh(&found));
        fresh.as_ref().unwrap_or_else(|stale| panic!("{stale}"));
    }
    found
}

/// Whether no source of the server is newer than its program.
fn expect_fresh(program: &Path) -> Result<(), String> {
    let modified = |path: &Path| {
        std::fs::metadata(path)
            .and_then(|facts| facts.modified())
            .ok()
    };
    let built = modified(program);
    let crates = workspace().join("crates");
    let newer = newest_source(&crates).filter(|(_, changed)| Some(*changed) > built);
    let Some((source, _)) = newer else {
        return Ok(());
    };
    let root = workspace();
    let shown = |path: &Path| {
        path.strip_prefix(&root)
            .unwrap_or(path)
            .display()
            .to_string()
    };
    Err(format!(
        "{} is older than {}: run `cargo build -p highball` (with --release for target/release), or name the program in \
         HIGHBALL_BIN",
        shown(program),
        shown(&source)
    ))
}

/// Crates whose code is not in the server's program.
const NOT_IN_THE_PROGRAM: [&str; 2] = ["extension", "test-support"];

/// The source of the server that was changed last, and when. Tests are no sources of the program.
fn newest_source(dir: &Path) -> Option<(PathBuf, SystemTime)> {
    let entries = std::fs::read_dir(dir).ok()?.flatten();
    let of_entry = |entry: std::fs::DirEntry| {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if path.is_dir() {
            let elsewhere = ["tests", "examples", "benches"].contains(&&*name);
            let elsewhere = elsewhere || NOT_IN_THE_PROGRAM.contains(&&*name);
            return (!elsewhere).then(|| newest_source(&path)).flatten();
        }
        let is_source = (name.ends_with(".rs") && name != "tests.rs") || name == "Cargo.toml";
        let modified = is_source
            .then(|| entry.metadata().ok()?.modified().ok())
            .flatten();
        modified.map(|modified| (path, modified))
    };
    entries
        .filter_map(of_entry)
        .max_by_key(|(_, modified)| *modified)
}

/// The lab's program: `HIGHBALL_LAB_BIN`, else the one next to [`binary`].
///
/// # Panics
/// When there is none.
pub fn lab_binary() -> PathBuf {
    let named = std::env::var_os("HIGHBALL_LAB_BIN").map(PathBuf::from);
    let path = named.unwrap_or_else(|| binary().with_file_name("highball-lab"));
    let found = path.is_file().then_some(path);
    found.expect("the lab is built first: cargo build -p highball-lab, or set HIGHBALL_LAB_BIN")
}

/// The Ruby library with the extension: `HIGHBALL_RUBY_LIB`, else the repository's.
pub fn ruby_library() -> PathBuf {
    match std::env::var_os("HIGHBALL_RUBY_LIB") {
        Some(path) => path.into(),
        None => workspace().join("gem/lib"),
    }
}

/// One run of a program to its end.
#[derive(Debug)]
pub struct Program {
    command: Command,
    patience: Duration,
}

/// How a program ended.
#[derive(Debug)]
pub struct Ran {
    /// The exit status.
    pub status: ExitStatus,
    /// Its stdout.
    pub stdout: String,
    /// Its stderr.
    pub stderr: String,
}

impl Program {
    /// The binary under test with these arguments, without any setting from the test's own environment.
    pub fn highball<I: AsRef<std::ffi::OsStr>>(arguments: impl IntoIterator<Item = I>) -> Self {
        let mut command = Command::new(binary());
        command.args(arguments);
        clean(&mut command);
        Self {
            command,
            patience: TEST_TIMEOUT,
        }
    }

    /// Any other program.
    pub fn new(name: impl AsRef<std::ffi::OsStr>) -> Self {
        Self {
            command: Command::new(name),
            patience: TEST_TIMEOUT,
        }
    }

    /// One more argument.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    /// More arguments.
    #[must_use]
    pub fn args<I: AsRef<std::ffi::OsStr>>(
        mut self,
        arguments: impl IntoIterator<Item = I>,
    ) -> Self {
        self.command.args(arguments);
        self
    }

    /// The folder that it runs in.
    #[must_use]
    pub fn current_dir(mut self, dir: impl AsRef<Path>) -> Self {
        self.command.current_dir(dir);
        self
    }

    /// A variable of its environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Waits this long for its end instead of [`TEST_TIMEOUT`].
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Runs it and waits for its end.
    ///
    /// # Panics
    /// When it cannot be started, or does not end in time (then it is killed).
    #[track_caller]
    pub fn run(mut self) -> Ran {
        let mut child = self
            .command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{:?}: {error}", self.command.get_program()));
        let (stdout, stderr) = (Log::default(), Log::default());
        stdout.follow(child.stdout.take().expect("stdout is piped"));
        stderr.follow(child.stderr.take().expect("stderr is piped"));
        let process = Process(child.id());
        let (send, ended) = mpsc::channel();
        thread::spawn(move || send.send(child.wait().expect("a child of ours")));
        let status = ended.recv_timeout(self.patience).unwrap_or_else(|_| {
            process.kill();
            panic!(
                "{:?} did not end within {:?}:\n{}\n{}",
                self.command,
                self.patience,
                stdout.text(),
                stderr.text()
            )
        });
        stdout.wait_closed();
        stderr.wait_closed();
        Ran {
            status,
            stdout: stdout.text(),
            stderr: stderr.text(),
        }
    }
}

impl Ran {
    /// The process that stdout names first, as `(pid 4711)`.
    ///
    /// # Panics
    /// When it names none.
    #[track_caller]
    pub fn process(&self) -> Process {
        let number = self.stdout.split_once("(pid ");
        let number = number.and_then(|(_, rest)| rest.split(')').next()?.parse().ok());
        Process(number.unwrap_or_else(|| panic!("no process is named: {}", self.output())))
    }

    /// Stdout and stderr, one after the other.
    pub fn output(&self) -> String {
        format!("{}\n{}", self.stdout, self.stderr)
    }
}

/// Variables of other servers that are settings as well.
const SHARED_VARIABLES: [&str; 7] = [
    "PIDFILE",
    "PORT",
    "RACK_ENV",
    "RAILS_ENV",
    "RAILS_MAX_THREADS",
    "RAILS_MIN_THREADS",
    "WEB_CONCURRENCY",
];

/// Takes every setting out of a command's environment, and names the Ruby library.
pub(crate) fn clean(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("HIGHBALL_") || SHARED_VARIABLES.contains(&&*name) {
            command.env_remove(&*name);
        }
    }
    command.env("HIGHBALL_RUBY_LIB", ruby_library());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_that_was_changed_last_is_found_and_tests_are_none() {
        let dir = tempfile::tempdir().expect("a folder");
        let second = |number| SystemTime::UNIX_EPOCH + Duration::from_secs(number);
        for (name, changed) in [
            ("front/src/old.rs", 1),
            ("front/src/new.rs", 3),
            ("front/src/new/tests.rs", 7),
            ("front/tests/wire.rs", 8),
            ("front/notes.md", 9),
            ("extension/src/lib.rs", 9),
            ("config/Cargo.toml", 2),
        ] {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            let file = std::fs::File::create(&path).expect("written");
            file.set_modified(second(changed)).expect("its time is set");
        }
        let newest = newest_source(dir.path());
        let expect = (dir.path().join("front/src/new.rs"), second(3));
        assert_eq!(newest, Some(expect));
    }
}
