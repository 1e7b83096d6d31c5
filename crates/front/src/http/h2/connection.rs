//! A connection of HTTP/2, from its preface to its end: it drives the crate h2, starts a task for each stream, and says
//! GOAWAY. It never looks at what a request says.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use config::Settings;
use h2::server::{Builder, Connection, SendResponse};
use h2::{PingPong, Reason, RecvStream};
use http::Response;
use http::header::{self, HeaderValue};
use http_body::Body;
use http_body_util::Empty;
use tokio::task::JoinSet;

use super::body::RequestBody;
use super::respond;
use super::stream::ClientStream;
use super::streams::{MAX_STREAMS, OpenStream, Ping, Streams};
use super::tunnel;
use super::wire::Wire;
use crate::edge::Edge;
use crate::http::client_side::ClientSide;
use crate::http::h1::state::ConnectionState;
use crate::http::incoming::{Hijack, IncomingResponse};
use crate::http::request::{Request, RequestHead};
use crate::http::request_id;
use crate::http::response_body::ResponseBody;
use crate::http::screen::check_parsed;
use crate::http::service::{self, ClientGone};
use crate::http::transaction::Transaction;
use crate::log::{Level, Value};
use crate::net::connections::Resting;
use crate::panics::contain;

/// What one stream of a client may send before it is read, in bytes, and what all of a connection may.
const STREAM_WINDOW_BYTES: u32 = 256 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;
/// What the crate h2 holds of each response for the socket, in bytes.
const SEND_BUFFER_BYTES: usize = 64 * 1024;
/// Streams that the client has reset before they were looked at; beyond it the connection ends. A browser may leave a page in the
/// moment in which it has asked for all that is on it.
const MAX_PENDING_RESETS: usize = MAX_STREAMS as usize;
/// Streams that the client's own mistakes have reset; beyond it the connection ends.
const MAX_ERROR_RESETS: usize = 100;
/// What a field counts in addition to its name and value (RFC 9113 section 6.5.2), and room for the pseudo-fields.
const FIELD_EXTRA_BYTES: usize = 32;
const PSEUDO_FIELDS_BYTES: usize = 2048;

/// How a connection ended.
pub enum End {
    /// All is said; the client may still read it.
    Closed,
    /// It must go at once.
    Killed,
}

/// Serves a connection whose preface has come, until it ends.
pub async fn serve(edge: &Rc<Edge>, state: &Rc<ConnectionState>, streams: &Rc<Streams>) -> End {
    let mut driver = match begin(edge, state, streams).await {
        Some(connection) => Driver::new(edge, state, streams, connection),
        None => return End::Killed,
    };
    streams.begun.set(true);
    poll_fn(|cx| driver.poll(cx)).await
}

/// Waits until both sides have said how they begin. None where the connection must go at once.
async fn begin(
    edge: &Rc<Edge>,
    state: &Rc<ConnectionState>,
    streams: &Rc<Streams>,
) -> Option<Connection<Wire, Bytes>> {
    let reading = Rc::clone(&streams.reading);
    let wire = Wire::new(state.io.clone(), reading, Rc::clone(&edge.clock));
    // In a box of its own: a connection that has begun holds none of it.
    let mut handshake = Box::pin(builder(&edge.settings.get()).handshake(wire));
    poll_fn(|cx| {
        state.remember(cx);
        match state.killed.get() {
            true => Poll::Ready(None),
            false => handshake.as_mut().poll(cx).map(Result::ok),
        }
    })
    .await
}

/// The limits of a connection.
fn builder(settings: &Settings) -> Builder {
    let fields = settings.max_header_bytes + settings.max_header_count * FIELD_EXTRA_BYTES;
    let head = fields + settings.max_target_bytes + PSEUDO_FIELDS_BYTES;
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(u32::try_from(head).unwrap_or(u32::MAX))
        .initial_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buffer_size(SEND_BUFFER_BYTES)
        .max_pending_accept_reset_streams(MAX_PENDING_RESETS)
        .max_local_error_reset_streams(Some(MAX_ERROR_RESETS))
        .enable_connect_protocol();
    builder
}

/// What drives a connection.
struct Driver<'a> {
    edge: &'a Rc<Edge>,
    state: &'a Rc<ConnectionState>,
    streams: &'a Rc<Streams>,
    connection: Connection<Wire, Bytes>,
    pings: Option<PingPong>,
    /// A task for each stream; those that are left end with the connection.
    tasks: JoinSet<()>,
    /// Its place among the idle connections.
    resting: Option<Resting<'a>>,
    /// Whether a GOAWAY was sent.
    stopped: bool,
}

impl<'a> Driver<'a> {
    fn new(
        edge: &'a Rc<Edge>,
        state: &'a Rc<ConnectionState>,
        streams: &'a Rc<Streams>,
        mut connection: Connection<Wire, Bytes>,
    ) -> Self {
        Self {
            edge,
            state,
            streams,
            pings: connection.ping_pong(),
            connection,
            tasks: JoinSet::new(),
            resting: None,
            stopped: false,
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        self.state.remember(cx);
        self.edge.dispatcher.take_completed();
        if self.state.killed.get() {
            return Poll::Ready(self.end_now(cx));
        }
        self.stop_if_asked();
        self.ping(cx);
        loop {
            match self.connection.poll_accept(cx) {
                Poll::Ready(Some(Ok((request, respond)))) => self.begin(request, respond),
                Poll::Ready(Some(Err(error))) => {
                    if error.is_library() && error.reason() == Some(Reason::ENHANCE_YOUR_CALM) {
                        self.log_flood();
                    }
                    return Poll::Ready(End::Closed);
                }
                Poll::Ready(None) => return Poll::Ready(End::Closed),
                Poll::Pending if self.streams.reading.budget.is_exhausted() && !self.stopped => {
                    self.stopped = true;
                    self.log_flood();
                    self.connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
                }
                Poll::Pending => break,
            }
        }
        while let Poll::Ready(Some(_)) = self.tasks.poll_join_next(cx) {}
        self.note_idle();
        Poll::Pending
    }

    /// Ends it at once; a client without streams still hears that it may open them elsewhere.
    fn end_now(&mut self, cx: &mut Context<'_>) -> End {
        if !self.streams.is_empty() {
            return End::Killed;
        }
        self.connection.abrupt_shutdown(Reason::NO_ERROR);
        let _ = self.connection.poll_closed(cx);
        End::Closed
    }

    /// Has the client open no more streams, where the server or this connection ends.
    fn stop_if_asked(&mut self) {
        let stopping = self.state.stopping.get() || self.state.free_buffers_when_idle.get();
        if stopping && self.streams.stopping_since.get() == 0 {
            self.streams.stopping_since.set(self.edge.clock.now_ms());
            self.connection.graceful_shutdown();
        }
        if self.streams.close.get() && !self.stopped {
            self.stopped = true;
            self.connection.abrupt_shutdown(Reason::NO_ERROR);
        }
    }

    /// Asks a silent client whether it is there.
    fn ping(&mut self, cx: &mut Context<'_>) {
        let Some(pings) = &mut self.pings else { return };
        let ping = &self.streams.ping;
        match ping.get() {
            Ping::None => {}
            Ping::Due => {
                let sent = pings.send_ping(h2::Ping::opaque()).is_ok();
                ping.set(match sent {
                    true => Ping::Sent(self.edge.clock.now_ms()),
                    false => Ping::None,
                });
                // Has it wake this task.
                let _ = pings.poll_pong(cx);
            }
            Ping::Sent(_) => {
                if pings.poll_pong(cx).is_ready() {
                    ping.set(Ping::None);
                }
            }
        }
    }

    /// Begins a stream.
    fn begin(&mut self, request: http::Request<RecvStream>, mut respond: SendResponse<Bytes>) {
        if self.streams.refuses() {
            return respond.send_reset(Reason::REFUSED_STREAM);
        }
        let expects_continue = request.headers().contains_key(header::EXPECT);
        let number = respond.stream_id().as_u32();
        let turns = self.streams.turns.clone();
        let client = ClientStream::new(respond, &self.edge.clock, turns, expects_continue);
        let client = Rc::new(client);
        let stream = Stream {
            edge: Rc::clone(self.edge),
            state: Rc::clone(self.state),
            streams: Rc::clone(self.streams),
            _open: self.streams.add(number, &client),
            client,
        };
        self.tasks.spawn_local(contain(stream.serve(request)));
    }

    /// Keeps the connection among the idle ones while no stream is open.
    fn note_idle(&mut self) {
        let idle = self.streams.is_empty();
        if idle == self.resting.is_some() {
            return;
        }
        self.state.hibernating.set(idle);
        self.resting = if idle {
            Some(self.edge.connections.rests(self.state))
        } else {
            self.edge.connections.woke(self.state);
            None
        };
    }

    /// Logs that the connection ends because of what its client sends; once in a while, for many may.
    fn log_flood(&self) {
        let Edge {
            connections, clock, ..
        } = &**self.edge;
        if !connections.flood_line.take(clock.now_ms()) {
            return;
        }
        let text = "closing an HTTP/2 connection: its client sends too many resets or small frames";
        let fields = [("address", Value::Text(&self.state.peer.address))];
        self.edge.log.event(Level::Warn, text, &fields);
    }
}

/// One stream and its task.
struct Stream {
    edge: Rc<Edge>,
    state: Rc<ConnectionState>,
    streams: Rc<Streams>,
    client: Rc<ClientStream>,
    _open: OpenStream,
}

/// Gives a thread that still serves a stream that was taken over its time once more to notice the end.
struct AbandonHijacked<'a>(&'a Edge, &'a IncomingResponse);

impl Drop for AbandonHijacked<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.1.id() {
            self.0.dispatcher.abandon(id);
        }
    }
}

/// What is to be done with a stream.
enum Step {
    Respond(Response<ResponseBody>),
    /// The application has taken it over.
    Hijacked(Hijack),
    /// The client, a clock or the server has ended it.
    Over,
}

impl Stream {
    /// Serves one request.
    async fn serve(self, request: http::Request<RecvStream>) {
        let settings = self.edge.settings.get();
        let (mut parts, receive) = request.into_parts();
        let checked = check_parsed(
            &parts.method,
            &parts.uri,
            &parts.headers,
            tunnel::is_websocket(&parts),
            &self.state.io.limits(),
        );
        let upgrade = tunnel::is_websocket(&parts).then(|| tunnel::to_upgrade(&mut parts));
        // As in HTTP/1.1: what asks for the host finds it among the fields.
        let authority = parts.uri.authority().map(|host| host.as_str());
        let host = authority.and_then(|host| HeaderValue::from_str(host).ok());
        if let Some(host) = host {
            parts.headers.insert(header::HOST, host);
        }
        let head = RequestHead {
            id: request_id::of(&settings, &self.state.peer, &parts.headers),
            method: parts.method,
            uri: parts.uri,
            raw_target: None,
            version: parts.version,
            headers: parts.headers,
        };
        let transaction = Transaction {
            edge: Rc::clone(&self.edge),
            application: Rc::clone(&self.edge.application),
            client: Rc::clone(&self.client) as Rc<dyn ClientSide>,
            request: Arc::new(Request::new(head, Arc::clone(&self.state.peer))),
            response: Rc::new(IncomingResponse::new(&self.edge.responses)),
        };
        let method = transaction.request.method.clone();
        let mut socket = None;
        let step = match (checked, upgrade) {
            (Err(refusal), _) => Step::Respond(service::refuse(&transaction, refusal)),
            (Ok(()), Some(upgrade)) => {
                socket = Some((receive, upgrade));
                self.answer(transaction, Empty::new()).await
            }
            (Ok(()), None) => {
                let limit = settings.max_body_bytes;
                let body = RequestBody::new(receive, Rc::clone(&self.client), limit);
                self.answer(transaction, body).await
            }
        };
        match step {
            Step::Respond(response) => {
                respond::send(&self.streams, &self.client, &method, response).await;
            }
            Step::Hijacked(hijack) => {
                let response = &hijack.response;
                let _abandon = AbandonHijacked(&self.edge, response);
                tunnel::serve(&self.streams, &self.client, response, socket).await;
            }
            Step::Over => self.client.respond.borrow_mut().send_reset(Reason::CANCEL),
        }
    }

    /// Waits for the answer, or for what ends the stream before there is one.
    async fn answer(
        &self,
        transaction: Transaction,
        body: impl Body<Data = Bytes> + Unpin,
    ) -> Step {
        let mut answer = pin!(service::answer(transaction, body));
        poll_fn(|cx| {
            self.client.remember(cx);
            if self.client.is_over(cx) {
                return Poll::Ready(Step::Over);
            }
            if let Poll::Ready(answer) = answer.as_mut().poll(cx) {
                return Poll::Ready(match answer {
                    Ok(response) => Step::Respond(response),
                    Err(ClientGone) => Step::Over,
                });
            }
            match self.client.hijacked.take() {
                Some(hijack) => Poll::Ready(Step::Hijacked(hijack)),
                None => Poll::Pending,
            }
        })
        .await
    }
}
