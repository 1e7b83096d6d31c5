//! What happens to one message of one client, from the parsed head to the response.
//!
//! It never reads raw bytes (the screen did) and never holds a request back: the dispatcher does.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Response, Version};
use http_body::Body;
use http_body_util::BodyExt;

use crate::failure::{Failure, Outcome};
use crate::http::access_log::log_request;
use crate::http::admission::admit_and_read;
use crate::http::ended::Sent;
use crate::http::frequent_path;
use crate::http::incoming::{Hijack, IncomingResponse};
use crate::http::load_metrics;
use crate::http::nobody::Nobody;
use crate::http::request::NO_DEADLINE;
use crate::http::request_id::{self, X_REQUEST_ID};
use crate::http::response;
use crate::http::response_body::ResponseBody;
use crate::http::response_head::ResponseHead;
use crate::http::screen::Refusal;
use crate::http::trace;
use crate::http::transaction::Transaction;
use crate::panics::spawn_contained;
use crate::serve::cached::attempt::{Attempt, Verdict};
use crate::serve::cached::lookup::Lookup;
use crate::serve::websockets::{Place, asks_for_websocket};
use crate::serve::{
    cached, challenge, compression, errors, mount, probes, public_files, redirect, server_fields,
};

/// The client has left, so the connection must be closed without a further byte.
#[derive(Debug, thiserror::Error)]
#[error("the client has left")]
pub struct ClientGone;

/// Answers one message, whose head is in the transaction.
///
/// # Errors
/// [`ClientGone`]: no answer is sent.
pub async fn answer(
    mut transaction: Transaction,
    incoming: impl Body<Data = Bytes> + Unpin,
) -> Result<Response<ResponseBody>, ClientGone> {
    let routed = mount::mount(&mut transaction);
    trace::begin(&mut transaction);
    compression::restore_validators(&mut transaction);
    let guard = AbandonGuard(&transaction);
    let mut place = None;
    let answer = match run(&transaction, routed, incoming, &mut place).await {
        Ok(Some(response)) => Ok(response),
        // The connection takes over from here and drops this future.
        Ok(None) => {
            guard.disarm();
            log_request(&transaction, Sent::default(), Outcome::Hijacked);
            let response = transaction.response;
            transaction.client.hijack(Hijack { response, place });
            return std::future::pending().await;
        }
        // Dropping the guard logs it.
        Err(Failure::ClientGone) if transaction.client.is_gone() => return Err(ClientGone),
        Err(failure) => {
            abandon(&transaction);
            Ok(errors::from_failure(&transaction, failure))
        }
    };
    guard.disarm();
    transaction.client.responds();
    let mut response = answer?;
    finish(&transaction, &mut response);
    Ok(response)
}

/// Returns the answer to a message that is refused because of its head.
pub fn refuse(transaction: &Transaction, refusal: Refusal) -> Response<ResponseBody> {
    let mut response = errors::from_failure(transaction, Failure::Refused(refusal));
    transaction.client.responds();
    finish(transaction, &mut response);
    response
}

/// What every response passes on its way out: it is compressed, or sent by the kernel from its file, and gets the request's id
/// and what browsers are told of TLS, and proxies of the load.
fn finish(transaction: &Transaction, response: &mut Response<ResponseBody>) {
    compression::encode(transaction, response);
    public_files::send_from_file(transaction, response);
    let request = &transaction.request;
    if let Some(id) = &request.id {
        // The application may have set another one.
        let entry = response.headers_mut().entry(X_REQUEST_ID);
        entry.or_insert_with(|| id.clone());
    }
    redirect::promise_tls(transaction, response.headers_mut());
    load_metrics::tell(transaction, response.headers_mut());
}

/// Returns the response to a request: its steps in their order. None when the application took the connection over; if that is
/// a WebSocket, its `place` is taken.
async fn run(
    transaction: &Transaction,
    routed: Result<(), Failure>,
    incoming: impl Body<Data = Bytes> + Unpin,
    place: &mut Option<Place>,
) -> Result<Option<Response<ResponseBody>>, Failure> {
    if let Some(response) = pass_gate(transaction, routed).await? {
        return Ok(Some(response));
    }
    let body = admit_and_read(transaction, incoming).await?;
    let Transaction {
        application,
        request,
        ..
    } = transaction;
    let timeout = application
        .settings
        .get()
        .request_timeout_of(request.path());
    request.arrive(body, timeout.unwrap_or(NO_DEADLINE));
    if let Some(response) = answer_without_ruby(transaction).await? {
        return Ok(Some(response));
    }
    if asks_for_websocket(&request.headers) {
        let limit = application.settings.get().max_websockets;
        let now_ms = transaction.edge.clock.now_ms();
        *place = Some(
            application
                .websockets
                .enter(limit, &application.log, now_ms)?,
        );
    }
    if !application.cache.is_on() {
        return ask_worker(transaction).await;
    }
    match cached::lookup::look_up(transaction).await {
        Lookup::Bypass => ask_worker(transaction).await,
        Lookup::Ask(attempt) => ask_for_cache(transaction, attempt).await,
        Lookup::Answer(response) => Ok(Some(response)),
        Lookup::AnswerAndValidate(response, attempt) => {
            validate_meanwhile(transaction, attempt);
            Ok(Some(response))
        }
    }
}

/// Decides from the head alone whether the request may go on; a response ends it here.
async fn pass_gate(
    transaction: &Transaction,
    routed: Result<(), Failure>,
) -> Result<Option<Response<ResponseBody>>, Failure> {
    let Transaction {
        application,
        request,
        ..
    } = transaction;
    if request.method == Method::TRACE && !application.settings.get().allow_trace {
        return Err(Failure::TraceRefused);
    }
    if let Some(response) = challenge::answer(transaction) {
        return Ok(Some(response));
    }
    if let Some(probe) = probes::find(transaction) {
        // In a box of its own: most requests are none.
        return Ok(Some(Box::pin(probes::answer(transaction, probe)).await));
    }
    routed?;
    if let Some(response) = redirect::answer(transaction) {
        return Ok(Some(response));
    }
    if application.gate.is_guarded() {
        let settings = application.settings.get();
        application.gate.check(request, &settings)?;
        if let Some(Some(file)) = settings.basic_auth.find(request.path()) {
            // In a box of its own: most requests have none.
            Box::pin(application.gate.check_password(file, request)).await?;
        }
    }
    Ok(None)
}

/// Answers what needs no worker.
async fn answer_without_ruby(
    transaction: &Transaction,
) -> Result<Option<Response<ResponseBody>>, Failure> {
    let request = &transaction.request;
    if request.method == Method::OPTIONS && request.path() == b"*" {
        return Ok(Some(errors::options(transaction)));
    }
    match transaction.application.public_folder.served() {
        Some(served) => Ok(public_files::answer(transaction, served).await),
        None => Ok(None),
    }
}

/// Has a worker answer; none when the application took the connection over.
async fn ask_worker(transaction: &Transaction) -> Result<Option<Response<ResponseBody>>, Failure> {
    match await_head(transaction).await? {
        Some(head) => respond(transaction, head).await.map(Some),
        None => Ok(None),
    }
}

/// The same, and the cache hears of the answer: it may put a stored one in its place, or store it.
async fn ask_for_cache(
    transaction: &Transaction,
    attempt: Attempt,
) -> Result<Option<Response<ResponseBody>>, Failure> {
    let asked = Transaction {
        request: attempt.request(&transaction.request),
        ..transaction.clone()
    };
    let head = match await_head(&asked).await {
        Ok(Some(head)) => head,
        Ok(None) => return Ok(None),
        Err(failure) => {
            let stored = match failure {
                Failure::ClientGone => None,
                _ => attempt.on_failure(),
            };
            let status = failure.status().as_u16();
            let stored =
                stored.map(|entry| cached::respond::after_asking(transaction, &entry, status));
            return stored.map(Some).ok_or(failure);
        }
    };
    match attempt.on_head(transaction, &head) {
        Verdict::Pass => respond(&asked, head).await.map(Some),
        Verdict::Record(recorder) => {
            let status = head.status;
            let mut response = respond(&asked, head).await?;
            // A file that the application named may have become a part of it, or a 304.
            if response.status() == status {
                response.body_mut().record(recorder);
            }
            Ok(Some(response))
        }
        Verdict::Serve(entry) => {
            response::discard(transaction);
            let status = head.status.as_u16();
            Ok(Some(cached::respond::after_asking(
                transaction,
                &entry,
                status,
            )))
        }
    }
}

/// Asks whether a stored response is still right, while the client gets it. Logs tell the two requests apart.
fn validate_meanwhile(transaction: &Transaction, attempt: Attempt) {
    let request = &transaction.request;
    let id = request.id.as_ref().map(|_| request_id::make());
    let transaction = Transaction {
        client: Rc::new(Nobody),
        request: Arc::new(request.of_front(id)),
        response: Rc::new(IncomingResponse::new(&transaction.edge.responses)),
        ..transaction.clone()
    };
    spawn_contained(async move {
        let guard = AbandonGuard(&transaction);
        let answer = ask_for_cache(&transaction, attempt).await;
        guard.disarm();
        match answer {
            // What is to be stored is stored as it passes.
            Ok(Some(response)) => {
                let mut body = std::pin::pin!(response.into_body());
                while let Some(Ok(_)) = body.as_mut().frame().await {}
            }
            Ok(None) => log_request(&transaction, Sent::default(), Outcome::Hijacked),
            Err(failure) => {
                abandon(&transaction);
                drop(errors::from_failure(&transaction, failure));
            }
        }
    });
}

/// Submits the request and waits for the head of its response; none when the application took the connection over.
async fn await_head(transaction: &Transaction) -> Result<Option<ResponseHead>, Failure> {
    let Transaction {
        edge,
        client,
        request,
        response,
        ..
    } = transaction;
    let _turn = match client.turns() {
        Some(turns) => turns.acquire_owned().await.ok(),
        None => None,
    };
    let id = edge.dispatcher.submit(
        Arc::clone(request),
        Rc::clone(response) as Rc<dyn crate::messages::Reply>,
    );
    response.answers(id);
    client.set_submitted(Some(id));
    let head = response
        .head(&request.method, |hint| {
            // A client of HTTP/1.0 knows no interim responses (RFC 9110 section 15.2).
            if request.version != Version::HTTP_10 {
                client.send_interim(hint);
            }
        })
        .await;
    client.set_submitted(None);
    let mut head = head?;
    if let Some(head) = &mut head {
        edge.dispatcher.head_taken(id);
        server_fields::take(transaction, head)?;
        frequent_path::look_at_head(transaction, head);
    }
    Ok(head)
}

/// Makes the response of a worker's.
async fn respond(
    transaction: &Transaction,
    head: ResponseHead,
) -> Result<Response<ResponseBody>, Failure> {
    let response = response::from_worker(transaction, head).await;
    if let Err(Failure::BadResponse(reason)) = response {
        transaction.log_invalid_response(reason);
    }
    response
}

/// Gives the request up: no client wants the response any more.
fn abandon(transaction: &Transaction) {
    if let Some(id) = transaction.response.id() {
        transaction.edge.dispatcher.abandon(id);
    }
}

/// Gives the request up, and logs it, when the connection's future is dropped before there is a response.
struct AbandonGuard<'a>(&'a Transaction);

impl AbandonGuard<'_> {
    fn disarm(self) {
        std::mem::forget(self);
    }
}

impl Drop for AbandonGuard<'_> {
    fn drop(&mut self) {
        let client = &self.0.client;
        client.set_submitted(None);
        client.ended();
        abandon(self.0);
        let outcome = client.cut_by().unwrap_or(Outcome::ClientGone);
        log_request(self.0, Sent::default(), outcome);
    }
}
