//! Files as bodies: declared and real lengths, files that shrink, reads that take too long, waiting for a thread.

use std::future::poll_fn;
use std::io::Write;
use std::sync::mpsc;
use std::task::Context;

use tempfile::NamedTempFile;

use crate::serve::file_body::{Chunk, FILE_READ_BYTES};
use crate::serve::file_threads::Work;

use super::*;

const LIMITS: FileLimits = FileLimits {
    open: Duration::from_secs(120),
    read: Duration::from_secs(120),
    waiting: 1,
    unread: u64::MAX,
};

fn file(bytes: usize) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(&content(bytes)).unwrap();
    file
}

fn named(path: &Path) -> NamedFile {
    NamedFile {
        path: path.to_owned(),
        roots: None,
    }
}

fn content(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at % 251) as u8).collect()
}

async fn next(body: &mut FileBody) -> Option<io::Result<Bytes>> {
    let chunk = poll_fn(|context| body.poll_chunk(context)).await;
    chunk.map(|chunk| chunk.map(Chunk::into_bytes))
}

async fn rest(body: &mut FileBody) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    while let Some(bytes) = next(body).await {
        all.extend_from_slice(&bytes?);
    }
    Ok(all)
}

#[tokio::test]
async fn a_file_that_is_in_memory_as_well_needs_no_thread() {
    let files = ApplicationFiles::new(Reader::default()).unwrap();
    let whole = content(100_000);
    let on_disk = std::sync::Arc::new(file(10).into_file());
    let (gate, _busy) = occupy(&files);
    let threads = Rc::clone(&files.threads);
    // Nothing takes it past hyper, so nothing is read of what is on the disk.
    let mut body = FileBody::beside_memory(on_disk, whole.clone().into(), threads);
    assert_eq!((body.bytes(), body.left()), (100_000, 100_000));
    assert!(rest(&mut body).await.unwrap() == whole);
    assert_eq!(body.left(), 0);
    drop(gate);
}

/// Has every thread hang until what comes back is dropped.
fn occupy(files: &ApplicationFiles) -> (mpsc::Sender<()>, Vec<Work<()>>) {
    let (gate, hang) = mpsc::channel::<()>();
    let hang = std::sync::Arc::new(std::sync::Mutex::new(hang));
    let mut busy = Vec::new();
    while let Some(thread) = files.threads.try_free() {
        let hang = std::sync::Arc::clone(&hang);
        busy.push(files.threads.begin(thread, move || {
            let _ = hang.lock().unwrap().recv();
        }));
    }
    (gate, busy)
}

#[tokio::test]
async fn a_body_is_what_was_declared_or_all_that_the_file_had() {
    let files = ApplicationFiles::new(Reader::default()).unwrap();
    let sizes = [0, 1, FILE_READ_BYTES, FILE_READ_BYTES + 1, 1_000_000];
    for bytes in sizes {
        let file = file(bytes);
        for declared in [None, Some(0), Some(bytes / 2), Some(bytes)] {
            let declared = declared.map(|bytes| bytes as u64);
            let (mut body, _) = files
                .open(named(file.path()), declared, LIMITS)
                .await
                .unwrap();
            // What comes later is not sent.
            file.as_file().write_all(b"more").unwrap();
            let expect = declared.map_or(bytes, |bytes| bytes as usize);
            assert_eq!(body.bytes(), expect as u64);
            assert!(rest(&mut body).await.unwrap() == content(expect), "{bytes}");
            assert_eq!(body.left(), 0);
            file.as_file().set_len(bytes as u64).unwrap();
        }
        let more = Some(bytes as u64 + 1);
        let error = files
            .open(named(file.path()), more, LIMITS)
            .await
            .err()
            .unwrap();
        assert!(matches!(error, FileError::TooShort), "{error}");
    }
}

#[tokio::test]
async fn a_file_that_has_become_shorter_is_an_error_after_what_it_had() {
    let files = ApplicationFiles::new(Reader::default()).unwrap();
    let file = file(FILE_READ_BYTES * 2);
    let (mut body, _) = files.open(named(file.path()), None, LIMITS).await.unwrap();
    file.as_file().set_len(FILE_READ_BYTES as u64 + 7).unwrap();
    let lengths = [FILE_READ_BYTES, 7];
    for length in lengths {
        assert_eq!(next(&mut body).await.unwrap().unwrap().len(), length);
    }
    let error = next(&mut body).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
}

#[tokio::test]
async fn a_piece_that_is_not_read_in_time_is_an_error() {
    let files = ApplicationFiles::new(Reader::default()).unwrap();
    let file = file(FILE_READ_BYTES + 1);
    let limits = FileLimits {
        read: Duration::from_millis(10),
        ..LIMITS
    };
    let (mut body, _) = files.open(named(file.path()), None, limits).await.unwrap();
    let (_gate, _busy) = occupy(&files);
    assert!(next(&mut body).await.unwrap().is_ok());
    let error = next(&mut body).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
}

#[tokio::test]
async fn a_body_that_waits_for_a_thread_goes_on_when_one_is_free() {
    let files = ApplicationFiles::new(Reader::default()).unwrap();
    let file = file(FILE_READ_BYTES * 3);
    let (mut body, _) = files.open(named(file.path()), None, LIMITS).await.unwrap();
    let (gate, _busy) = occupy(&files);
    assert!(next(&mut body).await.unwrap().is_ok());
    let mut context = Context::from_waker(std::task::Waker::noop());
    assert!(body.poll_chunk(&mut context).is_pending());
    drop(gate);
    assert_eq!(rest(&mut body).await.unwrap().len(), FILE_READ_BYTES * 2);
}

#[tokio::test]
async fn a_file_that_nobody_waits_for_leaves_the_line() {
    let files = ApplicationFiles::new(Reader::default()).unwrap();
    let (_gate, _busy) = occupy(&files);
    let file = file(1);
    for _ in 0..2 {
        let limits = FileLimits {
            open: Duration::from_millis(1),
            ..LIMITS
        };
        let error = files
            .open(named(file.path()), None, limits)
            .await
            .err()
            .unwrap();
        assert!(matches!(error, FileError::Timeout(_)), "{error}");
    }
    let limits = FileLimits {
        waiting: 0,
        ..LIMITS
    };
    let error = files
        .open(named(file.path()), None, limits)
        .await
        .err()
        .unwrap();
    assert!(matches!(error, FileError::TooManyWait(0)), "{error}");
}

#[test]
fn a_file_is_opened_in_the_named_folders_alone() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for inside in ["root/deep", "other", "root2"] {
        std::fs::create_dir_all(at(inside)).unwrap();
    }
    for file in ["root/deep/a", "root/b", "other/c", "root2/d", "e"] {
        std::fs::write(at(file), file).unwrap();
    }
    for (link, to) in [
        ("root/within", "deep/a"),
        ("root/out", "../e"),
        ("root/folder_out", ".."),
        ("current", "root"),
        ("root/to_other", "../other/c"),
    ] {
        std::os::unix::fs::symlink(to, at(link)).unwrap();
    }
    let fifo = at("root/fifo");
    rustix::fs::mknodat(CWD, &fifo, rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
    let roots = Some(vec![at("current"), at("other"), at("missing")]);
    for (name, opens) in [
        ("root/deep/a", true),
        ("root/b", true),
        ("current/b", true),
        ("root/within", true),
        ("root/to_other", true),
        ("other/c", true),
        ("root/deep/../b", true),
        ("root/out", false),
        ("root/folder_out/e", false),
        ("root/../e", false),
        ("root2/d", false),
        ("e", false),
        ("root", false),
        ("root/fifo", false),
        ("root/none", false),
    ] {
        let (path, roots) = (at(name), roots.clone());
        let opened = open(
            &NamedFile { path, roots },
            Reader::default(),
            None,
            u64::MAX,
        );
        assert_eq!(opened.is_ok(), opens, "{name}: {opened:?}");
    }
}
