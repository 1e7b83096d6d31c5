//! Locks of directories.

use super::*;

#[test]
fn a_directory_that_another_process_keeps_locked_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(MODE);
    std::fs::set_permissions(dir.path(), mode).unwrap();
    let directory = ControlDirectory::look(dir.path(), None).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let first = directory.lock().await.unwrap();
        let error = directory.lock().await.err().unwrap().to_string();
        assert!(
            error.contains("another process has held the lock"),
            "{error}"
        );
        drop(first);
        directory.lock().await.unwrap();
    });
}
