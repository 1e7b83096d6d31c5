//! The access log: one line and one count for each request, however it ends. It decides nothing about the request.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use config::LogField;
use exchange::scheduling::monotonic_ns;
use http::header::{self, HeaderName, HeaderValue};
use http::{StatusCode, Version};

use crate::edge::Edge;
use crate::failure::{Failure, Outcome};
use crate::http::h1::state::ConnectionState;
use crate::http::incoming::Transaction;
use crate::http::screen::Refusal;
use crate::log::{Entry, filter};
use crate::messages::ResponseEnd;

/// What the line of the access log will say of a request with a response. Logs and counts it when dropped.
pub(super) struct AccessLogGuard {
    pub(super) edge: Rc<Edge>,
    pub(super) connection: Rc<ConnectionState>,
    pub(super) transaction: Transaction,
    status: StatusCode,
    pub(super) bytes: Cell<u64>,
    /// None until it is known; a body dropped before that had its client leave.
    pub(super) outcome: Cell<Option<Outcome>>,
}

impl AccessLogGuard {
    /// Returns a guard that has not seen a byte of the response.
    pub(super) fn new(
        edge: &Rc<Edge>,
        connection: &Rc<ConnectionState>,
        transaction: &Transaction,
        status: StatusCode,
    ) -> Self {
        Self {
            edge: Rc::clone(edge),
            connection: Rc::clone(connection),
            transaction: transaction.clone(),
            status,
            bytes: Cell::new(0),
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
            self.connection.needs_reset.set(true);
        }
    }
}

impl Drop for AccessLogGuard {
    fn drop(&mut self) {
        let outcome = self.outcome.get().or(self.connection.cut_by.get());
        let outcome = outcome.unwrap_or(Outcome::ClientGone);
        self.connection.busy.set(false);
        let (status, bytes) = (Some(self.status), self.bytes.get());
        log_request(&self.edge, &self.transaction, status, bytes, outcome);
    }
}

/// Logs and counts a request that has its outcome.
pub fn log_request(
    edge: &Edge,
    transaction: &Transaction,
    status: Option<StatusCode>,
    bytes: u64,
    outcome: Outcome,
) {
    edge.counters.count(outcome, status);
    let settings = edge.settings.get();
    if !settings.access_log {
        return;
    }
    let request = &transaction.request;
    let (by, times) = transaction.response.run();
    let claimed = Some(times.claimed_ns).filter(|&at| at != 0);
    let finished = match times.finished_ns {
        0 => monotonic_ns(),
        finished => finished,
    };
    let since = |from: u64, to: u64| Duration::from_nanos(to.saturating_sub(from));
    let (fields, secret) = (settings.log_fields, &*edge.secret_parameters.borrow());
    let field = |field: LogField, name: HeaderName| {
        let value = fields.contains(field).then(|| request.headers.get(name));
        value.flatten().map(HeaderValue::as_bytes)
    };
    let referer = field(LogField::Referer, header::REFERER);
    edge.log.record(&Entry {
        path: &filter(request.target(), secret),
        status: status.map(|status| status.as_u16()),
        bytes,
        queue: claimed
            .zip(request.arrived_ns())
            .map(|(claimed, arrived)| since(arrived, claimed)),
        app: claimed.map(|claimed| since(claimed, finished)),
        worker: by.map(|by| by.worker.into()),
        generation: by.map(|by| by.generation),
        client: Some(&request.peer.address),
        host: field(LogField::Host, header::HOST),
        protocol: Some(request.protocol()),
        user_agent: field(LogField::UserAgent, header::USER_AGENT),
        referer: referer.map(|referer| filter(referer, secret)).as_deref(),
        request_id: request.id.as_ref().map(HeaderValue::as_bytes),
        bytes_in: request.arrival().map(|arrival| arrival.body.bytes()),
        ..Entry::new(fields, request.method.as_str().as_bytes(), outcome.name())
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
    edge.counters
        .count(failure.outcome(), Some(failure.status()));
    let settings = edge.settings.get();
    if settings.access_log {
        let (method, target) = connection.io.refused_line();
        edge.log.record(&Entry {
            path: &filter(&target, &edge.secret_parameters.borrow()),
            status: Some(refusal.status),
            client: Some(&connection.peer.address),
            request_id: request_id.map(HeaderValue::as_bytes),
            ..Entry::new(settings.log_fields, &method, failure.outcome().name())
        });
    }
}
