//! What the kernel holds of a socket. It sends nothing.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Bytes that were written to a stream socket and that its peer's kernel has not taken yet (SIOCOUTQ, tcp(7)).
///
/// # Errors
/// Those of ioctl(2); it is no socket.
pub fn unsent(socket: impl AsFd) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the descriptor is open, and `bytes` is the integer that this request writes.
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    match result {
        0 => Ok(u64::try_from(bytes).unwrap_or(0)),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn what_a_peer_has_not_taken_is_known() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut reader = TcpStream::connect(listener.local_addr().expect("it is bound"));
        let (mut writer, _) = listener.accept().expect("it connected");
        assert_eq!(unsent(&writer).ok(), Some(0));
        writer.set_nonblocking(true).expect("a socket");
        let mut written = 0;
        while let Ok(count) = writer.write(&[0; 65_536]) {
            written += count as u64;
        }
        let left = unsent(&writer).expect("a socket");
        assert!(0 < left && left < written, "{left} of {written}");
        let reader = reader.as_mut().expect("it listens");
        let mut read = vec![0; usize::try_from(written).expect("small")];
        reader.read_exact(&mut read).expect("all of it");
        while unsent(&writer).expect("a socket") > 0 {
            std::thread::yield_now();
        }
        assert!(unsent(std::fs::File::open("/dev/null").expect("a file")).is_err());
    }
}
