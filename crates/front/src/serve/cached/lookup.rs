//! Whether a request is answered from the cache. It stores nothing.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ::cache::{Entry, Key, Policy, RequestControl, Usability};
use http::header;
use http::{Method, Response};

use super::CacheCounters;
use super::attempt::{Attempt, Lead};
use super::key::key;
use super::respond;
use crate::http::request::Request;
use crate::http::response_body::ResponseBody;
use crate::http::transaction::Transaction;
use crate::net::tls::facts::TlsFacts;

/// How long a request waits for the response to another one of the same key.
const COALESCE_WAIT: Duration = Duration::from_secs(5);
/// For how many such responses it waits: the first one is not stored if a purge came meanwhile.
const COALESCE_TURNS: u32 = 2;

/// What the cache says of a request.
pub enum Lookup {
    /// It is none of its business.
    Bypass,
    /// This is the answer.
    Answer(Response<ResponseBody>),
    /// This is the answer, and it is to be validated meanwhile.
    AnswerAndValidate(Response<ResponseBody>, Attempt),
    /// The application must be asked; the attempt hears what it says.
    Ask(Attempt),
}

/// Looks for a stored response, where the cache is on. Where another request for the same is out already, it waits for that one's response, if the
/// last one was stored: private ones never wait.
pub async fn look_up(transaction: &Transaction) -> Lookup {
    let (cache, request) = (&transaction.application.cache, &*transaction.request);
    let key = key(request);
    if !request.is_safe() {
        return Lookup::Ask(Attempt::of_a_change(cache, key));
    }
    if is_for_one_client(request) {
        return Lookup::Bypass;
    }
    let has_body = request.arrival().is_some_and(|it| it.body.bytes() > 0);
    if !matches!(request.method, Method::GET | Method::HEAD) || has_body {
        return Lookup::Bypass;
    }
    let control = match cache.policy() {
        Policy::Explicit => RequestControl::default(),
        Policy::Standard => RequestControl::of(&request.headers),
    };
    if control.no_store {
        return Lookup::Bypass;
    }
    let mut turns = if may_wait(request) { COALESCE_TURNS } else { 0 };
    loop {
        let stale = match find(transaction, &key, &control) {
            Ok(answered) => return answered,
            Err(stale) => stale,
        };
        if control.only_if_cached {
            return Lookup::Answer(respond::only_if_cached(transaction));
        }
        let worth_it = stale.is_some() || cache.was_stored(&key);
        let lead = match (turns > 0 && worth_it).then(|| Lead::take(&transaction.application, &key))
        {
            Some(Err(other)) => {
                let ended = tokio::time::timeout(COALESCE_WAIT, other).await;
                turns = if ended.is_ok() { turns - 1 } else { 0 };
                continue;
            }
            Some(Ok(lead)) => Some(lead),
            None => None,
        };
        CacheCounters::add(&cache.counters.misses);
        return Lookup::Ask(Attempt::new(cache, key, stale, lead));
    }
}

/// The answer from the cache.
///
/// # Errors
/// There is none; with the stale response that the application may confirm, where there is one.
fn find(
    transaction: &Transaction,
    key: &Key,
    control: &RequestControl,
) -> Result<Lookup, Option<Arc<Entry>>> {
    let cache = &transaction.application.cache;
    let now = SystemTime::now();
    let entry = cache.find(key, &transaction.request.headers).ok_or(None)?;
    match entry.usability(control, now) {
        Usability::Fresh => {
            CacheCounters::add(&cache.counters.hits);
            Ok(Lookup::Answer(respond::hit(transaction, &entry, now)))
        }
        Usability::WhileRevalidate => {
            CacheCounters::add(&cache.counters.stale);
            let answer = respond::hit(transaction, &entry, now);
            Ok(match Lead::take(&transaction.application, key) {
                Ok(lead) => {
                    CacheCounters::add(&cache.counters.renewals);
                    let attempt = Attempt::new(cache, key.clone(), Some(entry), Some(lead));
                    Lookup::AnswerAndValidate(answer, attempt)
                }
                Err(_) => Lookup::Answer(answer),
            })
        }
        Usability::Stale => Err(Some(entry)),
    }
}

/// Whether the answer is for this client alone, though nothing among the fields need say so: it takes the connection over, or
/// has shown a certificate.
fn is_for_one_client(request: &Request) -> bool {
    let shows_certificate = |tls: &TlsFacts| tls.client.is_some();
    request.headers.contains_key(header::UPGRADE)
        || request.peer.tls.as_deref().is_some_and(shows_certificate)
}

/// Whether a request may wait for the response to another one: what is its user's alone would not be stored.
fn may_wait(request: &Request) -> bool {
    let alone = [header::AUTHORIZATION, header::RANGE];
    request.method == Method::GET && !alone.iter().any(|name| request.headers.contains_key(name))
}
