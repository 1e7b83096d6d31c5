//! What an application is made of: versions, by loading it once as a server does, and its commit. What cannot be found
//! out is left out; it never fails a comparison: the first trial reports a broken application better.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Prints versions, one a line.
const SCRIPT: &str = include_str!("versions.rb");
/// How long an application may take to load before its versions are given up.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// Versions by name: Ruby, Rack, the framework, the database's library.
pub(super) fn versions(
    folder: &Path,
    environment: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let mut command = Command::new("ruby");
    command
        .args(["-e", SCRIPT])
        .current_dir(folder)
        .envs(environment);
    let mut versions = parse(&output(&mut command).unwrap_or_default());
    if !versions.contains_key("ruby") {
        // The one that would run it, where it could not even be loaded.
        let plain = output(
            Command::new("ruby").args(["-e", "puts \"ruby #{RUBY_VERSION}p#{RUBY_PATCHLEVEL}\""]),
        );
        versions.extend(parse(&plain.unwrap_or_default()));
    }
    versions
}

/// The commit that the folder is at, with `+` where files in it differ from it.
pub(super) fn commit(folder: &Path) -> Option<String> {
    let git =
        |arguments: &[&str]| output(Command::new("git").arg("-C").arg(folder).args(arguments));
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changes = git(&["status", "--porcelain", "--", "."])?;
    let mark = if changes.trim().is_empty() { "" } else { "+" };
    Some(format!("{}{mark}", commit.trim()))
}

/// What a command printed; `None` where it could not be started, failed, or took too long.
pub(super) fn output(command: &mut Command) -> Option<String> {
    // A file and not a pipe: a child that outlives the command would keep a pipe open.
    let mut printed = tempfile::tempfile().ok()?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(clone(&printed)?)
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let deadline = Instant::now() + TIME_LIMIT;
    let status = loop {
        if let Some(status) = child.try_wait().ok()? {
            break status;
        }
        if Instant::now() > deadline {
            // It may have ended meanwhile.
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let mut text = String::new();
    std::io::Seek::rewind(&mut printed).ok()?;
    printed.read_to_string(&mut text).ok()?;
    status.success().then_some(text)
}

fn clone(file: &File) -> Option<File> {
    file.try_clone().ok()
}

fn parse(text: &str) -> BTreeMap<String, String> {
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, version)| (name.to_owned(), version.trim().to_owned()))
        .collect()
}
