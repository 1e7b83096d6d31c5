//! The clients of all requests that the server makes itself: to certificate authorities, webhooks and receivers of traces.
//! Follows no redirect, and limits only how long a connection may take: its users limit whole requests and responses.

#![forbid(unsafe_code)]

mod error;
mod retry_after;

use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use http::header::HeaderValue;
use http::uri::Scheme;
use http_body::Body;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};

pub use error::chain;
pub use retry_after::retry_after;

/// What the server calls itself, for the field User-Agent.
pub const AGENT: HeaderValue =
    HeaderValue::from_static(concat!("highball/", env!("CARGO_PKG_VERSION")));

/// A client of HTTP/1.1. Use it on the runtime of tokio that its requests are made on.
pub type Client<B> = legacy::Client<HttpsConnector<HttpConnector>, B>;

/// Which servers a client reaches, and how.
#[derive(Debug)]
pub struct Plan {
    /// The certificates that servers are checked against.
    pub roots: RootCertStore,
    /// Whether it speaks HTTP without TLS too.
    pub plain_too: bool,
    /// How long a connection may take to be opened, its name looked up included.
    pub connect_timeout: Duration,
    /// Whether a connection is kept for the next request.
    pub keep_alive: bool,
}

impl Plan {
    /// Makes the client. Connects to nothing.
    pub fn client<B>(self) -> Client<B>
    where
        B: Body + Send,
        B::Data: Send,
    {
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider supports TLS 1.2 and 1.3")
            .with_root_certificates(self.roots)
            .with_no_client_auth();
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_connect_timeout(Some(self.connect_timeout));
        let builder = HttpsConnectorBuilder::new().with_tls_config(config);
        let builder = match self.plain_too {
            true => builder.https_or_http(),
            false => builder.https_only(),
        };
        let connector = builder.enable_http1().wrap_connector(tcp);
        let mut client = legacy::Client::builder(TokioExecutor::new());
        if !self.keep_alive {
            client.pool_max_idle_per_host(0);
        }
        client.build(connector)
    }
}

/// The certificates that the server at an address is checked against: the system's. None for plain HTTP: reading them takes
/// milliseconds, and they take memory.
pub fn roots_for(address: &Uri) -> RootCertStore {
    match address.scheme() {
        Some(scheme) if *scheme == Scheme::HTTP => RootCertStore::empty(),
        _ => system_roots(),
    }
}

/// The certificates of the authorities that this system trusts; none where it has no list of them.
pub fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_needs_no_certificates() {
        let roots = |address: &'static str| roots_for(&Uri::from_static(address)).len();
        assert_eq!(roots("http://receiver.example:4318/v1/traces"), 0);
        let system = system_roots().len();
        assert_eq!(roots("https://receiver.example/v1/traces"), system);
    }
}
