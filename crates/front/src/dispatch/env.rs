//! A request as the record that a worker reads, and how its fields become keys of the Rack env (Rack SPEC, "The
//! Environment").
//!
//! The rest of the env is the extension's. It never changes the request.

use config::Settings;
use exchange::request::{BodyLocation, ENV_KEYS, FixedFields, TEXTS, TooLarge, Writer, env_key};
use http::HeaderMap;
use http::header::{self, HeaderName};

use crate::http::forwarded;
use crate::http::request::{Request, RequestBody};
use crate::http::request_id::X_REQUEST_ID;
use crate::http::trace;
use crate::net::tls::facts::TlsFacts;

/// The numbers of keys that the front writes itself.
const CONTENT_LENGTH: u8 = env_key("content-length");
const REQUEST_ID: u8 = env_key("x-request-id");
const TRACEPARENT: u8 = env_key("traceparent");
const TRACESTATE: u8 = env_key("tracestate");

/// The table of known keys, made once.
pub(super) struct Env {
    keys: HeaderMap<u8>,
    /// Whether the application may name files by X-Sendfile.
    sendfile: bool,
    /// Where the files are that it may name by X-Accel-Redirect, as Rack::Sendfile reads it; empty where it may name none.
    accel_mapping: String,
}

impl Env {
    /// Builds the table.
    pub(super) fn new(settings: &Settings) -> Self {
        let keys = ENV_KEYS
            .iter()
            .zip(1..)
            .map(|((name, _), key)| (HeaderName::from_static(name), key));
        Self {
            keys: keys.collect(),
            sendfile: !settings.sendfile_roots.is_empty(),
            accel_mapping: accel_mapping(settings),
        }
    }

    /// Writes the record of a request into `area` and returns its length.
    ///
    /// # Errors
    /// It does not fit.
    pub(super) fn write_record(&self, request: &Request, area: &mut [u8]) -> Result<u32, TooLarge> {
        let Some(arrival) = request.arrival() else {
            return Err(TooLarge);
        };
        let scheme = forwarded::scheme(&request.headers, &request.peer);
        let (host, port) = server(request, scheme);
        let body = match &arrival.body {
            RequestBody::Inline(_) => BodyLocation::Inline,
            RequestBody::File(file) => BodyLocation::File {
                descriptor: file.raw_fd() as u32,
                length: file.len(),
            },
        };
        let fixed = FixedFields {
            arrived_us: arrival.us,
            deadline_ns: arrival.deadline_ns,
            server_port: port,
            remote_port: request.peer.port,
            body,
        };
        let texts: [&[u8]; TEXTS] = [
            request.method.as_str().as_bytes(),
            request.path_info(),
            request.query(),
            host,
            request.peer.address.as_bytes(),
            request.protocol().as_bytes(),
            scheme.as_bytes(),
        ];
        let mut writer = Writer::new(area, fixed, texts)?;
        self.write_fields(request, arrival.body.bytes(), &mut writer)?;
        writer.finish(match &arrival.body {
            RequestBody::Inline(bytes) => bytes,
            RequestBody::File(_) => &[],
        })
    }

    /// Writes all fields. Repeated ones are joined with a comma (RFC 9110 section 5.3), cookies with a
    /// semicolon (RFC 6265 section 5.4). What [`forwarded::is_dropped`] names is left out; `highball.untrusted_proxy` tells
    /// the gem that a proxy without trust spoke for a client there.
    ///
    /// # Errors
    /// The record does not fit.
    fn write_fields(
        &self,
        request: &Request,
        body_bytes: u64,
        writer: &mut Writer<'_>,
    ) -> Result<(), TooLarge> {
        let mut joined = Vec::new();
        let (mut untrusted_proxy, mut is_framed) = (false, false);
        // Repeated ones follow each other in a `HeaderMap`.
        let mut fields = request.headers.iter().peekable();
        while let Some((name, first)) = fields.next() {
            let replaced = request.id.is_some() && *name == X_REQUEST_ID
                || request.trace.is_some() && trace::is_replaced(name);
            if replaced || forwarded::is_dropped(name, request.peer.trusted) {
                untrusted_proxy |= forwarded::is_untrusted(name, request.peer.trusted);
                continue;
            }
            // The front sets the length itself: framing is over once the body is complete.
            if matches!(
                *name,
                header::TRANSFER_ENCODING | header::CONTENT_LENGTH | header::EXPECT
            ) {
                is_framed |= *name != header::EXPECT;
                continue;
            }
            let mut value = first.as_bytes();
            let authority = request.authority().filter(|_| *name == header::HOST);
            if let Some(authority) = authority {
                value = authority.as_str().as_bytes();
            } else if fields.peek().is_some_and(|(next, _)| *next == name) {
                joined.clear();
                joined.extend_from_slice(value);
                let between: &[u8] = if *name == header::COOKIE {
                    b"; "
                } else {
                    b", "
                };
                while let Some((_, more)) = fields.next_if(|(next, _)| *next == name) {
                    joined.extend_from_slice(between);
                    joined.extend_from_slice(more.as_bytes());
                }
                value = &joined;
            }
            match self.keys.get(name) {
                Some(&key) => writer.field(key, b"", value)?,
                None => writer.field(0, &env_name(name), value)?,
            }
        }
        if let Some(id) = &request.id {
            writer.field(REQUEST_ID, b"", id.as_bytes())?;
        }
        write_trace(request, writer)?;
        if self.sendfile {
            // Rack::Sendfile believes no field of a request (CVE-2025-61780).
            writer.field(0, b"sendfile.type", b"X-Sendfile")?;
        }
        if !self.accel_mapping.is_empty() {
            // After that of a proxy, and so in its place.
            writer.field(0, b"HTTP_X_ACCEL_MAPPING", self.accel_mapping.as_bytes())?;
        }
        if untrusted_proxy {
            writer.field(0, b"highball.untrusted_proxy", b"true")?;
        }
        if let Some(tls) = &request.peer.tls {
            write_client_certificate(tls, writer)?;
        }
        if let Some(user) = request.user() {
            writer.field(0, b"REMOTE_USER", user.as_bytes())?;
        }
        write_mount(request, writer)?;
        // The body's true length, also where it came chunked; a request without one has no such key.
        match is_framed {
            true => writer.field(CONTENT_LENGTH, b"", body_bytes.to_string().as_bytes()),
            false => Ok(()),
        }
    }
}

/// `SERVER_NAME` and `SERVER_PORT`: the target's authority, else the Host field, else the listener's.
fn server<'a>(request: &'a Request, scheme: &str) -> (&'a [u8], u16) {
    let default_port = if scheme == "https" { 443 } else { 80 };
    match request.host() {
        None => (request.peer.local_host.as_bytes(), request.peer.local_port),
        Some(authority) => {
            let (host, port) = match authority.rsplit_once(':') {
                Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()),
                _ => (authority, None),
            };
            (host.as_bytes(), port.unwrap_or(default_port))
        }
    }
}

/// Each folder of `accel_redirects` with the path that stands for it.
fn accel_mapping(settings: &Settings) -> String {
    let slashed = |text: &str| format!("{}/", text.strip_suffix('/').unwrap_or(text));
    let rules = settings.accel_redirects.iter();
    let rules = rules.map(|(path, folder)| format!("{}={}", slashed(folder), slashed(path)));
    rules.collect::<Vec<_>>().join(",")
}

/// Writes the trace that the application continues, if there is one.
///
/// # Errors
/// The record does not fit.
fn write_trace(request: &Request, writer: &mut Writer<'_>) -> Result<(), TooLarge> {
    let Some(of) = &request.trace else {
        return Ok(());
    };
    writer.field(TRACEPARENT, b"", &of.context.traceparent())?;
    match &*trace::tracestate(request) {
        [] => Ok(()),
        state => writer.field(TRACESTATE, b"", state),
    }
}

/// Writes the part of the path that stands for the application, and the whole one, where it has only a part of all paths.
///
/// # Errors
/// The record does not fit.
fn write_mount(request: &Request, writer: &mut Writer<'_>) -> Result<(), TooLarge> {
    if request.script_name().is_empty() {
        return Ok(());
    }
    writer.field(0, b"SCRIPT_NAME", request.script_name())?;
    writer.field(0, b"REQUEST_PATH", request.full_path())?;
    writer.field(0, b"REQUEST_URI", request.target())
}

/// Writes what is known of the client's certificate, under the names that nginx's and Apache's users know.
///
/// # Errors
/// The record does not fit.
fn write_client_certificate(tls: &TlsFacts, writer: &mut Writer<'_>) -> Result<(), TooLarge> {
    if !tls.asks_client {
        return Ok(());
    }
    let Some(client) = &tls.client else {
        return writer.field(0, b"SSL_CLIENT_VERIFY", b"NONE");
    };
    writer.field(0, b"SSL_CLIENT_VERIFY", b"SUCCESS")?;
    writer.field(0, b"SSL_CLIENT_S_DN", client.subject.as_bytes())?;
    writer.field(0, b"SSL_CLIENT_CERT", client.pem.as_bytes())
}

/// `X-Foo-Bar` as `HTTP_X_FOO_BAR`.
fn env_name(name: &HeaderName) -> Vec<u8> {
    let mut key = Vec::with_capacity(5 + name.as_str().len());
    key.extend_from_slice(b"HTTP_");
    key.extend(name.as_str().bytes().map(|byte| match byte {
        b'-' => b'_',
        other => other.to_ascii_uppercase(),
    }));
    key
}
