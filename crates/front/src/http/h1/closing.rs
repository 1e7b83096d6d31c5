//! The end of a connection: the answer to what hyper never saw, and a close that destroys no response on its way. It
//! decides nothing.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use super::state::ConnectionState;
use crate::edge::Edge;
use crate::failure::Failure;
use crate::http::screen::Refusal;
use crate::serve::errors::failure_text;

/// How long a refused client may go on sending before the socket is closed on it.
const LINGER: Duration = Duration::from_secs(2);
/// And how much.
const LINGER_BYTES: usize = 4 * 1024 * 1024;

/// Answers what hyper never saw, and closes in a way that lets the client read it.
pub(super) async fn refuse(edge: &Edge, connection: &ConnectionState, refusal: Refusal) {
    edge.refused(refusal, &connection.io);
    let text = failure_text(Failure::Refused(refusal));
    let status = Failure::Refused(refusal).status();
    let message = format!(
        "HTTP/1.1 {} {}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\ndate: {}\r\nconnection: close\r\n\r\n{text}",
        status.as_u16(),
        status.canonical_reason().unwrap_or("Error"),
        text.len(),
        httpdate::fmt_http_date(std::time::SystemTime::now()),
    );
    let written = tokio::time::timeout(
        edge.settings.get().send_timeout,
        write_all(connection, message.as_bytes()),
    );
    if matches!(written.await, Ok(true)) {
        close(connection).await;
    }
}

async fn write_all(connection: &ConnectionState, bytes: &[u8]) -> bool {
    let mut io = connection.io.clone();
    let mut at = 0;
    while at < bytes.len() {
        let write = poll_fn(|cx| hyper::rt::Write::poll_write(Pin::new(&mut io), cx, &bytes[at..]));
        match write.await {
            Ok(count) if count > 0 => at += count,
            _ => return false,
        }
    }
    true
}

/// Says that no more comes, and reads what the client still sends, within bounds: closing at once
/// would reset the connection and could destroy the response on its way.
pub(super) async fn close(connection: &ConnectionState) {
    let io = &connection.io;
    io.shut_down_writing();
    let mut left = LINGER_BYTES;
    let drained = poll_fn(|cx| {
        connection.remember(cx);
        if connection.killed.get() {
            return Poll::Ready(());
        }
        io.poll_discard(cx, &mut left)
    });
    let _ = tokio::time::timeout(LINGER, drained).await;
}
