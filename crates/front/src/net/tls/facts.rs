//! What a handshake has found out about a connection. It decides nothing.

use base64::Engine;
use base64::prelude::BASE64_STANDARD as STANDARD;
use rustls::pki_types::CertificateDer;
use rustls::server::ServerConnection;
use rustls::{HandshakeKind, ProtocolVersion};

use crate::net::tls::x509::Details;

/// Characters of a line in PEM (RFC 7468 section 2).
const PEM_LINE: usize = 64;

/// A connection's TLS.
#[derive(Debug)]
pub struct TlsFacts {
    /// Its version, such as `TLSv1.3`.
    pub version: &'static str,
    /// Its cipher suite, as rustls names it.
    pub cipher: String,
    /// The host that the client named in its handshake.
    pub server_name: Option<String>,
    /// The protocol that both agreed on, such as `http/1.1`; none where the client named none.
    pub protocol: Option<Vec<u8>>,
    /// The client's certificate, checked.
    pub client: Option<ClientCertificate>,
    /// Whether the client was asked for one.
    pub asks_client: bool,
    /// Whether it went on with an earlier session.
    pub is_resumed: bool,
}

/// A certificate that a client has shown, and that was checked.
#[derive(Debug)]
pub struct ClientCertificate {
    /// Its subject (RFC 4514).
    pub subject: String,
    /// The certificate itself, in PEM.
    pub pem: String,
}

impl TlsFacts {
    /// Reads them from a connection whose handshake is over; `asks_client` says whether a certificate was asked for.
    pub fn of(session: &ServerConnection, asks_client: bool) -> Self {
        let cipher = session.negotiated_cipher_suite();
        let shown = session.peer_certificates();
        Self {
            version: match session.protocol_version() {
                Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
                _ => "TLSv1.3",
            },
            cipher: cipher.map_or_else(String::new, |suite| format!("{:?}", suite.suite())),
            server_name: session.server_name().map(str::to_owned),
            protocol: session.alpn_protocol().map(<[u8]>::to_vec),
            client: shown.and_then(<[_]>::first).map(ClientCertificate::of),
            asks_client,
            is_resumed: session.handshake_kind() == Some(HandshakeKind::Resumed),
        }
    }

    /// The series of [`metrics::TLS_HANDSHAKES`] that counts the handshake.
    pub(crate) fn series(&self) -> &'static str {
        match (self.is_resumed, self.version) {
            (false, "TLSv1.2") => "full/1.2",
            (false, _) => "full/1.3",
            (true, "TLSv1.2") => "resumed/1.2",
            (true, _) => "resumed/1.3",
        }
    }
}

impl ClientCertificate {
    fn of(certificate: &CertificateDer<'_>) -> Self {
        let read = Details::of(certificate);
        Self {
            // rustls has read it before, more strictly.
            subject: read.map_or_else(|_| String::new(), |details| details.subject),
            pem: pem(certificate),
        }
    }
}

/// A certificate in PEM (RFC 7468).
fn pem(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
    for line in text.as_bytes().chunks(PEM_LINE) {
        pem.extend(line.iter().map(|&byte| char::from(byte)));
        pem.push('\n');
    }
    pem + "-----END CERTIFICATE-----\n"
}
