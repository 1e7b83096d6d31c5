//! One connection: reads requests within bounds of size and time, checks who sends them, and has their routes answer. It
//! carries nothing out by itself.

use std::convert::Infallible;
use std::net::IpAddr;
use std::time::Duration;

use http::header::{CONNECTION, HeaderValue};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use crate::access::{Access, Terms};
use crate::answer::{Answer, Problem};
use crate::call::Call;
use crate::paced::Paced;
use crate::routes::Routes;

/// How long a client may take to send a head, also the next one on a connection that is kept.
const ADMIN_HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a client may take to send a body.
const ADMIN_BODY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a client may take nothing of its answer.
const ADMIN_SEND_TIMEOUT: Duration = Duration::from_secs(5);
/// The largest head in bytes.
const MAX_ADMIN_HEAD_BYTES: usize = 16 * 1024;
/// The most fields of a head.
const MAX_ADMIN_HEAD_FIELDS: usize = 64;
/// The largest body in bytes.
const MAX_ADMIN_BODY_BYTES: usize = 64 * 1024;

/// A request that has come, by what it showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// A token that is accepted.
    WithToken,
    /// None that is, or none is needed.
    WithoutToken,
}

/// Answers the requests of one client until it leaves or breaks a bound. `terms` is called for each
/// request: what a client may do can change. `loopback`: only this machine reaches the address.
pub async fn serve_connection(
    socket: impl AsyncRead + AsyncWrite + Unpin,
    routes: &Routes,
    terms: &impl Fn() -> Terms,
    loopback: bool,
) {
    let reached = Reached {
        loopback,
        peer: None,
    };
    serve(socket, routes, terms, reached, &|_| {}).await;
}

/// How a client has reached this server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reached {
    /// Only this machine reaches the address that it has named.
    pub(crate) loopback: bool,
    /// Its own address.
    pub(crate) peer: Option<IpAddr>,
}

/// The same; `asked` is called when the head of a request has come.
pub(crate) async fn serve(
    socket: impl AsyncRead + AsyncWrite + Unpin,
    routes: &Routes,
    terms: &impl Fn() -> Terms,
    reached: Reached,
    asked: &impl Fn(Asked),
) {
    let socket = TokioIo::new(Paced::new(socket, ADMIN_SEND_TIMEOUT));
    let service = service_fn(|request: Request<Incoming>| async move {
        let Terms { access, is_last } = terms();
        let answer = answer(request, routes, &access, reached, asked).await;
        let mut answer = answer.unwrap_or_else(Problem::into_answer);
        // Who shows no token gets no second attempt on the same connection.
        if is_last || answer.status() == StatusCode::UNAUTHORIZED {
            let close = HeaderValue::from_static("close");
            answer.headers_mut().insert(CONNECTION, close);
        }
        Ok::<_, Infallible>(answer)
    });
    let mut server = http1::Builder::new();
    server
        .timer(TokioTimer::new())
        .header_read_timeout(ADMIN_HEAD_TIMEOUT)
        .max_buf_size(MAX_ADMIN_HEAD_BYTES)
        .max_headers(MAX_ADMIN_HEAD_FIELDS);
    // A client that leaves early or breaks a bound is its own business.
    drop(server.serve_connection(socket, service).await);
}

async fn answer(
    request: Request<Incoming>,
    routes: &Routes,
    access: &Access,
    reached: Reached,
    asked: &impl Fn(Asked),
) -> Result<Answer, Problem> {
    let (head, body) = request.into_parts();
    let admitted = access.admit(&head, reached.loopback);
    asked(match (&admitted, access) {
        (Ok(()), Access::Token { .. }) => Asked::WithToken,
        _ => Asked::WithoutToken,
    });
    admitted?;
    let path = head.uri.path();
    let (route, part) = routes.find(&head.method, path, |rights| access.shows(rights))?;
    access.permit(route.rights)?;
    let body = timeout(
        ADMIN_BODY_TIMEOUT,
        Limited::new(body, MAX_ADMIN_BODY_BYTES).collect(),
    );
    let body = match body.await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let text = format!("a body has at most {MAX_ADMIN_BODY_BYTES} bytes");
            return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, text));
        }
        Ok(Err(_)) => return Err(Problem::bad_request("the body was cut")),
        Err(_) => {
            let text = format!("the body did not come within {ADMIN_BODY_TIMEOUT:?}");
            return Err(Problem::new(StatusCode::REQUEST_TIMEOUT, text));
        }
    };
    let local = matches!(access, Access::Local);
    let call = Call::new(head, body, part, local).with_peer(reached.peer);
    route.answer(call).await
}
