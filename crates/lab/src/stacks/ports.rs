//! Where processes listen: free ports, who uses one that is not free, whether somebody listens. It reads the kernel's
//! tables and never connects, since a connection made for a look is work for the server.

use std::collections::BTreeSet;
use std::fs;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Mutex;

use anyhow::{Context as _, Result, bail};

/// A port of 127.0.0.1 that was free a moment ago, and none that this process gave before.
pub(super) fn free() -> Result<u16> {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    let mut given = GIVEN.lock().expect("no holder panics");
    for _ in 0..100 {
        let port = TcpListener::bind("127.0.0.1:0")
            .context("can't listen on 127.0.0.1")?
            .local_addr()?
            .port();
        if given.insert(port) {
            return Ok(port);
        }
    }
    bail!("no free port on 127.0.0.1")
}

/// Whether `port` of 127.0.0.1 can be listened on.
pub(super) fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}

/// Whether a process of this machine listens on `port`, on any address (proc(5), `/proc/net/tcp`).
pub(super) fn somebody_listens(port: u16) -> bool {
    ["/proc/net/tcp", "/proc/net/tcp6"].iter().any(|table| {
        fs::read_to_string(table)
            .is_ok_and(|text| text.lines().any(|line| listening_port(line) == Some(port)))
    })
}

/// Whether a process listens on the UNIX socket at `path` (proc(5), `/proc/net/unix`).
pub(super) fn somebody_listens_at(path: &Path) -> bool {
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

/// The address behind `http://host:port`.
///
/// # Errors
/// It has another form, or the host is unknown.
pub(super) fn parse_url(url: &str) -> Result<SocketAddr> {
    let authority = url
        .strip_prefix("http://")
        .map(|rest| rest.trim_end_matches('/'));
    let Some(authority) =
        authority.filter(|rest| !rest.is_empty() && !rest.contains(['/', '?', '@']))
    else {
        bail!(
            "{url:?} is no address of a server: write http://host:port, without a path (the page is the load's)"
        );
    };
    let with_port = if authority
        .rsplit_once(':')
        .is_some_and(|(_, port)| port.parse::<u16>().is_ok())
    {
        authority.to_owned()
    } else {
        format!("{authority}:80")
    };
    let mut addresses = with_port
        .to_socket_addrs()
        .with_context(|| format!("can't find the host of {url}"))?;
    addresses
        .next()
        .with_context(|| format!("the host of {url} has no address"))
}

fn listening_port(line: &str) -> Option<u16> {
    let mut fields = line.split_whitespace().skip(1);
    let local = fields.next()?;
    // 0A is TCP_LISTEN.
    (fields.nth(1)? == "0A").then_some(())?;
    u16::from_str_radix(local.rsplit_once(':')?.1, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_seen_without_a_connection() {
        use socket2::{Domain, Socket, Type};

        // That nobody listens is seen before and not after: a process that another test is about to start may hold what is
        // closed here a little longer.
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        socket.bind(&any.into()).unwrap();
        let port = socket.local_addr().unwrap().as_socket().unwrap().port();
        assert!(!somebody_listens(port));
        socket.listen(1).unwrap();
        assert!(somebody_listens(port));
        assert!(!is_free(port));

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.socket");
        assert!(!somebody_listens_at(&path));
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(somebody_listens_at(&path));
    }

    #[test]
    fn an_established_connection_is_no_listener() {
        let line = "   1: 0100007F:1F90 0100007F:D2A4 01 00000000:00000000 00:00000000 00000000     0        0 1";
        assert_eq!(listening_port(line), None);
        let line = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1";
        assert_eq!(listening_port(line), Some(8080));
        assert_eq!(listening_port("  sl  local_address rem_address   st"), None);
    }

    #[test]
    fn an_address_is_host_and_port_without_a_path() {
        let check = |url: &str, expect: Option<&str>| {
            let found = parse_url(url).ok().map(|address| address.to_string());
            assert_eq!(found.as_deref(), expect, "{url}");
        };
        check("http://127.0.0.1:8088", Some("127.0.0.1:8088"));
        check("http://127.0.0.1/", Some("127.0.0.1:80"));
        check("http://[::1]:8088", Some("[::1]:8088"));
        check("http://127.0.0.1:8088/page", None);
        check("https://127.0.0.1", None);
        check("127.0.0.1:80", None);
        check("", None);
    }
}
