//! Descriptors that a process of an application sends. Closing some kinds of files, or only asking whether they are ready,
//! waits for what answers for them: a file system in a user's process (FUSE), or the peer of a TCP socket that lingers. So
//! only kinds that the messages have are let through, and others are closed in a thread of their own.

use std::mem::forget;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rustix::fs::{CWD, readlinkat};
use rustix::net::{AddressFamily, sockopt::socket_domain};

use super::Error;

/// Threads that close such descriptors. Where all of them wait, further ones stay open: each costs a worker its life.
const MAX_CLOSING: usize = 16;

static CLOSING: AtomicUsize = AtomicUsize::new(0);

/// Lets pidfds and UNIX sockets through.
///
/// # Errors
/// [`Error::Malformed`] where there is another one among them; then none is left.
pub(super) fn check(fds: Vec<OwnedFd>) -> Result<Vec<OwnedFd>, Error> {
    if fds.iter().all(|fd| is_expected(fd.as_fd())) {
        return Ok(fds);
    }
    if CLOSING.fetch_add(1, Ordering::Relaxed) < MAX_CLOSING {
        let begun = thread::Builder::new()
            .name("close".to_owned())
            .spawn(move || {
                drop(fds);
                CLOSING.fetch_sub(1, Ordering::Relaxed);
            });
        if begun.is_err() {
            // They were closed here and now.
            CLOSING.fetch_sub(1, Ordering::Relaxed);
        }
    } else {
        CLOSING.fetch_sub(1, Ordering::Relaxed);
        forget(fds);
    }
    let text = "a descriptor that is neither a pidfd nor a UNIX socket";
    Err(Error::Malformed(text.to_owned()))
}

/// The kernel names the kind of a file in /proc, without asking the file itself.
fn is_expected(fd: BorrowedFd<'_>) -> bool {
    let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let Ok(link) = readlinkat(CWD, link, Vec::new()) else {
        return false;
    };
    // A file of a folder has a path, which begins otherwise.
    match link.as_bytes() {
        b"anon_inode:[pidfd]" => true,
        link if link.starts_with(b"pidfd:[") => true,
        link if link.starts_with(b"socket:[") => {
            socket_domain(fd).is_ok_and(|domain| domain == AddressFamily::UNIX)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::net::TcpListener;

    use rustix::process::{PidfdFlags, getpid, pidfd_open};

    use super::*;

    #[test]
    fn only_pidfds_and_unix_sockets_are_let_through() {
        let (one, other) = super::super::pair().unwrap();
        let pidfd = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
        assert_eq!(check(vec![one, pidfd]).unwrap().len(), 2);
        assert!(check(Vec::new()).unwrap().is_empty());
        let file: OwnedFd = File::open("/proc/self/status").unwrap().into();
        assert!(check(vec![other, file]).is_err());
        let tcp: OwnedFd = TcpListener::bind("127.0.0.1:0").unwrap().into();
        assert!(check(vec![tcp]).is_err());
    }
}
