//! A connection of the load, and one request on it: HTTP/1.1 with TLS or without, or HTTP/2 with TLS. It repeats nothing.

use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use h2::Reason;
use highball_tests::http2::{Http2, read_body, try_run};
use highball_tests::tls::{self, field};
use rustls::ClientConfig;
use test_support::Client;

/// How long a client waits for an answer: longer than any deadline of the server.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// The host that certificates name.
pub(crate) const HOST: &str = "localhost";

/// Where requests go.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    Tcp(SocketAddr),
    Unix(PathBuf),
    /// HTTP/1.1 with TLS for every other client, HTTP/2 for the rest.
    Tls {
        address: SocketAddr,
        http1: Arc<ClientConfig>,
        http2: Arc<ClientConfig>,
    },
}

/// A connection.
#[derive(Debug)]
pub(crate) enum Connection {
    Plain(Client),
    Tls(Box<tls::Client>),
    Http2(Http2),
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) method: &'static str,
    pub(crate) path: &'a str,
    pub(crate) body: &'a str,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) text: String,
    /// Whether another request may follow.
    pub(crate) stays: bool,
}

/// Why there is none.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The server has said that it did not begin this request (RFC 9113 section 8.7): it may be sent on another connection.
    Refused,
    Failed(String),
}

impl Target {
    /// Opens a connection for this client.
    pub(crate) fn connect(&self, client: usize) -> Result<Connection, String> {
        let connected = match self {
            Self::Tcp(address) => Client::try_connect(address).map(Connection::plain),
            Self::Unix(path) => UnixStream::connect(path).map(|io| Connection::plain(io.into())),
            Self::Tls { address, http1, .. } if client.is_multiple_of(2) => {
                tls::Client::connect(*address, HOST, http1)
                    .map(Box::new)
                    .map(Connection::Tls)
            }
            Self::Tls { address, http2, .. } => {
                Http2::try_tls(*address, HOST, http2).map(Connection::Http2)
            }
        };
        connected.map_err(|error| format!("connect: {error}"))
    }
}

impl Connection {
    fn plain(client: Client) -> Self {
        Self::Plain(client.patience(TEST_TIMEOUT))
    }

    /// Whether the server has not ended it, and nothing unexpected has come on it.
    pub(crate) fn is_idle(&mut self) -> bool {
        match self {
            Self::Plain(client) => client.is_idle(),
            Self::Tls(client) => client.is_idle(),
            // Its end is an answer of its own kind.
            Self::Http2(_) => true,
        }
    }

    /// Sends a request and reads its answer.
    pub(crate) fn ask(&mut self, request: Request<'_>) -> Result<Answer, Fault> {
        match self {
            Self::Plain(client) => ask_plain(client, request).map_err(Fault::Failed),
            Self::Tls(client) => ask_tls(client, request).map_err(Fault::Failed),
            Self::Http2(client) => ask_http_2(client, request),
        }
    }
}

impl Request<'_> {
    /// As HTTP/1.1 has it.
    fn text(&self) -> String {
        let Self { method, path, body } = self;
        let length = body.len();
        format!(
            "{method} {path} HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: {length}\r\n\r\n{body}"
        )
    }
}

fn closes(value: &str) -> bool {
    value.eq_ignore_ascii_case("close")
}

fn ask_plain(client: &mut Client, request: Request<'_>) -> Result<Answer, String> {
    let sent = client.try_send(request.text());
    let response = client
        .try_response(request.method)
        .map_err(|fault| format!("{fault}, sending: {sent:?}"))?;
    Ok(Answer {
        status: response.status(),
        text: response.text(),
        stays: !response.field("connection").is_some_and(closes),
    })
}

fn ask_tls(client: &mut tls::Client, request: Request<'_>) -> Result<Answer, String> {
    let sent = client.send(request.text().as_bytes());
    let response = client
        .response()
        .map_err(|error| format!("{error}, sending: {sent:?}"))?;
    Ok(Answer {
        status: response.status,
        stays: !field(&response.head, "connection").is_some_and(closes),
        text: response.body,
    })
}

fn ask_http_2(client: &Http2, request: Request<'_>) -> Result<Answer, Fault> {
    let begun = client.request(request.method, request.path);
    let begun = begun.body(()).expect("a request");
    let asked = try_run(TEST_TIMEOUT, async {
        let ends = request.body.is_empty();
        let (response, mut stream) = client.send(begun, ends).await.map_err(fault)?;
        if !ends {
            let body = request.body.to_owned().into();
            // The answer says how it went.
            let _ = stream.send_data(body, true);
        }
        let (head, mut body) = response.await.map_err(fault)?.into_parts();
        let body = read_body(&mut body).await;
        let body = body.map_err(|error| Fault::Failed(format!("within the body: {error}")))?;
        Ok(Answer {
            status: head.status.as_u16(),
            text: String::from_utf8_lossy(&body).into_owned(),
            stays: true,
        })
    });
    asked.unwrap_or_else(|| Err(Fault::Failed("no answer in time".to_owned())))
}

fn fault(error: h2::Error) -> Fault {
    let goaway = error.is_go_away() && error.reason() == Some(Reason::NO_ERROR);
    let refused = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
    match goaway || refused {
        true => Fault::Refused,
        false => Fault::Failed(format!("{error:?}")),
    }
}
