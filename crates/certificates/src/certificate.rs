//! A certificate with its key and chain, as it is stored and as rustls serves it. Checks no signature of a chain: clients
//! do that.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use instant_acme::CertificateIdentifier;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::names::Names;
use crate::renewal::Life;
use crate::text::one_line;

/// A certificate that can be served.
#[derive(Clone)]
pub(crate) struct Certificate {
    /// Private key, certificate and chain.
    pub(crate) pem: String,
    pub(crate) key: Arc<CertifiedKey>,
    pub(crate) life: Life,
    /// One line, escaped.
    pub(crate) issuer: String,
    /// In hexadecimal digits.
    pub(crate) serial: String,
    /// The names that it is for, in lower case.
    dns_names: Vec<String>,
    addresses: Vec<Vec<u8>>,
}

impl Certificate {
    /// Reads a private key with its certificate and chain.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub(crate) fn from_pem(pem: String) -> Result<Self, String> {
        let key = PrivateKeyDer::from_pem_slice(pem.as_bytes())
            .map_err(|error| format!("the private key: {error}"))?;
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(pem.as_bytes())
            .collect::<Result<_, _>>()
            .map_err(|error| format!("the certificate: {error}"))?;
        let Some(first) = chain.first() else {
            return Err("there is no certificate in it".to_owned());
        };
        let (_, parsed) = X509Certificate::from_der(first)
            .map_err(|error| format!("the certificate: {error}"))?;
        let mut certificate = Self {
            life: Life {
                not_before: time(parsed.validity().not_before.timestamp()),
                not_after: time(parsed.validity().not_after.timestamp()),
            },
            issuer: one_line(&parsed.issuer().to_string()),
            serial: parsed.raw_serial_as_string().replace(':', ""),
            dns_names: Vec::new(),
            addresses: Vec::new(),
            key: Arc::new(
                CertifiedKey::from_der(chain.clone(), key, &aws_lc_rs::default_provider())
                    .map_err(|error| format!("key and certificate: {error}"))?,
            ),
            pem: String::new(),
        };
        if let Ok(Some(names)) = parsed.subject_alternative_name() {
            for name in &names.value.general_names {
                match name {
                    GeneralName::DNSName(name) => {
                        certificate.dns_names.push(name.to_ascii_lowercase());
                    }
                    GeneralName::IPAddress(bytes) => certificate.addresses.push(bytes.to_vec()),
                    _ => {}
                }
            }
        }
        certificate.pem = pem;
        Ok(certificate)
    }

    /// Whether it is for all these names.
    pub(crate) fn covers(&self, names: &Names) -> bool {
        names.as_slice().iter().all(|name| match name.parse() {
            Ok(std::net::IpAddr::V4(v4)) => self.addresses.contains(&v4.octets().to_vec()),
            Ok(std::net::IpAddr::V6(v6)) => self.addresses.contains(&v6.octets().to_vec()),
            Err(_) => self.dns_names.contains(name),
        })
    }

    /// The name under which the authority knows it (RFC 9773 section 4.1); `None` where it has no authority key identifier.
    pub(crate) fn identifier(&self) -> Option<CertificateIdentifier<'static>> {
        let first = self.key.cert.first()?;
        let identifier = CertificateIdentifier::try_from(first).ok()?;
        Some(identifier.into_owned())
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The private key is in no log.
        let mut out = out.debug_struct("Certificate");
        out.field("serial", &self.serial).finish_non_exhaustive()
    }
}

fn time(timestamp: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(timestamp.try_into().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    fn pem(names: &[&str], key: &KeyPair) -> String {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let certificate = CertificateParams::new(names)
            .unwrap()
            .self_signed(key)
            .unwrap();
        certificate.pem()
    }

    #[test]
    fn a_certificate_is_read_with_its_names_and_life() {
        let key = KeyPair::generate().unwrap();
        let text = key.serialize_pem() + &pem(&["a.example", "192.0.2.1"], &key);
        let certificate = Certificate::from_pem(text).unwrap();
        for (names, covered) in [
            (vec!["a.example"], true),
            (vec!["a.example", "192.0.2.1"], true),
            (vec!["b.example"], false),
            (vec!["a.example", "b.example"], false),
        ] {
            assert_eq!(certificate.covers(&Names::new(&names).unwrap()), covered);
        }
        assert!(certificate.life.length() > Duration::from_secs(24 * 3600));
        assert!(!format!("{certificate:?}").contains("PRIVATE"));
    }

    #[test]
    fn a_key_of_another_certificate_is_refused() {
        let (one, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let text = other.serialize_pem() + &pem(&["a.example"], &one);
        assert!(Certificate::from_pem(text).is_err());
        assert!(Certificate::from_pem(String::new()).is_err());
        assert!(Certificate::from_pem(one.serialize_pem()).is_err());
    }
}
