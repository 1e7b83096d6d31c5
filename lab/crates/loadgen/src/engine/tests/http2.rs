//! A server of HTTP/2 for the tests, without TLS: each request gets what the test makes of it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;

use bytes::Bytes;
use h2::Reason;
use h2::server::SendResponse;

/// A request as it came.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) head: http::Request<()>,
    pub(crate) body: Vec<u8>,
    /// The how many-th connection it came on, from nought.
    pub(crate) connection: usize,
    /// The how many-th request of its connection it is, from nought.
    pub(crate) number: usize,
}

/// What a test wants to be done.
#[derive(Debug)]
pub(crate) enum Answer {
    /// A response with this body.
    Page(Vec<u8>),
    /// The same, and the connection takes no more requests (GOAWAY).
    Last(Vec<u8>),
    /// The stream is reset.
    Reset,
    /// Nothing, and the stream stays.
    Silence,
    /// The connection is closed.
    Close,
}

/// Serves until the test process ends.
pub(crate) fn serve(answer: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    let answer = Arc::new(answer);
    thread::spawn(move || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_io().build().unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            for connection in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(converse(stream, connection, Arc::clone(&answer)));
            }
        });
    });
    address
}

async fn converse<A>(stream: tokio::net::TcpStream, connection: usize, answer: Arc<A>)
where
    A: Fn(&Request) -> Answer + Send + Sync + 'static,
{
    let mut builder = h2::server::Builder::new();
    builder.max_concurrent_streams(100);
    let Ok(mut session) = builder.handshake::<_, Bytes>(stream).await else {
        return;
    };
    let (end, mut ends) = tokio::sync::mpsc::unbounded_channel();
    let mut number = 0;
    loop {
        tokio::select! {
            request = session.accept() => {
                let Some(Ok((request, respond))) = request else { return };
                let (answer, end) = (Arc::clone(&answer), end.clone());
                tokio::spawn(async move {
                    let (head, mut body) = request.into_parts();
                    let mut content = Vec::new();
                    while let Some(Ok(data)) = body.data().await {
                        content.extend_from_slice(&data);
                        let _ = body.flow_control().release_capacity(data.len());
                    }
                    let request = Request {
                        head: http::Request::from_parts(head, ()),
                        body: content,
                        connection,
                        number,
                    };
                    let answer = answer(&request);
                    let leaves = match answer {
                        Answer::Close => Some(true),
                        Answer::Last(_) => Some(false),
                        _ => None,
                    };
                    respond_with(answer, respond).await;
                    if let Some(at_once) = leaves {
                        let _ = end.send(at_once);
                    }
                });
                number += 1;
            }
            Some(at_once) = ends.recv() => {
                if at_once {
                    return;
                }
                session.graceful_shutdown();
            }
        }
    }
}

async fn respond_with(answer: Answer, mut respond: SendResponse<Bytes>) {
    let body = match answer {
        Answer::Page(body) | Answer::Last(body) => body,
        Answer::Reset => return respond.send_reset(Reason::INTERNAL_ERROR),
        Answer::Close => return,
        Answer::Silence => {
            // Until the client gives the stream up.
            let _ = std::future::poll_fn(|context| respond.poll_reset(context)).await;
            return;
        }
    };
    let head = http::Response::builder().header("server", "small");
    let head = head.body(()).unwrap();
    if let Ok(mut stream) = respond.send_response(head, body.is_empty())
        && !body.is_empty()
    {
        let _ = stream.send_data(body.into(), true);
    }
}
