//! Hosts and prefixes by which requests find their application: their grammar. It looks no name up.

use std::net::Ipv6Addr;

/// The longest name of a host, in bytes (RFC 1035 section 2.3.4, without the dot at its end).
pub const MAX_HOST_BYTES: usize = 253;
/// The longest prefix of paths, in bytes.
const MAX_PREFIX_BYTES: usize = 255;

/// A host, or all hosts one label below one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostPattern {
    wildcard: bool,
    /// In lower case, without a port and a dot at its end; without `*.`.
    name: String,
}

impl HostPattern {
    /// Reads `shop.example.com` or `*.example.com`.
    ///
    /// # Errors
    /// What is wrong with it, in a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (wildcard, name) = match text.strip_prefix("*.") {
            Some(name) => (true, name),
            None => (false, text),
        };
        let mut name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        let brackets = name.strip_prefix('[');
        let address = brackets.and_then(|rest| rest.strip_suffix(']')?.parse::<Ipv6Addr>().ok());
        let is_address = address.is_some();
        if let Some(address) = address {
            // Clients write it in its shortest form.
            name = format!("[{address}]");
        }
        let is_label = |label: &str| {
            let known = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
            (1..=63).contains(&label.len()) && label.bytes().all(known)
        };
        let is_name = name.len() <= MAX_HOST_BYTES && name.split('.').all(is_label);
        if is_name || (is_address && !wildcard) {
            return Ok(Self { wildcard, name });
        }
        Err(format!(
            "{text:?} is not allowed; expected a host without a port, such as \"shop.example.com\" or \"*.example.com\""
        ))
    }

    /// Whether it stands for all names one label below [`HostPattern::name`].
    pub fn is_wildcard(&self) -> bool {
        self.wildcard
    }

    /// The name in lower case, without `*.`, a port and a dot at its end.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl std::fmt::Display for HostPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let below = if self.wildcard { "*." } else { "" };
        write!(f, "{below}{}", self.name)
    }
}

/// Reads a prefix of paths, such as `/wiki`. Returns it without a slash at its end: `/` is empty.
///
/// # Errors
/// What is wrong with it, in a sentence.
pub(crate) fn parse_prefix(text: &str) -> Result<String, String> {
    let prefix = text.strip_suffix('/').unwrap_or(text);
    let is_plain = |segment: &str| {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
        !segment.is_empty() && segment.bytes().all(known) && !matches!(segment, "." | "..")
    };
    let segments = prefix.strip_prefix('/').map(|rest| rest.split('/'));
    let is_good =
        segments.is_some_and(|mut all| all.all(is_plain)) && prefix.len() <= MAX_PREFIX_BYTES;
    if is_good || text == "/" {
        return Ok(prefix.to_owned());
    }
    Err(format!(
        "{text:?} is not allowed; expected the beginning of paths, such as \"/wiki\": letters, digits, - _ . ~ and single slashes"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_names_with_or_without_a_wildcard() {
        let check = |text: &str, expect: Option<&str>| {
            let parsed = HostPattern::parse(text).ok().map(|host| host.to_string());
            assert_eq!(parsed.as_deref(), expect, "{text}");
        };
        check("Shop.Example.com.", Some("shop.example.com"));
        check("*.example.com", Some("*.example.com"));
        check("localhost", Some("localhost"));
        check("127.0.0.1", Some("127.0.0.1"));
        check("[::1]", Some("[::1]"));
        check("[0:0::0:0001]", Some("[::1]"));
        check("[2001:DB8:0:0:1:0:0:1]", Some("[2001:db8::1:0:0:1]"));
        for wrong in [
            "",
            "*",
            "*.",
            "a:80",
            "http://a",
            "a b",
            "a..b",
            "a.*.b",
            "*.[::1]",
            "[a]",
            "\u{e4}.test",
        ] {
            check(wrong, None);
        }
        check(&"a.".repeat(200), None);
    }

    #[test]
    fn prefixes_are_plain_beginnings_of_paths() {
        let check = |text: &str, expect: Option<&str>| {
            assert_eq!(parse_prefix(text).ok().as_deref(), expect, "{text}");
        };
        check("/", Some(""));
        check("/wiki", Some("/wiki"));
        check("/a/b/", Some("/a/b"));
        for wrong in [
            "", "wiki", "//", "/a//b", "/a/../b", "/a?b", "/a%20b", "/\u{e4}",
        ] {
            check(wrong, None);
        }
        check(&format!("/{}", "a".repeat(300)), None);
    }
}
