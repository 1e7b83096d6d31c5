//! One request with its response, and what they pass through. It never looks at what either says.

use std::rc::Rc;
use std::sync::Arc;

use crate::edge::Edge;
use crate::http::client_side::ClientSide;
use crate::http::incoming::IncomingResponse;
use crate::http::request::Request;
use crate::log::errors;
use crate::serve::application::Application;

/// A request and its response.
#[derive(Clone)]
pub struct Transaction {
    /// The edge that has it.
    pub edge: Rc<Edge>,
    /// The application that it is for.
    pub application: Rc<Application>,
    /// What it came on, and goes back on.
    pub client: Rc<dyn ClientSide>,
    /// What the client asked for.
    pub request: Arc<Request>,
    /// What comes back for it.
    pub response: Rc<IncomingResponse>,
}

impl Transaction {
    /// Logs what is wrong with the application's response.
    pub fn log_invalid_response(&self, reason: &str) {
        let (by, _) = self.response.run();
        let text = format!("InvalidResponse: {reason}");
        errors::app_error(&self.application.log, &self.request, by, &text);
    }
}
