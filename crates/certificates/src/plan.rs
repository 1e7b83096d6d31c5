//! What a certificate manager is to do: which names, which certificate authority, which account. Data only.

use std::fmt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use instant_acme::LetsEncrypt;

use crate::failure::PlanError;
use crate::names::Names;

/// What a certificate manager is to do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// One certificate for each of them.
    pub sets: Vec<Names>,
    /// The https address of the authority's directory.
    pub directory: String,
    /// The mail address that the authority gets, where there is one.
    pub contact: Option<String>,
    /// The account at the authority that the ACME account belongs to, where it needs one (RFC 8555 section 7.3.4).
    pub external_account: Option<ExternalAccount>,
    /// The profile of certificates, where the authority has several.
    pub profile: Option<String>,
    /// A file with the certificates that the authority's own servers are checked against, instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// The folder where everything is kept.
    pub storage: PathBuf,
    /// The program that adds records to the domain name system and removes them, where there is one.
    pub dns_command: Option<PathBuf>,
    /// The address that is asked whether a name that somebody connected to gets a certificate.
    pub ask_url: Option<String>,
}

/// An account that was made outside of ACME.
#[derive(Clone)]
pub struct ExternalAccount {
    /// The identifier that the authority gave.
    pub key_id: String,
    /// The key's bytes.
    pub key: Vec<u8>,
}

impl ExternalAccount {
    /// Reads the key from a file that holds it in base64url, as authorities give it.
    ///
    /// # Errors
    /// The file cannot be read, or holds no such key.
    pub fn from_file(key_id: String, path: &Path) -> Result<Self, PlanError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| PlanError::File(path.to_owned(), error))?;
        let key = BASE64_URL_SAFE_NO_PAD
            .decode(text.trim().trim_end_matches('='))
            .map_err(|error| PlanError::ExternalKey(path.to_owned(), error.to_string()))?;
        Ok(Self { key_id, key })
    }
}

impl fmt::Debug for ExternalAccount {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = out.debug_struct("ExternalAccount");
        out.field("key_id", &self.key_id).finish_non_exhaustive()
    }
}

/// The address of a directory: `letsencrypt` and `staging` are those of Let's Encrypt, everything else is an https address.
///
/// # Errors
/// It is neither.
pub fn directory_url(text: &str) -> Result<String, PlanError> {
    let wrong = || PlanError::Directory(text.to_owned());
    match text {
        "letsencrypt" => Ok(LetsEncrypt::Production.url().to_owned()),
        "staging" => Ok(LetsEncrypt::Staging.url().to_owned()),
        _ => {
            let url: http::Uri = text.parse().map_err(|_| wrong())?;
            match url.scheme_str() == Some("https") && url.host().is_some() {
                true => Ok(text.to_owned()),
                false => Err(wrong()),
            }
        }
    }
}

/// The address that decides about names, as it was given.
///
/// # Errors
/// It is no http or https address.
pub fn ask_url(text: &str) -> Result<String, PlanError> {
    let url = text.parse::<http::Uri>().ok();
    let scheme = url.as_ref().and_then(http::Uri::scheme_str);
    match matches!(scheme, Some("http" | "https")) && !text.contains('#') {
        true => Ok(text.to_owned()),
        false => Err(PlanError::AskUrl(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_a_short_name_or_an_https_address() {
        assert!(directory_url("letsencrypt").unwrap().contains("acme-v02"));
        assert!(directory_url("staging").unwrap().contains("staging"));
        let own = "https://[::1]:14000/dir";
        assert_eq!(directory_url(own).unwrap(), own);
        for wrong in [
            "",
            "production",
            "http://ca.example/dir",
            "https://",
            "ca.example",
        ] {
            assert!(directory_url(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn an_address_to_ask_is_one_of_http_or_https() {
        for right in ["http://127.0.0.1:3000/ask", "https://a.example/?key=1"] {
            assert_eq!(ask_url(right).unwrap(), right);
        }
        for wrong in [
            "",
            "/ask",
            "a.example/ask",
            "ftp://a.example/",
            "http://",
            "http://a/#b",
        ] {
            assert!(ask_url(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn an_external_key_is_read_and_not_shown() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "c2VjcmV0\n").unwrap();
        let account = ExternalAccount::from_file("kid".to_owned(), file.path()).unwrap();
        assert_eq!(account.key, b"secret");
        assert!(
            !format!("{account:?}").contains("secret") && !format!("{account:?}").contains("115")
        );
        std::fs::write(file.path(), "no base64!").unwrap();
        assert!(ExternalAccount::from_file("kid".to_owned(), file.path()).is_err());
    }
}
