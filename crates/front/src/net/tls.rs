//! TLS of the listeners that speak it: its certificates, and how handshakes are made. It opens no connection: `opening.rs`
//! does.

pub mod certificates;
pub mod facts;
pub mod files;
pub mod x509;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use ::metrics::{Events, OF_SERVER};
use config::{ClientVerification, Settings, TlsVersion};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::sync::Notify;

use crate::log::throttle::Throttle;

use certificates::Certificates;

/// The protocols that clients may choose from (RFC 7301), the preferred one first.
const PROTOCOLS: [&[u8]; 2] = [HTTP2, b"http/1.1"];
/// That of HTTP/2.
pub(crate) const HTTP2: &[u8] = b"h2";

/// Settings that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file of the authorities.
    #[error("tls_client_ca_file {path}: {reason}")]
    Authorities {
        /// The file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Certificates of clients are asked for, and nothing says who signs them.
    #[error(
        "tls_client_verify needs tls_client_ca_file: the certificates of the authorities that sign those of clients"
    )]
    NoAuthorities,
    /// The library refuses.
    #[error("cannot set up TLS: {0}")]
    Rustls(#[from] rustls::Error),
}

/// The settings that a configuration was made of, with the content of the file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Wanted {
    http2: bool,
    min_version: TlsVersion,
    verification: ClientVerification,
    authorities: Vec<CertificateDer<'static>>,
}

/// The TLS of one front, which all its edges share: so a session that one has begun can be resumed at another.
#[derive(Debug)]
pub struct Tls {
    /// The certificates of all its hosts.
    pub certificates: Arc<Certificates>,
    /// Notified when the settings have changed.
    pub(crate) reload: Notify,
    /// The port of its first listener.
    port: OnceLock<u16>,
    /// The line that says that a client speaks TLS to a port without.
    pub(crate) plain_port_line: Throttle,
    made: Mutex<Option<(Wanted, Arc<ServerConfig>)>>,
    /// Counts of [`metrics::OF_SERVER`].
    pub(crate) events: Events,
}

impl Tls {
    /// Returns TLS without certificates. No handshake can be made before `Tls::apply`.
    pub fn new() -> Self {
        Self {
            certificates: Arc::default(),
            reload: Notify::new(),
            port: OnceLock::new(),
            plain_port_line: Throttle::default(),
            made: Mutex::default(),
            events: Events::of(&OF_SERVER),
        }
    }

    /// Notes that a listener with TLS accepts on this port.
    pub(crate) fn listens(&self, port: u16) {
        let _ = self.port.set(port);
    }

    /// The port by which clients come with TLS, if there is one.
    pub(crate) fn port(&self) -> Option<u16> {
        self.port.get().copied()
    }

    /// Puts this in force for handshakes that begin. Where nothing has changed, clients can resume their sessions; otherwise
    /// they cannot, for a session may hold a certificate of a client that was accepted under other settings.
    ///
    /// # Errors
    /// It cannot be used; what was in force stays.
    pub(crate) fn apply(&self, wanted: Wanted) -> Result<(), TlsError> {
        let mut made = self.made();
        if made.as_ref().is_none_or(|(known, _)| *known != wanted) {
            let config = wanted.configuration(&self.certificates)?;
            *made = Some((wanted, Arc::new(config)));
        }
        Ok(())
    }

    /// Whether clients are asked for a certificate.
    pub(crate) fn asks_clients(&self) -> bool {
        let made = self.made();
        let verification = made.as_ref().map(|(wanted, _)| wanted.verification);
        verification.is_some_and(|verification| verification != ClientVerification::None)
    }

    /// How handshakes are made; none before [`Tls::apply`].
    pub(crate) fn configuration(&self) -> Option<Arc<ServerConfig>> {
        let made = self.made();
        made.as_ref().map(|(_, config)| Arc::clone(config))
    }

    fn made(&self) -> MutexGuard<'_, Option<(Wanted, Arc<ServerConfig>)>> {
        // What it guards is replaced as a whole.
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Tls {
    fn default() -> Self {
        Self::new()
    }
}

impl Wanted {
    /// Reads what the settings want; `dir` is the application's folder. It waits for a disk.
    ///
    /// # Errors
    /// They cannot be used.
    pub(crate) fn read(settings: &Settings, dir: &Path) -> Result<Self, TlsError> {
        let verification = settings.tls_client_verify;
        let mut authorities = Vec::new();
        if verification != ClientVerification::None {
            let file = settings.tls_client_ca_file.as_ref();
            let path = dir.join(file.ok_or(TlsError::NoAuthorities)?);
            let wrong = |reason: String| TlsError::Authorities {
                path: path.display().to_string(),
                reason,
            };
            let pem = std::fs::read(&path).map_err(|error| wrong(error.to_string()))?;
            let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
            authorities = all.map_err(|error| wrong(error.to_string()))?;
            if authorities.is_empty() {
                return Err(wrong("it holds no certificate in PEM".to_owned()));
            }
        }
        Ok(Self {
            http2: settings.http2,
            min_version: settings.tls_min_version,
            verification,
            authorities,
        })
    }

    fn configuration(&self, certificates: &Arc<Certificates>) -> Result<ServerConfig, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let versions: &[&rustls::SupportedProtocolVersion] = match self.min_version {
            TlsVersion::V1_2 => &[&rustls::version::TLS13, &rustls::version::TLS12],
            TlsVersion::V1_3 => &[&rustls::version::TLS13],
        };
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)?
            .with_client_cert_verifier(self.verifier(provider)?);
        let resolver = Arc::clone(certificates) as Arc<dyn rustls::server::ResolvesServerCert>;
        let mut config = builder.with_cert_resolver(resolver);
        let protocols = PROTOCOLS
            .iter()
            .filter(|name| self.http2 || **name != HTTP2);
        config.alpn_protocols = protocols.map(|name| name.to_vec()).collect();
        // Its keys are replaced every 6 hours; a ticket is taken for 12 at most.
        config.ticketer = aws_lc_rs::Ticketer::new()?;
        Ok(config)
    }

    fn verifier(
        &self,
        provider: Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
        if self.verification == ClientVerification::None {
            return Ok(WebPkiClientVerifier::no_client_auth());
        }
        let mut roots = RootCertStore::empty();
        for authority in &self.authorities {
            roots.add(authority.clone())?;
        }
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let builder = match self.verification {
            ClientVerification::Optional => builder.allow_unauthenticated(),
            _ => builder,
        };
        let built = builder.build();
        built.map_err(|error| TlsError::Rustls(rustls::Error::General(error.to_string())))
    }
}
