//! A test's own directory: removed when the test passes, kept and named when it fails.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A temporary directory that outlives a failing test.
#[derive(Debug)]
pub struct Directory(Option<TempDir>);

impl Directory {
    /// Makes an empty one.
    ///
    /// # Panics
    /// When the system's directory for temporary files cannot be written.
    pub fn new() -> Self {
        let dir = tempfile::Builder::new()
            .prefix("highball-test-")
            .tempdir()
            .expect("a temporary directory can be made");
        // Whatever the umask is: others may look, and only the owner may change it.
        let mode = PermissionsExt::from_mode(0o755);
        fs::set_permissions(dir.path(), mode).expect("it is ours");
        Self(Some(dir))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.as_ref().expect("only drop takes it").path()
    }

    /// A path inside it.
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path().join(name)
    }

    /// Writes a file inside it, and the folders above that file.
    ///
    /// # Panics
    /// When the file cannot be written.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.join(name);
        let parent = path.parent().expect("a file in the directory");
        fs::create_dir_all(parent).expect("the folders can be made");
        fs::write(&path, content).expect("the file can be written");
        path
    }
}

impl Default for Directory {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if let Some(dir) = self.0.take()
            && std::thread::panicking()
        {
            eprintln!("kept for inspection: {}", dir.keep().display());
        }
    }
}
