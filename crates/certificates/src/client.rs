//! HTTPS to the certificate authority, and to the address that decides about names: each request has a time limit, each
//! response a size limit. Follows no redirect.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::USER_AGENT;
use http::{Request, Response, StatusCode, Uri};
use http_body::Body;
use http_body_util::{BodyExt, Full, Limited};
use http_client::{AGENT, Client, Plan, chain};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::clock::Clock;
use crate::failure::PlanError;
use crate::text::one_line;

/// How long a connection to the authority may take to be opened.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a request to the authority may take, with its whole response.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the address that decides about names may take.
const ASK_TIMEOUT: Duration = Duration::from_secs(2);
/// A longer response of the authority is an error, in bytes.
const MAX_RESPONSE_BYTES: usize = 1024 * 1024;

/// The certificates that servers are checked against: those of a file, or the system's.
///
/// # Errors
/// There are none.
pub(crate) fn roots(file: Option<&Path>) -> Result<RootCertStore, PlanError> {
    let Some(path) = file else {
        let store = http_client::system_roots();
        return match store.is_empty() {
            true => Err(PlanError::Roots(
                "this system has no list of certificate authorities: install the package ca-certificates, or set \
                 acme_ca_file"
                    .to_owned(),
            )),
            false => Ok(store),
        };
    };
    let pem = std::fs::read(path).map_err(|error| PlanError::File(path.to_owned(), error))?;
    let mut store = RootCertStore::empty();
    let certificates = CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok);
    store.add_parsable_certificates(certificates);
    match store.is_empty() {
        true => Err(PlanError::Roots(format!(
            "there is no certificate in {}",
            path.display()
        ))),
        false => Ok(store),
    }
}

fn client<B>(roots: RootCertStore, plain_too: bool) -> Client<B>
where
    B: Body + Send,
    B::Data: Send,
{
    let plan = Plan {
        roots,
        plain_too,
        connect_timeout: CONNECT_TIMEOUT,
        keep_alive: true,
    };
    plan.client()
}

/// When the authority wants to be asked again, as its last answer said.
#[derive(Clone, Debug, Default)]
pub(crate) struct RetryAfter(Arc<Mutex<Option<SystemTime>>>);

impl RetryAfter {
    pub(crate) fn get(&self) -> Option<SystemTime> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, time: Option<SystemTime>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = time;
    }
}

/// The client that instant-acme speaks through.
pub(crate) struct AcmeClient {
    http: Client<BodyWrapper<Bytes>>,
    clock: Arc<dyn Clock>,
    retry_after: RetryAfter,
}

impl AcmeClient {
    pub(crate) fn new(roots: RootCertStore, clock: Arc<dyn Clock>) -> (Self, RetryAfter) {
        let retry_after = RetryAfter::default();
        let client = Self {
            http: client(roots, false),
            clock,
            retry_after: retry_after.clone(),
        };
        (client, retry_after)
    }
}

impl HttpClient for AcmeClient {
    fn request(
        &self,
        mut request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        request.headers_mut().insert(USER_AGENT, AGENT);
        let uri = request.uri().clone();
        let response = self.http.request(request);
        let (clock, retry_after) = (Arc::clone(&self.clock), self.retry_after.clone());
        Box::pin(async move {
            let whole = async {
                let (head, body) = response.await.map_err(other)?.into_parts();
                let body = Limited::new(body, MAX_RESPONSE_BYTES).collect().await;
                Ok((head, body.map_err(Error::Other)?.to_bytes()))
            };
            let limit = tokio::time::timeout(REQUEST_TIMEOUT, whole);
            let late = || io::Error::new(io::ErrorKind::TimedOut, "no answer within 30 seconds");
            let (head, body) = limit
                .await
                .unwrap_or_else(|_| Err(other(late())))
                .map_err(|error| about(&uri, &error))?;
            retry_after.set(match head.status.is_success() {
                true => None,
                false => http_client::retry_after(&head.headers, clock.now()),
            });
            check(head.status, &body).map_err(|error| about(&uri, &error))?;
            Ok(BytesResponse::from(Response::from_parts(
                head,
                Full::new(body),
            )))
        })
    }
}

fn other(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Other(Box::new(error))
}

/// The error with the server that it is about.
fn about(uri: &Uri, error: &Error) -> Error {
    let server = uri.authority().map_or("", |authority| authority.as_str());
    Error::Other(format!("{server}: {}", chain(error)).into())
}

/// Refuses an error that is no problem document, and says what came instead, for instance a proxy's page.
fn check(status: StatusCode, body: &[u8]) -> Result<(), Error> {
    let is_problem = serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(body);
    if !status.is_client_error() && !status.is_server_error() || is_problem.is_ok() {
        return Ok(());
    }
    let said = one_line(&String::from_utf8_lossy(body));
    Err(Error::Other(format!("answered {status}: {said}").into()))
}

/// The client that asks whether a name gets a certificate.
pub(crate) struct AskClient(Client<Full<Bytes>>);

impl AskClient {
    pub(crate) fn new(roots: RootCertStore) -> Self {
        Self(client(roots, true))
    }

    /// The status of the answer.
    ///
    /// # Errors
    /// There was none within two seconds; why.
    pub(crate) async fn ask(&self, url: &str, name: &str) -> Result<StatusCode, String> {
        let separator = if url.contains('?') { '&' } else { '?' };
        // A checked host name or address needs no escape in a query.
        let uri = format!("{url}{separator}domain={name}");
        let request = Request::get(&uri)
            .header(USER_AGENT, AGENT)
            .body(Full::default())
            .map_err(|error| error.to_string())?;
        match tokio::time::timeout(ASK_TIMEOUT, self.0.request(request)).await {
            Ok(Ok(response)) => Ok(response.status()),
            Ok(Err(error)) => Err(chain(&error)),
            Err(_) => Err("no answer within 2 seconds".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_that_is_no_problem_document_is_shown() {
        let page = b"<html>\nBad Gateway\x07</html>";
        let error = check(StatusCode::BAD_GATEWAY, page)
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "answered 502 Bad Gateway: <html> Bad Gateway\\u{7}</html>"
        );
        assert!(check(StatusCode::BAD_REQUEST, b"{\"type\": \"x\"}").is_ok());
        assert!(check(StatusCode::OK, b"page").is_ok());
    }
}
