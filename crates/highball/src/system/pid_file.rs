//! The file with the number of the server's process (setting `pid_file`), for programs that send signals. The server itself
//! never reads another server's number from it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use config::Settings;

use crate::system::program::own_pid;

/// The file of this process. Dropping it removes the file, unless another process has written to it or replaced it: the new
/// server of an upgrade, for example, or one of another container, where its number may be the same.
#[derive(Debug)]
pub(crate) struct PidFile {
    path: PathBuf,
    text: String,
    /// Kept open, so that no other file has its number (st_ino).
    file: File,
}

impl PidFile {
    /// Writes the file that the settings name; `None` if they name none. A file that is there is replaced, and a link is not
    /// followed.
    ///
    /// # Errors
    /// The file cannot be written; names it and the setting.
    pub(crate) fn write(settings: &Settings, dir: &Path) -> Result<Option<Self>> {
        let Some(name) = &settings.pid_file else {
            return Ok(None);
        };
        let path = dir.join(name);
        let text = format!("{}\n", own_pid());
        let file = replace(&path, &text)
            .with_context(|| format!("cannot write {} (setting pid_file)", path.display()))?;
        Ok(Some(Self { path, text, file }))
    }
}

impl PidFile {
    /// Whether the path still leads to the file that this process has written.
    fn is_there(&self) -> io::Result<bool> {
        let (found, own) = (fs::symlink_metadata(&self.path)?, self.file.metadata()?);
        Ok((found.dev(), found.ino()) == (own.dev(), own.ino()))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if self.is_there().is_ok_and(|is| is)
            && fs::read_to_string(&self.path).is_ok_and(|text| text == self.text)
        {
            // Its folder may be gone, or belong to another user by now.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Replaces a file by a new one with this text, in one step: readers see the old text or the new one. Returns the new file.
fn replace(path: &Path, text: &str) -> io::Result<File> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", own_pid()));
    let new = path.with_file_name(name);
    // An earlier process with this number may have left it.
    let _ = fs::remove_file(&new);
    let mut file = OpenOptions::new().write(true).create_new(true).open(&new)?;
    let written = file.write_all(text.as_bytes());
    let replaced = written.and_then(|()| fs::rename(&new, path));
    replaced.map(|()| file).inspect_err(|_| {
        let _ = fs::remove_file(&new);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file_in(dir: &Path) -> Result<Option<PidFile>> {
        let settings = Settings {
            pid_file: Some("server.pid".to_owned()),
            ..Settings::for_tests()
        };
        PidFile::write(&settings, dir)
    }

    #[test]
    fn the_file_holds_the_number_until_it_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("server.pid");
        let elsewhere = dir.path().join("elsewhere");
        fs::write(&elsewhere, "kept").unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        let file = file_in(dir.path()).unwrap();
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            format!("{}\n", own_pid())
        );
        assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "kept");
        drop(file);
        assert!(!path.exists());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn the_file_of_another_process_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("server.pid");
        let file = file_in(dir.path()).unwrap();
        fs::write(&path, "1\n").unwrap();
        drop(file);
        assert_eq!(fs::read_to_string(&path).unwrap(), "1\n");
    }

    #[test]
    fn the_file_of_another_container_with_the_same_number_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (older, newer) = (file_in(dir.path()).unwrap(), file_in(dir.path()).unwrap());
        drop(older);
        assert!(dir.path().join("server.pid").exists());
        drop(newer);
        assert!(!dir.path().join("server.pid").exists());
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let error = file_in(Path::new("/nowhere")).unwrap_err();
        let text = format!("{error:#}");
        assert!(
            text.starts_with("cannot write /nowhere/server.pid (setting pid_file): "),
            "{text}"
        );
    }
}
