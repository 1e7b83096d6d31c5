//! What a request asks for: its target in parts, as the client sent it. Nothing is decoded.

use http::uri::Authority;

use super::Request;

impl Request {
    /// The path, as the client sent it; `/` where an absolute target has none (RFC 9112 section 3.2.2).
    pub fn path(&self) -> &[u8] {
        match (&self.raw_target, self.uri.path()) {
            (Some(raw), _) => raw.path(),
            (None, "") => b"/",
            (None, path) => path.as_bytes(),
        }
    }

    /// The query without the question mark, as the client sent it; empty where there is none.
    pub fn query(&self) -> &[u8] {
        match &self.raw_target {
            Some(raw) => raw.query(),
            None => self.uri.query().unwrap_or("").as_bytes(),
        }
    }

    /// Path and query, as the client sent them. For the log: of an absolute target either may be missing.
    pub fn target(&self) -> &[u8] {
        match &self.raw_target {
            Some(raw) => raw.path_and_query(),
            None => self
                .uri
                .path_and_query()
                .map_or(b"/", |target| target.as_str().as_bytes()),
        }
    }

    /// The host and port of an absolute target.
    pub fn authority(&self) -> Option<&Authority> {
        self.uri.authority()
    }
}
