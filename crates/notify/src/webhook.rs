//! A webhook: a POST of JSON within a time limit. Follows no redirect, and reads nothing of the response but its status.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use exceptions::Notice;
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{Request, StatusCode, Uri};
use http_body_util::Full;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};
use tokio::runtime::{Builder, Runtime};

use crate::queue::{Receiver, Undelivered};

/// How long a connection to the webhook may take to be opened, its name looked up included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a whole request to the webhook may take.
const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(10);
/// Who tells.
const AGENT: &str = concat!("highball/", env!("CARGO_PKG_VERSION"));

/// A webhook.
pub(crate) struct Webhook {
    address: Uri,
    /// Names are looked up on a thread of this runtime.
    runtime: Runtime,
    client: Option<Client<HttpsConnector<HttpConnector>, Full<Bytes>>>,
}

impl Webhook {
    /// The webhook at this address.
    ///
    /// # Errors
    /// No descriptors are left.
    pub(crate) fn new(address: Uri) -> io::Result<Self> {
        Ok(Self {
            address,
            runtime: Builder::new_current_thread().enable_all().build()?,
            client: None,
        })
    }
}

fn client() -> Client<HttpsConnector<HttpConnector>, Full<Bytes>> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider supports TLS 1.2 and 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
    let builder = HttpsConnectorBuilder::new().with_tls_config(config);
    let connector = builder.https_or_http().enable_http1().wrap_connector(tcp);
    // A notice is rare: no connection is kept for the next one.
    Client::builder(TokioExecutor::new())
        .pool_max_idle_per_host(0)
        .build(connector)
}

impl Receiver for Webhook {
    fn name(&self) -> String {
        // What follows the host is the secret of many webhooks.
        let authority = self.address.host().unwrap_or_default();
        format!("the webhook at {authority}")
    }

    fn deliver(&mut self, notice: &Notice) -> Result<(), Undelivered> {
        let again = |reason: String| Undelivered {
            reason,
            again: true,
        };
        let body = serde_json::to_vec(notice).map_err(|error| again(error.to_string()))?;
        let request = Request::post(&self.address)
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, AGENT)
            .body(Full::from(body))
            .map_err(|error| again(error.to_string()))?;
        let client = self.client.get_or_insert_with(client);
        let response = self.runtime.block_on(async {
            tokio::time::timeout(WEBHOOK_TIMEOUT, client.request(request)).await
        });
        match response {
            Ok(Ok(response)) => judge(response.status()),
            Ok(Err(error)) => Err(again(chain(&error))),
            Err(_) => Err(again(format!("no answer within {WEBHOOK_TIMEOUT:?}"))),
        }
    }
}

fn judge(status: StatusCode) -> Result<(), Undelivered> {
    if status.is_success() {
        return Ok(());
    }
    let passes = [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS];
    Err(Undelivered {
        reason: format!("it answered {status}"),
        again: status.is_server_error() || passes.contains(&status),
    })
}

/// An error with what led to it.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_pass_is_tried_again() {
        assert_eq!(judge(StatusCode::NO_CONTENT), Ok(()));
        for (status, again) in [
            (301, false),
            (400, false),
            (404, false),
            (408, true),
            (429, true),
            (503, true),
        ] {
            let status = StatusCode::from_u16(status).expect("a status");
            assert_eq!(
                judge(status).expect_err("no success").again,
                again,
                "{status}"
            );
        }
    }

    #[test]
    fn the_name_of_a_webhook_has_no_secret() {
        let webhook = Webhook::new(
            "https://hooks.example.com/T0/secret"
                .parse()
                .expect("an address"),
        );
        assert_eq!(
            webhook.expect("a runtime").name(),
            "the webhook at hooks.example.com"
        );
    }
}
