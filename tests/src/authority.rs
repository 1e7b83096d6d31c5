//! A certificate authority of a test, and what it signs. Signs by itself and asks nobody.

use std::path::Path;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, PKCS_RSA_SHA256, RsaKeySize,
};
use rustls::pki_types::CertificateDer;
use test_support::Application;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// An authority that signs certificates.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its own certificate, in PEM.
    pub pem: String,
    /// The same, in DER.
    pub der: CertificateDer<'static>,
}

/// A certificate with its key, in PEM.
#[derive(Clone, Debug)]
pub struct Signed {
    /// The certificate.
    pub chain: String,
    /// Its key.
    pub key: String,
}

/// The kind of a key.
#[derive(Clone, Copy, Debug)]
pub enum Key {
    /// P-256.
    Ecdsa,
    /// 2048 bits.
    Rsa,
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl Authority {
    /// Makes one with a key of its own.
    ///
    /// # Panics
    /// When there is no randomness.
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let name = "authority of a test";
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        Self {
            pem: certificate.pem(),
            der: certificate.der().clone(),
            issuer: Issuer::new(params, key),
        }
    }

    /// Signs a certificate for these hosts, until the end of a year; its subject is the first.
    pub fn sign_until(&self, names: &[&str], key: Key, year: i32) -> Signed {
        self.sign_with(names, key, |params| {
            params.not_before = rcgen::date_time_ymd(2020, 1, 1);
            params.not_after = rcgen::date_time_ymd(year, 12, 31);
        })
    }

    /// Signs a certificate for these hosts, from yesterday on and for so many days.
    pub fn sign_for_days(&self, names: &[&str], days: u32) -> Signed {
        let begins = SystemTime::now() - DAY;
        self.sign_with(names, Key::Ecdsa, |params| {
            params.not_before = begins.into();
            params.not_after = (begins + DAY * days).into();
        })
    }

    fn sign_with(
        &self,
        names: &[&str],
        key: Key,
        change: impl FnOnce(&mut CertificateParams),
    ) -> Signed {
        let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
        let first = names.first().cloned().unwrap_or_default();
        let mut params = CertificateParams::new(names).expect("names");
        params.distinguished_name.push(DnType::CommonName, first);
        change(&mut params);
        let key = match key {
            Key::Ecdsa => KeyPair::generate(),
            Key::Rsa => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048),
        };
        let key = key.expect("a key");
        let certificate = params.signed_by(&key, &self.issuer);
        Signed {
            chain: certificate.expect("a certificate").pem(),
            key: key.serialize_pem(),
        }
    }

    /// Signs a certificate for these hosts that ends with the year 2099.
    pub fn sign(&self, names: &[&str]) -> Signed {
        self.sign_until(names, Key::Ecdsa, 2099)
    }
}

impl Signed {
    /// Writes `NAME.pem` and `NAME.key` into an application's folder, as whole files.
    ///
    /// # Panics
    /// When they cannot be written.
    pub fn write(&self, application: &Application, name: &str) {
        self.write_to(application.path(), name);
    }

    /// The same for any folder.
    ///
    /// # Panics
    /// When they cannot be written.
    pub fn write_to(&self, dir: &Path, name: &str) {
        replace(&dir.join(format!("{name}.key")), &self.key);
        replace(&dir.join(format!("{name}.pem")), &self.chain);
    }
}

/// Writes a file that its owner alone may read, in place of another one.
fn replace(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    let new = path.with_extension("new");
    std::fs::write(&new, text).expect("a file");
    std::fs::set_permissions(&new, PermissionsExt::from_mode(0o600)).expect("it is ours");
    std::fs::rename(&new, path).expect("the same folder");
}
