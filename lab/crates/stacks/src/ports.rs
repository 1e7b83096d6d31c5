//! Ports of 127.0.0.1 that are free, and addresses in a URL. It never connects.

use std::net::{SocketAddr, TcpListener, ToSocketAddrs as _};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, Result, bail};

/// Ports for servers. Linux gives those from 32768 on to connections of clients, and one of them could take a port
/// before the server that it was meant for has loaded its application and listens.
const RANGE: Range<u32> = 10_000..32_768;
/// How far apart two processes with consecutive numbers begin, so that each finds its own ports.
const STRIDE: u32 = 97;

/// A port of 127.0.0.1 that was free a moment ago, and none that this process gave before.
pub(super) fn free() -> Result<u16> {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    let count = RANGE.end - RANGE.start;
    let first = std::process::id() % count * STRIDE;
    for _ in 0..count {
        let given = GIVEN.fetch_add(1, Ordering::Relaxed);
        let port = RANGE.start + (first + given) % count;
        let port = u16::try_from(port).expect("the range ends below 65536");
        if is_free(port) {
            return Ok(port);
        }
    }
    bail!("no free port on 127.0.0.1")
}

/// Whether `port` of 127.0.0.1 can be listened on.
pub(super) fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_given_once_and_never_one_of_those_for_clients() {
        let ports: Vec<u16> = (0..100).map(|_| free().unwrap()).collect();
        let mut different = ports.clone();
        different.sort_unstable();
        different.dedup();
        assert_eq!(different.len(), ports.len());
        assert!(ports.iter().all(|port| RANGE.contains(&u32::from(*port))));
    }

    #[test]
    fn a_port_that_is_listened_on_is_not_free() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(!is_free(listener.local_addr().unwrap().port()));
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
