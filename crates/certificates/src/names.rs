//! The names of one certificate. Resolves nothing.

use std::fmt;
use std::net::IpAddr;

use instant_acme::Identifier;

use crate::failure::PlanError;

/// The longest host name (RFC 1035 section 2.3.4), in bytes.
const MAX_HOST_NAME_BYTES: usize = 253;
/// The longest part of a host name between dots, in bytes.
const MAX_LABEL_BYTES: usize = 63;
/// The longest text of a set of names, which is the name of its folder, in bytes.
const MAX_SET_BYTES: usize = 254;

/// Names that one certificate has, in lower case: host names, wildcards such as `*.example.com`, or addresses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Names(Vec<String>);

impl Names {
    /// Checks the names of one certificate.
    ///
    /// # Errors
    /// A name that no certificate authority would check, or no name at all.
    pub fn new(names: &[impl AsRef<str>]) -> Result<Self, PlanError> {
        let names: Vec<String> = names
            .iter()
            .map(|name| checked(name.as_ref()))
            .collect::<Result<_, _>>()?;
        if names.is_empty() {
            return Err(PlanError::Name(String::new(), "it is empty"));
        }
        let names = Self(names);
        match names.folder().len() {
            0..=MAX_SET_BYTES => Ok(names),
            _ => Err(PlanError::TooManyNames(names.to_string())),
        }
    }

    /// Whether one is a wildcard, which authorities check by DNS-01 alone.
    pub fn has_wildcard(&self) -> bool {
        self.0.iter().any(|name| name.starts_with("*."))
    }

    /// The names, in the order in which they were given.
    pub fn as_slice(&self) -> &[String] {
        &self.0
    }

    /// The name of the folder for this set.
    pub(crate) fn folder(&self) -> String {
        self.0.join(",")
    }

    /// The set whose folder has this name.
    pub(crate) fn from_folder(name: &str) -> Option<Self> {
        Self::new(&name.split(',').collect::<Vec<_>>()).ok()
    }

    pub(crate) fn identifiers(&self) -> Vec<Identifier> {
        let identifier = |name: &String| match name.parse::<IpAddr>() {
            Ok(address) => Identifier::Ip(address),
            Err(_) => Identifier::Dns(name.clone()),
        };
        self.0.iter().map(identifier).collect()
    }
}

impl fmt::Display for Names {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0.join(", "))
    }
}

/// A name in the form in which it is compared.
fn checked(name: &str) -> Result<String, PlanError> {
    if let Ok(address) = name.parse::<IpAddr>() {
        return Ok(address.to_string());
    }
    let wrong = |why| Err(PlanError::Name(name.to_owned(), why));
    let lower = name.to_ascii_lowercase();
    if lower.is_empty() {
        return wrong("it is empty");
    }
    let host = lower.strip_prefix("*.").unwrap_or(&lower);
    if host.contains('*') {
        return wrong("a wildcard is *. and a host name");
    }
    if lower.len() > MAX_HOST_NAME_BYTES {
        return wrong("it is longer than 253 characters");
    }
    let label = |label: &str| {
        (1..=MAX_LABEL_BYTES).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    if !host.split('.').all(label) {
        return wrong("a host name has letters, digits and - between dots");
    }
    if lower
        .rsplit('.')
        .next()
        .is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()))
    {
        return wrong("it looks like an address but is none");
    }
    Ok(lower)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_and_lower_case() {
        for (name, expected) in [
            ("Shop.Example.COM", Some("shop.example.com")),
            ("localhost", Some("localhost")),
            ("xn--bcher-kva.example", Some("xn--bcher-kva.example")),
            ("192.0.2.1", Some("192.0.2.1")),
            ("2001:DB8::1", Some("2001:db8::1")),
            ("*.Example.com", Some("*.example.com")),
            ("*.", None),
            ("*", None),
            ("a.*.example", None),
            ("*.*.example", None),
            ("*a.example", None),
            ("*.192.0.2.1", None),
            ("", None),
            ("a..b", None),
            ("-a.example", None),
            ("a/../b", None),
            ("..", None),
            (".", None),
            ("a,b", None),
            ("1.2.3", None),
            ("bücher.example", None),
        ] {
            let names = Names::new(&[name]).ok();
            let found = names.as_ref().map(|names| names.as_slice()[0].as_str());
            assert_eq!(found, expected, "{name:?}");
        }
        assert!(Names::new(&[format!("{}.example", "a".repeat(64))]).is_err());
        assert!(Names::new(&[""; 0]).is_err());
    }

    #[test]
    fn a_folder_leads_back_to_its_names() {
        let names = Names::new(&["a.example", "b.example"]).unwrap();
        assert_eq!(Names::from_folder(&names.folder()), Some(names));
        assert_eq!(Names::from_folder("account.json/.."), None);
    }
}
