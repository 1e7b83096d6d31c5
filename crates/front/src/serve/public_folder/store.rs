//! What is known of paths, for a short time: the file that each means, or that there is none. Bounded by count and bytes.
//! It asks no file system.

use std::collections::HashMap;
use std::rc::Rc;

use bytes::Bytes;

use super::file::KnownFile;

/// Paths that are known at once.
const MAX_PATHS: usize = 4096;
/// Longest path that is kept.
const MAX_KEY_BYTES: usize = 512;
/// Bytes of files that are kept at once.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// What a path means.
#[derive(Clone)]
pub enum Meaning {
    /// No file.
    Nothing,
    /// This file.
    File(Rc<KnownFile>),
}

impl Meaning {
    fn bytes(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::File(file) => file.memory(),
        }
    }
}

struct Entry {
    meaning: Meaning,
    /// When it was looked up, in milliseconds of the coarse clock.
    checked_ms: u64,
    /// Whether it is being looked up: until then what is known counts.
    checking: bool,
    /// Whether it was asked for since room was last made.
    used: bool,
}

/// What is known of paths.
#[derive(Default)]
pub struct Store {
    entries: HashMap<Box<[u8]>, Entry>,
    bytes: usize,
}

impl Store {
    /// What the path means, if that was looked up since `since_ms`, or is being looked up.
    pub fn fresh(&mut self, path: &[u8], since_ms: u64) -> Option<Meaning> {
        let entry = self.entries.get_mut(path)?;
        entry.used = true;
        (entry.checking || entry.checked_ms >= since_ms).then(|| entry.meaning.clone())
    }

    /// Notes that the path is being looked up, and returns what is known.
    pub fn begin(&mut self, path: &[u8]) -> Option<Rc<KnownFile>> {
        let entry = self.entries.get_mut(path)?;
        entry.checking = true;
        match &entry.meaning {
            Meaning::Nothing => None,
            Meaning::File(file) => Some(Rc::clone(file)),
        }
    }

    /// Notes that looking it up ended; without a `meaning` with what is known.
    pub fn end(&mut self, path: &[u8], meaning: Option<Meaning>, now_ms: u64) {
        if let Some(entry) = self.entries.get_mut(path) {
            entry.checking = false;
            entry.checked_ms = now_ms;
            if let Some(meaning) = meaning {
                self.bytes = self.bytes - entry.meaning.bytes() + meaning.bytes();
                entry.meaning = meaning;
            }
        } else if let Some(meaning) = meaning
            && path.len() <= MAX_KEY_BYTES
        {
            self.bytes += meaning.bytes();
            let entry = Entry {
                meaning,
                checked_ms: now_ms,
                checking: false,
                used: true,
            };
            self.entries.insert(path.into(), entry);
        }
        self.make_room();
    }

    /// Keeps the file that a path means in a coding too. Without effect where it means another one by now.
    pub fn keep_encoded(
        &mut self,
        path: &[u8],
        file: &Rc<KnownFile>,
        coding: &'static str,
        encoded: Bytes,
    ) {
        let meaning = self.entries.get(path).map(|entry| &entry.meaning);
        let is_meant = matches!(meaning, Some(Meaning::File(known)) if Rc::ptr_eq(known, file));
        let bytes = encoded.len();
        if is_meant && file.keep_encoded(coding, encoded) {
            self.bytes += bytes;
            self.make_room();
        }
    }

    /// Forgets what a path means.
    pub fn forget(&mut self, path: &[u8]) {
        if let Some(entry) = self.entries.remove(path) {
            self.bytes -= entry.meaning.bytes();
        }
    }

    /// Drops what was not asked for since the last time, or all.
    fn make_room(&mut self) {
        if self.entries.len() <= MAX_PATHS && self.bytes <= MAX_BYTES {
            return;
        }
        self.entries
            .retain(|_, entry| std::mem::take(&mut entry.used) || entry.checking);
        self.bytes = self
            .entries
            .values()
            .map(|entry| entry.meaning.bytes())
            .sum();
        if self.entries.len() > MAX_PATHS * 3 / 4 || self.bytes > MAX_BYTES / 4 * 3 {
            self.entries.clear();
            self.bytes = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::public_folder::lookup::{Looked, Site};

    #[test]
    fn what_is_known_counts_until_it_is_old_or_looked_up_again() {
        let mut store = Store::default();
        assert!(store.fresh(b"/a", 0).is_none());
        assert!(store.begin(b"/a").is_none());
        store.end(b"/a", Some(Meaning::Nothing), 1000);
        assert!(store.fresh(b"/a", 1000).is_some());
        assert!(store.fresh(b"/a", 1001).is_none());
        store.begin(b"/a");
        assert!(store.fresh(b"/a", 5000).is_some());
        store.end(b"/a", None, 5000);
        assert!(store.fresh(b"/a", 5000).is_some());
        store.forget(b"/a");
        assert!(store.fresh(b"/a", 0).is_none());
    }

    #[test]
    fn paths_are_kept_up_to_a_bound() {
        let mut store = Store::default();
        for at in 0..3 * MAX_PATHS {
            store.end(format!("/{at}").as_bytes(), Some(Meaning::Nothing), 1);
            assert!(store.entries.len() <= MAX_PATHS);
        }
        let long = vec![b'a'; MAX_KEY_BYTES + 1];
        store.end(&long, Some(Meaning::Nothing), 1);
        assert!(store.fresh(&long, 0).is_none());
    }

    /// A file whose content of so many bytes is in memory.
    fn file(bytes: usize) -> Meaning {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.css"), vec![b'a'; bytes]).unwrap();
        let site = Site {
            root: folder.path().canonicalize().unwrap(),
            earlier: Vec::new(),
            index: "index".to_owned(),
            rack: 3,
            reader: crate::serve::reader::Reader::default(),
        };
        match site.look(b"/a.css", None).unwrap() {
            Looked::Found(found) => Meaning::File(Rc::new(KnownFile::new(found))),
            other => unreachable!("{other:?}"),
        }
    }

    #[test]
    fn a_file_is_kept_in_each_coding_once_and_counted() {
        let mut store = Store::default();
        let meaning = file(1000);
        let Meaning::File(known) = meaning.clone() else {
            unreachable!("a file")
        };
        store.end(b"/a", Some(meaning), 1);
        let before = store.bytes;
        assert_eq!(known.encoded("gzip"), None);
        for _ in 0..2 {
            store.keep_encoded(b"/a", &known, "gzip", Bytes::from_static(b"short"));
            store.keep_encoded(b"/a", &known, "zstd", Bytes::new());
        }
        assert_eq!(known.encoded("gzip").as_deref(), Some(&b"short"[..]));
        assert_eq!(known.encoded("zstd").as_deref(), Some(&b""[..]));
        assert_eq!(store.bytes, before + 5);
        // Another file of the same path has none of that, and the old one gets no more.
        store.end(b"/a", Some(file(1000)), 2);
        assert_eq!(store.bytes, before);
        store.keep_encoded(b"/a", &known, "br", Bytes::from_static(b"shorter"));
        assert_eq!((known.encoded("br"), store.bytes), (None, before));
        store.forget(b"/a");
        assert_eq!(store.bytes, 0);
    }

    #[test]
    fn files_in_codings_stay_within_the_bound() {
        let mut store = Store::default();
        let length = 100 * 1024;
        for at in 0..MAX_BYTES / length {
            let path = format!("/{at}");
            let meaning = file(length);
            store.end(path.as_bytes(), Some(meaning.clone()), 1);
            if let Meaning::File(known) = meaning {
                for coding in ["gzip", "zstd", "br"] {
                    let encoded = Bytes::from(vec![0; length - 1]);
                    store.keep_encoded(path.as_bytes(), &known, coding, encoded);
                    assert!(store.bytes <= MAX_BYTES);
                }
            }
        }
        assert!(store.bytes > MAX_BYTES / 4);
    }
}
