//! Answers to challenges: shown by the installer, or as a record of the domain name system, while an order waits for the authority, and taken back afterwards.

use std::sync::Arc;

use instant_acme::{ChallengeType, KeyAuthorization};
use rcgen::{CertificateParams, CustomExtension, DistinguishedName, KeyPair};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::sign::CertifiedKey;

use crate::dns_command::{DnsCommand, Records};
use crate::failure::{Cause, Failure};
use crate::installer::{ChallengeKind, Installer};

impl ChallengeKind {
    pub(crate) fn to_acme(self) -> ChallengeType {
        match self {
            Self::Http01 => ChallengeType::Http01,
            Self::TlsAlpn01 => ChallengeType::TlsAlpn01,
            Self::Dns01 => ChallengeType::Dns01,
        }
    }
}

/// Answers that the installer shows until this is dropped.
pub(crate) struct Answers<'a> {
    installer: &'a dyn Installer,
    tokens: Vec<String>,
    names: Vec<String>,
    records: Option<Records>,
}

impl<'a> Answers<'a> {
    pub(crate) fn new(installer: &'a dyn Installer, dns: Option<&Arc<DnsCommand>>) -> Self {
        Self {
            installer,
            records: dns.map(|command| Records::new(Arc::clone(command))),
            tokens: Vec::new(),
            names: Vec::new(),
        }
    }

    /// Shows one more answer.
    ///
    /// # Errors
    /// A token that has other characters than those of base64url (RFC 8555 section 8.3), or a command that fails.
    pub(crate) async fn show(
        &mut self,
        kind: ChallengeKind,
        name: &str,
        token: &str,
        authorization: &KeyAuthorization,
    ) -> Result<(), Failure> {
        match kind {
            ChallengeKind::Http01 => {
                let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
                if token.is_empty() || !token.bytes().all(plain) {
                    let text = format!(
                        "the token of a challenge has other characters than allowed: {token}"
                    );
                    return Err(Failure::new(Cause::Refused, &text));
                }
                let text = authorization.as_str();
                self.installer.answer_http01(token, text);
                self.tokens.push(token.to_owned());
            }
            ChallengeKind::TlsAlpn01 => {
                let certificate = alpn_certificate(name, authorization.digest().as_ref());
                let certificate = certificate.map_err(|error| {
                    let text = format!("cannot make the certificate of a challenge: {error}");
                    Failure::new(Cause::Refused, &text)
                })?;
                self.installer.answer_alpn01(name, Arc::new(certificate));
                self.names.push(name.to_owned());
            }
            ChallengeKind::Dns01 => {
                if let Some(records) = &mut self.records {
                    records.add(name, authorization.dns_value()).await?;
                }
            }
        }
        Ok(())
    }
}

impl Drop for Answers<'_> {
    fn drop(&mut self) {
        for token in &self.tokens {
            self.installer.remove_http01(token);
        }
        for name in &self.names {
            self.installer.remove_alpn01(name);
        }
    }
}

/// A certificate with the digest of a key authorization (RFC 8737 section 3).
fn alpn_certificate(name: &str, digest: &[u8]) -> Result<CertifiedKey, String> {
    let made = || {
        let key = KeyPair::generate()?;
        let mut parameters = CertificateParams::new([name.to_owned()])?;
        parameters.distinguished_name = DistinguishedName::new();
        parameters.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
        let certificate = parameters.self_signed(&key)?;
        Ok((certificate, key))
    };
    let (certificate, key) = made().map_err(|error: rcgen::Error| error.to_string())?;
    let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
    let provider = aws_lc_rs::default_provider();
    let key = provider.key_provider.load_private_key(key);
    let key = key.map_err(|error| error.to_string())?;
    // Without the check of from_der, which refuses certificates with a critical extension that it does not know.
    Ok(CertifiedKey::new(vec![certificate.der().clone()], key))
}
