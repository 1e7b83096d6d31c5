//! A small file system that can be full, for one program and what that starts. It needs the right to mount.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::Path;

use crate::program::Program;

/// The command line, without its end, under which a program sees a file system of so many bytes in this folder. `run` is what
/// the shell does with the program's command line (`"$@"`) once the disk is at `$0`.
///
/// # Panics
/// When nothing may be mounted here.
#[track_caller]
pub fn under_small_disk(folder: &Path, bytes: usize, run: &str) -> Vec<String> {
    let mut unshare = vec!["unshare".to_owned(), "--mount".to_owned()];
    if !rustix::process::geteuid().is_root() {
        unshare.push("--map-root-user".to_owned());
    }
    let try_mount = Program::new("unshare")
        .args(&unshare[1..])
        .args(["mount", "-t", "tmpfs", "tmpfs"])
        .arg(folder)
        .run();
    assert!(
        try_mount.status.success(),
        "this test mounts a small file system where only its program sees it, and may not; it needs root, or user namespaces for \
         everybody (in a container: CAP_SYS_ADMIN): {}",
        try_mount.output()
    );
    let script = format!("mount -t tmpfs -o size={bytes} tmpfs \"$0\" && {{ {run}; }}");
    unshare.extend(["sh".to_owned(), "-c".to_owned(), script]);
    unshare.push(folder.display().to_string());
    unshare
}

/// Fills the file system of this path with a file there.
///
/// # Panics
/// When the file cannot be made, or something else than a full disk ends it.
#[track_caller]
pub fn fill_disk(path: &Path) {
    let mut file = File::create(path).expect("the disk can be reached");
    let error = loop {
        if let Err(error) = file.write_all(&[0; 4096]) {
            break error;
        }
    };
    assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
}
