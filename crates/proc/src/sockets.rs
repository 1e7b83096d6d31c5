//! Which sockets of this machine are listened on. It never connects: a connection made for a look is work for the server.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use procfs::net::{TcpState, tcp, tcp6};

/// Whether a process of this machine listens on `port`, on any address.
pub fn listens_on_port(port: u16) -> bool {
    [tcp(), tcp6()]
        .into_iter()
        .flatten()
        .flatten()
        .any(|one| one.state == TcpState::Listen && one.local_address.port() == port)
}

/// Whether a process listens on the UNIX socket at `path`. `procfs` leaves out the flag that tells a listening socket
/// from one that is only bound.
pub fn listens_at(path: &Path) -> bool {
    fs::read("/proc/net/unix").is_ok_and(|text| {
        text.split(|byte| *byte == b'\n').any(|line| {
            // The flag is __SO_ACCEPTCON, the state SS_UNCONNECTED.
            line.ends_with(path.as_os_str().as_bytes())
                && line
                    .split(|byte| *byte == b' ')
                    .nth(3)
                    .is_some_and(|flags| flags == b"00010000")
        })
    })
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_listener_is_seen_without_a_connection() {
        use socket2::{Domain, Socket, Type};

        // That no process listens is checked before and not after: a process that another test is about to start may hold what is
        // closed here a little longer.
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        socket.bind(&any.into()).unwrap();
        let port = socket.local_addr().unwrap().as_socket().unwrap().port();
        assert!(!listens_on_port(port));
        socket.listen(1).unwrap();
        assert!(listens_on_port(port));

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.socket");
        assert!(!listens_at(&path));
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(listens_at(&path));
    }

    #[test]
    fn an_established_connection_is_no_listener() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(!listens_on_port(client.local_addr().unwrap().port()));
    }
}
