//! Which clients may request which paths (settings `allow` and `deny`). It knows no users.

use std::net::IpAddr;

use config::Settings;

/// Whether the settings restrict anything.
pub(super) fn is_on(settings: &Settings) -> bool {
    !settings.allow.is_empty() || !settings.deny.is_empty()
}

/// Whether a client may request a path. All rules of `deny` that match count, so that a rule for a path below does not open
/// it again; of `allow` the longest one.
pub(super) fn permits(settings: &Settings, path: &[u8], client: Option<IpAddr>) -> bool {
    let mut refused = settings.deny.find_all(path);
    if refused.any(|clients| clients.contains_client(client)) {
        return false;
    }
    let allowed = settings.allow.find(path);
    allowed.is_none_or(|clients| clients.contains_client(client))
}

#[cfg(test)]
mod tests {
    use config::AddressList;

    use super::*;

    #[test]
    fn deny_is_stronger_and_counts_for_all_paths_below() {
        let rules = |rules: &[(&str, &str)]| {
            let rules = rules.iter().map(|(path, clients)| {
                let clients: Vec<&str> = clients.split(' ').collect();
                (*path, AddressList::parse(&clients).expect("good items"))
            });
            rules.collect()
        };
        let mut settings = Settings::for_tests();
        assert!(!is_on(&settings));
        settings.allow = rules(&[("/admin", "10.0.0.0/8 unix"), ("/admin/open", "all")]);
        settings.deny = rules(&[("/", "192.0.2.66"), ("/admin", "10.6.6.6 fd00::/8")]);
        assert!(is_on(&settings));
        for (path, client, expect) in [
            ("/", "198.51.100.1", true),
            ("/", "192.0.2.66", false),
            ("/admin", "198.51.100.1", false),
            ("/admin", "10.1.2.3", true),
            ("/%61dmin/", "198.51.100.1", false),
            ("//admin", "198.51.100.1", false),
            ("/x/../admin", "198.51.100.1", false),
            ("/administration", "198.51.100.1", true),
            ("/admin/x", "10.6.6.6", false),
            ("/admin/open", "198.51.100.1", true),
            ("/admin/open", "192.0.2.66", false),
            ("/admin/open", "10.6.6.6", false),
            ("/admin/open", "fd00::1", false),
            ("/admin", "::ffff:10.1.2.3", true),
        ] {
            let address = client.parse().expect("an address");
            let permitted = permits(&settings, path.as_bytes(), Some(address));
            assert_eq!(permitted, expect, "{path} {client}");
        }
        // A peer on a UNIX socket.
        assert!(permits(&settings, b"/admin", None));
    }
}
