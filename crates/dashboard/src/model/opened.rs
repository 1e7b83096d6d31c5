//! What pages show that have one thing alone: a group of exceptions or a slow request. Texts may come from anywhere.
//!
//! Times of day are seconds of the UNIX epoch.

use serde::Serialize;

use super::{ExceptionGroup, SlowRequest};

/// A group of exceptions, with what only its own page shows.
#[derive(Clone, Debug, Default)]
pub struct OpenedException {
    /// The group.
    pub group: ExceptionGroup,
    /// The application, where there are several.
    pub application: Option<String>,
    /// Class and place of what led to it.
    pub cause: Option<(String, String)>,
    /// The route of the last one.
    pub route: Option<String>,
    /// Whether the application has rescued the last one.
    pub is_handled: bool,
    /// Some of them, the newest first.
    pub samples: Vec<ExceptionSample>,
}

/// One exception.
#[derive(Clone, Debug, Default)]
pub struct ExceptionSample {
    /// When.
    pub at: u64,
    /// Its message.
    pub message: String,
    /// Method and path.
    pub request: String,
    /// The id of the request.
    pub request_id: String,
    /// Release, route, worker and what else is known: name and text.
    pub facts: Vec<(String, String)>,
    /// Parameters, header fields, what the application adds: a title, and names with values.
    pub values: Vec<(String, Vec<(String, String)>)>,
    /// Where it was raised.
    pub backtrace: Vec<TraceLine>,
    /// What led to it, the immediate cause first.
    pub causes: Vec<ExceptionCause>,
}

/// An exception that led to another one.
#[derive(Clone, Debug, Default)]
pub struct ExceptionCause {
    /// Its class.
    pub class: String,
    /// Its message.
    pub message: String,
    /// Where it was raised.
    pub backtrace: Vec<TraceLine>,
}

/// A line of a backtrace.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TraceLine {
    /// As Ruby writes it.
    pub text: String,
    /// Whether it is of the application's own code.
    pub is_own: bool,
}

/// A slow request, with what only its own page shows.
#[derive(Clone, Debug, Default)]
pub struct OpenedSlowRequest {
    /// The request.
    pub request: SlowRequest,
    /// The application, where there are several.
    pub application: Option<String>,
    /// What the thread ran, as text.
    pub stack: String,
}

/// What a page shows alone.
#[derive(Clone, Debug)]
pub enum Opened {
    /// A group of exceptions.
    Exception(OpenedException),
    /// A slow request.
    Slow(OpenedSlowRequest),
    /// Nothing: it is no longer kept.
    Missing,
}
