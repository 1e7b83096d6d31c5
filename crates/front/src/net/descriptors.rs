//! File descriptors: clients may take all but a reserve, which is for commands, for workers and for what replaces them.
//! Code that opens something for a client asks here; nothing is closed here.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// How many are kept back: clients of commands, another exchange, a successor's sockets, files that are opened for a
/// moment.
const KEPT_BACK: u64 = 128;
/// And how many more for each worker: its control socket and the watch over its process, for two generations.
const PER_WORKER: u64 = 4;
/// Where a process may have few, this part of them is kept back at most.
const LARGEST_PART: u64 = 4;

/// The number of the first one in the reserve. The kernel gives the lowest that is free, so a process that gets a higher one
/// knows that all others are taken.
static RESERVE: AtomicI32 = AtomicI32::new(RawFd::MAX);

/// Reads how many descriptors this process may have. Called now and then, because that may change.
pub(crate) fn update_reserve(workers: usize) {
    let limit = getrlimit(Resource::Nofile).current;
    RESERVE.store(reserve_of(limit, workers), Ordering::Relaxed);
}

fn reserve_of(limit: Option<u64>, workers: usize) -> RawFd {
    let Some(limit) = limit else {
        return RawFd::MAX;
    };
    let kept = KEPT_BACK + PER_WORKER * workers as u64;
    let first = limit - kept.min(limit / LARGEST_PART);
    RawFd::try_from(first).unwrap_or(RawFd::MAX)
}

/// Whether it is one of the reserve.
pub(crate) fn is_reserved(one: impl AsFd) -> bool {
    one.as_fd().as_raw_fd() >= RESERVE.load(Ordering::Relaxed)
}

/// Whether none but the reserve is left.
pub(crate) fn are_short() -> bool {
    eventfd(0, EventfdFlags::CLOEXEC).map_or(true, is_reserved)
}

/// Returns what was opened for a client, unless its descriptor is one of the reserve.
///
/// # Errors
/// It is: too many open files.
pub(crate) fn keep_reserve<T: AsFd>(one: T) -> io::Result<T> {
    if is_reserved(&one) {
        return Err(none_left());
    }
    Ok(one)
}

/// Opens a file of this process again, for reading from its start: for a process of another user, which could not open it by its
/// path in /proc.
///
/// # Errors
/// Only the reserve is left, or there is no /proc.
pub(crate) fn reopen(number: RawFd) -> io::Result<OwnedFd> {
    let file = File::open(format!("/proc/self/fd/{number}"))?;
    Ok(keep_reserve(file)?.into())
}

/// The system's error for too many open files.
pub(crate) fn none_left() -> io::Error {
    Errno::MFILE.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_is_a_number_for_each_worker_and_never_most_of_what_there_is() {
        let check = |limit, workers, expect| {
            assert_eq!(reserve_of(limit, workers), expect, "{limit:?}, {workers}");
        };
        check(Some(1024), 2, 1024 - 136);
        check(Some(65_536), 100, 65_536 - 528);
        check(Some(64), 2, 48);
        check(Some(0), 2, 0);
        check(Some(u64::MAX), 2, RawFd::MAX);
        check(None, 2, RawFd::MAX);
    }
}
