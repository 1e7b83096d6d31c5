//! The addresses to listen on, as text and typed. Binds nothing and looks up no name.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// The forms of an address, in words that follow "expected a list of".
pub(crate) const ALLOWED: &str = "addresses such as \"127.0.0.1:3000\", \"[::1]:3000\", \"localhost:3000\", \":3000\", \"3000\" or \"unix:/path/to.sock\"";

/// The longest path of a UNIX socket that the kernel takes: `sun_path` less its NUL (unix(7)).
const MAX_UNIX_PATH: usize = 107;

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Listen {
    /// TCP, over IPv4 or IPv6. Port 0 lets the kernel choose.
    Tcp(SocketAddr),
    /// A UNIX stream socket; after loading, an absolute path.
    Unix(PathBuf),
}

impl Listen {
    /// Reads an address; `host` stands in where there is only a port.
    ///
    /// # Errors
    /// What is wrong with it and which forms are allowed.
    pub(crate) fn parse(text: &str, host: IpAddr) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return match path {
                "" => Err(format!(
                    "{text:?} names no path; expected unix:/path/to.sock"
                )),
                path if path.chars().any(char::is_control) => {
                    Err(format!("{text:?} has a control character in its path"))
                }
                path => Ok(Self::Unix(path.into())),
            };
        }
        if let Ok(address) = text.parse() {
            return Ok(Self::Tcp(address));
        }
        let (host, port) = match text.strip_prefix("localhost:") {
            Some(port) => (IpAddr::V4(Ipv4Addr::LOCALHOST), port),
            None => (host, text.strip_prefix(':').unwrap_or(text)),
        };
        match port_number(port) {
            Some(port) => Ok(Self::Tcp(SocketAddr::new(host, port))),
            None => Err(format!(
                "{text:?} is not an address to listen on; expected {ALLOWED}"
            )),
        }
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
            Self::Tcp(address) => address.fmt(f),
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
            let listen = Listen::parse(text, IpAddr::V4(Ipv4Addr::UNSPECIFIED));
            assert_eq!(
                listen.as_ref().ok().map(Listen::to_string).as_deref(),
                expect,
                "{text:?}: {listen:?}"
            );
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
