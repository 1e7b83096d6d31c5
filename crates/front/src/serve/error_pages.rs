//! The pages for errors that the front itself answers with (setting `error_pages`). It never replaces a response of the
//! application, and reads no file.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use crate::http::media_types;

/// The statuses that a page may be for.
pub(crate) const STATUSES: [u16; 16] = [
    400, 401, 403, 404, 405, 408, 413, 414, 421, 429, 431, 500, 501, 502, 503, 504,
];

/// The pages, by status.
#[derive(Debug, Default)]
pub struct ErrorPages(RwLock<BTreeMap<u16, Bytes>>);

impl ErrorPages {
    /// Puts these pages in the place of those before.
    pub(crate) fn replace(&self, pages: BTreeMap<u16, Bytes>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = pages;
    }

    /// Returns the page for a status, if there is one and the client accepts HTML.
    pub fn find(&self, status: StatusCode, headers: &HeaderMap) -> Option<Bytes> {
        // They are replaced as a whole.
        let pages = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let page = pages.get(&status.as_u16()).cloned();
        drop(pages);
        page.filter(|_| media_types::names(headers, "text/html"))
    }
}
