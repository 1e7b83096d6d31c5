//! The addresses to listen on, as text and typed. Binds nothing and looks up no name.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

/// The forms of an address, in words that follow "expected a list of".
pub(crate) const ALLOWED: &str = "addresses such as \"127.0.0.1:3000\", \"[::1]:3000\", \"localhost:3000\", \":3000\", \"3000\" or \"unix:/path/to.sock\"";

/// The port whose listener speaks TLS unless it is asked for as `tcp://`.
const HTTPS_PORT: u16 = 443;

/// The longest path of a UNIX socket that the kernel takes: `sun_path` less its NUL (unix(7)).
const MAX_UNIX_PATH: usize = 107;

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Listen {
    /// TCP, over IPv4 or IPv6. Port 0 lets the kernel choose.
    Tcp(SocketAddr),
    /// The same, with TLS.
    Tls(SocketAddr),
    /// A UNIX stream socket; after loading, an absolute path.
    Unix(PathBuf),
}

/// The hosts that stand for an address without a host, and those of `localhost`. The first one is an IPv4 address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hosts {
    default: &'static [IpAddr],
    localhost: &'static [IpAddr],
}

static LOOPBACK: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::LOCALHOST),
    IpAddr::V6(Ipv6Addr::LOCALHOST),
];
static EVERY_INTERFACE: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    IpAddr::V6(Ipv6Addr::UNSPECIFIED),
];

impl Hosts {
    /// Every interface, or the loopback one; IPv6 too where this machine has it.
    pub(crate) fn new(every_interface: bool, ipv6: bool) -> Self {
        let count = if ipv6 { 2 } else { 1 };
        let default = match every_interface {
            true => &EVERY_INTERFACE,
            false => &LOOPBACK,
        };
        Self {
            default: &default[..count],
            localhost: &LOOPBACK[..count],
        }
    }
}

impl Listen {
    /// Reads an address, also in the form of a URL. One without a host, or with `localhost`, stands for several. `port`
    /// replaces the port.
    ///
    /// # Errors
    /// What is wrong with it and which forms are allowed.
    pub(crate) fn parse(text: &str, hosts: Hosts, port: Option<u16>) -> Result<Vec<Self>, String> {
        let (text, _) = split_certificate(text)?;
        let url = text.split_once("://");
        if url.is_some_and(|(_, rest)| rest.contains('?')) {
            return Err(format!(
                "{text:?} has options behind the question mark; use the settings unix_socket_mode, backlog, \
                 tls_certificate_files and tls_client_ca_file instead"
            ));
        }
        let path = text.strip_prefix("unix://");
        if let Some(path) = path.or_else(|| text.strip_prefix("unix:")) {
            return unix(text, path).map(|listen| vec![listen]);
        }
        let (address, tls) = match url {
            Some(("tls" | "ssl" | "https", address)) => (address, Some(true)),
            Some(("tcp", address)) => (address, Some(false)),
            _ => (text, None),
        };
        let new = |address: SocketAddr| match tls.unwrap_or(address.port() == HTTPS_PORT) {
            true => Self::Tls(address),
            // `PORT` is for clients that speak HTTP.
            false => Self::Tcp((address.ip(), port.unwrap_or(address.port())).into()),
        };
        if let Ok(address) = address.parse::<SocketAddr>() {
            return Ok(vec![new(address)]);
        }
        let (hosts, number) = match address.strip_prefix("localhost:") {
            Some(number) => (hosts.localhost, number),
            None => (hosts.default, address.strip_prefix(':').unwrap_or(address)),
        };
        let Some(number) = port_number(number) else {
            return Err(format!(
                "{text:?} is not an address to listen on; expected {ALLOWED}"
            ));
        };
        let all = hosts.iter().map(|host| new((*host, number).into()));
        let all: Vec<_> = all.collect();
        // The kernel would choose another port for each of them.
        let count = if all[0].has_port(0) { 1 } else { all.len() };
        Ok(all[..count].to_vec())
    }

    /// Whether its port is this one.
    fn has_port(&self, port: u16) -> bool {
        matches!(self, Self::Tcp(address) | Self::Tls(address) if address.port() == port)
    }

    /// A relative path of a UNIX socket made absolute with `dir`.
    ///
    /// # Errors
    /// When the path is longer than the kernel allows.
    pub(crate) fn within(self, dir: &std::path::Path) -> Result<Self, String> {
        let Self::Unix(path) = self else {
            return Ok(self);
        };
        let path = dir.join(path);
        match path.as_os_str().len() {
            0..=MAX_UNIX_PATH => Ok(Self::Unix(path)),
            length => Err(format!(
                "the path of the socket {} has {length} bytes; the kernel allows at most {MAX_UNIX_PATH}",
                path.display()
            )),
        }
    }
}

/// Splits Puma's form of an address with TLS, `ssl://ADDRESS?cert=CHAIN&key=KEY`, into the address and the item of
/// `tls_certificate_files` that stands for the rest. Other texts stay as they are.
///
/// # Errors
/// It has other options.
pub(crate) fn split_certificate(text: &str) -> Result<(&str, Option<String>), String> {
    let Some((address, options)) = text.split_once('?').filter(|_| text.starts_with("ssl://"))
    else {
        return Ok((text, None));
    };
    let (mut cert, mut key) = (None, None);
    for option in options.split('&') {
        match option.split_once('=') {
            Some(("cert", path)) => cert = Some(path),
            Some(("key", path)) => key = Some(path),
            _ => {
                return Err(format!(
                    "{text:?} has the option {option:?}; use the settings tls_min_version, tls_client_ca_file and \
                     tls_client_verify instead"
                ));
            }
        }
    }
    match (cert, key) {
        (Some(cert), Some(key)) => Ok((address, Some(format!("{cert}:{key}")))),
        _ => Err(format!("{text:?} needs both cert and key")),
    }
}

fn unix(text: &str, path: &str) -> Result<Listen, String> {
    if path.is_empty() {
        return Err(format!(
            "{text:?} names no path; expected unix:/path/to.sock"
        ));
    }
    if path.chars().any(char::is_control) {
        return Err(format!("{text:?} has a control character in its path"));
    }
    Ok(Listen::Unix(path.into()))
}

/// Reads a port; unlike `str::parse`, refuses a sign.
pub(crate) fn port_number(text: &str) -> Option<u16> {
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse().ok())
        .flatten()
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) if address.port() == HTTPS_PORT => write!(f, "tcp://{address}"),
            Self::Tcp(address) => address.fmt(f),
            Self::Tls(address) => write!(f, "tls://{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let check = |text: &str, expect: Option<&str>| {
            let read = Listen::parse(text, Hosts::new(true, false), None);
            let first = read.as_ref().ok().map(|all| all[0].to_string());
            assert_eq!(first.as_deref(), expect, "{text:?}: {read:?}");
        };
        check("127.0.0.1:3000", Some("127.0.0.1:3000"));
        check("[::1]:3000", Some("[::1]:3000"));
        check("[::]:0", Some("[::]:0"));
        check(":3000", Some("0.0.0.0:3000"));
        check("3000", Some("0.0.0.0:3000"));
        check("0", Some("0.0.0.0:0"));
        check("65535", Some("0.0.0.0:65535"));
        check("localhost:3000", Some("127.0.0.1:3000"));
        check("unix:/run/app.sock", Some("unix:/run/app.sock"));
        check("unix:tmp/app.sock", Some("unix:tmp/app.sock"));
        check("unix:", None);
        check("unix:a\nb", None);
        check("", None);
        check(":", None);
        check("65536", None);
        check("+80", None);
        check("-1", None);
        check("127.0.0.1", None);
        check("::1:3000", None);
        check("example.com:80", None);
        check("localhost", None);
        check("http://127.0.0.1:3000", None);
    }

    #[test]
    fn urls_of_other_servers_are_read() {
        let check = |text: &str, expect: Result<&str, &str>| {
            let read = Listen::parse(text, Hosts::new(false, false), None);
            match (read, expect) {
                (Ok(all), Ok(expect)) => assert_eq!(all[0].to_string(), expect),
                (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
                (read, _) => panic!("{text}: {read:?}"),
            }
        };
        check("tcp://0.0.0.0:9292", Ok("0.0.0.0:9292"));
        check("tcp://[::]:9292", Ok("[::]:9292"));
        check("tcp://localhost:9292", Ok("127.0.0.1:9292"));
        check("unix:///run/app.sock", Ok("unix:/run/app.sock"));
        check("unix://tmp/app.sock", Ok("unix:tmp/app.sock"));
        check("unix:///a?umask=0111", Err("unix_socket_mode"));
        check("ssl://0.0.0.0:9292", Ok("tls://0.0.0.0:9292"));
        check("tls://[::1]:8443", Ok("tls://[::1]:8443"));
        check("https://localhost:8443", Ok("tls://127.0.0.1:8443"));
        check("[::]:443", Ok("tls://[::]:443"));
        check("443", Ok("tls://127.0.0.1:443"));
        check("tcp://[::]:443", Ok("tcp://[::]:443"));
        check("ssl://0.0.0.0:9292?cert=a&key=b", Ok("tls://0.0.0.0:9292"));
        check("ssl://0.0.0.0:9292?cert=a", Err("needs both cert and key"));
        check(
            "ssl://0.0.0.0:9292?cert=a&key=b&ca=c",
            Err("tls_client_ca_file"),
        );
        check(
            "tls://0.0.0.0:9292?cert=a&key=b",
            Err("tls_certificate_files"),
        );
        check("tcp://example.com:80", Err("is not an address"));
    }

    #[test]
    fn an_address_without_a_host_is_ipv4_and_ipv6_where_there_is_both() {
        let check = |text: &str, every: bool, port: Option<u16>, expect: &str| {
            let read = Listen::parse(text, Hosts::new(every, true), port).unwrap();
            let read: Vec<_> = read.iter().map(Listen::to_string).collect();
            assert_eq!(read.join(" "), expect, "{text}");
        };
        check("3000", false, None, "127.0.0.1:3000 [::1]:3000");
        check("3000", true, None, "0.0.0.0:3000 [::]:3000");
        check("3000", true, Some(80), "0.0.0.0:80 [::]:80");
        check("localhost:3000", true, None, "127.0.0.1:3000 [::1]:3000");
        check("127.0.0.1:3000", true, Some(80), "127.0.0.1:80");
        check("127.0.0.1:443", true, Some(80), "tls://127.0.0.1:443");
        check(
            "tls://3000",
            false,
            Some(80),
            "tls://127.0.0.1:3000 tls://[::1]:3000",
        );
        check("0", false, None, "127.0.0.1:0");
        check("3000", false, Some(0), "127.0.0.1:0");
    }

    #[test]
    fn relative_sockets_stand_in_the_application_folder() {
        let check = |path: &str, expect: &str| {
            let listen = Listen::Unix(path.into()).within(std::path::Path::new("/srv/app"));
            assert_eq!(listen.expect("short enough").to_string(), expect);
        };
        check("tmp/a.sock", "unix:/srv/app/tmp/a.sock");
        check("/run/a.sock", "unix:/run/a.sock");
    }

    #[test]
    fn the_longest_socket_path_is_107_bytes() {
        let path = |length: usize| PathBuf::from(format!("/{}", "a".repeat(length - 1)));
        let dir = std::path::Path::new("/");
        assert!(Listen::Unix(path(107)).within(dir).is_ok());
        assert!(
            Listen::Unix(path(108))
                .within(dir)
                .unwrap_err()
                .contains("at most 107")
        );
    }
}
