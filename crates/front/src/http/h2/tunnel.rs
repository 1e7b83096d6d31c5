//! A stream that its application takes over. A WebSocket of HTTP/2 (RFC 8441) reaches the application as the upgrade of
//! HTTP/1.1 that it knows, and what that writes is turned back. It never reads what goes through after the heads.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use h2::ext::Protocol;
use h2::{Reason, RecvStream, SendStream};
use http::header::{self, HeaderName, HeaderValue};
use http::request::Parts;
use http::{HeaderMap, Method, Response, StatusCode};
use rustix::rand::{GetRandomFlags, getrandom};
use sha1::{Digest, Sha1};
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use super::respond;
use super::stream::ClientStream;
use super::streams::Streams;
use crate::http::client_side::ClientSide;
use crate::http::incoming::{IncomingResponse, hijacked_by};
use crate::net::descriptors;

/// What a key is completed with before it is hashed (RFC 6455 section 1.3).
const KEY_SUFFIX: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// Random bytes of a key (RFC 6455 section 4.1).
const KEY_RANDOM_BYTES: usize = 16;
/// The head that an application writes on a connection that it took over, in bytes and in fields.
const MAX_APP_HEAD_BYTES: usize = 16 * 1024;
const MAX_APP_HEAD_FIELDS: usize = 64;
/// Bytes that are read of the application at once.
const RELAY_BYTES: usize = 16 * 1024;

/// What must be in the answer to an upgrade that stands for an extended CONNECT.
pub(super) struct Upgrade {
    accept: String,
}

/// Whether this is a CONNECT for a WebSocket (RFC 8441 section 5).
pub(super) fn is_websocket(parts: &Parts) -> bool {
    let protocol = parts.extensions.get::<Protocol>();
    parts.method == Method::CONNECT
        && protocol.is_some_and(|protocol| protocol.as_str() == "websocket")
}

/// Turns the head of such a CONNECT into an upgrade of HTTP/1.1 (RFC 6455 section 4.1), as applications know it.
pub(super) fn to_upgrade(parts: &mut Parts) -> Upgrade {
    let mut random = [0; KEY_RANDOM_BYTES];
    // It needs not be secret: no proxy between here and the application could be misled.
    let _ = getrandom(&mut random, GetRandomFlags::empty());
    let key = STANDARD.encode(random);
    let hash = Sha1::new().chain_update(&key).chain_update(KEY_SUFFIX);
    let accept = STANDARD.encode(hash.finalize());
    parts.method = Method::GET;
    let fields = &mut parts.headers;
    fields.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    fields.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    if let Ok(key) = HeaderValue::from_str(&key) {
        fields.insert(header::SEC_WEBSOCKET_KEY, key);
    }
    Upgrade { accept }
}

/// What an application has written on the connection that it took over.
struct AppHead {
    status: StatusCode,
    fields: HeaderMap,
    /// What came behind it.
    rest: Bytes,
}

/// Moves bytes both ways between the client and the application until both are done. `receive` is what the client sends, of
/// an `upgrade`; of any other request it was read before.
pub(super) async fn serve(
    streams: &Streams,
    stream: &ClientStream,
    response: &Rc<IncomingResponse>,
    tunnel: Option<(RecvStream, Upgrade)>,
) {
    stream.spliced.set(true);
    stream.hijacked_by.set(hijacked_by(response));
    let relayed = relay(streams, stream, response, tunnel);
    let mut relayed = std::pin::pin!(relayed);
    let ended = poll_fn(|cx| {
        stream.remember(cx);
        match stream.is_gone() {
            true => Poll::Ready(Err(Reason::CANCEL)),
            false => relayed.as_mut().poll(cx),
        }
    });
    if let Err(reason) = ended.await {
        stream.respond.borrow_mut().send_reset(reason);
    }
}

/// An error is the code with which the stream is to be reset.
async fn relay(
    streams: &Streams,
    stream: &ClientStream,
    response: &IncomingResponse,
    tunnel: Option<(RecvStream, Upgrade)>,
) -> Result<(), Reason> {
    let socket = response.take_socket().ok_or(Reason::INTERNAL_ERROR)?;
    let socket = descriptors::keep_reserve(socket)
        .and_then(|socket| {
            let socket = std::os::unix::net::UnixStream::from(socket);
            socket.set_nonblocking(true)?;
            UnixStream::from_std(socket)
        })
        .map_err(|_| Reason::INTERNAL_ERROR)?;
    let (mut from_app, to_app) = socket.into_split();
    let head = read_head(&mut from_app).await;
    let mut head = head.map_err(|_| Reason::INTERNAL_ERROR)?;
    if head.status == StatusCode::SWITCHING_PROTOCOLS {
        let accept = head.fields.remove(header::SEC_WEBSOCKET_ACCEPT);
        let expected = tunnel
            .as_ref()
            .map(|(_, upgrade)| upgrade.accept.as_bytes());
        // In HTTP/2 there is no other upgrade.
        if expected.is_none() || accept.as_ref().map(HeaderValue::as_bytes) != expected {
            return Err(Reason::INTERNAL_ERROR);
        }
        head.status = StatusCode::OK;
    } else if head.fields.contains_key(header::TRANSFER_ENCODING) {
        return Err(Reason::INTERNAL_ERROR);
    }
    respond::complete(&mut head.fields);
    let mut answer = Response::new(());
    *answer.status_mut() = head.status;
    *answer.headers_mut() = head.fields;
    let sent = stream.respond.borrow_mut().send_response(answer, false);
    let to_client = sent.map_err(|_| Reason::CANCEL)?;
    let down = to_client_from(streams, stream, from_app, to_client, head.rest);
    match tunnel {
        Some((receive, _)) => tokio::try_join!(down, to_app_from(receive, to_app)).map(drop),
        None => down.await,
    }
}

/// Reads the head that the application writes (RFC 9112 section 4).
async fn read_head(from: &mut OwnedReadHalf) -> io::Result<AppHead> {
    let mut bytes = BytesMut::with_capacity(1024);
    loop {
        if let Some(head) = parse_head(&bytes)? {
            return Ok(head);
        }
        if bytes.len() > MAX_APP_HEAD_BYTES {
            return Err(io::Error::other("too long a head"));
        }
        let more = read(from, RELAY_BYTES).await?;
        if more.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&more);
    }
}

fn parse_head(bytes: &[u8]) -> io::Result<Option<AppHead>> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_APP_HEAD_FIELDS];
    let mut head = httparse::Response::new(&mut fields);
    let length = match head.parse(bytes).map_err(io::Error::other)? {
        httparse::Status::Complete(length) => length,
        httparse::Status::Partial => return Ok(None),
    };
    let mut map = HeaderMap::new();
    for field in head.headers.iter() {
        let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(io::Error::other)?;
        let value = HeaderValue::from_bytes(field.value).map_err(io::Error::other)?;
        map.append(name, value);
    }
    let status = StatusCode::from_u16(head.code.unwrap_or(0)).map_err(io::Error::other)?;
    Ok(Some(AppHead {
        status,
        fields: map,
        rest: Bytes::copy_from_slice(&bytes[length..]),
    }))
}

/// Reads what is there, up to `most` bytes; nothing at the end.
async fn read(from: &mut OwnedReadHalf, most: usize) -> io::Result<Bytes> {
    let mut bytes = vec![0; most];
    let count = poll_fn(|cx| {
        let mut buffer = ReadBuf::new(&mut bytes);
        let read = Pin::new(&mut *from).poll_read(cx, &mut buffer);
        read.map_ok(|()| buffer.filled().len())
    })
    .await?;
    bytes.truncate(count);
    Ok(bytes.into())
}

async fn to_client_from(
    streams: &Streams,
    stream: &ClientStream,
    mut from: OwnedReadHalf,
    mut to: SendStream<Bytes>,
    mut data: Bytes,
) -> Result<(), Reason> {
    loop {
        let sent = respond::send_data(streams, stream, &mut to, data, false).await;
        sent.map_err(|_| Reason::CANCEL)?;
        // An error is an end too: either side may just go away.
        data = read(&mut from, RELAY_BYTES).await.unwrap_or_default();
        if data.is_empty() {
            return to.send_data(data, true).map_err(|_| Reason::CANCEL);
        }
    }
}

async fn to_app_from(mut from: RecvStream, mut to: OwnedWriteHalf) -> Result<(), Reason> {
    while let Some(data) = from.data().await {
        let data = data.map_err(|_| Reason::CANCEL)?;
        // An application that has closed gets no more; its own end ends the stream.
        let _ = to.write_all(&data).await;
        let _ = from.flow_control().release_capacity(data.len());
    }
    let _ = to.shutdown().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_of_an_application_is_read_whole_or_not_at_all() {
        let head = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\nrest";
        for length in 0..head.len() - 4 {
            assert!(parse_head(&head[..length]).expect("a part").is_none());
        }
        let parsed = parse_head(head).expect("a head").expect("a whole one");
        assert_eq!(parsed.status, 101);
        assert_eq!(parsed.fields["upgrade"], "websocket");
        assert_eq!(&parsed.rest[..], b"rest");
        assert!(parse_head(b"nonsense\r\n\r\n").is_err());
    }

    #[test]
    fn a_connect_becomes_the_upgrade_of_http_1() {
        let request = http::Request::builder()
            .method("CONNECT")
            .uri("https://a/socket")
            .extension(Protocol::from_static("websocket"));
        let (mut parts, ()) = request.body(()).expect("a request").into_parts();
        assert!(is_websocket(&parts));
        let first = to_upgrade(&mut parts);
        assert_eq!(parts.method, "GET");
        assert_eq!(parts.headers["upgrade"], "websocket");
        assert_eq!(parts.headers["connection"], "Upgrade");
        assert_eq!(parts.headers["sec-websocket-key"].len(), 24);
        assert_eq!(first.accept.len(), 28);
        assert_ne!(first.accept, to_upgrade(&mut parts).accept);
        assert!(!is_websocket(&parts), "it is one no more");
    }
}
