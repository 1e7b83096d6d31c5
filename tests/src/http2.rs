//! Clients of HTTP/2: one that speaks it well, over the crate h2, and one that sends the frames that it is given. Neither
//! repairs or retries anything.

mod raw;

use std::future::Future;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use h2::client::{self, SendRequest};
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Request};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use test_support::TEST_TIMEOUT;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Runtime;
use tokio_rustls::TlsConnector;

pub use raw::{Frame, RawHttp2, field, frame, head};

/// Kinds of frames (RFC 9113 section 6).
pub mod kind {
    #![allow(missing_docs, reason = "the names of the specification")]
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PING: u8 = 6;
    pub const GOAWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
    pub const CONTINUATION: u8 = 9;
}

/// The code ENHANCE_YOUR_CALM (RFC 9113 section 7).
pub const ENHANCE_YOUR_CALM: u32 = 11;

/// Runs a client to its end.
///
/// # Panics
/// When it takes longer than a test may wait.
#[track_caller]
pub fn run<T>(client: impl Future<Output = T>) -> T {
    let done = runtime().block_on(async { tokio::time::timeout(TEST_TIMEOUT, client).await });
    done.expect("no answer in time")
}

/// Runs a client to its end, or none when it takes longer than `limit`.
///
/// # Panics
/// When the system gives it no descriptors.
pub fn try_run<T>(limit: std::time::Duration, client: impl Future<Output = T>) -> Option<T> {
    let done = runtime().block_on(async { tokio::time::timeout(limit, client).await });
    done.ok()
}

fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().expect("a runtime")
}

/// A response, read whole.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its fields.
    pub fields: HeaderMap,
    /// Its body.
    pub body: Vec<u8>,
}

impl Answer {
    /// The value of a field.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).and_then(|value| value.to_str().ok())
    }

    /// Its body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// A connection that speaks HTTP/2 without TLS.
#[derive(Clone, Debug)]
pub struct Http2 {
    send: SendRequest<Bytes>,
    address: SocketAddr,
}

impl Http2 {
    /// Connects.
    ///
    /// # Panics
    /// When that fails.
    #[track_caller]
    pub fn connect(address: SocketAddr) -> Self {
        Self::with(address, client::Builder::new())
    }

    /// Connects with settings of its own.
    ///
    /// # Panics
    /// When that fails.
    #[track_caller]
    pub fn with(address: SocketAddr, builder: client::Builder) -> Self {
        let begun = begin(builder, connect(address));
        Self {
            send: begun.expect("HTTP/2"),
            address,
        }
    }

    /// Connects with TLS, to the host of this name.
    ///
    /// # Errors
    /// The server refuses.
    ///
    /// # Panics
    /// When the name is none.
    pub fn try_tls(
        address: SocketAddr,
        name: &str,
        configuration: &Arc<ClientConfig>,
    ) -> io::Result<Self> {
        let connector = TlsConnector::from(Arc::clone(configuration));
        let name = ServerName::try_from(name.to_owned()).expect("a name");
        let connected = async move { connector.connect(name, connect(address).await?).await };
        let send = begin(client::Builder::new(), connected)?;
        Ok(Self { send, address })
    }

    /// A request with this method and path, which is still to be completed.
    pub fn request(&self, method: &str, path: &str) -> http::request::Builder {
        let uri = format!("http://{}{path}", self.address);
        Request::builder().method(method).uri(uri)
    }

    /// Sends a request and returns what its response will be.
    ///
    /// # Errors
    /// The connection takes no request.
    pub async fn send(
        &self,
        request: Request<()>,
        ends: bool,
    ) -> Result<(client::ResponseFuture, SendStream<Bytes>), h2::Error> {
        let mut ready = self.send.clone().ready().await?;
        ready.send_request(request, ends)
    }

    /// Asks for a path.
    ///
    /// # Errors
    /// There is no whole response.
    pub async fn get(&self, path: &str) -> Result<Answer, h2::Error> {
        self.ask(self.request("GET", path), "").await
    }

    /// Sends a request with this body, and reads its response.
    ///
    /// # Errors
    /// There is no whole response.
    pub async fn ask(
        &self,
        request: http::request::Builder,
        body: impl Into<Bytes>,
    ) -> Result<Answer, h2::Error> {
        let request = request.body(()).expect("a request");
        let body = body.into();
        let (response, mut stream) = self.send(request, body.is_empty()).await?;
        if !body.is_empty() {
            // A server that wants none of it may have answered and reset the stream by now.
            let _ = stream.send_data(body, true);
        }
        read(response).await
    }
}

/// Connects; what is written goes out at once.
async fn connect(address: SocketAddr) -> io::Result<tokio::net::TcpStream> {
    let socket = tokio::net::TcpStream::connect(address).await?;
    socket.set_nodelay(true)?;
    Ok(socket)
}

/// Connects and begins HTTP/2. A thread of its own drives the connection, so that a test may block.
fn begin<S>(
    builder: client::Builder,
    connect: impl Future<Output = io::Result<S>> + Send + 'static,
) -> io::Result<SendRequest<Bytes>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        runtime().block_on(async {
            let begun = async {
                let begun = builder.handshake(connect.await?).await;
                begun.map_err(io::Error::other)
            };
            match begun.await {
                Ok((send, connection)) => {
                    let _ = tell.send(Ok(send));
                    drop(tell);
                    // How it ends its requests say.
                    let _ = connection.await;
                }
                Err(error) => {
                    let _ = tell.send(Err(error));
                }
            }
        });
    });
    let begun = told.recv_timeout(TEST_TIMEOUT);
    begun.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))
}

/// Reads a response whole.
///
/// # Errors
/// It is not whole.
pub async fn read(response: client::ResponseFuture) -> Result<Answer, h2::Error> {
    let (head, mut body) = response.await?.into_parts();
    Ok(Answer {
        status: head.status.as_u16(),
        fields: head.headers,
        body: read_body(&mut body).await?,
    })
}

/// Reads the rest of a body.
///
/// # Errors
/// It is not whole.
pub async fn read_body(body: &mut RecvStream) -> Result<Vec<u8>, h2::Error> {
    let mut whole = Vec::new();
    while let Some(data) = body.data().await {
        let data = data?;
        body.flow_control().release_capacity(data.len())?;
        whole.extend(data);
    }
    Ok(whole)
}

/// With which reason a stream was reset.
pub fn reset_by<T: std::fmt::Debug>(result: Result<T, h2::Error>) -> Option<Reason> {
    result.err().filter(h2::Error::is_reset)?.reason()
}
