//! The part of the table of settings for certificates that come by themselves. Like the rest of the table it is data:
//! `table.rs` makes settings of it.

/// Puts the settings for ACME between those of TLS and the given ones, and passes all to a macro.
macro_rules! acme_settings {
    ($next:ident; $($rest:tt)*) => { tls_settings! { $next;
        "Certificates" {
            /// The hosts whose certificates the server orders and renews by itself (ACME).
            ///
            /// Each host gets a certificate of its own. The certificate authority must reach this server: by HTTP on
            /// port 80 of each host, or by TLS on port 443. A listener with TLS then needs no `tls_certificate_files`;
            /// certificates of files come first. A wildcard needs `acme_dns_command`. `highball certificates` shows what there is, and what the authority
            /// says where an order failed. Who sets it agrees to the authority's terms of service.
            tls_hosts: Vec<String> = Kind::Texts("host names such as \"www.example.com\""), default "none", reload Start, scope Server;

            /// The address that is asked whether a host that `tls_hosts` does not list gets a certificate, when a client
            /// connects to it: `http://` or `https://`.
            ///
            /// A GET with `domain=HOST` in its query, answered within 2 seconds; 200 is yes, anything else no. Ten hosts
            /// may be asked about at once, then one a second; a no counts for ten minutes. At most 1000 hosts get a
            /// certificate so, and only the address protects you from strangers who send names of their own. The first
            /// client waits in its handshake for the order, up to `header_timeout`.
            acme_ask_url: Option<String> = Kind::Maybe(&Kind::Text), default "none", reload Start, scope Server;

            /// The program that adds records to the domain name system and removes them, for wildcards such as
            /// `*.example.com` in `tls_hosts`, and for servers that the authority cannot reach (DNS-01).
            ///
            /// It is called as `PROGRAM add _acme-challenge.example.com VALUE`, and with `remove` afterwards, without a
            /// shell, as the server's user; relative paths are relative to the application's folder. It must end
            /// successfully within 3 minutes, once the name servers of the domain have the record (TXT). What it
            /// writes is in the log, and in `highball certificates` where it fails. With it all names are checked so.
            acme_dns_command: Option<String> = Kind::Maybe(&Kind::Text), default "none", reload Start, scope Server;

            /// The certificate authority: `letsencrypt`, its test authority `staging`, or the https address of an ACME
            /// directory.
            ///
            /// Try a new server with `staging`: browsers do not trust its certificates, and its limits are high.
            acme_directory: String = Kind::Text, default "letsencrypt", reload Start, scope Server;

            /// The mail address that the certificate authority gets with the account.
            acme_contact: Option<String> = Kind::Maybe(&Kind::Text), default "none", reload Start, scope Server;

            /// The profile of the certificates, if the authority has several, such as `shortlived`.
            acme_profile: Option<String> = Kind::Maybe(&Kind::Text), default "none", reload Start, scope Server;

            /// The identifier of the account at the authority that orders belong to, if the authority wants one
            /// (external account binding).
            acme_eab_key_id: Option<String> = Kind::Maybe(&Kind::Text), default "none", reload Start, scope Server;

            /// The file with the key of that account, as the authority gives it (base64url).
            acme_eab_key_file: Option<String> = Kind::Maybe(&Kind::Text), default "none", reload Start, scope Server;

            /// The file with the certificates (PEM) that the authority's own server is checked against, for an authority
            /// in your own network.
            ///
            /// `none` is the system's list (package ca-certificates).
            acme_ca_file: Option<String> = Kind::Maybe(&Kind::Text), default "none", reload Start, scope Server;

            /// The folder where the account, certificates and their keys are kept, which must outlive deploys: an
            /// absolute path outside of the application's folder.
            ///
            /// `none` is `acme` in `STATE_DIRECTORY` (systemd), else `/var/lib/highball/acme` if the server's user may
            /// use it, else `highball/acme` in `XDG_STATE_HOME` or `~/.local/state`. Folders get the mode 0700, files
            /// 0600.
            acme_storage: Option<String> = Kind::Maybe(&Kind::Text), default "none", reload Start, scope Server;
        }

        $($rest)*
    } };
}

pub(crate) use acme_settings;
