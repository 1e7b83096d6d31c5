//! URLs of the command line: a server and a page of it. It opens no connection; names are looked up.

use std::net::ToSocketAddrs as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use http::Uri;

use loadgen::plan::{Target, Tls, Trust};

/// A URL, taken apart.
#[derive(Debug, PartialEq)]
pub(super) struct Url {
    /// Its weight among the URLs.
    pub(super) weight: f64,
    /// The server.
    pub(super) server: Server,
    /// Path with query.
    pub(super) path: String,
}

/// A server as it is named in a URL.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Server {
    /// Host and port, the two as the URL has them, and whether it is one with TLS.
    Tcp {
        host: String,
        port: u16,
        authority: String,
        tls: bool,
    },
    /// The socket's path.
    Unix(PathBuf),
}

impl Url {
    /// Reads `[WEIGHT:]http://host[:port][/path]`, the same with `https`, or `[WEIGHT:]unix:/socket[:/path]`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let (weight, url) = match text.split_once(':') {
            Some((weight, url)) if weight.starts_with(|c: char| c.is_ascii_digit()) => {
                let weight: Option<f64> = weight.parse().ok();
                // A name may begin with a digit too: 3.example.org:8080/
                match weight {
                    Some(weight) if url.contains(":/") => (weight, url),
                    _ => bail!(
                        "{text}: write a URL as http://host:port/path, with a weight as 3:http://host:port/path"
                    ),
                }
            }
            _ => (1.0, text),
        };
        if !(weight.is_finite() && weight > 0.0) {
            bail!("{text}: a weight is a number above 0");
        }
        let (server, path) = if let Some(rest) = url.strip_prefix("unix:") {
            unix(rest)
        } else {
            tcp(url)
        }
        .with_context(|| url.to_owned())?;
        Ok(Self {
            weight,
            server,
            path,
        })
    }
}

fn unix(rest: &str) -> Result<(Server, String)> {
    let (socket, path) = match rest.split_once(":/") {
        Some((socket, path)) => (socket, format!("/{path}")),
        None => (rest, "/".to_owned()),
    };
    if !socket.starts_with('/') {
        bail!("a UNIX socket is written unix:/path/to.sock:/page");
    }
    let page: Uri = path.parse().context("its path can't be sent")?;
    Ok((Server::Unix(socket.into()), page.to_string()))
}

fn tcp(url: &str) -> Result<(Server, String)> {
    let tls = match url.split_once("://").map(|(scheme, _)| scheme) {
        Some("http") => false,
        Some("https") => true,
        Some(scheme) => {
            bail!("{scheme} is not supported; write http://host:port/path or https://")
        }
        None => bail!("write it as http://host:port/path"),
    };
    let uri: Uri = url.parse().context("not a URL")?;
    let authority = uri.authority().context("it names no host")?;
    if authority.as_str().contains('@') {
        bail!("a user in the URL is not sent; give --header 'Authorization: ...'");
    }
    if authority.host().is_empty() {
        bail!("it names no host");
    }
    // What follows the host; a port that is no number is silently none with `Authority::port`.
    let port = match &authority.as_str()[authority.host().len()..] {
        "" if tls => 443,
        "" => 80,
        port => port
            .strip_prefix(':')
            .and_then(|port| port.parse().ok())
            .filter(|port| *port > 0)
            .context("its port is not one from 1 to 65535")?,
    };
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    Ok((
        Server::Tcp {
            host: authority.host().to_owned(),
            port,
            authority: authority.to_string(),
            tls,
        },
        // `http://host?x` has a query and no path.
        if path.starts_with('/') {
            path.to_owned()
        } else {
            format!("/{path}")
        },
    ))
}

impl Server {
    /// Where to connect to: the first address that the name has; `trust` and `resumption` are those of [`Tls`].
    ///
    /// # Errors
    /// The name is not known.
    pub(super) fn target(&self, trust: Trust, resumption: bool) -> Result<Target> {
        match self {
            Self::Unix(path) => Ok(Target::Unix(path.clone())),
            Self::Tcp {
                host, port, tls, ..
            } => {
                let host = host.trim_start_matches('[').trim_end_matches(']');
                let address = (host, *port)
                    .to_socket_addrs()
                    .with_context(|| format!("can't find the host {host}"))?
                    .next();
                let address = address.with_context(|| format!("the host {host} has no address"))?;
                let secured = || Tls {
                    name: host.to_owned(),
                    trust,
                    resumption,
                };
                Ok(match tls {
                    true => Target::Tls(address, secured()),
                    false => Target::Tcp(address),
                })
            }
        }
    }

    /// The `Host` field.
    pub(super) fn host(&self) -> &str {
        match self {
            Self::Tcp { authority, .. } => authority,
            Self::Unix(_) => "localhost",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_a_server_and_a_page() {
        let check = |text: &str, weight: f64, host: &str, path: &str| {
            let url = Url::parse(text).unwrap();
            assert_eq!(
                (url.weight, url.server.host(), url.path.as_str()),
                (weight, host, path),
                "{text}"
            );
        };
        check(
            "http://localhost:8080/a?b=c",
            1.0,
            "localhost:8080",
            "/a?b=c",
        );
        check("http://localhost", 1.0, "localhost", "/");
        check("http://localhost?a", 1.0, "localhost", "/?a");
        check("3:http://a:1/", 3.0, "a:1", "/");
        check("0.5:http://[::1]:80/x", 0.5, "[::1]:80", "/x");
        check("unix:/run/a.sock:/page", 1.0, "localhost", "/page");
        check("2:unix:/run/a.sock", 2.0, "localhost", "/");
    }

    #[test]
    fn a_server_is_found_by_number_and_by_socket() {
        let target = |text: &str| {
            let server = Url::parse(text).unwrap().server;
            server.target(Trust::Any, false).unwrap()
        };
        assert_eq!(
            target("http://127.0.0.1:81/"),
            Target::Tcp("127.0.0.1:81".parse().unwrap())
        );
        assert_eq!(
            target("http://[::1]/"),
            Target::Tcp("[::1]:80".parse().unwrap())
        );
        let tls = |name: &str| Tls {
            name: name.to_owned(),
            trust: Trust::Any,
            resumption: false,
        };
        assert_eq!(
            target("https://127.0.0.1/"),
            Target::Tls("127.0.0.1:443".parse().unwrap(), tls("127.0.0.1"))
        );
        assert_eq!(
            target("https://[::1]:8443/"),
            Target::Tls("[::1]:8443".parse().unwrap(), tls("::1"))
        );
        assert_eq!(
            target("unix:/run/a.sock:/page"),
            Target::Unix("/run/a.sock".into())
        );
    }

    #[test]
    fn what_is_no_url_is_refused_with_what_to_write() {
        let check = |text: &str, expect: &str| {
            let error = format!("{:#}", Url::parse(text).unwrap_err());
            assert!(error.contains(expect), "{text}: {error}");
        };
        check("ftp://localhost/", "ftp is not supported");
        check("localhost", "write it as http://host:port/path");
        check("localhost:8080/", "http://host:port/path");
        check("8080", "http://host:port/path");
        check("3:localhost/", "http://host:port/path");
        check("0:http://localhost/", "weight");
        check("http://", "");
        check("http://:80/", "host");
        check("http://a:0/", "port");
        check("http://a:99999/", "port");
        check("http://a b/", "not a URL");
        check("http://me:secret@a/", "Authorization");
        check("unix:run/a.sock", "unix:/path/to.sock:/page");
    }
}
