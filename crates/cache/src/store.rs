//! Where responses are kept: in memory, within a bound. What was not used for long goes first.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use http::HeaderMap;
use quick_cache::Weighter;
use quick_cache::unsync::Cache;

use crate::entry::Entry;
use crate::key::Key;

/// The most responses to one target that vary by the request.
const MAX_VARIANTS: usize = 16;
/// Keys of which the store knows that they are worth waiting for.
const STORABLE_KEYS: usize = 4096;
/// Changes that the store remembers for responses that were asked for before them.
const REMEMBERED_CHANGES: usize = 1024;
/// What a typical entry takes, in bytes: the store is made for as many as fit.
const TYPICAL_BYTES: usize = 8 * 1024;

/// All responses to one target.
type Variants = Arc<[Arc<Entry>]>;

#[derive(Clone, Debug)]
struct ByBytes;

impl Weighter<Key, Variants> for ByBytes {
    fn weight(&self, key: &Key, variants: &Variants) -> u64 {
        let entries: usize = variants.iter().map(|entry| entry.bytes()).sum();
        (key.bytes() + entries) as u64
    }
}

/// What is to be forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purge {
    /// Everything.
    All,
    /// This URL, with or without its scheme, or this path and query of any host.
    Url(Vec<u8>),
    /// All that begin so.
    Prefix(Vec<u8>),
    /// What has this tag.
    Tag(Vec<u8>),
}

impl Purge {
    /// Whether it names this response.
    fn names(&self, key: &Key, entry: &Entry) -> bool {
        match self {
            Self::All => true,
            Self::Url(url) => key.comparable(url) == &url[..],
            Self::Prefix(url) => key.comparable(url).starts_with(url),
            Self::Tag(tag) => entry.tags().any(|one| one == &tag[..]),
        }
    }
}

/// What responses the store had to forget.
#[derive(Debug)]
enum Forgotten {
    /// Those to this target.
    Key(Key),
    /// Those that a purge names.
    Purged(Purge),
    /// Those of earlier code.
    Outdated,
}

/// What is in a store, and what became of lookups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Targets that have responses.
    pub targets: usize,
    /// Their bytes.
    pub bytes: u64,
    /// The most bytes.
    pub limit: u64,
}

/// Stored responses.
#[derive(Debug)]
pub struct Store {
    cache: Cache<Key, Variants, ByBytes>,
    /// Keys whose last response was stored.
    storable: Cache<Key, ()>,
    /// The number of the next entry.
    next: u64,
    /// Entries with smaller numbers are of earlier code, and since when.
    outdated: Option<(u64, SystemTime)>,
    /// What it had to forget last.
    changes: VecDeque<Forgotten>,
    /// How often it had to forget something.
    changed: u64,
}

impl Store {
    /// Returns an empty store that keeps `bytes` at most.
    pub fn new(bytes: u64) -> Self {
        let typical = (bytes as usize / TYPICAL_BYTES).max(16);
        Self {
            cache: Cache::with_weighter(typical, bytes, ByBytes),
            storable: Cache::new(STORABLE_KEYS),
            next: 1,
            outdated: None,
            changes: VecDeque::new(),
            changed: 0,
        }
    }

    /// How often something was forgotten so far: to be asked before the application is.
    pub fn changed(&self) -> u64 {
        self.changed
    }

    /// Whether a response to `key`, asked for when [`Store::changed`] was `since`, would be forgotten by now if it had been
    /// stored at once.
    pub fn has_forgotten(&self, key: &Key, entry: &Entry, since: u64) -> bool {
        let later = self.changed.saturating_sub(since);
        let Ok(later) = usize::try_from(later) else {
            return true;
        };
        let forgets = |change: &Forgotten| match change {
            Forgotten::Key(other) => other == key,
            Forgotten::Purged(what) => what.names(key, entry),
            Forgotten::Outdated => true,
        };
        later > self.changes.len() || self.changes.iter().rev().take(later).any(forgets)
    }

    /// Remembers a change for responses that are on their way.
    fn note(&mut self, change: Forgotten) {
        if self.changes.len() == REMEMBERED_CHANGES {
            self.changes.pop_front();
        }
        self.changes.push_back(change);
        self.changed += 1;
    }

    /// The response that a request with these fields may get, fresh or not: of several the one that came last.
    pub fn find(&self, key: &Key, request: &HeaderMap) -> Option<Arc<Entry>> {
        let variants = self.cache.get(key)?;
        let matching = variants.iter().filter(|one| one.variant.matches(request));
        let found = matching.max_by_key(|entry| entry.number)?;
        match self.outdated {
            Some((below, since)) if found.number < below => {
                let mut outdated = Entry::clone(found);
                outdated.freshness.expire(since);
                Some(Arc::new(outdated))
            }
            _ => Some(Arc::clone(found)),
        }
    }

    /// Keeps a response, in place of one that answers the same requests.
    pub fn insert(&mut self, key: Key, mut entry: Entry) -> Arc<Entry> {
        entry.number = self.next;
        self.next += 1;
        let entry = Arc::new(entry);
        let others = self.cache.get(&key);
        let others = others.map_or(&[][..], |variants| variants);
        let kept = others.iter().filter(|one| one.variant != entry.variant);
        let kept: Vec<_> = kept.cloned().collect();
        let surplus = (kept.len() + 1).saturating_sub(MAX_VARIANTS);
        let all = kept.into_iter().skip(surplus).chain([Arc::clone(&entry)]);
        let all: Variants = all.collect();
        self.storable.insert(key.clone(), ());
        self.cache.insert(key, all);
        entry
    }

    /// Keeps the body of a stored response in another coding too, empty where that is no shorter. Without effect if the response
    /// was replaced or forgotten meanwhile, or if it would take more than half of the store.
    pub fn keep_encoded(&mut self, key: &Key, entry: &Entry, coding: &'static str, encoded: Bytes) {
        let Some(variants) = self.cache.get(key) else {
            return;
        };
        let is_it = |one: &Arc<Entry>| one.number == entry.number && one.encoded(coding).is_none();
        let Some(at) = variants.iter().position(is_it) else {
            return;
        };
        let bytes = ByBytes.weight(key, variants) + encoded.len() as u64;
        if bytes > self.cache.capacity() / 2 {
            return;
        }
        let mut all = variants.to_vec();
        let mut grown = Entry::clone(&all[at]);
        grown.encoded.push((coding, encoded));
        all[at] = Arc::new(grown);
        self.cache.insert(key.clone(), all.into());
    }

    /// Forgets all responses to a target. Returns whether there was one.
    pub fn remove(&mut self, key: &Key) -> bool {
        self.note(Forgotten::Key(key.clone()));
        self.cache.remove(key).is_some()
    }

    /// Whether the last response to it was stored, though it may be gone by now.
    pub fn was_stored(&self, key: &Key) -> bool {
        self.storable.get(key).is_some()
    }

    /// Notes that a response to it was not stored.
    pub fn not_stored(&mut self, key: &Key) {
        self.storable.remove(key);
    }

    /// Counts what is there as stale from `now` on: the code that made it was replaced.
    pub fn outdate(&mut self, now: SystemTime) {
        self.note(Forgotten::Outdated);
        self.outdated = Some((self.next, now));
    }

    /// Forgets what is named. Returns of how many targets.
    pub fn purge(&mut self, what: &Purge) -> usize {
        self.note(Forgotten::Purged(what.clone()));
        let before = self.cache.len();
        match what {
            Purge::All => self.cache.clear(),
            Purge::Url(url) => self.cache.retain(|key, _| key.comparable(url) != &url[..]),
            Purge::Prefix(url) => {
                self.cache
                    .retain(|key, _| !key.comparable(url).starts_with(url));
            }
            Purge::Tag(tag) => {
                let has = |variants: &Variants| {
                    let mut tags = variants.iter().flat_map(|entry| entry.tags());
                    tags.any(|one| one == &tag[..])
                };
                self.cache.retain(|_, variants| !has(variants));
            }
        }
        before - self.cache.len()
    }

    /// What is in it.
    pub fn stats(&self) -> Stats {
        Stats {
            targets: self.cache.len(),
            bytes: self.cache.weight(),
            limit: self.cache.capacity(),
        }
    }
}
