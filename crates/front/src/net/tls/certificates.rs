//! The certificates of all hosts, and which one a client gets. It reads no file and asks no authority for one: those who do
//! install what they have here.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{SignatureAlgorithm, SignatureScheme};

use crate::net::tls::x509::Details;

/// The protocol by which an authority checks a host over TLS (RFC 8737).
pub(crate) const ACME_PROTOCOL: &[u8] = b"acme-tls/1";

/// A certificate with its key, and the names that it is used for: hosts, and wildcards such as `*.example.com`.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The names, in lower case.
    pub names: Vec<String>,
    /// The certificate with its key.
    pub key: Arc<CertifiedKey>,
}

/// All certificates. Handshakes of all threads look here.
#[derive(Debug, Default)]
pub struct Certificates {
    tables: RwLock<Tables>,
    /// Whether an authority may ask for something over plain HTTP.
    has_http_challenges: AtomicBool,
    unknown: UnknownHosts,
}

/// Ends when a host has a certificate, or gets none for now.
pub type Decided = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Hears of a host that a client has come for and that has no certificate.
type Hear = Box<dyn Fn(&str) -> Option<Decided> + Send + Sync>;

/// Who hears of such hosts, if anybody.
#[derive(Default)]
struct UnknownHosts(OnceLock<Hear>);

impl fmt::Debug for UnknownHosts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("UnknownHosts").finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Tables {
    /// Those of the settings' files, in the settings' order.
    from_files: Vec<Entry>,
    /// Those that were installed, by their names.
    installed: BTreeMap<Vec<String>, Arc<CertifiedKey>>,
    /// For each name, ECDSA before RSA.
    by_name: HashMap<String, Vec<Arc<CertifiedKey>>>,
    /// For clients that name no host.
    default: Vec<Arc<CertifiedKey>>,
    alpn_challenges: HashMap<String, Arc<CertifiedKey>>,
    http_challenges: HashMap<String, String>,
}

impl Certificates {
    /// Uses this certificate for these names from now on, in place of what was installed for the same names. Certificates of
    /// files come first.
    pub fn install(&self, names: &[String], key: Arc<CertifiedKey>) {
        let mut names: Vec<_> = names.iter().map(|name| name.to_ascii_lowercase()).collect();
        names.sort();
        let mut tables = self.write();
        tables.installed.insert(names, key);
        tables.arrange();
    }

    /// Answers an authority that asks for this host by `acme-tls/1` with this certificate, or no longer (RFC 8737).
    pub fn challenge_alpn(&self, name: &str, key: Option<Arc<CertifiedKey>>) {
        let name = name.to_ascii_lowercase();
        let challenges = &mut self.write().alpn_challenges;
        match key {
            Some(key) => challenges.insert(name, key),
            None => challenges.remove(&name),
        };
    }

    /// Answers requests for `/.well-known/acme-challenge/TOKEN` with this text, or no longer (RFC 8555 section 8.3).
    pub fn challenge_http(&self, token: &str, answer: Option<String>) {
        let challenges = &mut self.write().http_challenges;
        match answer {
            Some(answer) => challenges.insert(token.to_owned(), answer),
            None => challenges.remove(token),
        };
        let any = !challenges.is_empty();
        self.has_http_challenges.store(any, Ordering::Relaxed);
    }

    /// The answer to a request of an authority for this token.
    pub(crate) fn http_answer(&self, token: &str) -> Option<String> {
        if !self.has_http_challenges() {
            return None;
        }
        self.read().http_challenges.get(token).cloned()
    }

    /// Whether [`Certificates::http_answer`] has an answer for some token.
    pub(crate) fn has_http_challenges(&self) -> bool {
        self.has_http_challenges.load(Ordering::Relaxed)
    }

    /// The certificate that answers an authority that asks for this host.
    pub(crate) fn alpn_answer(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        self.read().alpn_challenges.get(name).cloned()
    }

    /// Uses these certificates of files from now on, in place of all earlier ones of files.
    pub fn set_files(&self, entries: Vec<Entry>) {
        let mut tables = self.write();
        tables.from_files = entries;
        tables.arrange();
    }

    /// Has `hear` hear of each host that a client comes for and that has no certificate. It must not wait; the client waits
    /// for what it returns. Only the first call counts.
    pub fn on_unknown_host(&self, hear: impl Fn(&str) -> Option<Decided> + Send + Sync + 'static) {
        let _ = self.unknown.0.set(Box::new(hear));
    }

    /// Whether there is a certificate for this host, if need be after waiting for the one that the client has caused.
    pub(crate) async fn knows_or_gets(&self, name: &str) -> bool {
        if self.knows(name) {
            return true;
        }
        let Some(decided) = self.unknown.0.get().and_then(|hear| hear(name)) else {
            return false;
        };
        decided.await;
        self.knows(name)
    }

    /// Whether there is a certificate for this host.
    pub fn knows(&self, name: &str) -> bool {
        let tables = self.read();
        tables.of(name).is_some_and(|found| !found.is_empty())
    }

    /// Whether there is none at all.
    pub fn is_empty(&self) -> bool {
        self.read().default.is_empty()
    }

    /// All certificates: those of files first.
    pub fn all(&self) -> Vec<Entry> {
        let tables = self.read();
        let installed = tables.installed.iter().map(|(names, key)| Entry {
            names: names.clone(),
            key: Arc::clone(key),
        });
        tables.from_files.iter().cloned().chain(installed).collect()
    }

    /// The same, with what each says of itself.
    pub(crate) fn described(&self) -> Vec<(Entry, Details)> {
        let all = self.all().into_iter().filter_map(|entry| {
            let details = Details::of(entry.key.end_entity_cert().ok()?).ok()?;
            Some((entry, details))
        });
        all.collect()
    }

    fn read(&self) -> RwLockReadGuard<'_, Tables> {
        // No code that holds it can panic half way through a change.
        self.tables.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Tables> {
        self.tables.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tables {
    /// Builds the tables that handshakes look into.
    fn arrange(&mut self) {
        let installed = self.installed.iter();
        let all: Vec<(&[String], &Arc<CertifiedKey>)> = self
            .from_files
            .iter()
            .map(|entry| (&entry.names[..], &entry.key))
            .chain(installed.map(|(names, key)| (&names[..], key)))
            .collect();
        let mut by_name: HashMap<String, Vec<Arc<CertifiedKey>>> = HashMap::new();
        for (names, key) in &all {
            for name in *names {
                by_name
                    .entry(name.clone())
                    .or_default()
                    .push(Arc::clone(key));
            }
        }
        let is_rsa = |key: &Arc<CertifiedKey>| key.key.algorithm() == SignatureAlgorithm::RSA;
        for keys in by_name.values_mut() {
            // A signature by ECDSA costs a fraction of one by RSA.
            keys.sort_by_key(is_rsa);
        }
        // The first certificate's names tell which others serve the same host with another kind of key.
        let first = all.first();
        let mut default = first.map_or_else(Vec::new, |(names, key)| {
            let same = names.first().and_then(|name| by_name.get(name));
            same.cloned().unwrap_or_else(|| vec![Arc::clone(key)])
        });
        default.sort_by_key(is_rsa);
        (self.by_name, self.default) = (by_name, default);
    }

    /// Those of a host: its own, otherwise those of the wildcard that covers it (RFC 6125 section 6.4.3: one label).
    fn of(&self, name: &str) -> Option<&Vec<Arc<CertifiedKey>>> {
        self.by_name.get(name).or_else(|| {
            let (_, parent) = name.split_once('.')?;
            self.by_name.get(&format!("*.{parent}"))
        })
    }
}

/// Returns the first one with which the server can sign in a way that the client knows. Without one, any: the handshake then
/// fails with the alert that says so, and not with `access_denied`.
fn usable(keys: &[Arc<CertifiedKey>], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
    let signs = |key: &&Arc<CertifiedKey>| key.key.choose_scheme(schemes).is_some();
    keys.iter().find(signs).or(keys.first()).cloned()
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let tables = self.read();
        let keys = match hello.server_name() {
            Some(name) => tables.of(name)?,
            None => &tables.default,
        };
        usable(keys, hello.signature_schemes())
    }
}
