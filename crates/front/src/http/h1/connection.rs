//! One client's connection, from accept to close.
//!
//! It drives hyper, answers what the screen refuses, notices a client that leaves while its request waits, and hands the
//! socket to an application that takes it over. It never looks at what a request says.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::{self, HeaderValue};
use http::{Response, Version};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;

use super::hijack;
use super::state::ConnectionState;
use crate::edge::Edge;
use crate::failure::Failure;
use crate::http::access_log::log_refusal;
use crate::http::client_side::ClientSide;
use crate::http::h2;
use crate::http::h2::connection::End;
use crate::http::h2::streams::Streams;
use crate::http::incoming::Hijack;
use crate::http::request::{Peer, Request, RequestHead};
use crate::http::request_id;
use crate::http::response_body::ResponseBody;
use crate::http::screen::{Limits, Phase, Refusal, SPEAKS_TLS, Screen};
use crate::http::service::{self, ClientGone};
use crate::http::transaction::Transaction;
use crate::log::{Level, Value};
use crate::net::client_io::{ClientIo, ClientState};
use crate::net::opening::LINGER;
use crate::net::stream::Stream;
use crate::net::tls::HTTP2;
use crate::serve::errors::failure_text;

/// How much a refused client may go on sending, within `LINGER`, before the socket is closed on it.
const LINGER_BYTES: usize = 4 * 1024 * 1024;

/// The first line of what every connection of HTTP/2 begins with (RFC 9113 section 3.4). It is no request of HTTP/1.
const HTTP2_PREFACE_LINE: &[u8] = b"PRI * HTTP/2.0\r\n";

/// A connection and its edge.
pub struct Connection {
    state: Rc<ConnectionState>,
    edge: Rc<Edge>,
}

enum NextStep {
    /// hyper is done: the connection closes.
    Closed,
    /// The client speaks HTTP/2.
    Http2,
    /// The screen or a clock refused the message.
    Refused(Refusal),
    /// The application has the connection.
    Hijacked(Hijack),
    /// Nothing happens on it: its buffers can go.
    Rests,
    /// It must go at once.
    Killed,
    /// The same, and the client must see that its response is not whole.
    Cut,
}

impl Connection {
    /// Returns the connection of an accepted socket; `answered` says whether another server answered a request on it before.
    pub fn new(edge: &Rc<Edge>, stream: Stream, peer: Peer, answered: bool) -> Self {
        let settings = edge.settings.get();
        let limits = Limits {
            max_target_bytes: settings.max_target_bytes,
            max_header_count: settings.max_header_count,
            max_header_bytes: settings.max_header_bytes,
            max_field_bytes: settings.max_field_bytes,
            max_body_bytes: settings.max_body_bytes,
        };
        let io = ClientIo::new(stream, Screen::new(limits), Rc::clone(&edge.clock));
        Self {
            state: Rc::new(ConnectionState::new(peer, io, answered)),
            edge: Rc::clone(edge),
        }
    }

    /// What may be asked of it while it is served.
    pub fn state(&self) -> &Rc<ConnectionState> {
        &self.state
    }

    /// Serves the connection until it ends.
    pub async fn serve(self) {
        self.serve_messages().await;
        // Where a response was cut the client must not believe that it is whole.
        if !self.state.is_busy() {
            self.state.io.with_stream(Stream::notify_close);
        }
    }

    async fn serve_messages(&self) {
        let Self { state, edge } = self;
        while self.rest().await {
            edge.connections.woke(state);
            if self.agreed_on_http2() {
                return Box::pin(self.serve_http2()).await;
            }
            // Each in a box of its own: a connection that rests holds none of them.
            match Box::pin(self.drive()).await {
                NextStep::Rests => {}
                NextStep::Refused(refusal) => {
                    return Box::pin(refuse(edge, state, refusal)).await;
                }
                NextStep::Hijacked(hijack) => {
                    return Box::pin(hijack::splice(edge, state, hijack)).await;
                }
                NextStep::Http2 => return Box::pin(self.serve_http2()).await,
                NextStep::Closed => return Box::pin(close(state)).await,
                NextStep::Killed => return,
                NextStep::Cut => return state.io.reset_on_close(),
            }
        }
    }

    /// Runs hyper until something ends it.
    async fn drive(&self) -> NextStep {
        let Self { state, edge } = self;
        let service = service_fn(|message| {
            let (state, edge) = (Rc::clone(state), Rc::clone(edge));
            async move {
                let (transaction, body) = begin(&edge, &state, message);
                let version = transaction.request.version;
                let response = service::answer(transaction, body).await;
                state.answered.set(true);
                let mut response = response?;
                persist(&state, version, &mut response);
                Ok::<_, ClientGone>(response)
            }
        });
        let settings = edge.settings.get();
        let limits = state.io.limits();
        let mut builder = http1::Builder::new();
        builder
            .half_close(true)
            .keep_alive(!settings.keep_alive_timeout.is_zero())
            .header_read_timeout(None)
            .max_headers(limits.max_header_count + 1)
            .max_buf_size(limits.max_header_bytes + limits.max_target_bytes + 8192);
        let connection = builder.serve_connection(state.io.clone(), service);
        let mut connection = Box::pin(connection);
        poll_fn(|cx| {
            state.remember(cx);
            edge.dispatcher.take_completed();
            if state.killed.get() {
                return Poll::Ready(if state.is_busy() {
                    NextStep::Cut
                } else {
                    NextStep::Killed
                });
            }
            if connection.as_mut().poll(cx).is_ready() {
                return Poll::Ready(self.next_step());
            }
            if let Some(hijack) = state.message.hijacked.take() {
                return Poll::Ready(NextStep::Hijacked(hijack));
            }
            let idle = || !state.is_busy();
            if state.close_when_idle.get() && idle() && !state.has_news() {
                return Poll::Ready(NextStep::Killed);
            }
            if (state.free_buffers.replace(false) || state.free_buffers_when_idle.get()) && idle() {
                return Poll::Ready(NextStep::Rests);
            }
            self.watch_client(cx);
            Poll::Pending
        })
        .await
    }

    /// What remains to be done after hyper, whatever it says itself.
    fn next_step(&self) -> NextStep {
        match self.unanswered_refusal() {
            Some(_) if self.begins_http2() => NextStep::Http2,
            Some(refusal) => NextStep::Refused(refusal),
            None if self.state.message.needs_reset.get() => NextStep::Cut,
            None => NextStep::Closed,
        }
    }

    /// Whether what the screen refused is the beginning of HTTP/2 and no request of HTTP/1 (RFC 9113 section 3.3).
    fn begins_http2(&self) -> bool {
        let (state, http2) = (&self.state, self.edge.settings.get().http2);
        http2 && !state.answered.get() && state.io.begins_with(HTTP2_PREFACE_LINE)
    }

    /// Whether its handshake has agreed on HTTP/2: then nothing else may be spoken on it (RFC 9113 section 3.2).
    fn agreed_on_http2(&self) -> bool {
        let tls = self.state.peer.tls.as_ref();
        tls.is_some_and(|tls| tls.protocol.as_deref() == Some(HTTP2))
    }

    /// Serves the connection as one of HTTP/2 until it ends.
    async fn serve_http2(&self) {
        let Self { state, edge } = self;
        let limited = !state.peer.trusted;
        let streams = Streams::new(
            state.io.clone(),
            &edge.clock,
            &edge.responses.memory,
            limited,
        );
        let streams = state.http2.get_or_init(|| streams);
        match h2::connection::serve(edge, state, streams).await {
            End::Closed => close(state).await,
            End::Killed => {}
        }
    }

    /// A refusal that hyper knows nothing of: of a head that it never saw. In a body the service answers.
    fn unanswered_refusal(&self) -> Option<Refusal> {
        let io = &self.state.io;
        let in_head = matches!(io.phase(), Phase::Idle | Phase::Head);
        io.refusal().filter(|_| in_head)
    }

    /// While a request is with the dispatcher, hyper does not read: look whether its client leaves.
    fn watch_client(&self, cx: &mut Context<'_>) {
        let Some(request) = self.state.message.submitted.get() else {
            return;
        };
        match self.state.io.poll_client(cx) {
            ClientState::Here => {}
            ClientState::HalfClosed => self.edge.dispatcher.client_left(request, false),
            ClientState::Gone => {
                self.edge.dispatcher.client_left(request, true);
                self.state.killed.set(true);
                cx.waker().wake_by_ref();
            }
        }
    }

    /// Holds an idle connection, as a new one is too, without hyper and its buffers. False when it must end.
    async fn rest(&self) -> bool {
        let Self { state, edge } = self;
        state.hibernating.set(true);
        state.release_buffers();
        let resting = edge.connections.rests(state);
        if state.free_buffers_when_idle.get() {
            edge.connections.rested.notify_waiters();
        }
        let readable = poll_fn(|cx| {
            state.remember(cx);
            if state.killed.get() {
                return Poll::Ready(false);
            }
            match state.io.poll_readable(cx) {
                Poll::Ready(()) => Poll::Ready(true),
                Poll::Pending if state.close_when_idle.get() && !state.has_news() => {
                    Poll::Ready(false)
                }
                Poll::Pending => Poll::Pending,
            }
        })
        .await;
        drop(resting);
        state.free_buffers.set(false);
        state.hibernating.set(!readable);
        readable
    }
}

/// The transaction of a message that hyper has read the head of, and its body.
fn begin(
    edge: &Rc<Edge>,
    state: &Rc<ConnectionState>,
    message: hyper::Request<Incoming>,
) -> (Transaction, Incoming) {
    state.message.begin();
    let (parts, incoming) = message.into_parts();
    let head = RequestHead {
        id: request_id::of(&edge.settings.get(), &state.peer, &parts.headers),
        method: parts.method,
        uri: parts.uri,
        raw_target: state.io.take_raw_target(),
        version: parts.version,
        headers: parts.headers,
    };
    let transaction = Transaction {
        edge: Rc::clone(edge),
        application: Rc::clone(&edge.application),
        client: Rc::clone(&state.message) as Rc<dyn ClientSide>,
        request: Arc::new(Request::new(head, Arc::clone(&state.peer))),
        response: state.next_response(&edge.responses),
    };
    (transaction, incoming)
}

/// Has the response say whether the connection is closed after it (RFC 9112 section 9.3).
fn persist(state: &ConnectionState, version: Version, response: &mut Response<ResponseBody>) {
    if state.stopping.get() {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
    }
    if version == Version::HTTP_10 && response.headers().contains_key(header::CONNECTION) {
        // Otherwise hyper adds keep-alive to it.
        *response.version_mut() = Version::HTTP_10;
    }
}

/// Answers what hyper never saw, and closes in a way that lets the client read it.
async fn refuse(edge: &Edge, connection: &ConnectionState, refusal: Refusal) {
    let id = edge.settings.get().request_id.then(request_id::make);
    log_refusal(edge, connection, refusal, id.as_ref());
    if refusal == SPEAKS_TLS && edge.tls.plain_port_line.take(edge.clock.now_ms()) {
        let text = "refused a client that speaks TLS: this port speaks plain HTTP";
        let port = u64::from(connection.peer.local_port);
        let fields = [
            ("port", Value::Number(port)),
            ("address", Value::Text(&connection.peer.address)),
        ];
        edge.log.event(Level::Warn, text, &fields);
    }
    let text = failure_text(Failure::Refused(refusal));
    let status = Failure::Refused(refusal).status();
    let id = id.as_ref().and_then(|id| id.to_str().ok());
    let id = id.map_or_else(String::new, |id| format!("x-request-id: {id}\r\n"));
    let message = format!(
        "HTTP/1.1 {} {}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\ndate: {}\r\n{id}connection: close\r\n\r\n{text}",
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
async fn close(connection: &ConnectionState) {
    let io = &connection.io;
    let mut left = LINGER_BYTES;
    let mut is_shut_down = false;
    let drained = poll_fn(|cx| {
        connection.remember(cx);
        if connection.killed.get() {
            return Poll::Ready(());
        }
        is_shut_down = is_shut_down || io.poll_shut_down_writing(cx).is_ready();
        match is_shut_down {
            true => io.poll_discard(cx, &mut left),
            false => Poll::Pending,
        }
    });
    let _ = tokio::time::timeout(LINGER, drained).await;
}
