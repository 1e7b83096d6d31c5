//! The access log: one line and one count for each request, however it ends. It decides nothing about the request.

use std::borrow::Cow;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use config::LogField;
use exchange::scheduling::monotonic_ns;
use http::header::{self, HeaderName, HeaderValue};
use http::{StatusCode, Version};

use crate::edge::Edge;
use crate::failure::{Failure, Outcome};
use crate::http::ended::{Ended, Sent};
use crate::http::frequent_path;
use crate::http::h1::state::ConnectionState;
use crate::http::screen::Refusal;
use crate::http::slow_request::keep_if_slow;
use crate::http::spans;
use crate::http::trace;
use crate::http::transaction::Transaction;
use crate::log::{Entry, filter};
use crate::messages::ResponseEnd;
use crate::metrics;
use crate::panics::spawn_contained;
use crate::serve::application::Application;

/// What a line names in place of a client's address where the front asks for itself.
const FRONT: &str = "front";

/// How long the line of a request waits for its worker's end, where its client has the whole response already.
const END_WAIT: Duration = Duration::from_millis(100);

/// What the line of the access log will say of a request with a response. Logs and counts it when dropped.
pub(super) struct AccessLogGuard {
    pub(super) transaction: Transaction,
    status: StatusCode,
    pub(super) bytes: Cell<u64>,
    /// How it is compressed, if it is.
    pub(super) encoding: Cell<Option<&'static str>>,
    /// None until it is known; a body dropped before that had its client leave.
    pub(super) outcome: Cell<Option<Outcome>>,
}

impl AccessLogGuard {
    /// Returns a guard that has not seen a byte of the response.
    pub(super) fn new(transaction: &Transaction, status: StatusCode) -> Self {
        Self {
            transaction: transaction.clone(),
            status,
            bytes: Cell::new(0),
            encoding: Cell::new(None),
            outcome: Cell::new(None),
        }
    }

    /// Records that the whole response was sent.
    pub(super) fn note_whole(&self) {
        self.outcome.set(self.outcome.get().or(Some(Outcome::Ok)));
    }

    /// Records that the response was cut; `framed` says that it declared its length.
    pub(super) fn note_cut(&self, framed: bool) {
        let late = matches!(
            self.transaction.response.buffer().end,
            Some(ResponseEnd::Aborted { late: true })
        );
        let outcome = match late {
            true => Outcome::Expired,
            false => Outcome::Aborted,
        };
        self.outcome.set(Some(outcome));
        // In HTTP/1.0 the close itself is the end of such a response (RFC 9112 section 6.3).
        if !framed && self.transaction.request.version == Version::HTTP_10 {
            self.transaction.client.needs_reset();
        }
    }
}

impl Drop for AccessLogGuard {
    fn drop(&mut self) {
        // What was handed over may still be cut.
        let outcome = self.transaction.client.cut_by().or(self.outcome.get());
        let outcome = outcome.unwrap_or(Outcome::ClientGone);
        self.transaction.client.ended();
        let sent = Sent {
            status: Some(self.status),
            bytes: self.bytes.get(),
            encoding: self.encoding.get(),
            at_ns: monotonic_ns(),
        };
        if outcome == Outcome::Ok && lacks_end(&self.transaction) {
            log_at_end(&self.transaction, sent);
        } else {
            log_request(&self.transaction, sent, outcome);
        }
    }
}

/// Whether a worker has sent all that the response promised, but not what it cost.
fn lacks_end(transaction: &Transaction) -> bool {
    let response = &transaction.response;
    let (worker, _) = response.run();
    worker.is_some()
        && response.buffer().end.is_none()
        && transaction.application.settings.get().measure_requests
}

/// Logs and counts a request once its worker says what it cost, or after a moment.
fn log_at_end(transaction: &Transaction, sent: Sent) {
    let late = LateLog {
        transaction: transaction.clone(),
        sent,
    };
    spawn_contained(async move {
        let Transaction {
            request, response, ..
        } = &late.transaction;
        // Its head has been taken: now it waits for the end.
        let end = response.head(&request.method, |_| {});
        let _ = tokio::time::timeout(END_WAIT, end).await;
        drop(late);
    });
}

/// A request with a whole response that is not logged yet. Logs and counts it when dropped.
struct LateLog {
    transaction: Transaction,
    sent: Sent,
}

impl Drop for LateLog {
    fn drop(&mut self) {
        log_request(&self.transaction, self.sent, Outcome::Ok);
    }
}

/// Logs and counts a request that has its outcome: the one place where each request ends.
pub fn log_request(transaction: &Transaction, sent: Sent, outcome: Outcome) {
    let payload = std::mem::take(&mut transaction.response.buffer().measures);
    let ended = Ended::new(transaction, sent, outcome, &payload);
    // What the front asks for itself is no request of a client; the cache counts it.
    if !transaction.client.is_front() {
        transaction.application.counters.count(outcome, sent.status);
    }
    metrics::record(&ended);
    let target = || {
        let target = transaction.request.target();
        without_secrets(&transaction.edge, &transaction.application, target)
    };
    spans::record(&ended, target);
    keep_if_slow(&ended, target);
    frequent_path::count(&ended);
    write_line(&ended);
}

/// Writes the line of a request that has ended.
fn write_line(ended: &Ended<'_>) {
    let transaction = ended.transaction;
    let application = &transaction.application;
    let settings = application.settings.get();
    if !settings.access_log {
        return;
    }
    let request = &transaction.request;
    // Where the front asks for itself, its line always says so.
    let (fields, client) = match transaction.client.is_front() {
        true => (settings.log_fields.with(LogField::Client), FRONT),
        false => (settings.log_fields, &*request.peer.address),
    };
    let field = |field: LogField, name: HeaderName| {
        let value = fields.contains(field).then(|| request.headers.get(name));
        value.flatten().map(HeaderValue::as_bytes)
    };
    let referer = field(LogField::Referer, header::REFERER);
    let is_named = fields.contains(LogField::TraceId) || fields.contains(LogField::SpanId);
    application.log.record(&Entry {
        path: &without_secrets(&transaction.edge, application, request.target()),
        status: ended.sent.status.map(|status| status.as_u16()),
        bytes: ended.sent.bytes,
        encoding: ended.sent.encoding,
        queue: ended.queue,
        app: ended.app,
        worker: ended.worker.map(|by| by.worker.into()),
        generation: ended.worker.map(|by| by.generation),
        client: Some(client),
        host: field(LogField::Host, header::HOST),
        protocol: Some(request.protocol()),
        user_agent: field(LogField::UserAgent, header::USER_AGENT),
        referer: referer
            .map(|referer| without_secrets(&transaction.edge, application, referer))
            .as_deref(),
        request_id: request.id.as_ref().map(HeaderValue::as_bytes),
        trace: is_named.then(|| trace::ids(request)).flatten(),
        bytes_in: request.arrival().map(|arrival| arrival.body.bytes()),
        measures: ended.measures,
        ..Entry::new(
            fields,
            request.method.as_str().as_bytes(),
            ended.outcome.name(),
        )
    });
}

/// Logs and counts a message that never became a request, for the screen refused it.
pub fn log_refusal(
    edge: &Edge,
    connection: &ConnectionState,
    refusal: Refusal,
    request_id: Option<&HeaderValue>,
) {
    let failure = Failure::Refused(refusal);
    edge.application
        .counters
        .count(failure.outcome(), Some(failure.status()));
    let application = &edge.application;
    let settings = application.settings.get();
    if settings.access_log {
        let (method, target) = connection.io.refused_line();
        application.log.record(&Entry {
            path: &without_secrets(edge, application, &target),
            status: Some(refusal.status),
            client: Some(&connection.peer.address),
            request_id: request_id.map(HeaderValue::as_bytes),
            ..Entry::new(settings.log_fields, &method, failure.outcome().name())
        });
    }
}

/// A target without the values that its application keeps secret. One that is no application's may have been meant for any of
/// several: then without those that any of them keeps secret.
fn without_secrets<'a>(
    edge: &Edge,
    application: &Rc<Application>,
    target: &'a [u8],
) -> Cow<'a, [u8]> {
    let own = filter(target, &application.secret_parameters.borrow());
    if edge.routes.is_none() || !Rc::ptr_eq(application, &edge.application) {
        return own;
    }
    let all = edge.applications();
    let differs = |(at, one): &(usize, &Rc<Application>)| {
        let names = one.secret_parameters.borrow();
        let mut earlier = all[..*at].iter().chain([application]);
        !earlier.any(|other| *other.secret_parameters.borrow() == *names)
    };
    let others = all.iter().enumerate().filter(differs);
    others.fold(own, |shown, (_, one)| {
        let hidden = match filter(&shown, &one.secret_parameters.borrow()) {
            Cow::Owned(hidden) => Some(hidden),
            Cow::Borrowed(_) => None,
        };
        hidden.map_or(shown, Cow::Owned)
    })
}
