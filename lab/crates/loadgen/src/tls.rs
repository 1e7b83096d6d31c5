//! TLS of the generator's connections: what is offered and which certificates are accepted. It opens no socket.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

use crate::plan::{Tls, Trust};

/// The protocol names of ALPN (RFC 7301, RFC 9113 section 3.1).
pub(crate) const HTTP_2: &[u8] = b"h2";
const HTTP_1_1: &[u8] = b"http/1.1";

/// Makes the TLS side of connections to one server; they share their sessions.
#[derive(Debug, Clone)]
pub(crate) struct Connector {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Connector {
    /// For connections that speak HTTP/2, or HTTP/1.1.
    ///
    /// # Errors
    /// The name is none of a host, or the trusted certificates can't be read.
    pub(crate) fn new(tls: &Tls, http2: bool) -> Result<Self> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier: Arc<dyn ServerCertVerifier> = match authorities(&tls.trust)? {
            Some(roots) => {
                WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
                    .build()
                    .context("check certificates by the trusted authorities")?
            }
            None => Arc::new(AcceptAny(Arc::clone(&provider))),
        };
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .context("set TLS up")?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        config.alpn_protocols = vec![if http2 { HTTP_2 } else { HTTP_1_1 }.to_vec()];
        if !tls.resumption {
            config.resumption = Resumption::disabled();
        }
        let name = ServerName::try_from(tls.name.clone())
            .with_context(|| format!("{:?} is no name of a host", tls.name))?;
        Ok(Self {
            config: Arc::new(config),
            name,
        })
    }

    /// The TLS side of a new connection.
    ///
    /// # Errors
    /// The configuration allows no handshake at all.
    pub(crate) fn connection(&self) -> Result<ClientConnection, Error> {
        ClientConnection::new(Arc::clone(&self.config), self.name.clone())
    }
}

/// The authorities that are trusted; `None` where every certificate is accepted.
fn authorities(trust: &Trust) -> Result<Option<RootCertStore>> {
    let mut roots = RootCertStore::empty();
    match trust {
        Trust::Any => return Ok(None),
        Trust::System => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            ensure!(
                !roots.is_empty(),
                "this machine has no certificates of authorities (Debian: apt-get install ca-certificates)"
            );
        }
        Trust::File(file) => {
            let context = || format!("certificates of authorities in {}", file.display());
            for certificate in CertificateDer::pem_file_iter(file).with_context(context)? {
                let certificate = certificate.with_context(context)?;
                roots.add(certificate).with_context(context)?;
            }
            ensure!(!roots.is_empty(), "{} holds no certificate", file.display());
        }
    }
    Ok(Some(roots))
}

/// Accepts every certificate; signatures are checked all the same, as this belongs to the cost of a handshake.
#[derive(Debug)]
struct AcceptAny(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
