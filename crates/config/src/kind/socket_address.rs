//! The form of an IP address with a port. It knows no setting.

use std::net::SocketAddr;

/// The form, in words that follow "expected".
pub(super) const ALLOWED: &str =
    "an IP address with a port, such as \"127.0.0.1:9180\" or \"[::1]:9180\"";

/// Whether a text is such an address, written as it is printed: a reload compares texts.
pub(super) fn is_valid(text: &str) -> bool {
    text.parse::<SocketAddr>()
        .is_ok_and(|address| address.to_string() == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_an_ip_address_and_a_port() {
        for text in ["127.0.0.1:9180", "[::1]:0", "0.0.0.0:80"] {
            assert!(is_valid(text), "{text}");
        }
        for text in [
            "",
            "9180",
            ":9180",
            "localhost:9180",
            "127.0.0.1",
            "127.0.0.1:080",
            "::1:80",
        ] {
            assert!(!is_valid(text), "{text}");
        }
    }
}
