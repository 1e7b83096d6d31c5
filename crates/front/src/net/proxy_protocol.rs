//! The PROXY protocol, versions 1 and 2: a header before everything else, by which a proxy that passes TCP on names the client
//! (setting `proxy_protocol`). It takes the header from the socket and not a byte more. It decides about no connection.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use config::AddressList;
use proxy_header::{ParseConfig, Protocol, ProxyHeader};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::http::request::Peer;

/// How long a peer may take to send its header.
const PROXY_HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest header: addresses of UNIX sockets and some additions.
const MAX_PROXY_HEADER_BYTES: usize = 536;
/// The longest header of version 1 (its section 2.1).
const MAX_LINE_BYTES: usize = 107;
/// The shortest one: `PROXY UNKNOWN` and the end of the line.
const SHORTEST: usize = 15;
/// The fixed part of a header of version 2.
const FIXED: usize = 16;
/// What a header of version 2 begins with.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// Version 2, and the command that says that the proxy itself is the client, as for its health checks.
const LOCAL: u8 = 0x20;

/// Whom a header names.
#[derive(Debug, PartialEq, Eq)]
enum Named {
    /// This client.
    Client(SocketAddr),
    /// The proxy itself.
    Proxy,
    /// Someone whose address is not known.
    Unknown,
}

/// Why a connection cannot be served.
#[derive(Debug, thiserror::Error)]
pub(super) enum HeaderError {
    #[error("it sends no PROXY header, which proxy_protocol wants of peers in trusted_proxies")]
    None,
    #[error("its PROXY header is malformed")]
    Malformed,
    #[error("its PROXY header is longer than {MAX_PROXY_HEADER_BYTES} bytes")]
    TooLong,
    #[error("its PROXY header took longer than {PROXY_HEADER_TIMEOUT:?}")]
    TimeOut,
    #[error("its PROXY header does not come: {0}")]
    Io(#[from] io::Error),
}

impl HeaderError {
    /// Whether the peer has left, as probes of load balancers do.
    pub(super) fn has_left(&self) -> bool {
        use io::ErrorKind::{ConnectionReset, UnexpectedEof};
        matches!(self, Self::Io(error) if matches!(error.kind(), UnexpectedEof | ConnectionReset))
    }
}

/// Takes the header of a trusted peer from its socket, and has `peer` be whom it names.
///
/// # Errors
/// There is none, it is wrong, or it takes too long.
pub(super) async fn take_header(
    stream: &mut (impl AsyncRead + Unpin),
    peer: &mut Peer,
    trusted: &AddressList,
) -> Result<(), HeaderError> {
    let header = tokio::time::timeout(PROXY_HEADER_TIMEOUT, read_header(stream)).await;
    let header = header.unwrap_or(Err(HeaderError::TimeOut))?;
    match parse(&header)? {
        Named::Client(client) => {
            let address = client.ip().to_canonical();
            peer.address = address.to_string();
            peer.port = client.port();
            peer.trusted = trusted.contains(address);
            peer.proxied = true;
        }
        Named::Proxy => {}
        // The header speaks of another one than the peer: nothing that this one says is the peer's word.
        Named::Unknown => {
            peer.trusted = false;
            peer.proxied = true;
        }
    }
    Ok(())
}

/// Reads the header alone: what follows is TLS or HTTP.
async fn read_header(stream: &mut (impl AsyncRead + Unpin)) -> Result<Vec<u8>, HeaderError> {
    let mut header = vec![0; SHORTEST];
    // A request may be shorter than that: look at each byte as it comes.
    for at in 0..SHORTEST {
        stream.read_exact(&mut header[at..=at]).await?;
        let begun = &header[..=at];
        let is_header = SIGNATURE.starts_with(&begun[..begun.len().min(SIGNATURE.len())])
            || b"PROXY ".starts_with(&begun[..begun.len().min(6)]);
        if !is_header {
            return Err(HeaderError::None);
        }
    }
    if header.starts_with(SIGNATURE) {
        header.push(stream.read_u8().await?);
        let rest = usize::from(u16::from_be_bytes([header[14], header[15]]));
        if FIXED + rest > MAX_PROXY_HEADER_BYTES {
            return Err(HeaderError::TooLong);
        }
        header.resize(FIXED + rest, 0);
        stream.read_exact(&mut header[FIXED..]).await?;
        return Ok(header);
    }
    while !header.ends_with(b"\r\n") {
        if header.len() >= MAX_LINE_BYTES {
            return Err(HeaderError::Malformed);
        }
        header.push(stream.read_u8().await?);
    }
    Ok(header)
}

fn parse(header: &[u8]) -> Result<Named, HeaderError> {
    let config = ParseConfig {
        include_tlvs: false,
        ..ParseConfig::default()
    };
    let parsed = ProxyHeader::parse(header, config);
    let (parsed, length) = parsed.map_err(|_| HeaderError::Malformed)?;
    if length != header.len() {
        return Err(HeaderError::Malformed);
    }
    match parsed.proxied_address() {
        Some(address) if address.protocol == Protocol::Stream => Ok(Named::Client(address.source)),
        Some(_) => Err(HeaderError::Malformed),
        None if header.starts_with(SIGNATURE) && header[12] == LOCAL => Ok(Named::Proxy),
        None => Ok(Named::Unknown),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is read of these bytes, and what is left of them.
    async fn read(bytes: &[u8]) -> (Result<Named, HeaderError>, usize) {
        let mut stream = bytes;
        let header = read_header(&mut stream).await;
        (header.and_then(|header| parse(&header)), stream.len())
    }

    fn v2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
        [&SIGNATURE[..], &[command, family], &length, rest].concat()
    }

    #[tokio::test]
    async fn a_header_names_the_client_and_nothing_more_is_taken() {
        let client = |text: &str| Named::Client(text.parse().unwrap());
        let v4 = [192, 0, 2, 1, 10, 0, 0, 1, 0x12, 0x67, 0, 80];
        let mut v6 = [0; 36];
        (v6[0], v6[1], v6[15], v6[33]) = (0x20, 0x01, 7, 9);
        let tlvs = [&v4[..], &[0x02, 0, 1, b'a']].concat();
        for (header, expect) in [
            (
                b"PROXY TCP4 192.0.2.1 10.0.0.1 4711 80\r\n".to_vec(),
                client("192.0.2.1:4711"),
            ),
            (
                b"PROXY TCP6 2001:db8::1 ::1 1 2\r\n".to_vec(),
                client("[2001:db8::1]:1"),
            ),
            (b"PROXY UNKNOWN\r\n".to_vec(), Named::Unknown),
            (
                b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n".to_vec(),
                Named::Unknown,
            ),
            (v2(0x21, 0x11, &v4), client("192.0.2.1:4711")),
            (v2(0x21, 0x11, &tlvs), client("192.0.2.1:4711")),
            (v2(0x21, 0x21, &v6), client("[2001::7]:9")),
            (v2(0x21, 0x31, &[0; 216]), Named::Unknown),
            (v2(0x21, 0, &[]), Named::Unknown),
            (v2(0x20, 0, &[]), Named::Proxy),
            (v2(0x20, 0x11, &v4), Named::Proxy),
            (
                v2(0x20, 0, &[0; MAX_PROXY_HEADER_BYTES - FIXED]),
                Named::Proxy,
            ),
        ] {
            let bytes = [&header[..], b"GET / HTTP/1.1\r\n"].concat();
            let (named, left) = read(&bytes).await;
            assert_eq!(named.unwrap(), expect, "{header:?}");
            assert_eq!(left, 16, "{header:?}");
            // Cut anywhere it waits for more, or the peer has left.
            for length in 0..header.len() {
                let error = read(&bytes[..length]).await.0.unwrap_err();
                assert!(error.has_left(), "{length} of {header:?}: {error}");
            }
        }
    }

    #[tokio::test]
    async fn what_is_no_header_is_refused_at_its_first_wrong_byte() {
        let long = format!("PROXY TCP4 {}\r\n", "1".repeat(10_000));
        let tail = [&b"PROXY TCP4 1.1.1.1 2.2.2.2 1 2 3\r\n"[..]].concat();
        for (bytes, expect) in [
            (b"GET / HTTP/1.1\r\n\r\n".to_vec(), "sends no PROXY header"),
            (b"\x16\x03\x01".to_vec(), "sends no PROXY header"),
            (b"PROXYTCP4".to_vec(), "sends no PROXY header"),
            (b"\r\n\r\nGET /".to_vec(), "sends no PROXY header"),
            (b"PROXY UDP4 1.1.1.1 2.2.2.2 1 2\r\n".to_vec(), "malformed"),
            (
                b"PROXY TCP4 1.1.1.1 2.2.2.2 1 99999\r\n".to_vec(),
                "malformed",
            ),
            (b"PROXY TCP4 ::1 ::1 1 2\r\n".to_vec(), "malformed"),
            (
                b"PROXY TCP4 1.1.1.1 2.2.2.2 1 2\n\r\n".to_vec(),
                "malformed",
            ),
            (tail, "malformed"),
            (long.into_bytes(), "malformed"),
            (v2(0x11, 0x11, &[0; 12]), "malformed"),
            (v2(0x21, 0x11, &[0; 11]), "malformed"),
            (v2(0x21, 0x12, &[0; 12]), "malformed"),
            (v2(0x21, 0x99, &[0; 12]), "malformed"),
            (v2(0x22, 0x11, &[0; 12]), "malformed"),
            (v2(0x21, 0x11, &[0; 521]), "longer than 536 bytes"),
        ] {
            let error = read(&bytes).await.0.unwrap_err().to_string();
            assert!(error.contains(expect), "{bytes:?}: {error}");
        }
    }

    #[tokio::test]
    async fn only_the_proxy_itself_keeps_its_trust() {
        let trusted = AddressList::parse(&["10.0.0.0/8"]).unwrap();
        let named = async |header: &[u8]| {
            let mut peer = Peer {
                address: "10.0.0.9".to_owned(),
                port: 7,
                local_host: "localhost".to_owned(),
                local_port: 80,
                trusted: true,
                proxied: false,
                tls: None,
            };
            let mut header = header;
            take_header(&mut header, &mut peer, &trusted).await.unwrap();
            (peer.address, peer.port, peer.trusted)
        };
        let peer = |address: &str, port, trusted| (address.to_owned(), port, trusted);
        let client = named(b"PROXY TCP4 192.0.2.1 10.0.0.1 4711 80\r\n").await;
        assert_eq!(client, peer("192.0.2.1", 4711, false));
        let inner = named(b"PROXY TCP6 ::ffff:10.1.1.1 ::1 4711 80\r\n").await;
        assert_eq!(inner, peer("10.1.1.1", 4711, true));
        assert_eq!(
            named(b"PROXY UNKNOWN\r\n").await,
            peer("10.0.0.9", 7, false)
        );
        assert_eq!(named(&v2(0x20, 0, &[])).await, peer("10.0.0.9", 7, true));
    }
}
