//! The part of the table of settings for TLS. Like the rest of the table it is data: `table.rs` makes settings of it.

/// Puts the settings for TLS between those of the server and the given ones, and passes all to a macro.
macro_rules! tls_settings {
    ($next:ident; $($rest:tt)*) => { server_settings! { $next;
        "TLS" {
            /// The certificates of TLS listeners, each with its key.
            ///
            /// `CHAIN:KEY` names two PEM files: the certificate with its intermediate ones, and its key. One file may
            /// hold both. A folder stands for the pairs in it: `NAME.crt` or `NAME.pem` with `NAME.key`, and
            /// `fullchain.pem` with `privkey.pem`, also in its subfolders (`/etc/letsencrypt/live`). Relative paths
            /// start at the application's folder.
            ///
            /// A certificate serves the names that it holds; the first one serves clients that name no host. Files
            /// are checked every second: a changed pair is used at once, without a restart; if it is not valid, the
            /// old one stays and a warning says why.
            tls_certificate_files: Vec<String> = Kind::Texts("paths such as \"cert.pem:key.pem\", or of folders"), default "none", reload AtOnce, scope Server;

            /// The oldest version of TLS that clients may use.
            tls_min_version: TlsVersion = Kind::Choice(&["1.2", "1.3"]), default "1.2", reload AtOnce, scope Server;

            /// The file with the certificates of the authorities (PEM) that certificates of clients are checked against.
            ///
            /// It is read again with a reload.
            tls_client_ca_file: Option<String> = Kind::Maybe(&Kind::Text), default "none", reload AtOnce, scope Server;

            /// Whether clients of TLS listeners show a certificate.
            ///
            /// `optional` asks for one, `required` refuses clients that have none. A certificate that
            /// `tls_client_ca_file` did not sign is always refused. The application gets `SSL_CLIENT_VERIFY`
            /// (`SUCCESS` or `NONE`), `SSL_CLIENT_S_DN` and `SSL_CLIENT_CERT` (PEM) in the Rack env.
            tls_client_verify: ClientVerification = Kind::Choice(&["none", "optional", "required"]), default "none", reload AtOnce, scope Server;

            /// Whether requests without TLS are redirected to the same address with TLS.
            ///
            /// Only those for a host that a certificate names, where there is a listener with TLS; GET and HEAD by 301,
            /// other methods by 308. Paths in `priority_paths`, and those by which authorities of certificates check a
            /// host (`/.well-known/acme-challenge/`), are answered where they come, and so are requests of which a
            /// trusted proxy says that they came with TLS.
            tls_redirect: bool = Kind::Bool, default "true", reload AtOnce;

            /// The host to which requests for other hosts are redirected, such as `www.example.com`.
            ///
            /// Paths in `priority_paths` are answered for every host. A port in the request is kept.
            canonical_host: Option<String> = Kind::Maybe(&Kind::Host), default "none", reload AtOnce;

            /// How long browsers come to this host by TLS alone, once they have come by TLS (RFC 6797).
            ///
            /// `2y; includeSubDomains` sets the field `Strict-Transport-Security` on each response over TLS that has
            /// none. Browsers keep to it until the time is over, whatever the server says later: begin with `5m`.
            hsts: Option<Hsts> = Kind::Maybe(&Kind::Hsts), default "none", reload AtOnce;
        }

        $($rest)*
    } };
}

pub(crate) use tls_settings;
