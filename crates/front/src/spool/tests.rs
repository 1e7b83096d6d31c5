//! What goes in comes out, in memory and beyond; full and missing file systems; nothing left behind.

use std::cell::RefCell;
use std::fs::{self, File, OpenOptions};
use std::future::poll_fn;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use tokio::task::spawn_blocking;

use super::file::{LazyFile, create_and_unlink};
use super::{BATCH_BYTES, Spool, SpoolError};
use crate::shared_bytes::SharedBytes;

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(future)
}

/// Bytes that differ from place to place, the `at`th and what follows.
fn pattern(at: u64, bytes: usize) -> Vec<u8> {
    (at..at + bytes as u64)
        .map(|place| (place.wrapping_mul(0x9e37_79b9) >> 16) as u8)
        .collect()
}

async fn read(spool: &mut Spool) -> Option<Vec<u8>> {
    let bytes = poll_fn(|context| spool.poll_read(context)).await.unwrap();
    bytes.map(|bytes| bytes.to_vec())
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).unwrap().next().is_none()
}

fn contents(raw_fd: i32) -> Vec<u8> {
    let mut bytes = Vec::new();
    File::open(format!("/proc/{}/fd/{raw_fd}", std::process::id()))
        .unwrap()
        .read_to_end(&mut bytes)
        .unwrap();
    bytes
}

#[test]
fn a_flushed_body_can_be_opened_by_its_number() {
    let directory = tempfile::tempdir().unwrap();
    for bytes in [
        0,
        1,
        BATCH_BYTES - 1,
        BATCH_BYTES,
        BATCH_BYTES + 1,
        5 * BATCH_BYTES + 7,
    ] {
        block_on(async {
            let mut spool = Spool::new(directory.path().into(), BATCH_BYTES);
            for (index, piece) in pattern(0, bytes).chunks(10_000).enumerate() {
                spool.append(piece).await.unwrap();
                assert!(spool.len() >= index as u64 * 10_000);
            }
            spool.flush().await.unwrap();
            assert_eq!(spool.len(), bytes as u64);
            assert!(contents(spool.raw_fd()) == pattern(0, bytes), "{bytes}");
            // Each opening reads from the start.
            assert_eq!(contents(spool.raw_fd()).len(), bytes);
            assert!(is_empty(directory.path()));
        });
    }
}

#[test]
fn memory_is_bounded_by_two_batches() {
    let directory = tempfile::tempdir().unwrap();
    block_on(async {
        let piece = pattern(0, 50_000);
        let mut spool = Spool::new(directory.path().into(), BATCH_BYTES);
        for _ in 0..1300 {
            spool.append(&piece).await.unwrap();
            let bound = BATCH_BYTES + piece.len();
            assert!(spool.pending.len() <= bound);
            // A vector grows by doubling.
            assert!(spool.held() <= 4 * bound);
        }
        spool.flush().await.unwrap();
        assert_eq!(contents(spool.raw_fd()).len(), 65_000_000);
    });
}

#[test]
fn what_is_read_at_once_never_touches_the_disk() {
    block_on(async {
        let mut spool = Spool::new(Path::new("/nonexistent").into(), 1000);
        assert_eq!(read(&mut spool).await, None);
        for at in [0, 999, 1998] {
            spool.append(&pattern(at, 999)).await.unwrap();
            assert_eq!(spool.unread(), 999);
            assert_eq!(read(&mut spool).await, Some(pattern(at, 999)));
            assert_eq!((spool.unread(), read(&mut spool).await), (0, None));
        }
    });
}

#[test]
fn bytes_are_read_in_order_however_reading_and_appending_alternate() {
    let directory = tempfile::tempdir().unwrap();
    let mut random = 1_u64;
    let mut below = |bound: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % bound
    };
    block_on(async {
        for _ in 0..20 {
            let mut spool = Spool::new(directory.path().into(), 3000);
            let (mut appended, mut was_read) = (0, 0);
            for _ in 0..100 {
                for _ in 0..below(4) {
                    let bytes = below(4000) as usize;
                    spool.append(&pattern(appended, bytes)).await.unwrap();
                    appended += bytes as u64;
                }
                for _ in 0..below(4) {
                    if let Some(bytes) = read(&mut spool).await {
                        assert!(bytes == pattern(was_read, bytes.len()));
                        was_read += bytes.len() as u64;
                    }
                }
                assert_eq!(spool.unread(), appended - was_read);
            }
            while let Some(bytes) = read(&mut spool).await {
                assert!(bytes == pattern(was_read, bytes.len()));
                was_read += bytes.len() as u64;
            }
            assert_eq!(was_read, appended);
        }
    });
    assert!(is_empty(directory.path()));
}

#[test]
fn the_file_is_used_again_once_it_is_read() {
    let directory = tempfile::tempdir().unwrap();
    block_on(async {
        let mut spool = Spool::new(directory.path().into(), 1000);
        for round in 0..50 {
            spool.append(&pattern(round * 1500, 1500)).await.unwrap();
            let mut bytes = Vec::new();
            while let Some(more) = read(&mut spool).await {
                bytes.extend(more);
            }
            assert_eq!(bytes, pattern(round * 1500, 1500));
        }
        assert_eq!(spool.file.made().metadata().unwrap().len(), 1500);
    });
}

#[test]
fn whoever_appends_waits_while_a_full_batch_is_behind_another() {
    let directory = tempfile::tempdir().unwrap();
    block_on(async {
        let mut spool = Spool::new(directory.path().into(), 1000);
        // Both in one go: the first batch's write is not seen to end before a poll.
        spool.push(&pattern(0, 1000));
        spool.push(&pattern(1000, 1000));
        let mut context = Context::from_waker(Waker::noop());
        while spool.poll_ready(&mut context).is_pending() {
            assert_eq!(spool.pending.len(), 1000);
            tokio::task::yield_now().await;
        }
        assert!(spool.pending.is_empty());
        assert!(matches!(
            spool.poll_ready(&mut context),
            Poll::Ready(Ok(()))
        ));
    });
}

#[test]
fn all_who_wait_for_a_write_are_woken_whoever_asked_last() {
    let directory = tempfile::tempdir().unwrap();
    block_on(tokio::task::LocalSet::new().run_until(async {
        let spool = Rc::new(RefCell::new(Spool::new(directory.path().into(), 1000)));
        spool.borrow_mut().push(&pattern(0, 1000));
        spool.borrow_mut().push(&pattern(1000, 1000));
        let (appender, reader) = (spool.clone(), spool.clone());
        let mut appender = pin!(poll_fn(move |context| appender
            .borrow_mut()
            .poll_ready(context)));
        let mut reader = pin!(poll_fn(move |context| reader
            .borrow_mut()
            .poll_read(context)));
        let woken = [Arc::new(Woken::default()), Arc::new(Woken::default())];
        let wakers = woken.clone().map(Waker::from);
        // A write that ended before it was asked for wakes no task: then there is nothing to show.
        let waits = appender
            .as_mut()
            .poll(&mut Context::from_waker(&wakers[0]))
            .is_pending()
            && reader
                .as_mut()
                .poll(&mut Context::from_waker(&wakers[1]))
                .is_pending()
            && poll_ready(&spool, Waker::noop()).is_pending();
        while waits && !woken.iter().all(|woken| woken.0.load(Ordering::SeqCst)) {
            tokio::task::yield_now().await;
        }
        appender.await.unwrap();
        assert_eq!(reader.await.unwrap().unwrap().to_vec(), pattern(0, 1000));
    }));
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn poll_ready(spool: &RefCell<Spool>, waker: &Waker) -> Poll<Result<(), SpoolError>> {
    spool
        .borrow_mut()
        .poll_ready(&mut Context::from_waker(waker))
}

#[test]
fn a_full_disk_is_told_apart_and_stays_an_error() {
    block_on(async {
        let directory: Arc<Path> = Path::new("/tmp").into();
        let full = OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/full")
            .unwrap();
        let mut spool = Spool::over(LazyFile::existing(directory, full), 1000);
        spool.append(&pattern(0, 1000)).await.unwrap();
        spool.append(&pattern(0, 1000)).await.unwrap();
        assert!(matches!(spool.append(b"a").await, Err(SpoolError::Full(_))));
        assert!(matches!(spool.append(b"a").await, Err(SpoolError::Full(_))));
        assert!(matches!(
            poll_fn(|context| spool.poll_read(context)).await,
            Err(SpoolError::Full(_))
        ));
        spool.push(&pattern(0, 5000));
        let error = spool.flush().await.unwrap_err();
        assert_eq!(error.to_string(), "no space left for bodies in /tmp");
    });
}

#[test]
fn a_patient_one_keeps_what_a_full_disk_does_not_take_until_it_is_read() {
    block_on(async {
        let mut spool = Spool::patient(Path::new("/nonexistent").into(), 1000);
        let mut at = 0;
        for _ in 0..3 {
            let begun = at;
            while !spool.is_stuck() {
                poll_fn(|context| spool.poll_ready(context)).await.unwrap();
                if !spool.is_stuck() {
                    spool.push(&pattern(at, 700));
                    at += 700;
                }
            }
            // A batch that could not be written, and what came meanwhile.
            assert!(spool.unread() <= 3000, "{}", spool.unread());
            let mut bytes = Vec::new();
            while let Some(more) = read(&mut spool).await {
                bytes.extend(more);
            }
            assert!(bytes == pattern(begun, (at - begun) as usize));
            assert!(!spool.is_stuck());
        }
    });
}

#[test]
fn a_patient_one_reads_the_file_first_and_goes_back_to_it() {
    let directory = tempfile::tempdir().unwrap();
    block_on(async {
        let mut spool = Spool::patient(directory.path().into(), 1000);
        for at in [0, 1000, 2000] {
            spool.append(&pattern(at, 1000)).await.unwrap();
        }
        poll_fn(|context| spool.poll_written(context))
            .await
            .unwrap();
        // As if the disk took no more.
        spool.stuck = true;
        spool.push(&pattern(3000, 2000));
        assert!(spool.is_stuck());
        let mut bytes = Vec::new();
        while let Some(more) = read(&mut spool).await {
            bytes.extend(more);
        }
        assert!(bytes == pattern(0, 5000));
        spool.append(&pattern(5000, 3000)).await.unwrap();
        assert!(spool.writing.is_some());
        assert_eq!(read(&mut spool).await, Some(pattern(5000, 3000)));
    });
}

#[test]
fn a_file_is_closed_by_a_thread_that_may_wait() {
    let directory = tempfile::tempdir().unwrap();
    let space = SharedBytes::new(usize::MAX);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(1)
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut spool = Spool::new(directory.path().into(), BATCH_BYTES).within(&space);
        spool.append(pattern(0, 10)).await.unwrap();
        spool.flush().await.unwrap();
        // The one thread for such work is busy.
        let (free, busy) = std::sync::mpsc::channel::<()>();
        let work = spawn_blocking(move || busy.recv().is_err());
        drop(spool);
        assert_eq!(space.held(), 10);
        drop(free);
        assert!(work.await.unwrap());
        spawn_blocking(|| ()).await.unwrap();
        assert_eq!(space.held(), 0);
    });
}

#[test]
fn a_missing_directory_is_named() {
    block_on(async {
        let mut spool = Spool::new(Path::new("/nonexistent").into(), 1000);
        let error = spool.flush().await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot keep a body in /nonexistent: No such file or directory (os error 2)"
        );
    });
}

#[test]
fn files_have_no_name_and_are_for_their_owner_only() {
    let directory = tempfile::tempdir().unwrap();
    let lazy = LazyFile::new(directory.path().into());
    let named_once = create_and_unlink(directory.path()).unwrap();
    for file in [lazy.get().unwrap(), &named_once] {
        let metadata = file.metadata().unwrap();
        assert_eq!((metadata.mode() & 0o7777, metadata.nlink()), (0o600, 0));
    }
    assert!(is_empty(directory.path()));
}
