//! A folder that is served, and what is known of it for a short time. It asks no file system.

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};

use super::file::KnownFile;
use super::lookup::{LookedNames, Names, Site};
use super::store::{Meaning, Store};
use crate::serve::reader::Reader;

/// How long what is known of a path counts. With the step of the coarse clock it is less than a second.
const KNOWN_FOR_MS: u64 = 500;

/// A folder to be served, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Published {
    /// The folder.
    pub path: PathBuf,
    /// The name of a folder's own page, without `.html`.
    pub index: String,
    /// Fields of every response.
    pub headers: Vec<(String, String)>,
    /// Whether only requests over https are answered from it.
    pub https_only: bool,
    /// The major version of the application's Rack.
    pub rack: u32,
}

/// A folder that is served.
pub struct Served {
    site: Arc<Site>,
    headers: Vec<(HeaderName, HeaderValue)>,
    https_only: bool,
    store: RefCell<Store>,
    names: RefCell<KnownNames>,
}

/// The names in the folder itself.
#[derive(Default)]
struct KnownNames {
    names: Option<Arc<Names>>,
    checked_ms: Option<u64>,
    checking: bool,
}

impl Served {
    /// Returns this folder, of which nothing is known yet.
    pub fn new(root: PathBuf, earlier: Vec<PathBuf>, folder: &Published, reader: Reader) -> Self {
        let headers = folder.headers.iter().filter_map(|(name, value)| {
            let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
            let value = HeaderValue::from_str(value).ok()?;
            is_free(&name).then_some((name, value))
        });
        Self {
            headers: headers.collect(),
            https_only: folder.https_only,
            site: Arc::new(Site {
                root,
                earlier,
                index: folder.index.clone(),
                rack: folder.rack,
                reader,
            }),
            store: RefCell::default(),
            names: RefCell::default(),
        }
    }

    /// Where files are looked for.
    pub fn site(&self) -> &Arc<Site> {
        &self.site
    }

    /// Whether only requests over https are answered from it.
    pub fn https_only(&self) -> bool {
        self.https_only
    }

    /// Fields of every response.
    pub fn headers(&self) -> &[(HeaderName, HeaderValue)] {
        &self.headers
    }

    /// Forgets what a path means.
    pub fn forget(&self, path: &[u8]) {
        self.store.borrow_mut().forget(path);
    }

    /// Notes that a path is being looked up, and returns the file that it meant before.
    pub fn begin(&self, path: &[u8]) -> Option<Rc<KnownFile>> {
        self.store.borrow_mut().begin(path)
    }

    /// Notes that looking a path up ended; without a `meaning` with what is known.
    pub fn end(&self, path: &[u8], meaning: Option<Meaning>, now_ms: u64) {
        self.store.borrow_mut().end(path, meaning, now_ms);
    }

    /// Keeps the file that a path means in a coding in which it was sent. Without effect where it means another one by now.
    pub fn keep_encoded(
        &self,
        path: &[u8],
        file: &Rc<KnownFile>,
        coding: &'static str,
        encoded: Bytes,
    ) {
        let mut store = self.store.borrow_mut();
        store.keep_encoded(path, file, coding, encoded);
    }

    /// Notes that the names are being looked up, and returns those that are known, if it is time for that.
    pub fn begin_names(&self, now_ms: u64) -> Option<Option<Arc<Names>>> {
        let mut names = self.names.borrow_mut();
        let since = now_ms.saturating_sub(KNOWN_FOR_MS);
        if names.checking || names.checked_ms.is_some_and(|at| at >= since) {
            return None;
        }
        names.checking = true;
        Some(names.names.clone())
    }

    /// Notes that looking the names up ended; `looked` is none where they were not read in time.
    pub fn end_names(&self, looked: Option<std::io::Result<LookedNames>>, now_ms: u64) {
        let mut names = self.names.borrow_mut();
        names.checking = false;
        names.checked_ms = Some(now_ms);
        match looked {
            Some(Ok(LookedNames::Changed(changed))) => names.names = changed.map(Arc::new),
            // Without names every path is looked up.
            Some(Err(_)) => names.names = None,
            Some(Ok(LookedNames::Unchanged)) | None => {}
        }
    }

    /// What the path means, where that is known.
    pub fn known(&self, path: &[u8], now_ms: u64) -> Option<Meaning> {
        let since = now_ms.saturating_sub(KNOWN_FOR_MS);
        if let Some(meaning) = self.store.borrow_mut().fresh(path, since) {
            return Some(meaning);
        }
        let names = self.names.borrow();
        let fresh = names.checking || names.checked_ms.is_some_and(|at| at >= since);
        let known = names.names.as_ref().filter(|_| fresh)?;
        let first = first_segment(path, &self.site.index)?;
        (!known.may_mean(first)).then_some(Meaning::Nothing)
    }
}

/// The first segment of a path, as the names of a folder have it; none where it is written in another way.
fn first_segment<'a>(path: &'a [u8], index: &'a str) -> Option<&'a [u8]> {
    let path = path.strip_prefix(b"/")?;
    if path.is_empty() {
        return Some(index.as_bytes());
    }
    let segment = path.split(|&byte| byte == b'/').next()?;
    let plain = |&byte: &u8| byte.is_ascii_graphic() && byte != b'%';
    (!segment.is_empty() && segment[0] != b'.' && segment.iter().all(plain)).then_some(segment)
}

/// Whether a field is not the front's own.
fn is_free(name: &HeaderName) -> bool {
    ![
        header::CONNECTION,
        header::CONTENT_ENCODING,
        header::CONTENT_LENGTH,
        header::CONTENT_RANGE,
        header::CONTENT_TYPE,
        header::DATE,
        header::ETAG,
        header::LAST_MODIFIED,
        header::TRANSFER_ENCODING,
        header::UPGRADE,
    ]
    .contains(name)
}
