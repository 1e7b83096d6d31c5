//! Answers: a JSON value, a text, lines that follow one another, or a problem in plain words. It decides nothing.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use http_body::{Frame, SizeHint};
use serde::Serialize;
use tokio::sync::mpsc;

/// Lines that wait for a client which does not read.
const WAITING_LINES: usize = 4;

/// What a route answers.
pub type Answer = Response<Body>;

/// The body of an answer.
#[derive(Debug)]
pub enum Body {
    /// All of it.
    Whole(Bytes),
    /// Lines as they come.
    Lines(mpsc::Receiver<Bytes>),
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Self::Lines(lines) => {
                let line = ready!(lines.poll_recv(cx));
                Poll::Ready(line.map(|line| Ok(Frame::data(line))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Lines(_) => SizeHint::default(),
        }
    }
}

/// Sends the lines of an answer.
#[derive(Clone, Debug)]
pub struct Lines(mpsc::Sender<Bytes>);

/// The client of an answer has left.
#[derive(Debug, thiserror::Error)]
#[error("the client has left")]
pub struct ClientLeft;

impl Lines {
    /// Sends a value as one line of JSON. Waits while the client does not read.
    ///
    /// # Errors
    /// The client has left.
    pub async fn send(&self, value: &impl Serialize) -> Result<(), ClientLeft> {
        let mut line = encode(value);
        line.push(b'\n');
        self.0.send(line.into()).await.map_err(|_| ClientLeft)
    }

    /// Waits until the client has left.
    pub async fn closed(&self) {
        self.0.closed().await;
    }
}

/// Returns an answer whose lines of JSON are still to come (`application/x-ndjson`), and what sends them. It ends when the
/// sender is dropped.
pub fn lines() -> (Lines, Answer) {
    let (sender, lines) = mpsc::channel(WAITING_LINES);
    let answer = answer(StatusCode::OK, "application/x-ndjson", Body::Lines(lines));
    (Lines(sender), answer)
}

/// Returns a value as JSON.
pub fn json(value: &impl Serialize) -> Answer {
    let mut text = encode(value);
    text.push(b'\n');
    let body = Body::Whole(text.into());
    answer(StatusCode::OK, "application/json", body)
}

/// Returns a text of this media type.
pub fn text(content_type: &'static str, text: impl Into<Bytes>) -> Answer {
    answer(StatusCode::OK, content_type, Body::Whole(text.into()))
}

/// Why a request is not carried out: the status of its answer, and the sentence that the client reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    status: StatusCode,
    message: String,
    field: Option<(HeaderName, HeaderValue)>,
}

impl Problem {
    /// A problem with this status; `message` says what happened and what to do.
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
            field: None,
        }
    }

    /// A request that makes no sense: 400.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// Adds a field to the head of its answer.
    pub(crate) fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.field = Some((name, value));
        self
    }

    /// Its answer: a JSON object with the key `error`.
    pub fn into_answer(self) -> Answer {
        let mut answer = json(&serde_json::json!({ "error": self.message }));
        *answer.status_mut() = self.status;
        if let Some((name, value)) = self.field {
            answer.headers_mut().insert(name, value);
        }
        answer
    }
}

fn answer(status: StatusCode, content_type: &'static str, body: Body) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    let fields: &mut HeaderMap = answer.headers_mut();
    fields.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    fields.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

/// A value as JSON. Those that are sent have no map with keys that are no text, so it never fails.
fn encode(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_else(|error| {
        let message = format!("the answer cannot be written as JSON: {error}");
        serde_json::json!({ "error": message })
            .to_string()
            .into_bytes()
    })
}
