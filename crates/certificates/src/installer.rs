//! What a certificate manager asks of the server that it works for. Implements nothing.

use std::sync::Arc;

use rustls::sign::CertifiedKey;
use serde::{Deserialize, Serialize};

/// How a certificate authority checks that a name leads to this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChallengeKind {
    /// A file below `http://NAME/.well-known/acme-challenge/`, on port 80 (RFC 8555 section 8.3).
    #[serde(rename = "http-01")]
    Http01,
    /// A certificate on port 443 for the protocol `acme-tls/1` (RFC 8737).
    #[serde(rename = "tls-alpn-01")]
    TlsAlpn01,
    /// A TXT record, which the operator's command adds (RFC 8555 section 8.4). No matter of an installer.
    #[serde(rename = "dns-01")]
    Dns01,
}

/// How bad an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Nothing to do.
    Info,
    /// Somebody should look.
    Warning,
}

/// The server that certificates are for. Called on the manager's thread: a method must not wait for long.
pub trait Installer: Send + Sync {
    /// The kinds of challenges that this server can answer, the preferred one first.
    fn challenges(&self) -> Vec<ChallengeKind>;

    /// Serves this certificate for these names (lower case) from now on.
    fn install(&self, names: &[String], certificate: Arc<CertifiedKey>);

    /// Answers `/.well-known/acme-challenge/TOKEN` with this text, from when this returns. The token has only characters
    /// of base64url.
    fn answer_http01(&self, token: &str, key_authorization: &str);

    /// No longer answers for this token.
    fn remove_http01(&self, token: &str);

    /// Presents this certificate to clients that ask for `name` and the protocol `acme-tls/1` alone, from when this
    /// returns.
    fn answer_alpn01(&self, name: &str, certificate: Arc<CertifiedKey>);

    /// No longer presents it.
    fn remove_alpn01(&self, name: &str);

    /// Logs an event. The text is one line without control characters.
    fn log(&self, severity: Severity, text: &str);
}
