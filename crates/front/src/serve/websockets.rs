//! How many WebSockets an application has (setting `max_websockets`). It counts them, and never looks into one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::HeaderMap;
use http::header;

use crate::failure::Failure;
use crate::log::throttle::Throttle;
use crate::log::{AccessLog, Level, Value};

/// The WebSockets of one application, at all edges.
#[derive(Debug, Default)]
pub struct WebSockets {
    open: AtomicUsize,
    /// The line of the log that says that there are too many.
    line: Throttle,
}

/// The place of one of them, for as long as this is kept.
#[derive(Debug)]
pub struct Place(Arc<WebSockets>);

/// Whether a request with these fields asks for a WebSocket, or for any other protocol but HTTP/2, which is never taken.
pub(crate) fn asks_for_websocket(headers: &HeaderMap) -> bool {
    let mut protocols = headers.get_all(header::UPGRADE).iter();
    protocols.any(|one| !one.as_bytes().eq_ignore_ascii_case(b"h2c"))
}

impl WebSockets {
    /// Returns a place for a request that asks for one, at this time of the coarse clock. The application need not take its
    /// connection.
    ///
    /// # Errors
    /// There are as many as `limit` allows; the log says so once in a while.
    pub(crate) fn enter(
        self: &Arc<Self>,
        limit: Option<usize>,
        log: &AccessLog,
        now_ms: u64,
    ) -> Result<Place, Failure> {
        if let Some(place) = self.place(limit.unwrap_or(usize::MAX)) {
            return Ok(place);
        }
        if self.line.take(now_ms) {
            let text = "refusing WebSockets: as many are open as max_websockets allows";
            let open = self.open.load(Ordering::Relaxed) as u64;
            let fields = [("open", Value::Number(open))];
            log.event(Level::Warn, text, &fields);
        }
        Err(Failure::TooManyWebSockets)
    }

    /// A place, if fewer than `limit` are taken.
    fn place(self: &Arc<Self>, limit: usize) -> Option<Place> {
        let add = |open: usize| (open < limit).then_some(open + 1);
        let (set, get) = (Ordering::Relaxed, Ordering::Relaxed);
        self.open.fetch_update(set, get, add).ok()?;
        Some(Place(Arc::clone(self)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn places_are_limited_and_come_back() {
        let sockets = Arc::new(WebSockets::default());
        let first = sockets.place(2);
        let _second = sockets.place(2);
        assert!(first.is_some());
        assert!((0..3).all(|_| sockets.place(2).is_none()));
        drop(first);
        assert!(sockets.place(2).is_some());
    }

    #[test]
    fn an_offer_of_http_2_is_no_websocket() {
        let asks = |protocols: &[&'static str]| {
            let pairs = protocols
                .iter()
                .map(|one| (header::UPGRADE, HeaderValue::from_static(one)));
            asks_for_websocket(&HeaderMap::from_iter(pairs))
        };
        assert!(!asks(&[]));
        assert!(!asks(&["h2c"]));
        assert!(!asks(&["H2C"]));
        assert!(asks(&["websocket"]));
        assert!(asks(&["h2c, websocket"]));
    }
}
