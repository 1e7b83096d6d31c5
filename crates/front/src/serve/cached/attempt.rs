//! A request that goes to the application although there is a cache: what becomes of its response. It sends nothing itself.

use std::rc::Rc;
use std::sync::Arc;
use std::time::SystemTime;

use ::cache::{Entry, Exchange, Key};
use bytes::{Bytes, BytesMut};
use http::header::{self, HeaderName};
use http::{HeaderMap, Method, StatusCode};
use tokio::sync::futures::OwnedNotified;

use super::key::key_of;
use super::{CacheCounters, ResponseCache};
use crate::http::request::Request;
use crate::http::response_head::ResponseHead;
use crate::http::transaction::Transaction;
use crate::serve::application::Application;

/// The right to fetch a response for all that wait for it. They go on when it is dropped.
pub struct Lead {
    application: Rc<Application>,
    key: Key,
}

impl Lead {
    /// Takes it.
    ///
    /// # Errors
    /// Another request has it; comes when that one ends, also if that is before it is waited for.
    pub fn take(application: &Rc<Application>, key: &Key) -> Result<Self, OwnedNotified> {
        let mut filling = application.cache.filling();
        if let Some(other) = filling.get(key) {
            return Err(Arc::clone(other).notified_owned());
        }
        filling.insert(key.clone(), Arc::default());
        Ok(Self {
            application: Rc::clone(application),
            key: key.clone(),
        })
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        let waiting = self.application.cache.filling().remove(&self.key);
        if let Some(waiting) = waiting {
            waiting.notify_waiters();
        }
    }
}

/// A request that the application gets.
pub struct Attempt {
    key: Key,
    asked: SystemTime,
    /// How often the cache had forgotten something by then.
    since: u64,
    /// What is there, and stale.
    stale: Option<Arc<Entry>>,
    lead: Option<Lead>,
    /// Whether it may change what is stored: its method is not safe.
    changes: bool,
}

/// What the cache makes of the application's answer.
pub enum Verdict {
    /// The client gets this entry instead.
    Serve(Arc<Entry>),
    /// It is stored as it passes.
    Record(Box<Recorder>),
    /// It only passes.
    Pass,
}

impl Attempt {
    pub(super) fn new(
        cache: &ResponseCache,
        key: Key,
        stale: Option<Arc<Entry>>,
        lead: Option<Lead>,
    ) -> Self {
        Self {
            key,
            asked: SystemTime::now(),
            since: cache.changed(),
            stale,
            lead,
            changes: false,
        }
    }

    pub(super) fn of_a_change(cache: &ResponseCache, key: Key) -> Self {
        Self {
            changes: true,
            ..Self::new(cache, key, None, None)
        }
    }

    /// The request that the application gets: whether the stale response is still right, where it has a validator.
    pub fn request(&self, request: &Arc<Request>) -> Arc<Request> {
        let validators = self.stale.as_ref().map(|entry| entry.validators());
        match validators.filter(|validators| !validators.is_empty()) {
            Some(validators) if request.method == Method::GET => {
                let mut fields = request.headers.clone();
                validators.ask(&mut fields);
                Arc::new(request.with_headers(fields))
            }
            _ => Arc::clone(request),
        }
    }

    /// Decides about the application's answer from its head.
    pub fn on_head(self, transaction: &Transaction, head: &ResponseHead) -> Verdict {
        let (application, request) = (&transaction.application, &transaction.request);
        if self.changes {
            if head.status.is_success() || head.status.is_redirection() {
                forget_changed(&application.cache, request, &self.key, &head.headers);
            }
            return Verdict::Pass;
        }
        let exchange = Exchange {
            method: &request.method,
            request: &request.headers,
            status: head.status,
            response: &head.headers,
            asked: self.asked,
            received: SystemTime::now(),
        };
        if request.method == Method::HEAD {
            self.on_head_of_head(&application.cache, &exchange);
            return Verdict::Pass;
        }
        if let Some(entry) = self.confirmed(&application.cache, &exchange) {
            return Verdict::Serve(entry);
        }
        if head.status.is_server_error()
            && let Some(entry) = self.on_failure()
        {
            return Verdict::Serve(entry);
        }
        match Entry::new(application.cache.policy(), &exchange) {
            Ok(entry) => Verdict::Record(Box::new(Recorder {
                application: Rc::clone(application),
                key: self.key,
                since: self.since,
                entry,
                body: Vec::new(),
                bytes: 0,
                _lead: self.lead,
            })),
            Err(_) => {
                if head.status != StatusCode::NOT_MODIFIED {
                    application.cache.note_not_stored(&self.key);
                }
                Verdict::Pass
            }
        }
    }

    /// Renews or forgets what is stored by the answer to HEAD (RFC 9111 section 4.3.5).
    fn on_head_of_head(&self, cache: &ResponseCache, exchange: &Exchange<'_>) {
        let Some(stale) = &self.stale else { return };
        let same = exchange.status == stale.status && stale.is_described_by(exchange.response);
        match same
            .then(|| stale.validated(cache.policy(), exchange))
            .flatten()
        {
            Some(renewed) => drop(cache.insert(self.key.clone(), renewed, self.since)),
            None => cache.forget(&self.key),
        }
    }

    /// The stale response, if the application says that it is still right.
    fn confirmed(&self, cache: &ResponseCache, exchange: &Exchange<'_>) -> Option<Arc<Entry>> {
        let stale = self.stale.as_ref()?;
        let asked = !stale.validators().is_empty();
        if !asked || exchange.status != StatusCode::NOT_MODIFIED {
            return None;
        }
        CacheCounters::add(&cache.counters.validated);
        match stale.validated(cache.policy(), exchange) {
            Some(renewed) => Some(cache.insert(self.key.clone(), renewed, self.since)),
            None => {
                // It answers our question, which the client has not asked: what is there is all that can be sent.
                cache.forget(&self.key);
                Some(Arc::clone(stale))
            }
        }
    }

    /// What the client gets where the application has failed, if the response before may be used for that.
    pub fn on_failure(&self) -> Option<Arc<Entry>> {
        let stale = self.stale.as_ref()?;
        let serves = stale.serves_on_error(SystemTime::now());
        serves.then(|| Arc::clone(stale))
    }
}

/// Forgets what a request has changed (RFC 9111 section 4.4): its own target, and those of the same host that the answer names.
fn forget_changed(cache: &ResponseCache, request: &Request, key: &Key, answer: &HeaderMap) {
    cache.forget(key);
    for name in [header::LOCATION, header::CONTENT_LOCATION] {
        if let Some(target) = local_target(request, answer, name) {
            cache.forget(&key_of(request, &target));
        }
    }
}

/// Path and query that a field of the answer names, if they are this host's.
fn local_target(request: &Request, answer: &HeaderMap, name: HeaderName) -> Option<Vec<u8>> {
    let value = answer.get(name)?.to_str().ok()?;
    let value = value.split('#').next()?;
    if value.starts_with('/') && !value.starts_with("//") {
        return Some(value.as_bytes().to_vec());
    }
    let (_, rest) = value.split_once("://")?;
    let path = rest.find('/').unwrap_or(rest.len());
    let (host, target) = rest.split_at(path);
    let own = request.headers.get(header::HOST)?.to_str().ok()?;
    let target = if target.is_empty() { "/" } else { target };
    host.eq_ignore_ascii_case(own)
        .then(|| target.as_bytes().to_vec())
}

/// A response that is stored as it passes.
pub struct Recorder {
    application: Rc<Application>,
    key: Key,
    since: u64,
    entry: Entry,
    body: Vec<Bytes>,
    bytes: usize,
    _lead: Option<Lead>,
}

impl Recorder {
    /// Takes the next piece of the body. False where that is too long to be stored.
    pub fn push(&mut self, piece: &Bytes) -> bool {
        self.bytes += piece.len();
        if self.bytes > self.application.cache.entry_bytes() {
            self.application.cache.note_not_stored(&self.key);
            return false;
        }
        self.body.push(piece.clone());
        true
    }

    /// Stores it: the body is whole. Returns what is stored.
    pub fn store(self) -> Arc<Entry> {
        let Self {
            application,
            key,
            since,
            mut entry,
            mut body,
            bytes,
            ..
        } = self;
        entry.body = match body.len() {
            1 => body.swap_remove(0),
            _ => {
                let mut whole = BytesMut::with_capacity(bytes);
                body.iter().for_each(|piece| whole.extend_from_slice(piece));
                whole.freeze()
            }
        };
        application.cache.insert(key, entry, since)
    }
}
