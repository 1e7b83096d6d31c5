//! Maintenance: who is served while it lasts, and what all others get. It reads no file.

use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use config::Settings;
use http::HeaderMap;

use crate::http::media_types;

/// The forms of its file: extension, media type, and what the response says of its type. The first one that the client names
/// is sent, otherwise the last one that is there.
pub(crate) const FORMS: [(&str, &str, &str); 3] = [
    ("html", "text/html", "text/html; charset=utf-8"),
    ("json", "application/json", "application/json"),
    ("txt", "text/plain", "text/plain; charset=utf-8"),
];

/// The contents of its files, in the order of [`FORMS`].
pub(crate) type Pages = [Option<Bytes>; FORMS.len()];

/// Whether there is maintenance, and what clients get then.
#[derive(Debug, Default)]
pub struct Maintenance(RwLock<Option<Arc<Pages>>>);

impl Maintenance {
    /// Puts these pages in the place of those before; without any there is no maintenance.
    pub(crate) fn replace(&self, pages: Pages) {
        let is_on = pages.iter().any(Option::is_some);
        let pages = is_on.then(|| Arc::new(pages));
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = pages;
    }

    /// Whether there is maintenance.
    pub fn is_on(&self) -> bool {
        self.pages().is_some()
    }

    /// Whether a client gets its page and nothing else.
    pub(super) fn stops(&self, settings: &Settings, path: &[u8], client: Option<IpAddr>) -> bool {
        self.is_on()
            && settings.priority_paths.find(path).is_none()
            && settings.maintenance_except.find(path).is_none()
            && !settings.maintenance_allow.contains_client(client)
    }

    /// Returns what such a client gets, with the content type; none where the file is empty.
    pub fn page(&self, headers: &HeaderMap) -> Option<(Bytes, &'static str)> {
        let pages = self.pages()?;
        let there = || {
            FORMS
                .iter()
                .zip(pages.iter())
                .filter(|(_, page)| page.is_some())
        };
        let named = there().find(|((_, media_type, _), _)| media_types::names(headers, media_type));
        let ((_, _, content_type), page) = named.or_else(|| there().last())?;
        let page = page.clone().filter(|page| !page.is_empty())?;
        Some((page, content_type))
    }

    fn pages(&self) -> Option<Arc<Pages>> {
        // They are replaced as a whole.
        let pages = self.0.read().unwrap_or_else(PoisonError::into_inner);
        pages.clone()
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_client_gets_the_form_that_it_names_or_the_last_one() {
        let page = |pages: [Option<&'static str>; 3], accept: &'static str| {
            let maintenance = Maintenance::default();
            maintenance.replace(pages.map(|page| page.map(Bytes::from)));
            let accept = HeaderValue::from_static(accept);
            let headers = HeaderMap::from_iter([(http::header::ACCEPT, accept)]);
            maintenance.page(&headers).map(|(page, _)| page)
        };
        let all = [Some("html"), Some("json"), Some("txt")];
        assert_eq!(page(all, "text/html").as_deref(), Some(&b"html"[..]));
        assert_eq!(page(all, "application/json").as_deref(), Some(&b"json"[..]));
        assert_eq!(page(all, "*/*").as_deref(), Some(&b"txt"[..]));
        let html = [Some("html"), None, None];
        assert_eq!(page(html, "*/*").as_deref(), Some(&b"html"[..]));
        assert_eq!(page([None, None, Some("")], "*/*"), None);
        assert_eq!(page([None, None, None], "*/*"), None);
    }
}
