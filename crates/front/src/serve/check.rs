//! A request of the front's own, to one generation: is it fit to serve? It is no client's, so it is neither
//! counted nor in the access log; what a worker says of its errors is logged as ever.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Uri, Version, header};

use crate::dispatch::Intake;
use crate::http::incoming::IncomingResponse;
use crate::http::request::{Peer, Request, RequestBody, RequestHead};
use crate::http::response_store::ResponseStore;
use crate::messages::{Dispatch, Reply};

/// Has a worker of this generation answer a GET of `path`.
///
/// # Errors
/// In words why it is not fit; with the backtrace, where the application raised.
pub(crate) async fn run(
    dispatcher: &Intake,
    store: &Rc<ResponseStore>,
    generation: u32,
    path: &str,
    timeout: Duration,
) -> Result<(), String> {
    let uri: Uri = path.parse().map_err(|_| format!("{path} is no path"))?;
    let mut headers = HeaderMap::new();
    headers.insert(header::HOST, HeaderValue::from_static("localhost"));
    headers.insert(header::USER_AGENT, HeaderValue::from_static("highball"));
    // As a proxy with TLS would say: an application that wants it answers anything else with a redirection.
    headers.insert("x-forwarded-proto", HeaderValue::from_static("https"));
    let head = RequestHead {
        id: None,
        method: Method::GET,
        uri,
        raw_target: None,
        version: Version::HTTP_11,
        headers,
    };
    let peer = Peer {
        address: "127.0.0.1".to_owned(),
        port: 0,
        local_host: "localhost".to_owned(),
        local_port: 80,
        trusted: true,
        tls: None,
        proxied: false,
    };
    let request = Arc::new(Request::new(head, Arc::new(peer)));
    request.arrive(RequestBody::Inline(Bytes::new()), timeout);
    let asked = Asked {
        dispatcher,
        response: Rc::new(IncomingResponse::new(store)),
    };
    let reply = Rc::clone(&asked.response) as Rc<dyn Reply>;
    let answer = match dispatcher.submit_to(generation, request, reply) {
        Ok(id) => {
            asked.response.answers(id);
            asked.response.head(&Method::GET, |_| {}).await
        }
        Err(failure) => Err(failure),
    };
    match answer {
        Ok(Some(head)) if head.status.is_success() => Ok(()),
        Ok(Some(head)) => Err(format!("GET {path} was answered with {}", head.status)),
        Ok(None) => Err(format!("GET {path} took its connection over")),
        Err(failure) => {
            let text = asked.response.buffer().error.take();
            let text = text.map(|text| format!(": {text}")).unwrap_or_default();
            Err(format!("GET {path} was not answered: {failure}{text}"))
        }
    }
}

/// Gives the request up, however the wait for its answer ends.
struct Asked<'a> {
    dispatcher: &'a Intake,
    response: Rc<IncomingResponse>,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.response.id() {
            self.dispatcher.abandon(id);
        }
    }
}
