//! What happens on an accepted socket before HTTP: its PROXY header, then its TLS handshake. Both have a time limit, and a
//! connection counts from its accept on. It serves nothing, and keeps nothing of a connection.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use metrics::TLS_HANDSHAKES;
use rustls::ServerConfig;
use rustls::server::{Acceptor, ClientHello};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::{LazyConfigAcceptor, StartHandshake};

use crate::edge::Edge;
use crate::http::request::Peer;
use crate::net::proxy_protocol;
use crate::net::stream::Stream;
use crate::net::tls::TlsError;
use crate::net::tls::certificates::ACME_PROTOCOL;
use crate::net::tls::facts::TlsFacts;

/// The type of the record that a handshake begins with (RFC 8446 section 5.1).
const HANDSHAKE_RECORD: u8 = 22;

/// A fatal alert, as a record of its own, without its description.
const FATAL_ALERT: [u8; 6] = [21, 3, 3, 0, 2, 2];
/// The descriptions of alerts (RFC 8446 section 6).
const UNRECOGNIZED_NAME: u8 = 112;
const NO_APPLICATION_PROTOCOL: u8 = 120;

/// How long a client that is refused may go on sending before the socket is closed on it.
pub(crate) const LINGER: Duration = Duration::from_secs(2);
/// And how much.
const LINGER_BYTES: u64 = 64 * 1024;

/// The answer to HTTP on a port for HTTPS.
const PLAIN_HTTP: &str = "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: 63\r\nconnection: close\r\n\r\nThis port speaks HTTPS: ask for the same address with https://\n";

/// Why no HTTP is spoken on a connection.
#[derive(Debug)]
pub(super) struct Refused {
    /// The client's address.
    pub(super) address: String,
    /// The reason, for the log.
    pub(super) reason: String,
}

/// A handshake that ends without a connection for HTTP.
#[derive(Debug, thiserror::Error)]
enum HandshakeError {
    #[error("it speaks HTTP to a port for HTTPS")]
    PlainHttp,
    #[error("it does not speak TLS")]
    NoTls,
    #[error("it names {0:?}, for which there is no certificate")]
    UnknownName(String),
    #[error(
        "it wants to check {0:?} for an authority, and no certificate is being ordered for that"
    )]
    NoChallenge(String),
    #[error("its handshake took longer than header_timeout")]
    TimeOut,
    #[error("TLS handshake failed: {0}")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// Does what must happen before HTTP. None where the connection has ended as it should.
///
/// # Errors
/// [`Refused`]: the connection is closed, and the client knows why as far as that can be said.
pub(super) async fn open(
    edge: &Edge,
    mut stream: Stream,
    mut peer: Peer,
    tls: bool,
) -> Result<Option<(Stream, Peer)>, Refused> {
    let settings = edge.settings.get();
    if settings.proxy_protocol && peer.trusted {
        let trusted = &settings.trusted_proxies;
        match proxy_protocol::take_header(&mut stream, &mut peer, trusted).await {
            Ok(()) => {}
            Err(error) if error.has_left() => return Ok(None),
            Err(error) => {
                return Err(Refused {
                    address: peer.address,
                    reason: error.to_string(),
                });
            }
        }
    }
    let stream = match stream {
        Stream::Tcp(stream) if tls => stream,
        stream => return Ok(Some((stream, peer))),
    };
    let limit = settings.header_timeout;
    let shaken = tokio::time::timeout(limit, shake_hands(edge, stream)).await;
    match shaken.unwrap_or(Err(HandshakeError::TimeOut)) {
        Ok(None) => Ok(None),
        Ok(Some((stream, facts))) => {
            edge.tls.events.count(&TLS_HANDSHAKES, facts.series());
            peer.tls = Some(Box::new(facts));
            Ok(Some((stream, peer)))
        }
        // A client that leaves has refused, and was not refused; a probe of a load balancer may do that each second.
        Err(HandshakeError::Io(error)) if left(&error) => Ok(None),
        Err(error) => {
            edge.tls.events.count(&TLS_HANDSHAKES, "failed/");
            Err(Refused {
                address: peer.address,
                reason: error.to_string(),
            })
        }
    }
}

/// Whether the client has closed the connection.
fn left(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), UnexpectedEof | ConnectionReset | BrokenPipe)
}

/// Makes the handshake (RFC 8446 section 2). None where the client was an authority that has seen what it wanted.
async fn shake_hands(
    edge: &Edge,
    mut stream: TcpStream,
) -> Result<Option<(Stream, TlsFacts)>, HandshakeError> {
    let mut first = [0];
    match stream.peek(&mut first).await? {
        0 => return Ok(None),
        _ if first[0] == HANDSHAKE_RECORD => {}
        // A method begins with a letter.
        _ if first[0].is_ascii_alphabetic() => {
            refuse(&mut stream, PLAIN_HTTP.as_bytes()).await;
            return Err(HandshakeError::PlainHttp);
        }
        _ => return Err(HandshakeError::NoTls),
    }
    let mut start = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
    let hello = start.client_hello();
    let name = hello.server_name().map(str::to_owned);
    let challenged = asks_for_challenge(&hello);
    let certificates = &edge.tls.certificates;
    if let (true, Some(name)) = (challenged, &name) {
        let Some(key) = certificates.alpn_answer(name) else {
            return Err(alert(
                &mut start,
                NO_APPLICATION_PROTOCOL,
                HandshakeError::NoChallenge(name.clone()),
            )
            .await);
        };
        answer_challenge(start, key).await?;
        return Ok(None);
    }
    if let Some(name) = name
        && !certificates.knows_or_gets(&name).await
    {
        let error = HandshakeError::UnknownName(name);
        return Err(alert(&mut start, UNRECOGNIZED_NAME, error).await);
    }
    let Some(configuration) = edge.tls.configuration() else {
        return Err(io::Error::other("TLS is not set up").into());
    };
    let asks_client = edge.tls.asks_clients();
    let stream = start.into_stream(configuration).await?;
    let facts = TlsFacts::of(stream.get_ref().1, asks_client);
    Ok(Some((Stream::Tls(Box::new(stream)), facts)))
}

/// Whether this client is an authority that checks a host (RFC 8737 section 3).
fn asks_for_challenge(hello: &ClientHello<'_>) -> bool {
    let protocols = hello.alpn();
    protocols.is_some_and(|mut all| all.next() == Some(ACME_PROTOCOL) && all.next().is_none())
}

/// Shows an authority the certificate that proves the control of a host, and closes the connection.
async fn answer_challenge(
    start: StartHandshake<TcpStream>,
    key: Arc<CertifiedKey>,
) -> Result<(), HandshakeError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Rustls)?
        .with_no_client_auth();
    let mut configuration = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(key)));
    configuration.alpn_protocols = vec![ACME_PROTOCOL.to_vec()];
    let mut stream = start.into_stream(Arc::new(configuration)).await?;
    Ok(stream.shutdown().await?)
}

/// Sends a fatal alert and closes the connection; returns the error that it stands for.
async fn alert(
    start: &mut StartHandshake<TcpStream>,
    description: u8,
    error: HandshakeError,
) -> HandshakeError {
    let mut record = FATAL_ALERT.to_vec();
    record.push(description);
    refuse(&mut start.io, &record).await;
    error
}

/// Sends the last bytes of a connection, and reads what the client still sends, within bounds: closing at once would reset
/// the connection and could destroy them on their way.
async fn refuse(stream: &mut TcpStream, bytes: &[u8]) {
    let written = async {
        stream.write_all(bytes).await?;
        stream.shutdown().await?;
        let mut rest = stream.take(LINGER_BYTES);
        tokio::io::copy(&mut rest, &mut tokio::io::sink()).await
    };
    // A client that does not wait for it has left.
    let _ = tokio::time::timeout(LINGER, written).await;
}
