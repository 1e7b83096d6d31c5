//! The ends of a stack's logs, for messages. It reads little of each, for a log of requests can be large.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

/// Lines of each log that are shown.
const LINES: usize = 15;
/// Bytes at the end of a log that are read for them.
const BYTES: u64 = 16 * 1024;

/// The last lines of every `*.log` in `folder`, under its name.
pub(super) fn ends(folder: &Path) -> String {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
    paths.sort();
    let ends = paths.iter().filter_map(|path| {
        let end = end_of(path).ok()?;
        let name = path.file_name()?.to_string_lossy();
        (!end.is_empty()).then(|| format!("--- end of {name}\n{end}"))
    });
    ends.collect::<Vec<_>>().join("\n")
}

/// The last lines that are not blank.
fn end_of(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(BYTES)))?;
    let mut end = Vec::new();
    file.read_to_end(&mut end)?;
    let end = String::from_utf8_lossy(&end);
    let lines: Vec<&str> = end.lines().filter(|line| !line.trim().is_empty()).collect();
    Ok(lines[lines.len().saturating_sub(LINES)..].join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_log_is_shown_by_its_last_lines() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        assert_eq!(ends(folder.path()), "");
        write("b.log", "one\n\n  \ntwo\n");
        write(
            "a.log",
            &(1..=5000)
                .map(|number| format!("line {number}\n"))
                .collect::<String>(),
        );
        write("empty.log", "\n");
        write("a.conf", "no log");
        let text = ends(folder.path());
        assert!(text.starts_with("--- end of a.log\nline 4986\n"), "{text}");
        assert!(
            text.ends_with("line 5000\n--- end of b.log\none\ntwo"),
            "{text}"
        );
    }
}
