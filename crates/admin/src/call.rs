//! A request for a route, read completely and within bounds. It carries nothing out.

use std::net::IpAddr;

use bytes::Bytes;
use http::request::Parts;
use serde::de::DeserializeOwned;

use crate::answer::Problem;

/// A request for a route.
#[derive(Debug)]
pub struct Call {
    head: Parts,
    body: Bytes,
    /// What stands in the path for the route's `{name}`.
    part: Option<String>,
    local: bool,
    peer: Option<IpAddr>,
}

impl Call {
    pub(crate) fn new(head: Parts, body: Bytes, part: Option<String>, local: bool) -> Self {
        Self {
            head,
            body,
            part,
            local,
            peer: None,
        }
    }

    /// The same from this address.
    pub(crate) fn with_peer(self, peer: Option<IpAddr>) -> Self {
        Self { peer, ..self }
    }

    /// The address that it came from; `None` of a socket that has none.
    pub fn peer(&self) -> Option<IpAddr> {
        self.peer
    }

    /// Its body.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Whether it came over the control socket.
    pub fn is_local(&self) -> bool {
        self.local
    }

    /// The head of the request.
    pub fn head(&self) -> &Parts {
        &self.head
    }

    /// What stands in the path for the route's `{name}`; empty if the route has none.
    pub fn part(&self) -> &str {
        self.part.as_deref().unwrap_or_default()
    }

    /// A parameter of the query, as it is written there: names and numbers need no decoding.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let query = self.head.uri.query()?;
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let mut found = pairs.filter(|(key, _)| *key == name);
        found.next().map(|(_, value)| value)
    }

    /// The JSON object of its body; without a body the default.
    ///
    /// # Errors
    /// It is not the JSON that the route takes; the answer says where.
    pub fn json<T: DeserializeOwned + Default>(&self) -> Result<T, Problem> {
        if self.body.is_empty() {
            return Ok(T::default());
        }
        // An array would be read as the values of the fields in their order.
        if !self.body.trim_ascii_start().starts_with(b"{") {
            return Err(Problem::bad_request("the body must be a JSON object"));
        }
        serde_json::from_slice(&self.body).map_err(|error| {
            Problem::bad_request(format!(
                "the body is not the JSON that this path takes: {error}"
            ))
        })
    }
}
