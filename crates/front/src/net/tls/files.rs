//! Certificates in files: which pairs the settings name, how they are read, and what is wrong with them. It waits for a disk:
//! a thread of `FileThreads` calls it. It installs nothing.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use crate::net::tls::certificates::Entry;
use crate::net::tls::x509::{Details, Unreadable};

/// The largest file that is read.
const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// The largest number of certificates in a folder.
const MAX_PAIRS: usize = 10_000;
/// The permissions of users that are neither the owner nor in the group.
const OTHERS: u32 = 0o007;
/// The names of the two files of a certificate in certbot's folders.
const CERTBOT: [&str; 2] = ["fullchain.pem", "privkey.pem"];

/// The two files of a certificate; one file may hold both.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pair {
    chain: PathBuf,
    key: PathBuf,
}

/// A certificate that cannot be used, and why.
#[derive(Debug, thiserror::Error)]
#[error("certificate {path}: {problem}")]
pub struct FileError {
    path: String,
    problem: Problem,
}

#[derive(Debug, thiserror::Error)]
enum Problem {
    #[error("{0}")]
    Read(#[from] io::Error),
    #[error("the file has more than {MAX_FILE_BYTES} bytes")]
    TooLarge,
    #[error("the folder holds no pair such as NAME.pem and NAME.key")]
    NoPair,
    #[error("the folder holds more than {MAX_PAIRS} certificates")]
    TooManyPairs,
    #[error("it holds no certificate in PEM")]
    NoCertificate,
    #[error("it holds no private key in PEM: {0}")]
    NoKey(String),
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    #[error("it names no host")]
    NoNames,
    #[error(
        "users other than its owner and its group may use this private key; run chmod o= on it"
    )]
    OpenKey,
    #[error("the key is not that of the certificate")]
    WrongKey,
    #[error("{0}")]
    Rustls(rustls::Error),
}

/// What tells that a file was replaced: device, number, size, and time of change.
type Stamp = Option<(u64, u64, u64, i64, i64)>;

/// A pair as it was read last.
#[derive(Debug)]
struct Known {
    pair: Pair,
    stamps: [Stamp; 2],
    /// What was in it when it was last valid.
    entry: Option<Entry>,
}

/// The certificates of the settings' files, as they were read last.
#[derive(Debug, Default)]
pub struct CertificateFiles {
    known: Vec<Known>,
}

/// What a look at the files has found.
#[derive(Debug, Default)]
pub struct Look {
    /// All certificates, if one of them has changed.
    pub changed: Option<Vec<Entry>>,
    /// What is wrong with those that are new or have changed.
    pub problems: Vec<FileError>,
}

impl CertificateFiles {
    /// Looks at the files that `items` of the settings name, and reads what has changed. `dir` is the application's folder. A
    /// pair that is not valid any more stays as it was.
    pub fn look(&mut self, items: &[String], dir: &Path) -> Look {
        let mut look = Look::default();
        let mut pairs = Vec::new();
        for item in items {
            match named(item, dir) {
                Ok(found) => pairs.extend(found),
                Err(error) => look.problems.push(error),
            }
        }
        let mut changed = pairs.len() != self.known.len();
        let mut known = Vec::new();
        for pair in pairs {
            let before = self.known.iter().position(|one| one.pair == pair);
            let before = before.map(|at| self.known.swap_remove(at));
            let stamps = [stamp(&pair.chain), stamp(&pair.key)];
            let mut entry = match before {
                Some(one) if one.stamps == stamps => {
                    known.push(one);
                    continue;
                }
                before => before.and_then(|one| one.entry),
            };
            match read(&pair) {
                Ok(read) => {
                    changed = true;
                    entry = Some(read);
                }
                Err(error) => look.problems.push(error),
            }
            known.push(Known {
                pair,
                stamps,
                entry,
            });
        }
        self.known = known;
        if changed {
            let entries = self.known.iter().filter_map(|one| one.entry.clone());
            look.changed = Some(entries.collect());
        }
        look
    }
}

/// Returns the pairs that an item of the settings names.
fn named(item: &str, dir: &Path) -> Result<Vec<Pair>, FileError> {
    if let Some((chain, key)) = item.split_once(':') {
        let (chain, key) = (dir.join(chain), dir.join(key));
        return Ok(vec![Pair { chain, key }]);
    }
    let path = dir.join(item);
    if !path.is_dir() {
        let (chain, key) = (path.clone(), path);
        return Ok(vec![Pair { chain, key }]);
    }
    let mut pairs = Vec::new();
    let problem = match search(&path, true, &mut pairs) {
        Ok(()) if pairs.is_empty() => Problem::NoPair,
        Ok(()) if pairs.len() > MAX_PAIRS => Problem::TooManyPairs,
        Ok(()) => {
            pairs.sort_by(|one, other| one.chain.cmp(&other.chain));
            return Ok(pairs);
        }
        Err(error) => error.into(),
    };
    Err(wrong(&path, problem))
}

/// Adds the pairs in a folder, and in its subfolders those of certbot.
fn search(folder: &Path, subfolders: bool, pairs: &mut Vec<Pair>) -> io::Result<()> {
    let [chain, key] = CERTBOT.map(|name| folder.join(name));
    if chain.is_file() && key.is_file() {
        pairs.push(Pair { chain, key });
    }
    if !subfolders {
        return Ok(());
    }
    for found in std::fs::read_dir(folder)?.take(2 * MAX_PAIRS) {
        let path = found?.path();
        let kind = path.extension().and_then(|kind| kind.to_str());
        if path.is_dir() {
            search(&path, false, pairs)?;
        } else if matches!(kind, Some("crt" | "pem")) {
            let key = path.with_extension("key");
            if key.is_file() {
                pairs.push(Pair { chain: path, key });
            }
        }
    }
    Ok(())
}

fn stamp(path: &Path) -> Stamp {
    let facts = std::fs::metadata(path).ok()?;
    Some((
        facts.dev(),
        facts.ino(),
        facts.size(),
        facts.mtime(),
        facts.mtime_nsec(),
    ))
}

fn read(pair: &Pair) -> Result<Entry, FileError> {
    let chain = read_file(&pair.chain).map_err(|error| wrong(&pair.chain, error))?;
    let chain = certificates(&chain).map_err(|error| wrong(&pair.chain, error))?;
    let details = Details::of(&chain[0]).map_err(|error| wrong(&pair.chain, error.into()))?;
    if details.names.is_empty() {
        return Err(wrong(&pair.chain, Problem::NoNames));
    }
    let key = read_key(&pair.key).map_err(|error| wrong(&pair.key, error))?;
    let key = CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider());
    let key = key.map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => wrong(&pair.key, Problem::WrongKey),
        error => wrong(&pair.key, Problem::Rustls(error)),
    })?;
    Ok(Entry {
        names: details.names,
        key: Arc::new(key),
    })
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Problem> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        _ => Err(Problem::NoCertificate),
    }
}

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, Problem> {
    if std::fs::metadata(path)?.mode() & OTHERS != 0 {
        return Err(Problem::OpenKey);
    }
    let pem = read_file(path)?;
    PrivateKeyDer::from_pem_slice(&pem).map_err(|error| Problem::NoKey(error.to_string()))
}

fn read_file(path: &Path) -> Result<Vec<u8>, Problem> {
    if std::fs::metadata(path)?.len() > MAX_FILE_BYTES {
        return Err(Problem::TooLarge);
    }
    Ok(std::fs::read(path)?)
}

fn wrong(path: &Path, problem: Problem) -> FileError {
    FileError {
        path: path.display().to_string(),
        problem,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A certificate and its key, in PEM.
    fn signed(names: &[&str]) -> (String, String) {
        let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    fn write(dir: &Path, name: &str, text: &str, mode: u32) {
        let path = dir.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }

    fn names(look: &Look) -> Option<Vec<Vec<String>>> {
        let entries = look.changed.as_ref()?;
        Some(entries.iter().map(|entry| entry.names.clone()).collect())
    }

    #[test]
    fn pairs_are_named_one_by_one_or_by_a_folder() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        std::fs::create_dir_all(dir.join("live/b.test")).unwrap();
        for (chain, key, name) in [
            ("a.pem", "a.key", "A.test"),
            ("live/c.crt", "live/c.key", "c.test"),
            (
                "live/b.test/fullchain.pem",
                "live/b.test/privkey.pem",
                "*.b.test",
            ),
        ] {
            let pair = signed(&[name]);
            write(dir, chain, &pair.0, 0o644);
            write(dir, key, &pair.1, 0o640);
        }
        let pair = signed(&["both.test"]);
        write(dir, "both", &(pair.0 + &pair.1), 0o600);
        let items = ["a.pem:a.key", "live", "both"].map(str::to_owned);
        let mut files = CertificateFiles::default();
        let look = files.look(&items, dir);
        assert!(look.problems.is_empty(), "{:?}", look.problems);
        let expect = [["a.test"], ["*.b.test"], ["c.test"], ["both.test"]];
        assert_eq!(names(&look).unwrap(), expect);
        assert!(files.look(&items, dir).changed.is_none());
        // One that leaves a folder is used no longer.
        std::fs::remove_file(dir.join("live/c.key")).unwrap();
        let expect = [["a.test"], ["*.b.test"], ["both.test"]];
        assert_eq!(names(&files.look(&items, dir)).unwrap(), expect);
    }

    #[test]
    fn a_certificate_that_cannot_be_used_is_named_with_the_reason() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let (one, other) = (signed(&["a.test"]), signed(&["a.test"]));
        let check = |item: &str, expect: &str| {
            let look = CertificateFiles::default().look(&[item.to_owned()], dir);
            let error = look.problems[0].to_string();
            assert!(error.contains(expect), "{item}: {error}");
        };
        write(dir, "a.pem", &one.0, 0o644);
        write(dir, "b.pem", "nothing", 0o644);
        write(dir, "large.pem", &"a".repeat(1_100_000), 0o644);
        write(dir, "a.key", &one.1, 0o600);
        write(dir, "open.key", &one.1, 0o644);
        write(dir, "other.key", &other.1, 0o600);
        write(dir, "no.key", "nothing", 0o600);
        std::fs::create_dir(dir.join("empty")).unwrap();
        check("a.pem:open.key", "open.key: users other than its owner");
        check(
            "a.pem:other.key",
            "other.key: the key is not that of the certificate",
        );
        check("a.pem:no.key", "no.key: it holds no private key");
        check("a.pem:missing.key", "missing.key: No such file");
        check("b.pem:a.key", "b.pem: it holds no certificate");
        check(
            "large.pem:a.key",
            "large.pem: the file has more than 1048576 bytes",
        );
        check("empty", "empty: the folder holds no pair");
        check("missing", "missing: No such file");
    }

    #[test]
    fn a_pair_that_is_no_longer_valid_stays_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let (one, other) = (signed(&["a.test"]), signed(&["a.test"]));
        write(dir, "a.pem", &one.0, 0o644);
        write(dir, "a.key", &one.1, 0o600);
        let items = ["a.pem:a.key".to_owned()];
        let mut files = CertificateFiles::default();
        let first = files.look(&items, dir).changed.unwrap();
        write(dir, "a.key", &other.1, 0o600);
        let look = files.look(&items, dir);
        assert_eq!((look.problems.len(), look.changed.is_some()), (1, false));
        // Said once.
        assert!(files.look(&items, dir).problems.is_empty());
        write(dir, "a.pem", &other.0, 0o644);
        let second = files.look(&items, dir).changed.unwrap();
        assert_ne!(first[0].key.cert, second[0].key.cert);
    }
}
