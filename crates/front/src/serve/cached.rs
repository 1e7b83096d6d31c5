//! The response cache of one application. What may be stored and used is the rule of the crate `cache`; what is done about it is
//! here and in the files below. Off, it costs one look.

pub mod attempt;
pub(super) mod key;
pub mod lookup;
pub mod respond;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use ::cache::{Entry, Key, Policy, Purge, Store};
use bytes::Bytes;
use config::{CachePolicy, Settings};
use http::HeaderMap;
use metrics::Counts;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

/// The response cache of one application. Several threads may use it at once; a lock is held for one look or one change.
pub struct ResponseCache {
    /// Whether there is one: read with each request, without a lock.
    on: AtomicBool,
    store: Mutex<Option<Store>>,
    /// Whether the policy is [`Policy::Standard`].
    standard: AtomicBool,
    /// The longest body that is stored.
    entry_bytes: AtomicUsize,
    /// Bytes that it was made for.
    limit: Mutex<Option<u64>>,
    /// Keys that a request is out for: others wait for its response.
    filling: Mutex<HashMap<Key, Arc<Notify>>>,
    /// What became of lookups.
    pub counters: CacheCounters,
}

/// What became of requests that a stored response could have answered.
#[derive(Default)]
pub struct CacheCounters {
    /// They got a stored response.
    pub hits: AtomicU64,
    /// The same, though it was stale.
    pub stale: AtomicU64,
    /// The application said that the stored response is still right.
    pub validated: AtomicU64,
    /// The application answered.
    pub misses: AtomicU64,
    /// The front asked for a new one itself, while a client got the stale one.
    pub renewals: AtomicU64,
}

/// The cache at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheStatus {
    /// Targets that have stored responses.
    pub targets: usize,
    /// Their bytes.
    pub bytes: u64,
    /// The most bytes.
    pub limit_bytes: u64,
    /// Requests answered from it, fresh.
    pub hits: u64,
    /// Requests answered from it, stale.
    pub stale: u64,
    /// Stored responses that the application confirmed.
    pub validated: u64,
    /// Requests that the application answered.
    pub misses: u64,
    /// Requests of the front's own, by which it renews what clients got stale. No other counter of requests has them.
    #[serde(default)]
    pub renewals: u64,
}

impl ResponseCache {
    /// Returns the cache of these settings, empty.
    pub fn new(settings: &Settings) -> Self {
        let cache = Self {
            on: AtomicBool::new(false),
            store: Mutex::new(None),
            standard: AtomicBool::new(false),
            entry_bytes: AtomicUsize::new(0),
            limit: Mutex::new(None),
            filling: Mutex::default(),
            counters: CacheCounters::default(),
        };
        cache.apply(settings);
        cache
    }

    /// Puts these settings in force. Another size begins with an empty cache.
    pub fn apply(&self, settings: &Settings) {
        let standard = settings.cache_policy == CachePolicy::Standard;
        self.standard.store(standard, Ordering::Relaxed);
        let entry_bytes = settings.cache_entry_bytes;
        self.entry_bytes.store(entry_bytes, Ordering::Relaxed);
        let limit = settings.cache_bytes;
        if std::mem::replace(&mut *lock(&self.limit), limit) != limit {
            *self.store() = limit.map(Store::new);
            self.on.store(limit.is_some(), Ordering::Relaxed);
        }
    }

    /// Whether there is one.
    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// How much a response must say to be stored.
    pub fn policy(&self) -> Policy {
        match self.standard.load(Ordering::Relaxed) {
            true => Policy::Standard,
            false => Policy::Explicit,
        }
    }

    /// The longest body that is stored.
    pub fn entry_bytes(&self) -> usize {
        self.entry_bytes.load(Ordering::Relaxed)
    }

    fn find(&self, key: &Key, request: &HeaderMap) -> Option<Arc<Entry>> {
        self.store().as_ref()?.find(key, request)
    }

    /// How often something was forgotten so far.
    fn changed(&self) -> u64 {
        self.store().as_ref().map_or(0, Store::changed)
    }

    /// Stores a response that was asked for when [`ResponseCache::changed`] was `since`, unless it was to be forgotten since.
    fn insert(&self, key: Key, entry: Entry, since: u64) -> Arc<Entry> {
        match &mut *self.store() {
            Some(store) if !store.has_forgotten(&key, &entry, since) => store.insert(key, entry),
            _ => Arc::new(entry),
        }
    }

    /// Keeps the body of a stored response in a coding too; empty where that is no shorter.
    pub(super) fn keep_encoded(
        &self,
        key: &Key,
        entry: &Entry,
        coding: &'static str,
        bytes: Bytes,
    ) {
        if let Some(store) = &mut *self.store() {
            store.keep_encoded(key, entry, coding, bytes);
        }
    }

    /// Forgets the responses to a target that a request has changed.
    fn forget(&self, key: &Key) {
        if let Some(store) = &mut *self.store() {
            store.remove(key);
        }
    }

    /// Notes that a response to it was not stored: nobody waits for the next one.
    fn note_not_stored(&self, key: &Key) {
        if let Some(store) = &mut *self.store() {
            store.not_stored(key);
        }
    }

    fn was_stored(&self, key: &Key) -> bool {
        let store = self.store();
        store.as_ref().is_some_and(|store| store.was_stored(key))
    }

    /// Forgets what is named. Returns of how many targets.
    pub fn purge(&self, what: &Purge) -> usize {
        self.store().as_mut().map_or(0, |store| store.purge(what))
    }

    /// Counts all that is there as stale: the code that made it was replaced.
    pub fn outdate(&self) {
        if let Some(store) = &mut *self.store() {
            store.outdate(SystemTime::now());
        }
    }

    /// What is in it, if there is one.
    pub fn status(&self) -> Option<CacheStatus> {
        let stats = self.store().as_ref()?.stats();
        let counters = &self.counters;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Some(CacheStatus {
            targets: stats.targets,
            bytes: stats.bytes,
            limit_bytes: stats.limit,
            hits: read(&counters.hits),
            stale: read(&counters.stale),
            validated: read(&counters.validated),
            misses: read(&counters.misses),
            renewals: read(&counters.renewals),
        })
    }

    fn store(&self) -> MutexGuard<'_, Option<Store>> {
        lock(&self.store)
    }

    fn filling(&self) -> MutexGuard<'_, HashMap<Key, Arc<Notify>>> {
        lock(&self.filling)
    }
}

/// No code that holds a lock of the cache can panic half way through a change.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CacheCounters {
    fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// The requests that were looked at, by what became of them.
    fn named(&self) -> [(&'static str, &AtomicU64); 4] {
        [
            ("hit", &self.hits),
            ("stale", &self.stale),
            ("validated", &self.validated),
            ("miss", &self.misses),
        ]
    }

    /// The same, read.
    pub(crate) fn read(&self) -> Counts {
        let read =
            |(name, count): (&str, &AtomicU64)| (name.to_owned(), count.load(Ordering::Relaxed));
        self.named().map(read).into()
    }

    /// Adds what another server has counted; unknown names are left out.
    pub(crate) fn add_all(&self, counts: &Counts) {
        for (name, count) in self.named() {
            let more = counts.get(name).copied().unwrap_or(0);
            let add = |count: u64| Some(count.saturating_add(more));
            // It always has a new value.
            let _ = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        }
    }
}
