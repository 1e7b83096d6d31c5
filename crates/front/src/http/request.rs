//! What a client asked for. It does not change once it has arrived whole; edge and dispatcher share it.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use exchange::scheduling::monotonic_ns;
use http::header::HOST;
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method, Uri, Version};
use profiles::{Frame, Limits, StackTree};

use crate::http::request_trace::RequestTrace;
use crate::http::screen::RawTarget;
use crate::net::tls::facts::TlsFacts;
use crate::spool::Spool;

/// Both ends of a connection, as the Rack env names them.
#[derive(Debug)]
pub struct Peer {
    /// `REMOTE_ADDR`; `unix` peers have none and are given as 127.0.0.1, as Puma does.
    pub address: String,
    /// `REMOTE_PORT`, 0 for a UNIX socket.
    pub port: u16,
    /// The listener's host, where a request names none.
    pub local_host: String,
    /// The listener's port.
    pub local_port: u16,
    /// Whether its X-Forwarded-* fields are believed.
    pub trusted: bool,
    /// Whether a PROXY header spoke of it: it is not the peer of the socket.
    pub proxied: bool,
    /// What its handshake said, where the connection has TLS.
    pub tls: Option<Box<TlsFacts>>,
}

impl Peer {
    /// The scheme of the connection itself.
    pub fn scheme(&self) -> &'static str {
        match self.tls {
            Some(_) => "https",
            None => "http",
        }
    }
}

/// A request's body, complete.
#[derive(Debug)]
pub enum RequestBody {
    /// Small enough for a slot.
    Inline(Bytes),
    /// In an unnamed file.
    File(Spool),
}

impl RequestBody {
    /// Its length in bytes.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Inline(bytes) => bytes.len() as u64,
            Self::File(file) => file.len(),
        }
    }
}

/// The time of a request that has no deadline.
pub const NO_DEADLINE: Duration = Duration::from_nanos(u64::MAX);

/// A request's body, and the times that count from its end.
#[derive(Debug)]
pub struct Arrival {
    /// Its body.
    pub body: RequestBody,
    /// When it had arrived whole: microseconds since 1970.
    pub us: u64,
    /// The same, nanoseconds of the monotonic clock.
    pub ns: u64,
    /// When its response must have begun, nanoseconds of the monotonic clock; `u64::MAX` without a deadline.
    pub deadline_ns: u64,
}

/// The parts of a request that hyper gives.
pub struct RequestHead {
    /// The id by which logs name the request, if it has one.
    pub id: Option<HeaderValue>,
    /// The method.
    pub method: Method,
    /// The target as hyper read it.
    pub uri: Uri,
    /// The target as the client sent it, where hyper would not have read that.
    pub raw_target: Option<RawTarget>,
    /// The version.
    pub version: Version,
    /// The fields.
    pub headers: HeaderMap,
}

/// One request.
pub struct Request {
    /// The id by which logs name it, if it has one.
    pub id: Option<HeaderValue>,
    /// Its method.
    pub method: Method,
    /// Its target as hyper read it.
    uri: Uri,
    /// Its target as the client sent it, where hyper would not have read that.
    raw_target: Option<RawTarget>,
    /// Its version.
    pub version: Version,
    /// Its fields.
    pub headers: HeaderMap,
    /// Whether the client names a compressed response that it has.
    pub has_compressed: bool,
    /// The number of its application, and how many bytes of the path stand for that: `SCRIPT_NAME`.
    mount: (u16, u16),
    /// Who sent it.
    pub peer: Arc<Peer>,
    /// Its trace, where requests are traced.
    pub trace: Option<Box<RequestTrace>>,
    /// The user whose password the front has checked.
    user: OnceLock<HeaderValue>,
    /// What is known once it has arrived whole.
    arrival: OnceLock<Arrival>,
    /// Where its thread was while it was slow; the dispatcher adds to it.
    samples: OnceLock<Box<Mutex<StackTree>>>,
}

impl Request {
    /// Returns a request whose head has arrived.
    pub fn new(head: RequestHead, peer: Arc<Peer>) -> Self {
        Self {
            id: head.id,
            method: head.method,
            uri: head.uri,
            raw_target: head.raw_target,
            version: head.version,
            headers: head.headers,
            has_compressed: false,
            mount: (0, 0),
            trace: None,
            peer,
            user: OnceLock::new(),
            arrival: OnceLock::new(),
            samples: OnceLock::new(),
        }
    }

    /// Notes the user whose password the front has checked.
    pub fn set_user(&self, user: HeaderValue) {
        // A second check would be a bug of the caller's; the first one counts.
        let _ = self.user.set(user);
    }

    /// The user whose password the front has checked, as `REMOTE_USER` has it.
    pub fn user(&self) -> Option<&HeaderValue> {
        self.user.get()
    }

    /// The same request with other fields and without a body. It has the same deadline.
    pub fn with_headers(&self, headers: HeaderMap) -> Self {
        let arrival = OnceLock::new();
        if let Some(known) = self.arrival() {
            let _ = arrival.set(Arrival {
                body: RequestBody::Inline(Bytes::new()),
                ..*known
            });
        }
        Self {
            id: self.id.clone(),
            method: self.method.clone(),
            uri: self.uri.clone(),
            raw_target: self.raw_target.clone(),
            version: self.version,
            headers,
            peer: Arc::clone(&self.peer),
            arrival,
            samples: OnceLock::new(),
            trace: self.trace.clone(),
            user: self.user.clone(),
            has_compressed: self.has_compressed,
            mount: self.mount,
        }
    }

    /// The same request as one of the front's own: without a body, and with this id.
    pub fn of_front(&self, id: Option<HeaderValue>) -> Self {
        Self {
            id,
            ..self.with_headers(self.headers.clone())
        }
    }

    /// Completes it with its body. It has `timeout` to be answered in from now on, or [`NO_DEADLINE`].
    pub fn arrive(&self, body: RequestBody, timeout: Duration) {
        let ns = monotonic_ns();
        let us = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_micros() as u64);
        let deadline_ns = ns.saturating_add(timeout.as_nanos() as u64);
        // A second arrival would be a bug of the caller's; the first one counts.
        let _ = self.arrival.set(Arrival {
            body,
            us,
            ns,
            deadline_ns,
        });
    }

    /// Body and times; none before it has arrived whole.
    pub fn arrival(&self) -> Option<&Arrival> {
        self.arrival.get()
    }

    /// When it had arrived whole, nanoseconds of the monotonic clock; none before.
    pub fn arrived_ns(&self) -> Option<u64> {
        self.arrival().map(|arrival| arrival.ns)
    }

    /// When its response must have begun, nanoseconds of the monotonic clock.
    pub fn deadline_ns(&self) -> u64 {
        self.arrival()
            .map_or(u64::MAX, |arrival| arrival.deadline_ns)
    }

    /// Whether it has a deadline.
    pub fn has_deadline(&self) -> bool {
        self.deadline_ns() != u64::MAX
    }

    /// The time that it has to be answered in, in nanoseconds.
    pub fn timeout_ns(&self) -> u64 {
        self.arrival()
            .map_or(0, |arrival| arrival.deadline_ns - arrival.ns)
    }

    /// Adds where its thread was at a moment: lines of a backtrace, innermost first.
    pub fn add_sample(&self, backtrace: &[String]) {
        let mut tree = lock(self.samples.get_or_init(Box::default));
        let outermost_first = backtrace.iter().rev().map(|line| Frame::parse(line));
        tree.add(outermost_first, 1, Limits::REQUEST);
    }

    /// Takes what was sampled while it was slow; none where nothing was.
    pub fn take_samples(&self) -> Option<StackTree> {
        Some(std::mem::take(&mut *lock(self.samples.get()?)))
    }

    /// Whether its method is safe (RFC 9110 section 9.2.1).
    pub fn is_safe(&self) -> bool {
        matches!(
            self.method,
            Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE
        )
    }

    /// Notes the number of its application, and with how many bytes of the path that begins.
    pub fn set_mount(&mut self, application: u16, prefix_bytes: u16) {
        self.mount = (application, prefix_bytes);
    }

    /// The number of its application.
    pub fn application(&self) -> u16 {
        self.mount.0
    }

    /// The part of the path that stands for its application; empty where all paths are its own.
    pub fn script_name(&self) -> &[u8] {
        &self.full_path()[..usize::from(self.mount.1)]
    }

    /// The path within its application, as the client sent it.
    pub fn path(&self) -> &[u8] {
        match self.path_info() {
            [] => b"/",
            path => path,
        }
    }

    /// The same as `PATH_INFO` has it: empty for the application's prefix alone.
    pub fn path_info(&self) -> &[u8] {
        &self.full_path()[usize::from(self.mount.1)..]
    }

    /// The path, as the client sent it; `/` where an absolute target has none (RFC 9112 section 3.2.2).
    pub fn full_path(&self) -> &[u8] {
        match (&self.raw_target, self.uri.path()) {
            (Some(raw), _) => raw.path(),
            (None, "") => b"/",
            (None, path) => path.as_bytes(),
        }
    }

    /// The query without the question mark, as the client sent it; empty where there is none.
    pub fn query(&self) -> &[u8] {
        match &self.raw_target {
            Some(raw) => raw.query(),
            None => self.uri.query().unwrap_or("").as_bytes(),
        }
    }

    /// Path and query, as the client sent them. For the log: of an absolute target either may be missing.
    pub fn target(&self) -> &[u8] {
        match &self.raw_target {
            Some(raw) => raw.path_and_query(),
            None => self
                .uri
                .path_and_query()
                .map_or(b"/", |target| target.as_str().as_bytes()),
        }
    }

    /// Its version, as `SERVER_PROTOCOL` has it.
    pub fn protocol(&self) -> &'static str {
        match self.version {
            Version::HTTP_10 => "HTTP/1.0",
            Version::HTTP_2 => "HTTP/2",
            _ => "HTTP/1.1",
        }
    }

    /// The host and port that it is for: the target's, else the Host field's.
    pub fn host(&self) -> Option<&str> {
        let host = || self.headers.get(HOST)?.to_str().ok();
        let authority = self.authority().map(Authority::as_str);
        authority.or_else(host).filter(|host| !host.is_empty())
    }

    /// The host and port of an absolute target.
    pub fn authority(&self) -> Option<&Authority> {
        self.uri.authority()
    }
}

fn lock(samples: &Mutex<StackTree>) -> MutexGuard<'_, StackTree> {
    samples.lock().unwrap_or_else(PoisonError::into_inner)
}
