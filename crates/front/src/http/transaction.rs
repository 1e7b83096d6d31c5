//! One request and its response, as the edge has them. It decides nothing.

use std::rc::Rc;
use std::sync::Arc;

use crate::http::incoming::IncomingResponse;
use crate::http::request::Request;

/// A request and its response.
#[derive(Clone)]
pub struct Transaction {
    /// What the client asked for.
    pub request: Arc<Request>,
    /// What comes back for it.
    pub response: Rc<IncomingResponse>,
}
